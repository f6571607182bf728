//! The page at the root of the API.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;

use crate::app::App;
use crate::docs::Call;
use crate::error::Error;
use crate::web::{self, Layout};
use crate::{accounts, events};

#[derive(Template)]
#[template(path = "home/welcome.html")]
struct WelcomePage {
    layout: Layout,
    base_url: String,
    version: String,
    docs_url: String,
    awaiting_setup: bool,
    example: Call,
    doors: Vec<Door>,
}

struct Door {
    href: String,
    label: String,
    text: String,
}

pub async fn show(State(app): State<App>) -> Result<Response, Error> {
    let base = app.addresses.base.as_str();
    let door = |path: &str, label: &str, text: &str| Door {
        href: format!("{base}{path}"),
        label: label.into(),
        text: text.into(),
    };
    let content = WelcomePage {
        layout: Layout::beside_api(&app),
        base_url: base.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        docs_url: format!("{base}/docs"),
        awaiting_setup: !accounts::any_user(&app.db).await?,
        example: events::defining_as_code(&app),
        doors: vec![
            door("/openapi.json", "OpenAPI description", "The whole API, for generators and tests"),
            door("/.well-known/oauth-authorization-server", "OAuth metadata", "Where clients find the endpoints"),
            door("/healthz", "Health", "Whether the process lives"),
            door("/readyz", "Readiness", "Whether the store takes writes"),
            door("/metrics", "Metrics", "For Prometheus"),
        ],
    };
    Ok(web::page(StatusCode::OK, &content))
}
