//! `posthorn api`, through the real binary, against a server.

use std::fs;

use serde_json::{Value, json};

use crate::binary::{Said, Server, posthorn, say};
use crate::cli::run;
use crate::harness::on_both;
use crate::store::Store;

/// A server, and a key of it.
fn serve(store: &Store) -> (Server, String) {
    let server = Server::start(&["--database-url", &store.url()]);
    let key = run(store, &["keys", "create", "--name", "calls"], "").ok();
    (server, key.trim_end().to_owned())
}

/// What a call says; its settings come from the environment.
fn call(server: &Server, key: &str, args: &[&str], input: &str) -> Said {
    let mut command = posthorn(&["api"]);
    command.args(args).env("POSTHORN_BASE_URL", format!("http://{}", server.address)).env("POSTHORN_KEY", key);
    say(command, input)
}

on_both! {
    async fn a_call_by_command_prints_the_answer(store: Store) {
        let (server, key) = serve(&store);
        let made = call(&server, &key, &["POST", "/events", "--body", r#"{"name":"a"}"#], "");
        assert_eq!(made.err, "");
        let id = made.json()["id"].as_str().expect("an id").to_owned();
        let shown = call(&server, &key, &["get", &format!("/events/{id}")], "").ok();
        assert!(serde_json::from_str::<Value>(&shown).is_ok_and(|event| event["name"] == "a"), "{shown}");
        assert!(!shown.contains('\n'), "as it came: {shown}");

        call(&server, &key, &["POST", "/events", "--body", "-"], r#"{"name":"b"}"#).ok();
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("event.json");
        fs::write(&file, r#"{"name":"c"}"#).expect("a file");
        call(&server, &key, &["POST", "/events", "--body", &format!("@{}", file.display())], "").ok();
        let listed = call(&server, &key, &["GET", "/events?limit=2"], "").json();
        assert_eq!(listed["data"].as_array().map(Vec::len), Some(2), "{listed}");

        let elsewhere = format!("http://{}", server.address);
        let mut named = posthorn(&["api", "GET", "/events", "--key", &key, "--url", &elsewhere]);
        named.env("POSTHORN_BASE_URL", "http://127.0.0.1:1").env("POSTHORN_KEY", "re_another");
        assert_eq!(say(named, "").json()["data"].as_array().map(Vec::len), Some(3), "flags win");
    }

    async fn a_call_that_is_refused_ends_with_1_and_a_sentence(store: Store) {
        let (server, key) = serve(&store);
        let Said { code, out, err } = call(&server, &key, &["POST", "/events", "--body", "{}"], "");
        let body: Value = serde_json::from_str(&out).expect("the answer, too");
        let message = body["message"].as_str().expect("a sentence");
        assert_eq!((code, err), (Some(1), format!("posthorn: 422 missing_required_field: {message}\n")));

        let none = call(&server, &key, &["GET", "/events/none"], "");
        assert!(none.code == Some(1) && none.err.starts_with("posthorn: 404 not_found: "), "{}", none.err);
        let stranger = call(&server, "re_nobody", &["GET", "/events"], "");
        assert!(stranger.code == Some(1) && !stranger.err.contains("re_nobody"), "{}", stranger.err);
    }

    async fn a_call_that_cannot_be_made_says_why(store: Store) {
        let (server, key) = serve(&store);
        for (args, words) in [
            (&["FETCH", "/events"][..], "METHOD FETCH: allowed are GET"),
            (&["GET", "events"], "PATH events: it begins with a slash"),
            (&["POST", "/events", "--body", "{name"], "--body: not JSON"),
            (&["POST", "/events", "--body", "-"], "--body: not JSON"),
            (&["POST", "/events", "--body", "@no-such-file"], "no-such-file cannot be read"),
            (&["GET", "/events", "--url", "http://127.0.0.1:1"], "http://127.0.0.1:1: the connection failed"),
        ] {
            let Said { code, out, err } = call(&server, &key, args, "");
            assert_eq!((code, out.as_str()), (Some(1), ""), "{args:?}: {err}");
            assert!(err.contains(words) && !err.contains(&key), "{args:?}: {err}");
        }
        let mut keyless = posthorn(&["api", "GET", "/events"]);
        keyless.env("POSTHORN_BASE_URL", format!("http://{}", server.address));
        let Said { code, out, err } = say(keyless, "");
        assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
        assert!(err.contains("there is no API key: put one into POSTHORN_KEY"), "{err}");
        let refused = call(&server, &key, &["GET", "/events", "--no-key"], "");
        assert!(refused.code == Some(1) && refused.err.contains("401"), "no key was sent: {}", refused.err);
        assert!(!call(&server, &key, &["--help"], "").ok().contains(&key));
    }

    async fn files_go_as_forms_and_as_they_are_and_redirects_say_where_to(store: Store) {
        let (server, key) = serve(&store);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("contacts.csv");
        fs::write(&file, "email\nada@example.com\n").expect("a file");
        let form = format!("file=@{}", file.display());
        let import = call(&server, &key, &["POST", "/contacts/imports", "--form", &form, "--form", "on_conflict=skip"], "").json();
        assert_eq!(import["object"], "contact_import", "{import}");
        let body = format!("@{}", file.display());
        call(&server, &key, &["POST", "/suppressions/import", "--body", &body, "--type", "text/csv"], "").ok();
        let listed = call(&server, &key, &["GET", "/suppressions"], "").json();
        assert_eq!(listed["data"][0]["email"], json!("ada@example.com"), "{listed}");

        let moved = call(&server, &key, &["GET", "/docs/api", "--no-key"], "");
        assert_eq!((moved.code, moved.out.as_str()), (Some(0), "/docs#reference\n"), "{}", moved.err);
        assert_eq!(moved.err, "308 Permanent Redirect\n");
    }
}
