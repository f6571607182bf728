//! What only the inside can show.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::files::Failure;
use super::flush::{Flusher, Log};
use super::guard::Verdicts;
use super::writer::{Ran, WriteConnection, alike, run_undoable};
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

const TOLD: Sql = Sql(&Sql::both("SELECT 1 WHERE 1 = $1"));
const OTHER: Sql = Sql(&Sql::both("INSERT INTO others VALUES ($1)"));
const INSERT: Sql =
    Sql(&Sql::both("INSERT INTO numbers VALUES ($1)")
        .for_rows("INSERT OR FAIL INTO numbers VALUES ($1), ($2), ($3), ($4)"));

#[tokio::test]
async fn rows_that_follow_each_other_in_a_batch_are_added_together_or_none_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let connection = Connection::open(folder.path().join("store.db")).expect("a store");
    connection.execute_batch("CREATE TABLE numbers (n UNIQUE); CREATE TABLE others (n); BEGIN").expect("tables");
    let failure = Arc::new(Failure::of(&connection).expect("a file"));
    let flusher = Flusher::start(Log::new(None, Arc::default()), failure).expect("a thread");
    let mut writer = WriteConnection::new(&connection, flusher, Handle::current());
    let count =
        || -> i64 { connection.query_row("SELECT COUNT(*) FROM numbers", [], |row| row.get(0)).expect("a count") };
    let inserts = |numbers: &[i64]| numbers.iter().map(|&number| INSERT.with([number.into()])).collect::<Batch>();
    let mixed = inserts(&[1, 2, 3, 4, 5]).and(OTHER.with([1.into()])).and(INSERT.with([6.into()]).expect(1));
    let Ok(Ran::Done(effects)) = run_undoable(&mut writer, &mixed) else { panic!("it can be run") };
    assert_eq!(effects.iter().map(|effect| effect.changed).collect::<Vec<_>>(), [1; 7]);
    assert_eq!(count(), 6);
    for numbers in [&[7, 8, 3, 9][..], &[7, 8, 9, 10, 11, 12, 13, 7]] {
        assert!(matches!(run_undoable(&mut writer, &inserts(numbers)), Ok(Ran::Nothing(_))), "{numbers:?}");
        assert_eq!(count(), 6, "{numbers:?}");
    }
}

#[test]
fn statements_that_are_alike_come_together_and_keep_their_order() {
    let of = |sql: Sql, number: i64| sql.with([number.into()]);
    let batch: Batch = [of(OTHER, 1), of(INSERT, 1), of(OTHER, 2), of(INSERT, 2)].into_iter().collect();
    let sorted = [of(OTHER, 1), of(OTHER, 2), of(INSERT, 1), of(INSERT, 2)];
    assert_eq!(batch.alike_together().stmts.as_slice(), sorted);
}

#[tokio::test]
async fn only_the_same_insert_of_callers_with_the_same_guards_is_run_as_one_statement() {
    let folder = tempfile::tempdir().expect("a folder");
    let connection = Connection::open(folder.path().join("store.db")).expect("a store");
    let failure = Arc::new(Failure::of(&connection).expect("a file"));
    let flusher = Flusher::start(Log::new(None, Arc::default()), failure).expect("a thread");
    let mut writer = WriteConnection::new(&connection, flusher, Handle::current());
    let insert = || Batch::from(INSERT.with([1.into()]));
    let told = |number: i64| TOLD.with([number.into()]);
    let mut are_joined = |batches: [Batch; 4]| {
        let deadline = Instant::now() + Duration::from_secs(10);
        let job = |batch| Job { batch: Box::new(batch), reply: oneshot::channel().0, deadline };
        let group: Vec<Job> = batches.into_iter().map(job).collect();
        let mut verdicts = Verdicts::default();
        assert!(verdicts.let_pass(&mut writer, &group, 0).expect("an answer"), "the first is let pass");
        alike(&group, 0, &verdicts).is_some()
    };
    assert!(are_joined([insert(), insert(), insert(), insert()]));
    assert!(are_joined([(); 4].map(|()| insert().when(told(1)))));
    assert!(!are_joined([insert(), insert(), insert(), OTHER.with([1.into()]).into()]), "another statement");
    assert!(!are_joined([insert(), insert(), insert().and(INSERT.with([2.into()])), insert()]), "two statements");
    assert!(!are_joined([insert(), insert(), insert(), insert().when(told(2))]), "a guard that was not asked");
    assert!(!are_joined([insert(), insert(), insert(), INSERT.with([1.into()]).expect(2).into()]), "it must do more");
}
