//! `GET /oauth/authorize`: from a query to a stored request and a redirect.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{FromRequestParts, OriginalUri, State};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::header::ALLOW;
use http::request::Parts;
use http::{HeaderValue, StatusCode};

use super::rules::{Callback, Claim, PendingRequest};
use super::store;
use crate::db::{Batch, DbError};
use crate::error::{Envelope, Error};
use crate::id::AuthorizationRequestId;
use crate::oauth::OAuth;
use crate::oauth::answer::{self, OAuthError};
use crate::oauth::client_document::{self, Failure};
use crate::oauth::clients::Known;
use crate::oauth::refusal::{ErrorCode, Refusal};
use crate::web::{Params, Sender};

/// How often a request is judged anew because access was changed meanwhile.
const ATTEMPTS: usize = 4;

/// Start the authorization code flow
///
/// To be opened in the user's browser, never fetched by a program: the user must see and approve the consent
/// screen. Once `client_id` and `redirect_uri` are proved, every error is a redirect to `redirect_uri` with `error`,
/// `error_description` and `state`.
#[utoipa::path(
    get, path = "/oauth/authorize", tag = "OAuth", operation_id = "authorize",
    params(
        ("client_id" = String, Query, description = "The `client_id` issued at registration, or, where the metadata says so, the address of the client's metadata document.",
            example = "7136aa0b-625c-4c9c-8820-e9784c8eb141"),
        ("response_type" = String, Query, description = "Must be `code`.", pattern = "^code$"),
        ("redirect_uri" = String, Query, description = "Exactly one of the client's registered redirect URIs; the port of a loopback host may differ.",
            example = "http://127.0.0.1:9999/oauth/callback"),
        ("code_challenge" = String, Query, description = "Base64url of the SHA-256 of the code verifier.", pattern = "^[A-Za-z0-9_-]{43}$",
            example = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"),
        ("code_challenge_method" = String, Query, description = "Must be `S256`.", pattern = "^S256$"),
        ("scope" = Option<String>, Query, description = "Scopes, separated by spaces: `full_access`, `emails:send`. Left out: all that the client is registered for."),
        ("state" = Option<String>, Query, description = "Comes back unchanged.", max_length = 1024),
        ("resource" = Option<String>, Query, description = "RFC 8707; accepted and ignored."),
    ),
    responses(
        (status = 302, description = "To the consent page, or back to the client with an error.",
            headers(("location" = String, description = "Where the browser goes."))),
        (status = 400, description = "The client or its redirect URI cannot be trusted with a redirect.", body = OAuthError,
            example = json!({"error": "invalid_client", "error_description":
                "client_id is unknown or disabled; use the client_id issued at registration"})),
        answer::Failures,
        (status = "default", description = "Refused before it was read, such as an address that is too long.", body = Envelope,
            example = json!({"statusCode": 414, "name": "validation_error", "message":
                "The request line is too long. At most 32768 bytes are allowed."})),
    ),
    security(()),
)]
pub async fn authorize(
    State(app): State<OAuth>,
    Extension(Sender(sender)): Extension<Sender>,
    OriginalUri(uri): OriginalUri,
    Prefetch(is_prefetch): Prefetch,
) -> Response {
    if is_prefetch {
        return answer::failed(Error::Unavailable);
    }
    if let Err(error) = app.limits.authorize.check(sender) {
        return answer::failed(error);
    }
    // A copy: what shares the buffer that the head was read into keeps it from being
    // read into again while the request is being stored.
    let query = uri.query().unwrap_or_default().to_owned();
    drop(uri);
    let params = Params::parse(&query);
    let claim = match Claim::read(&params) {
        Ok(claim) => claim,
        Err(refusal) => return answer::refused(StatusCode::BAD_REQUEST, &refusal),
    };
    let mut known = match client_document::is_document(claim.client_id()) {
        // Apart, because every request would hold room for what fetches a document.
        true => match Box::pin(described(&app, claim.client_id())).await {
            Ok(client) => Ok(Some(client)),
            Err(response) => return response,
        },
        false => app.clients.find(&app.db, claim.client_id()).await,
    };
    for _ in 0..ATTEMPTS {
        let client = match known {
            Ok(Some(client)) => client,
            Ok(None) => return answer::refused(StatusCode::BAD_REQUEST, &Refusal::unknown_client()),
            Err(error) => return answer::failed(error.into()),
        };
        match judge(&app, &params, claim.clone(), &client).await {
            Some(response) => return response,
            None => known = app.clients.load(&app.db, claim.client_id()).await,
        }
    }
    answer::failed(Error::Unavailable)
}

/// Whether a browser only prepares for a visit that may never come. It gets no
/// request, which would grow old meanwhile; it asks again when the visit comes.
pub struct Prefetch(bool);

impl<S: Sync> FromRequestParts<S> for Prefetch {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Prefetch, Infallible> {
        let says = |value: &HeaderValue| {
            let mut words = value.as_bytes().split(|byte| b";,".contains(byte));
            words.any(|word| word.trim_ascii().eq_ignore_ascii_case(b"prefetch"))
        };
        Ok(Prefetch(["sec-purpose", "purpose"].iter().filter_map(|name| parts.headers.get(*name)).any(says)))
    }
}

/// The client whose id is the address of its metadata document, where those are
/// accepted.
async fn described(app: &OAuth, id: &str) -> Result<Arc<Known>, Response> {
    if !app.config.client_id_documents {
        return Err(answer::refused(StatusCode::BAD_REQUEST, &Refusal::unknown_client()));
    }
    client_document::find(app, id).await.map_err(|failure| match failure {
        Failure::Refused(refusal) => answer::refused(StatusCode::BAD_REQUEST, &refusal),
        Failure::Failed(error) => answer::failed(error),
    })
}

/// The answer under what is known of the client; `None` when that is out of date.
async fn judge(app: &OAuth, params: &Params<'_>, claim: Claim, known: &Arc<Known>) -> Option<Response> {
    let callback = match Callback::prove(claim, &known.client) {
        Ok(callback) => callback.naming_issuer(app.config.oauth_iss.then_some(app.addresses.base.as_str())),
        Err(refusal) => {
            let response = answer::refused(StatusCode::BAD_REQUEST, &refusal);
            return up_to_date(app, params, known, &refusal, response).await;
        }
    };
    // From here every answer is a redirect, even if the rest of the way panics.
    let decided = AssertUnwindSafe(async {
        let request = callback.check(params, &known.client)?;
        store_request(app, &request, known).await
    });
    match decided.catch_unwind().await {
        Ok(Ok(Some(id))) => {
            let dashboard = app.addresses.dashboard.as_str();
            Some(answer::found(&format!("{dashboard}/oauth/authorize/{id}")))
        }
        Ok(Ok(None)) => None,
        Ok(Err(refusal)) if refusal.error() == ErrorCode::ServerError => Some(answer::found(&callback.error(&refusal))),
        Ok(Err(refusal)) => {
            let response = answer::found(&callback.error(&refusal));
            up_to_date(app, params, known, &refusal, response).await
        }
        Err(_) => {
            tracing::error!("an authorization request panicked");
            Some(answer::found(&callback.error(&Refusal::server_error())))
        }
    }
}

/// A refusal stores nothing, so no guard sees whether the client is still the
/// one that was cached; a client that is gone must not be redirected to.
async fn up_to_date(
    app: &OAuth,
    params: &Params<'_>,
    known: &Known,
    refusal: &Refusal,
    response: Response,
) -> Option<Response> {
    match app.db.holds(&known.guard()).await {
        Ok(true) => {
            let given = params.text("redirect_uri").unwrap_or_default();
            app.refusals.note(known, &given, refusal.error(), app.clock.now());
            Some(response)
        }
        Ok(false) => None,
        Err(error) => Some(answer::failed(error.into())),
    }
}

/// Stores a request and tells its id; `None` when the client was changed since it
/// was read.
async fn store_request(
    app: &OAuth,
    request: &PendingRequest,
    known: &Known,
) -> Result<Option<AuthorizationRequestId>, Refusal> {
    let id = app.clock.unguessable_id();
    let batch = Batch::from(store::insert_request(id, request, app.clock.steady())).when(known.guard());
    match app.db.commit(batch).await {
        Ok(_) => Ok(Some(id)),
        Err(DbError::Stale) => Ok(None),
        Err(error) => {
            tracing::error!(%error, "an authorization request could not be stored");
            Err(Refusal::server_error())
        }
    }
}

/// Every method but GET, HEAD among them: nothing is read, nothing is stored.
pub async fn only_get() -> Response {
    let mut response = Error::MethodNotAllowed.into_response();
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
    response
}
