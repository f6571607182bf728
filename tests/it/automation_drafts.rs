//! Drafts of automations: findings beside their steps, forms that come too late, and what forms take.

use serde_json::json;

use crate::asking::encoded;
use crate::automation_editor::{Editor, within};
use crate::automation_pages::page;
use crate::form_filling::plain;
use crate::harness::{TestApp, on_both};
use crate::templates::make;

/// Asks for everything that is wrong with the draft, looks for each finding in the element of its step and nowhere
/// else, and tells how many there are.
async fn findings_beside_steps(editor: &Editor) -> usize {
    let draft = editor.draft().await;
    let graph = json!({"steps": draft["steps"], "connections": draft["connections"]});
    let check = editor.app.post("/automations/validate").key(&editor.key).json(graph).send().await.json();
    let findings = check["findings"].as_array().expect("findings").clone();
    let page = page(&editor.app, &editor.cookie, &format!("{}/edit", editor.path)).await;
    let told = |element: &str| -> Vec<String> {
        let all = element.split("<p class=\"finding\">").skip(1);
        all.map(|rest| plain(rest.split("</p>").next().unwrap_or_default())).collect()
    };
    assert_eq!(told(&page).len(), findings.len(), "each is told once: {findings:?}, {page}");
    let elements: Vec<&str> = page.split("<a class=\"outline-step\"").skip(1).collect();
    for finding in &findings {
        let (step, message) =
            (finding["step"].as_str().expect("a step"), finding["message"].as_str().expect("a message"));
        let own =
            elements.iter().find(|element| element.contains(&format!("<code>{step}</code></span></a>"))).expect(step);
        assert!(told(own).iter().any(|sentence| sentence.contains(message)), "{step}, {message}: {own}");
    }
    findings.len()
}

on_both! {
    async fn each_finding_of_a_check_stands_beside_its_step(app: TestApp) {
        let mut editor = Editor::new(app).await;
        make(&editor.app, &editor.key, json!({"name": "Draft", "alias": "draft", "html": "<p>Hi</p>"})).await;
        editor.edit("add", "after=wait&way=default&type=send_email").await;
        editor.edit("json", &format!("step=send_email&config={}", encoded(r#"{"template": {"id": "draft"}}"#))).await;
        assert_eq!(findings_beside_steps(&editor).await, 1, "it cannot be sent");
        editor.edit("connect", "step=start&way=default&to=").await;
        assert_eq!(findings_beside_steps(&editor).await, 2, "two steps are out of reach");
        editor.edit("connect", "step=start&way=default&to=wait").await;
        for (kind, at) in [
            ("condition", "send_email&way=default"), ("wait_for_event", "condition&way=condition_met"),
            ("contact_update", "wait_for_event&way=event_received"), ("add_to_segment", "contact_update&way=default"),
            ("webhook", "add_to_segment&way=default"), ("exit", "webhook&way=default"),
        ] {
            editor.edit("add", &format!("after={at}&type={kind}")).await;
        }
        editor.edit("json", &format!("step=wait&config={}", encoded(r#"{"duration": "<soon>"}"#))).await;
        assert_eq!(findings_beside_steps(&editor).await, 6);
    }

    async fn a_way_is_connected_and_disconnected(app: TestApp) {
        let mut editor = Editor::new(app).await;
        editor.edit("add", "after=wait&way=default&type=webhook").await;
        editor.edit("step", "step=webhook&key=webhook&url=https%3A%2F%2Fx.test%2F").await;
        let connected = editor.edit("connect", "step=start&way=default&to=webhook").await;
        for words in ["The way leads there now", "Nothing leads to these", "value=\"webhook\" selected"] {
            assert!(connected.contains(words), "{words}: {connected}");
        }
        let link = |from: &str, to: &str| json!({"from": from, "to": to, "type": "default"});
        assert_eq!(editor.draft().await["connections"], json!([link("wait", "webhook"), link("start", "webhook")]));
        editor.edit("remove", "step=wait&keep=default").await;
        editor.edit("connect", "step=start&way=default&to=").await;
        assert_eq!(editor.draft().await["connections"], json!([]));
        editor.edit("connect", "step=start&way=default&to=webhook").await;
        assert_eq!(editor.publish("").await.status, 303);
        assert_eq!(editor.live().await["connections"], json!([link("start", "webhook")]));
    }

    async fn what_was_typed_for_a_step_that_a_colleague_removed_is_shown(app: TestApp) {
        let mut editor = Editor::new(app).await;
        let seen = editor.look("?step=wait").await.to_owned();
        editor.edit("remove", "step=wait&keep=default").await;
        let newer = std::mem::replace(&mut editor.shown, seen);
        let config = encoded(r#"{"duration": "6 hours"}"#);
        for (act, fields, typed) in [
            ("step", "step=wait&key=wait&duration=5+hours".to_owned(), "duration: 5 hours"),
            ("json", format!("step=wait&config={config}"), "{&#34;duration&#34;: &#34;6 hours&#34;}"),
        ] {
            let answer = editor.send(act, &fields).await;
            let told = answer.text();
            assert_eq!(answer.status, 409, "{act}: {told}");
            for words in ["owner@example.com has changed this draft", "The step is gone. This is what you typed for it", typed] {
                assert!(told.contains(words), "{act}, {words}: {told}");
            }
        }
        // A form that knows of the removal, for a step that is gone all the same.
        editor.shown = newer;
        for (act, fields, typed) in [
            ("step", "step=wait&key=wait&duration=5+hours".to_owned(), "duration: 5 hours"),
            ("json", format!("step=wait&config={config}"), "{&#34;duration&#34;: &#34;6 hours&#34;}"),
        ] {
            let answer = editor.send(act, &fields).await;
            let told = answer.text();
            assert!(answer.status == 422 && told.contains("somebody has removed it") && told.contains(typed), "{act}: {told}");
        }
        assert_eq!(editor.draft().await["steps"].as_array().map(Vec::len), Some(1), "nothing came back");
    }

    async fn a_step_and_json_that_come_too_late_are_kept_as_they_were_typed(app: TestApp) {
        let mut editor = Editor::new(app).await;
        let seen = editor.shown.clone();
        editor.edit("step", "step=wait&key=wait&duration=2+hours").await;
        editor.shown = seen;
        let added = editor.send("add", "after=wait&way=default&type=webhook").await;
        let told = added.text();
        assert_eq!(added.status, 409, "{told}");
        for words in ["owner@example.com has changed this draft", "Add a step <bdi>after wait", "value=\"webhook\" required checked"] {
            assert!(told.contains(words), "{words}: {told}");
        }
        let config = encoded(r#"{"duration": "6 hours"}"#);
        let json = editor.send("json", &format!("step=wait&config={config}")).await;
        let told = json.text();
        assert_eq!(json.status, 409, "{told}");
        for words in ["owner@example.com has changed this draft", "{&#34;duration&#34;: &#34;6 hours&#34;}</textarea>", "What is saved now"] {
            assert!(told.contains(words), "{words}: {told}");
        }
        assert_eq!(editor.draft().await["steps"][1]["config"], json!({"duration": "2 hours"}), "nothing was saved");
        // From there both can be sent again.
        editor.shown = told;
        editor.edit("json", &format!("step=wait&config={config}")).await;
        editor.edit("add", "after=wait&way=default&type=webhook").await;
        assert_eq!(editor.draft().await["steps"].as_array().map(Vec::len), Some(3));
    }

    async fn a_step_takes_as_much_html_as_the_api(app: TestApp) {
        let mut editor = Editor::new(app).await;
        editor.edit("add", "after=wait&way=default&type=send_email").await;
        let html = format!("<p>{}</p>", "ä é ".repeat(40 << 10));
        assert!(html.len() > 200 << 10);
        let fields = format!("step=send_email&key=hello&mail=written&from=us%40example.com&subject=Hi&html={}", encoded(&html));
        let saved = editor.edit("step", &fields).await;
        assert!(saved.contains("No findings"));
        assert_eq!(editor.draft().await["steps"][2]["config"]["html"], json!(html));
        let config = json!({"from": "us@example.com", "subject": "Hi", "html": format!("{html}{html}")});
        editor.edit("json", &format!("step=hello&config={}", encoded(&config.to_string()))).await;
        assert_eq!(editor.draft().await["steps"][2]["config"], config);
        assert_eq!(editor.publish("").await.status, 303);
        assert_eq!(editor.live().await["steps"][2]["config"]["html"], config["html"]);
    }

    async fn the_picture_of_the_editor_has_several_sizes(app: TestApp) {
        let mut editor = Editor::new(app).await;
        let width = |page: &str| within(within(page, "id=\"picture\"", "viewBox"), " width=\"", "\"").parse::<i32>().expect("a width");
        let usual = width(&editor.shown);
        assert!(editor.shown.contains("/edit?zoom=200#picture") && editor.shown.contains("/edit?step=wait#panel"), "{}", editor.shown);
        let halved = editor.look("?step=wait&zoom=50").await;
        assert_eq!(width(halved), usual / 2);
        for words in ["/edit?step=wait&#38;zoom=200#picture", "data-zoom=\"50\" aria-current=\"true\"", "/edit?step=start&#38;zoom=50#panel"] {
            assert!(halved.contains(words), "{words}: {halved}");
        }
        let added = editor.look("?after=start&way=default&zoom=fit").await;
        assert!(added.contains("/edit?after=start&#38;way=default&#38;zoom=100#picture") && added.contains("<svg class=\"fit\""), "{added}");
    }
}
