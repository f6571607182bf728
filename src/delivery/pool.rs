//! Connections that wait for another mail. They are used again for as long as they are young,
//! however many mails that were: by number, the slowest server would get most connections.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::smtp::Connection;

/// For how long a connection is used, and for how long it waits.
const OLDEST: Duration = Duration::from_secs(300);
const LONGEST_IDLE: Duration = Duration::from_secs(2);

#[derive(Default)]
pub struct Pool(Mutex<HashMap<String, Vec<Idle>>>);

struct Idle {
    connection: Connection,
    since: Instant,
}

impl Pool {
    fn idle(&self) -> MutexGuard<'_, HashMap<String, Vec<Idle>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection to this server that can take another mail: the one that was used last.
    pub fn take(&self, key: &str) -> Option<Connection> {
        let mut idle = self.idle();
        let waiting = idle.get_mut(key)?;
        while let Some(Idle { mut connection, since }) = waiting.pop() {
            if since.elapsed() < LONGEST_IDLE && connection.is_reusable() {
                return Some(connection);
            }
        }
        idle.remove(key);
        None
    }

    /// Keeps a connection for another mail, if it is good for one.
    pub fn put(&self, key: String, mut connection: Connection) {
        if connection.is_reusable() && connection.age() < OLDEST {
            self.idle().entry(key).or_default().push(Idle { connection, since: Instant::now() });
        } else {
            tokio::spawn(connection.quit());
        }
    }

    /// Takes leave of servers that had nothing to do for too long.
    pub fn sweep(&self) {
        let mut leaving = Vec::new();
        self.idle().retain(|_, waiting| {
            leaving.extend(waiting.extract_if(.., |idle| idle.since.elapsed() >= LONGEST_IDLE));
            !waiting.is_empty()
        });
        for Idle { connection, .. } in leaving {
            tokio::spawn(connection.quit());
        }
    }
}
