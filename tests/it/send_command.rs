//! `posthorn send`, through the real binary, beside a server on the same store.

use serde_json::Value;

use crate::binary::{Said, Server, posthorn, say};
use crate::cli::run;
use crate::harness::on_both;
use crate::sink::{Does, Sink};
use crate::store::Store;

const FROM: [&str; 5] = ["send", "--from", "Ann <ann@sender.example>", "--subject", "Hello"];

/// A server that hands mail to this one, and the settings that both have.
fn serve(store: &Store, sink: &Sink) -> (Server, Vec<String>) {
    serve_with(store, sink, "auto")
}

fn serve_with(store: &Store, sink: &Sink, delivered: &str) -> (Server, Vec<String>) {
    let settings: Vec<String> = [
        "--database-url",
        &store.url(),
        "--smtp-url",
        &sink.url(),
        "--senders",
        "any",
        "--smtp-timeout-factor",
        "0.01",
        "--relay-delivered",
        delivered,
    ]
    .map(str::to_owned)
    .into();
    (Server::start(&settings.iter().map(String::as_str).collect::<Vec<_>>()), settings)
}

/// What the command says, while this test's own servers answer.
async fn send(settings: &[String], args: &[&str], input: &'static str) -> Said {
    let args: Vec<String> =
        FROM.iter().chain(args).map(|&arg| arg.to_owned()).chain(settings.iter().cloned()).collect();
    let sent =
        tokio::task::spawn_blocking(move || say(posthorn(&args.iter().map(String::as_str).collect::<Vec<_>>()), input));
    sent.await.expect("a command")
}

/// The first word of each line.
fn words(said: &str) -> Vec<&str> {
    said.lines().filter_map(|line| line.split_whitespace().next()).collect()
}

on_both! {
    async fn issue_12_a_mail_by_command_is_watched_until_it_is_delivered(store: Store) {
        let sink = Sink::open().await;
        let (_server, settings) = serve(&store, &sink);
        let said = send(&settings, &["--to", "bob@example.com", "--text", "By command"], "").await.ok();
        let told = words(&said);
        assert_eq!(told[..3], ["accepted", "queued", "connecting"], "{said}");
        assert_eq!(told[told.len() - 2..], ["sent", "delivered"], "{said}");
        assert!(said.contains("127.0.0.1 answered 250 2.0.0 taken"), "{said}");
        let [taken] = &sink.kept()[..] else { panic!("one mail") };
        assert!(taken.to == "bob@example.com" && taken.text.contains("By command"), "{taken:?}");

        // From standard input, and for machines.
        let said = send(&settings, &["--to", "bob@example.com", "--json"], "From a pipe\n").await.json();
        assert_eq!((&said["delivered"], &said["recipients"][0]["state"]), (&true.into(), &"delivered".into()), "{said}");
        assert!(sink.kept().iter().any(|taken| taken.text.contains("From a pipe")));
        let origin = store.value("SELECT origin FROM emails LIMIT 1").await;
        assert_eq!(origin.as_deref(), Some("command"));
    }

    async fn issue_12_a_mail_by_command_that_is_refused_or_waits_ends_with_the_reason(store: Store) {
        let sink = Sink::scripted(|command| match command {
            "RCPT TO:<nobody@example.com>" => Does::Says("550 5.1.1 no such user"),
            "RCPT TO:<later@example.com>" => Does::Says("451 4.3.0 not now"),
            _ => Does::Usual,
        })
        .await;
        let (_server, settings) = serve(&store, &sink);
        let said = send(&settings, &["--to", "nobody@example.com", "--text", "x"], "").await;
        assert!(words(&said.out).ends_with(&["bounced"]), "{}", said.out);
        assert!(said.failed().contains("550 5.1.1 no such user"));
        // It is not waited for what will not happen in time.
        let said = send(&settings, &["--to", "later@example.com", "--text", "x", "--wait", "60"], "").await;
        assert!(words(&said.out).ends_with(&["waits"]), "{}", said.out);
        let complaint = said.failed();
        assert!(complaint.contains("451 4.3.0 not now") && complaint.contains("looked at again at"), "{complaint}");
        // Of several, one that did not get it is enough.
        let both = ["--to", "bob@example.com", "--to", "nobody@example.com", "--text", "x", "--json"];
        let said = send(&settings, &both, "").await;
        let report: Value = serde_json::from_str(&said.out).expect("JSON");
        assert_eq!((&report["delivered"], report["recipients"].as_array().map(Vec::len)), (&false.into(), Some(2)));
        assert!(!said.failed().contains("bob@"));
    }

    async fn decisions_7_a_mail_by_command_that_its_relay_has_not_reported_is_sent_and_no_more(store: Store) {
        let sink = Sink::open().await;
        let (_server, settings) = serve_with(&store, &sink, "reported");
        let said = send(&settings, &["--to", "bob@example.com", "--text", "x", "--wait", "3"], "").await;
        assert!(words(&said.out).ends_with(&["sent"]), "{}", said.out);
        assert!(said.failed().contains("the relay has taken it, and has not reported yet"));
    }

    async fn issue_12_a_mail_by_command_says_who_is_missing_where_nobody_delivers(store: Store) {
        let args = [&FROM[..], &["--to", "bob@example.com", "--text", "x", "--wait", "1"]].concat();
        let complaint = run(&store, &args, "").failed();
        assert!(complaint.contains("no server has taken it up") && complaint.contains("worker"), "{complaint}");
        assert_eq!(store.count("emails").await, 1, "it stays queued");
        run(&store, &["hold", "--reason", "a look around"], "").ok();
        assert!(run(&store, &args, "").failed().contains("a look around"));
    }

    async fn issue_12_a_mail_by_command_is_captured_where_all_mail_is(store: Store) {
        let _server = Server::start(&["--database-url", &store.url()]);
        let said = run(&store, &[&FROM[..], &["--to", "bob@example.com", "--html", "<p>x</p>"]].concat(), "").ok();
        assert!(said.contains("nothing leaves this machine") && said.contains("captured"), "{said}");
        assert!(!said.contains("connecting"), "{said}");
    }

    async fn issue_12_a_mail_by_command_is_held_to_the_rules_of_all_mail(store: Store) {
        for (args, word) in [
            (vec!["--to", "nobody"], "`to[0]`"),
            (vec!["--to", "a@example.com", "--smtp-url", "smtp://127.0.0.1:9"], "not verified"),
            (vec!["--to", "a@example.com", "--workspace", "none"], "--workspace none"),
        ] {
            let complaint = run(&store, &[&FROM[..], &args, &["--text", "x"]].concat(), "").failed();
            assert!(complaint.contains(word), "{args:?}: {complaint}");
        }
        assert_eq!(store.count("emails").await, 0);
    }
}
