//! The whole flow of a client that describes itself in a document.

use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Documents;
use super::stage::{self, Stage};
use crate::clock::{Clock, HOUR, MINUTE};
use crate::db::Sql;
use crate::oauth;
use crate::product::Product;
use crate::testing::{Answer, NOW, Store, owner, send};

const ID: &str = "https://app.example/client.json";
const VERIFIER: &str = "0123456789012345678901234567890123456789012";
const BACK: &str = "http://127.0.0.1:4711/cb";

/// A process whose internet is one document, which the test can change.
struct Scene {
    app: Product,
    stage: Stage,
    document: Arc<Mutex<Value>>,
    clock: Clock,
}

async fn scene(store: &Store, settings: &[&str]) -> Scene {
    let document = Arc::new(Mutex::new(json!({
        "client_id": ID, "client_name": "Your Bank", "redirect_uris": ["http://127.0.0.1/cb", "https://app.example/cb"],
    })));
    let served = document.clone();
    let stage = Stage::open(move |_| stage::document(served.lock().expect("a document").to_string())).await;
    let clock = Clock::fixed(NOW);
    let app = store.open(settings, clock.clone()).await;
    let app = app.reading(Documents::reaching(stage.client()));
    Scene { app, stage, document, clock }
}

impl Scene {
    async fn authorize(&self, id: &str, redirect_uri: &str) -> Answer {
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER));
        let target = format!(
            "/oauth/authorize?response_type=code&client_id={id}&redirect_uri={redirect_uri}&state=s\
             &code_challenge_method=S256&code_challenge={challenge}"
        );
        send(&self.app, "GET", &target, &[], None).await
    }

    /// The path of the consent page that a request leads to.
    async fn ask(&self) -> String {
        let answer = self.authorize(ID, BACK).await;
        let location = answer.location();
        location.strip_prefix(self.app.addresses.dashboard.origin()).expect("the dashboard").to_owned()
    }

    async fn approve(&self, page: &str, cookie: &str) -> Answer {
        let shown = send(&self.app, "GET", page, &[("cookie", cookie)], None).await.text();
        let form = shown.rsplit("name=\"token\" value=\"").next().and_then(|rest| rest.split('"').next());
        let form = format!("decision=approve&scope=full_access&token={}", form.expect("a token"));
        send(&self.app, "POST", page, &[("cookie", cookie)], Some(form)).await
    }

    async fn count_clients(&self) -> usize {
        oauth::clients(&self.app.db).await.expect("clients").iter().filter(|client| client.id == ID).count()
    }
}

fn refused(answer: &Answer, status: u16, error: &str) {
    assert_eq!((answer.status, answer.json()["error"].as_str()), (status, Some(error)), "{}", answer.text());
    assert_eq!(answer.headers.get("cache-control").and_then(|value| value.to_str().ok()), Some("no-store"));
}

#[tokio::test]
async fn cases_409_and_417_a_client_nobody_registered_gets_tokens_under_the_name_of_its_host() {
    for store in Store::each().await {
        let scene = scene(&store, &["--client-id-documents"]).await;
        let (_, cookie) = owner(&scene.app).await;
        let page = scene.ask().await;
        let shown = send(&scene.app, "GET", &page, &[("cookie", &cookie)], None).await.text();
        let headline =
            shown.split("sender-name").nth(1).and_then(|rest| rest.split("</p>").next()).expect("a headline");
        assert!(headline.contains("app.example") && !headline.contains("Your Bank"), "{headline}");
        assert!(shown.contains("Your Bank") && shown.contains("Unverified"), "{shown}");

        let location = scene.approve(&page, &cookie).await.location();
        let code = location.strip_prefix(&format!("{BACK}?code=")).and_then(|rest| rest.split('&').next());
        let form = format!(
            "grant_type=authorization_code&client_id={ID}&redirect_uri={BACK}&code_verifier={VERIFIER}&code={}",
            code.expect("a code")
        );
        let tokens = send(&scene.app, "POST", "/oauth/token", &[], Some(form)).await;
        assert_eq!(tokens.status, 200, "{}", tokens.text());
        let bearer = format!("Bearer {}", tokens.json()["access_token"].as_str().expect("a token"));
        let events = send(&scene.app, "GET", "/events", &[("authorization", &bearer)], None).await;
        assert_eq!(events.status, 200, "{}", events.text());
        assert_eq!(scene.stage.asked().len(), 1, "fetched at authorize only, and once");

        // A client with a grant stays, however long it is not heard of.
        scene.clock.advance(48 * HOUR);
        oauth::sweep(&scene.app.db, &scene.clock).await.expect("a sweep");
        assert_eq!(scene.count_clients().await, 1);
        drop(scene);
        store.discard().await;
    }
}

#[tokio::test]
async fn case_347_documents_are_off_by_default_and_not_announced() {
    for store in Store::each().await {
        for (settings, announced) in [(&[][..], Value::Null), (&["--client-id-documents=true"], json!(true))] {
            let scene = scene(&store, settings).await;
            let metadata = send(&scene.app, "GET", "/.well-known/oauth-authorization-server", &[], None).await.json();
            assert_eq!(metadata["client_id_metadata_document_supported"], announced);
            if settings.is_empty() {
                refused(&scene.authorize(ID, BACK).await, 400, "invalid_client");
                assert!(scene.stage.dialled().is_empty());
            }
        }
        store.discard().await;
    }
}

#[tokio::test]
async fn cases_410_and_411_what_breaks_a_rule_is_400_json_and_stores_nothing() {
    for store in Store::each().await {
        let scene = scene(&store, &["--client-id-documents"]).await;
        for id in ["https://app.example", "https://app.example/a/../client.json", "https://u@app.example/client.json"] {
            refused(&scene.authorize(id, BACK).await, 400, "invalid_client");
        }
        refused(&scene.authorize("http://app.example/client.json", BACK).await, 400, "invalid_client");
        assert!(scene.stage.dialled().is_empty());
        refused(&scene.authorize("https://other.example/client.json", BACK).await, 400, "invalid_client");
        assert_eq!(oauth::clients(&scene.app.db).await.expect("clients").len(), 1);
        // The document decides where answers go.
        refused(&scene.authorize(ID, "https://evil.example/cb").await, 400, "invalid_request");
        drop(scene);
        store.discard().await;
    }
}

#[tokio::test]
async fn case_416_a_redirect_that_the_document_lost_is_not_used_after_approval() {
    for store in Store::each().await {
        let scene = scene(&store, &["--client-id-documents"]).await;
        let (_, cookie) = owner(&scene.app).await;
        let page = scene.ask().await;
        let shown = send(&scene.app, "GET", &page, &[("cookie", &cookie)], None).await;
        assert_eq!(shown.status, 200);

        // The document changes, which alone changes nothing: the snapshot rules.
        scene.document.lock().expect("a document")["redirect_uris"] = json!(["https://app.example/cb"]);
        let again = send(&scene.app, "GET", &page, &[("cookie", &cookie)], None).await;
        assert_eq!(again.status, 200);
        // Somebody starts over, so the document is read again.
        scene.clock.advance(9 * MINUTE);
        scene.app.oauth().documents.read.clear();
        refused(&scene.authorize(ID, BACK).await, 400, "invalid_request");
        let decided = send(&scene.app, "POST", &page, &[("cookie", &cookie)], Some("decision=approve".into())).await;
        assert_eq!((decided.status, decided.headers.get("location")), (404, None));
        drop(scene);
        store.discard().await;
    }
}

#[tokio::test]
async fn case_419_while_the_store_is_out_nothing_is_fetched() {
    let store = Store::each().await.remove(0);
    let scene = scene(&store, &["--client-id-documents"]).await;
    const BREAK: Sql = Sql(&Sql::both("ALTER TABLE oauth_clients RENAME TO gone"));
    scene.app.db.commit(BREAK.with([])).await.expect("a store without clients");
    refused(&scene.authorize(ID, BACK).await, 503, "temporarily_unavailable");
    assert!(scene.stage.dialled().is_empty());
}

#[tokio::test]
async fn a_client_that_was_given_nothing_is_forgotten_and_one_that_was_disabled_is_not() {
    for store in Store::each().await {
        let scene = scene(&store, &["--client-id-documents"]).await;
        scene.ask().await;
        scene.clock.advance(59 * MINUTE);
        scene.ask().await;
        scene.clock.advance(59 * MINUTE);
        oauth::sweep(&scene.app.db, &scene.clock).await.expect("a sweep");
        assert_eq!(scene.count_clients().await, 1, "used less than an hour ago");
        scene.clock.advance(2 * MINUTE);
        oauth::sweep(&scene.app.db, &scene.clock).await.expect("a sweep");
        assert_eq!(scene.count_clients().await, 0);

        scene.ask().await;
        const DISABLE: Sql = Sql(&Sql::both("UPDATE oauth_clients SET disabled_at = 1 WHERE origin = 'document'"));
        scene.app.db.commit(DISABLE.with([])).await.expect("disabled");
        let asked = scene.stage.asked().len();
        scene.clock.advance(48 * HOUR);
        oauth::sweep(&scene.app.db, &scene.clock).await.expect("a sweep");
        refused(&scene.authorize(ID, BACK).await, 400, "invalid_client");
        assert_eq!(scene.stage.asked().len(), asked, "not even fetched");
        drop(scene);
        store.discard().await;
    }
}
