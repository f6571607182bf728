//! Automations as people edit them: drafts, undo, findings, publishing, versions.

use posthorn::accounts::Role;
use serde_json::{Value, json};

use crate::asking::encoded;
use crate::automation_pages::{owner, page, press};
use crate::graphs::{automation, body};
use crate::harness::{Answer, TestApp, on_both};

/// Somebody at an automation.
pub struct Editor {
    pub app: TestApp,
    pub key: String,
    pub cookie: String,
    pub path: String,
    /// What its page said last, of which the forms are sent.
    pub shown: String,
}

pub fn within<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    text.split(before).nth(1).and_then(|rest| rest.split(after).next()).unwrap_or_else(|| panic!("no {before}: {text}"))
}

impl Editor {
    /// With an automation that a program has made.
    pub async fn new(app: TestApp) -> Editor {
        let key = app.full_key().await;
        let id = automation(&app, &key, body("Welcome")).await;
        Editor::at(app, key, format!("/automations/{id}")).await
    }

    async fn at(app: TestApp, key: String, path: String) -> Editor {
        let cookie = owner(&app).await;
        let mut editor = Editor { app, key, cookie, path, shown: String::new() };
        editor.look("").await;
        editor
    }

    /// With a draft that begins with something ready.
    async fn begun(app: TestApp, start: &str) -> Editor {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let form = page(&app, &cookie, "/automations/new").await;
        let fields = hidden(&form, "/automations/new");
        let sent = format!("{fields}&start={start}&from=us%40example.com");
        let answer = post(&app, &cookie, "/automations/new", &sent).await;
        assert_eq!(answer.status, 303, "{}", answer.text());
        let path = answer.location().strip_prefix("/dashboard").expect("a page").split("/edit").next().expect("a path");
        let mut editor = Editor { path: path.to_owned(), app, key, cookie, shown: String::new() };
        editor.look("?new").await;
        editor
    }

    pub async fn look(&mut self, query: &str) -> &str {
        self.shown = page(&self.app, &self.cookie, &format!("{}/edit{query}", self.path)).await;
        &self.shown
    }

    pub async fn send(&self, act: &str, fields: &str) -> Answer {
        let action = format!("/edit/{act}");
        let path = format!("{}{action}", self.path);
        // Every form on the page carries the same.
        let hidden = hidden(&self.shown, "/edit/undo");
        post(&self.app, &self.cookie, &path, &format!("{hidden}&{fields}")).await
    }

    /// Sends a form, and looks at the page that follows.
    pub async fn edit(&mut self, act: &str, fields: &str) -> &str {
        let answer = self.send(act, fields).await;
        assert_eq!(answer.status, 303, "{act} {fields}: {}", answer.text());
        let next = answer.location().strip_prefix("/dashboard").expect("a page").to_owned();
        self.shown = page(&self.app, &self.cookie, &next).await;
        &self.shown
    }

    pub async fn publish(&self, fields: &str) -> Answer {
        let asked = page(&self.app, &self.cookie, &format!("{}/edit/publish", self.path)).await;
        let hidden = hidden(&asked, "/edit/publish");
        post(&self.app, &self.cookie, &format!("{}/edit/publish", self.path), &format!("{hidden}&{fields}")).await
    }

    /// Lets the event happen that starts runs.
    async fn happen(&self, email: &str) {
        let event = json!({"event": "user.created", "email": email});
        let sent = self.app.post("/events/send").key(&self.key).json(event).send().await;
        assert_eq!(sent.status, 202, "{}", sent.text());
    }

    /// The draft as it is kept.
    pub async fn draft(&self) -> Value {
        let newest = "SELECT s.contents FROM automation_drafts d JOIN automation_draft_snapshots s
                      ON s.automation_id = d.automation_id AND s.position = d.position";
        let rows = self.app.store.rows(newest).await;
        let text = rows.into_iter().flatten().flatten().next().expect("a draft");
        serde_json::from_str(&text).expect("JSON")
    }

    pub async fn live(&self) -> Value {
        self.app.get(&self.path).key(&self.key).send().await.json()
    }
}

/// The hidden fields of the form whose action ends so.
pub fn hidden(page: &str, action: &str) -> String {
    let form = page.split("<form ").find(|form| form.contains(&format!("{action}\""))).expect("a form");
    let form = form.split("</form>").next().expect("a form");
    let inputs = form.split("<input ").filter(|input| input.starts_with("type=\"hidden\""));
    let pair = |input: &str| format!("{}={}", within(input, "name=\"", "\""), encoded(within(input, "value=\"", "\"")));
    inputs.map(pair).collect::<Vec<_>>().join("&")
}

pub async fn post(app: &TestApp, cookie: &str, path: &str, fields: &str) -> Answer {
    let request = app.post(format!("/dashboard{path}")).header("cookie", cookie);
    request.body("application/x-www-form-urlencoded", fields.to_owned()).send().await
}

fn keys(automation: &Value) -> Vec<&str> {
    automation["steps"].as_array().expect("steps").iter().map(|step| step["key"].as_str().expect("a key")).collect()
}

on_both! {
    async fn a_person_adds_edits_moves_and_removes_steps_and_publishes_them(app: TestApp) {
        let mut editor = Editor::new(app).await;
        assert!(editor.shown.contains("No edits yet") && editor.shown.contains("<title>Step 2 of 2, Wait: 1 hour (wait)"), "{}", editor.shown);
        assert!(editor.look("?after=start&way=default").await.contains("Add a step <bdi>after start"));
        assert!(!editor.shown.contains("value=\"exit\""), "something follows");
        let added = editor.edit("add", "after=start&way=default&type=send_email").await;
        assert!(added.contains("The step is added") && added.contains("The step `send_email` needs"), "{added}");
        let saved = editor.edit("step", "step=send_email&key=hello&mail=written&from=us%40example.com&subject=Hi&text=Hello").await;
        assert!(saved.contains("No findings") && saved.contains("Send e-mail: Hi"), "{saved}");
        let moved = editor.edit("move", "step=hello&direction=down").await;
        assert!(moved.contains("Step 3 of 3, Send e-mail: Hi (hello)"), "{moved}");
        editor.edit("move", "step=hello&direction=up").await;
        editor.edit("remove", "step=wait&keep=default").await;
        assert!(!editor.shown.contains("(wait)"));
        assert_eq!(keys(&editor.live().await), ["start", "wait"], "a draft is not in force");

        let asked = page(&editor.app, &editor.cookie, &format!("{}/edit/publish", editor.path)).await;
        for word in ["What changes against version 1", "Send e-mail: Hi (hello)", "Wait: 1 hour (wait)", "No run is in flight"] {
            assert!(asked.contains(word), "{word}: {asked}");
        }
        let answer = editor.publish("enable=yes").await;
        assert!(answer.status == 303 && answer.location().ends_with("?published"), "{}", answer.text());
        let live = editor.live().await;
        assert_eq!((keys(&live), &live["version"], &live["status"]), (vec!["start", "hello"], &json!(2), &json!("enabled")));
        assert_eq!(live["connections"], json!([{"from": "start", "to": "hello", "type": "default"}]));
        assert!(editor.look("").await.contains("No edits yet"), "the draft is done");
        assert_eq!(editor.app.count("automation_draft_snapshots").await, 0);
    }

    async fn publishing_says_how_many_runs_keep_the_version_that_they_have(app: TestApp) {
        let mut editor = Editor::new(app).await;
        let enabled = editor.app.patch(&editor.path).key(&editor.key).json(json!({"status": "enabled"})).send().await;
        assert_eq!(enabled.status, 200, "{}", enabled.text());
        editor.look("").await;
        editor.edit("add", "after=wait&way=default&type=delay").await;
        for (email, words) in [
            ("ada@example.com", "1 run is in flight. It keeps the version that it started with; new runs take the new one."),
            ("bob@example.com", "2 runs are in flight. They keep the version that they started with; new runs take the new one."),
        ] {
            editor.happen(email).await;
            let asked = page(&editor.app, &editor.cookie, &format!("{}/edit/publish", editor.path)).await;
            assert!(asked.contains(words), "{words}: {asked}");
        }
        let answer = editor.publish("").await;
        assert_eq!(answer.status, 303, "{}", answer.text());
        editor.happen("eve@example.com").await;
        let versions = editor.app.store.rows("SELECT version FROM runs ORDER BY id").await;
        assert_eq!(versions.into_iter().flatten().flatten().collect::<Vec<_>>(), ["1", "1", "2"]);
    }

    async fn a_colleagues_edit_is_named_before_it_is_published_with_ones_own(app: TestApp) {
        let mut editor = Editor::new(app).await;
        let publish = format!("{}/edit/publish", editor.path);
        editor.edit("add", "after=wait&way=default&type=delay").await;
        let asked = page(&editor.app, &editor.cookie, &publish).await;
        assert!(!asked.contains("It is published with yours"), "nobody is warned of himself: {asked}");
        let colleague = editor.app.person("ann@example.com", Role::Admin).await;
        let own = std::mem::replace(&mut editor.cookie, colleague.cookie);
        assert!(editor.look("").await.contains("last edited by <bdi class=\"strong\">owner@example.com</bdi>"), "{}", editor.shown);
        editor.edit("add", "after=wait&way=default&type=delay").await;
        editor.cookie = own;
        let named = "<bdi class=\"strong\">ann@example.com</bdi>";
        assert!(editor.look("").await.contains(&format!("last edited by {named}")), "{}", editor.shown);
        let one = page(&editor.app, &editor.cookie, &editor.path).await;
        assert!(one.contains(&format!("There is a draft, last edited by {named}")), "{one}");
        let asked = page(&editor.app, &editor.cookie, &publish).await;
        let warning = format!("The last edit of this draft was made by {named}. It is published with yours.");
        assert!(asked.contains(&warning), "{asked}");
        assert_eq!(editor.publish("").await.status, 303);
        assert_eq!(keys(&editor.live().await).len(), 4, "both edits are in force");
    }

    async fn undo_and_redo_survive_a_reload_and_go_ten_edits_back(app: TestApp) {
        let mut editor = Editor::new(app).await;
        for _ in 0..10 {
            editor.edit("add", "after=wait&way=default&type=delay").await;
        }
        assert!(editor.shown.contains("(delay_10)"));
        for _ in 0..10 {
            editor.look("").await;
            editor.edit("undo", "").await;
        }
        assert!(!editor.shown.contains("(delay)") && editor.shown.contains("Redo brings back"), "{}", editor.shown);
        assert_eq!(editor.send("undo", "").await.status, 409, "there is no more");
        editor.look("").await;
        for _ in 0..9 {
            editor.edit("redo", "").await;
        }
        assert!(editor.shown.contains("(delay_9)") && !editor.shown.contains("(delay_10)"));
        editor.edit("settings", "name=Renamed&re_entry=always&exit_on=&window_from=&window_until=").await;
        assert!(!editor.shown.contains("Redo brings back"), "another edit takes its place");
    }

    async fn two_tabs_do_not_overwrite_each_other_and_keep_what_was_typed(app: TestApp) {
        let mut editor = Editor::new(app).await;
        let first = editor.shown.clone();
        editor.edit("step", "step=wait&key=wait&duration=2+hours").await;
        let newer = std::mem::replace(&mut editor.shown, first);
        let answer = editor.send("step", "step=wait&key=wait&duration=5+hours").await;
        let told = answer.text();
        assert_eq!(answer.status, 409, "{told}");
        for word in ["owner@example.com has changed this draft", "value=\"5 hours\"", "What is saved now", "2 hours"] {
            assert!(told.contains(word), "{word}: {told}");
        }
        // What was typed can be sent again from there.
        editor.shown = told;
        editor.edit("step", "step=wait&key=wait&duration=5+hours").await;
        assert!(editor.shown.contains("Wait: 5 hours"));
        editor.shown = newer;
        assert_eq!(editor.send("remove", "step=wait&keep=default").await.status, 409);
        let settings = editor.send("settings", "name=Typed&re_entry=always&exit_on=").await;
        assert!(settings.status == 409 && settings.text().contains("value=\"Typed\""), "{}", settings.text());
    }

    async fn what_cannot_be_read_is_said_beside_its_field_and_kept(app: TestApp) {
        let mut editor = Editor::new(app).await;
        editor.edit("add", "after=wait&way=default&type=webhook").await;
        for (act, fields, words) in [
            ("step", "step=webhook&key=webhook&url=https%3A%2F%2Fx.test&body=%7B", ["value=\"https://x.test\"", "This is not JSON"]),
            ("step", "step=webhook&key=wait&url=u", ["Another step has this key", "value=\"wait\""]),
            ("json", "step=webhook&config=%5B1%5D", ["This must be an object", "[1]"]),
            ("settings", "name=&re_entry=always&exit_on=x", ["The name ", "value=\"x\""]),
            ("settings", "name=n&re_entry=always&exit_on=&window_from=9&window_until=17%3A00", ["The hours are wrong", "value=\"9\""]),
            ("add", "after=wait&way=default&type=teleport", ["Choose what the new step does", "Add a step"]),
            ("add", "after=wait&way=default&type=exit", ["ends the run", "Add a step"]),
            ("connect", "step=webhook&way=default&to=wait", ["go in circles", "Call webhook"]),
            ("remove", "step=start&keep=", ["cannot be removed", "start"]),
            ("move", "step=wait&direction=up", ["cannot be moved", "wait"]),
        ] {
            let answer = editor.send(act, fields).await;
            assert_eq!(answer.status, 422, "{act} {fields}: {}", answer.text());
            for word in words {
                assert!(answer.text().contains(word), "{act} {fields}, {word}: {}", answer.text());
            }
        }
        // A step may be unfinished, but then nothing is published.
        let answer = editor.publish("").await;
        assert!(answer.status == 422 && answer.text().contains("The step `webhook` needs `url`"), "{}", answer.text());
        assert_eq!(editor.live().await["version"], 1);
    }

    async fn what_is_wrong_is_tied_to_its_field(app: TestApp) {
        let mut editor = Editor::new(app).await;
        editor.edit("add", "after=wait&way=default&type=contact_update").await;
        editor.edit("add", "after=contact_update&way=default&type=condition").await;
        let rule = "rule_field=event.plan&rule_operator=eq&rule_kind=text&rule_value=pro";
        for (act, fields, id, inputs) in [
            ("settings", format!("name=n&re_entry=always&exit_on={}&window_from=&window_until=", "x".repeat(1025)), "f-exit_on", 1),
            ("settings", "name=n&re_entry=always&exit_on=&window_from=9&window_until=17%3A00".to_owned(), "f-window", 2),
            ("step", "step=contact_update&key=contact_update&first_name_act=keep&last_name_act=keep&unsubscribed=keep\
                &pair_key=age&pair_kind=number&pair_value=x".to_owned(), "f-pair-1", 1),
            ("step", format!("step=condition&key=condition&joint=and&{rule}&rule_field=event.age&rule_operator=gt\
                &rule_kind=number&rule_value=x"), "f-rule-2", 1),
        ] {
            let answer = editor.send(act, &fields).await;
            let told = answer.text();
            assert_eq!(answer.status, 422, "{act} {fields}: {told}");
            let described = format!(" aria-invalid=\"true\" aria-describedby=\"{id}-error\"");
            assert_eq!(told.matches(&described).count(), inputs, "{id}: {told}");
            assert_eq!(told.matches(&format!("<p class=\"field-error\" id=\"{id}-error\">")).count(), 1, "{id}: {told}");
            assert_eq!(told.matches("class=\"field-error\"").count(), 1, "{id}: {told}");
        }
    }

    async fn every_type_of_step_can_be_added_and_said_in_a_form(app: TestApp) {
        let key = app.full_key().await;
        let segment = app.post("/segments").key(&key).json(json!({"name": "Friends"})).send().await.json();
        let segment = segment["id"].as_str().expect("an id").to_owned();
        let mut editor = Editor::new(app).await;
        for (kind, at, fields, words) in [
            ("condition", "wait&way=default", "joint=or&rule_field=event.plan&rule_operator=eq&rule_kind=text&rule_value=pro\
                &rule_field=contact.age&rule_operator=gte&rule_kind=number&rule_value=18", "event.plan = pro or contact.age ≥ 18".to_owned()),
            ("wait_for_event", "condition&way=condition_met", "event_name=paid&timeout=2+days&joint=and&rule_field=event.total&rule_operator=gt\
                &rule_kind=number&rule_value=5", "Wait for event: paid, at most 2 days, where event.total &#62; 5".to_owned()),
            ("contact_update", "wait_for_event&way=event_received", "first_name_act=set&first_name=%7B%7Bevent.name%7D%7D&last_name_act=empty\
                &unsubscribed=false&pair_key=plan&pair_kind=variable&pair_value=event.plan", "Update contact: first name = event.name, last name emptied, unsubscribed = false, plan = event.plan".to_owned()),
            ("add_to_segment", "contact_update&way=default", format!("segment_id={segment}").as_str(), "Add to segment: Friends".to_owned()),
            ("webhook", "add_to_segment&way=default", "url=https%3A%2F%2Fx.test%2F&body=%7B%22a%22%3A1%7D", "Call webhook".to_owned()),
            ("contact_delete", "wait_for_event&way=timeout", "", "Delete contact".to_owned()),
            ("exit", "webhook&way=default", "", "Exit".to_owned()),
        ] {
            editor.edit("add", &format!("after={at}&type={kind}")).await;
            let saved = editor.edit("step", &format!("step={kind}&key={kind}&{fields}")).await;
            assert!(saved.contains(&words), "{kind}, {words}: {saved}");
            assert!(saved.contains("No findings"), "{kind}: {saved}");
        }
        assert_eq!(editor.publish("").await.status, 303);
        let live = editor.live().await;
        let config = |key: &str| live["steps"].as_array().and_then(|all| all.iter().find(|step| step["key"] == key)).expect(key)["config"].clone();
        assert_eq!(config("contact_update"), json!({"first_name": {"var": "event.name"}, "last_name": null, "unsubscribed": false,
            "properties": {"plan": {"var": "event.plan"}}}));
        assert_eq!(config("wait_for_event")["filter_rule"], json!({"type": "rule", "field": "event.total", "operator": "gt", "value": 5}));
        assert_eq!((config("webhook")["body"].clone(), live["version"].clone()), (json!({"a": 1}), json!(2)));

        // A branch that is taken out keeps the way that was chosen, and what only the other led to goes.
        editor.look("").await;
        let removed = editor.edit("remove", "step=wait_for_event&keep=timeout").await;
        assert!(removed.contains("(contact_delete)") && !removed.contains("(webhook)"), "{removed}");
        assert!(editor.edit("undo", "").await.contains("(webhook)"));
    }

    async fn what_is_ready_made_is_published_as_it_is_and_named_among_drafts_before(app: TestApp) {
        let mut editor = Editor::begun(app, "dunning").await;
        assert!(editor.shown.contains("No findings") && editor.shown.contains("never published"), "{}", editor.shown);
        let list = page(&editor.app, &editor.cookie, "/automations").await;
        assert!(list.contains("Drafts that were never published") && list.contains("Failed payment"), "{list}");
        assert_eq!(editor.app.get(&editor.path).key(&editor.key).send().await.status, 404, "programs see what is published");
        let answer = editor.app.get(format!("/dashboard{}", editor.path)).header("cookie", &editor.cookie).send().await;
        assert!(answer.status == 303 && answer.location().ends_with("/edit"));
        assert!(editor.look("?step=paid").await.contains("When received, leads to"));
        assert_eq!(editor.publish("enable=yes").await.status, 303);
        let live = editor.live().await;
        assert_eq!((&live["status"], &live["re_entry"], &live["version"]), (&json!("enabled"), &json!("one_at_a_time"), &json!(1)));
        let list = page(&editor.app, &editor.cookie, "/automations").await;
        assert!(!list.contains("never published") && list.contains("Failed payment"));
        let form = page(&editor.app, &editor.cookie, "/automations/new").await;
        let sent = format!("{}&start=welcome&from=nobody", hidden(&form, "/automations/new"));
        let refused = post(&editor.app, &editor.cookie, "/automations/new", &sent).await;
        assert!(refused.status == 422 && refused.text().contains("value=\"nobody\""), "{}", refused.text());
        for start in ["empty", "welcome", "trial", "win_back"] {
            let form = page(&editor.app, &editor.cookie, "/automations/new").await;
            let sent = format!("{}&start={start}&from=us%40example.com", hidden(&form, "/automations/new"));
            let made = post(&editor.app, &editor.cookie, "/automations/new", &sent).await;
            assert_eq!(post(&editor.app, &editor.cookie, "/automations/new", &sent).await.location(), made.location(), "once");
            let next = made.location().strip_prefix("/dashboard").expect("a page").to_owned();
            assert!(page(&editor.app, &editor.cookie, &next).await.contains("No findings"), "{start}");
        }
    }

    async fn a_draft_is_discarded_and_an_older_version_is_two_clicks_away(app: TestApp) {
        let mut editor = Editor::new(app).await;
        editor.edit("step", "step=wait&key=wait&duration=9+hours").await;
        let one = page(&editor.app, &editor.cookie, &editor.path).await;
        assert!(one.contains("There is a draft, last edited by"), "{one}");
        let asked = page(&editor.app, &editor.cookie, &format!("{}/edit/discard", editor.path)).await;
        let answer = press(&editor.app, &editor.cookie, &asked, "/edit/discard").await;
        assert!(answer.status == 303 && answer.location().ends_with("?discarded"));
        assert!(editor.look("?step=wait").await.contains("value=\"1 hour\""));
        editor.edit("step", "step=wait&key=wait&duration=9+hours").await;
        assert_eq!(editor.publish("").await.status, 303);
        let one = page(&editor.app, &editor.cookie, &editor.path).await;
        assert!(one.contains("/versions/1\">Version 1</a>"), "{one}");
        let version = page(&editor.app, &editor.cookie, &format!("{}/versions/1", editor.path)).await;
        assert!(version.contains("9 hours") && version.contains("Publish version 1 again"), "{version}");
        assert_eq!(press(&editor.app, &editor.cookie, &version, "/versions/1/restore").await.status, 303);
        let live = editor.live().await;
        assert_eq!((&live["version"], &live["steps"][1]["config"]["duration"]), (&json!(3), &json!("1 hour")));
        assert_eq!(press(&editor.app, &editor.cookie, &version, "/versions/1/restore").await.status, 409, "another was published");
        editor.app.assert_told(&["automation.edited", "draft.discarded", "automation.edited", "automation.published", "automation.published"]).await;
    }

    async fn a_version_that_a_program_publishes_meanwhile_is_not_overwritten_unseen(app: TestApp) {
        let mut editor = Editor::new(app).await;
        editor.edit("step", "step=wait&key=wait&duration=9+hours").await;
        let asked = page(&editor.app, &editor.cookie, &format!("{}/edit/publish", editor.path)).await;
        let change = json!({"steps": [crate::graphs::trigger()], "connections": []});
        assert_eq!(editor.app.patch(&editor.path).key(&editor.key).json(change).send().await.status, 200);
        let sent = hidden(&asked, "/edit/publish");
        let answer = post(&editor.app, &editor.cookie, &format!("{}/edit/publish", editor.path), &sent).await;
        assert!(answer.status == 409 && answer.text().contains("What changes against version 2"), "{}", answer.text());
        assert!(editor.look("").await.contains("Another version was published since this draft began"));
        assert_eq!(editor.publish("").await.status, 303);
        assert_eq!(editor.live().await["version"], 3);
    }

    async fn strangers_and_members_without_the_right_edit_nothing(app: TestApp) {
        app.full_key().await;
        let theirs = app.second_workspace_key().await;
        let foreign = automation(&app, &theirs, body("Theirs")).await;
        let editor = Editor::new(app).await;
        for path in [
            format!("/automations/{foreign}/edit"), format!("/automations/{foreign}/edit/publish"), format!("/automations/{foreign}/edit/discard"),
            format!("/automations/{foreign}/versions/1"), format!("{}/versions/7", editor.path), "/automations/x/edit".into(),
        ] {
            let answer = editor.app.get(format!("/dashboard{path}")).header("cookie", &editor.cookie).send().await;
            assert_eq!(answer.status, 404, "{path}");
        }
        for act in ["settings", "step", "json", "add", "connect", "move", "remove", "undo", "redo", "publish", "discard"] {
            let path = format!("/automations/{foreign}/edit/{act}");
            assert_eq!(post(&editor.app, &editor.cookie, &path, &hidden(&editor.shown, "/edit/undo")).await.status, 404, "{act}");
            let path = format!("{}/edit/{act}", editor.path);
            let forged = post(&editor.app, &editor.cookie, &path, "token=guessed&revision=0&live=1").await;
            assert!((400..500).contains(&forged.status) && forged.status != 422, "{act}: {}", forged.status);
        }
        let member = editor.app.person("member@example.com", Role::Member).await.cookie;
        for path in [format!("{}/edit", editor.path), "/automations/new".into()] {
            let answer = editor.app.get(format!("/dashboard{path}")).header("cookie", &member).send().await;
            assert_eq!(answer.status, 403, "{path}");
        }
        let sent = hidden(&editor.shown, "/edit/undo");
        let path = format!("{}/edit/remove", editor.path);
        assert_eq!(post(&editor.app, &member, &path, &format!("{sent}&step=wait")).await.status, 403);
        let one = page(&editor.app, &member, &editor.path).await;
        assert!(!one.contains("/edit\""), "what cannot be done is not offered");
        assert_eq!(editor.app.count("automation_drafts").await, 0);
    }
}
