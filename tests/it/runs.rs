//! Runs over HTTP: listed, read with what became of each step, cancelled, tried again.

use std::collections::{HashMap, HashSet};

use posthorn::automations::{ContactRules, Graph, HistoryPart, Run, World};
use posthorn::rules::Budget;
use posthorn::windows::Zone;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::graphs::{automation, body, delay, link, trigger};
use crate::harness::{NOW, TestApp, on_both};

const MADE: &str = "2026-01-02T03:04:05.678901Z";
const CONTACT: &str = "01890000-0000-7000-8000-0000000000c0";
const SEGMENT: &str = "01890000-0000-7000-8000-0000000000f0";

/// An automation that branches: a condition, a wait behind its met side, a
/// delay behind the other.
pub fn branching() -> (Value, Value) {
    let condition = json!({"key": "c", "type": "condition",
        "config": {"type": "rule", "field": "event.plan", "operator": "eq", "value": "pro"}});
    let wait = json!({"key": "w", "type": "wait_for_event", "config": {"event_name": "paid", "timeout": "1 day"}});
    let steps = json!([trigger(), condition, wait, delay("after"), delay("no")]);
    let connections = json!([
        link("start", "c"),
        {"from": "c", "to": "w", "type": "condition_met"},
        {"from": "c", "to": "no", "type": "condition_not_met"},
        {"from": "w", "to": "after", "type": "event_received"},
    ]);
    (steps, connections)
}

/// One that fails at once, because there is no such segment.
pub fn failing() -> (Value, Value) {
    let step = json!({"key": "s", "type": "add_to_segment", "config": {"segment_id": SEGMENT}});
    (json!([trigger(), step]), json!([link("start", "s")]))
}

/// Contacts that take whatever a step gives them.
struct AnyChange;

impl ContactRules for AnyChange {
    fn check(&self, _: &Value) -> Result<(), String> {
        Ok(())
    }
}

/// An automation whose runs are put into the store.
pub struct Scene {
    pub app: TestApp,
    pub key: String,
    pub automation: String,
    graph: Graph,
}

impl Scene {
    pub async fn new(app: TestApp, (steps, connections): (Value, Value)) -> Scene {
        let key = app.full_key().await;
        let graph = Graph::parse(&steps, &connections).expect("a graph");
        let body = json!({"name": "a", "steps": steps, "connections": connections});
        let automation = automation(&app, &key, body).await;
        Scene { app, key, automation, graph }
    }

    /// A run that went as far as it could with this payload, in the store.
    pub async fn run(&self, payload: Value) -> String {
        let mut run = Run::start(self.app.clock.ordered_id(), &self.graph);
        let budget = Budget::default();
        let mut world = World {
            now: NOW,
            steady: NOW,
            event: &payload,
            contact: Some(json!({"email": "a@example.com"})),
            heard: &[],
            history: HistoryPart::WHOLE,
            is_ended: false,
            may_call: true,
            budget: &budget,
            segments: &HashSet::new(),
            refused_mail: &HashMap::new(),
            contact_rules: &AnyChange,
            send_window: None,
            zone: &Zone::UTC,
        };
        run.advance(&self.graph, &mut world);
        let status = run.ending().map_or(json!("running"), |how| json!(how));
        self.insert(&run, status.as_str().expect("a word"), &payload).await;
        run.id.to_string()
    }

    async fn insert(&self, run: &Run, status: &str, payload: &Value) {
        let text = |value: Option<&str>| value.map_or("NULL".into(), |text| format!("'{}'", text.replace('\'', "''")));
        let number = |value: Option<i64>| value.map_or("NULL".into(), |number| number.to_string());
        let [workspace, occurrence, contact, automation, id] = [
            self.app.workspace().await.to_string(),
            self.app.clock.ordered_id::<Uuid>().to_string(),
            CONTACT.to_owned(),
            self.automation.clone(),
            run.id.to_string(),
        ]
        .map(|id| self.app.store.id(id));
        let state = serde_json::to_string(run).expect("JSON");
        let sql = format!(
            "INSERT INTO occurrences (workspace_id, id, name, contact_id, seq, heard, payload, created_at)
             VALUES ({workspace}, {occurrence}, 'user.created', {contact}, 1, FALSE, {payload}, {NOW});
             INSERT INTO runs (automation_id, id, workspace_id, version, contact_id, occurrence_id, since, status, state,
                 waiting_for, due_at, attempt, settled, created_at, completed_at)
             VALUES ({automation}, {id}, {workspace}, 1, {contact}, {occurrence}, 1, '{status}', {state},
                 {waiting_for}, {due_at}, 1, 1, {NOW}, {completed_at})",
            payload = text(Some(&payload.to_string())),
            state = text(Some(&state)),
            waiting_for = text(run.waiting_for(&self.graph)),
            due_at = number(run.due_at(NOW)),
            completed_at = number(run.ending().map(|_| NOW)),
        );
        self.app.store.run(&sql).await;
    }

    fn path(&self, run: &str) -> String {
        format!("/automations/{}/runs/{run}", self.automation)
    }

    pub async fn read(&self, run: &str) -> Value {
        let answer = self.app.get(self.path(run)).key(&self.key).send().await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    async fn listed(&self, query: &str) -> Vec<String> {
        let answer = self.app.get(format!("/automations/{}/runs?{query}", self.automation)).key(&self.key).send().await;
        assert_eq!(answer.status, 200, "{query}: {}", answer.text());
        let list = answer.json();
        let items = list["data"].as_array().expect("a list");
        items.iter().map(|item| item["id"].as_str().expect("an id").to_owned()).collect()
    }

    /// Status, waiting for, due at, completed at, attempt, settled.
    async fn row(&self, run: &str) -> Vec<Option<String>> {
        let run = self.app.store.id(run);
        let sql =
            format!("SELECT status, waiting_for, due_at, completed_at, attempt, settled FROM runs WHERE id = {run}");
        self.app.store.rows(&sql).await.remove(0)
    }
}

fn row(columns: [&str; 6]) -> Vec<Option<String>> {
    columns.map(|column| (!column.is_empty()).then(|| column.to_owned())).into()
}

fn statuses(run: &Value) -> Vec<(&str, &str)> {
    let steps = run["steps"].as_array().expect("steps");
    steps
        .iter()
        .map(|step| (step["key"].as_str().expect("a key"), step["status"].as_str().expect("a status")))
        .collect()
}

on_both! {
    async fn a_run_is_read_with_what_became_of_each_step(app: TestApp) {
        let scene = Scene::new(app, branching()).await;
        let id = scene.run(json!({"plan": "pro"})).await;
        let run = scene.read(&id).await;
        let keys: Vec<&String> = run.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["object", "id", "status", "started_at", "completed_at", "created_at", "contact_id",
            "occurrence_id", "version", "trigger", "steps"]);
        assert_eq!((&run["object"], &run["id"], &run["status"]), (&json!("automation_run"), &json!(id), &json!("running")));
        assert_eq!((&run["started_at"], &run["completed_at"], &run["created_at"]), (&json!(MADE), &Value::Null, &json!(MADE)));
        assert_eq!((&run["contact_id"], &run["version"]), (&json!(CONTACT), &json!(1)));
        assert_eq!(run["trigger"], json!({"event_name": "user.created", "payload": {"plan": "pro"}}));
        assert_eq!(statuses(&run), [("start", "completed"), ("c", "completed"), ("w", "waiting"), ("after", "pending"), ("no", "skipped")]);
        let condition = &run["steps"][1];
        assert_eq!((&condition["type"], &condition["output"]["met"]), (&json!("condition"), &json!(true)));
        let expected = json!({"key": "w", "type": "wait_for_event", "status": "waiting", "started_at": MADE,
            "completed_at": null, "output": null, "error": null, "created_at": MADE});
        assert_eq!(run["steps"][2], expected);
        assert_eq!(run["steps"][3]["started_at"], Value::Null);
    }

    async fn decisions_6_a_run_is_read_by_the_graph_it_started_with(app: TestApp) {
        let scene = Scene::new(app, branching()).await;
        let id = scene.run(json!({"plan": "free"})).await;
        let before = scene.read(&id).await;
        let path = format!("/automations/{}", scene.automation);
        scene.app.patch(&path).key(&scene.key).json(body("other")).send().await;
        assert_eq!(scene.read(&id).await, before);
        assert_eq!(statuses(&before), [("start", "completed"), ("c", "completed"), ("w", "skipped"), ("after", "skipped"), ("no", "waiting")]);
    }

    async fn runs_are_listed_newest_first_and_by_status(app: TestApp) {
        let scene = Scene::new(app, failing()).await;
        let mut ids = Vec::new();
        for at in 0..6 {
            let id = scene.run(json!({})).await;
            let status = ["running", "completed", "failed", "cancelled", "failed", "running"][at];
            scene.app.store.run(&format!("UPDATE runs SET status = '{status}' WHERE id = {}", scene.app.store.id(&id))).await;
            ids.push(id);
        }
        ids.reverse();
        assert_eq!(scene.listed("").await, ids);
        assert_eq!(scene.listed("status=running,completed,failed,cancelled,failed").await, ids);
        assert_eq!(scene.listed("status=failed").await, [ids[1].clone(), ids[3].clone()]);
        assert_eq!(scene.listed("status=running%2Ccancelled&limit=2").await, [ids[0].clone(), ids[2].clone()]);
        assert_eq!(scene.listed(&format!("after={}&limit=2", ids[1])).await, ids[2..4]);
        assert_eq!(scene.listed(&format!("status=failed&before={}", ids[3])).await, ids[1..2]);
        let path = format!("/automations/{}/runs", scene.automation);
        let item = &scene.app.get(&path).key(&scene.key).send().await.json()["data"][0];
        assert_eq!(item, &json!({"id": ids[0], "status": "running", "started_at": MADE, "completed_at": MADE, "created_at": MADE}));
        for query in ["status=waiting", "status=", "status=failed,", "status=failed&status=running", "limit=0"] {
            scene.app.get(format!("{path}?{query}")).key(&scene.key).send().await.refused(422, "invalid_parameter");
        }
    }

    async fn a_run_in_flight_is_cancelled_once(app: TestApp) {
        let scene = Scene::new(app, branching()).await;
        let id = scene.run(json!({"plan": "pro"})).await;
        scene.app.clock.advance(1_000_000);
        let path = format!("{}/cancel", scene.path(&id));
        let answer = scene.app.post(&path).key(&scene.key).body("application/json", "").send().await;
        assert_eq!((answer.status, answer.json()), (200, json!({"object": "automation_run", "id": id, "status": "cancelled"})));
        let now = (NOW + 1_000_000).to_string();
        assert_eq!(scene.row(&id).await, row(["cancelled", "", "", &now, "2", "2"]));
        let run = scene.read(&id).await;
        assert_eq!((&run["status"], &run["completed_at"]), (&json!("cancelled"), &json!("2026-01-02T03:04:06.678901Z")));
        assert_eq!(statuses(&run)[2..4], [("w", "skipped"), ("after", "skipped")]);
        let message = scene.app.post(&path).key(&scene.key).send().await.refused(409, "validation_error");
        assert!(message.contains("cancelled"), "{message}");
        scene.app.post(format!("{}/retry", scene.path(&id))).key(&scene.key).send().await.refused(409, "validation_error");
        assert_eq!(scene.row(&id).await, row(["cancelled", "", "", &now, "2", "2"]));
    }

    async fn a_failed_run_goes_on_where_it_failed(app: TestApp) {
        let scene = Scene::new(app, failing()).await;
        let id = scene.run(json!({})).await;
        let failed = scene.read(&id).await;
        assert_eq!((&failed["status"], statuses(&failed)), (&json!("failed"), vec![("start", "completed"), ("s", "failed")]));
        assert_eq!(failed["steps"][1]["error"], json!({"message": "the segment does not exist, or fills itself"}));
        scene.app.post(format!("{}/cancel", scene.path(&id))).key(&scene.key).send().await.refused(409, "validation_error");
        scene.app.clock.advance(1_000_000);
        let path = format!("{}/retry", scene.path(&id));
        let answer = scene.app.post(&path).key(&scene.key).json(json!({})).send().await;
        assert_eq!((answer.status, answer.json()), (200, json!({"object": "automation_run", "id": id, "status": "running"})));
        assert_eq!(scene.row(&id).await, row(["running", "", &(NOW + 1_000_000).to_string(), "", "2", "2"]));
        assert_eq!(statuses(&scene.read(&id).await), [("start", "completed"), ("s", "pending")]);
        scene.app.post(&path).key(&scene.key).send().await.refused(409, "validation_error");
    }

    async fn of_two_who_cancel_at_once_one_is_told_that_it_was_done(app: TestApp) {
        let scene = Scene::new(app, branching()).await;
        let other = TestApp::open(&scene.app.store, &[]).await;
        for _ in 0..5 {
            let id = scene.run(json!({"plan": "pro"})).await;
            let path = format!("{}/cancel", scene.path(&id));
            let (one, two) = tokio::join!(
                scene.app.post(&path).key(&scene.key).send(),
                other.post(&path).key(&scene.key).send(),
            );
            let mut statuses = [one.status, two.status];
            statuses.sort_unstable();
            assert_eq!(statuses, [200, 409]);
            assert_eq!(scene.row(&id).await[4].as_deref(), Some("2"), "one change only");
        }
    }

    async fn decisions_1_runs_of_others_and_of_what_is_deleted_are_404(app: TestApp) {
        let scene = Scene::new(app, branching()).await;
        let id = scene.run(json!({"plan": "pro"})).await;
        let theirs = scene.app.second_workspace_key().await;
        let stranger = automation(&scene.app, &theirs, body("theirs")).await;
        let list = format!("/automations/{}/runs", scene.automation);
        let nobody = "01890000-0000-7000-8000-000000000000";
        let unseen = async |key: &str, list: &str, one: &str| {
            scene.app.get(list).key(key).send().await.refused(404, "not_found");
            scene.app.get(one).key(key).send().await.refused(404, "not_found");
            scene.app.post(format!("{one}/cancel")).key(key).send().await.refused(404, "not_found");
            scene.app.post(format!("{one}/retry")).key(key).send().await.refused(404, "not_found");
        };
        unseen(&theirs, &list, &scene.path(&id)).await;
        let elsewhere = format!("/automations/{stranger}/runs/{id}");
        scene.app.get(&elsewhere).key(&theirs).send().await.refused(404, "not_found");
        scene.app.post(format!("{elsewhere}/cancel")).key(&theirs).send().await.refused(404, "not_found");
        scene.app.get(scene.path(nobody)).key(&scene.key).send().await.refused(404, "not_found");
        assert_eq!(scene.read(&id).await["status"], "running");
        scene.app.delete(format!("/automations/{}", scene.automation)).key(&scene.key).send().await;
        unseen(&scene.key, &list, &scene.path(&id)).await;
    }

    async fn an_id_that_is_none_is_422_invalid_parameter(app: TestApp) {
        let scene = Scene::new(app, branching()).await;
        let id = scene.run(json!({"plan": "pro"})).await;
        for path in [format!("/automations/x/runs/{id}"), scene.path("x")] {
            scene.app.get(&path).key(&scene.key).send().await.refused(422, "invalid_parameter");
            scene.app.post(format!("{path}/cancel")).key(&scene.key).send().await.refused(422, "invalid_parameter");
            scene.app.post(format!("{path}/retry")).key(&scene.key).send().await.refused(422, "invalid_parameter");
        }
        scene.app.get("/automations/x/runs").key(&scene.key).send().await.refused(422, "invalid_parameter");
    }

    async fn a_run_whose_occurrence_is_gone_is_still_told(app: TestApp) {
        let scene = Scene::new(app, branching()).await;
        let id = scene.run(json!({"plan": "pro"})).await;
        scene.app.store.run("DELETE FROM occurrences").await;
        assert_eq!(scene.read(&id).await["trigger"], json!({"event_name": "user.created", "payload": null}));
    }
}
