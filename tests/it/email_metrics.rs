//! What became of mail, in numbers: every recipient counts once, in the commit that writes it down.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use posthorn::clock::{DAY, HOUR, MINUTE, SECOND};
use posthorn::db::Batch;
use posthorn::email_metrics::{self, Counted, Counts, Tally};
use posthorn::upkeep;
use serde_json::{Value, json};

use crate::automation_pages::{owner, page};
use crate::broadcasts;
use crate::delivery::Post;
use crate::harness::{TestApp, on_both};
use crate::sink::Sink;
use crate::store::Store;

async fn read(app: &TestApp, key: &str, query: &str) -> Value {
    let answer = app.get(format!("/emails/metrics{query}")).key(key).send().await;
    assert_eq!(answer.status, 200, "{query}: {}", answer.text());
    answer.json()
}

/// Sends a mail by the API, and lets it have its way.
async fn send(post: &Post, key: &str, from: &str, to: &[&str]) -> String {
    let mail = json!({"from": from, "to": to, "subject": "Hi", "text": "Hello"});
    let made = post.app.post("/emails").key(key).json(mail).send().await.json();
    while post.round().await > 0 {}
    made["id"].as_str().expect("an id").to_owned()
}

fn pick(values: &Value, names: &[&str]) -> Vec<i64> {
    names.iter().map(|name| values[*name].as_i64().unwrap_or_else(|| panic!("{name} in {values}"))).collect()
}

async fn counted(app: &TestApp) -> i64 {
    let stmt = email_metrics::totals(app.workspace().await, (0, i64::MAX));
    let rows = app.app.db.read(stmt).await.expect("totals");
    Counts::read(&rows[0]).expect("counts").of(Counted::Delivered)
}

on_both! {
    async fn issue_14_every_recipient_counts_once_and_adding_up_changes_no_number(store: Store) {
        let post = Post::open(&store, &[]).await;
        let key = post.app.full_key().await;
        send(&post, &key, "a@one.example", &["x@example.com", "y@example.com"]).await;
        send(&post, &key, "a@two.example", &["bounced@posthorn.test"]).await;
        send(&post, &key, "a@two.example", &["complained@posthorn.test"]).await;
        send(&post, &key, "a@two.example", &["suppressed@posthorn.test"]).await;
        let names = ["sent", "delivered", "bounced", "bounced_permanent", "complained", "suppressed", "failed", "opened"];
        let before = read(&post.app, &key, "").await;
        assert_eq!(pick(&before["totals"], &names), [4, 3, 1, 1, 1, 1, 0, 0]);
        assert_eq!(before["totals"]["delivery_rate"], json!(0.75));
        assert_eq!(before["object"], "metrics");
        assert!(before.get("data").is_none(), "{before}");
        assert_eq!(before["metrics"].as_array().expect("names").len(), 22);
        assert!(store.count("email_count_deltas").await > 0, "nothing is added up yet");
        upkeep::round(&post.app.app).await.expect("upkeep");
        assert_eq!((store.count("email_count_deltas").await, store.count("email_counts").await), (0, 2));
        assert_eq!(read(&post.app, &key, "").await, before);
        let theirs = post.app.second_workspace_key().await;
        assert_eq!(pick(&read(&post.app, &theirs, "").await["totals"], &names), [0; 8]);
    }

    async fn issue_14_numbers_are_told_apart_by_period_and_domain_and_only_those_asked_for_are_told(store: Store) {
        let post = Post::open(&store, &[]).await;
        let key = post.app.full_key().await;
        let made = post.app.post("/domains").key(&key).json(json!({"name": "one.example"})).send().await.json();
        let domain = made["id"].as_str().expect("an id").to_owned();
        send(&post, &key, "a@one.example", &["x@example.com"]).await;
        upkeep::round(&post.app.app).await.expect("upkeep");
        post.app.clock.advance(DAY);
        send(&post, &key, "a@one.example", &["x@example.com"]).await;
        send(&post, &key, "a@two.example", &["x@example.com", "bounced@posthorn.test"]).await;
        let whole = read(&post.app, &key, "?dimensions=period,domain&metrics=sent,bounce_rate").await;
        assert_eq!(whole["totals"], json!({"sent": 4, "bounce_rate": 0.25}));
        let expected = json!([
            {"period": "2026-01-02T00:00:00.000000Z", "domain_id": domain, "domain_name": "one.example", "sent": 1,
             "bounce_rate": 0.0},
            {"period": "2026-01-03T00:00:00.000000Z", "domain_id": domain, "domain_name": "one.example", "sent": 1,
             "bounce_rate": 0.0},
            {"period": "2026-01-03T00:00:00.000000Z", "domain_name": "two.example", "sent": 2, "bounce_rate": 0.5},
        ]);
        assert_eq!(whole["data"], expected);
        let one = read(&post.app, &key, &format!("?domain_id={domain}&metrics=sent")).await;
        assert_eq!(one["totals"], json!({"sent": 2}));
        let hourly = read(&post.app, &key, "?dimensions=period&granularity=hourly&timezone=Asia/Kathmandu&metrics=sent").await;
        let periods: Vec<&Value> = hourly["data"].as_array().expect("rows").iter().map(|row| &row["period"]).collect();
        assert_eq!(periods, ["2026-01-02T02:15:00.000000Z", "2026-01-03T02:15:00.000000Z"]);
        let early = read(&post.app, &key, "?start_date=2026-01-02&end_date=2026-01-02&metrics=sent").await;
        assert_eq!(early["totals"], json!({"sent": 1}), "a date is a whole day");
        for added_up in [false, true] {
            let apart = read(&post.app, &key, "?dimensions=domain&metrics=sent").await;
            let expected = json!([
                {"domain_id": domain, "domain_name": "one.example", "sent": 2},
                {"domain_name": "two.example", "sent": 2},
            ]);
            assert_eq!((&apart["data"], &apart["totals"]), (&expected, &json!({"sent": 4})), "added up: {added_up}");
            // From within the first day to within the last, with the whole days between them.
            let within = "?start_date=2026-01-02T01:00:00Z&end_date=2026-01-05T01:00:00Z&metrics=sent";
            assert_eq!(read(&post.app, &key, within).await["totals"], json!({"sent": 4}), "added up: {added_up}");
            let late = "?start_date=2026-01-02T12:00:00Z&end_date=2026-01-05T01:00:00Z&metrics=sent";
            assert_eq!(read(&post.app, &key, late).await["totals"], json!({"sent": 3}), "added up: {added_up}");
            upkeep::round(&post.app.app).await.expect("upkeep");
        }
        assert!(store.count("email_counts_by_day").await == 3, "two days, and two domains on the second");
        let nobodys = "?domain_id=01890000-0000-7000-8000-000000000000&metrics=sent";
        assert_eq!(read(&post.app, &key, nobodys).await["totals"], json!({"sent": 0}));
        let refused = post.app.get("/emails/metrics?metrics=loved").key(&key).send().await;
        assert!(refused.refused(422, "invalid_parameter").contains("`metrics`"));
    }

    async fn a_page_tells_what_a_person_asks_of_the_numbers(store: Store) {
        let post = Post::open(&store, &[]).await;
        let (app, key) = (&post.app, post.app.full_key().await);
        let theirs = app.second_workspace_key().await;
        let made = app.post("/domains").key(&key).json(json!({"name": "one.example"})).send().await.json();
        let domain = made["id"].as_str().expect("an id").to_owned();
        let first = send(&post, &key, "a@one.example", &["x@example.com"]).await;
        app.clock.advance(DAY);
        send(&post, &key, "a@two.example", &["x@example.com", "bounced@posthorn.test"]).await;
        let cookie = owner(app).await;
        let ask = async |query: &str| page(app, &cookie, &format!("/deliverability?{query}")).await;
        let sent = |count: i64| format!("<dt class=\"tile-label\">Sent</dt><dd class=\"tile-count\">{count}");
        let usual = ask("").await;
        assert!(usual.contains(&sent(3)) && usual.contains("those of UTC.") && !usual.contains("id=\"apart\""), "{usual}");
        assert!(usual.contains("<details class=\"panel\">") && usual.matches("data-label=\"Day\"").count() == 30, "{usual}");
        let one = ask(&format!("domain_id={domain}")).await;
        assert!(one.contains(&sent(1)) && one.contains(&format!("<option value=\"{domain}\" selected>")), "{one}");
        assert!(one.contains(&format!("?days=7&#38;domain_id={}\"", domain.replace('-', "%2D"))), "a span keeps the rest: {one}");
        let dated = ask("start_date=2026-01-02&end_date=2026-01-02&granularity=hourly&timezone=Asia/Kathmandu&apart=domain").await;
        assert!(dated.contains(&sent(1)) && dated.contains("those of Asia/Kathmandu."), "{dated}");
        assert!(dated.contains("<td role=\"cell\" data-label=\"Hour\">2026-01-02 08:00</td>") && dated.contains("(Asia/Kathmandu)</text>"), "{dated}");
        assert!(dated.contains("id=\"apart\">By domain") && dated.contains(&format!("/domains/{domain}\"")), "{dated}");
        let weekly = ask("granularity=weekly&apart=email").await;
        assert!(weekly.contains("<time datetime=\"2025-12-29\">2025-12-29</time>") && weekly.contains(&format!("/emails/{first}\"")), "{weekly}");
        let mail = ask(&format!("email_id={first}")).await;
        assert!(mail.contains(&sent(1)), "{mail}");
        let theirs = app.post("/domains").key(&theirs).json(json!({"name": "theirs.example"})).send().await.json();
        let theirs = format!("domain_id={}", theirs["id"].as_str().expect("an id"));
        for (query, field) in [
            ("start_date=soon", "start_date"),
            ("end_date=never", "end_date"),
            ("start_date=2020-01-01", "start_date"),
            ("timezone=Nowhere", "timezone"),
            ("granularity=yearly", "granularity"),
            ("email_id=x", "email_id"),
            ("email_id=01890000-0000-7000-8000-000000000000&apart=broadcast", "email_id"),
            ("broadcast_id=01890000-0000-7000-8000-000000000000", "broadcast_id"),
            ("apart=color", "apart"),
            (&theirs, "domain_id"),
        ] {
            let refused = app.get(format!("/dashboard/deliverability?{query}")).header("cookie", &cookie).send().await;
            let text = refused.text();
            assert_eq!(refused.status, 422, "{query}: {text}");
            assert!(text.contains(&format!("aria-describedby=\"f-{field}-error\"")) && text.contains("<details class=\"panel\" open>"), "{query}: {text}");
            let typed = query.split('=').nth(1).and_then(|value| value.split('&').next()).expect("a value");
            let is_line = ["start_date", "end_date", "timezone", "email_id"].contains(&field);
            assert!(!is_line || text.contains(&format!("value=\"{typed}\"")), "{query} is kept: {text}");
        }
    }

    async fn a_page_tells_the_numbers_of_a_broadcast(store: Store) {
        let sink = Sink::open().await;
        let stage = broadcasts::Stage::open(&store, &sink, 3).await;
        let app = &stage.post.app;
        let id = stage.send(json!({"name": "News of May"})).await;
        stage.run().await;
        send(&stage.post, &stage.key, "a@sender.example", &["x@example.com"]).await;
        let cookie = owner(app).await;
        let apart = page(app, &cookie, "/deliverability?apart=broadcast").await;
        assert!(apart.contains("<bdi>News of May</bdi></a>") && apart.contains("Mail of no broadcast"), "{apart}");
        let one = page(app, &cookie, &format!("/deliverability?broadcast_id={id}")).await;
        assert!(one.contains("Sent</dt><dd class=\"tile-count\">3"), "{one}");
        assert!(one.contains(&format!("<option value=\"{id}\" selected>News of May</option>")), "{one}");
    }

    async fn issue_14_the_numbers_of_single_mails_are_those_of_their_histories(store: Store) {
        let post = Post::open(&store, &[]).await;
        let key = post.app.full_key().await;
        let first = send(&post, &key, "a@one.example", &["x@example.com", "bounced@posthorn.test"]).await;
        post.app.clock.advance(SECOND);
        let second = send(&post, &key, "a@one.example", &["complained@posthorn.test"]).await;
        post.app.clock.advance(SECOND);
        let query = "?dimensions=email&metrics=sent,delivered,bounced_permanent,complained";
        let row = |id: &str, [sent, delivered, bounced, complained]: [i64; 4]| {
            json!({"email_id": id, "sent": sent, "delivered": delivered, "bounced_permanent": bounced,
                "complained": complained})
        };
        let expected = json!([row(&first, [2, 1, 1, 0]), row(&second, [1, 1, 0, 1])]);
        assert_eq!(read(&post.app, &key, query).await["data"], expected);
        let one = read(&post.app, &key, &format!("{query}&email_id={second}")).await;
        assert_eq!(one["data"], json!([row(&second, [1, 1, 0, 1])]));
        let theirs = post.app.second_workspace_key().await;
        assert_eq!(read(&post.app, &theirs, &format!("{query}&email_id={second}")).await["data"], json!([]));
        let all = read(&post.app, &key, "?metrics=sent,delivered,bounced_permanent,complained").await;
        let sums = read(&post.app, &key, query).await;
        assert_eq!(all["totals"], sums["totals"], "histories and counters say the same");
    }

    async fn issue_14_a_broadcast_has_numbers_of_its_own(store: Store) {
        let sink = Sink::open().await;
        let stage = broadcasts::Stage::open(&store, &sink, 3).await;
        let id = stage.send(json!({"name": "News of May"})).await;
        stage.run().await;
        send(&stage.post, &stage.key, "a@sender.example", &["x@example.com"]).await;
        let query = "?dimensions=broadcast&metrics=sent,delivered";
        let data = read(&stage.post.app, &stage.key, query).await["data"].clone();
        let of_broadcast = json!({"broadcast_id": id, "broadcast_name": "News of May", "sent": 3, "delivered": 3});
        assert_eq!(data, json!([{"sent": 1, "delivered": 1}, of_broadcast]));
        let one = read(&stage.post.app, &stage.key, &format!("?broadcast_id={id}&metrics=sent")).await;
        assert_eq!(one["totals"], json!({"sent": 3}));
    }

    /// Several processes count and add up at the same time, and some stop in the middle of it.
    async fn issue_14_what_is_counted_is_there_at_every_moment_whoever_adds_it_up(store: Store) {
        const COMMITS: i64 = 60;
        let apps = [TestApp::open(&store, &[]).await, TestApp::open(&store, &[]).await];
        let workspace = apps[0].workspace().await;
        let (begun, done) = (AtomicI64::new(0), AtomicI64::new(0));
        let counting = |app: &TestApp| {
            let (app, begun, done) = (app.app.clone(), &begun, &done);
            async move {
                for round in 0..COMMITS {
                    let mut tally = Tally::default();
                    let domains = ["one.example", "two.example"];
                    domains.iter().take(1 + (round % 2) as usize).for_each(|domain| tally.count(domain, None, Counted::Delivered));
                    let count = 1 + round % 2;
                    let mut batch = Batch::new();
                    tally.add_to(&mut batch, workspace, &app.clock);
                    begun.fetch_add(count, Ordering::SeqCst);
                    app.db.commit(batch).await.expect("a commit");
                    done.fetch_add(count, Ordering::SeqCst);
                }
            }
        };
        let folding = |app: &TestApp| {
            let app = app.app.clone();
            async move {
                for round in 0..COMMITS {
                    // As if the process were killed: wherever it was, it goes no further.
                    let patience = Duration::from_micros(400 * (round as u64 % 8));
                    let _ = tokio::time::timeout(patience, email_metrics::fold(&app)).await;
                }
            }
        };
        let looking = async {
            for _ in 0..COMMITS {
                let least = done.load(Ordering::SeqCst);
                let found = counted(&apps[0]).await;
                let most = begun.load(Ordering::SeqCst);
                assert!((least..=most).contains(&found), "{found} of {least} to {most}");
            }
        };
        let counted_by_all = join_all(apps.iter().map(counting));
        let added_by_all = join_all(apps.iter().map(folding));
        tokio::join!(counted_by_all, added_by_all, looking);
        let all = done.load(Ordering::SeqCst);
        assert_eq!(counted(&apps[0]).await, all);
        email_metrics::fold(&apps[1].app).await.expect("added up");
        assert_eq!((counted(&apps[0]).await, store.count("email_count_deltas").await), (all, 0));
    }

    async fn issue_14_upkeep_writes_nothing_while_there_is_nothing_to_do(store: Store) {
        let (first, second) = (TestApp::open(&store, &[]).await, TestApp::open(&store, &[]).await);
        let attempts = async || store.value("SELECT SUM(attempt) FROM chores").await.expect("a number");
        assert_eq!(upkeep::round(&first.app).await.expect("upkeep"), 5, "everything but what nobody has counted");
        let before = attempts().await;
        for app in [&first, &second] {
            app.clock.advance(MINUTE);
            assert_eq!(upkeep::round(&app.app).await.expect("upkeep"), 0);
        }
        assert_eq!(attempts().await, before);
        first.clock.advance(HOUR);
        assert_eq!(upkeep::round(&first.app).await.expect("upkeep"), 5);
    }
}
