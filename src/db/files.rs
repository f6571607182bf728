//! The files of an embedded store, which are nobody's business but their owner's.

use std::ffi::OsString;
use std::fs::{self, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context;

const OWNER_ONLY: u32 = 0o600;

/// How the files beside a store are named, behind its own name: the log, the log's
/// index, and the note that the disk failed.
pub const LOG: &str = "-wal";
pub const LOG_INDEX: &str = "-shm";
pub const FAILED: &str = "-failed";

/// A file beside a store.
pub fn beside(store: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(store);
    name.push(suffix);
    name.into()
}

/// The store's files: the store itself, its log, and the log's index. The latter
/// two get the mode of the first when SQLite makes them.
pub fn of(store: &Path) -> [PathBuf; 3] {
    ["", LOG, LOG_INDEX].map(|suffix| beside(store, suffix))
}

/// The folder that a store is in.
pub fn folder(store: &Path) -> &Path {
    store.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes a new store's file readable by its owner alone, and those that exist as
/// well. A folder that others may look into is theirs to decide who made it: it is
/// only told of.
pub fn make_private(store: &Path, key_file: &Path) -> anyhow::Result<()> {
    let shown = store.display();
    let made = OpenOptions::new().write(true).create_new(true).mode(OWNER_ONLY).open(store);
    match made {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error).with_context(|| format!("the SQLite file {shown} cannot be made")),
    }
    for file in of(store).iter().map(PathBuf::as_path).chain([key_file]) {
        if is_open_to_others(file) {
            let changed = fs::set_permissions(file, Permissions::from_mode(OWNER_ONLY));
            match changed {
                Ok(()) => tracing::warn!(file = %file.display(), "others could read this file; they cannot any more"),
                Err(error) => tracing::warn!(file = %file.display(), %error, "others can read this file: chmod 600"),
            }
        }
    }
    let folder = folder(store);
    if is_open_to_others(folder) {
        tracing::warn!(folder = %folder.display(), "others on this machine can look into the data folder: chmod 700");
    }
    Ok(())
}

/// Whether others than the owner may do anything with a file or a folder.
pub fn is_open_to_others(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.permissions().mode() & 0o077 != 0)
}
