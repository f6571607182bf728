//! Grants: what a person allowed a client to do in a workspace; and the codes
//! and refresh tokens that lead to one, as the store keeps them.

use super::refresh::Token;
use crate::auth::session_stands;
use crate::clock::{HOUR, SECOND};
use crate::credentials::{ScopeSet, raise_access};
use crate::db::{Batch, Db, DbError, Sql, Stmt, from_row, statements};
use crate::id::{AuthorizationRequestId, GrantId, TokenId, UserId, WorkspaceId};
use crate::oauth::redirect_uri::Destination;
use crate::secret;
use crate::web::Page;

/// How long a code can be redeemed.
pub const CODE_LIFETIME: i64 = 120 * SECOND;

/// How long a code is remembered after that, so that a second use is noticed.
const CODE_MEMORY: i64 = 24 * HOUR;

/// How long an access token that was revoked is remembered after it has expired.
const REVOKED_MEMORY: i64 = 24 * HOUR;

statements! {
    lists {
        OLDER, NEWER, BY_ID =
            "SELECT g.id, g.client_id, g.scopes, g.created_at, g.last_used_at, g.revoked_at, g.revoked_reason,
                    c.name, c.logo_uri, u.email, c.verified_host, c.redirect_uris
             FROM oauth_grants g LEFT JOIN oauth_clients c ON c.id = g.client_id LEFT JOIN users u ON u.id = g.user_id
             WHERE g.workspace_id = $1" by "g.id";
    }
    functions {
        pub fn insert_code(hash: &[u8; 32], code: &Code)
            with [hash, &code.client_id, &code.redirect_uri, &code.code_challenge, code.scopes.to_string(),
                code.user_id, code.workspace_id, code.expires_at] = Sql::both(
            "INSERT INTO authorization_codes
                 (hash, client_id, redirect_uri, code_challenge, scopes, user_id, workspace_id, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)");
        /// Rotates a refresh token into its successor, if it is the newest of a family
        /// that lives; one row is returned then, for [`Rotated::read`].
        pub fn rotate(rotation: Rotation<'_>)
            with [rotation.grant_id, rotation.old, &secret::hash(&rotation.successor.text()), rotation.expires_at,
                &rotation.successor.family_hash(), rotation.now, rotation.sealed, rotation.client_id,
                rotation.begun_after] expects 1 = Sql::both(
            "UPDATE oauth_grants SET refresh_hash = $3, refresh_expires_at = $4, family_hash = $5,
                    previous_hash = $2, rotated_at = $6, successor_sealed = $7, last_used_at = $6
             WHERE id = $1 AND refresh_hash = $2 AND revoked_at IS NULL AND refresh_expires_at > $6
               AND client_id = $8 AND created_at > $9
               AND EXISTS (SELECT 1 FROM users u WHERE u.id = oauth_grants.user_id AND u.disabled_at IS NULL)
               AND EXISTS (SELECT 1 FROM memberships m WHERE m.user_id = oauth_grants.user_id
                               AND m.workspace_id = oauth_grants.workspace_id)
             RETURNING user_id, scopes");
        /// How many grants stand, counted to a bound, and when one was last used.
        pub fn tally(workspace_id: WorkspaceId) = Sql::both(
            "SELECT COUNT(*), MAX(last_used_at) FROM
                 (SELECT last_used_at FROM oauth_grants WHERE workspace_id = $1 AND revoked_at IS NULL
                  ORDER BY id DESC LIMIT 1001) AS newest");
        /// Uses a code up, with what there is to show for it.
        pub fn use_code(hash: &[u8; 32], now: i64, grant_id: Option<GrantId>) expects 1 = Sql::both(
            "UPDATE authorization_codes SET used_at = $2, grant_id = $3 WHERE hash = $1 AND used_at IS NULL");
        fn insert_grant(new: &NewGrant<'_>)
            with [new.id, new.code.workspace_id, &new.code.client_id, new.code.user_id, new.code.scopes.to_string(),
                new.now, new.refresh.map(|(token, _)| token.family_hash().to_vec()),
                new.refresh.map(|(token, _)| secret::hash(&token.text()).to_vec()),
                new.refresh.map(|(_, expires_at)| expires_at)] = Sql::both(
            "INSERT INTO oauth_grants
                 (id, workspace_id, client_id, user_id, scopes, created_at, family_hash, refresh_hash, refresh_expires_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)");
    }
    reads {
        pub fn find_code(hash: &[u8; 32]) -> Option<StoredCode> = Sql::both(
            "SELECT client_id, redirect_uri, code_challenge, scopes, user_id, workspace_id, expires_at, used_at, grant_id
             FROM authorization_codes WHERE hash = $1");
        /// The family, its grant, and whether the one who granted it still may.
        fn family_of(grant_id: GrantId) -> Option<Family> = Sql::both(
            "SELECT g.id, g.workspace_id, g.client_id, g.user_id, g.scopes, g.created_at,
                    CASE WHEN g.revoked_at IS NULL THEN 0 ELSE 1 END,
                    CASE WHEN u.id IS NULL OR m.user_id IS NULL THEN 0 ELSE 1 END,
                    g.family_hash, g.refresh_hash, g.refresh_expires_at,
                    g.previous_hash, g.rotated_at, g.successor_sealed
             FROM oauth_grants g
             LEFT JOIN users u ON u.id = g.user_id AND u.disabled_at IS NULL
             LEFT JOIN memberships m ON m.user_id = g.user_id AND m.workspace_id = g.workspace_id
             WHERE g.id = $1 AND g.refresh_hash IS NOT NULL");
        /// Whose a token is that does not say so itself.
        fn grant_of(hash: &[u8; 32]) -> Option<GrantId> = Sql::both(
            "SELECT grant_id FROM refresh_tokens WHERE hash = $1");
        pub fn token_is_revoked(id: TokenId) -> bool = Sql::both("SELECT 1 FROM revoked_tokens WHERE id = $1");
    }
    /// Decides a request once, for the session that opened it.
    DECIDE = Sql::both(
        "UPDATE authorization_requests SET decided_at = $3
         WHERE id = $1 AND session_hash = $2 AND decided_at IS NULL AND expires_at > $3");
    REVOKE_TOKEN = Sql::both(
        "INSERT INTO revoked_tokens (id, expires_at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING")
        .raising();
    SWEEP_CODES = Sql::both("DELETE FROM authorization_codes WHERE expires_at < $1");
    SWEEP_REFRESH = Sql::both("DELETE FROM refresh_tokens WHERE expires_at < $1");
    SWEEP_REVOKED = Sql::both("DELETE FROM revoked_tokens WHERE expires_at < $1");
}

/// What a code is bound to.
#[derive(Debug, Clone)]
pub struct Code {
    pub client_id: String,
    pub redirect_uri: String,
    pub code_challenge: String,
    pub scopes: ScopeSet,
    pub user_id: UserId,
    pub workspace_id: WorkspaceId,
    pub expires_at: i64,
}

/// A code, and what became of it.
pub struct StoredCode {
    pub code: Code,
    pub used_at: Option<i64>,
    pub grant_id: Option<GrantId>,
}

/// Decides a request. A session that ends in this moment decides nothing: whoever
/// ended it waits for this commit and then sees what came of it, or is seen by it.
pub fn decide(request_id: AuthorizationRequestId, session: &[u8; 32], now: i64) -> Batch {
    let decided = DECIDE.with([request_id.into(), session.into(), now.into()]).expect(1);
    Batch::new().fence(session_stands(session)).and(decided)
}

from_row!(Code { client_id, redirect_uri, code_challenge, scopes, user_id, workspace_id, expires_at });
from_row!(StoredCode { code, used_at, grant_id });

/// A grant that is about to begin.
pub struct NewGrant<'a> {
    pub id: GrantId,
    pub code: &'a Code,
    /// The first refresh token and its expiry, for a client that may have one.
    pub refresh: Option<(&'a Token, i64)>,
    pub now: i64,
}

/// Redeems a code: it is used up, the grant begins, the first refresh token
/// exists; all or nothing.
pub fn redeem(code_hash: &[u8; 32], new: &NewGrant<'_>) -> Batch {
    Batch::from(use_code(code_hash, new.now, Some(new.id))).and(insert_grant(new))
}

/// The refresh family of a grant, and what is known of the grant.
#[derive(Debug, Clone)]
pub struct Family {
    pub grant_id: GrantId,
    pub workspace_id: WorkspaceId,
    pub client_id: String,
    pub user_id: UserId,
    pub scopes: ScopeSet,
    pub granted_at: i64,
    pub revoked: bool,
    /// The one who granted it can log in and is a member of the workspace.
    pub granter_stands: bool,
    /// The hash of the mark that its tokens carry, once one has been handed out
    /// that carries a mark.
    pub mark: Option<Vec<u8>>,
    pub newest: Vec<u8>,
    pub expires_at: i64,
    pub previous: Option<Previous>,
}

/// The token before the newest.
#[derive(Debug, Clone)]
pub struct Previous {
    pub hash: Vec<u8>,
    pub rotated_at: i64,
    /// The newest token, for who shows this one.
    pub sealed: Vec<u8>,
}

from_row!(Previous { hash, rotated_at, sealed });
from_row! { Family {
    grant_id, workspace_id, client_id, user_id, scopes, granted_at, revoked, granter_stands, mark, newest, expires_at,
    previous
} }

/// The family that a shown token belongs to, be it the newest of it or an old
/// one; none for what was never handed out.
pub async fn find_family(db: &Db, shown: &str) -> Result<Option<Family>, DbError> {
    let token = Token::parse(shown);
    let grant_id = match &token {
        Some(token) => token.grant_id(),
        None => match grant_of(db, &secret::hash(shown)).await? {
            Some(id) => id,
            None => return Ok(None),
        },
    };
    let family = family_of(db, grant_id).await?;
    let carries = |family: &Family| match &token {
        Some(token) => family.mark.as_ref().is_some_and(|mark| secret::equal(mark, &token.family_hash())),
        None => true,
    };
    Ok(family.filter(carries))
}

/// A token on its way into its successor's place.
pub struct Rotation<'a> {
    pub grant_id: GrantId,
    pub client_id: &'a str,
    pub old: &'a [u8; 32],
    pub successor: &'a Token,
    pub sealed: Vec<u8>,
    pub expires_at: i64,
    /// Families that began no later than this have reached their age.
    pub begun_after: i64,
    pub now: i64,
}

/// Whose token was rotated.
pub struct Rotated {
    pub user_id: UserId,
    pub scopes: ScopeSet,
}

from_row!(Rotated { user_id, scopes });

/// Ends one access token. One that has ended stays as it is: the batch then finds
/// nothing to change.
pub fn revoke_token(id: TokenId, expires_at: i64) -> Batch {
    Batch::new().and(REVOKE_TOKEN.with([id.into(), expires_at.into()]).expect(1)).and(raise_access())
}

/// What lists call a client that is there no more.
pub const DELETED_CLIENT: &str = "A client that was deleted";

/// A grant as lists show it.
pub struct Listed {
    pub id: GrantId,
    pub client_id: String,
    pub scopes: ScopeSet,
    pub created_at: i64,
    pub last_used_at: Option<i64>,
    pub revoked_at: Option<i64>,
    pub revoked_reason: Option<String>,
    pub client_name: Option<String>,
    pub logo_uri: Option<String>,
    pub approved_by: Option<String>,
    verified_host: Option<String>,
    /// A JSON array.
    redirect_uris: Option<String>,
}

from_row! { Listed {
    id, client_id, scopes, created_at, last_used_at, revoked_at, revoked_reason, client_name, logo_uri, approved_by,
    verified_host, redirect_uris
} }

impl Listed {
    /// Whether an operator vouched for it, wherever the client sends people.
    pub fn is_verified(&self) -> bool {
        let vouched = self.verified_host.as_deref().zip(self.redirect_uris.as_deref());
        vouched.is_some_and(|(host, uris)| leads_only_to(host, uris))
    }
}

/// Whether each of these redirect URIs, a JSON array, leads to the host. Which
/// one was used for a grant is not kept, so all have to.
fn leads_only_to(host: &str, redirect_uris: &str) -> bool {
    let uris: Vec<String> = serde_json::from_str(redirect_uris).unwrap_or_default();
    !uris.is_empty() && uris.iter().all(|uri| Destination::of(uri).shown == host)
}

pub fn by_id(workspace_id: WorkspaceId, id: GrantId) -> Stmt {
    BY_ID.with([workspace_id.into(), id.into()])
}

pub fn page(workspace_id: WorkspaceId, page: &Page) -> Stmt {
    page.statement(OLDER, NEWER, workspace_id, [])
}

/// Forgets codes and tokens that can be of no use to anybody. Codes expire in
/// steady time, tokens in that of the clocks that read them; one that was revoked
/// is known for longer, so that a clock that was set back does not revive it.
pub fn sweep(now: i64, steady: i64) -> Batch {
    Batch::new()
        .and(SWEEP_CODES.with([(steady - CODE_MEMORY).into()]))
        .and(SWEEP_REFRESH.with([now.into()]))
        .and(SWEEP_REVOKED.with([(now - REVOKED_MEMORY).into()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_218_one_redirect_elsewhere_costs_the_badge() {
        assert!(leads_only_to("app.example", r#"["https://app.example/a","https://app.example/b"]"#));
        assert!(!leads_only_to("app.example", r#"["https://app.example/a","http://127.0.0.1/cb"]"#));
        assert!(!leads_only_to("app.example", "[]"));
    }
}
