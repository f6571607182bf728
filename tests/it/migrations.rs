//! Bringing a store's schema up to date: at the first start, at several at
//! once, and not at all where the store is another's.

use std::path::Path;

use futures_util::future::join_all;
use posthorn::db::Db;
use serde_json::{Value, json};

use crate::flow::{REDIRECT, text};
use crate::harness::{TestApp, on_both};
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

/// Makes the store that version 0017 of the schema made, which kept ids as text, with
/// all that was in it.
async fn make_old(store: &Store) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations");
    let mut steps: Vec<_> = folder.read_dir().expect("migrations").map(|file| file.expect("a file").path()).collect();
    steps.sort();
    let history =
        "CREATE TABLE posthorn_migrations (position BIGINT PRIMARY KEY, name TEXT NOT NULL, fingerprint TEXT NOT NULL)";
    store.run(history).await;
    for step in &steps[..17] {
        let text = std::fs::read_to_string(step).expect("a step");
        store.run_either(&text.replace("/*", "").replace("*/", ""), &text).await;
    }
    let rows = include_str!("fixtures/store_0017.sql");
    store.run_either(rows, &rows.replace(" x'", " '\\x").replace("(x'", "('\\x")).await;
}

/// What the version before answered, of the same store.
fn recorded() -> Value {
    serde_json::from_str(include_str!("fixtures/store_0017.json")).expect("JSON")
}

/// A step that names a template was done for the version before when its message stood in the
/// outbox. It is not: the message waits.
fn waiting(mut answer: Value) -> Value {
    for step in answer.get_mut("steps").and_then(Value::as_array_mut).into_iter().flatten() {
        if step["type"] == "send_email" && step["status"] == "completed" {
            (step["status"], step["completed_at"]) = (json!("waiting"), Value::Null);
            let reason = "it waits until its template is published";
            step["output"]["waiting"] = json!({"reason": reason, "held": false});
        }
    }
    answer
}

/// What answers have told in addition since.
fn without_news(mut answer: Value) -> Value {
    if answer["object"] == "segment" {
        let fields = answer.as_object_mut().expect("an object");
        for (field, expected) in
            [("filter", Some(Value::Null)), ("filling", Some(json!(false))), ("contacts_count", None)]
        {
            let told = fields.remove(field).unwrap_or_else(|| panic!("{field} is told"));
            assert!(expected.is_none_or(|expected| told == expected), "{field}: {told}");
        }
    }
    answer
}

async fn answers_as_before(store: Store) {
    make_old(&store).await;
    let (app, before) = (TestApp::open(&store, &[]).await, recorded());
    let key = text(&before, "key");
    for (path, answer) in before["answers"].as_object().expect("answers") {
        let now = app.get(path.as_str()).key(key).send().await.json();
        assert_eq!(without_news(now), waiting(answer.clone()), "{path}");
    }
    let sent = store.count("emails WHERE run_id IS NOT NULL").await;
    assert_eq!((store.count("outbox").await, sent), (3, 0), "nothing is sent, nothing is lost");
    let again = app.post("/events/send").key(key).header("idempotency-key", "once");
    let sent = json!({"event": "order.placed", "email": "new@example.com", "payload": {"total": 42}});
    assert_eq!(again.json(sent).send().await.json(), before["replayed"], "the answer that was kept");
    assert_eq!(app.get("/events").key(text(&before, "through")).send().await.status, 200, "a key made by an app");
    let client = text(&before, "client_id");
    let rotated = app.refresh(client, text(&before, "refresh_token")).await.json();
    assert_eq!(app.works(&rotated).await, 200, "a grant goes on");
    let code = format!(
        "grant_type=authorization_code&client_id={client}&code={}&code_verifier={}&redirect_uri={REDIRECT}",
        text(&before, "code"),
        text(&before, "verifier"),
    );
    assert_eq!(app.works(&app.token(&code).await.json()).await, 200, "a code that nobody had redeemed");
    drop(app);
    store.discard().await;
}

#[tokio::test]
async fn issue_11_a_store_with_ids_as_text_answers_as_before_on_sqlite() {
    answers_as_before(Store::sqlite()).await;
}

#[tokio::test]
async fn issue_11_a_store_with_ids_as_text_answers_as_before_on_postgres() {
    answers_as_before(Store::empty_postgres().await).await;
}

/// A store that was changed by hand is left as it is, rather than lose a row.
#[tokio::test]
async fn issue_11_a_migrated_store_refuses_what_is_no_id() {
    let store = Store::sqlite();
    make_old(&store).await;
    store.run("UPDATE segments SET id = 'not an id'").await;
    let message = open(&store).await.err().expect("refused");
    assert!(message.contains("0019_binary_ids"), "{message}");
    assert_eq!(store.value("SELECT id FROM segments").await.as_deref(), Some("not an id"), "nothing half-done");
}
