//! A store on a broken machine: issue 10 B4, reliability F30.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use posthorn::db::{Db, DbError, Options, Stmt};
use posthorn::events::{self, EventName};
use serde_json::json;
use uuid::Uuid;

use crate::harness::{TestApp, on_both};
use crate::store::Store;

const SOON: Duration = Duration::from_secs(20);

fn insert(n: usize) -> Stmt {
    let name = EventName::try_from(format!("event {n}")).expect("a name");
    events::insert(Uuid::nil().into(), Uuid::from_u128(n as u128).into(), &name, None, 0)
}

async fn has_failed(db: &Db) {
    tokio::time::timeout(SOON, db.failed()).await.expect("the process is told to stop");
}

fn refused(result: Result<Vec<posthorn::db::Effect>, DbError>) -> String {
    match result {
        Err(DbError::Unavailable(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

on_both! {
    async fn a_process_that_is_older_than_the_store_writes_nothing_and_stops(app: TestApp) {
        let key = app.full_key().await;
        app.event(&key, json!({"name": "before"})).await;
        app.store
            .run("INSERT INTO posthorn_migrations (position, name, fingerprint) VALUES (9999, '9999_future', 'x')")
            .await;
        for _ in 0..3 {
            app.post("/events").key(&key).json(json!({"name": "after"})).send().await.refused(503, "service_unavailable");
        }
        assert!(refused(app.app.db.commit(insert(1)).await).contains("newer Posthorn"));
        assert_eq!(app.count("events").await, 1);
        has_failed(&app.app.db).await;
    }
}

#[tokio::test]
async fn on_postgres_a_migration_waits_for_groups_under_way_and_lets_others_wait() {
    let store = Store::empty_postgres().await;
    let old = Db::open(&store.options()).await.expect("a store");
    // As a newer process does it, which has not committed yet.
    let newer = store.lock("posthorn_migrations").await;
    let (write, end) = (old.commit(insert(1)), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        newer.release().await;
    });
    let (written, ()) = tokio::join!(write, end);
    written.expect("written when the migration came to nothing");
    drop(old);
    store.discard().await;
}

/// Opens a store, lets something happen to its files, and sees it notice: at the
/// next write, and without any.
async fn notices(happens: impl Fn(&Path)) {
    for full_sync in [true, false] {
        for writes in [true, false] {
            let store = Store::sqlite();
            let options = Options { full_sync, ..store.options() };
            let db = Db::open(&options).await.expect("a store");
            db.commit(insert(1)).await.expect("written");
            happens(&store.path());
            if writes {
                refused(db.commit(insert(2)).await);
                refused(db.commit(insert(3)).await);
            }
            has_failed(&db).await;
            refused(db.commit(insert(4)).await);
            let _ = std::fs::remove_dir_all(moved(&store.path()));
        }
    }
}

fn moved(store: &Path) -> PathBuf {
    store.parent().expect("a folder").with_extension("moved")
}

fn log(store: &Path) -> PathBuf {
    store.with_file_name("posthorn.db-wal")
}

#[tokio::test]
async fn reliability_f30_a_store_that_was_deleted_takes_no_writes() {
    notices(|store| std::fs::remove_file(store).expect("deleted")).await;
}

#[tokio::test]
async fn reliability_f30_a_store_whose_log_was_deleted_takes_no_writes() {
    notices(|store| std::fs::remove_file(log(store)).expect("deleted")).await;
}

#[tokio::test]
async fn reliability_f30_a_store_that_was_replaced_takes_no_writes() {
    notices(|store| {
        let copy = store.with_file_name("copy.db");
        std::fs::copy(store, &copy).expect("a copy");
        std::fs::rename(&copy, store).expect("in its place");
    })
    .await;
}

#[tokio::test]
async fn reliability_f30_a_store_whose_folder_cannot_be_reached_takes_no_writes() {
    notices(|store| {
        let folder = store.parent().expect("a folder");
        std::fs::rename(folder, moved(store)).expect("moved");
        std::fs::create_dir(folder).expect("another folder of this name");
    })
    .await;
}

#[tokio::test]
async fn another_process_that_reads_for_long_cannot_grow_the_log_without_bound() {
    let store = Store::sqlite();
    let db = Db::open(&Options { log_limit: 1 << 20, ..store.options() }).await.expect("a store");
    let reader = rusqlite::Connection::open(store.path()).expect("a reader");
    reader.execute_batch("BEGIN; SELECT COUNT(*) FROM events").expect("an old state");
    let began = Instant::now();
    let mut count = 0;
    let reason = loop {
        count += 1;
        match db.commit(insert(count)).await {
            // Now and then the log is looked at: between two looks no more is written than a disk takes.
            Ok(_) if began.elapsed() < SOON => tokio::time::sleep(Duration::from_millis(1)).await,
            Ok(_) => panic!("nothing bounds the log"),
            refusal => break refused(refusal),
        }
    };
    assert!(reason.contains("log"), "{reason}");
    let length = std::fs::metadata(log(&store.path())).expect("a log").len();
    assert!((1 << 20..64 << 20).contains(&length), "{length}");
    assert_eq!(store.count("events").await, count as i64 - 1, "what was refused is not there");

    drop(reader);
    let began = Instant::now();
    while let Err(error) = db.commit(insert(count)).await {
        assert!(began.elapsed() < SOON, "the log is free and still: {error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn after_a_disk_that_failed_the_next_start_checks_the_store() {
    let store = Store::sqlite();
    let db = Db::open(&store.options()).await.expect("a store");
    for n in 0..500 {
        db.commit(insert(n)).await.expect("written");
    }
    drop(db);
    let note = store.path().with_file_name("posthorn.db-failed");
    std::fs::write(&note, "").expect("a note");
    drop(Db::open(&store.options()).await.expect("a sound store opens"));
    assert!(!note.exists(), "and is trusted again");

    let pages = store.value("PRAGMA page_count").await.and_then(|count| count.parse::<u64>().ok()).expect("a count");
    store.run("PRAGMA wal_checkpoint(TRUNCATE)").await;
    damage(&store.path(), pages);
    drop(Db::open(&store.options()).await.expect("unasked, nobody looks at every page"));
    std::fs::write(&note, "").expect("a note");
    for _ in 0..2 {
        let error = Db::open(&store.options()).await.err().expect("a damaged store is refused");
        assert!(format!("{error:#}").contains("restore a backup"), "{error:#}");
        assert!(note.exists(), "for as long as it is damaged");
    }
}

/// Writes over the last pages of a store, which hold events.
fn damage(store: &Path, pages: u64) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::options().write(true).open(store).expect("a file");
    for page in pages - 3..pages {
        file.write_all_at(&[0x5a; 4096], page * 4096).expect("written");
    }
}
