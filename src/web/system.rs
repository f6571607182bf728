//! For those who run it: is it alive, is it ready, what does it do; and for
//! those who program against it: the API's description.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::Mutex;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::assets;
use super::compression::StaticContent;
use crate::app::{App, holds_app};
use crate::clock::rfc3339;
use crate::db::{Db, DbError, Sql, statements};
use crate::error::{Envelope, Error};
use crate::hold::Hold;
use crate::memory::Lazily;

statements! {
    /// A write that means nothing to anybody. It changes a row all the same: a
    /// transaction without a change succeeds on a full disk, too.
    PROBE = Sql::both(
        "INSERT INTO revisions (topic, number) VALUES ('probe', 1)
         ON CONFLICT (topic) DO UPDATE SET number = revisions.number + 1");
}

/// The paths that tell operators how it goes, below the API's own.
const FOR_OPERATORS: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// Whether a path is for operators; `base` is the path of the API's address.
pub fn is_for_operators(path: &str, base: &str) -> bool {
    path.strip_prefix(base).is_some_and(|rest| FOR_OPERATORS.contains(&rest))
}

/// Whether the store takes writes, as it was last found. Anybody may ask, so one
/// probe is under way at a time, and all who asked before it began share what it
/// finds.
#[derive(Default)]
struct Probes(Mutex<Option<(Instant, Result<(), DbError>)>>);

impl Probes {
    async fn probe(&self, db: &Db) -> Result<(), DbError> {
        let asked = Instant::now();
        let mut last = self.0.lock().await;
        match &*last {
            Some((began, found)) if *began >= asked => found.clone(),
            _ => {
                let began = Instant::now();
                let found = db.commit(PROBE.with([])).await.map(drop);
                *last = Some((began, found.clone()));
                found
            }
        }
    }
}

/// What these routes need. Clones share it.
#[derive(Clone)]
pub struct System {
    app: App,
    probes: Arc<Probes>,
}

impl System {
    pub fn new(app: App) -> System {
        System { app, probes: Arc::default() }
    }
}

holds_app!(System { app: App });

/// The routes that are part of the API's description.
pub fn routes() -> OpenApiRouter<System> {
    OpenApiRouter::new().routes(routes!(healthz)).routes(routes!(readyz)).routes(routes!(metrics))
}

/// The API's description as it is shown to programs. It does not change while the server runs.
pub struct ShownDescription {
    json: StaticContent,
}

impl ShownDescription {
    /// `document` is the description as JSON.
    pub fn new(document: &Value) -> ShownDescription {
        ShownDescription { json: StaticContent::new(document.to_string()) }
    }

    /// Read anew from its text: kept, it would take several times as much memory.
    pub fn document(&self) -> Value {
        serde_json::from_slice(self.json.plain()).unwrap_or_default()
    }
}

/// The route that shows the description, and the assets of the pages beside the API.
pub fn described(shown: Lazily<ShownDescription>) -> Router {
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-cache")];
    let openapi =
        move |asked: HeaderMap| async move { shown.get().json.answer(&asked, |json| (headers, json).into_response()) };
    Router::new().route("/openapi.json", get(openapi)).merge(assets::router())
}

/// Ask whether the process lives
///
/// Answers without touching the store: a failure means that the process should be restarted.
#[utoipa::path(
    get, path = "/healthz", tag = "System", operation_id = "healthz",
    responses((status = 200, description = "It is.", body = Health)),
    security(()),
)]
async fn healthz() -> Response {
    ([(CACHE_CONTROL, "no-store")], Json(Health { status: "ok" })).into_response()
}

/// Ask whether the store takes writes
///
/// Commits a write that means nothing: a failure means that requests should go elsewhere for now.
#[utoipa::path(
    get, path = "/readyz", tag = "System", operation_id = "readyz",
    responses(
        (status = 200, description = "It does.", body = Readiness),
        (status = 500, description = "A defect on our side.", body = Envelope),
        (status = 503, description = "It does not.", body = Envelope,
            headers(("retry-after" = u32, description = "Seconds after which to try again."))),
    ),
    security(()),
)]
async fn readyz(State(System { app, probes }): State<System>) -> Result<Response, Error> {
    probes.probe(&app.db).await?;
    let held_since = Hold::find(&app.db).await?.map(|held| rfc3339(held.since));
    let body = Readiness { status: "ok", store: app.db.engine_name(), held_since };
    Ok(([(CACHE_CONTROL, "no-store")], Json(body)).into_response())
}

/// Read the metrics
///
/// Counters and durations in the text format of Prometheus.
#[utoipa::path(
    get, path = "/metrics", tag = "System", operation_id = "metrics",
    responses((status = 200, description = "The metrics of this process.", body = String, content_type = "text/plain")),
    security(()),
)]
async fn metrics(State(app): State<App>) -> Response {
    metrics::gauge!("posthorn_writes_waiting").set(app.db.waiting() as f64);
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], app.metrics.render()).into_response()
}

/// The process lives.
#[derive(Serialize, ToSchema)]
pub struct Health {
    #[schema(pattern = "^ok$")]
    status: &'static str,
}

/// The store takes writes.
#[derive(Serialize, ToSchema)]
pub struct Readiness {
    #[schema(pattern = "^ok$")]
    status: &'static str,
    /// The engine that keeps the data.
    #[schema(pattern = "^(sqlite|postgres)$", example = "sqlite")]
    store: &'static str,
    /// There only while the store is on hold: nothing is sent and no timer fires since then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    held_since: Option<String>,
}
