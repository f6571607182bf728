//! `POST /oauth/revoke` (RFC 7009).

use axum::extract::{Extension, Request, State};
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;

use super::client_auth::{self, Denied, Visit, required};
use crate::clock::SECOND;
use crate::db::{Batch, DbError};
use crate::error::Error;
use crate::grants::{self, Reason};
use crate::oauth::OAuth;
use crate::oauth::answer::{self, OAuthError};
use crate::oauth::clients::Known;
use crate::oauth::grant;
use crate::web::Sender;

/// What to give back.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"token": "the token to give back", "client_id": "7136aa0b-625c-4c9c-8820-e9784c8eb141"}))]
pub struct RevokeRequest {
    /// A refresh token or an access token.
    #[schema(value_type = String, min_length = 1)]
    token: Option<String>,
    /// `refresh_token` or `access_token`; not needed, and not believed.
    #[serde(rename = "token_type_hint")]
    _token_type_hint: Option<String>,
    /// Needed unless the client authenticates with HTTP Basic.
    client_id: Option<String>,
    /// Of a client registered for `client_secret_post`.
    client_secret: Option<String>,
}

/// Give a token back
///
/// A refresh token ends its grant and everything that came of it; an access token ends alone. A token that is not
/// known, or not the client's own, changes nothing and is answered the same.
#[utoipa::path(
    post, path = "/oauth/revoke", tag = "OAuth", operation_id = "revoke",
    request_body(content((RevokeRequest = "application/x-www-form-urlencoded"), (RevokeRequest = "application/json"))),
    responses(
        (status = 200, description = "The token is worth nothing now."),
        (status = 400, description = "The request is malformed.", body = OAuthError,
            example = json!({"error": "invalid_request", "error_description": "token is missing"})),
        client_auth::Unproved, answer::Failures, answer::BodyFailures,
    ),
    security(()),
)]
pub async fn revoke(
    State(app): State<OAuth>,
    Extension(Sender(sender)): Extension<Sender>,
    request: Request,
) -> Response {
    let revoked = async {
        let (headers, sent) = client_auth::read::<RevokeRequest>(request).await?;
        let token = required("token", sent.token.as_ref())?;
        let shown = (sent.client_id.as_ref(), sent.client_secret.as_ref());
        let mut visit = Visit::begin(&app, sender, &headers, shown).await?;
        loop {
            match async { end(&app, &*visit.client(&app).await?, token).await }.await {
                Err(denied) if visit.looked_too_early(&app, &denied).await? => {}
                settled => return settled,
            }
        }
    };
    client_auth::answered(revoked.await.map(|()| StatusCode::OK))
}

/// Ends whatever the token is, whatever the client thinks it is.
async fn end(app: &OAuth, client: &Known, token: &str) -> Result<(), Denied> {
    client_auth::insist(app, client).await?;
    let Some(batch) = ending(app, client, token).await? else { return Ok(()) };
    match app.db.commit(batch).await {
        // Somebody was faster.
        Ok(_) | Err(DbError::Unexpected { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What ends the token; nothing where it is not the client's, or has ended. So
/// who gives one back over and over writes once.
async fn ending(app: &OAuth, client: &Known, token: &str) -> Result<Option<Batch>, Denied> {
    let now = app.clock.now();
    if let Some(family) = grant::find_family(&app.db, token).await? {
        let alive = family.client_id == client.client.id && !family.revoked;
        return Ok(alive.then(|| grants::revoke(family.grant_id, Reason::Client, &app.clock)));
    }
    let claims = match app.credentials.signing.verify(&app.db, &app.clock, token).await {
        Ok(claims) => claims,
        Err(Error::InvalidToken) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let expires_at = claims.exp.saturating_mul(SECOND);
    let ended = claims.client_id != client.client.id
        || expires_at <= now
        || grant::token_is_revoked(&app.db, claims.jti).await?;
    Ok((!ended).then(|| grant::revoke_token(claims.jti, expires_at)))
}
