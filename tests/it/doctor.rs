//! `posthorn doctor`, file modes and sealed secrets, through the real binary.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use posthorn::clock::{Clock, HOUR, MINUTE};
use posthorn::seal::{self, Seal};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::account_pages::{code, factor, halfway, show_code, with_password};
use crate::binary::{Said, Server, posthorn, say};
use crate::harness::{NOW, TestApp, config, on_both};
use crate::store::Store;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
}

/// The doctor's findings by the name of the check, and whether it was content.
pub fn examine(settings: &[&str]) -> (Value, bool) {
    let said = say(posthorn(&[&["doctor", "--json"], settings].concat()), "");
    let report: Value = serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {}", said.out));
    let checks = report["checks"].as_array().expect("checks");
    let by_name = checks.iter().map(|check| (check["check"].as_str().expect("a name").to_owned(), check.clone()));
    (Value::Object(by_name.collect()), said.code == Some(0))
}

#[track_caller]
pub fn assert_finding(found: &Value, check: &str, status: &str, words: &str) {
    let finding = &found[check];
    assert_eq!(finding["status"], status, "{check}: {found:#}");
    let told = format!("{}{}", finding["came"], finding["next"]);
    assert!(told.contains(words), "{check}: {told}");
    assert!(status == "ok" || finding["next"].as_str().is_some_and(|next| !next.is_empty()), "{finding}");
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("digits");
    (0..hex.len()).step_by(2).map(digits).collect()
}

/// All bytes of a store: its files, or what its tables hold, bytes as hexadecimal digits.
async fn everything(store: &Store) -> Vec<u8> {
    if store.is_sqlite() {
        let file = |ending: &str| std::fs::read(format!("{}{ending}", store.path().display())).expect("a file");
        return [file(""), file("-wal")].concat();
    }
    let tables = store.rows("SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'").await;
    let mut all = Vec::new();
    for table in tables.iter().flatten().flatten() {
        let rows = store.rows(&format!("SELECT CAST(t AS TEXT) FROM {table} AS t")).await;
        all.extend(rows.into_iter().flatten().flatten().flat_map(String::into_bytes));
    }
    all
}

/// Whether bytes are there, as they are or as hexadecimal digits.
fn holds(whole: &[u8], bytes: &[u8]) -> bool {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    [bytes, hex.as_bytes()].iter().any(|form| memchr::memmem::find(whole, form).is_some())
}

fn open_store(folder: &Path) -> Said {
    let folder = folder.to_str().expect("text");
    say(posthorn(&["migrate", "--data-dir", folder]), "")
}

#[test]
fn the_files_of_a_store_are_their_owners_alone_whatever_the_umask_says() {
    let parent = TempDir::new().expect("a folder");
    let folder = parent.path().join("data");
    let server = Server::start(&["--data-dir", folder.to_str().expect("text")]);
    assert_eq!(mode(&folder), 0o700);
    for file in ["posthorn.db", "posthorn.db-wal", "posthorn.db-shm", "posthorn.key"] {
        assert_eq!(mode(&folder.join(file)), 0o600, "{file}");
    }
    drop(server);
}

#[test]
fn files_that_others_could_read_are_mended_and_an_open_folder_is_told_of() {
    let folder = TempDir::new().expect("a folder");
    open_store(folder.path()).ok();
    set_mode(&folder.path().join("posthorn.db"), 0o644);
    set_mode(folder.path(), 0o755);
    let settings = ["--data-dir", folder.path().to_str().expect("text")];
    let (found, _) = examine(&settings);
    assert_finding(&found, "store files", "failed", "chmod 600");
    assert_finding(&found, "data folder", "warning", "chmod 700");
    open_store(folder.path()).ok();
    assert_eq!(mode(&folder.path().join("posthorn.db")), 0o600);
    assert_eq!(mode(folder.path()), 0o755, "whose folder it is decides");
}

#[test]
fn a_server_says_at_its_start_that_others_can_look_into_its_folder() {
    let folder = TempDir::new().expect("a folder");
    let place = folder.path().to_str().expect("text");
    for (allowed, is_told) in [(0o755, true), (0o700, false)] {
        set_mode(folder.path(), allowed);
        let started = posthorn(&["--listen", "127.0.0.1:0", "--log", "warn", "--data-dir", place]).spawn();
        let mut server = started.expect("a server");
        let mut greeting = BufReader::new(server.stdout.take().expect("its output")).lines().map_while(Result::ok);
        assert!(greeting.any(|line| line.contains("Reference")), "it has opened its store and says where it is");
        // In time it says all that it has to say; killed, it may not.
        let told = Command::new("kill").args(["-TERM", &server.id().to_string()]).status().expect("kill");
        assert!(told.success());
        let said = server.wait_with_output().expect("what it said").stderr;
        let said = String::from_utf8(said).expect("text");
        assert_eq!(said.contains("chmod 700"), is_told, "{allowed:o}: {said}");
    }
}

#[test]
fn the_doctor_tells_of_a_log_that_is_not_carried_to_the_store() {
    let folder = TempDir::new().expect("a folder");
    open_store(folder.path()).ok();
    let log = fs::File::create(folder.path().join("posthorn.db-wal")).expect("a file");
    log.set_len(5 << 20).expect("a length");
    let examined =
        |limit: &str| examine(&["--data-dir", folder.path().to_str().expect("text"), "--sqlite-log-limit", limit]).0;
    // SQLite takes away a log in which it finds nothing, so what is content comes last.
    assert_finding(&examined("20"), "write-ahead log", "warning", "the log holds 5 of 20 MiB");
    log.set_len(0).expect("a length");
    assert_finding(&examined("20"), "write-ahead log", "ok", "");
}

#[test]
fn the_doctor_says_which_key_is_to_come_back() {
    let folder = TempDir::new().expect("a folder");
    let settings = ["--data-dir", folder.path().to_str().expect("text")];
    let [file, old, away] = ["posthorn.key", "posthorn.key.old", "away"].map(|name| folder.path().join(name));
    let command = |args: &[&str]| say(posthorn(&[args, &settings].concat()), "").ok();
    open_store(folder.path()).ok();
    command(&["oauth", "rotate-keys"]);
    fs::rename(&file, &away).expect("the key file");
    let other = [&settings[..], &["--secret", "a secret of at least thirty-two letters"]].concat();
    assert_finding(&examine(&other).0, "sealed secrets", "failed", "set --secret");
    assert_finding(&examine(&settings).0, "sealed secrets", "failed", "back as");
    // A start makes another key file, which opens what has been sealed since.
    let key = command(&["keys", "create", "--name", "doctor"]);
    let bearer = format!("Bearer {}", key.lines().find(|line| line.starts_with("re_")).expect("a key"));
    let server = Server::start(&settings);
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let added = server.request("POST", "/domains", &headers, r#"{"name":"acme.example"}"#).expect("an answer");
    assert!(added.starts_with("HTTP/1.1 201"), "{added}");
    drop(server);
    assert!(file.exists());
    let (found, _) = examine(&settings);
    assert_finding(&found, "sealed secrets", "failed", "posthorn.key.old");
    assert!(!found["sealed secrets"]["next"].to_string().contains("--secret"), "one thing to do: {found:#}");
    fs::rename(&away, &old).expect("the key file");
    assert_eq!(examine(&settings).0["sealed secrets"]["status"], "ok");
}

#[test]
fn the_doctor_says_what_is_wrong_with_a_store_that_is_not_there() {
    let folder = TempDir::new().expect("a folder");
    let missing = folder.path().join("none");
    let (found, content) = examine(&["--data-dir", missing.to_str().expect("text"), "--listen", "127.0.0.1:1"]);
    assert!(!content);
    assert_finding(&found, "data folder", "failed", "no folder");
    assert_finding(&found, "store", "failed", "start the server");
    assert_finding(&found, "base URL", "warning", "start the server");
    assert!(!missing.exists(), "a doctor makes nothing");

    fs::write(folder.path().join("posthorn.db"), "this is no store").expect("a file");
    set_mode(&folder.path().join("posthorn.db"), 0o600);
    let (found, content) = examine(&["--data-dir", folder.path().to_str().expect("text")]);
    assert!(!content);
    assert_finding(&found, "store", "failed", "SQLite file");
}

#[test]
fn the_doctor_leaves_nothing_beside_a_store_that_nobody_has_open() {
    let parent = TempDir::new().expect("a folder");
    let folder = parent.path().join("a folder?with=odd#name");
    open_store(&folder).ok();
    let names = || {
        let all = fs::read_dir(&folder).expect("a folder").map(|file| file.expect("a file").file_name());
        all.collect::<std::collections::BTreeSet<_>>()
    };
    let before = names();
    assert!(before.contains(std::ffi::OsStr::new("posthorn.db")), "{before:?}");
    let (found, _) = examine(&["--data-dir", folder.to_str().expect("text")]);
    assert_finding(&found, "schema", "ok", "");
    assert_eq!(names(), before);
}

#[test]
fn the_doctor_finds_nothing_at_a_running_server() {
    let parent = TempDir::new().expect("a folder");
    let folder = parent.path().join("data");
    let data = folder.to_str().expect("text");
    let server = Server::start(&["--data-dir", data]);
    let base = format!("http://{}", server.address);
    let (found, content) = examine(&["--data-dir", data, "--listen", &server.address.to_string()]);
    assert!(content, "{found:#}");
    for (name, check) in found.as_object().expect("checks") {
        let is_space = name == "disk space";
        assert!(check["status"] == "ok" || is_space, "{name}: {check:#}");
    }
    for name in
        ["settings", "data folder", "store files", "disk space", "write-ahead log", "store", "schema", "sealed secrets"]
    {
        assert!(found.get(name).is_some(), "{name} is not checked");
    }
    for name in ["base URL", "writes", "discovery", "resource"] {
        assert_eq!(found[name]["status"], "ok", "{name}: {found:#}");
    }
    let told = say(posthorn(&["doctor", "--data-dir", data, "--base-url", &base]), "").ok();
    assert!(told.lines().all(|line| ["ok  ", "WARN", "FAIL"].contains(&&line[..4])), "{told}");
}

on_both! {
    async fn the_doctor_knows_a_store_that_is_behind_or_ahead_and_migrates_nothing(store: Store) {
        let url = &store.url();
        let _app = TestApp::open(&store, &[]).await;
        let (found, _) = examine(&["--database-url", url]);
        assert_eq!(found["schema"]["status"], "ok", "{found:#}");
        let count = "SELECT COUNT(*) FROM posthorn_migrations";
        let whole = store.value(count).await;
        store.run("DELETE FROM posthorn_migrations WHERE position = (SELECT MAX(position) FROM posthorn_migrations)").await;
        let (found, content) = examine(&["--database-url", url]);
        assert!(!content);
        assert_finding(&found, "schema", "failed", "posthorn migrate");
        assert_ne!(store.value(count).await, whole, "a doctor migrates nothing");
        store.run("INSERT INTO posthorn_migrations (position, name, fingerprint) VALUES (999, '9999_future', 'x')").await;
        let (found, _) = examine(&["--database-url", url]);
        assert_finding(&found, "schema", "failed", "Posthorn");
    }

    async fn the_doctor_tells_of_clocks_that_were_set_or_went_back(store: Store) {
        let _app = TestApp::open(&store, &[]).await;
        let now = Clock::system().now();
        let set = |at: i64, by: i64| format!("seen = 0, stepped_at = {at}, stepped_by = {by}");
        for (clock, status, words) in [
            ("seen = 0".to_owned(), "ok", ""),
            (format!("seen = {}", now + HOUR), "warning", "seconds before what the store has seen"),
            (set(now - HOUR, 2 * HOUR), "warning", "the clock was set 7200 seconds forward at "),
            (set(now - HOUR, -HOUR), "warning", "the clock was set 3600 seconds back at "),
            (set(now - 25 * HOUR, HOUR), "ok", ""),
        ] {
            store.run(&format!("UPDATE clock SET {clock}")).await;
            let (found, _) = examine(&["--database-url", &store.url()]);
            assert_finding(&found, "clock", status, words);
            assert_finding(&found, "clock", status, if status == "ok" { "" } else { "NTP" });
        }
    }

    async fn the_keys_that_sign_mail_are_nowhere_in_the_store_as_they_are(store: Store) {
        let secret = ["--secret", "a secret of at least thirty-two letters"];
        let settings: Vec<&str> = if !store.is_sqlite() { secret.to_vec() } else { Vec::new() };
        let app = TestApp::open(&store, &settings).await;
        crate::domains::add(&app, &app.full_key().await, "acme.example").await;
        let hex = if store.is_sqlite() { "hex(private_key)" } else { "encode(private_key, 'hex')" };
        let kept = store.rows(&format!("SELECT {hex} FROM dkim_keys ORDER BY algorithm")).await;
        assert_eq!(kept.len(), 2, "RSA and Ed25519");
        let seal = Seal::existing(&config(&store, &settings)).expect("the key that seals");
        let whole = everything(&store).await;
        for kept in kept {
            let kept = bytes_of(kept[0].as_deref().expect("a key"));
            assert!(kept.chunks_exact(24).any(|piece| holds(&whole, piece)), "what is kept is found");
            let key = seal.open(&kept).expect("a key that opens");
            let pieces = key.chunks_exact(24);
            assert!(pieces.len() > 0, "{} bytes", key.len());
            for piece in pieces {
                assert!(!holds(&whole, piece), "a piece of a private key");
            }
            assert!(!holds(&whole, STANDARD_NO_PAD.encode(&key).as_bytes()), "a private key in base64");
        }
    }

    async fn secrets_are_sealed_and_those_of_an_earlier_version_are_sealed_at_the_next_start(store: Store) {
        let secret = ["--secret", "a secret of at least thirty-two letters"];
        let settings: Vec<&str> = if !store.is_sqlite() { secret.to_vec() } else { Vec::new() };
        let app = TestApp::open(&store, &settings).await;
        let key = app.full_key().await;
        let steps = json!([
            {"key": "t", "type": "trigger", "config": {"event_name": "e"}},
            {"key": "w", "type": "webhook", "config": {"url": "https://example.com/hook"}},
        ]);
        let body = json!({"name": "a", "steps": steps, "connections": [{"from": "t", "to": "w"}]});
        let made = app.post("/automations").key(&key).json(body).send().await.json();
        let path = format!("/automations/{}", made["id"].as_str().expect("an id"));
        let shown = app.get(&path).key(&key).send().await.json()["webhook_secret"].clone();
        assert!(shown.as_str().is_some_and(|secret| secret.starts_with("whsec_")), "{shown}");
        let kept = "SELECT signing_secret FROM automations";
        let sealed = store.value(kept).await.expect("a secret");
        assert!(sealed.starts_with("sealed:") && !sealed.contains("whsec"), "{sealed}");

        // As an earlier version kept it.
        store.run(&format!("UPDATE automations SET signing_secret = '{}'", shown.as_str().expect("text"))).await;
        let url = store.url();
        let serve = [&["--database-url", &url], &settings[..]].concat();
        drop(Server::start(&serve));
        let sealed = store.value(kept).await.expect("a secret");
        assert!(sealed.starts_with("sealed:"), "{sealed}");
        assert_eq!(app.get(&path).key(&key).send().await.json()["webhook_secret"], shown);
        let (found, _) = examine(&serve);
        assert_eq!(found["sealed secrets"]["status"], "ok", "{found:#}");

        // With another secret it cannot be opened, and somebody says so.
        let other = ["--database-url", &url, "--secret", "another secret of at least 32 letters"];
        if !store.is_sqlite() {
            let (found, _) = examine(&other);
            assert_finding(&found, "sealed secrets", "failed", "sealed with another key");
            let (found, _) = examine(&["--database-url", &store.url()]);
            assert_finding(&found, "sealed secrets", "failed", "sealed with another key");
        } else {
            // The key file is there as well: the new secret takes over.
            let (found, _) = examine(&other);
            assert_eq!(found["sealed secrets"]["status"], "ok", "{found:#}");
            drop(Server::start(&other));
            assert_ne!(store.value(kept).await.expect("a secret"), sealed);
            let (found, content) = examine(&serve);
            assert!(!content);
            assert_finding(&found, "sealed secrets", "failed", "--secret");
        }
    }

    async fn all_secrets_move_from_the_key_file_to_a_secret_and_the_doctor_reads_them_all(store: Store) {
        let app = TestApp::open(&store, &[]).await;
        let (shared, _) = factor(&app, &with_password(&app).await).await;
        let key = app.full_key().await;
        let relay = json!({"name": "acme.example", "transport": "smtp://user:password@relay.example:587"});
        assert_eq!(app.post("/domains").key(&key).json(relay).send().await.status, 201);
        let webhook = json!({"endpoint": "https://example.com/hook", "events": ["suppression.added"]});
        let made = app.post("/webhooks").key(&key).json(webhook).send().await.json();
        let path = format!("/webhooks/{}", made["id"].as_str().expect("an id"));
        let signing = app.get(&path).key(&key).send().await.json()["signing_secret"].clone();
        let (url, secret) = (store.url(), ["--secret", "a secret of at least thirty-two letters"]);
        let serve = [&["--database-url", &url], &secret[..]].concat();
        drop(Server::start(&serve));
        if store.is_sqlite() {
            fs::remove_file(seal::key_file(&store.path())).expect("the key file");
        }
        assert_eq!(examine(&serve).0["sealed secrets"]["status"], "ok");
        let app = TestApp::open(&store, &secret).await;
        assert_eq!(app.get(&path).key(&key).send().await.json()["signing_secret"], signing);
        app.clock.advance(MINUTE);
        let let_in = show_code(&app, &halfway(&app).await, &code(&shared, NOW + MINUTE)).await;
        assert_eq!(let_in.status, 303, "{}", let_in.text());

        // More of them than are read at once.
        let workspace = store.id(app.workspace().await);
        let ids = || (0..150).map(|n| store.id(format!("01890000-0000-7000-8000-{n:012}")));
        let factors: Vec<String> = ids().map(|id| format!("({id}, 'sealed:00000000:', 0)")).collect();
        store.run(&format!("INSERT INTO second_factors (user_id, secret, last_step) VALUES {}", factors.join(", "))).await;
        let webhook = |id: String| format!("({workspace}, {id}, 'https://b.co/', 1, 'enabled', 'sealed:00000000:', 'b.co', 0)");
        let webhooks: Vec<String> = ids().map(webhook).collect();
        let columns = "workspace_id, id, endpoint, events, status, signing_secret, destination, created_at";
        store.run(&format!("INSERT INTO webhooks ({columns}) VALUES {}", webhooks.join(", "))).await;
        assert_finding(&examine(&serve).0, "sealed secrets", "failed", "\"300 secrets were sealed with another key");
        let all = 300 + app.count("signing_keys").await + app.count("dkim_keys").await + 3;
        let (found, content) = examine(&["--database-url", &url, "--secret", "another secret of at least 32 letters"]);
        assert!(!content);
        assert_finding(&found, "sealed secrets", "failed", &format!("\"{all} secrets were sealed with another key"));
        assert_eq!(found["sealed secrets"]["next"], "set --secret (POSTHORN_SECRET) to what the server had");
    }
}

#[tokio::test]
async fn the_doctor_tells_of_a_machine_whose_clock_is_not_the_databases() {
    let store = Store::postgres().await;
    drop(TestApp::open(&store, &[]).await);
    let name = store.value("SELECT current_database()").await.expect("a name");
    // As if the other machine's clock were another.
    store.run(&format!("ALTER DATABASE {name} SET search_path = public, pg_catalog")).await;
    for (ahead, words) in [(-3600, "seconds ahead of the database's"), (3600, "seconds behind the database's")] {
        let clock = format!("SELECT pg_catalog.clock_timestamp() + INTERVAL '{ahead} seconds'");
        let make = "CREATE OR REPLACE FUNCTION public.clock_timestamp() RETURNS TIMESTAMPTZ LANGUAGE SQL AS";
        store.run(&format!("{make} $${clock}$$")).await;
        let (found, _) = examine(&["--database-url", &store.url()]);
        assert_finding(&found, "clock", "warning", words);
    }
    store.discard().await;
}

#[tokio::test]
async fn the_doctor_tells_of_a_postgresql_whose_secrets_are_not_sealed_or_that_does_not_flush() {
    let store = Store::postgres().await;
    let app = TestApp::open(&store, &[]).await;
    let (found, _) = examine(&["--database-url", &store.url()]);
    assert_finding(&found, "sealed secrets", "warning", "--secret");
    assert_eq!(found["clock"]["status"], "ok", "{found:#}");
    let name = store.value("SELECT current_database()").await.expect("a name");
    store.run(&format!("ALTER DATABASE {name} SET synchronous_commit = off")).await;
    let (found, content) = examine(&["--database-url", &store.url()]);
    assert!(!content);
    assert_finding(&found, "durability", "failed", "synchronous_commit");
    drop(app);
    store.discard().await;
}
