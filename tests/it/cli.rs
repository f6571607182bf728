//! The command line, through the real binary: decisions §1, issue 2 items 1, 2
//! and 4.

use std::time::Duration;

use serde_json::json;

use crate::account_pages::{factor, halfway, show_password, with_password};
use crate::binary::{Said, Server, posthorn, say};
use crate::erasing::known;
use crate::harness::{TestApp, on_both};
use crate::store::Store;

pub fn run(store: &Store, args: &[&str], input: &str) -> Said {
    let url = store.url();
    // Commands work on an empty store, and make none.
    if url.strip_prefix("sqlite:").is_some_and(|file| !std::path::Path::new(file).exists()) {
        run_as_it_is(store, &["migrate"], "").ok();
    }
    run_as_it_is(store, args, input)
}

/// The same, also where there is no store.
pub fn run_as_it_is(store: &Store, args: &[&str], input: &str) -> Said {
    let mut command = posthorn(args);
    // Flags go in front or behind; the environment does as well.
    command.args(["--readers", "1"]).env("POSTHORN_DATABASE_URL", store.url());
    say(command, input)
}

/// What the audit log was told, and of what.
async fn told(store: &Store) -> Vec<String> {
    let rows = store.rows("SELECT action, via, target FROM audit_log ORDER BY id").await;
    rows.into_iter().map(|row| row.into_iter().flatten().collect::<Vec<_>>().join(" ")).collect()
}

on_both! {
    async fn decisions_1_keys_create_prints_the_key_alone_on_its_line_and_works_on_an_empty_store(store: Store) {
        let out = run(&store, &["keys", "create", "--name", "first"], "").ok();
        let key = out.strip_suffix('\n').expect("one line");
        assert!(key.starts_with("re_") && !key.contains(char::is_whitespace), "{out:?}");
        assert_eq!(store.value("SELECT name FROM workspaces").await.as_deref(), Some("Default"));

        let made =
            run(&store, &["keys", "create", "--name", "second", "--permission", "sending_access", "--json"], "").json();
        assert_eq!((&made["name"], &made["permission"]), (&json!("second"), &json!("sending_access")));
        assert_eq!(made["workspace"]["name"], "Default");

        let app = TestApp::open(&store, &[]).await;
        app.event(key, json!({"name": "a"})).await;
        let token = made["token"].as_str().expect("a key");
        app.post("/events").key(token).json(json!({"name": "a"})).send().await.refused(401, "restricted_api_key");

        let listed = run(&store, &["keys", "list", "--json"], "").json();
        let names: Vec<_> = listed.as_array().expect("a list").iter().map(|key| key["name"].clone()).collect();
        assert_eq!(names, [json!("first"), json!("second")]);
        let shown = run(&store, &["keys", "list"], "").ok();
        assert!(shown.contains("first") && !shown.contains(key), "a secret is shown once");

        let id = listed[0]["id"].as_str().expect("an id");
        run(&store, &["keys", "delete", id], "").ok();
        app.post("/events").key(key).json(json!({"name": "b"})).send().await.refused(403, "invalid_api_key");
        let complaint = run(&store, &["keys", "delete", id], "").failed();
        assert!(complaint.contains(id), "{complaint}");
        let keys = ["key.created command first", "key.created command second", "key.deleted command first"];
        assert_eq!(told(&store).await, [&["workspace.created command Default"][..], &keys].concat());
    }

    async fn issue_2_users_create_list_and_passwd(store: Store) {
        let out =
            run(&store, &["users", "create", "--email", "A@Example.com", "--password-stdin"], "correct horse\n").ok();
        assert!(out.contains("owner") && out.contains("Default"), "{out}");
        assert_eq!(told(&store).await, ["workspace.created command Default", "user.created command A@Example.com"]);
        let second = run(
            &store,
            &["users", "create", "--email", "b@example.com", "--password-stdin", "--json"],
            "battery staple\r\n",
        );
        assert_eq!(second.json()["role"], "member");
        let third = ["users", "create", "--email", "c@example.com", "--password-stdin", "--json", "--as", "admin"];
        assert_eq!(run(&store, &third, "battery staple").json()["role"], "admin");
        let complaint =
            run(&store, &["users", "create", "--email", "a@example.COM", "--password-stdin"], "correct horse").failed();
        assert!(complaint.contains("--email") && complaint.contains("already"), "{complaint}");
        let complaint =
            run(&store, &["users", "create", "--email", "d@example.com", "--password-stdin"], "short").failed();
        assert!(complaint.contains("--password-stdin") && complaint.contains("8 to 512"), "{complaint}");
        let complaint = run(&store, &["users", "create", "--email", "nobody", "--password-stdin"], "").failed();
        assert!(
            complaint.contains("--email") && complaint.contains("nobody") && complaint.contains("allowed"),
            "{complaint}"
        );

        let hash = "SELECT password_hash FROM users WHERE email_key = 'a@example.com'";
        let before = store.value(hash).await;
        run(&store, &["users", "passwd", "--email", "a@example.com", "--password-stdin"], "another horse\n").ok();
        let after = store.value(hash).await.expect("a hash");
        assert_ne!(before.as_ref(), Some(&after));
        assert!(posthorn::auth::verify_password("another horse", &after));
        let complaint =
            run(&store, &["users", "passwd", "--email", "x@example.com", "--password-stdin"], "another horse").failed();
        assert!(complaint.contains("x@example.com"), "{complaint}");

        let listed = run(&store, &["users", "list", "--json"], "").json();
        assert_eq!(listed.as_array().expect("a list").len(), 3);
        assert!(run(&store, &["users", "list"], "").ok().contains("A@Example.com"));
    }

    async fn users_reset_second_factor_leaves_the_password_alone(store: Store) {
        let app = TestApp::open(&store, &[]).await;
        let owner = with_password(&app).await;
        factor(&app, &owner).await;
        halfway(&app).await;
        let args = ["users", "reset-second-factor", "--email", "Owner@example.com"];
        let said = run(&store, &args, "").ok();
        assert!(said.contains("reset"), "{said}");
        assert_eq!((app.count("second_factors").await, app.count("recovery_codes").await), (0, 0));
        let (let_in, _) = show_password(&app).await;
        assert_eq!(let_in.status, 303, "the password is enough: {}", let_in.text());
        let told = store.rows("SELECT via FROM audit_log WHERE action = 'second_factor.reset'").await;
        assert_eq!(told, [[Some("command".to_owned())]]);
        let complaint = run(&store, &["users", "reset-second-factor", "--email", "nobody@example.com"], "").failed();
        assert!(complaint.contains("nobody@example.com") && complaint.contains("no such user"), "{complaint}");
    }

    async fn contacts_export_prints_and_contacts_erase_leaves_nothing_of_a_person(store: Store) {
        let app = TestApp::open(&store, &[]).await;
        let key = app.full_key().await;
        let (id, mail, _) = known(&app, &key).await;
        let all = run(&store, &["contacts", "export", "ADA@example.com"], "").json();
        assert_eq!((&all["contact"]["id"], &all["contact"]["properties"]["plan"]), (&json!(id), &json!("pro")));
        assert_eq!((&all["emails"][0]["id"], &all["emails"][0]["text"]), (&json!(mail), &json!("Body for Ada")));
        assert_eq!(all["runs"].as_array().map(Vec::len), Some(1), "{all}");
        assert_eq!(run(&store, &["contacts", "export", &id], "").json()["contact"], all["contact"], "by its id, too");

        assert_eq!(run(&store, &["contacts", "erase", "ada@example.com", "--suppress"], "").ok(), "Erased.\n");
        app.get(format!("/contacts/{id}")).key(&key).send().await.refused(404, "not_found");
        assert_eq!(app.get(format!("/contact-erasures/{id}")).key(&key).send().await.json()["status"], "completed");
        assert_eq!((app.count("runs").await, app.count("suppressions").await), (0, 1));
        assert_eq!(app.get("/contacts/bob@example.com").key(&key).send().await.status, 200, "nobody else is touched");
        for act in ["export", "erase"] {
            let complaint = run(&store, &["contacts", act, "ada@example.com"], "").failed();
            assert!(complaint.contains("ada@example.com"), "{act}: {complaint}");
        }
    }

    async fn issue_2_clients_create_takes_repeated_flags_and_any_grant_set(store: Store) {
        let out = run(
            &store,
            &[
                "clients",
                "create",
                "--name",
                "Both",
                "--redirect-uri",
                "https://a.example/1",
                "--redirect-uri",
                "http://127.0.0.1/2",
                "--scope",
                "emails:send",
                "--scope",
                "full_access",
            ],
            "",
        )
        .ok();
        let id = out.trim_end();
        uuid::Uuid::parse_str(id).expect("an id alone on its line");
        let without = run(
            &store,
            &[
                "clients",
                "create",
                "--name",
                "None",
                "--redirect-uri",
                "https://a.example/1",
                "--grant-type",
                "refresh_token",
                "--json",
            ],
            "",
        )
        .json();
        assert_eq!(without["grant_types"], json!(["refresh_token"]));
        let kept = run(
            &store,
            &[
                "clients",
                "create",
                "--name",
                "S",
                "--redirect-uri",
                "https://a.example/1",
                "--auth-method",
                "client_secret_basic",
            ],
            "",
        )
        .ok();
        assert_eq!(kept.lines().count(), 2, "its id and its secret");

        let app = TestApp::open(&store, &[]).await;
        let ask = async |id: &str| {
            let redirect = "https%3A%2F%2Fa.example%2F1";
            crate::asking::ask(&app, crate::asking::query(id, &[("redirect_uri", Some(redirect))])).await
        };
        ask(id).await.consent();
        ask(without["client_id"].as_str().expect("an id")).await.returned(
            "https://a.example/1?",
            "unauthorized_client",
            "",
        );

        for (flag, value, word) in [
            ("--redirect-uri", "http://evil.example", "redirect"),
            ("--scope", "openid", "scope"),
            ("--scope", "", "--scope is empty"),
            ("--grant-type", "implicit", "grant"),
            ("--auth-method", "private_key_jwt", "auth"),
        ] {
            let mut args = vec!["clients", "create", "--name", "X", flag, value];
            if flag != "--redirect-uri" {
                args.extend(["--redirect-uri", "https://a.example/1"]);
            }
            let complaint = run(&store, &args, "").failed();
            assert!(complaint.contains(word), "{flag} {value}: {complaint}");
        }
        let listed = run(&store, &["clients", "list", "--json"], "").json();
        assert_eq!(listed.as_array().expect("a list").len(), 4);
        run(&store, &["clients", "delete", id, "--json"], "").json();
        ask(id).await.oauth_refused(400, "invalid_client");
        run(&store, &["clients", "delete", id], "").failed();
    }

    async fn issue_2_commands_work_while_a_server_runs_and_it_stops_when_told(store: Store) {
        let url = store.url();
        let server = Server::start(&["--database-url", &url]);
        let base = format!("http://{}", server.address);
        assert!(
            server.greeting.contains(&base) && server.greeting.contains(&format!("{base}/dashboard")),
            "{}",
            server.greeting
        );
        let key = run(&store, &["keys", "create", "--name", "beside"], "").ok();
        let bearer = format!("Bearer {}", key.trim_end());
        let headers = [("authorization", &*bearer), ("content-type", "application/json")];
        let post = |name: &str| {
            server.request("POST", "/events", &headers, &json!({"name": name}).to_string()).expect("an answer")
        };
        assert!(post("a").starts_with("HTTP/1.1 201"), "{}", post("a"));
        let id = run(&store, &["keys", "list", "--json"], "").json()[0]["id"].as_str().expect("an id").to_owned();
        run(&store, &["keys", "delete", &id], "").ok();
        assert!(post("b").starts_with("HTTP/1.1 403"), "deleted at once");
        let (code, took) = server.terminate();
        assert_eq!(code, Some(0));
        assert!(took < Duration::from_secs(10), "{took:?}");
        assert_eq!(store.value("SELECT name FROM events").await.as_deref(), Some("a"));
    }
}

#[test]
fn issue_2_a_server_on_an_empty_store_prints_a_set_up_link() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let data = folder.path().join("not/yet/there");
    let data = data.to_str().expect("text");
    let mut command = posthorn(&["--listen", "127.0.0.1:0", "--data-dir", data]);
    let mut child = command.spawn().expect("a binary that starts");
    let out = std::io::BufReader::new(child.stdout.take().expect("its output"));
    let link = std::io::BufRead::lines(out).map_while(Result::ok).find(|line| line.contains("/dashboard/setup/"));
    assert!(link.is_some_and(|link| link.contains("http://127.0.0.1:")));
    child.kill().expect("ended");
    child.wait().expect("ended");
    assert!(folder.path().join("not/yet/there/posthorn.db").exists());
}

#[test]
fn issue_2_a_bad_setting_stops_the_start_with_its_name_what_was_given_and_what_is_allowed() {
    for (flag, given, allowed) in [
        ("--listen", "x", "127.0.0.1:8080"),
        ("--listen", "127.0.0.1:99999", "127.0.0.1:8080"),
        ("--base-url", "nope", "http:// or https://"),
        ("--dashboard-url", "https://a/?b", "no query"),
        ("--database-url", "mysql://a", "postgres://"),
        ("--smtp-url", "http://a", "smtp://"),
        ("--role", "x", "api, worker"),
        ("--registration", "x", "open, token, off"),
        ("--authorize-rate", "0", "1.."),
        ("--register-rate", "many", "invalid digit"),
        ("--trusted-proxies", "10.0.0.0/33", "10.0.0.0/8"),
        ("--write-queue", "0", "1..=1000000"),
        ("--sqlite-sync", "off", "full, normal"),
        ("--readers", "0", "1..=256"),
        ("--writers", "257", "1..=256"),
        ("--drain-seconds", "-1", "--drain-seconds"),
        ("--log", "=x=", "info"),
        ("--log", "verbose", "debug"),
        ("--log-format", "xml", "text, json"),
        ("--oauth-iss", "perhaps", "true, false"),
    ] {
        let by_flag = say(posthorn(&["serve", &format!("{flag}={given}")]), "").failed();
        let mut command = posthorn(&["serve"]);
        let variable = format!("POSTHORN_{}", flag.trim_start_matches('-').replace('-', "_").to_uppercase());
        command.env(&variable, given);
        let by_variable = say(command, "").failed();
        for complaint in [by_flag, by_variable] {
            assert!(complaint.contains(flag), "{flag}={given} is not named: {complaint}");
            // What may hold a password is not shown.
            let is_shown = !["--database-url", "--smtp-url"].contains(&flag);
            assert_eq!(complaint.contains(given), is_shown, "{flag}={given}: {complaint}");
            assert!(complaint.contains(allowed), "{flag}={given}, what is allowed is not said: {complaint}");
        }
    }
}

#[test]
fn issue_2_settings_that_contradict_each_other_or_the_machine_are_named() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let data = folder.path().to_str().expect("text");
    let busy = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let busy = busy.local_addr().expect("an address").to_string();
    let file = folder.path().join("file");
    std::fs::write(&file, "x").expect("a file");
    let below = file.join("data");
    let below = below.to_str().expect("text");
    let closed = "postgres://nobody@127.0.0.1:1/none";
    for (args, words) in [
        (vec!["--registration", "token"], vec!["--registration-token", "16"]),
        (
            vec!["--base-url", "http://a/x", "--dashboard-url", "http://a/x"],
            vec!["--dashboard-url", "http://a/x", "--base-url"],
        ),
        (vec!["--listen", &busy], vec!["--listen", &busy]),
        (vec!["--data-dir", below], vec!["--data-dir", below]),
        (vec!["--database-url", closed], vec!["--database-url", "127.0.0.1:1"]),
    ] {
        let mut command = posthorn(&["serve"]);
        command.args(&args);
        if args[0] != "--data-dir" {
            command.args(["--data-dir", data]);
        }
        if args[0] != "--listen" {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        let complaint = say(command, "").failed();
        for word in words {
            assert!(complaint.contains(word), "{args:?}: no {word}: {complaint}");
        }
    }
}

#[test]
fn a_password_of_the_store_is_never_shown() {
    let complaint = say(
        posthorn(&["serve", "--listen", "127.0.0.1:0", "--database-url", "postgres://u:hush-hush@127.0.0.1:1/d"]),
        "",
    );
    assert!(!complaint.failed().contains("hush-hush"));
    let mut command = posthorn(&["serve", "--help"]);
    command.env("POSTHORN_DATABASE_URL", "postgres://u:hush-hush@h/d").env("POSTHORN_SMTP_URL", "smtp://u:hush-hush@h");
    assert!(!say(command, "").ok().contains("hush-hush"));
}

#[test]
fn issue_2_help_documents_every_setting_with_its_variable() {
    let help = say(posthorn(&["serve", "--help"]), "").ok();
    for flag in [
        "listen",
        "base-url",
        "dashboard-url",
        "data-dir",
        "database-url",
        "smtp-url",
        "role",
        "registration",
        "registration-token",
        "oauth-iss",
        "authorize-rate",
        "register-rate",
        "limit-loopback",
        "trusted-proxies",
        "write-queue",
        "sqlite-sync",
        "readers",
        "writers",
        "drain-seconds",
        "log",
        "log-format",
    ] {
        assert!(help.contains(&format!("--{flag}")), "{flag}");
        assert!(help.contains(&format!("POSTHORN_{}", flag.replace('-', "_").to_uppercase())), "{flag}");
    }
}

#[test]
fn openapi_and_migrate_print_what_they_say() {
    let description: serde_json::Value = say(posthorn(&["openapi"]), "").json();
    assert!(description["paths"].get("/events").is_some());
    let store = Store::sqlite();
    assert!(run(&store, &["migrate"], "").ok().contains("up to date"));
}

#[test]
fn issue_15_a_command_in_a_folder_without_a_store_says_so_and_makes_none() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let data = folder.path().join("data");
    let data = data.to_str().expect("text");
    for args in [&["keys", "create", "--name", "x"][..], &["users", "list"], &["hold"], &["clients", "list"]] {
        let mut command = posthorn(args);
        command.args(["--data-dir", data]);
        let complaint = say(command, "").failed();
        assert!(complaint.contains(data) && complaint.contains("--data-dir"), "{args:?}: {complaint}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0, "nothing was made");
    let make = ["users", "create", "--email", "a@b.co", "--password-stdin", "--data-dir", data];
    say(posthorn(&make), "a few plain words").ok();
    say(posthorn(&["keys", "create", "--name", "x", "--data-dir", data]), "").ok();
}

#[test]
fn issue_15_a_server_on_every_address_names_one_that_can_be_called() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let data = folder.path().to_str().expect("text");
    let mut child = posthorn(&["--listen", "0.0.0.0:0", "--data-dir", data]).spawn().expect("a binary that starts");
    let out = std::io::BufReader::new(child.stdout.take().expect("its output"));
    let lines = std::io::BufRead::lines(out).map_while(Result::ok);
    let greeting: Vec<String> = lines.take_while(|line| !line.contains("Reference")).collect();
    child.kill().expect("ended");
    child.wait().expect("ended");
    let greeting = greeting.join("\n");
    assert!(greeting.contains("http://127.0.0.1:") && greeting.contains("--base-url"), "{greeting}");
    assert!(!greeting.contains("0.0.0.0"), "{greeting}");
}

#[test]
fn issue_15_without_a_terminal_a_password_is_not_asked_for() {
    let store = Store::sqlite();
    let complaint = run(&store, &["users", "create", "--email", "a@example.com"], "correct horse\n").failed();
    assert!(complaint.contains("--password-stdin"), "{complaint}");
}

#[test]
fn issue_15_every_shell_gets_completions_of_commands_and_settings() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = say(posthorn(&["completions", shell]), "").ok();
        for word in ["posthorn", "passwd", "data-dir", "completions"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let complaint = say(posthorn(&["completions", "command.com"]), "").failed();
    assert!(complaint.contains("bash"), "{complaint}");
}

on_both! {
    async fn issue_15_status_tells_whether_the_server_answers_and_what_waits(store: Store) {
        let (url, settings) = (store.url(), |address: &str| vec!["--listen".to_owned(), address.to_owned()]);
        let status = |address: &str, flags: &[&str]| {
            let mut command = posthorn(&["status"]);
            command.args(flags).args(settings(address)).env("POSTHORN_DATABASE_URL", &url);
            say(command, "")
        };
        let none = status("127.0.0.1:1", &[]);
        assert!(none.out.contains("does not answer") && none.out.contains("127.0.0.1:1"), "{}", none.out);
        assert!(none.failed().contains("not ready"));
        let server = Server::start(&["--database-url", &url]);
        run(&store, &["hold", "--reason", "moving"], "").ok();
        let key = run(&store, &["keys", "create", "--name", "x"], "").ok();
        let headers = [("authorization", &*format!("Bearer {}", key.trim_end())), ("content-type", "application/json")];
        let mail = json!({"from": "a@b.example", "to": "c@d.example", "subject": "x", "text": "x"}).to_string();
        let sent = server.request("POST", "/emails", &headers, &mail).expect("an answer");
        assert!(sent.starts_with("HTTP/1.1 200"), "{sent}");
        let address = server.address.to_string();
        let shown = status(&address, &[]).ok();
        assert!(shown.contains("answers at") && shown.contains("moving") && shown.contains("mails: 1"), "{shown}");
        let json = status(&address, &["--json"]).json();
        assert_eq!((&json["server"]["ready"], &json["mails_waiting"]), (&json!(true), &json!(1)), "{json}");
        assert!(json["held_since"].is_string() && !json["store"]["location"].is_null(), "{json}");
    }
}

#[test]
fn issue_15_status_makes_no_store() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let data = folder.path().join("data");
    let data = data.to_str().expect("text");
    let said = say(posthorn(&["status", "--data-dir", data, "--listen", "127.0.0.1:1"]), "");
    assert!(said.out.contains("Store") && said.out.contains(data), "{}", said.out);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

/// Settings are global, so a command's own flag may not be called like one.
#[test]
fn no_flag_has_two_meanings() {
    <posthorn::cli::Cli as clap::CommandFactory>::command().debug_assert();
}

/// Two processes on one machine may split the work: a worker takes no port.
#[test]
fn decisions_1_a_worker_alone_listens_nowhere() {
    let store = Store::sqlite();
    let api = Server::start(&["--database-url", &store.url(), "--role", "api"]);
    let listen = api.address.to_string();
    let mut command = posthorn(&["--listen", &listen, "--database-url", &store.url(), "--role", "worker"]);
    let mut worker = command.spawn().expect("a binary that starts");
    std::thread::sleep(Duration::from_millis(500));
    let ended = worker.try_wait().expect("a process");
    worker.kill().ok();
    let output = worker.wait_with_output().expect("an end");
    assert!(ended.is_none(), "it stopped: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_secret_that_cannot_be_used_is_not_printed() {
    let cases = [
        ("--secret", "POSTHORN_SECRET", "hunter2"),
        ("--secret", "POSTHORN_SECRET", "-hunter2"),
        ("--smtp-url", "POSTHORN_SMTP_URL", "smtp://me:hunter2@host:port"),
        ("--smtp-url", "POSTHORN_SMTP_URL", "smtp://me:hunter2@host,smtp://me:hunter2@host:port"),
        ("--database-url", "POSTHORN_DATABASE_URL", "postgres://me:hunter2@host:port/x"),
        ("--database-url", "POSTHORN_DATABASE_URL", "postgres://me:hunter2?x=1@127.0.0.1:1/x"),
        ("--database-url", "POSTHORN_DATABASE_URL", "mysql://me:hunter2@host/x"),
        ("--registration-token", "POSTHORN_REGISTRATION_TOKEN", "hunter2"),
    ];
    for (flag, variable, value) in cases {
        let registration = if flag == "--registration-token" { "token" } else { "off" };
        let by_flag = say(posthorn(&[flag, value, "--registration", registration, "serve"]), "").failed();
        let mut command = posthorn(&["serve", "--registration", registration]);
        command.env(variable, value);
        let by_variable = say(command, "").failed();
        for complaint in [by_flag, by_variable] {
            assert!(!complaint.contains("hunter2"), "{complaint}");
            assert!(complaint.contains(flag), "{complaint}");
        }
    }
}
