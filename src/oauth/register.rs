//! `POST /oauth/register`: dynamic client registration (RFC 7591).

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::Value;

use super::answer::{self, OAuthError};
use super::refusal::{ErrorCode, Refusal};
use super::registration::{self, Origin, Registration};
use super::store;
use crate::app::App;
use crate::config::Registration as Mode;
use crate::error::Error;
use crate::secret;
use crate::web::gate::Sender;
use crate::web::input;

/// Client metadata is small.
const LIMIT: usize = 16 << 10;

/// Register a client
///
/// Dynamic client registration (RFC 7591). `https` redirect URIs are free, `http` only for loopback hosts, private-use
/// schemes except those that run scripts.
#[utoipa::path(
    post, path = "/oauth/register", tag = "OAuth", operation_id = "register_client",
    request_body(content = ClientMetadata, content_type = "application/json"),
    responses(
        (status = 201, description = "The client exists; the answer repeats what is in force.", body = RegisteredClient),
        (status = "4XX", description = "Nothing was stored; the description says why.", body = OAuthError),
        (status = 503, description = "The store is unavailable; nothing was stored.", body = OAuthError),
    ),
    security(()),
)]
pub async fn register(
    State(app): State<App>,
    Extension(Sender(sender)): Extension<Sender>,
    request: Request,
) -> Response {
    let registered = async {
        app.limits.register.check(sender).map_err(answer::failed)?;
        admit(&app, request.headers())?;
        let metadata = metadata(request).await?;
        let registration = Registration::parse(&metadata, Origin::Open)
            .map_err(|refusal| answer::refused(StatusCode::BAD_REQUEST, &refusal))?;
        store_client(&app, registration).await.map_err(answer::failed)
    };
    answer::readable_by_pages(registered.await.unwrap_or_else(|refused| refused))
}

fn admit(app: &App, headers: &HeaderMap) -> Result<(), Response> {
    let gate = match (app.config.registration, &app.config.registration_token) {
        (Mode::Open, _) => return Ok(()),
        (Mode::Token, Some(token)) => token,
        _ => return Err(answer::failed(Error::not_found("Registration is switched off"))),
    };
    let shown = headers.get(AUTHORIZATION).and_then(|header| header.to_str().ok()?.strip_prefix("Bearer "));
    let shown = shown.unwrap_or_default();
    if secret::equal(&secret::hash(shown), &secret::hash(gate)) {
        return Ok(());
    }
    let refusal = Refusal::new(ErrorCode::InvalidClient, "Registration needs the operator's token as a bearer token");
    let mut response = answer::refused(StatusCode::UNAUTHORIZED, &refusal);
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    Err(response)
}

async fn metadata(request: Request) -> Result<Value, Response> {
    let bad = |code, text: &'static str| answer::refused(StatusCode::BAD_REQUEST, &Refusal::new(code, text));
    let (parts, body) = request.into_parts();
    let bytes = input::read(&parts.headers, body, LIMIT).await.map_err(answer::failed)?;
    if !bytes.is_empty() && !input::is_json(&parts.headers) {
        return Err(bad(ErrorCode::InvalidRequest, "The body must be JSON, sent with Content-Type: application/json"));
    }
    serde_json::from_slice(&bytes)
        .map_err(|_| bad(ErrorCode::InvalidRequest, "The body must be a JSON object of client metadata"))
}

async fn store_client(app: &App, registration: Registration) -> Result<Response, Error> {
    let client = registration.into_client(app.clock.ordered_id(), app.clock.now());
    let secret = client.auth_method.has_secret().then(secret::token);
    let hash = secret.as_deref().map(secret::hash);
    app.db.commit(store::insert_client(&client, "open", hash.as_ref())).await?;
    let body = registration::response(&client, secret.as_deref());
    let mut response = (StatusCode::CREATED, axum::Json(body)).into_response();
    answer::keep_private(response.headers_mut());
    Ok(response)
}

/// What a client says of itself.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "describes the body to readers of the API's description")]
pub struct ClientMetadata {
    #[schema(min_length = 1, max_length = 200, example = "Acme Mailer")]
    client_name: String,
    #[schema(min_items = 1, max_items = 10, example = json!(["http://127.0.0.1/callback"]))]
    redirect_uris: Vec<String>,
    grant_types: Option<Vec<String>>,
    response_types: Option<Vec<String>>,
    scope: Option<String>,
    token_endpoint_auth_method: Option<String>,
    client_uri: Option<String>,
    logo_uri: Option<String>,
}

/// What is in force.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "describes the answer to readers of the API's description")]
pub struct RegisteredClient {
    #[schema(format = Uuid)]
    client_id: String,
    client_id_issued_at: i64,
    /// Shown this once, and only to a client that authenticates with a secret.
    #[schema(nullable = false)]
    client_secret: Option<String>,
    #[schema(nullable = false)]
    client_secret_expires_at: Option<i64>,
    client_name: String,
    redirect_uris: Vec<String>,
    grant_types: Vec<String>,
    response_types: Vec<String>,
    scope: String,
    token_endpoint_auth_method: String,
    #[schema(nullable = false)]
    client_uri: Option<String>,
    #[schema(nullable = false)]
    logo_uri: Option<String>,
}
