//! Templates in the dashboard, as a person sees them.

use serde_json::json;

use crate::automation_pages::{owner, page};
use crate::harness::{TestApp, on_both};
use crate::templates::{order_with, published};

on_both! {
    async fn a_person_sees_templates_with_samples_variables_and_versions(app: TestApp) {
        let key = app.full_key().await;
        let cookie = owner(&app).await;
        assert!(page(&app, &cookie, "/templates").await.contains("No templates yet."));
        let id = published(&app, &key, order_with(json!({"name": "<b>Order</b>"}))).await;
        let list = page(&app, &cookie, "/templates").await;
        assert!(list.contains("&#60;b&#62;Order") && list.contains(&format!("/templates/{id}")) && list.contains("Published"), "{list}");
        app.patch("/templates/order").key(&key).json(json!({"html": "<p>New</p>"})).send().await;
        let one = page(&app, &cookie, &format!("/templates/{id}")).await;
        for word in ["There is a draft", "ORDER_ID", "must be given", "Is sent", "Is edited", "Shop", "mail-frame"] {
            assert!(one.contains(word), "{word}: {one}");
        }
        let frame = one.split("sandbox src=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a frame");
        let shown = app.get(frame).header("cookie", &cookie).send().await;
        assert_eq!((shown.status, shown.text().as_str()), (200, "<p>New</p>"));
        let policy = shown.header("content-security-policy").expect("a policy");
        assert!(policy.starts_with("sandbox;") && policy.contains("default-src 'none'"), "{policy}");
        let version = app.get("/templates/order").key(&key).send().await.json()["published_version_id"].clone();
        let sent = format!("/dashboard/templates/{id}/html?version={}", version.as_str().expect("an id"));
        let sent = app.get(sent).header("cookie", &cookie).send().await;
        assert!(sent.text().contains("your order [ORDER_ID]."), "{}", sent.text());
        for gone in ["/templates/x", "/templates/01890000-0000-7000-8000-000000000000", &format!("/templates/{id}?version=x")] {
            assert_eq!(app.get(format!("/dashboard{gone}")).header("cookie", &cookie).send().await.status, 404, "{gone}");
        }
    }
}
