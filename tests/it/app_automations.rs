//! What an app made that calls the outside ends with the app's access, unless a
//! person keeps it.

use posthorn::accounts;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::flow::{Person, app_named, text};
use crate::harness::{TestApp, on_both};
use crate::sending::{Stage, statuses};

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
        let page = format!("/dashboard/apps/{}/revoke", guest.grant);
        let shown = guest.stage.app.see(&page, &guest.owner).await.text();
        assert!([&kept, &stopped].iter().all(|id| shown.contains(&format!("name=\"keep\" value=\"{id}\""))), "{shown}");
        let answer = guest.stage.app.decide(&page, &guest.owner, &format!("keep={kept}")).await;
        assert_eq!(answer.status, 303, "{}", answer.text());
        assert_eq!((guest.status(&kept).await, guest.status(&stopped).await), ("enabled".into(), "disabled".into()));
        assert_eq!(guest.outcome(&kept).await, ["completed", "running", "pending"], "it called, in vain");
        assert_eq!(guest.outcome(&stopped).await, ["completed", "skipped", "completed"]);
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
