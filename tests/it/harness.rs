//! A whole Posthorn on a store of its own, reached through the real gate.

use std::net::{IpAddr, SocketAddr};

use axum::body::Body;
use bytes::Bytes;
use clap::Parser;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::BodyExt;
use metrics_exporter_prometheus::PrometheusBuilder;
use posthorn::app::App;
use posthorn::clock::Clock;
use posthorn::config::Config;
use posthorn::credentials::{NewKey, Permission};
use posthorn::db::Db;
use posthorn::id::{ApiKeyId, WorkspaceId};
use posthorn::oauth::{Origin, Registration};
use posthorn::product::Product;
use posthorn::seal::Seal;
use posthorn::web::Gate;
use posthorn::{accounts, credentials, oauth, serve};
use serde_json::{Value, json};

use crate::store::Store;

/// Where the tests' Posthorn believes to be reached.
pub const BASE: &str = "https://mail.example";

/// The tests' clock stands at 2026-01-02T03:04:05.678901Z until it is moved.
pub const NOW: i64 = 1_767_323_045_678_901;

/// Makes two tests of one: `name::sqlite` and `name::postgres`.
macro_rules! on_both {
    ($($(#[$meta:meta])* async fn $name:ident($fixture:ident: $kind:ty) $body:block)+) => {$(
        $(#[$meta])*
        mod $name {
            use super::*;

            async fn test($fixture: $kind) $body

            #[tokio::test]
            async fn sqlite() {
                $crate::harness::run($crate::store::Store::sqlite(), test).await;
            }

            #[tokio::test]
            async fn postgres() {
                $crate::harness::run($crate::store::Store::postgres().await, test).await;
            }
        }
    )+};
}
pub(crate) use on_both;

/// What a test can ask for: a [`TestApp`] with default settings, or an empty
/// [`Store`] to do as it likes with.
pub trait Fixture {
    async fn of(store: Store) -> Self;
}

impl Fixture for Store {
    async fn of(store: Store) -> Store {
        store
    }
}

impl Fixture for TestApp {
    async fn of(store: Store) -> TestApp {
        TestApp::open(&store, &[]).await
    }
}

pub async fn run<F: Fixture>(store: Store, test: impl AsyncFnOnce(F)) {
    test(F::of(store.clone()).await).await;
    store.discard().await;
}

/// The product in one piece, with a clock that a test can move.
pub struct TestApp {
    pub app: Product,
    pub store: Store,
    pub clock: Clock,
    gate: Gate,
}

#[derive(Parser)]
struct Settings {
    #[command(flatten)]
    config: Config,
}

/// Settings as the command line would read them, with few connections.
pub fn config(store: &Store, settings: &[&str]) -> Config {
    let given = |flag: &str| settings.iter().any(|setting| setting.split('=').next() == Some(flag));
    let mut all = vec!["posthorn".to_owned(), format!("--database-url={}", store.url())];
    for (flag, value) in [("--base-url", BASE), ("--readers", "1"), ("--writers", "2")] {
        if !given(flag) {
            all.push(format!("{flag}={value}"));
        }
    }
    all.extend(settings.iter().map(|&setting| setting.to_owned()));
    Settings::try_parse_from(all).expect("settings that parse").config
}

impl TestApp {
    /// A process on this store. Several may share one.
    pub async fn open(store: &Store, settings: &[&str]) -> TestApp {
        store.migrate().await;
        let config = config(store, settings);
        let db = Db::open(&config.store()).await.expect("a store that opens");
        let clock = Clock::fixed(NOW);
        let metrics = PrometheusBuilder::new().build_recorder().handle();
        let listening: SocketAddr = "127.0.0.1:8080".parse().expect("an address");
        let addresses = serve::addresses(&config, listening).expect("addresses");
        let seal = Seal::of(&config).expect("a key");
        let app = Product::new(App::new(config, addresses, db, clock.clone(), metrics, seal));
        TestApp { gate: app.gate(), app, store: store.clone(), clock }
    }

    /// The same process behind other routes.
    pub fn before(self, main: axum::Router) -> TestApp {
        TestApp { gate: Gate::before(App::clone(&self.app), main), ..self }
    }

    /// The id of the first workspace, which is made if need be.
    pub async fn workspace(&self) -> WorkspaceId {
        let all = accounts::workspaces(&self.app.db).await.expect("workspaces");
        // The oldest, where somebody has given it another name.
        match all.iter().find(|workspace| workspace.name == "Default").or(all.first()) {
            Some(workspace) => workspace.id,
            None => {
                let made = accounts::only_workspace(&self.app.db, &self.clock).await.expect("a workspace");
                made.expect("the only one").id
            }
        }
    }

    pub async fn key(&self, permission: Permission) -> NewKey {
        let workspace = self.workspace().await;
        self.key_of(workspace, permission).await
    }

    async fn key_of(&self, workspace: WorkspaceId, permission: Permission) -> NewKey {
        let key = NewKey::make(&self.clock, workspace, "a key", permission);
        self.app.db.commit(credentials::insert_key(&key)).await.expect("a stored key");
        key
    }

    /// The secret of a new key that may do everything.
    pub async fn full_key(&self) -> String {
        self.key(Permission::FullAccess).await.secret
    }

    /// A key of somebody else.
    pub async fn second_workspace_key(&self) -> String {
        self.workspace().await;
        let id: WorkspaceId = self.clock.ordered_id();
        let row = self.store.id(id);
        self.store.run(&format!("INSERT INTO workspaces (id, name, created_at) VALUES ({row}, 'Other', 0)")).await;
        self.key_of(id, Permission::FullAccess).await.secret
    }

    pub async fn delete_key(&self, id: ApiKeyId) {
        self.app.db.commit(credentials::delete_key(id)).await.expect("a deleted key");
    }

    /// Registers a client as an administrator does, and tells its id.
    pub async fn client(&self, metadata: Value) -> String {
        let registration = Registration::parse(&metadata, Origin::Administrator).expect("metadata that is allowed");
        let client = registration.into_client(self.clock.ordered_id::<uuid::Uuid>().to_string(), self.clock.now());
        self.app.db.commit(oauth::insert_client(&client, "operator", None)).await.expect("a stored client");
        client.id
    }

    /// A client with one redirect URI and everything else by default.
    pub async fn client_for(&self, redirect_uri: &str) -> String {
        self.client(json!({"client_name": "App", "redirect_uris": [redirect_uri]})).await
    }

    pub async fn delete_client(&self, id: &str) {
        self.app.db.commit(oauth::delete_client(id, &self.clock)).await.expect("a deleted client");
    }

    pub async fn count(&self, table: &str) -> i64 {
        self.store.count(table).await
    }

    /// What the audit log was told of all that no command did, oldest first.
    pub async fn told(&self) -> Vec<String> {
        let rows = self.store.rows("SELECT action FROM audit_log WHERE via <> 'command' ORDER BY id").await;
        rows.into_iter().flatten().flatten().collect()
    }

    /// Fails unless these are what the audit log was told last, the newest behind.
    pub async fn assert_told(&self, actions: &[&str]) {
        let told = self.told().await;
        assert_eq!(told[told.len().saturating_sub(actions.len())..], *actions, "of {told:?}");
    }

    pub fn request(&self, method: &str, target: impl AsRef<[u8]>) -> Req<'_> {
        Req {
            app: self,
            method: method.parse().expect("a method"),
            target: target.as_ref().to_vec(),
            headers: HeaderMap::new(),
            body: Body::empty(),
            repeatable: Some(Bytes::new()),
            from: IpAddr::from([127, 0, 0, 1]),
        }
    }

    pub fn get(&self, target: impl AsRef<[u8]>) -> Req<'_> {
        self.request("GET", target)
    }

    pub fn post(&self, target: impl AsRef<[u8]>) -> Req<'_> {
        self.request("POST", target)
    }

    pub fn patch(&self, target: impl AsRef<[u8]>) -> Req<'_> {
        self.request("PATCH", target)
    }

    pub fn delete(&self, target: impl AsRef<[u8]>) -> Req<'_> {
        self.request("DELETE", target)
    }

    /// Defines an event and tells its id.
    pub async fn event(&self, key: &str, body: Value) -> String {
        let answer = self.post("/events").key(key).json(body).send().await;
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer.json()["id"].as_str().expect("an id").to_owned()
    }
}

/// A request in the making.
pub struct Req<'a> {
    app: &'a TestApp,
    method: Method,
    target: Vec<u8>,
    headers: HeaderMap,
    body: Body,
    /// The body once more, unless it is a stream.
    repeatable: Option<Bytes>,
    from: IpAddr,
}

impl Req<'_> {
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let name: HeaderName = name.parse().expect("a header's name");
        self.headers.append(name, HeaderValue::from_bytes(value.as_ref()).expect("a header's value"));
        self
    }

    pub fn key(self, secret: &str) -> Self {
        self.header("authorization", format!("Bearer {secret}"))
    }

    pub fn json(self, body: Value) -> Self {
        self.body("application/json", body.to_string())
    }

    /// A body with its label and its length.
    pub fn body(mut self, label: &str, body: impl Into<Bytes>) -> Self {
        let body: Bytes = body.into();
        self = self.header("content-type", label).header("content-length", body.len().to_string());
        self.repeatable = Some(body.clone());
        self.body = Body::from(body);
        self
    }

    /// A body of which nothing is said: no length, no kind.
    pub fn stream(mut self, body: impl Into<Bytes>) -> Self {
        let chunks: Vec<Result<Bytes, std::io::Error>> =
            body.into().chunks(64 << 10).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        self.repeatable = None;
        self.body = Body::from_stream(futures_util::stream::iter(chunks));
        self
    }

    pub fn from(mut self, address: &str) -> Self {
        self.from = address.parse().expect("an address");
        self
    }

    /// Sends it. A page of the dashboard may be asked for without its workspace: it is
    /// answered as the browser sees it that follows the way to it, and the answer speaks of
    /// places without the workspace, too.
    pub async fn send(mut self) -> Answer {
        let (app, from) = (self.app, self.from);
        let (method, headers, again) = (self.method.clone(), self.headers.clone(), self.repeatable.take());
        let answer = self.send_once().await;
        let Some((body, place)) = again.filter(|_| answer.status == 307).zip(answer.header("location")) else {
            return answer;
        };
        let Some(workspace) = place.split_once("/w/").map(|(_, rest)| rest.get(..36).unwrap_or(rest)) else {
            return answer;
        };
        let named = format!("/w/{workspace}");
        let target = place.as_bytes().to_vec();
        let request = Req { app, method, target, headers, body: Body::from(body), repeatable: None, from };
        request.send_once().await.without(&named)
    }

    /// Sends it, and follows nothing.
    pub async fn send_once(self) -> Answer {
        let uri = Uri::from_maybe_shared(Bytes::from(self.target)).expect("a target that HTTP can carry");
        let mut request = Request::new(self.body);
        *request.method_mut() = self.method;
        *request.uri_mut() = uri;
        *request.headers_mut() = self.headers;
        let response = self.app.gate.handle(request, self.from).await;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.expect("a body that ends").to_bytes();
        Answer { status: parts.status.as_u16(), headers: parts.headers, body }
    }
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    /// The answer, with addresses that do not name this place.
    fn without(mut self, place: &str) -> Answer {
        if let Some(location) = self.header("location").map(|location| location.replace(place, "")) {
            self.headers.insert("location", location.parse().expect("a header's value"));
        }
        let is_page = self.header("content-type").is_some_and(|kind| kind.starts_with("text/html"));
        if is_page && let Ok(text) = str::from_utf8(&self.body) {
            self.body = text.replace(place, "").into();
        }
        self
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("a header in ASCII"))
    }

    /// The `Location`, as the raw string it is.
    pub fn location(&self) -> &str {
        self.header("location").unwrap_or_else(|| panic!("no Location: {} {}", self.status, self.text()))
    }

    /// Asserts an error of the API, in the envelope and nothing but, and gives
    /// its message.
    pub fn refused(&self, status: u16, name: &str) -> String {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/json"));
        let body = self.json();
        let keys: Vec<&String> = body.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["statusCode", "name", "message"]);
        assert_eq!((&body["statusCode"], &body["name"]), (&json!(status), &json!(name)), "{body}");
        body["message"].as_str().expect("a message").to_owned()
    }

    /// Asserts an error of the OAuth endpoints, and gives its description.
    pub fn oauth_refused(&self, status: u16, error: &str) -> String {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/json"));
        assert_eq!(self.header("cache-control"), Some("no-store"));
        assert_eq!(self.header("pragma"), Some("no-cache"));
        assert_eq!(self.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(self.header("x-content-type-options"), Some("nosniff"));
        let body = self.json();
        let keys: Vec<&String> = body.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["error", "error_description"]);
        assert_eq!(body["error"], error, "{body}");
        let text = body["error_description"].as_str().expect("a description").to_owned();
        let allowed = |byte: u8| matches!(byte, 0x20..=0x7e) && byte != b'"' && byte != b'\\';
        assert!(text.bytes().all(allowed), "{text:?}");
        text
    }
}
