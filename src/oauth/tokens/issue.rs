//! Making tokens of a grant, and ending one of which something was used twice.

use serde::Serialize;
use utoipa::ToSchema;

use super::client_auth::Denied;
use crate::clock::SECOND;
use crate::credentials::{Claims, ScopeSet, TOKEN_LIFETIME};
use crate::db::DbError;
use crate::delivery;
use crate::grants::{self, Reason};
use crate::id::{GrantId, UserId, WorkspaceId};
use crate::oauth::OAuth;
use crate::oauth::refusal::{ErrorCode, Refusal};

/// The answer to both grants.
#[derive(Serialize, ToSchema)]
pub struct Tokens {
    /// A JWT; the API takes it as a bearer token.
    #[schema(example = "eyJhbGciOiJFUzI1NiIsInR5cCI6ImF0K2p3dCJ9.eyJzY29wZSI6IuKApiJ9.c2lnbmF0dXJl")]
    access_token: String,
    #[schema(pattern = "^Bearer$")]
    token_type: &'static str,
    /// Seconds that the access token lives.
    #[schema(example = 900)]
    expires_in: i64,
    /// Only for a client that is registered for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "kV3…43 characters…9Qw")]
    refresh_token: Option<String>,
    /// What was granted, which may be less than what was asked for.
    #[schema(example = "emails:send")]
    scope: String,
}

/// One text for every way a code or token can be wrong: which it was is nobody's
/// business but the owner's.
pub fn invalid_grant() -> Denied {
    let text = "The code or token is invalid, expired, already used, or belongs to another client";
    Refusal::new(ErrorCode::InvalidGrant, text).into()
}

/// Ends a grant because what should be used once was used twice, and tells the
/// owners.
pub async fn end(app: &OAuth, grant_id: GrantId, workspace_id: WorkspaceId, reason: Reason) -> Result<(), Denied> {
    let text = format!(
        "Something that an app may use once was used twice ({}), so a copy may be in wrong hands. Its access was \
         ended.\n\nIf you still want the app, connect it again. All apps are listed at:\n{}/apps\n",
        reason.as_str(),
        app.addresses.dashboard.as_str()
    );
    let notice = delivery::tell_owners(app, workspace_id, "An app's access was ended for safety", &text).await?;
    let mut batch = grants::revoke(grant_id, reason, &app.clock);
    batch.append(notice);
    match app.db.commit(batch).await {
        // Ended before: nothing to end, nobody to tell.
        Ok(_) | Err(DbError::Unexpected { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whom a token speaks for.
pub struct Subject<'a> {
    pub grant_id: GrantId,
    pub user_id: UserId,
    pub client_id: &'a str,
}

pub async fn tokens(
    app: &OAuth,
    subject: &Subject<'_>,
    scopes: ScopeSet,
    refresh_token: Option<String>,
) -> Result<Tokens, Denied> {
    let issued = app.clock.now().div_euclid(SECOND);
    let base = app.addresses.base.as_str();
    let claims = Claims {
        iss: base.into(),
        aud: base.into(),
        sub: subject.user_id,
        client_id: subject.client_id.into(),
        scope: scopes.to_string(),
        jti: app.clock.ordered_id(),
        iat: issued,
        exp: issued + TOKEN_LIFETIME,
        grant: subject.grant_id,
    };
    Ok(Tokens {
        access_token: app.credentials.signing.sign(&app.db, &app.clock, &claims).await?,
        token_type: "Bearer",
        expires_in: TOKEN_LIFETIME,
        refresh_token,
        scope: scopes.to_string(),
    })
}
