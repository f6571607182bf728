//! The empty handler: the product's own server, gate and log, and behind them
//! nothing but the answer. What it costs is what HTTP costs.

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use clap::Parser;
use http::StatusCode;
use http::header::{CONTENT_TYPE, LOCATION};

use posthorn::app::App;
use posthorn::config::Config;
use posthorn::web::Gate;
use posthorn::{cli, log, serve};

/// The first argument that turns the benchmark into a server.
pub const MODE: &str = "serve-empty";

#[derive(Parser)]
struct Settings {
    #[command(flatten)]
    config: Config,
}

/// Serves until it is told to stop.
pub fn serve() -> anyhow::Result<()> {
    let config = Settings::parse_from(std::env::args().skip(1)).config;
    let routes = || {
        Router::new()
            .route("/events", post(created).get(listed))
            .route("/events/send", post(accepted))
            .route("/emails", post(queued))
            .route("/oauth/authorize", get(found))
            .route("/oauth/token", post(refreshed))
            .route("/t/image/{token}", get(pictured))
            .route("/t/link/{token}", get(found))
    };
    cli::block_on(async {
        let _log = log::start(&config)?;
        serve::serve_behind(config, |product| Gate::before(App::clone(product), routes())).await
    })
}

async fn created(_body: Bytes) -> Response {
    let body = r#"{"object":"event","id":"01890a5d-ac96-774b-bcce-b302099a8057"}"#;
    (StatusCode::CREATED, [(CONTENT_TYPE, "application/json")], body).into_response()
}

async fn accepted(_body: Bytes) -> Response {
    let body = r#"{"object":"event","event":"order.placed","id":"01890a5d-ac96-774b-bcce-b302099a8057"}"#;
    (StatusCode::ACCEPTED, [(CONTENT_TYPE, "application/json")], body).into_response()
}

async fn queued(_body: Bytes) -> Response {
    ([(CONTENT_TYPE, "application/json")], r#"{"id":"01890a5d-ac96-774b-bcce-b302099a8057"}"#).into_response()
}

async fn listed() -> Response {
    ([(CONTENT_TYPE, "application/json")], r#"{"object":"list","has_more":false,"data":[]}"#).into_response()
}

async fn refreshed(_body: Bytes) -> Response {
    ([(CONTENT_TYPE, "application/json")], r#"{"token_type":"Bearer","expires_in":900}"#).into_response()
}

async fn pictured() -> Response {
    ([(CONTENT_TYPE, "image/gif")], &[0_u8; 43][..]).into_response()
}

async fn found() -> Response {
    let to = "http://127.0.0.1/dashboard/oauth/authorize/01890a5d-ac96-774b-bcce-b302099a8057";
    (StatusCode::FOUND, [(LOCATION, to)]).into_response()
}
