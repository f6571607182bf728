//! What only the inside can show.

use std::time::Duration;

use crate::db::{Batch, Db, DbError, Job, Location, Options, Sql, Stmt};

/// A query that never ends.
const ENDLESS: Sql =
    Sql(&Sql::both("WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT COUNT(*) FROM n"));

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_takes_too_long_is_ended_and_its_connection_reads_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let location = Location::Sqlite(folder.path().join("posthorn.db"));
    let db = Db::open(&Options { readers: 1, ..Options::new(location) }).await.expect("a store");
    let reader = db.clone();
    let endless = tokio::spawn(async move { reader.read(ENDLESS.with([])).await });
    let ended = tokio::time::timeout(Duration::from_secs(30), endless).await.expect("an end").expect("an answer");
    assert!(matches!(&ended, Err(DbError::Unavailable(_))), "{ended:?}");
    let short = db.read(crate::db::migrate::newer()).await.expect("a read");
    assert!(short.is_empty());
}

/// Hundreds of requests wait for the store at once, each with all that its future
/// has room for, and a job is moved from list to list.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_the_store_takes_little_room() {
    let folder = tempfile::tempdir().expect("a folder");
    let location = Location::Sqlite(folder.path().join("posthorn.db"));
    let db = Db::open(&Options::new(location)).await.expect("a store");
    assert!(size_of::<Stmt>() <= 64, "{}", size_of::<Stmt>());
    assert!(size_of::<Job>() <= 64, "{}", size_of::<Job>());
    let (read, commit) = (db.read(ENDLESS.with([])), db.commit(Batch::new()));
    assert!(size_of_val(&read) <= 1024, "{}", size_of_val(&read));
    assert!(size_of_val(&commit) <= 1024, "{}", size_of_val(&commit));
}
