//! `POST /oauth/register`: dynamic client registration (RFC 7591).

use axum::Extension;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::Value;
use uuid::Uuid;

use super::registration::{Origin, RegisteredClient, Registration};
use super::store;
use crate::config::Registration as Mode;
use crate::error::Error;
use crate::oauth::OAuth;
use crate::oauth::answer::{self, BODY_LIMIT, OAuthError};
use crate::oauth::refusal::{ErrorCode, Refusal};
use crate::secret;
use crate::web::{self, Sender};

const SWITCHED_OFF: &str = "Registration is switched off";
const TOKEN_WANTED: &str = "Registration needs the operator's token as a bearer token";

/// Register a client
///
/// Dynamic client registration (RFC 7591). `https` redirect URIs are free, `http` only for loopback hosts, private-use
/// schemes except those that run scripts.
///
/// Open to everybody unless the operator asks for a token or has switched it off.
#[utoipa::path(
    post, path = "/oauth/register", tag = "OAuth", operation_id = "register_client",
    request_body(content = ClientMetadata, content_type = "application/json"),
    responses(
        (status = 201, description = "The client exists; the answer repeats what is in force.", body = RegisteredClient),
        (status = 400, description = "A field is missing or breaks a rule; the description names it.", body = OAuthError,
            example = json!({"error": "invalid_redirect_uri", "error_description":
                "redirect_uris[0] has a fragment; remove the # and what follows it"})),
        (status = 401, description = "The operator asks for a token, and this is not it.", body = OAuthError,
            headers(("www-authenticate" = String, description = "Always `Bearer`.")),
            example = json!({"error": "invalid_client", "error_description": TOKEN_WANTED})),
        (status = 404, description = "The operator has switched registration off.", body = OAuthError,
            example = json!({"error": "invalid_request", "error_description": SWITCHED_OFF})),
        answer::Failures, answer::BodyFailures,
    ),
    security(()),
)]
pub async fn register(
    State(app): State<OAuth>,
    Extension(Sender(sender)): Extension<Sender>,
    request: Request,
) -> Response {
    let registered = async {
        app.limits.register.check(sender).map_err(answer::failed)?;
        admit(&app, request.headers()).map_err(|refused| *refused)?;
        let metadata = metadata(request).await?;
        let registration = Registration::parse(&metadata, Origin::Open)
            .map_err(|refusal| answer::refused(StatusCode::BAD_REQUEST, &refusal))?;
        store_client(&app, registration).await.map_err(answer::failed)
    };
    answer::readable_by_pages(registered.await.unwrap_or_else(|refused| refused))
}

fn admit(app: &OAuth, headers: &HeaderMap) -> Result<(), Box<Response>> {
    let gate = match (app.config.registration, &app.config.registration_token) {
        (Mode::Open, _) => return Ok(()),
        (Mode::Token, Some(token)) => token,
        _ => return Err(answer::failed(Error::not_found(SWITCHED_OFF)).into()),
    };
    let shown = headers.get(AUTHORIZATION).and_then(|header| header.to_str().ok()?.strip_prefix("Bearer "));
    let shown = shown.unwrap_or_default();
    if secret::equal(&secret::hash(shown), &secret::hash(gate)) {
        return Ok(());
    }
    let refusal = Refusal::new(ErrorCode::InvalidClient, TOKEN_WANTED);
    let mut response = answer::refused(StatusCode::UNAUTHORIZED, &refusal);
    response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    Err(response.into())
}

async fn metadata(request: Request) -> Result<Value, Response> {
    let bad = |code, text: &'static str| answer::refused(StatusCode::BAD_REQUEST, &Refusal::new(code, text));
    let (parts, body) = request.into_parts();
    let bytes = web::read_body(&parts.headers, body, BODY_LIMIT).await.map_err(answer::failed)?;
    if !bytes.is_empty() && !web::is_json(&parts.headers) {
        return Err(bad(ErrorCode::InvalidRequest, "The body must be JSON, sent with Content-Type: application/json"));
    }
    serde_json::from_slice(&bytes)
        .map_err(|_| bad(ErrorCode::InvalidRequest, "The body must be a JSON object of client metadata"))
}

async fn store_client(app: &OAuth, registration: Registration) -> Result<Response, Error> {
    let client = registration.into_client(app.clock.ordered_id::<Uuid>().to_string(), app.clock.now());
    let secret = client.auth_method.has_secret().then(secret::token);
    let hash = secret.as_deref().map(secret::hash);
    app.db.commit(store::insert_client(&client, "open", hash.as_ref())).await?;
    let body = RegisteredClient::new(&client, secret.as_deref());
    let mut response = (StatusCode::CREATED, axum::Json(body)).into_response();
    answer::keep_private(response.headers_mut());
    Ok(response)
}

/// What a client says of itself.
#[derive(utoipa::ToSchema)]
#[schema(example = json!({
    "client_name": "Acme Mailer",
    "redirect_uris": ["http://127.0.0.1/callback"],
    "scope": "emails:send",
}))]
#[expect(dead_code, reason = "describes the body to readers of the API's description")]
pub struct ClientMetadata {
    /// What the consent page calls the client. No control characters, and something to see.
    #[schema(min_length = 1, max_length = 200)]
    client_name: String,
    /// Where a browser may be sent back to. Only the port of a loopback host may differ later.
    #[schema(min_items = 1, max_items = 10)]
    redirect_uris: Vec<String>,
    /// `authorization_code`, with or without `refresh_token`. Left out: both.
    grant_types: Option<Vec<String>>,
    /// Only `code`.
    response_types: Option<Vec<String>>,
    /// Scopes that the client may ask for, separated by spaces. Left out: `full_access emails:send`.
    scope: Option<String>,
    /// `none` for a public client, `client_secret_basic` or `client_secret_post` for one that keeps a secret. Left
    /// out: `none`.
    token_endpoint_auth_method: Option<String>,
    /// Home page of the client, `http` or `https`.
    #[schema(max_length = 2048)]
    client_uri: Option<String>,
    /// Picture of the client, `http` or `https`.
    #[schema(max_length = 2048)]
    logo_uri: Option<String>,
}
