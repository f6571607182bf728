//! `POST /oauth/token`: codes and refresh tokens become access tokens.

use axum::extract::{Extension, Request, State};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

use super::client_auth::{self, Denied, Visit, required};
use super::issue::{Subject, Tokens, end, invalid_grant, tokens};
use super::refresh::refresh;
use crate::clock::rfc3339;
use crate::db::{Batch, DbError};
use crate::grants::Reason;
use crate::id::{GrantId, WorkspaceId};
use crate::oauth::OAuth;
use crate::oauth::answer::{self, OAuthError};
use crate::oauth::clients::{Grant, Known, client_is_there};
use crate::oauth::grant::{self, Code, NewGrant, Token};
use crate::oauth::refusal::{ErrorCode, Refusal};
use crate::web::Sender;
use crate::webhooks::{self, EventType, When};
use crate::{accounts, delivery, secret};

/// What to exchange.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({
    "grant_type": "authorization_code",
    "client_id": "7136aa0b-625c-4c9c-8820-e9784c8eb141",
    "code": "the code from the callback",
    "redirect_uri": "http://127.0.0.1:9999/oauth/callback",
    "code_verifier": "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
}))]
pub struct TokenRequest {
    /// `authorization_code` or `refresh_token`.
    #[schema(value_type = String, pattern = "^(authorization_code|refresh_token)$")]
    grant_type: Option<String>,
    /// Needed unless the client authenticates with HTTP Basic.
    client_id: Option<String>,
    /// Of a client registered for `client_secret_post`.
    client_secret: Option<String>,
    /// The code from the callback; with `authorization_code`.
    code: Option<String>,
    /// The one that the authorization request named; with `authorization_code`.
    redirect_uri: Option<String>,
    /// What the challenge was made of, 43 to 128 characters; with `authorization_code`.
    code_verifier: Option<String>,
    /// The newest one; with `refresh_token`.
    refresh_token: Option<String>,
    /// Less than what was granted, for this access token alone; with `refresh_token`.
    scope: Option<String>,
}

/// Get tokens
///
/// Exchanges an authorization code, or a refresh token, which is replaced at every use. Access tokens live 900
/// seconds, refresh tokens 60 days from their last use.
#[utoipa::path(
    post, path = "/oauth/token", tag = "OAuth", operation_id = "token",
    request_body(content((TokenRequest = "application/x-www-form-urlencoded"), (TokenRequest = "application/json"))),
    responses(
        (status = 200, description = "The tokens.", body = Tokens),
        (status = 400, description = "What was sent is malformed, used up, expired or not this client's.", body = OAuthError,
            example = json!({"error": "invalid_request", "error_description": "grant_type is missing"})),
        client_auth::Unproved, answer::Failures, answer::BodyFailures,
    ),
    security(()),
)]
pub async fn token(
    State(app): State<OAuth>,
    Extension(Sender(sender)): Extension<Sender>,
    request: Request,
) -> Response {
    let granted = async {
        let (headers, sent) = client_auth::read::<TokenRequest>(request).await?;
        let asked = Asked::read(&sent)?;
        let shown = (sent.client_id.as_ref(), sent.client_secret.as_ref());
        let mut visit = Visit::begin(&app, sender, &headers, shown).await?;
        loop {
            match async { asked.grant(&app, &*visit.client(&app).await?).await }.await {
                Err(denied) if visit.looked_too_early(&app, &denied).await? => {}
                settled => return settled,
            }
        }
    };
    client_auth::answered(granted.await.map(axum::Json))
}

/// What a well-formed request asks for.
enum Asked<'a> {
    Code { code: &'a str, redirect_uri: &'a str, verifier: &'a str },
    Refresh { token: &'a str, scope: Option<&'a str> },
}

impl<'a> Asked<'a> {
    fn read(sent: &'a TokenRequest) -> Result<Asked<'a>, Refusal> {
        match required("grant_type", sent.grant_type.as_ref())? {
            "authorization_code" => {
                let code = required("code", sent.code.as_ref())?;
                let redirect_uri = required("redirect_uri", sent.redirect_uri.as_ref())?;
                let verifier = required("code_verifier", sent.code_verifier.as_ref())?;
                let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
                if !(43..=128).contains(&verifier.len()) || !verifier.bytes().all(unreserved) {
                    return Err(Refusal::invalid_request(
                        "code_verifier must be 43 to 128 characters: letters, digits, and - . _ ~",
                    ));
                }
                Ok(Asked::Code { code, redirect_uri, verifier })
            }
            "refresh_token" => {
                let token = required("refresh_token", sent.refresh_token.as_ref())?;
                Ok(Asked::Refresh { token, scope: sent.scope.as_deref() })
            }
            _ => Err(Refusal::new(
                ErrorCode::UnsupportedGrantType,
                "grant_type must be authorization_code or refresh_token",
            )),
        }
    }

    async fn grant(&self, app: &OAuth, client: &Known) -> Result<Tokens, Denied> {
        let needed = match self {
            Asked::Code { .. } => Grant::AuthorizationCode,
            Asked::Refresh { .. } => Grant::RefreshToken,
        };
        if !client.client.grants.contains(needed) {
            let text = "The client is not registered for this grant";
            return Err(Refusal::new(ErrorCode::UnauthorizedClient, text).into());
        }
        match *self {
            Asked::Code { code, redirect_uri, verifier } => redeem(app, client, code, redirect_uri, verifier).await,
            Asked::Refresh { token, scope } => refresh(app, client, token, scope).await,
        }
    }
}

async fn redeem(app: &OAuth, client: &Known, code: &str, redirect_uri: &str, verifier: &str) -> Result<Tokens, Denied> {
    let hash = secret::hash(code);
    let stored = grant::find_code(&app.db, &hash).await?.ok_or_else(invalid_grant)?;
    if stored.code.client_id != client.client.id || stored.code.redirect_uri != redirect_uri {
        return Err(invalid_grant());
    }
    let now = app.clock.now();
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
    let is_holder = secret::equal(challenge.as_bytes(), stored.code.code_challenge.as_bytes());
    match stored.used_at {
        // Who has seen a used code, in a log perhaps, must not be able to end what
        // came of it; whoever holds the verifier has used it twice.
        Some(_) if !is_holder => return Err(invalid_grant()),
        Some(_) => return Err(used_twice(app, stored.grant_id, stored.code.workspace_id).await?),
        None if stored.code.expires_at <= app.clock.steady() => return Err(invalid_grant()),
        None => {}
    }
    if !is_holder {
        // The right client with the wrong verifier: somebody got hold of a code
        // that belongs to another. It is worth nothing from now on.
        return match app.db.commit(grant::use_code(&hash, now, None)).await {
            Ok(_) | Err(DbError::Unexpected { .. }) => Err(invalid_grant()),
            Err(error) => Err(error.into()),
        };
    }
    begin(app, client, &hash, &stored.code).await
}

/// Begins the grant that a code stands for.
async fn begin(app: &OAuth, client: &Known, code_hash: &[u8; 32], code: &Code) -> Result<Tokens, Denied> {
    let (id, now) = (app.clock.ordered_id(), app.clock.now());
    let first = client.client.grants.contains(Grant::RefreshToken).then(|| Token::first(id));
    let refresh = first.as_ref().map(|token| (token, now + grant::REFRESH_LIFETIME));
    let text = format!(
        "{} was given access to your workspace ({}).\n\nIf nobody meant to, end it under Connected apps:\n{}/apps\n",
        client.client.introduced(),
        code.scopes,
        app.addresses.dashboard.as_str()
    );
    let notice = delivery::tell_owners(app, code.workspace_id, "An app was given access", &text).await?;
    let mut batch = Batch::new().fence(client_is_there(&code.client_id));
    batch.append(grant::redeem(code_hash, &NewGrant { id, code, refresh, now }));
    batch.append(notice);
    let data = json!({
        "id": id, "client_id": code.client_id, "user_id": code.user_id, "scopes": code.scopes.to_string(),
        "created_at": rfc3339(now),
    });
    let told = (EventType::GrantCreated, When::Always, now);
    webhooks::publish(&mut batch, &app.clock, code.workspace_id, told, &data);
    // Whoever approved must still be allowed to. No fence: who is shut out in this
    // moment has all codes used up, and then the grants that came of them ended;
    // and without the right, no token of a grant is honoured.
    let batch = batch.when(accounts::may_grant(code.workspace_id, code.user_id));
    match app.db.commit(batch.when(client.guard())).await {
        Ok(_) => {}
        Err(DbError::Stale) => return Err(invalid_grant()),
        Err(DbError::Unexpected { .. }) => {
            // Another request was faster with the same code: that makes two uses.
            let winner = grant::find_code(&app.db, code_hash).await?.and_then(|stored| stored.grant_id);
            return Err(used_twice(app, winner, code.workspace_id).await?);
        }
        Err(error) => return Err(error.into()),
    }
    let subject = Subject { grant_id: id, user_id: code.user_id, client_id: &code.client_id };
    tokens(app, &subject, code.scopes, first.map(|token| token.text())).await
}

/// A code was used a second time by its own client: what came of the first use
/// is taken back.
async fn used_twice(app: &OAuth, grant_id: Option<GrantId>, workspace_id: WorkspaceId) -> Result<Denied, Denied> {
    if let Some(grant_id) = grant_id {
        end(app, grant_id, workspace_id, Reason::CodeReuse).await?;
    }
    Ok(invalid_grant())
}
