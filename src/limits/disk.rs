//! The room on disk that the bodies of requests may take.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::Error;

/// How much of all bodies together may be on disk.
const ON_DISK: usize = 2 << 30;

/// What bodies take on disk at this moment. Clones share it.
#[derive(Clone, Default)]
pub struct DiskUse(Arc<AtomicUsize>);

impl DiskUse {
    /// Takes room, even where it is refused: it has to be given back either way.
    pub fn take(&self, bytes: usize) -> Result<(), Error> {
        if self.0.fetch_add(bytes, Ordering::Relaxed) + bytes <= ON_DISK {
            return Ok(());
        }
        tracing::warn!("bodies that are being received take all the room on disk that they may");
        Err(Error::Unavailable)
    }

    pub fn give_back(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}
