//! The store under load and under fire: batches, guards, the queue, lost
//! connections, lost races.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use futures_util::future::join_all;
use posthorn::credentials::{Permission, access, raise_access};
use posthorn::db::{Batch, Db, DbError, Guard, Location, Options, Stmt};
use posthorn::events::{self, EventName};
use serde_json::json;
use uuid::Uuid;

use crate::harness::{TestApp, on_both};
use crate::store::Store;

/// An event with this number in its id.
fn insert(n: usize) -> Stmt {
    let name = EventName::try_from(format!("event {n}")).expect("a name");
    events::insert(Uuid::nil().into(), Uuid::from_u128(n as u128).into(), &name, None, 0)
}

/// Holds as long as nothing was taken away since; it has nothing else to rest on.
fn access_is(revision: i64) -> Guard {
    access(events::by_id(Uuid::nil().into(), Uuid::max().into()), revision).guard()
}

/// Changes an event that is not there, so that what it expects does not come true.
fn vain() -> Stmt {
    events::set_schema(Uuid::nil().into(), Uuid::max().into(), None, 0)
}

/// Writes at once, of which two fifths succeed, and checks what becomes of each.
async fn neighbours(db: &Db, numbers: RangeInclusive<usize>) {
    let jobs = numbers.map(|n| async move {
        match n % 5 {
            0 => (n, db.commit(insert(0)).await),
            1 => (n, db.commit(Batch::from(insert(n)).and(vain())).await),
            2 => (n, db.commit(Batch::from(insert(n)).when(access_is(999))).await),
            _ => (n, db.commit(Batch::from(insert(n)).when(access_is(1))).await),
        }
    });
    for (n, result) in join_all(jobs).await {
        match n % 5 {
            0 => assert!(matches!(result, Err(DbError::Duplicate(_))), "{n}: {result:?}"),
            1 => assert!(matches!(result, Err(DbError::Unexpected { statement: 1 })), "{n}: {result:?}"),
            2 => assert!(matches!(result, Err(DbError::Stale)), "{n}: {result:?}"),
            _ => assert_eq!(result.expect("blameless")[0].changed, 1, "{n}"),
        }
    }
}

/// The names that [`neighbours`] and the first of them leave behind.
fn blameless(numbers: RangeInclusive<usize>) -> BTreeSet<String> {
    std::iter::once(0).chain(numbers.filter(|n| n % 5 > 2)).map(|n| format!("event {n}")).collect()
}

async fn names(store: &Store) -> BTreeSet<String> {
    store.rows("SELECT name FROM events").await.into_iter().flatten().flatten().collect()
}

on_both! {
    async fn issue_2_one_failing_batch_never_fails_its_neighbours(app: TestApp) {
        let db = &app.app.db;
        db.commit(insert(0)).await.expect("the first");
        neighbours(db, 1..=200).await;
        assert_eq!(names(&app.store).await, blameless(1..=200));
    }

    async fn two_batches_of_one_group_that_want_the_same_row_get_one_winner(app: TestApp) {
        let db = &app.app.db;
        for round in 0..5 {
            let results = join_all((0..20).map(|_| db.commit(insert(round)))).await;
            assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
            let losers = results.iter().filter(|result| matches!(result, Err(DbError::Duplicate(_)))).count();
            assert_eq!(losers, 19);
        }
    }

    async fn a_batch_is_committed_whole_or_not_at_all(app: TestApp) {
        let db = &app.app.db;
        let undone = db.commit(Batch::from(insert(1)).and(insert(2)).and(insert(1))).await;
        assert!(matches!(undone, Err(DbError::Duplicate(_))), "{undone:?}");
        assert_eq!(app.count("events").await, 0);
        let done = db.commit(Batch::from(insert(1)).and(insert(2))).await.expect("both");
        assert_eq!(done.iter().map(|effect| effect.changed).sum::<u64>(), 2);
        let gone = db.commit(events::delete(Uuid::nil().into(), Uuid::from_u128(1).into())).await;
        assert!(gone.is_ok());
        let again = db.commit(events::delete(Uuid::nil().into(), Uuid::from_u128(1).into())).await;
        assert!(matches!(again, Err(DbError::Unexpected { statement: 0 })), "compare and set: {again:?}");
    }

    async fn a_read_whose_guard_no_longer_holds_is_stale(app: TestApp) {
        let db = &app.app.db;
        db.commit(insert(1)).await.expect("stored");
        let id = Uuid::from_u128(1).into();
        let held = db.read_when(Some(&access_is(1)), events::by_id(Uuid::nil().into(), id)).await;
        assert_eq!(held.expect("held").len(), 1);
        let stale = db.read_when(Some(&access_is(2)), events::by_id(Uuid::nil().into(), id)).await;
        assert!(matches!(stale, Err(DbError::Stale)));
    }

    async fn issue_10_what_others_lose_is_asked_about_once(app: TestApp) {
        let (key, reader) = (app.key(Permission::FullAccess).await, app.key(Permission::FullAccess).await);
        app.event(&key.secret, json!({"name": "known"})).await;
        assert_eq!(app.get("/events").key(&reader.secret).send().await.status, 200);
        app.app.db.commit(raise_access()).await.expect("somebody lost something");
        app.event(&key.secret, json!({"name": "and asked about"})).await;
        assert_eq!(app.get("/events").key(&reader.secret).send().await.status, 200);
        // Nobody says that they are gone, so nobody looks: both go by the number again.
        app.store.run("DELETE FROM api_keys").await;
        app.event(&key.secret, json!({"name": "under the number"})).await;
        assert_eq!(app.get("/events").key(&reader.secret).send().await.status, 200);
        app.app.db.commit(raise_access()).await.expect("now it is said");
        app.post("/events").key(&key.secret).json(json!({"name": "late"})).send().await.refused(403, "invalid_api_key");
        app.get("/events").key(&reader.secret).send().await.refused(403, "invalid_api_key");
    }

    async fn issue_10_a_batch_in_a_group_with_an_end_is_judged_by_itself(app: TestApp) {
        let db = &app.app.db;
        let (key, gone) = (app.key(Permission::FullAccess).await, app.key(Permission::FullAccess).await);
        for (name, key) in [("a", &key), ("b", &gone)] {
            app.event(&key.secret, json!({"name": name})).await;
        }
        let post = |key: &str| app.post("/events").key(key).json(json!({"name": "late"})).send();
        let (_, kept, refused, again) = tokio::join!(
            db.commit(posthorn::credentials::delete_key(gone.id)),
            post(&key.secret),
            post(&gone.secret),
            post(&key.secret),
        );
        assert_eq!((kept.status, again.status), (201, 201), "{} {}", kept.text(), again.text());
        // Two committers may take them apart; then it came before its key's end.
        if app.store.is_sqlite() || refused.status != 201 {
            refused.refused(403, "invalid_api_key");
        }
        post(&gone.secret).await.refused(403, "invalid_api_key");
    }

    async fn decisions_2_a_full_queue_is_503_and_what_was_taken_is_kept(store: Store) {
        let app = TestApp::open(&store, &["--write-queue=1"]).await;
        let key = app.full_key().await;
        app.event(&key, json!({"name": "before"})).await;
        let lock = app.store.lock("events").await;
        let posts =
            join_all((0..40).map(|n| app.post("/events").key(&key).json(json!({"name": format!("e{n}")})).send()));
        let release = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            lock.release().await;
        };
        let (answers, ()) = tokio::join!(posts, release);
        let (taken, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 201);
        assert!(!taken.is_empty() && !refused.is_empty(), "{} and {}", taken.len(), refused.len());
        for answer in &refused {
            answer.refused(503, "service_unavailable");
            assert_eq!(answer.header("retry-after"), Some("1"));
        }
        assert_eq!(app.count("events").await, taken.len() as i64 + 1);
        app.event(&key, json!({"name": "after"})).await;
    }

    async fn architecture_2_every_statement_is_understood(app: TestApp) {
        for sql in posthorn::product::statements() {
            app.app.db.check(sql).await.unwrap_or_else(|error| panic!("{sql:?}: {error}"));
        }
    }

    async fn what_200_callers_write_at_once_is_all_there(app: TestApp) {
        let key = app.full_key().await;
        let answers =
            join_all((0..200).map(|n| app.post("/events").key(&key).json(json!({"name": format!("e{n}")})).send()))
                .await;
        let ids: BTreeSet<String> = answers.iter().map(|answer| answer.json()["id"].to_string()).collect();
        assert_eq!((ids.len(), app.count("events").await), (200, 200));
    }
}

/// Whoever adds statements must list them, or nobody prepares them.
#[test]
fn architecture_2_every_statement_in_the_source_is_on_the_list() {
    fn sources(folder: &std::path::Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.to_str().is_some_and(|path| path.ends_with(".rs") && !path.ends_with("tests.rs")) {
                found.push(path);
            }
        }
    }
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../src");
    let mut files = Vec::new();
    sources(&source, &mut files);
    let makers = [
        "= Sql::both(",
        "= Sql::each(",
        "= claim_rows!(",
        "= waiting_rows!(",
        "= everywhere_by!(",
        "= of_contact!(",
        "= longer!(",
        "= edge!(",
        "= events!(",
        "= deliveries!(",
        "= lock!(",
        "= revoke!(",
        "= delete_keys!(",
        "= among!(",
        "= listed!(",
    ];
    // Of a list, as many as it names: `OLDER, NEWER, BY_ID = "…" by "id";`.
    let named = |list: &str| {
        list.split_once(" =").map_or(0, |(names, _)| names.lines().last().map_or(0, |names| names.split(", ").count()))
    };
    let listed = |text: &str| {
        let block = text.split_once("    lists {\n").and_then(|(_, rest)| rest.split_once("\n    }\n"));
        block.map_or(0, |(lists, _)| lists.split(';').map(named).sum::<usize>())
    };
    let made = |text: &str| makers.iter().map(|maker| text.matches(maker).count()).sum::<usize>() + listed(text);
    let mut written = 0;
    for path in files {
        let text = std::fs::read_to_string(&path).expect("a source file");
        assert!(
            made(&text) == 0 || text.contains("statements! {"),
            "{} makes statements beside the macro",
            path.display()
        );
        written += made(&text);
    }
    assert_eq!(written, posthorn::product::statements().count(), "app::statements() leaves some out");
}

/// Within a group guards are asked once, unless somebody says that they may have
/// changed. Whoever takes away what one looks for has to say so.
#[test]
fn issue_10_every_statement_that_takes_away_what_guards_look_for_says_so() {
    const ROWS: [&str; 7] = ["api_keys", "events", "memberships", "oauth_clients", "oauth_grants", "sessions", "users"];
    const COLUMNS: [(&str, &str); 7] = [
        ("events", "schema"),
        ("oauth_clients", "disabled_at"),
        ("oauth_clients", "verified_host"),
        ("oauth_grants", "revoked_at"),
        ("revisions", "number"),
        ("users", "password_hash"),
        ("workspaces", "automations_revision"),
    ];
    let mut found = 0;
    for sql in posthorn::product::statements() {
        let text = sql.text();
        let (head, _) = text.split_once(" WHERE ").unwrap_or((text, ""));
        let head = head.split_once("\n         WHERE ").map_or(head, |(head, _)| head);
        let deletes = |table: &&str| head == format!("DELETE FROM {table}");
        let sets = |(table, column): &(&str, &str)| {
            head.strip_prefix(&format!("UPDATE {table} SET ")).is_some_and(|set| set.contains(&format!("{column} = ")))
        };
        let takes_away = ROWS.iter().any(deletes)
            || COLUMNS.iter().any(sets)
            || head.starts_with("UPDATE users SET disabled_at = $")
            || head.starts_with("INSERT INTO revoked_tokens");
        assert!(!takes_away || sql.is_raising(), "{text}");
        found += usize::from(takes_away);
    }
    assert!(found >= 20, "only {found} were recognised");
}

/// The log is flushed for real, so that others come while a group waits for it;
/// through a link, beside which lies a log that is not the store's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reliability_1_and_3_hold_while_the_log_is_flushed_wherever_it_is() {
    let store = Store::sqlite();
    drop(Db::open(&store.options()).await.expect("a store"));
    let link = store.path().with_file_name("link.db");
    std::os::unix::fs::symlink(store.path(), &link).expect("a link");
    let stray = link.with_file_name("link.db-wal");
    std::fs::write(&stray, "not a log").expect("a file");

    let options = Options { full_sync: true, readers: 1, ..Options::new(Location::Sqlite(link)) };
    let db = Db::open(&options).await.expect("a store");
    db.commit(insert(0)).await.expect("the first");
    let many = (0..8).map(|part| {
        let db = db.clone();
        tokio::spawn(async move {
            for round in 0..25 {
                let first = 1 + (part * 25 + round) * 20;
                neighbours(&db, first..=first + 19).await;
            }
        })
    });
    for part in join_all(many).await {
        part.expect("each got what was his");
    }
    assert_eq!(names(&store).await, blameless(1..=4000));
    assert_eq!(std::fs::read_to_string(&stray).expect("the file"), "not a log");
}

/// Where two columns are compared that no index serves, SQLite sorts the whole table for each statement.
#[tokio::test]
async fn sqlite_makes_no_index_for_a_single_statement() {
    let store = Store::sqlite();
    drop(Db::open(&store.options()).await.expect("a store"));
    let mut made = Vec::new();
    for sql in posthorn::product::statements() {
        let text = sql.text();
        for row in store.rows(&format!("EXPLAIN QUERY PLAN {text}")).await {
            let step = row.into_iter().flatten().next_back().unwrap_or_default();
            if step.contains("AUTOMATIC") {
                made.push(format!("{step}: {text}"));
            }
        }
    }
    assert_eq!(made, Vec::<String>::new(), "{}", made.join("\n\n"));
}

/// Look-ups that people make often must not walk through a table that grows.
#[tokio::test]
async fn sqlite_finds_events_and_requests_through_an_index() {
    let store = Store::sqlite();
    drop(Db::open(&store.options()).await.expect("a store"));
    for sql in posthorn::product::statements() {
        let text = sql.text();
        if text.starts_with("DELETE FROM oauth_clients WHERE origin") {
            continue; // A chore, which looks at every client now and then.
        }
        for row in store.rows(&format!("EXPLAIN QUERY PLAN {text}")).await {
            let step = row.into_iter().flatten().next_back().unwrap_or_default();
            for table in [
                "events",
                "api_keys",
                "k",
                "authorization_requests",
                "oauth_clients",
                "c",
                "contacts",
                "occurrences",
                "runs",
                "r",
                "o",
                "segment_members",
                "m",
                "users",
                "u",
                "u LEFT-JOIN",
                "inviter",
                "oauth_grants",
                "g",
            ] {
                let paged = text.contains("ORDER BY") && text.contains("LIMIT");
                assert!(paged || step != format!("SCAN {table}"), "{step}: {text}");
            }
            let is_look_up = step.starts_with("SEARCH n ") || (step.contains("events") && !step.contains(" e USING"));
            if text.contains("name = ") && text.contains("FROM events") && is_look_up {
                assert!(step.contains("events_by_name (name=? AND workspace_id=?"), "{step}: {text}");
            }
            let is_of_contact = text.contains("FROM occurrences WHERE contact_id = $1");
            let is_of_occurrences = step.contains("occurrences") || step.starts_with("SEARCH o ");
            if text.contains("FROM occurrences") && text.contains("name = $") && !is_of_contact && is_of_occurrences {
                assert!(step.contains("occurrences_by_name (workspace_id=? AND name=?"), "{step}: {text}");
            }
            if is_of_contact && step.contains("occurrences") {
                assert!(step.contains("occurrences_heard (contact_id=? AND seq>? AND seq<?)"), "{step}: {text}");
            }
            if text.contains("r.created_at = $") && step.starts_with("SEARCH r ") {
                assert!(step.contains("runs_by_contact (contact_id=? AND automation_id=? AND created_at=?)"), "{step}");
            }
            if text.contains("destination = $4") && step.starts_with("SEARCH runs") && step.contains("due_at") {
                assert!(step.contains("runs_calling (destination=? AND due_at<?)"), "{step}: {text}");
            }
            let is_of_runs = step.starts_with("SEARCH runs ") || step.starts_with("SEARCH n ");
            if text.contains("FROM runs") && text.contains("status = 'failed'") && is_of_runs {
                assert!(step.contains("runs_failed (automation_id=? AND id"), "{step}: {text}");
            }
        }
    }
}

/// As an administrator or a failing network would: every connection is gone.
async fn cut(store: &Store) {
    store
        .rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        .await;
}

#[tokio::test]
async fn reliability_f8_lost_postgres_connections_come_back_by_themselves() {
    let store = Store::postgres().await;
    let app = TestApp::open(&store, &[]).await;
    let key = app.full_key().await;
    for round in 0..5 {
        app.event(&key, json!({"name": "before"})).await;
        cut(&store).await;
        tokio::time::sleep(Duration::from_millis(if round == 0 { 0 } else { 50 })).await;
        let mut tries = 0;
        while app.post("/events").key(&key).json(json!({"name": "after"})).send().await.status != 201 {
            tries += 1;
            assert!(tries < 3, "writes do not come back");
        }
        let mut tries = 0;
        while app.get("/events/after").key(&key).send().await.status != 200 {
            tries += 1;
            assert!(tries < 3, "reads do not come back");
        }
    }
    drop(app);
    store.discard().await;
}

#[tokio::test]
async fn reliability_f8_nothing_acknowledged_is_lost_while_connections_are_cut() {
    let store = Store::postgres().await;
    let app = TestApp::open(&store, &[]).await;
    let key = app.full_key().await;
    let posts = join_all((0..300).map(|n| {
        let post = app.post("/events").key(&key).json(json!({"name": format!("e{n}")}));
        async move {
            tokio::time::sleep(Duration::from_millis(n)).await;
            (n, post.send().await)
        }
    }));
    let cuts = async {
        for _ in 0..6 {
            tokio::time::sleep(Duration::from_millis(45)).await;
            cut(&store).await;
        }
    };
    let (answers, ()) = tokio::join!(posts, cuts);
    let stored: BTreeSet<String> =
        store.rows("SELECT name FROM events").await.into_iter().flatten().flatten().collect();
    let mut acknowledged = 0;
    for (n, answer) in &answers {
        match answer.status {
            201 => {
                assert!(stored.contains(&format!("e{n}")), "e{n} was acknowledged and is lost");
                acknowledged += 1;
            }
            _ => drop(answer.refused(503, "service_unavailable")),
        }
    }
    // On a busy machine a commit that is cut holds a hundred callers.
    assert!(acknowledged > 20, "{acknowledged} of 300");
    assert_eq!(store.count("events").await, stored.len() as i64, "and none is there twice");
    drop(app);
    store.discard().await;
}

#[tokio::test]
async fn architecture_2_serialization_failures_are_replayed() {
    let store = Store::postgres().await;
    let name = store.value("SELECT current_database()").await.expect("a name");
    store.run(&format!("ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")).await;
    let (one, two) = (TestApp::open(&store, &[]).await, TestApp::open(&store, &[]).await);
    let key = one.full_key().await;
    let id = one.event(&key, json!({"name": "contended"})).await;
    let path = format!("/events/{id}");
    let patches = (0..60).map(|n| {
        let app = if n % 2 == 0 { &one } else { &two };
        app.patch(&path).key(&key).json(json!({"schema": {format!("k{n}"): "date"}})).send()
    });
    for answer in join_all(patches).await {
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    drop((one, two));
    store.discard().await;
}
