//! A whole Posthorn for tests that need the inside of the code they test. Those
//! that do not are in `tests/`.

use axum::body::Body;
use bytes::Bytes;
use clap::Parser;
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use metrics_exporter_prometheus::PrometheusBuilder;
use tempfile::TempDir;

use crate::accounts::{self, Role};
use crate::app::App;
use crate::auth;
use crate::clock::Clock;
use crate::config::Config;
use crate::db::Db;
use crate::id::UserId;
use crate::product::Product;
use crate::seal::Seal;
use crate::serve;

/// 2026-01-02T03:04:05.678901Z.
pub const NOW: i64 = 1_767_323_045_678_901;

pub const EMAIL: &str = "owner@example.com";
pub const PASSWORD: &str = "correct horse battery";

/// A store of one test's own.
pub struct Store {
    url: String,
    folder: Option<TempDir>,
}

impl Store {
    /// One of SQLite and one of the PostgreSQL that `./test` provides.
    pub async fn each() -> Vec<Store> {
        let folder = TempDir::new().expect("a temporary folder");
        let mut all = vec![Store {
            url: format!("sqlite:{}", folder.path().join("posthorn.db").display()),
            folder: Some(folder),
        }];
        let admin = std::env::var("POSTHORN_TEST_POSTGRES").expect("run ./test: it provides a PostgreSQL");
        let name = format!("inside_{}", crate::secret::letters(16).to_lowercase());
        administer(&admin, &format!("CREATE DATABASE {name}")).await;
        let (address, query) = admin.split_once('?').unwrap_or((&admin, ""));
        let server = address.rsplit_once('/').expect("an address with a database").0;
        all.push(Store { url: format!("{server}/{name}?{query}"), folder: None });
        all
    }

    pub async fn discard(self) {
        if self.folder.is_none() {
            let name = self.url.rsplit_once('/').and_then(|(_, name)| name.split('?').next()).expect("a database");
            let admin = std::env::var("POSTHORN_TEST_POSTGRES").expect("a server");
            administer(&admin, &format!("DROP DATABASE {name} WITH (FORCE)")).await;
        }
    }

    /// A process on this store. Several may share one.
    pub async fn open(&self, settings: &[&str], clock: Clock) -> Product {
        let mut all = vec!["posthorn".to_owned(), format!("--database-url={}", self.url)];
        all.extend(["--readers=1", "--writers=2"].map(str::to_owned));
        all.extend(settings.iter().map(|&setting| setting.to_owned()));
        let config = Settings::try_parse_from(all).expect("settings that parse").config;
        let db = Db::open(&config.store()).await.expect("a store that opens");
        let addresses = serve::addresses(&config, config.listen).expect("addresses");
        let metrics = PrometheusBuilder::new().build_recorder().handle();
        let seal = Seal::of(&config).expect("a key");
        Product::new(App::new(config, addresses, db, clock, metrics, seal))
    }
}

async fn administer(url: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("a server");
    tokio::spawn(connection);
    client.batch_execute(sql).await.expect(sql);
}

#[derive(Parser)]
struct Settings {
    #[command(flatten)]
    config: Config,
}

/// The owner of the first workspace, and the cookie of a session.
pub async fn owner(app: &App) -> (UserId, String) {
    let workspace = accounts::only_workspace(&app.db, &app.clock).await.expect("a workspace").expect("the only one");
    let email = EMAIL.parse().expect("an address");
    let (user, batch) = accounts::new_user(&app.clock, &email, &auth::hash_password(PASSWORD), &workspace, Role::Owner);
    accounts::create_user(&app.db, batch).await.expect("a user");
    let (stmt, cookie) = auth::start_session(app, user.id);
    app.db.commit(stmt).await.expect("a session");
    let cookie = cookie.to_str().expect("text").split(';').next().unwrap_or_default().to_owned();
    (user.id, cookie)
}

pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub fn location(&self) -> String {
        let location = self.headers.get("location").unwrap_or_else(|| panic!("{} {}", self.status, self.text()));
        location.to_str().expect("text").to_owned()
    }
}

/// Sends a request through the gate; `form` is the body of a form, if any. A page whose
/// address does not name the workspace is that of the only one.
pub async fn send(app: &Product, method: &str, target: &str, headers: &[(&str, &str)], form: Option<String>) -> Answer {
    let answer = send_once(app, method, target, headers, form.clone()).await;
    if answer.status != 307 || !answer.location().contains("/w/") {
        return answer;
    }
    send_once(app, method, &answer.location(), headers, form).await
}

async fn send_once(
    app: &Product,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    form: Option<String>,
) -> Answer {
    let mut request = Request::builder().method(method).uri(target);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    if form.is_some() {
        request = request.header("content-type", "application/x-www-form-urlencoded");
    }
    let request = request.body(form.map_or(Body::empty(), Body::from)).expect("a request");
    let response = app.gate().handle(request, [127, 0, 0, 1].into()).await;
    let (parts, body) = response.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    Answer { status: parts.status.as_u16(), headers: parts.headers, body }
}
