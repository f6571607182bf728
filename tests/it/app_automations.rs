//! What an app made that calls the outside ends with the app's access, unless a
//! person keeps it.

use posthorn::accounts;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::engine_webhooks::Listener;
use crate::flow::{Person, app_named, text};
use crate::harness::{TestApp, on_both};
use crate::sending::{Stage, statuses};
use crate::store::Store;
use crate::webhooks::Teller;

const NOWHERE: &str = "http://127.0.0.1:9/";

/// An app with a token, and what it published.
struct Guest {
    stage: Stage,
    owner: Person,
    client: String,
    token: String,
    refresh: String,
    grant: String,
}

impl Guest {
    async fn new(app: TestApp) -> Guest {
        let owner = app.owner().await;
        let client = app.client(app_named("Guest")).await;
        let tokens = app.tokens(&client, &owner).await;
        let stage = Stage::new(app).await;
        let grant = stage.get("/oauth/grants").await["data"][0]["id"].as_str().expect("a grant").to_owned();
        let token = |field| text(&tokens, field).to_owned();
        Guest { owner, client, token: token("access_token"), refresh: token("refresh_token"), grant, stage }
    }

    fn graph(event: &str) -> Value {
        json!({
            "name": "Spy", "status": "enabled",
            "steps": [
                {"key": "start", "type": "trigger", "config": {"event_name": event}},
                {"key": "out", "type": "webhook", "config": {"url": NOWHERE}},
                {"key": "name", "type": "contact_update", "config": {"first_name": "Went on"}},
            ],
            "connections": [{"from": "start", "to": "out"}, {"from": "out", "to": "name"}],
        })
    }

    /// What the app makes with its token.
    async fn publish(&self) -> String {
        let made = self.stage.app.post("/automations").key(&self.token).json(Guest::graph("user.created")).send().await;
        assert_eq!(made.status, 201, "{}", made.text());
        text(&made.json(), "id").to_owned()
    }

    async fn status(&self, automation: &str) -> String {
        text(&self.stage.get(&format!("/automations/{automation}")).await, "status").to_owned()
    }

    /// A webhook that the app makes with its token.
    async fn webhook(&self, endpoint: &str) -> String {
        let body = json!({"endpoint": endpoint, "events": ["topic.created"]});
        let made = self.stage.app.post("/webhooks").key(&self.token).json(body).send().await;
        assert_eq!(made.status, 201, "{}", made.text());
        text(&made.json(), "id").to_owned()
    }

    /// What the app changes with its token.
    async fn change(&self, path: &str, body: Value) {
        let changed = self.stage.app.patch(path).key(&self.token).json(body).send().await;
        assert_eq!(changed.status, 200, "{path}: {}", changed.text());
    }

    fn page(&self) -> String {
        format!("/dashboard/apps/{}/revoke", self.grant)
    }

    async fn revoke(&self) {
        let path = format!("/oauth/grants/{}", self.grant);
        assert_eq!(self.stage.app.delete(path).key(&self.stage.key).send().await.status, 200);
    }

    /// Lets the event happen; tells what became of the steps of the newest run.
    async fn outcome(&self, automation: &str) -> Vec<String> {
        self.stage.work().await;
        let runs = self.stage.runs(automation).await;
        let path = format!("/automations/{automation}/runs/{}", text(&runs[0], "id"));
        statuses(&self.stage.get(&path).await).into_iter().map(str::to_owned).collect()
    }
}

on_both! {
    async fn what_an_app_published_stops_with_its_grant(app: TestApp) {
        let guest = Guest::new(app).await;
        let made = guest.publish().await;
        let own = guest.stage.automation(&[Stage::trigger(), ("webhook", json!({"url": NOWHERE}))]).await;
        guest.stage.send("user.created", "a@example.com", json!({})).await;
        guest.revoke().await;
        assert_eq!((guest.status(&made).await, guest.status(&own).await), ("disabled".into(), "enabled".into()));
        guest.stage.send("user.created", "b@example.com", json!({})).await;
        assert_eq!(guest.stage.runs(&made).await.len(), 1, "no more runs");
        assert_eq!(guest.outcome(&made).await, ["completed", "skipped", "completed"], "the one in flight calls nobody");
        let path = format!("/automations/{made}/runs/{}", text(&guest.stage.runs(&made).await[0], "id"));
        let reason = guest.stage.get(&path).await["steps"][1]["output"]["reason"].to_string();
        assert!(reason.contains("no access"), "{reason}");
    }

    async fn every_end_of_a_grant_stops_it(app: TestApp) {
        let guest = Guest::new(app).await;
        let made = guest.publish().await;
        let form = format!("token={}&client_id={}", guest.refresh, guest.client);
        let given_back = guest.stage.app.post("/oauth/revoke").body("application/x-www-form-urlencoded", form).send().await;
        assert_eq!(given_back.status, 200);
        assert_eq!(guest.status(&made).await, "disabled");
    }

    async fn who_leaves_a_workspace_takes_along_what_he_let_apps_do_there(app: TestApp) {
        let guest = Guest::new(app).await;
        let made = guest.publish().await;
        let (db, workspace) = (&guest.stage.app.app.db, guest.stage.app.workspace().await);
        let elsewhere = accounts::remove_member(Uuid::nil().into(), guest.owner.id, &guest.stage.app.clock);
        assert!(db.commit(elsewhere).await.is_err(), "he is no member there");
        assert_eq!(guest.status(&made).await, "enabled");
        db.commit(accounts::remove_member(workspace, guest.owner.id, &guest.stage.app.clock)).await.expect("removed");
        assert_eq!(guest.status(&made).await, "disabled");
        assert_eq!(guest.stage.get("/oauth/grants").await["data"][0]["revoked_reason"], "user_removed");
    }

    async fn what_he_let_apps_do_elsewhere_goes_on(app: TestApp) {
        let guest = Guest::new(app).await;
        let made = guest.publish().await;
        guest.stage.app.second_workspace_key().await;
        let (db, store) = (&guest.stage.app.app.db, &guest.stage.app.store);
        let other = "SELECT id FROM workspaces WHERE name = 'Other'";
        store.run(&format!(
            "INSERT INTO memberships (workspace_id, user_id, role, created_at)
             SELECT id, {}, 'owner', 0 FROM workspaces WHERE name = 'Other'", store.id(guest.owner.id))).await;
        let other = store.value(other).await.and_then(|id| id.parse().ok()).expect("a workspace");
        db.commit(accounts::remove_member(other, guest.owner.id, &guest.stage.app.clock)).await.expect("removed");
        assert_eq!(guest.status(&made).await, "enabled");
        assert_eq!(guest.stage.get("/oauth/grants").await["data"][0]["revoked_at"], Value::Null);
    }

    async fn a_deleted_client_stops_it_too(app: TestApp) {
        let guest = Guest::new(app).await;
        let made = guest.publish().await;
        guest.stage.send("user.created", "a@example.com", json!({})).await;
        guest.stage.app.delete_client(&guest.client).await;
        assert_eq!(guest.status(&made).await, "disabled");
        assert_eq!(guest.outcome(&made).await, ["completed", "skipped", "completed"]);
    }

    async fn the_page_that_asks_lists_it_and_lets_it_be_kept(app: TestApp) {
        let guest = Guest::new(app).await;
        let (kept, stopped) = (guest.publish().await, guest.publish().await);
        guest.stage.send("user.created", "a@example.com", json!({})).await;
        let page = guest.page();
        let shown = guest.stage.app.see(&page, &guest.owner).await.text();
        assert!([&kept, &stopped].iter().all(|id| shown.contains(&format!("name=\"keep\" value=\"{id}\""))), "{shown}");
        let answer = guest.stage.app.decide(&page, &guest.owner, &format!("keep={kept}")).await;
        assert_eq!(answer.status, 303, "{}", answer.text());
        assert_eq!((guest.status(&kept).await, guest.status(&stopped).await), ("enabled".into(), "disabled".into()));
        assert_eq!(guest.outcome(&kept).await, ["completed", "running", "pending"], "it called, in vain");
        assert_eq!(guest.outcome(&stopped).await, ["completed", "skipped", "completed"]);
    }

    async fn what_an_app_changed_is_listed_and_stops_as_what_it_made(app: TestApp) {
        let guest = Guest::new(app).await;
        let own = [Stage::trigger(), ("webhook", json!({"url": NOWHERE}))];
        let (changed, renamed) = (guest.stage.automation(&own).await, guest.stage.automation(&own).await);
        let graph = Guest::graph("user.created");
        let change = json!({"steps": graph["steps"], "connections": graph["connections"]});
        guest.change(&format!("/automations/{changed}"), change).await;
        guest.change(&format!("/automations/{renamed}"), json!({"name": "Renamed"})).await;
        let shown = guest.stage.app.see(&guest.page(), &guest.owner).await.text();
        assert!(shown.contains(&format!("name=\"keep\" value=\"{changed}\"")), "{shown}");
        assert!(!shown.contains(&renamed), "{shown}");
        guest.stage.send("user.created", "a@example.com", json!({})).await;
        guest.revoke().await;
        assert_eq!((guest.status(&changed).await, guest.status(&renamed).await), ("disabled".into(), "enabled".into()));
        assert_eq!(guest.outcome(&changed).await, ["completed", "skipped", "completed"]);
    }

    async fn webhooks_of_an_app_are_listed_and_those_that_are_kept_go_on_delivering(store: Store) {
        let settings = ["--private-webhooks"];
        let guest = Guest::new(TestApp::open(&store, &settings).await).await;
        let teller = Teller::new(TestApp::open(&store, &settings).await).await;
        let mut listeners = Vec::new();
        for _ in 0..5 {
            listeners.push(Listener::new(&[200]).await);
        }
        let at = |place: usize| listeners[place].url.as_str();
        let heard = || listeners.iter().map(|listener| listener.heard().len()).collect::<Vec<_>>();
        let (kept, stopped) = (guest.webhook(at(0)).await, guest.webhook(at(1)).await);
        let own = async |place| text(&teller.webhook(at(place), &["topic.created"]).await, "id").to_owned();
        let (led_away, untouched) = (own(4).await, own(3).await);
        guest.change(&format!("/webhooks/{led_away}"), json!({"endpoint": at(2)})).await;
        guest.change(&format!("/webhooks/{untouched}"), json!({"endpoint": at(3), "events": ["topic.created"]})).await;

        let shown = guest.stage.app.see(&guest.page(), &guest.owner).await.text();
        for (place, webhook) in [&kept, &stopped, &led_away].into_iter().enumerate() {
            assert!(shown.contains(&format!("name=\"keep_webhook\" value=\"{webhook}\"")), "{shown}");
            assert!(shown.contains(at(place)), "{shown}");
        }
        assert!(!shown.contains(&untouched), "{shown}");
        teller.topic("One").await;
        teller.deliver().await;
        assert_eq!(heard(), [1, 1, 1, 1, 0]);

        let answer = guest.stage.app.decide(&guest.page(), &guest.owner, &format!("keep_webhook={kept}")).await;
        assert_eq!(answer.status, 303, "{}", answer.text());
        teller.topic("Two").await;
        teller.deliver().await;
        assert_eq!(heard(), [2, 1, 1, 2, 0]);
        for webhook in [&stopped, &led_away] {
            let shown = teller.get(&format!("/webhooks/{webhook}")).await;
            assert_eq!(text(&shown, "status"), "disabled");
            assert!(text(&shown, "disabled_reason").contains("no access any more"), "{shown}");
        }
        // It is the workspace's own: what becomes of the app concerns it no more.
        guest.stage.app.delete_client(&guest.client).await;
        teller.topic("Three").await;
        teller.deliver().await;
        assert_eq!(heard(), [3, 1, 1, 3, 0]);
    }

    async fn a_webhook_that_a_person_leads_elsewhere_is_the_workspaces_own(store: Store) {
        let guest = Guest::new(TestApp::open(&store, &["--private-webhooks"]).await).await;
        let listener = Listener::new(&[200]).await;
        let webhook = guest.webhook(NOWHERE).await;
        let path = format!("/webhooks/{webhook}");
        let change = guest.stage.app.patch(&path).key(&guest.stage.key).json(json!({"endpoint": listener.url}));
        assert_eq!(change.send().await.status, 200);
        guest.revoke().await;
        assert_eq!(text(&guest.stage.get(&path).await, "status"), "enabled");
    }

    async fn nobody_keeps_what_belongs_to_another_grant(store: Store) {
        let guest = Guest::new(TestApp::open(&store, &["--private-webhooks"]).await).await;
        let other = guest.stage.app.client(app_named("Other")).await;
        let tokens = guest.stage.app.tokens(&other, &guest.owner).await;
        let body = json!({"endpoint": NOWHERE, "events": ["topic.created"]});
        let made = guest.stage.app.post("/webhooks").key(text(&tokens, "access_token")).json(body).send().await;
        let webhook = text(&made.json(), "id").to_owned();
        let answer = guest.stage.app.decide(&guest.page(), &guest.owner, &format!("keep_webhook={webhook}")).await;
        assert_eq!(answer.status, 303, "{}", answer.text());
        guest.stage.app.delete_client(&other).await;
        assert_eq!(text(&guest.stage.get(&format!("/webhooks/{webhook}")).await, "status"), "disabled");
    }

    async fn copies_are_tied_and_what_a_person_publishes_is_not(app: TestApp) {
        let guest = Guest::new(app).await;
        let made = guest.publish().await;
        let copy = guest.stage.app.post(format!("/automations/{made}/duplicate")).key(&guest.token).send().await;
        let copy = text(&copy.json(), "id").to_owned();
        let enable = guest.stage.app.patch(format!("/automations/{copy}")).key(&guest.token);
        assert_eq!(enable.json(json!({"status": "enabled"})).send().await.status, 200);
        let edited = guest.publish().await;
        let graph = Guest::graph("user.created");
        let change = json!({"steps": graph["steps"], "connections": graph["connections"]});
        let edit = guest.stage.app.patch(format!("/automations/{edited}")).key(&guest.stage.key).json(change).send().await;
        assert_eq!(edit.status, 200, "{}", edit.text());
        guest.revoke().await;
        assert_eq!((guest.status(&copy).await, guest.status(&edited).await), ("disabled".into(), "enabled".into()));
    }

    async fn whoever_enables_it_afterwards_keeps_it(app: TestApp) {
        let guest = Guest::new(app).await;
        let made = guest.publish().await;
        guest.revoke().await;
        let enable = guest.stage.app.patch(format!("/automations/{made}")).key(&guest.stage.key);
        assert_eq!(enable.json(json!({"status": "enabled"})).send().await.status, 200);
        guest.stage.send("user.created", "a@example.com", json!({})).await;
        assert_eq!(guest.outcome(&made).await, ["completed", "running", "pending"], "it called, in vain");
    }
}
