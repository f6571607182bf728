//! The one route of the protocol: who may use it, and how much at once.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRequestParts, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::HeaderValue;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, WWW_AUTHENTICATE};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::sync::Semaphore;

use super::server::Assistants;
use super::session::{Asker, SESSION};
use super::tool::Tools;
use crate::app::{Addresses, App, holds_app};
use crate::auth::{Caller, FullAccess};
use crate::error::Error;
use crate::memory::Lazily;
use crate::web;

const PATH: &str = "/mcp";

/// Assistants write little; what is larger goes through the API.
const BODY_LIMIT: usize = 256 << 10;

/// How many requests are answered at once, and how long the next ones wait for their turn.
const AT_ONCE: usize = 16;
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone)]
struct Mcp {
    app: App,
    service: StreamableHttpService<Assistants, NeverSessionManager>,
    turns: Arc<Semaphore>,
}

holds_app!(Mcp { app: App });

/// The endpoint before the API behind `api`, with these tools.
pub fn routes(app: App, api: Router, tools: Lazily<Tools>) -> Router {
    let assistants = Assistants::new(app.clone(), api, tools);
    let service = StreamableHttpService::new(
        move || Ok(assistants.clone()),
        Arc::new(NeverSessionManager::default()),
        settings(&app.addresses),
    );
    let mcp = Mcp { app, service, turns: Arc::new(Semaphore::new(AT_ONCE)) };
    Router::new().route(PATH, post(serve)).with_state(mcp)
}

/// Any process answers any request, each by itself: sessions are ours ([`Asker`]), not the library's, which would
/// keep each of them in memory. A page that was led here by a name that
/// points at us (DNS rebinding) names another host than ours, or comes from another origin.
fn settings(addresses: &Addresses) -> StreamableHttpServerConfig {
    let Addresses { base, dashboard } = addresses;
    let ours = [base.authority(), dashboard.authority(), "localhost", "127.0.0.1", "[::1]"];
    let origins = [base.origin(), dashboard.origin(), "http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];
    StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(BODY_LIMIT)
        .with_allowed_hosts(ours)
        .with_allowed_origins(origins.map(with_port))
}

/// An origin with its port: one without would stand for every port.
fn with_port(origin: &str) -> String {
    let authority = origin.split_once("://").map_or(origin, |(_, authority)| authority);
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
    match has_port {
        true => origin.to_owned(),
        false if origin.starts_with("https:") => format!("{origin}:443"),
        false => format!("{origin}:80"),
    }
}

async fn serve(State(mcp): State<Mcp>, request: Request) -> Response {
    let mut response = match mcp.answer(request).await {
        Ok(response) => response,
        Err(error) => mcp.refusal(error),
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

impl Mcp {
    async fn answer(&self, request: Request) -> Result<Response, Error> {
        let (mut parts, body) = request.into_parts();
        let caller = Caller::<FullAccess>::from_request_parts(&mut parts, self).await?;
        caller.confirm().await?;
        let labelled = Request::from_parts(parts.clone(), body);
        let body = web::read_json(&self.app, labelled, BODY_LIMIT).await?.unwrap_or_default().to_string();
        parts.headers.remove(CONTENT_LENGTH);
        let asker = Asker::new(caller, &parts.headers);
        parts.extensions.insert(asker.clone());
        let served = async {
            let turn = tokio::time::timeout(PATIENCE, self.turns.acquire()).await;
            let Ok(Ok(_turn)) = turn else { return Err(Error::Unavailable) };
            let answered = Box::pin(self.service.handle(Request::from_parts(parts, Body::from(body))));
            let mut response = answered.await.map(Body::new);
            if let Some(Ok(session)) = asker.begun().map(|id| HeaderValue::try_from(id.to_string())) {
                response.headers_mut().insert(SESSION, session);
            }
            Ok(response)
        };
        // A call may wait for a turn of its own: it does not do so behind this request's.
        self.app.admission.outside(served).await?
    }

    /// A refusal that leads a host on: to where it gets a token, and to the scope to ask for.
    fn refusal(&self, error: Error) -> Response {
        let mut response = error.into_response();
        let Some(challenge) = response.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok()) else {
            return response;
        };
        let whole = match challenge.contains("error=") {
            true => format!("{challenge}, resource_metadata=\"{}{PATH}\"", self.app.addresses.resource_metadata()),
            false => format!("Bearer resource_metadata=\"{}{PATH}\"", self.app.addresses.resource_metadata()),
        };
        let whole = if whole.contains("scope=") { whole } else { format!("{whole}, scope=\"full_access\"") };
        if let Ok(value) = HeaderValue::from_str(&whole) {
            response.headers_mut().insert(WWW_AUTHENTICATE, value);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_stands_for_one_port() {
        assert_eq!(with_port("https://posthorn.example"), "https://posthorn.example:443");
        assert_eq!(with_port("http://[::1]"), "http://[::1]:80");
        assert_eq!(with_port("http://[::1]:*"), "http://[::1]:*");
        assert_eq!(with_port("http://127.0.0.1:8080"), "http://127.0.0.1:8080");
    }
}
