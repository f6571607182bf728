//! What is claimed stays with whoever holds the dialogue, nothing leaves that could not be written down before, and
//! what is done where nobody knows whether a mail arrived.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use posthorn::clock::{MINUTE, SECOND};
use posthorn::db::DbError;
use posthorn::id::EmailId;
use serde_json::json;
use tokio::sync::watch;

use crate::broadcasts::Stage;
use crate::delivery::Post;
use crate::emails::sent;
use crate::harness::on_both;
use crate::sink::{BROKEN_OFF, Does, Sink};
use crate::store::Store;

const SOON: Duration = Duration::from_secs(30);

/// Most of a lease, which is of 30 seconds.
const MOST_OF_A_LEASE: i64 = 25 * SECOND;

/// As if a newer version had taken over the store: nothing this process writes is accepted.
const REFUSE: &str = "INSERT INTO posthorn_migrations (position, name, fingerprint) VALUES (9999, '9999_future', 'x')";
const ACCEPT: &str = "DELETE FROM posthorn_migrations WHERE position = 9999";

/// Looks until something is so.
async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let look = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, look).await.unwrap_or_else(|_| panic!("{what}"));
}

/// When the recipients of mails are due, the first of them.
async fn due(post: &Post) -> i64 {
    let found = post.app.store.value("SELECT MIN(due_at) FROM email_recipients").await;
    found.and_then(|due| due.parse().ok()).expect("a time")
}

/// Runs a statement from within a script, which cannot wait.
fn run_now(store: &Store, sql: &'static str) {
    let store = store.clone();
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(store.run(sql));
    };
    std::thread::spawn(run).join().expect("it ran");
}

on_both! {
    async fn reliability_3_a_claim_is_renewed_for_as_long_as_its_dialogue_lasts(store: Store) {
        let (allow, allowed) = watch::channel(false);
        // One stays before its message, and one behind it.
        let sink = Sink::scripted(move |command| match command {
            "." | "RCPT TO:<early@example.com>" => Does::UsualWhen(allowed.clone()),
            _ => Does::Usual,
        })
        .await;
        let relay = format!("--smtp-url={}", sink.url());
        // Its time-outs are those of the RFC.
        let post = Post::open(&store, &[&relay, "--senders=any"]).await;
        let ids = [post.send("early@example.com").await, post.send("late@example.com").await];
        let engine = post.engine.clone();
        let delivering = tokio::spawn(async move { engine.round().await });
        until("both are under way", async || sink.heard("RCPT") == 2 && sink.kept().len() == 1).await;
        let other = Sink::open().await;
        let heir = Post::relaying(&store, &other).await;
        let claimed_until = due(&post).await;
        for post in [&post, &heir] {
            post.app.clock.advance(MOST_OF_A_LEASE);
        }
        until("the claims are renewed", async || due(&post).await > claimed_until).await;
        for post in [&post, &heir] {
            post.app.clock.advance(MOST_OF_A_LEASE);
        }
        assert!(heir.app.clock.steady() > claimed_until, "the first lease is over");
        assert_eq!(heir.round().await, 0, "nobody takes it over");
        allow.send_replace(true);
        assert_eq!(delivering.await.expect("no panic").expect("a round"), 2);
        for id in ids {
            assert_eq!((post.state(id).await, post.types(id).await), (40, vec!["sent".into(), "delivered".into()]));
        }
        assert_eq!((sink.kept().len(), other.heard("EHLO"), heir.round().await), (2, 0, 0));
    }

    async fn reliability_3_while_the_store_refuses_writes_nothing_is_delivered(store: Store) {
        let sink = Sink::open().await;
        let post = Post::relaying(&store, &sink).await;
        let id = post.send("bob@example.com").await;
        store.run(REFUSE).await;
        for _ in 0..3 {
            assert!(matches!(post.engine.round().await, Err(DbError::Unavailable(_))));
            post.app.clock.advance(MINUTE);
        }
        assert_eq!((sink.heard("EHLO"), sink.heard("DATA"), post.recipients(id).await[0].0), (0, 0, 10));
        store.run(ACCEPT).await;
        let heir = Post::relaying(&store, &sink).await;
        assert_eq!((heir.round().await, heir.state(id).await, sink.kept().len()), (1, 40, 1));
    }

    async fn reliability_3_a_store_that_begins_to_refuse_writes_during_a_dialogue_keeps_the_dot_back(store: Store) {
        let (refused, seen) = (store.clone(), AtomicUsize::new(0));
        let sink = Sink::scripted(move |command| {
            if command == "DATA" && seen.fetch_add(1, Ordering::SeqCst) == 0 {
                run_now(&refused, REFUSE);
            }
            Does::Usual
        })
        .await;
        let post = Post::relaying(&store, &sink).await;
        let id = post.send("bob@example.com").await;
        let engine = post.engine.clone();
        let delivering = tokio::spawn(async move { engine.round().await });
        until("the message breaks off", async || sink.heard(BROKEN_OFF) == 1).await;
        assert!(!delivering.is_finished(), "it tries to write down that nothing was sent, for as long as it lives");
        delivering.abort();
        assert!(delivering.await.is_err_and(|error| error.is_cancelled()));
        assert_eq!((sink.kept().len(), post.recipients(id).await[0].0), (0, 10));
        store.run(ACCEPT).await;
        let heir = Post::relaying(&store, &sink).await;
        heir.app.clock.advance(MINUTE);
        assert_eq!((heir.round().await, sink.kept().len()), (1, 1));
        assert_eq!(heir.types(id).await, ["sent", "delivered"], "it never was uncertain");
    }

    async fn issue_12_a_setting_says_what_is_done_with_uncertain_mail_and_it_is_counted(store: Store) {
        let recorder = PrometheusBuilder::new().build_recorder();
        let counted = recorder.handle();
        let _here = metrics::set_default_local_recorder(&recorder);
        let sink = Sink::scripted(|command| if command == "." { Does::HangsUp } else { Does::Usual }).await;
        let relay = format!("--smtp-url={}", sink.url());
        for (at, (setting, is_held, is_bulk_held)) in
            [(None, false, true), (Some("hold"), true, true), (Some("retry"), false, false)].into_iter().enumerate()
        {
            let uncertain = setting.map(|setting| format!("--uncertain={setting}"));
            let settings = [&relay, "--smtp-timeout-factor=0.01", "--senders=any"];
            let settings: Vec<&str> = settings.into_iter().chain(uncertain.as_deref()).collect();
            let stage = Stage::of(Post::open(&store, &settings).await, 0).await;
            // No two processes are at the same microsecond.
            stage.post.app.clock.advance(at as i64 * MINUTE);
            stage.add(&format!("many{at}@example.com"), json!({})).await;
            let mail = json!({"from": "ann@sender.example", "to": "one@example.com", "subject": "S", "text": "T"});
            let id: EmailId = sent(&stage.post.app, &stage.key, mail).await.parse().expect("an id");
            stage.send(json!({})).await;
            stage.run().await;
            let [(28, 1, due, _)] = &stage.post.recipients(id).await[..] else { panic!("{setting:?}: it is uncertain") };
            assert_eq!(due.is_none(), is_held, "{setting:?}");
            let rows = store.rows("SELECT state, due_at FROM email_recipients WHERE address LIKE 'many%'").await;
            let [row] = &rows[..] else { panic!("{setting:?}: {rows:?}") };
            assert_eq!((row[0].as_deref(), row[1].is_none()), (Some("28"), is_bulk_held), "{setting:?}");
            store.run("DELETE FROM email_recipients").await;
            let line = format!("posthorn_mail_attempts_total{{outcome=\"uncertain\"}} {}", 2 * (at + 1));
            assert!(counted.render().lines().any(|counted| counted == line), "{line}\n{}", counted.render());
        }
    }
}
