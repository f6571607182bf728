//! Ends reads that take too long. A read keeps the log from starting over, and
//! whoever asked for it has been told long ago that there is no answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::{Connection, InterruptHandle};

/// How long a read may take: as long as somebody waits for it.
const LIMIT: Duration = if cfg!(test) { Duration::from_secs(1) } else { crate::db::PATIENCE };

/// Counts the beginnings and the ends of one connection's reads: while it is odd,
/// one is under way.
#[derive(Clone, Default)]
pub(super) struct Turns(Arc<AtomicU64>);

/// A read that is under way, until it is dropped.
pub(super) struct Turn<'a>(&'a Turns);

impl Turns {
    pub(super) fn begin(&self) -> Turn<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Looks at all readers now and then.
#[derive(Default)]
pub(super) struct Watch {
    readers: Vec<Watched>,
}

struct Watched {
    turns: Turns,
    handle: InterruptHandle,
    /// What was counted at the last change, and when that was noticed.
    seen: u64,
    since: Instant,
}

impl Watch {
    pub(super) fn add(&mut self, reader: &Connection, turns: Turns) {
        self.readers.push(Watched { turns, handle: reader.get_interrupt_handle(), seen: 0, since: Instant::now() });
    }

    /// Ends the reads that were under way at every look for too long.
    pub(super) fn look(&mut self) {
        for reader in &mut self.readers {
            let count = reader.turns.0.load(Ordering::Relaxed);
            if count != reader.seen {
                (reader.seen, reader.since) = (count, Instant::now());
            } else if count % 2 == 1 && reader.since.elapsed() >= LIMIT {
                tracing::warn!("a read took longer than {LIMIT:?} and was ended");
                reader.handle.interrupt();
                reader.since = Instant::now();
            }
        }
    }
}
