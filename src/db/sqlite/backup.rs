//! A copy of a store that others go on writing to, and the way back.
//!
//! The copy is made from one state of the store: a transaction that only reads holds
//! on to it, so writers cannot make the copying start over, and it ends however much
//! they write. It is built beside its place and moved there when the disk has it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::files::{check_integrity, sync_folder};
use super::{order, run, wait_for_lock};
use crate::db::{Stmt, files::FAILED, files::LOG, files::LOG_INDEX, files::beside, migrate};

/// How many pages are copied between two words about it (8 MiB).
const PAGES: i32 = 2048;

/// How long to wait before a page that somebody has locked is tried again.
const STEP_PAUSE: Duration = Duration::from_millis(1);

const PAGE: u64 = 4096;

/// How far a copy is: bytes done, of so many.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// Copies a store to a file that is not there yet, and marks the copy with
/// statements of the caller's. Tells how large it is.
pub fn backup(store: &Path, target: &Path, marks: &[Stmt], progress: Progress<'_>) -> anyhow::Result<u64> {
    let shown = target.display();
    ensure!(!target.exists(), "{shown} is there already; nothing was written");
    let source = Connection::open_with_flags(store, OpenFlags::SQLITE_OPEN_READ_WRITE);
    let mut source = source.with_context(|| format!("the SQLite file {} cannot be opened", store.display()))?;
    source.busy_handler(Some(wait_for_lock))?;
    let draft = Draft::beside(target)?;
    let mut copy = Connection::open(&draft.0)?;
    // Until it is whole it is nobody's: a crash leaves nothing to recover.
    copy.pragma_update(None, "journal_mode", "OFF")?;
    copy.pragma_update(None, "synchronous", "OFF")?;
    copy_pages(&source, &mut copy, progress).context("the store could not be copied")?;
    drop(copy);
    drop(source);
    mark(&mut Connection::open(&draft.0)?, marks)?;
    draft.finish(target)
}

fn copy_pages(source: &Connection, copy: &mut Connection, progress: Progress<'_>) -> rusqlite::Result<()> {
    source.execute_batch("BEGIN")?;
    source.query_row("SELECT COUNT(*) FROM sqlite_schema", [], |_| Ok(()))?;
    let copying = Backup::new(source, copy)?;
    loop {
        let step = copying.step(PAGES)?;
        let now = copying.progress();
        let bytes = |pages: i32| u64::try_from(pages).unwrap_or(0) * PAGE;
        progress(bytes(now.pagecount - now.remaining), bytes(now.pagecount));
        match step {
            StepResult::Done => return Ok(()),
            StepResult::More => {}
            _ => std::thread::sleep(STEP_PAUSE),
        }
    }
}

/// Marks a copy, and leaves it as one file without a log.
fn mark(copy: &mut Connection, marks: &[Stmt]) -> anyhow::Result<()> {
    let transaction = copy.transaction()?;
    for stmt in marks {
        let mut statement = transaction.prepare(stmt.sql.sqlite).context(
            "the store has an older schema than this version needs; make the backup with the version that serves it",
        )?;
        let order = order(&statement);
        run(&mut statement, &order, &stmt.params, None)?;
    }
    transaction.commit()?;
    copy.pragma_update(None, "journal_mode", "DELETE")?;
    Ok(())
}

/// Puts a copy into the place of a store, brings its schema up to date and marks it.
/// A store that is there is kept under the name that is returned, if `replace` says
/// that it may be moved.
pub fn restore(file: &Path, store: &Path, marks: &[Stmt], replace: bool) -> anyhow::Result<Option<PathBuf>> {
    ensure!(
        replace || !store.exists(),
        "there is a store at {} already; --replace keeps it under another name",
        store.display()
    );
    let draft = Draft::beside(store)?;
    let copied = File::open(file).and_then(|mut from| {
        let mut to = OpenOptions::new().write(true).open(&draft.0)?;
        std::io::copy(&mut from, &mut to)
    });
    copied.with_context(|| format!("{} cannot be copied", file.display()))?;
    let mut copy = Connection::open(&draft.0)?;
    check_integrity(&copy).with_context(|| format!("{} is no sound SQLite file", file.display()))?;
    migrate::sqlite(&mut copy)?;
    mark(&mut copy, marks)?;
    drop(copy);
    let kept = if store.exists() { Some(move_aside(store)?) } else { None };
    // A log without its file would be taken for the new one's.
    for suffix in [LOG, LOG_INDEX, FAILED] {
        let _ = std::fs::remove_file(beside(store, suffix));
    }
    draft.finish(store)?;
    Ok(kept)
}

/// Moves a store that nobody uses out of the way, with its log.
fn move_aside(store: &Path) -> anyhow::Result<PathBuf> {
    if is_in_use(store) {
        bail!("a process has the store {} open; stop it first", store.display());
    }
    let free = (1_u32..).map(|number| beside(store, &format!(".replaced-{number}"))).find(|path| !path.exists());
    let kept = free.context("there is no name left for the store that is replaced")?;
    for suffix in [LOG, LOG_INDEX, ""] {
        let (from, to) = (beside(store, suffix), beside(&kept, suffix));
        if from.exists() {
            std::fs::rename(&from, to).with_context(|| format!("{} cannot be moved", from.display()))?;
        }
    }
    Ok(kept)
}

/// Whether any process holds a connection to the store. One that is damaged cannot
/// tell, and has no users.
fn is_in_use(store: &Path) -> bool {
    let alone = || {
        let connection = Connection::open_with_flags(store, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.busy_timeout(Duration::ZERO)?;
        // Nobody who is alone needs the memory that processes share.
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        connection.query_row("SELECT COUNT(*) FROM sqlite_schema", [], |_| Ok(()))
    };
    let refused: rusqlite::Result<()> = alone();
    refused.is_err_and(|error| error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy))
}

/// A file in the making, which is deleted unless it is finished.
struct Draft(PathBuf);

impl Draft {
    fn beside(target: &Path) -> anyhow::Result<Draft> {
        let path = beside(target, ".partial");
        // What is in it is nobody else's business on this machine.
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        made.with_context(|| {
            let shown = path.display();
            format!("{shown} cannot be made; if it is what an interrupted command left behind, delete it")
        })?;
        Ok(Draft(path))
    }

    /// Moves it to its place when the disk has it. Tells how large it is.
    fn finish(self, target: &Path) -> anyhow::Result<u64> {
        let move_it = || {
            let file = File::open(&self.0)?;
            file.sync_all()?;
            std::fs::rename(&self.0, target)?;
            sync_folder(target)?;
            Ok(file.metadata()?.len())
        };
        let moved: std::io::Result<u64> = move_it();
        moved.with_context(|| format!("{} cannot be written", target.display()))
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Once it is finished, nothing has these names any more.
        for suffix in ["", "-journal", LOG, LOG_INDEX] {
            let _ = std::fs::remove_file(beside(&self.0, suffix));
        }
    }
}
