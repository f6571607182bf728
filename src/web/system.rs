//! For those who run it: is it alive, is it ready, what does it do; and for
//! those who program against it: the API's description and the page at the root.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use utoipa::openapi::OpenApi;

use super::{assets, docs, layout};
use crate::app::App;
use crate::db::{Sql, statements};
use crate::error::Error;

statements! {
    /// A write that changes nothing for anybody, to see whether writes succeed.
    PROBE = Sql::both("UPDATE revisions SET number = number WHERE topic = 'probe'");
}

pub fn router(description: OpenApi) -> Router<App> {
    let description = Arc::new(docs::finished(description));
    let json: Arc<str> = description.to_json().unwrap_or_default().into();
    let openapi = move || {
        let json = json.clone();
        async move { ([(CONTENT_TYPE, "application/json")], json.to_string()) }
    };
    let page = move |State(app): State<App>| {
        let description = description.clone();
        async move { docs::page(&app, &description) }
    };
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/openapi.json", get(openapi))
        .route("/docs", get(page))
        .route("/", get(welcome))
        .merge(assets::router())
}

/// The process lives.
async fn healthz() -> Response {
    ([(CACHE_CONTROL, "no-store")], axum::Json(serde_json::json!({"status": "ok"}))).into_response()
}

/// The store takes writes.
async fn readyz(State(app): State<App>) -> Result<Response, Error> {
    app.db.commit(PROBE.with([])).await?;
    let body = serde_json::json!({"status": "ok", "store": app.db.engine_name()});
    Ok(([(CACHE_CONTROL, "no-store")], axum::Json(body)).into_response())
}

async fn metrics(State(app): State<App>) -> Response {
    metrics::gauge!("posthorn_writes_waiting").set(app.db.waiting() as f64);
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], app.metrics.render()).into_response()
}

async fn welcome(State(app): State<App>) -> Response {
    layout::welcome(&app).await.unwrap_or_else(IntoResponse::into_response)
}
