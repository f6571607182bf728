//! The room on disk that the bodies of requests may take.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::Error;

/// How much of all bodies together may be on disk.
const ON_DISK: usize = 2 << 30;

/// What bodies take on disk at this moment. Clones share it.
#[derive(Clone, Default)]
pub struct DiskUse(Arc<AtomicUsize>);

/// Room on disk, given back when it is dropped.
pub struct Room {
    used: DiskUse,
    bytes: usize,
}

impl Room {
    pub fn none(used: &DiskUse) -> Room {
        Room { used: used.clone(), bytes: 0 }
    }

    /// Takes more of it, if there is any left.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Error> {
        self.bytes += bytes;
        match self.used.0.fetch_add(bytes, Ordering::Relaxed) + bytes <= ON_DISK {
            true => Ok(()),
            false => {
                tracing::warn!("bodies that are being received take all the room on disk that they may");
                Err(Error::Unavailable)
            }
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.used.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
