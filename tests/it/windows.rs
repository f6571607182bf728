//! When mail may be sent: windows of automations, what a workspace has settled, and what is told of
//! mail that waits.

use posthorn::clock::{HOUR, MINUTE};
use posthorn::hold;
use serde_json::{Value, json};

use crate::automation_pages::{owner, page, press};
use crate::emails::{mail_with, sent, shown};
use crate::harness::{TestApp, on_both};
use crate::sending::{Stage, statuses};
use crate::step_mail::mail;

/// The tests begin at 03:04:05 UTC on 2 January 2026, a Friday.
fn office_hours() -> Value {
    json!({"days": ["monday", "tuesday", "wednesday", "thursday", "friday"], "from": "09:00", "until": "17:00"})
}

async fn contact(stage: &Stage, email: &str, timezone: &str) {
    let made = stage.post("/contacts", json!({"email": email, "properties": {"timezone": timezone}})).await;
    assert_eq!(made.status, 201, "{}", made.text());
}

/// The form of that page; its name stands in the navigation, too.
const SETTINGS: &str = "action=\"/dashboard/settings";

async fn queued(stage: &Stage) -> Vec<String> {
    let rows = stage.app.store.rows("SELECT address FROM email_recipients ORDER BY address").await;
    rows.into_iter().flatten().flatten().collect()
}

on_both! {
    async fn mail_of_an_automation_waits_for_its_window_where_the_contact_is(app: TestApp) {
        let stage = Stage::new(app).await;
        let set = stage.app.patch("/workspace").key(&stage.key).json(json!({"timezone": "Europe/Berlin"})).send().await;
        assert_eq!(set.status, 200, "{}", set.text());
        contact(&stage, "tokyo@example.com", "Asia/Tokyo").await;
        contact(&stage, "mars@example.com", "Mars/Olympus").await;
        let steps = [Stage::trigger(), mail()];
        let automation = stage.automation_with(&steps, json!({"send_window": office_hours()})).await;
        for email in ["tokyo@example.com", "mars@example.com", "new@example.com"] {
            stage.send("user.created", email, json!({})).await;
        }
        stage.work().await;
        // It is noon in Tokyo and four in the morning in Berlin.
        assert_eq!(queued(&stage).await, ["tokyo@example.com"]);
        let newest = stage.runs(&automation).await[0]["id"].as_str().expect("an id").to_owned();
        let path = format!("/automations/{automation}/runs/{newest}");
        let run = stage.get(&path).await;
        assert_eq!((statuses(&run), &run["status"]), (vec!["completed", "waiting"], &json!("running")));
        let waiting = &run["steps"][1]["output"]["waiting"];
        assert_eq!(waiting["until"], "2026-01-02T08:00:00.000000Z");
        let reason = waiting["reason"].as_str().expect("a reason");
        assert!(reason.starts_with("it waits until 2026-01-02 09:00 in Europe/Berlin: the automation sends from 09:00"), "{reason}");
        stage.app.clock.advance(5 * HOUR - 5 * MINUTE);
        stage.work().await;
        assert_eq!(queued(&stage).await.len(), 1, "five minutes are left");
        stage.app.clock.advance(MINUTE);
        stage.work().await;
        assert_eq!(queued(&stage).await, ["mars@example.com", "new@example.com", "tokyo@example.com"]);
        let ended = stage.get(&path).await;
        assert_eq!((&ended["status"], ended["steps"][1]["output"].get("waiting")), (&json!("completed"), None));
    }

    async fn a_window_that_is_changed_holds_for_runs_in_flight(app: TestApp) {
        let stage = Stage::new(app).await;
        let steps = [Stage::trigger(), ("delay", json!({"duration": "1 hour"})), mail()];
        let automation = stage.automation(&steps).await;
        stage.send("user.created", "ada@example.com", json!({})).await;
        let path = format!("/automations/{automation}");
        let changed = stage.app.patch(&path).key(&stage.key).json(json!({"send_window": office_hours()})).send().await;
        assert_eq!(changed.status, 200, "{}", changed.text());
        stage.app.clock.advance(HOUR);
        stage.work().await;
        assert_eq!((queued(&stage).await.len(), statuses(&stage.run(&automation).await)[2]), (0, "waiting"));
        stage.app.clock.advance(5 * HOUR);
        stage.work().await;
        assert_eq!(queued(&stage).await.len(), 1);
    }

    async fn who_waits_for_a_window_looks_again_when_it_is_changed(app: TestApp) {
        let stage = Stage::new(app).await;
        let automation = stage.automation_with(&[Stage::trigger(), mail()], json!({"send_window": office_hours()})).await;
        stage.send("user.created", "ada@example.com", json!({})).await;
        stage.work().await;
        let path = format!("/automations/{automation}");
        let set = async |window: Value| {
            let changed = stage.app.patch(&path).key(&stage.key).json(json!({"send_window": window})).send().await;
            assert_eq!(changed.status, 200, "{}", changed.text());
            stage.work().await;
        };
        set(json!({"from": "04:00", "until": "05:00"})).await;
        let run = stage.run(&automation).await;
        assert_eq!((queued(&stage).await.len(), &run["steps"][1]["output"]["waiting"]["until"]),
            (0, &json!("2026-01-02T04:00:00.000000Z")), "it waits for the new one");
        set(json!({"from": "03:00", "until": "05:00"})).await;
        assert_eq!(queued(&stage).await, ["ada@example.com"]);
    }

    async fn a_window_is_shown_where_there_is_one_and_can_be_taken_away(app: TestApp) {
        let stage = Stage::new(app).await;
        let mut step = mail();
        step.1["send_window"] = json!({"from": "22:00", "until": "06:00"});
        let automation = stage.automation_with(&[Stage::trigger(), step], json!({"send_window": office_hours()})).await;
        let path = format!("/automations/{automation}");
        let shown = stage.get(&path).await;
        assert_eq!(shown["send_window"], office_hours());
        assert_eq!(shown["steps"][1]["config"]["send_window"]["days"].as_array().map(Vec::len), Some(7), "every day");
        let copy = stage.post(&format!("{path}/duplicate"), json!({})).await.json()["id"].clone();
        let copy = stage.get(&format!("/automations/{}", copy.as_str().expect("an id"))).await;
        assert_eq!(copy["send_window"], office_hours());
        let cookie = owner(&stage.app).await;
        let told = page(&stage.app, &cookie, &path).await;
        assert!(told.contains("from 09:00 until 17:00 on monday, tuesday"), "{told}");
        let removed = stage.app.patch(&path).key(&stage.key).json(json!({"send_window": null})).send().await;
        assert_eq!((removed.status, stage.get(&path).await.get("send_window")), (200, None));
    }

    async fn a_window_that_never_opens_or_names_no_time_is_refused(app: TestApp) {
        let stage = Stage::new(app).await;
        let steps = json!([{"key": "start", "type": "trigger", "config": {"event_name": "user.created"}}]);
        for (window, words) in [
            (json!({"from": "09:00", "until": "09:00"}), "different times"),
            (json!({"days": [], "from": "09:00", "until": "17:00"}), "at least one day"),
            (json!({"days": ["funday"], "from": "09:00", "until": "17:00"}), "`monday`"),
            (json!({"from": "9 o'clock", "until": "17:00"}), "`9 o'clock`"),
            (json!({"from": "09:00"}), "until"),
        ] {
            let body = json!({"name": "A", "steps": steps, "connections": [], "send_window": window});
            let refused = stage.post("/automations", body.clone()).await.refused(422, "validation_error");
            assert!(refused.contains(words) && refused.contains("send_window"), "{window}: {refused}");
            let check = stage.post("/automations/validate", body).await.json();
            let finding = check["findings"][0]["message"].as_str().unwrap_or_default();
            assert!(check["valid"] == false && finding.contains(words), "{window}: {check}");
            let step = json!({"key": "mail", "type": "send_email", "config": {"from": "us@acme.example", "subject": "S",
                "text": "T", "send_window": window}});
            let body = json!({"name": "A", "steps": [steps[0], step], "connections": [{"from": "start", "to": "mail"}]});
            let refused = stage.post("/automations", body).await.refused(422, "validation_error");
            assert!(refused.contains(words) && refused.contains("`mail`"), "{window}: {refused}");
        }
    }

    async fn what_a_workspace_has_settled_is_read_and_changed_by_its_own(app: TestApp) {
        let (mine, theirs) = (app.full_key().await, app.second_workspace_key().await);
        let read = async |key: &str| app.get("/workspace").key(key).send().await.json();
        let change = async |body: Value| app.patch("/workspace").key(&mine).json(body).send().await;
        let first = read(&mine).await;
        assert_eq!((&first["object"], &first["timezone"], &first["bulk_cap"]), (&json!("workspace"), &json!("UTC"), &Value::Null));
        let cap = json!({"mails": 3, "hours": 168});
        assert_eq!(change(json!({"timezone": "europe/berlin", "bulk_cap": cap})).await.json()["id"], first["id"]);
        assert_eq!(change(json!({})).await.status, 200);
        let changed = read(&mine).await;
        assert_eq!((&changed["timezone"], &changed["bulk_cap"]), (&json!("Europe/Berlin"), &cap));
        assert_eq!(read(&theirs).await["timezone"], "UTC");
        assert_eq!(change(json!({"bulk_cap": null})).await.status, 200);
        assert_eq!((&read(&mine).await["bulk_cap"], &read(&mine).await["timezone"]), (&Value::Null, &json!("Europe/Berlin")));
        for (body, words) in [
            (json!({"timezone": "Mars/Olympus"}), "`Mars/Olympus`"),
            (json!({"timezone": 1}), "`timezone`"),
            (json!({"bulk_cap": {"mails": 0, "hours": 24}}), "`mails`"),
            (json!({"bulk_cap": {"mails": 1, "hours": 721}}), "`hours`"),
            (json!({"bulk_cap": {"mails": 1}}), "`bulk_cap.hours`"),
        ] {
            let refused = change(body.clone()).await.refused(422, "validation_error");
            assert!(refused.contains(words), "{body}: {refused}");
        }
    }

    async fn a_person_settles_the_zone_and_the_cap_in_the_dashboard(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let form = page(&app, &cookie, "/settings").await;
        let typed = |zone: &str, mails: &str| {
            form.replace("value=\"UTC\"", &format!("value=\"{zone}\"")).replace("value=\"0\"", &format!("value=\"{mails}\""))
        };
        let refused = press(&app, &cookie, &typed("Mars/Olympus", "x"), SETTINGS).await;
        assert_eq!(refused.status, 422);
        for words in ["not the name of a time zone", "1 to 1000 mails", "Mars/Olympus"] {
            assert!(refused.text().contains(words), "{words}: {}", refused.text());
        }
        let saved = press(&app, &cookie, &typed("America/New_York", "2"), SETTINGS).await;
        assert_eq!((saved.status, saved.location()), (303, "/dashboard/settings?saved"));
        assert!(page(&app, &cookie, "/settings?saved").await.contains("The settings are saved."));
        let settled = app.get("/workspace").key(&key).send().await.json();
        assert_eq!(settled["timezone"], "America/New_York");
        assert_eq!(settled["bulk_cap"], json!({"mails": 2, "hours": 24}));
    }

    async fn mail_that_waits_says_for_what_and_until_when(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let later = sent(&app, &key, mail_with(json!({"scheduled_at": "in 2 hours"}))).await;
        let waiting = shown(&app, &key, &later).await["recipients"][0].clone();
        assert_eq!(waiting["waits_until"], "2026-01-02T05:04:05.678901Z");
        assert_eq!(waiting["reason"], "It is scheduled for 2 Jan 2026, 05:04:05 UTC.");
        for expected in ["It is next in its line. ", "It is due; one other in its line", "It is due; 2 others in its line"] {
            let id = sent(&app, &key, mail_with(json!({"to": "first@example.com"}))).await;
            app.clock.advance(1);
            let told = shown(&app, &key, &id).await["recipients"].clone();
            let reason = told[0]["reason"].as_str().expect("a reason");
            assert!(reason.starts_with(expected), "{expected}: {told}");
            assert_eq!((&told[0]["to"], &told[0]["waits_until"]), (&json!("first@example.com"), &Value::Null));
        }
        app.app.db.commit(hold::set(&app.clock, "a test")).await.expect("a hold");
        let id = sent(&app, &key, mail_with(json!({}))).await;
        assert!(page(&app, &cookie, &format!("/emails/{id}")).await.contains("(a test): nothing is sent"), "what it waits for");
        app.store.run("UPDATE email_recipients SET state = 40, due_at = NULL").await;
        let ended = shown(&app, &key, &id).await["recipients"][0].clone();
        assert_eq!((&ended["reason"], &ended["waits_until"]), (&Value::Null, &Value::Null), "nothing is waited for");
    }
}
