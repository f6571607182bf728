//! What this authorization server offers, and what protects the API.

use axum::Router;
use axum::extract::{OriginalUri, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::HeaderValue;
use http::header::CACHE_CONTROL;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::clients::{AuthMethod, Grant};
use super::{OAuth, answer};
use crate::config::Registration;
use crate::credentials::{Scope, ScopeSet};
use crate::error::{Envelope, Error};

const RESOURCE: &str = "/.well-known/oauth-protected-resource";

pub fn router() -> OpenApiRouter<OAuth> {
    OpenApiRouter::new()
        .routes(routes!(authorization_server))
        .routes(routes!(protected_resource))
        .routes(routes!(jwks))
        .route("/.well-known/oauth-protected-resource/{*path}", get(protected_resource))
}

/// Where the base URL has a path, RFC 8414 and RFC 9728 look for the documents
/// at the root, with that path behind them.
pub fn outside(base_path: &str) -> Router<OAuth> {
    if base_path.is_empty() {
        return Router::new();
    }
    Router::new()
        .route(&format!("/.well-known/oauth-authorization-server{base_path}"), get(authorization_server))
        .route(&format!("{RESOURCE}{base_path}"), get(protected_resource))
        .route(&format!("{RESOURCE}{base_path}/{{*path}}"), get(protected_resource))
}

/// What the authorization server offers
///
/// Where clients find the endpoints of OAuth, and what those understand.
#[utoipa::path(
    get, path = "/.well-known/oauth-authorization-server", tag = "OAuth", operation_id = "authorization_server_metadata",
    responses((status = 200, description = "Authorization server metadata (RFC 8414).", body = AuthorizationServer)),
    security(()),
)]
async fn authorization_server(State(app): State<OAuth>) -> Response {
    let issuer = app.addresses.base.as_str();
    let methods: Vec<&str> = AuthMethod::ALL.iter().map(|method| method.as_str()).collect();
    let can_register = app.config.registration != Registration::Off;
    published(AuthorizationServer {
        issuer: issuer.to_owned(),
        authorization_endpoint: format!("{issuer}/oauth/authorize"),
        token_endpoint: format!("{issuer}/oauth/token"),
        registration_endpoint: can_register.then(|| format!("{issuer}/oauth/register")),
        revocation_endpoint: format!("{issuer}/oauth/revoke"),
        jwks_uri: format!("{issuer}/.well-known/jwks.json"),
        scopes_supported: ScopeSet::all().iter().map(Scope::as_str).collect(),
        response_types_supported: vec!["code"],
        response_modes_supported: vec!["query"],
        grant_types_supported: Grant::ALL.map(Grant::as_str).into(),
        token_endpoint_auth_methods_supported: methods.clone(),
        revocation_endpoint_auth_methods_supported: methods,
        code_challenge_methods_supported: vec!["S256"],
        client_id_metadata_document_supported: app.config.client_id_documents.then_some(true),
        authorization_response_iss_parameter_supported: app.config.oauth_iss,
        service_documentation: format!("{issuer}/docs"),
    })
}

/// What protects the API
///
/// Which authorization server issues access tokens for this API. A 401 points here.
#[utoipa::path(
    get, path = "/.well-known/oauth-protected-resource", tag = "OAuth", operation_id = "protected_resource_metadata",
    responses((status = 200, description = "Protected resource metadata (RFC 9728).", body = ProtectedResource)),
    security(()),
)]
async fn protected_resource(State(app): State<OAuth>, OriginalUri(uri): OriginalUri) -> Response {
    let base = &app.addresses.base;
    // Asked about a path below the API, the document speaks of that path.
    let asked = uri.path().split_once(RESOURCE).map_or("", |(_, path)| path);
    let below = asked.strip_prefix(base.path()).unwrap_or(asked);
    // Clients ask for all that is listed, so the least is; the endpoint for assistants has no use for less than all.
    let scope = if below == "/mcp" { Scope::FullAccess } else { Scope::EmailsSend };
    published(ProtectedResource {
        resource: format!("{}{below}", base.as_str()),
        authorization_servers: vec![base.as_str().to_owned()],
        bearer_methods_supported: vec!["header"],
        scopes_supported: vec![scope.as_str()],
        resource_documentation: format!("{}/docs", base.as_str()),
    })
}

/// The keys that sign access tokens
///
/// For resource servers that check access tokens themselves. A key stays here as long as a token it signed is valid.
#[utoipa::path(
    get, path = "/.well-known/jwks.json", tag = "OAuth", operation_id = "signing_keys",
    responses(
        (status = 200, description = "The public keys (RFC 7517).", body = SigningKeys),
        (status = 500, description = "A defect on our side.", body = Envelope),
        (status = 503, description = "The store is unavailable.", body = Envelope),
    ),
    security(()),
)]
async fn jwks(State(app): State<OAuth>) -> Result<Response, Error> {
    Ok(published(SigningKeys { keys: app.credentials.signing.published(&app.db, &app.clock).await? }))
}

fn published(document: impl Serialize) -> Response {
    let mut response = axum::Json(document).into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    answer::readable_by_pages(response)
}

/// What the authorization server offers.
#[derive(Serialize, ToSchema)]
pub struct AuthorizationServer {
    #[schema(example = "https://posthorn.example")]
    issuer: String,
    #[schema(example = "https://posthorn.example/oauth/authorize")]
    authorization_endpoint: String,
    #[schema(example = "https://posthorn.example/oauth/token")]
    token_endpoint: String,
    /// Only while clients can be registered over HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "https://posthorn.example/oauth/register")]
    registration_endpoint: Option<String>,
    #[schema(example = "https://posthorn.example/oauth/revoke")]
    revocation_endpoint: String,
    #[schema(example = "https://posthorn.example/.well-known/jwks.json")]
    jwks_uri: String,
    #[schema(example = json!(["full_access", "emails:send"]))]
    scopes_supported: Vec<&'static str>,
    #[schema(example = json!(["code"]))]
    response_types_supported: Vec<&'static str>,
    #[schema(example = json!(["query"]))]
    response_modes_supported: Vec<&'static str>,
    #[schema(example = json!(["authorization_code", "refresh_token"]))]
    grant_types_supported: Vec<&'static str>,
    #[schema(example = json!(["none", "client_secret_basic", "client_secret_post"]))]
    token_endpoint_auth_methods_supported: Vec<&'static str>,
    #[schema(example = json!(["none", "client_secret_basic", "client_secret_post"]))]
    revocation_endpoint_auth_methods_supported: Vec<&'static str>,
    #[schema(example = json!(["S256"]))]
    code_challenge_methods_supported: Vec<&'static str>,
    /// Only where a `client_id` may be the address of a metadata document.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    client_id_metadata_document_supported: Option<bool>,
    /// Whether answers carry `iss` (RFC 9207).
    authorization_response_iss_parameter_supported: bool,
    #[schema(example = "https://posthorn.example/docs")]
    service_documentation: String,
}

/// What protects the API.
#[derive(Serialize, ToSchema)]
pub struct ProtectedResource {
    #[schema(example = "https://posthorn.example")]
    resource: String,
    #[schema(example = json!(["https://posthorn.example"]))]
    authorization_servers: Vec<String>,
    #[schema(example = json!(["header"]))]
    bearer_methods_supported: Vec<&'static str>,
    /// What to ask for at first: the least.
    #[schema(example = json!(["emails:send"]))]
    scopes_supported: Vec<&'static str>,
    #[schema(example = "https://posthorn.example/docs")]
    resource_documentation: String,
}

/// The keys that sign access tokens.
#[derive(Serialize, ToSchema)]
pub struct SigningKeys {
    #[schema(value_type = Vec<Object>, example = json!([{
        "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": "0199c5d2-7e3a-7c41-9d52-3f6f1c0b8a71",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    }]))]
    keys: Vec<Value>,
}
