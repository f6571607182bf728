//! A refresh token becomes an access token and its own successor.

use super::client_auth::{self, Denied};
use super::issue::{Subject, Tokens, end, invalid_grant, tokens};
use crate::clock::SECOND;
use crate::credentials::ScopeSet;
use crate::db::{Batch, DbError};
use crate::error::Error;
use crate::grants::Reason;
use crate::id::GrantId;
use crate::oauth::OAuth;
use crate::oauth::clients::Known;
use crate::oauth::grant::{self, Family, Rotated, Rotation, Token, Verdict};
use crate::oauth::refusal::{ErrorCode, Refusal};
use crate::secret;

/// How often a refresh that lost a race looks again.
const ATTEMPTS: usize = 4;

pub async fn refresh(app: &OAuth, client: &Known, shown: &str, scope: Option<&str>) -> Result<Tokens, Denied> {
    // Most tokens are the newest of their family, and of most nothing special is
    // asked: those are rotated without a look before.
    if let (Some(token), None) = (Token::parse(shown), scope)
        && let Some(tokens) = rotate(app, client, shown, token.grant_id(), &token.next(), None).await?
    {
        return Ok(tokens);
    }
    for _ in 0..ATTEMPTS {
        let family = grant::find_family(&app.db, shown).await?.ok_or_else(invalid_grant)?;
        if family.client_id != client.client.id {
            return Err(invalid_grant());
        }
        let now = app.clock.now();
        let grace = i64::from(app.config.refresh_grace) * SECOND;
        let verdict = grant::judge(&family, &secret::hash(shown), now, grace);
        if matches!(verdict, Verdict::Dead) || family.granted_at <= begun_after(app, now) {
            return Err(invalid_grant());
        }
        if verdict == Verdict::Reuse {
            end(app, family.grant_id, family.workspace_id, Reason::RefreshReuse).await?;
            return Err(invalid_grant());
        }
        let scopes = narrowed(family.scopes, client, scope)?;
        if verdict == Verdict::Repeat {
            return repeat(app, client, shown, &family, scopes).await;
        }
        let next = match Token::parse(shown) {
            Some(token) => token.next(),
            // It is from the time before tokens named their grant: its successor does.
            None => Token::first(family.grant_id),
        };
        // Nothing rotated: another request was faster. Look again.
        let rotated = rotate(app, client, shown, family.grant_id, &next, Some(scopes)).await?;
        if let Some(tokens) = rotated {
            return Ok(tokens);
        }
    }
    Err(Error::Unavailable.into())
}

/// When a family must have begun after, not to have reached the age that the
/// settings allow.
fn begun_after(app: &OAuth, now: i64) -> i64 {
    match app.config.refresh_max_days {
        0 => i64::MIN,
        days => now - i64::from(days) * 24 * 3600 * SECOND,
    }
}

/// The scopes that were asked for, if the grant and the client have them.
fn narrowed(granted: ScopeSet, client: &Known, asked: Option<&str>) -> Result<ScopeSet, Refusal> {
    let allowed = granted.intersection(client.client.scopes);
    let asked = match asked.map(ScopeSet::parse) {
        None => allowed,
        Some(Ok(asked)) if asked.is_empty() => allowed,
        Some(Ok(asked)) if asked.is_subset_of(allowed) => asked,
        Some(_) => ScopeSet::EMPTY,
    };
    if asked.is_empty() {
        return Err(Refusal::new(ErrorCode::InvalidScope, "A requested scope was not granted"));
    }
    Ok(asked)
}

/// Gives the successor that a token was rotated into a moment ago once more.
async fn repeat(app: &OAuth, client: &Known, shown: &str, family: &Family, scopes: ScopeSet) -> Result<Tokens, Denied> {
    client_auth::insist(app, client).await?;
    let sealed = family.previous.as_ref().map(|previous| previous.sealed.as_slice()).unwrap_or_default();
    let next = grant::unseal(shown, family.grant_id, sealed).ok_or(Error::Internal)?;
    let subject = Subject { grant_id: family.grant_id, user_id: family.user_id, client_id: &family.client_id };
    tokens(app, &subject, scopes, Some(next)).await
}

/// Rotates the newest token of a family, and makes an access token for `scopes`
/// or else for all that was granted. `None`: it is not the newest, or the
/// family lives no more.
async fn rotate(
    app: &OAuth,
    client: &Known,
    shown: &str,
    grant_id: GrantId,
    next: &Token,
    scopes: Option<ScopeSet>,
) -> Result<Option<Tokens>, Denied> {
    let now = app.clock.now();
    let rotation = Rotation {
        grant_id,
        client_id: &client.client.id,
        old: &secret::hash(shown),
        successor: next,
        sealed: grant::seal(shown, next),
        expires_at: now + grant::REFRESH_LIFETIME,
        begun_after: begun_after(app, now),
        now,
    };
    let batch = Batch::from(grant::rotate(rotation)).when(client.guard());
    let effects = match app.db.commit(batch).await {
        Ok(effects) => effects,
        Err(DbError::Unexpected { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let row = effects.first().and_then(|effect| effect.rows.first()).ok_or(Error::Internal)?;
    let rotated = Rotated::read(row)?;
    let scopes = match scopes {
        Some(scopes) => scopes,
        None => narrowed(rotated.scopes, client, None)?,
    };
    let subject = Subject { grant_id, user_id: rotated.user_id, client_id: &client.client.id };
    Ok(Some(tokens(app, &subject, scopes, Some(next.text())).await?))
}
