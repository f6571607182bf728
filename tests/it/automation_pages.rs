//! Automations in the dashboard, as a person sees and changes them.

use posthorn::accounts;
use serde_json::json;

use crate::graphs::{automation, body, link, trigger};
use crate::harness::{Answer, TestApp, on_both};
use crate::runs::{Scene, branching, failing};
use crate::templates::make;

/// Makes the owner and tells the cookie of his session.
pub async fn owner(app: &TestApp) -> String {
    let token = accounts::new_setup_link(&app.app.db, &app.clock).await.expect("a store").expect("nobody is there yet");
    let form = "workspace=Acme&email=owner%40example.com&password=correct+horse&password_again=correct+horse";
    let path = format!("/dashboard/setup/{token}");
    let answer = app.post(path).body("application/x-www-form-urlencoded", form).send().await;
    assert_eq!(answer.status, 303, "{}", answer.text());
    answer.header("set-cookie").and_then(|cookie| cookie.split(';').next()).expect("a cookie").to_owned()
}

pub async fn page(app: &TestApp, cookie: &str, path: &str) -> String {
    let answer = app.get(format!("/dashboard{path}")).header("cookie", cookie).send().await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    assert!(!answer.text().contains("style=\""), "the policy forbids styles in attributes");
    answer.text()
}

/// Sends the form on a page whose action ends so, with its hidden fields.
pub async fn press(app: &TestApp, cookie: &str, page: &str, action: &str) -> Answer {
    let forms: Vec<&str> = page.split("<form ").filter(|form| form.contains(&format!("{action}\""))).collect();
    let form = forms.first().unwrap_or_else(|| panic!("no form for {action}: {page}"));
    let form = form.split("</form>").next().expect("a form");
    let quoted =
        |text: &str, before: &str| text.split(before).nth(1).and_then(|rest| rest.split('"').next()).map(str::to_owned);
    let target = quoted(form, "action=\"").expect("an action");
    let fields: Vec<String> = form
        .split("<input ")
        .skip(1)
        .map(|input| {
            let (name, value) =
                (quoted(input, "name=\"").expect("a name"), quoted(input, "value=\"").expect("a value"));
            format!("{name}={}", crate::asking::encoded(&value))
        })
        .collect();
    let request = app.post(target).header("cookie", cookie);
    request.body("application/x-www-form-urlencoded", fields.join("&")).send().await
}

fn leads_to(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{}", answer.text());
    answer.location().strip_prefix("/dashboard").expect("a page of the dashboard").to_owned()
}

on_both! {
    async fn the_list_tells_what_there_is(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        let empty = page(&app, &cookie, "/automations").await;
        assert!(empty.contains("No automations here") && empty.contains("/automations \\"));
        let scene = Scene::new(app, branching()).await;
        scene.run(json!({"plan": "pro"})).await;
        scene.run(json!({"plan": "pro"})).await;
        automation(&scene.app, &key, body("<b>Bold</b>")).await;
        let list = page(&scene.app, &cookie, "/automations").await;
        assert!(list.contains("user.created") && list.contains("Disabled") && !list.contains("<b>Bold"));
        assert!(list.contains("data-label=\"Failed\">0<") && list.contains("data-label=\"Runs\">2<") && list.contains("data-label=\"Runs\">0<"));
        assert!(list.contains("aria-current=\"page\"") && list.contains(&format!("/dashboard/automations/{}", scene.automation)));
    }

    async fn the_page_of_one_draws_its_graph_and_lists_its_runs(app: TestApp) {
        let scene = Scene::new(app, branching()).await;
        let run = scene.run(json!({"plan": "pro"})).await;
        let cookie = owner(&scene.app).await;
        let one = page(&scene.app, &cookie, &format!("/automations/{}", scene.automation)).await;
        for word in ["<svg", "event.plan = pro", ">met · 1<", ">not met · 0<", ">received · 0<", "1 here now, 0 passed", "Wait for event", "marker-end", run.as_str()] {
            assert!(one.contains(word), "{word}: {one}");
        }
    }

    async fn steps_and_ways_count_their_runs_and_versions_are_compared(app: TestApp) {
        let scene = Scene::new(app, branching()).await;
        for plan in ["pro", "pro", "free"] {
            scene.run(json!({"plan": plan})).await;
        }
        let (app, cookie) = (&scene.app, owner(&scene.app).await);
        let path = format!("/automations/{}", scene.automation);
        let one = page(app, &cookie, &path).await;
        for word in [">met · 2<", ">not met · 1<", "Counted of 3 runs of this version", "3 runs go by it", "a contact that is gone", "data-refresh=\"5\""] {
            assert!(one.contains(word), "{word}: {one}");
        }
        assert_eq!(one.matches("<g class=\"step-count\">").count(), 2, "two wait for the event, and one sleeps");
        assert!(!one.contains("/versions/0..1"), "before the first there was none");
        let narrow = page(app, &cookie, &format!("{path}?zoom=50")).await;
        let width = |page: &str| -> i32 {
            let picture = page.split("id=\"picture\"").nth(1).expect("a picture");
            picture.split("width=\"").nth(1).and_then(|rest| rest.split('"').next()).and_then(|text| text.parse().ok()).expect("a width")
        };
        assert_eq!(width(&narrow), width(&one) / 2);

        let steps = json!([trigger(), {"key": "bye", "type": "exit", "config": {}}]);
        let next = json!({"steps": steps, "connections": [link("start", "bye")]});
        assert_eq!(app.patch(&path).key(&scene.key).json(next).send().await.status, 200);
        let one = page(app, &cookie, &path).await;
        assert!(one.contains("/versions/1..2\"") && one.contains("3 runs go by it") && one.contains("No run has come by here yet."), "{one}");
        let compared = page(app, &cookie, &format!("{path}/versions/1..2")).await;
        for word in ["From version 1 to 2", "class=\"added\"", "Exit (bye)", "class=\"removed\"", "/versions/2..1\""] {
            assert!(compared.contains(word), "{word}: {compared}");
        }
        assert!(page(app, &cookie, &format!("{path}/versions/2..2")).await.contains("Their steps are the same."));
        for wrong in ["1..9", "1..", "..", "a..b"] {
            let answer = app.get(format!("/dashboard{path}/versions/{wrong}")).header("cookie", &cookie).send().await;
            assert_eq!(answer.status, 404, "{wrong}");
        }
    }

    async fn steps_are_told_whole_and_by_names_wherever_a_graph_is_shown(app: TestApp) {
        let key = app.full_key().await;
        // Neither is among those that forms offer: one is not published, the other fills itself.
        let template = make(&app, &key, json!({"name": "Autumn greetings", "alias": "autumn", "html": "<p>Hi</p>"})).await;
        let filter = json!({"type": "rule", "field": "contact.unsubscribed", "operator": "eq", "value": false});
        let segment = app.post("/segments").key(&key).json(json!({"name": "All who read", "filter": filter})).send().await.json();
        let segment = segment["id"].as_str().expect("an id").to_owned();
        let wait = json!({"event_name": "paid", "timeout": "1 day",
            "filter_rule": {"type": "rule", "field": "event.total", "operator": "gte", "value": 5}});
        let change = json!({"last_name": null, "properties": {"plan": {"var": "event.plan"}, "note": "n".repeat(80)}});
        let step = |key: &str, kind: &str, config: serde_json::Value| json!({"key": key, "type": kind, "config": config});
        let steps = json!([
            trigger(), step("w", "wait_for_event", wait), step("u", "contact_update", change),
            step("a", "add_to_segment", json!({"segment_id": segment})),
            step("m", "send_email", json!({"template": {"id": template.to_uppercase()}})),
            step("n", "send_email", json!({"template": {"id": "autumn"}})), step("g", "send_email", json!({"template": {"id": "gone"}})),
        ]);
        let received = json!({"from": "w", "to": "u", "type": "event_received"});
        let connections = json!([link("start", "w"), received, link("u", "a"), link("a", "m"), link("m", "n"), link("n", "g")]);
        let scene = Scene::new(app, (steps, connections)).await;
        let run = scene.run(json!({})).await;
        let (app, cookie) = (&scene.app, owner(&scene.app).await);
        let path = format!("/automations/{}", scene.automation);
        let whole = [
            "paid, at most 1 day, where event.total ≥ 5".to_owned(),
            format!("last name emptied, plan = event.plan, note = {}", "n".repeat(80)),
            "All who read".to_owned(), "Autumn greetings".to_owned(), "gone".to_owned(),
        ];
        for (path, before) in [
            (path.clone(), "<summary>The steps in words</summary>"),
            (format!("{path}/versions/1"), "<summary>The steps in words</summary>"),
            (format!("{path}/runs/{run}"), "<table class=\"stack times\""),
            (format!("{path}/edit"), "<h2 id=\"outline\">"),
        ] {
            let page = page(app, &cookie, &path).await;
            let (picture, rest) = page.split_once(before).expect("the steps in words");
            let words = rest.split("</section>").next().unwrap_or_default();
            // Findings are the API's words.
            let without_finding = |(at, piece): (usize, &str)| match at {
                0 => piece.to_owned(),
                _ => piece.split_once("</p>").map_or_else(String::new, |(_, rest)| rest.to_owned()),
            };
            let words: String = words.split("<p class=\"finding\">").enumerate().map(without_finding).collect();
            for told in &whole {
                assert!(words.contains(told) && picture.contains(told), "{path}, {told}: {page}");
            }
            assert!(!words.to_lowercase().contains(&template), "{path}: a name stands for the id");
            assert_eq!(words.matches("Autumn greetings").count(), 2, "by id and by alias");
            assert!(picture.contains("…</text>"), "a box is short: {page}");
        }
        let next = json!({"steps": [trigger()], "connections": []});
        assert_eq!(app.patch(&path).key(&scene.key).json(next).send().await.status, 200);
        let compared = page(app, &cookie, &format!("{path}/versions/1..2")).await;
        for told in &whole {
            assert!(compared.contains(told), "{told}: {compared}");
        }
    }

    async fn the_list_of_runs_keeps_itself_up_to_date(app: TestApp) {
        let scene = Scene::new(app, branching()).await;
        let run = scene.run(json!({"plan": "pro"})).await;
        let cookie = owner(&scene.app).await;
        let one = page(&scene.app, &cookie, &format!("/automations/{}", scene.automation)).await;
        let (_, list) = one.split_once("<div id=\"run-list\" data-refresh=\"5\">").expect("a part that refreshes itself");
        assert!(list.split("</div>\n</section>").next().is_some_and(|list| list.contains(&run)), "{one}");
    }

    async fn a_person_enables_stops_copies_and_deletes(app: TestApp) {
        let key = app.full_key().await;
        let id = automation(&app, &key, body("Welcome")).await;
        let cookie = owner(&app).await;
        let path = format!("/automations/{id}");
        let status = async || app.get(&path).key(&key).send().await.json()["status"].clone();
        let next = leads_to(&press(&app, &cookie, &page(&app, &cookie, &path).await, "/enable").await);
        assert_eq!((status().await, next.as_str()), (json!("enabled"), format!("{path}?enabled").as_str()));
        let shown = page(&app, &cookie, &next).await;
        assert!(shown.contains("is enabled: from now on"));
        leads_to(&press(&app, &cookie, &shown, "/stop").await);
        assert_eq!(status().await, "disabled");

        let shown = page(&app, &cookie, &path).await;
        let copy = leads_to(&press(&app, &cookie, &shown, "/duplicate").await);
        assert_eq!(leads_to(&press(&app, &cookie, &shown, "/duplicate").await), copy, "sent twice, it makes one copy");
        assert_eq!(app.count("automations").await, 2);
        assert!(page(&app, &cookie, &copy).await.contains("Welcome (copy)"));

        let question = page(&app, &cookie, &format!("{path}/delete")).await;
        assert_eq!(leads_to(&press(&app, &cookie, &question, "/delete").await), "/automations?deleted");
        app.get(&path).key(&key).send().await.refused(404, "not_found");
        assert_eq!(app.get(format!("/dashboard{path}")).header("cookie", &cookie).send().await.status, 404);
        assert_eq!(press(&app, &cookie, &question, "/delete").await.status, 404);
    }

    async fn a_form_that_is_not_ours_changes_nothing(app: TestApp) {
        let key = app.full_key().await;
        let id = automation(&app, &key, body("Welcome")).await;
        let cookie = owner(&app).await;
        for act in ["enable", "stop", "duplicate", "delete"] {
            let request = app.post(format!("/dashboard/automations/{id}/{act}")).header("cookie", &cookie);
            let answer = request.body("application/x-www-form-urlencoded", "token=guessed&copy=x").send().await;
            assert!((400..500).contains(&answer.status), "{act}: {}", answer.status);
        }
        assert_eq!(app.count("automations").await, 1);
        assert_eq!(app.get(format!("/automations/{id}")).key(&key).send().await.json()["status"], "disabled");
    }

    async fn the_page_of_a_run_shows_its_way_and_ends_it(app: TestApp) {
        let scene = Scene::new(app, branching()).await;
        let run = scene.run(json!({"plan": "pro", "note": "<i>"})).await;
        let cookie = owner(&scene.app).await;
        let path = format!("/automations/{}/runs/{run}", scene.automation);
        let shown = page(&scene.app, &cookie, &path).await;
        for word in ["step completed", "step waiting", "step pending", "step skipped", "Cancel the run", "2 January 2026"] {
            assert!(shown.contains(word), "{word}: {shown}");
        }
        assert!(!shown.contains("<i>") && !shown.contains("Try again"));
        assert!(shown.contains(&format!("<a class=\"button danger\" href=\"/dashboard{path}/cancel\">")), "{shown}");
        let question = page(&scene.app, &cookie, &format!("{path}/cancel")).await;
        assert!(question.contains("Cancel this run?") && question.contains("This cannot be undone."), "{question}");
        assert_eq!(scene.read(&run).await["status"], "running", "asking ends nothing");
        let next = leads_to(&press(&scene.app, &cookie, &question, "/cancel").await);
        assert_eq!(scene.read(&run).await["status"], "cancelled");
        assert!(page(&scene.app, &cookie, &next).await.contains("The run is cancelled."));
        assert_eq!(press(&scene.app, &cookie, &question, "/cancel").await.status, 409, "it has ended");
        scene.app.assert_told(&["workspace.renamed", "run.canceled"]).await;
        assert!(!page(&scene.app, &cookie, &path).await.contains("/cancel\""));
    }

    async fn a_run_says_until_when_it_waits_and_for_what(app: TestApp) {
        let scene = Scene::new(app, branching()).await;
        let cookie = owner(&scene.app).await;
        let timed = "waiting until <time datetime=\"2026-01-02T04:04:05";
        let heard = "waiting until <time datetime=\"2026-01-03T03:04:05";
        let event = "</time> for <bdi class=\"strong\">paid</bdi>";
        for (plan, until, is_for_event) in [("free", timed, false), ("pro", heard, true)] {
            let run = scene.run(json!({"plan": plan})).await;
            let one = page(&scene.app, &cookie, &format!("/automations/{}/runs/{run}", scene.automation)).await;
            assert!(one.contains(until) && one.contains(event) == is_for_event, "{plan}: {one}");
            let list = page(&scene.app, &cookie, "/runs").await;
            assert!(list.contains(until) && list.contains(event) == is_for_event, "{plan}: {list}");
        }
    }

    async fn a_failed_run_is_tried_again(app: TestApp) {
        let scene = Scene::new(app, failing()).await;
        let run = scene.run(json!({})).await;
        let cookie = owner(&scene.app).await;
        let shown = page(&scene.app, &cookie, &format!("/automations/{}/runs/{run}", scene.automation)).await;
        let cause = "It failed at <code>s</code>: <bdi>the segment does not exist, or fills itself</bdi>.";
        let cure = "Put right what the step needs (what it names, or the other side of a call), then try again";
        assert!(shown.contains(cause) && shown.contains(cure) && shown.contains("step failed"), "{shown}");
        let list = page(&scene.app, &cookie, "/automations").await;
        assert!(list.contains("<span class=\"badge bad\">1</span>"), "{list}");
        assert!(page(&scene.app, &cookie, "/runs?status=failed").await.contains(&format!("/runs/{run}\"")));
        leads_to(&press(&scene.app, &cookie, &shown, "/retry").await);
        scene.app.assert_told(&["run.retried"]).await;
        assert_eq!(scene.read(&run).await["status"], "running");
    }

    async fn runs_of_all_automations_are_listed_by_status_and_contact(app: TestApp) {
        let scene = Scene::new(app, branching()).await;
        let run = scene.run(json!({"plan": "pro"})).await;
        let cookie = owner(&scene.app).await;
        let email = "ada@example.com";
        let made = scene.app.post("/contacts").key(&scene.key).json(json!({"email": email})).send().await.json();
        let contact = made["id"].as_str().expect("an id");
        scene.app.store.run(&format!("UPDATE runs SET contact_id = {}", scene.app.store.id(contact))).await;
        let shown = |list: &str| list.contains(&format!("/runs/{run}\""));
        let all = page(&scene.app, &cookie, "/runs").await;
        assert!(shown(&all) && all.contains(email) && all.contains("waiting") && all.contains("data-refresh"), "{all}");
        for (query, is_shown) in [
            ("?status=running", true), ("?status=failed", false), ("?status=completed", false), ("?status=", true),
            (format!("?email={}", crate::asking::encoded(&email.to_uppercase())).as_str(), true), ("?email=nobody%40example.com", false),
            (format!("?status=failed&email={}", crate::asking::encoded(email)).as_str(), false),
            (format!("?after={run}").as_str(), false), ("?before=01890000-0000-7000-8000-000000000000&status=running", true),
        ] {
            let list = page(&scene.app, &cookie, &format!("/runs{query}")).await;
            assert_eq!(shown(&list), is_shown, "{query}: {list}");
        }
        let one = page(&scene.app, &cookie, &format!("/automations/{}/runs/{run}", scene.automation)).await;
        assert!(one.contains(&format!("/contacts/{contact}\"")) && one.contains(email) && one.contains("data-refresh"), "{one}");
    }

    async fn what_is_not_there_is_a_page_that_says_so(app: TestApp) {
        let key = app.full_key().await;
        let id = automation(&app, &key, json!({"name": "a", "steps": [trigger()], "connections": []})).await;
        let theirs = app.second_workspace_key().await;
        let foreign = automation(&app, &theirs, json!({"name": "b", "steps": [trigger(), {"key": "x", "type": "exit"}],
            "connections": [link("start", "x")]})).await;
        let cookie = owner(&app).await;
        let nobody = "01890000-0000-7000-8000-000000000000";
        for path in [
            "/automations/x".to_owned(), format!("/automations/{nobody}"), format!("/automations/{foreign}"),
            format!("/automations/{foreign}/delete"), format!("/automations/{id}/runs/{nobody}"),
            format!("/automations/{id}/runs/x"), format!("/automations/{id}/runs/{nobody}/cancel"),
            format!("/automations/{id}/runs/{nobody}/messages/{nobody}/drop"),
        ] {
            let answer = app.get(format!("/dashboard{path}")).header("cookie", &cookie).send().await;
            assert_eq!((answer.status, answer.header("content-type")), (404, Some("text/html; charset=utf-8")), "{path}");
        }
    }
}
