//! When recipients of a broadcast get it: within its window, before others of a lower priority, and no
//! more of it than their workspace allows.

use posthorn::clock::{HOUR, SECOND};
use serde_json::{Value, json};

use crate::automation_pages::{owner, page};
use crate::broadcasts::Stage;
use crate::harness::on_both;
use crate::sink::Sink;
use crate::store::Store;

/// Whom the server got mail for, in order.
fn taken(sink: &Sink) -> Vec<String> {
    sink.kept().into_iter().map(|taken| taken.to).collect()
}

/// The mail of the one recipient of a broadcast that is so far.
async fn own_mail(stage: &Stage, id: &str, kind: &str) -> Value {
    let listed = stage.call("GET", &format!("/broadcasts/{id}/recipients?type={kind}"), json!({})).await;
    let own = listed["data"][0]["id"].as_str().unwrap_or_else(|| panic!("nobody is {kind}: {listed}"));
    stage.call("GET", &format!("/emails/{own}"), json!({})).await
}

/// How the recipients of a broadcast stand.
async fn states(store: &Store, subject: &str) -> Vec<Option<String>> {
    let sql = format!(
        "SELECT r.state FROM email_recipients r JOIN emails e ON e.id = r.email_id WHERE e.subject = '{subject}'
         GROUP BY r.state ORDER BY r.state"
    );
    store.rows(&sql).await.into_iter().flatten().collect()
}

on_both! {
    async fn a_broadcast_reaches_each_within_its_window_where_they_are(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 1).await;
        stage.add("tokyo@example.com", json!({"properties": {"timezone": "Asia/Tokyo"}})).await;
        let id = stage.send(json!({"send_window": {"from": "09:00", "until": "17:00"}})).await;
        stage.run().await;
        // It is noon in Tokyo, and three in the morning in UTC.
        assert_eq!(taken(&sink), ["tokyo@example.com"]);
        let read = stage.read(&id).await;
        assert_eq!((&read["state"], &read["send_window"]["from"]), (&json!("sending"), &json!("09:00")));
        let progress = &read["progress"];
        assert_eq!((&progress["put_off"], &progress["next_at"]), (&json!(1), &json!("2026-01-02T09:00:00.000000Z")));
        let reason = "it waits until 2026-01-02 09:00 in UTC: the broadcast sends from 09:00 until 17:00";
        assert_eq!(progress["waits_for"], reason);
        let shown = page(&stage.post.app, &owner(&stage.post.app).await, &format!("/broadcasts/{id}")).await;
        let until = "1 are put off, the first of them until <time datetime=\"2026-01-02T09:00:00.000000Z\"";
        assert!(shown.contains(until) && shown.contains(">2 Jan 2026, 09:00:00 UTC</time>. Some wait: it waits until"), "{shown}");
        let waiting = own_mail(&stage, &id, "queued").await["recipients"].clone();
        assert_eq!(waiting[0]["waits_until"], "2026-01-02T09:00:00.000000Z");
        assert!(waiting[0]["reason"].as_str().expect("a reason").starts_with(reason), "{waiting}");
        stage.post.app.clock.advance(6 * HOUR);
        stage.run_on().await;
        assert_eq!(taken(&sink), ["tokyo@example.com", "p0@example.com"]);
        let read = stage.read(&id).await;
        assert_eq!((&read["state"], &read["progress"]["put_off"]), (&json!("sent"), &json!(0)));
    }

    async fn of_two_broadcasts_the_one_of_the_higher_priority_goes_first(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 100).await;
        stage.send(json!({"subject": "Low", "priority": 2})).await;
        stage.send(json!({"subject": "High", "priority": 8})).await;
        for _ in 0..4 {
            stage.take().await;
        }
        let queued = Some("10".to_owned());
        for _ in 0..2 {
            let before = taken(&sink).len();
            stage.post.round().await;
            assert!(taken(&sink).len() > before, "some are sent");
            let high = states(&store, "High").await;
            assert!(high.contains(&queued), "not all of them: {high:?}");
            assert_eq!(states(&store, "Low").await, vec![queued.clone()], "while the other waits, nobody gets this one");
        }
        stage.run().await;
        assert_eq!(taken(&sink).len(), 200, "and then it goes");
    }

    async fn a_contact_gets_no_more_bulk_mail_than_its_workspace_allows(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 1).await;
        stage.call("PATCH", "/workspace", json!({"bulk_cap": {"mails": 1, "hours": 24}})).await;
        // Both would leave at the same moment.
        let ids = [stage.send(json!({})).await, stage.send(json!({})).await];
        stage.run().await;
        stage.run().await;
        assert_eq!(taken(&sink).len(), 1);
        let reads = [stage.read(&ids[0]).await, stage.read(&ids[1]).await];
        let late = if reads[0]["state"] == "sending" { 0 } else { 1 };
        assert_eq!((&reads[late]["state"], &reads[1 - late]["state"]), (&json!("sending"), &json!("sent")));
        let reason = reads[late]["progress"]["waits_for"].as_str().expect("a reason").to_owned();
        assert!(reason.contains("1 bulk mail in 24 hours") && reason.contains("2026-01-03T03:04:0"), "{reason}");
        // Mail that is not to many is not held back.
        stage.call("POST", "/emails", json!({"from": "a@b.example", "to": "p0@example.com", "subject": "S", "text": "T"})).await;
        let short = stage.send(json!({"send_within_hours": 12})).await;
        stage.run().await;
        assert_eq!(taken(&sink).len(), 2);
        assert_eq!(stage.read(&short).await["state"], "sent");
        let given_up = own_mail(&stage, &short, "suppressed").await;
        assert_eq!(given_up["last_event"], "suppressed");
        let told = store.rows("SELECT reason FROM email_recipients WHERE state = 64").await;
        assert!(told[0][0].as_deref().is_some_and(|reason| reason.contains("the broadcast is over before that")), "{told:?}");
        stage.post.app.clock.advance(24 * HOUR);
        stage.run_on().await;
        assert_eq!((taken(&sink).len(), &stage.read(&ids[late]).await["state"]), (3, &json!("sent")));
        // The mail of a day ago does not count any more, but that of now does.
        stage.post.app.clock.advance(SECOND);
        stage.send(json!({})).await;
        stage.run().await;
        assert_eq!(taken(&sink).len(), 3);
    }

    async fn who_waits_because_of_a_cap_or_a_zone_is_looked_at_anew_when_that_changes(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 3).await;
        stage.call("PATCH", "/workspace", json!({"bulk_cap": {"mails": 1, "hours": 24}})).await;
        stage.send(json!({})).await;
        stage.run().await;
        stage.send(json!({})).await;
        stage.run().await;
        assert_eq!(taken(&sink).len(), 3, "one each");
        let attempts = "SELECT SUM(attempt) FROM email_recipients";
        let before = store.value(attempts).await;
        // What changes nothing wakes nobody.
        stage.call("PATCH", "/workspace", json!({"bulk_cap": {"mails": 1, "hours": 24}, "timezone": "UTC"})).await;
        stage.run_on().await;
        assert_eq!(store.value(attempts).await, before, "nobody is claimed again");
        // They are put off once more, and then left alone.
        stage.call("PATCH", "/workspace", json!({"bulk_cap": {"mails": 1, "hours": 48}})).await;
        stage.run_on().await;
        stage.run_on().await;
        let again = store.value(attempts).await.expect("a number").parse::<i64>().expect("a number");
        stage.run_on().await;
        assert_eq!(store.value(attempts).await, Some(again.to_string()));
        stage.call("PATCH", "/workspace", json!({"bulk_cap": null})).await;
        stage.run_on().await;
        stage.run_on().await;
        assert_eq!(taken(&sink).len(), 6, "and nothing holds them back any more");
        let windowed = stage.send(json!({"send_window": {"from": "09:00", "until": "17:00"}})).await;
        stage.run().await;
        assert_eq!(stage.read(&windowed).await["progress"]["put_off"], 3);
        stage.call("PATCH", "/workspace", json!({"timezone": "Asia/Tokyo"})).await;
        stage.run_on().await;
        stage.run_on().await;
        assert_eq!(taken(&sink).len(), 9, "it is noon there");
    }

    async fn what_says_when_a_broadcast_is_sent_is_kept_changed_and_checked(store: Store) {
        let sink = Sink::open().await;
        let stage = Stage::open(&store, &sink, 1).await;
        let plain = stage.call("POST", "/broadcasts", stage.fields(json!({}))).await["id"].as_str().expect("an id").to_owned();
        let read = stage.read(&plain).await;
        assert_eq!((&read["send_window"], &read["priority"], &read["send_within_hours"]), (&Value::Null, &json!(5), &Value::Null));
        let path = format!("/broadcasts/{plain}");
        let window = json!({"days": ["monday"], "from": "22:00", "until": "06:00"});
        stage.call("PATCH", &path, json!({"send_window": window, "priority": 9, "send_within_hours": 48})).await;
        stage.call("PATCH", &path, json!({"name": "Later"})).await;
        let copy = stage.call("POST", &format!("{path}/duplicate"), json!({})).await["id"].as_str().expect("an id").to_owned();
        for id in [&plain, &copy] {
            let read = stage.read(id).await;
            assert_eq!((&read["send_window"], &read["priority"], &read["send_within_hours"]), (&window, &json!(9), &json!(48)));
        }
        stage.call("PATCH", &path, json!({"send_window": null, "send_within_hours": null})).await;
        let read = stage.read(&plain).await;
        assert_eq!((&read["send_window"], &read["send_within_hours"]), (&Value::Null, &Value::Null));
        for (field, value, words) in [
            ("priority", json!(0), "from 1 to 9"),
            ("priority", json!("high"), "from 1 to 9"),
            ("send_within_hours", json!(721), "from 1 to 720"),
            ("send_window", json!({"from": "09:00", "until": "09:00"}), "different times"),
            ("send_window", json!({"days": [], "from": "09:00", "until": "10:00"}), "at least one day"),
        ] {
            for (method, path) in [("POST", "/broadcasts"), ("PATCH", path.as_str())] {
                let (status, refused) = stage.try_call(method, path, stage.fields(json!({ field: value }))).await;
                let message = refused["message"].as_str().unwrap_or_default();
                assert!(status == 422 && message.contains(words) && message.contains(field), "{method} {field}: {refused}");
            }
        }
    }
}
