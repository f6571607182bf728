//! The key file: 32 random bytes beside the embedded store, readable by their
//! owner alone.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::secret;

/// Where the key of a store is.
pub fn path(store: &Path) -> PathBuf {
    store.with_file_name("posthorn.key")
}

/// Where an earlier key can be put, which opens what it has sealed.
pub fn old_path(store: &Path) -> PathBuf {
    store.with_file_name("posthorn.key.old")
}

/// The key of a store, if there is one.
pub(super) fn read(store: &Path) -> anyhow::Result<Option<[u8; 32]>> {
    read_from(&path(store))
}

/// An earlier key of a store, if somebody has put it there.
pub(super) fn read_old(store: &Path) -> anyhow::Result<Option<[u8; 32]>> {
    read_from(&old_path(store))
}

fn read_from(path: &Path) -> anyhow::Result<Option<[u8; 32]>> {
    let shown = path.display();
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("the key file {shown} cannot be read")),
    };
    let key = <[u8; 32]>::try_from(bytes).ok();
    key.map(Some).with_context(|| format!("the key file {shown} does not hold 32 bytes; restore it from its copy"))
}

/// The key of a store; a new one where there is none. Of several processes that
/// make one at the same time, one wins and the others read its key.
pub(super) fn read_or_make(store: &Path) -> anyhow::Result<[u8; 32]> {
    if let Some(key) = read(store)? {
        return Ok(key);
    }
    let path = path(store);
    let hint = "; where its file system cannot do that, set --secret (POSTHORN_SECRET) instead";
    make(&path).with_context(|| format!("the key file {} cannot be made{hint}", path.display()))?;
    read(store)?.with_context(|| format!("the key file {} is gone again", path.display()))
}

/// The file gets its name only when its content is on the disk: nothing may be
/// sealed with a key that a power cut could take away.
fn make(path: &Path) -> std::io::Result<()> {
    let draft = path.with_extension(format!("key-{}", secret::letters(12)));
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(&secret::random::<32>())?;
        file.sync_all()?;
        match fs::hard_link(&draft, path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    })();
    let _ = fs::remove_file(&draft);
    written?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn of_several_that_make_a_key_at_once_all_get_the_same() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let store = folder.path().join("posthorn.db");
        assert!(read(&store).expect("a look").is_none());
        let keys: Vec<[u8; 32]> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| read_or_make(&store).expect("a key"))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]));
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "no draft is left");
        let mode = fs::metadata(path(&store)).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_file_of_another_size_is_refused_rather_than_replaced() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let store = folder.path().join("posthorn.db");
        fs::write(path(&store), b"short").expect("a file");
        let refused = read_or_make(&store).expect_err("refused").to_string();
        assert!(refused.contains("32 bytes"), "{refused}");
    }
}
