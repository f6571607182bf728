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
    request_body(content = Registration, content_type = "application/json"),
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
