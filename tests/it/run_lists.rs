//! Lists of runs in the dashboard, however many there are: by status, by automation, and what is said where not all of
//! them were looked at.

use serde_json::json;

use crate::automation_pages::{owner, page};
use crate::graphs::{automation, body};
use crate::harness::{TestApp, on_both};
use crate::runs::{Scene, branching, failing};

/// Puts so many copies of a run into the store, newer than any other.
async fn copies(app: &TestApp, run: &str, count: usize, status: &str) {
    let copies = |id: &str| {
        format!(
            "INSERT INTO runs (automation_id, id, workspace_id, version, contact_id, occurrence_id, since, status, state,
                 waiting_for, due_at, attempt, settled, created_at, completed_at)
             WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count})
             SELECT automation_id, {id}, workspace_id, version, contact_id, occurrence_id, since, '{status}', state,
                 NULL, NULL, attempt, settled, created_at + n, created_at + n
             FROM runs, numbers WHERE id = {run}",
            run = app.store.id(run),
        )
    };
    let sqlite = copies("unhex('f0000000000070008000' || printf('%012x', n))");
    let postgres = copies("CAST('f0000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0') AS UUID)");
    app.store.run_either(&sqlite, &postgres).await;
}

/// Where a link with these words leads.
fn link(page: &str, words: &str) -> Option<String> {
    let (before, _) = page.split_once(&format!("\">{words}</a>"))?;
    let href = before.rsplit("href=\"").next()?;
    Some(href.replace("&#38;", "&"))
}

/// The runs on a page, in order.
fn shown(page: &str) -> Vec<String> {
    let runs = page.split("\">Its run</a>").filter_map(|before| before.rsplit("/runs/").next());
    let mut all: Vec<String> = runs.map(str::to_owned).collect();
    all.pop();
    all
}

on_both! {
    async fn runs_with_a_status_are_found_behind_however_many_others(app: TestApp) {
        let scene = Scene::new(app, branching()).await;
        let old = scene.run(json!({"plan": "pro"})).await;
        let (app, cookie) = (&scene.app, owner(&scene.app).await);
        let other = automation(app, &scene.key, body("Other")).await;
        let others = scene.run(json!({"plan": "pro"})).await;
        app.store.run(&format!("UPDATE runs SET automation_id = {} WHERE id = {}", app.store.id(&other), app.store.id(&others))).await;
        copies(app, &old, 10_050, "completed").await;

        let mut list = page(app, &cookie, "/runs?status=running").await;
        assert!(list.contains("No runs here so far") && list.contains("Others were not looked at yet"), "{list}");
        let (mut found, mut looks) = (Vec::new(), 1);
        while let Some(href) = link(&list, "go on from there") {
            assert!(list.contains("through the runs that began after <time ") && !list.contains("None has this status"), "{list}");
            list = app.get(href).header("cookie", &cookie).send().await.text();
            found.extend(shown(&list));
            looks += 1;
        }
        assert_eq!((found, looks), (vec![others.clone(), old.clone()], 3));
        // The way back is as long, and says so, too.
        let newer = link(&list, "Newer").expect("what was looked through");
        let list = app.get(newer).header("cookie", &cookie).send().await.text();
        assert!(shown(&list).is_empty() && list.contains("through the runs that began before <time "), "{list}");
        let newer = link(&list, "go on from there").expect("newer ones");
        assert!(newer.contains("&before="), "{newer}");
        assert!(link(&app.get(newer).header("cookie", &cookie).send().await.text(), "go on from there").is_some());

        let list = page(app, &cookie, "/runs?status=completed").await;
        assert!(shown(&list).len() == 20 && link(&list, "Older").is_some() && !list.contains("go on from there"), "{list}");
        let list = page(app, &cookie, "/runs?status=cancelled&email=nobody%40example.com").await;
        assert!(list.contains("None has this status and this contact."), "{list}");
    }

    async fn the_runs_of_one_automation_are_listed_by_status_and_contact(app: TestApp) {
        let scene = Scene::new(app, branching()).await;
        let run = scene.run(json!({"plan": "pro"})).await;
        let (app, cookie) = (&scene.app, owner(&scene.app).await);
        let other = automation(app, &scene.key, body("Other <one>")).await;
        let others = scene.run(json!({"plan": "pro"})).await;
        app.store.run(&format!("UPDATE runs SET automation_id = {} WHERE id = {}", app.store.id(&other), app.store.id(&others))).await;
        let email = "ada@example.com";
        let made = app.post("/contacts").key(&scene.key).json(json!({"email": email})).send().await.json();
        app.store.run(&format!("UPDATE runs SET contact_id = {}", app.store.id(made["id"].as_str().expect("an id")))).await;
        let email = crate::asking::encoded(email);
        for (query, expected) in [
            ("", vec![&others, &run]), (format!("?automation={other}").as_str(), vec![&others]),
            (format!("?automation={}&status=running", scene.automation).as_str(), vec![&run]),
            (format!("?automation={other}&status=failed").as_str(), vec![]), (format!("?automation={other}&status=completed").as_str(), vec![]),
            (format!("?automation={other}&email={email}").as_str(), vec![&others]), (format!("?email={email}").as_str(), vec![&others, &run]),
        ] {
            let list = page(app, &cookie, &format!("/runs{query}")).await;
            assert_eq!(shown(&list).iter().collect::<Vec<_>>(), expected, "{query}: {list}");
            let is_of_one = list.contains("Those of all automations") && list.contains("name=\"automation\"");
            assert_eq!(is_of_one, query.contains("automation="), "{query}: {list}");
        }
        assert!(page(app, &cookie, &format!("/runs?automation={other}")).await.contains("<bdi>Other &#60;one&#62;</bdi></a>, newest first"));
        let list = page(app, &cookie, &format!("/runs?automation={other}&limit=1")).await;
        assert!(link(&list, "Older").is_none(), "it has one run: {list}");
        for unknown in ["x", "01890000-0000-7000-8000-000000000000"] {
            let answer = app.get(format!("/dashboard/runs?automation={unknown}")).header("cookie", &cookie).send().await;
            assert_eq!(answer.status, 404, "{unknown}: {}", answer.text());
        }
    }

    async fn runs_that_failed_and_automations_by_status_are_a_link_away(app: TestApp) {
        let scene = Scene::new(app, failing()).await;
        let run = scene.run(json!({})).await;
        let (app, cookie) = (&scene.app, owner(&scene.app).await);
        let failed = format!("/runs?status=failed&#38;automation={}\"", scene.automation);
        for path in ["/automations".to_owned(), format!("/automations/{}", scene.automation)] {
            let list = page(app, &cookie, &path).await;
            assert!(list.contains(&failed), "{path}: {list}");
        }
        let overview = page(app, &cookie, "/").await;
        assert!(overview.contains("1 run failed in the last 7 days.") && overview.contains("/runs?status=failed\">Look at them</a>"), "{overview}");
        assert_eq!(shown(&page(app, &cookie, "/runs?status=failed").await), [run]);

        let other = automation(app, &scene.key, body("Other")).await;
        assert_eq!(app.patch(format!("/automations/{other}")).key(&scene.key).json(json!({"status": "enabled"})).send().await.status, 200);
        for (status, expected) in [("", [true, true]), ("enabled", [false, true]), ("disabled", [true, false]), ("gone", [true, true])] {
            let list = page(app, &cookie, &format!("/automations?status={status}")).await;
            let listed = [&scene.automation, &other].map(|id| list.contains(&format!("/automations/{id}\"")));
            assert_eq!(listed, expected, "{status}: {list}");
        }
        let first = page(app, &cookie, "/automations?status=disabled&limit=1").await;
        assert!(link(&first, "Older").is_none(), "{first}");
        assert_eq!(app.delete(format!("/automations/{other}")).key(&scene.key).send().await.status, 200);
        assert!(page(app, &cookie, "/automations?status=enabled").await.contains("No automations with this status."));
    }

    async fn who_publishes_is_told_how_many_runs_were_counted(app: TestApp) {
        let scene = Scene::new(app, branching()).await;
        let run = scene.run(json!({"plan": "pro"})).await;
        let (app, cookie) = (&scene.app, owner(&scene.app).await);
        let path = format!("/automations/{}", scene.automation);
        copies(app, &run, 1_998, "completed").await;
        let asked = page(app, &cookie, &format!("{path}/edit/publish")).await;
        assert!(asked.contains("<p>1 run is in flight. It keeps the version"), "{asked}");
        let one = page(app, &cookie, &path).await;
        assert!(one.contains(", 1 run goes by it") && !one.contains("older ones may go by"), "{one}");

        app.store.run("DELETE FROM runs WHERE status = 'completed'").await;
        copies(app, &run, 2_000, "completed").await;
        let asked = page(app, &cookie, &format!("{path}/edit/publish")).await;
        assert!(asked.contains("Of the newest 2,000 runs, none is in flight; older ones were not counted."), "{asked}");
        let one = page(app, &cookie, &path).await;
        assert!(!one.contains("goes by it") && one.contains("Only the newest 2,000 runs were counted: older ones may go by any"), "{one}");
        app.store.run("UPDATE runs SET status = 'running' WHERE status = 'completed'").await;
        assert!(page(app, &cookie, &path).await.contains(", at least 2,000 runs go by it"));
    }
}
