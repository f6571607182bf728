//! `posthorn backup` and `posthorn restore`: issue 10 B5, decisions §7.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use posthorn::db::Db;
use serde_json::json;

use crate::binary::{Said, Server, posthorn, say};
use crate::cli::{run, run_as_it_is};
use crate::harness::TestApp;
use crate::store::Store;

/// A store with one event, and a backup of it.
async fn backed_up() -> (Store, PathBuf) {
    let store = Store::sqlite();
    let app = TestApp::open(&store, &[]).await;
    let key = app.full_key().await;
    app.event(&key, json!({"name": "kept"})).await;
    let file = store.path().with_file_name("copy.db");
    // While the store is open, and something of it is still in its log.
    run(&store, &["backup", path(&file)], "").ok();
    (store, file)
}

fn path(path: &Path) -> &str {
    path.to_str().expect("text")
}

fn restore(store: &Store, file: &Path, more: &[&str]) -> Said {
    run_as_it_is(store, &[&["restore", path(file)], more].concat(), "")
}

fn names(file: &Path, what: &str) -> Vec<String> {
    let connection = rusqlite::Connection::open(file).expect("a store");
    let mut statement = connection.prepare(what).expect("a query");
    statement.query_map([], |row| row.get(0)).expect("rows").collect::<Result<_, _>>().expect("texts")
}

fn beside(file: &Path) -> Vec<String> {
    let folder = std::fs::read_dir(file.parent().expect("a folder")).expect("a folder");
    let mut all: Vec<String> =
        folder.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect();
    all.sort();
    all
}

#[tokio::test]
async fn decisions_7_a_backup_is_one_private_file_that_holds_and_the_original_does_not() {
    let (store, file) = backed_up().await;
    assert_eq!(names(&file, "SELECT name FROM events"), ["kept"]);
    assert_eq!(names(&file, "PRAGMA integrity_check"), ["ok"]);
    assert_eq!(names(&file, "SELECT reason FROM holds").len(), 1);
    assert_eq!(store.count("holds").await, 0);
    assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    let left = beside(&file);
    assert!(!left.iter().any(|name| name.starts_with("copy.db-") || name.contains("partial")), "{left:?}");
    let before = std::fs::read(&file).expect("a file");
    let complaint = run(&store, &["backup", path(&file)], "").failed();
    assert!(complaint.contains("copy.db is there already"), "{complaint}");
    assert_eq!(std::fs::read(&file).expect("a file"), before);
}

#[tokio::test]
async fn a_backup_neither_makes_nor_migrates_a_store() {
    let store = Store::sqlite();
    let file = store.path().with_file_name("copy.db");
    let complaint = run_as_it_is(&store, &["backup", path(&file)], "").failed();
    assert!(complaint.contains("posthorn.db") && beside(&file).is_empty(), "{complaint}: {:?}", beside(&file));
    drop(Db::open(&store.options()).await.expect("a store"));
    store.run("DROP TABLE holds; DELETE FROM posthorn_migrations WHERE name LIKE '%_holds'").await;
    let complaint = run(&store, &["backup", path(&file)], "").failed();
    assert!(complaint.contains("older schema"), "{complaint}");
    assert!(!file.exists() && store.count("sqlite_schema WHERE name = 'holds'").await == 0);
}

#[tokio::test]
async fn a_restore_puts_the_copy_in_place_on_hold() {
    let (_original, file) = backed_up().await;
    let store = Store::sqlite();
    let said = restore(&store, &file, &[]).ok();
    assert!(said.contains("on hold") && said.contains("posthorn resume"), "{said}");
    let app = TestApp::open(&store, &[]).await;
    assert_eq!((app.count("events").await, app.count("holds").await), (1, 1));
    assert_eq!(names(&file, "SELECT name FROM events"), ["kept"], "the backup stays what it was");
}

#[tokio::test]
async fn decisions_7_a_backup_that_is_merely_put_in_place_holds_too() {
    let (_original, file) = backed_up().await;
    let store = Store::sqlite();
    std::fs::copy(&file, store.path()).expect("a copy");
    assert!(TestApp::open(&store, &[]).await.get("/readyz").send().await.json().get("held_since").is_some());
}

#[tokio::test]
async fn a_restore_replaces_a_store_only_when_told_and_keeps_it() {
    let (_original, file) = backed_up().await;
    let store = Store::sqlite();
    run(&store, &["keys", "create", "--name", "old"], "").ok();
    let complaint = restore(&store, &file, &[]).failed();
    assert!(complaint.contains("--replace"), "{complaint}");
    for round in 1..=2 {
        let told = restore(&store, &file, &["--replace", "--json"]).json();
        let kept = format!("{}.replaced-{round}", store.path().display());
        assert_eq!(told["replaced"], kept);
    }
    assert_eq!(names(&store.path(), "SELECT name FROM events"), ["kept"]);
    let old = store.path().with_file_name("posthorn.db.replaced-1");
    assert_eq!(names(&old, "SELECT name FROM api_keys"), ["old"]);
}

#[tokio::test]
async fn a_restore_is_refused_while_a_process_has_the_store_open() {
    let (original, file) = backed_up().await;
    let server = Server::start(&["--database-url", &original.url()]);
    let complaint = restore(&original, &file, &["--replace"]).failed();
    assert!(complaint.contains("open; stop it"), "{complaint}");
    let answer = server.request("GET", "/readyz", &[], "").expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(server);
    // The threads of the store that this test itself had open end in their own time.
    let patience = Instant::now() + Duration::from_secs(10);
    while restore(&original, &file, &["--replace"]).code != Some(0) {
        assert!(Instant::now() < patience, "it is still taken to be open");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[tokio::test]
async fn what_is_damaged_or_no_posthorns_is_not_restored() {
    let (_original, file) = backed_up().await;
    let store = Store::sqlite();
    run(&store, &["migrate"], "").ok();
    let before = std::fs::read(store.path()).expect("a file");
    let bad = file.with_file_name("bad.db");
    let mut cut = std::fs::read(&file).expect("a file");
    cut.truncate(cut.len() / 2);
    let newer = |file: &Path| {
        std::fs::copy(file.with_file_name("copy.db"), file).expect("a copy");
        let connection = rusqlite::Connection::open(file).expect("a store");
        connection.execute_batch("INSERT INTO posthorn_migrations VALUES (9999, '9999_future', 'x')").expect("a row");
    };
    for (word, make) in [
        ("malformed", &(|file: &Path| std::fs::write(file, &cut).expect("written")) as &dyn Fn(&Path)),
        ("no sound SQLite file", &|file: &Path| std::fs::write(file, "a letter").expect("written")),
        ("cannot be copied", &|file: &Path| std::fs::remove_file(file).expect("deleted")),
        ("newer Posthorn", &newer),
    ] {
        make(&bad);
        let complaint = restore(&store, &bad, &["--replace"]).failed();
        assert!(complaint.contains(word), "{word}: {complaint}");
        assert_eq!(std::fs::read(store.path()).expect("a file"), before, "{word}");
    }
    let left = beside(&store.path());
    assert!(!left.iter().any(|name| name.contains("partial") || name.contains("replaced")), "{left:?}");
}

#[tokio::test]
async fn decisions_7_a_restore_without_the_secret_says_what_cannot_be_opened() {
    const SECRET: &str = "0123456789abcdef0123456789abcdef";
    let original = Store::sqlite();
    run(&original, &["oauth", "rotate-keys", "--secret", SECRET], "").ok();
    let file = original.path().with_file_name("copy.db");
    run(&original, &["backup", path(&file)], "").ok();
    let (without, with) = (Store::sqlite(), Store::sqlite());
    assert!(restore(&without, &file, &[]).ok().contains("sealed with a secret that is not here"));
    assert!(!restore(&with, &file, &["--secret", SECRET]).ok().contains("sealed"));
}

#[tokio::test]
async fn on_postgres_a_backup_says_what_to_do_instead() {
    let store = Store::empty_postgres().await;
    for command in ["backup", "restore"] {
        let mut command = posthorn(&[command, "file"]);
        command.env("POSTHORN_DATABASE_URL", store.url());
        let complaint = say(command, "").failed();
        assert!(complaint.contains("pg_dump") && complaint.contains("posthorn hold"), "{complaint}");
    }
    store.discard().await;
}
