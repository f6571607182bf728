//! The files of a store: whether they are still where they were opened, and
//! whether the disk holds what it was given.
//!
//! A file that somebody deleted or replaced can still be written to, and nobody
//! would ever find what was written. So before a commit is acknowledged, the files
//! are looked for under their names.
//!
//! After a write or a flush that failed, the system may go on showing what the disk
//! does not hold. The process ends then and leaves a note beside the store, and the
//! next one writes the log anew and checks the store before it trusts either.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rusqlite::{Connection, ErrorCode, TransactionBehavior, ffi};
use tokio::sync::Notify;

use crate::db::files::{FAILED, LOG, beside, folder};

/// How much of the log is written anew at once.
const PIECE: usize = 1 << 20;

/// The file and its log, as they were when the store was opened.
#[derive(Default)]
pub(super) struct Files(Vec<(PathBuf, u64, u64)>);

impl Files {
    pub(super) fn of(connection: &Connection) -> anyhow::Result<Files> {
        let known = |path: PathBuf| {
            let found = std::fs::metadata(&path).with_context(|| format!("{} is not there", path.display()))?;
            Ok((path, found.dev(), found.ino()))
        };
        let all = [store(connection)?, log(connection)?].map(known);
        Ok(Files(all.into_iter().collect::<anyhow::Result<_>>()?))
    }

    /// Fails when one of them is not to be found any more, or is another file now.
    pub(super) fn check(&self) -> io::Result<()> {
        for (path, device, number) in &self.0 {
            let problem = match std::fs::metadata(path) {
                Ok(found) if found.dev() == *device && found.ino() == *number => continue,
                Ok(_) => "was replaced by another file".to_owned(),
                Err(error) => format!("cannot be found any more: {error}"),
            };
            return Err(io::Error::other(format!("{} {problem}", path.display())));
        }
        Ok(())
    }
}

/// The file of the store as SQLite itself knows it, whatever way leads there.
pub(super) fn store(connection: &Connection) -> anyhow::Result<PathBuf> {
    connection.path().filter(|path| !path.is_empty()).map(PathBuf::from).context("the store has no file")
}

fn log(connection: &Connection) -> anyhow::Result<PathBuf> {
    Ok(beside(&store(connection)?, LOG))
}

/// The log, and what an earlier process had committed and not flushed is flushed:
/// what is told from here on must not vanish. The folder as well, which has to know
/// of a log that was made just now.
pub(super) fn open_log(connection: &Connection) -> anyhow::Result<File> {
    let path = log(connection)?;
    let open = || {
        let log = File::options().read(true).write(true).open(&path)?;
        log.sync_data()?;
        sync_folder(&path)?;
        io::Result::Ok(log)
    };
    open().with_context(|| format!("the log {} cannot be opened and flushed", path.display()))
}

pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder(path))?.sync_all()
}

/// Tells the process that nothing can be written any more.
pub(super) struct Failure {
    told: Notify,
    note: PathBuf,
}

impl Failure {
    pub(super) fn of(connection: &Connection) -> anyhow::Result<Failure> {
        Ok(Failure { told: Notify::new(), note: note(connection)? })
    }

    /// The process must stop.
    pub(super) fn stop(&self) {
        self.told.notify_one();
    }

    /// The process must stop, and the next one must not trust what it finds. The
    /// note need not reach the disk: where the system forgets it, it has forgotten
    /// what it pretended, too.
    pub(super) fn distrust(&self) {
        if let Err(error) = File::create(&self.note).and_then(|note| note.sync_all()) {
            tracing::error!(%error, file = %self.note.display(), "the note for the next start could not be left");
        }
        self.stop();
    }

    pub(super) async fn happened(&self) {
        self.told.notified().await;
    }
}

fn note(connection: &Connection) -> anyhow::Result<PathBuf> {
    Ok(beside(&store(connection)?, FAILED))
}

/// Whether an error means that the disk did not do what it was told, or cannot be
/// asked any more. One that is only full is none of these.
pub(super) fn disk_failed(error: &rusqlite::Error, store: &Path) -> bool {
    match error.sqlite_error().map(|error| error.extended_code) {
        Some(ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC) => true,
        Some(ffi::SQLITE_IOERR_READ | ffi::SQLITE_IOERR_FSTAT | ffi::SQLITE_IOERR_TRUNCATE) => true,
        Some(ffi::SQLITE_IOERR_WRITE) => !is_full(store),
        _ => error.sqlite_error_code() == Some(ErrorCode::ReadOnly),
    }
}

/// SQLite knows a full disk, but takes a quota that is used up for a disk that fails.
fn is_full(store: &Path) -> bool {
    let probe = beside(store, "-probe");
    let written = std::fs::write(&probe, [0; 64 << 10]);
    let _ = std::fs::remove_file(&probe);
    written.is_err_and(|error| matches!(error.kind(), ErrorKind::QuotaExceeded | ErrorKind::StorageFull))
}

/// After a disk that failed under an earlier process: writes the log anew, so that
/// what the system shows of it is on the disk, and checks the store.
pub(super) fn verify(connection: &mut Connection) -> anyhow::Result<()> {
    let note = note(connection)?;
    if !note.exists() {
        return Ok(());
    }
    tracing::warn!("the disk failed under an earlier process; the log is written anew and the store is checked");
    // While this one waits to write, nobody else does.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let log = log(&transaction)?;
    rewrite(&log).with_context(|| format!("the log {} cannot be written anew", log.display()))?;
    drop(transaction);
    check_integrity(connection)?;
    std::fs::remove_file(&note)
        .and_then(|()| sync_folder(&note))
        .context("the note of the failure cannot be deleted")?;
    tracing::info!("the store was checked and is sound");
    Ok(())
}

fn rewrite(path: &Path) -> io::Result<()> {
    let log = File::options().read(true).write(true).open(path)?;
    let (mut piece, mut at) = (vec![0; PIECE], 0);
    loop {
        let size = log.read_at(&mut piece, at)?;
        if size == 0 {
            return log.sync_all();
        }
        log.write_all_at(&piece[..size], at)?;
        at += size as u64;
    }
}

/// What SQLite itself says about its file.
pub(super) fn check_integrity(connection: &Connection) -> anyhow::Result<()> {
    let found: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
    if found != "ok" {
        bail!("the SQLite file is damaged ({}); restore a backup", found.replace('\n', "; "));
    }
    Ok(())
}
