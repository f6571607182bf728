//! Bringing a store's schema up to date: at the first start, at several at
//! once, and not at all where the store is another's.

use futures_util::future::join_all;
use posthorn::db::Db;

use crate::harness::on_both;
use crate::store::Store;

async fn history(store: &Store) -> Vec<Vec<Option<String>>> {
    store.rows("SELECT position, name, fingerprint FROM posthorn_migrations WHERE position > 0 ORDER BY position").await
}

async fn open(store: &Store) -> Result<Db, String> {
    Db::open(&store.options()).await.map_err(|error| format!("{error:#}"))
}

/// Opens one fresh store from four threads at once, as four processes would.
async fn open_at_once(store: &Store) {
    let opening = (0..4).map(|_| {
        let options = store.options();
        let (told, opened) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            let result = runtime.block_on(Db::open(&options)).map(drop).map_err(|error| format!("{error:#}"));
            told.send(result).expect("a listener");
        });
        opened
    });
    for opened in join_all(opening).await {
        assert_eq!(opened.expect("an answer"), Ok(()));
    }
    let names: Vec<String> = history(store).await.into_iter().filter_map(|row| row[1].clone()).collect();
    assert_eq!(names[..3], ["0001_accounts", "0002_oauth", "0003_events"]);
    assert_eq!(store.count("oauth_clients").await, 1, "every step was taken once");
}

#[tokio::test]
async fn issue_2_four_processes_that_start_at_once_on_one_empty_sqlite_file() {
    for _ in 0..5 {
        open_at_once(&Store::sqlite()).await;
    }
}

#[tokio::test]
async fn issue_2_four_processes_that_start_at_once_on_one_empty_postgres_database() {
    for _ in 0..2 {
        let store = Store::empty_postgres().await;
        open_at_once(&store).await;
        store.discard().await;
    }
}

on_both! {
    async fn a_store_that_is_up_to_date_is_left_alone(store: Store) {
        drop(open(&store).await.expect("opened"));
        let before = history(&store).await;
        drop(open(&store).await.expect("opened again"));
        assert_eq!(history(&store).await, before);
    }

    async fn issue_2_a_store_of_a_newer_version_is_refused_by_name(store: Store) {
        drop(open(&store).await.expect("opened"));
        store
            .run("INSERT INTO posthorn_migrations (position, name, fingerprint) VALUES (9999, '9999_future', 'x')")
            .await;
        let message = open(&store).await.err().expect("refused");
        assert!(message.contains("newer Posthorn") && message.contains("9999_future"), "{message}");
    }

    async fn issue_2_a_store_with_another_schema_is_refused(store: Store) {
        drop(open(&store).await.expect("opened"));
        store.run("UPDATE posthorn_migrations SET fingerprint = '0000000000000000' WHERE position = 2").await;
        let message = open(&store).await.err().expect("refused");
        assert!(message.contains("not Posthorn's") && message.contains("0002_oauth"), "{message}");
        assert!(message.contains("--database-url"), "{message}");
    }
}

#[tokio::test]
async fn a_store_that_something_else_lives_in_is_left_untouched() {
    for store in [Store::sqlite(), Store::empty_postgres().await] {
        store.run("CREATE TABLE users (id INTEGER PRIMARY KEY, theirs TEXT); INSERT INTO users VALUES (1, 'x')").await;
        let message = open(&store).await.err().expect("refused");
        assert!(message.contains("0001_accounts"), "{message}");
        assert_eq!(store.value("SELECT theirs FROM users").await.as_deref(), Some("x"));
        let left = if store.is_sqlite() {
            store.count("sqlite_schema WHERE name = 'workspaces'").await
        } else {
            store.count("pg_tables WHERE tablename = 'workspaces'").await
        };
        assert_eq!(left, 0, "nothing half-done");
        store.discard().await;
    }
}

#[tokio::test]
async fn a_file_that_is_no_store_is_refused_and_kept() {
    let store = Store::sqlite();
    std::fs::write(store.path(), "this is a letter, not a database").expect("written");
    let message = open(&store).await.err().expect("refused");
    assert!(message.contains("posthorn.db"), "{message}");
    assert_eq!(std::fs::read(store.path()).expect("still there"), b"this is a letter, not a database");
}
