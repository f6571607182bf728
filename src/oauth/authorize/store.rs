//! Authorization requests in the store.

use super::rules::PendingRequest;
use crate::clock::{MINUTE, first_id_at};
use crate::db::{Db, DbError, Sql, Stmt, from_row, statements};
use crate::id::{AuthorizationRequestId, UserId};

/// How long a person has to decide.
const LIFETIME: i64 = 10 * MINUTE;

/// How many expired requests one commit deletes.
const SWEEP: i64 = 1000;

statements! {
    functions {
        pub fn insert_request(id: AuthorizationRequestId, request: &PendingRequest, now: i64)
            with [id, &request.client_id, &request.redirect_uri, request.scopes.to_string(), request.state.as_deref(),
                &request.code_challenge, now, now + LIFETIME] = Sql::both(
            "INSERT INTO authorization_requests
                 (id, client_id, redirect_uri, scopes, state, code_challenge, created_at, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)");
    }
    reads {
        pub fn find_request(id: AuthorizationRequestId) -> Option<StoredRequest> = Sql::both(
            "SELECT client_id, redirect_uri, scopes, state, code_challenge, expires_at,
                    CASE WHEN decided_at IS NULL THEN 0 ELSE 1 END, session_hash, user_id
             FROM authorization_requests WHERE id = $1");
    }
    BIND_REQUEST = Sql::both(
        "UPDATE authorization_requests SET session_hash = $2, user_id = $3 WHERE id = $1 AND session_hash IS NULL");
    REBIND_REQUEST = Sql::both(
        "UPDATE authorization_requests SET session_hash = $2
         WHERE id = $1 AND user_id = $3 AND session_hash = $4 AND decided_at IS NULL");
    /// Ids sort by the time they were made at, so the oldest come first.
    SWEEP_REQUESTS = Sql::both(
        "DELETE FROM authorization_requests WHERE id IN
             (SELECT id FROM authorization_requests WHERE id < $1 AND expires_at <= $2 ORDER BY id LIMIT $3)");
}

/// A request as the store keeps it.
pub struct StoredRequest {
    pub request: PendingRequest,
    pub expires_at: i64,
    pub decided: bool,
    pub bound_to: Option<Bound>,
}

/// The session that opened a request first.
pub struct Bound {
    pub session_hash: Vec<u8>,
    pub user_id: UserId,
}

from_row!(PendingRequest { client_id, redirect_uri, scopes, state, code_challenge });
from_row!(Bound { session_hash, user_id });
from_row!(StoredRequest { request, expires_at, decided, bound_to });

/// Binds a request to a session: one that nobody has opened, or one that the
/// same user's session `before` had.
pub fn bind_request(
    id: AuthorizationRequestId,
    session: &[u8; 32],
    user_id: UserId,
    before: Option<&[u8; 32]>,
) -> Stmt {
    match before {
        None => BIND_REQUEST.with([id.into(), session.into(), user_id.into()]),
        Some(before) => REBIND_REQUEST.with([id.into(), session.into(), user_id.into(), before.into()]),
    }
}

/// Deletes the requests that nobody decided in time, a bounded number at once.
pub async fn sweep(db: &Db, now: i64) -> Result<(), DbError> {
    let first = first_id_at(now - LIFETIME + 1);
    loop {
        let swept = db.commit(SWEEP_REQUESTS.with([first.into(), now.into(), SWEEP.into()])).await?;
        if swept.first().is_none_or(|effect| effect.changed < SWEEP as u64) {
            return Ok(());
        }
    }
}
