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
    pub fn take(&self, key: &str, now: Instant) -> Option<Connection> {
        let mut idle = self.idle();
        let waiting = idle.get_mut(key)?;
        while let Some(Idle { mut connection, since }) = waiting.pop() {
            if now.duration_since(since) < LONGEST_IDLE && connection.is_reusable() {
                return Some(connection);
            }
        }
        idle.remove(key);
        None
    }

    /// Keeps a connection for another mail, if it is good for one.
    pub fn put(&self, key: String, mut connection: Connection, now: Instant) {
        if connection.is_reusable() && now.duration_since(connection.opened()) < OLDEST {
            self.idle().entry(key).or_default().push(Idle { connection, since: now });
        } else {
            tokio::spawn(connection.quit());
        }
    }

    /// Takes leave of servers that had nothing to do for too long.
    pub fn sweep(&self, now: Instant) {
        let mut leaving = Vec::new();
        self.idle().retain(|_, waiting| {
            leaving.extend(waiting.extract_if(.., |idle| now.duration_since(idle.since) >= LONGEST_IDLE));
            !waiting.is_empty()
        });
        for Idle { connection, .. } in leaving {
            tokio::spawn(connection.quit());
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc;

    use super::*;
    use crate::config::Relay;
    use crate::dns;
    use crate::smtp::{Client, Hop, Settings};

    const SECOND: Duration = Duration::from_secs(1);

    /// A connection, and what the server hears on it after EHLO.
    async fn connection() -> (Connection, mpsc::UnboundedReceiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let relay = format!("smtp://{}?tls=none", listener.local_addr().expect("an address"));
        let (heard, hearing) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a visitor");
            stream.write_all(b"220 here\r\n").await.expect("written");
            let mut room = [0; 1024];
            assert_ne!(stream.read(&mut room).await.expect("EHLO"), 0);
            stream.write_all(b"250 here\r\n").await.expect("written");
            while let Ok(count @ 1..) = stream.read(&mut room).await {
                let _ = heard.send(String::from_utf8_lossy(&room[..count]).into_owned());
            }
        });
        let relay: Relay = relay.parse().expect("a relay");
        let settings = Settings::new("us.example", None).expect("settings");
        let client = Client::new(settings, dns::tests::resolver().await);
        (client.connect(&Hop::Relay(&relay)).await.expect("a connection"), hearing)
    }

    #[tokio::test]
    async fn a_connection_is_used_for_as_long_as_it_is_young_however_many_mails_that_are() {
        let (pool, (mut connection, mut heard)) = (Pool::default(), connection().await);
        let (opened, mut age, mut count) = (connection.opened(), Duration::ZERO, 0);
        while age < OLDEST {
            pool.put("key".into(), connection, opened + age);
            age += SECOND;
            connection = pool.take("key", opened + age).expect("it is young");
            count += 1;
        }
        assert_eq!((age, count), (OLDEST, 300));
        pool.put("key".into(), connection, opened + age);
        assert!(pool.take("key", opened + age).is_none(), "it was used for long enough");
        assert_eq!(heard.recv().await.as_deref(), Some("QUIT\r\n"));
    }

    #[tokio::test]
    async fn a_connection_that_waited_for_too_long_is_not_used_and_taken_leave_of() {
        let (pool, (connection, _hearing)) = (Pool::default(), connection().await);
        let put_at = connection.opened();
        pool.put("key".into(), connection, put_at);
        let connection = pool.take("key", put_at + LONGEST_IDLE - SECOND).expect("it has not waited for long");
        pool.put("key".into(), connection, put_at);
        assert!(pool.take("key", put_at + LONGEST_IDLE).is_none());

        let (connection, mut heard) = self::connection().await;
        let put_at = connection.opened();
        pool.put("key".into(), connection, put_at);
        pool.sweep(put_at + LONGEST_IDLE - SECOND);
        assert!(heard.try_recv().is_err());
        pool.sweep(put_at + LONGEST_IDLE);
        assert_eq!(heard.recv().await.as_deref(), Some("QUIT\r\n"));
    }
}
