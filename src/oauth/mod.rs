//! OAuth 2.0: applications obtain a user's consent to call the API on the
//! user's behalf.
//!
//! ```text
//!  client ── POST /oauth/register ──────────────► client_id
//!  browser ─ GET /oauth/authorize?… ────────────► 302 to the consent page
//!            dashboard /oauth/authorize/<id> ───► who asks, and what for
//! ```
//!
//! | Route | |
//! |---|---|
//! | `GET /oauth/authorize` | start the authorization code flow with PKCE |
//! | `POST /oauth/register` | register a client (RFC 7591) |
//! | `GET /.well-known/oauth-authorization-server` | what this server offers (RFC 8414) |
//! | `GET /.well-known/oauth-protected-resource` | what protects the API (RFC 9728) |

mod answer;
pub mod app_automations;
mod apps;
pub mod authorize;
mod authorize_route;
pub mod client;
mod client_auth;
pub mod client_document;
mod clients;
pub mod consent;
mod destination;
pub mod fuzzing;
pub mod grant;
pub mod metadata;
mod pages;
pub mod redirect_uri;
pub mod refresh;
pub mod refusal;
pub mod register;
pub mod registration;
pub mod revoke;
pub mod scope;
pub mod store;
pub mod token;

#[cfg(test)]
mod authorize_tests;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod redirect_uri_registration_vectors;
#[cfg(test)]
mod redirect_uri_vectors;
#[cfg(test)]
mod registration_tests;

use axum::Router;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter, UtoipaMethodRouterExt};
use utoipa_axum::routes;

use crate::app::App;
use crate::clock::{Clock, HOUR, MINUTE};
use crate::db::{Batch, Db, DbError};
use crate::id::UserId;

pub use answer::OAuthError;
pub use client_document::Documents;
pub use clients::Clients;
pub use grant::tally;

/// How long a person has to decide.
pub const REQUEST_LIFETIME: i64 = 10 * MINUTE;

/// A client that a stranger registered and nobody approved is forgotten after
/// this long.
const IDLE_CLIENT: i64 = 7 * 24 * HOUR;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(
            routes!(authorize_route::authorize)
                .map(|route| route.head(authorize_route::only_get).fallback(authorize_route::only_get)),
        )
        .routes(preflighted(routes!(register::register)))
        .routes(preflighted(routes!(token::token)))
        .routes(preflighted(routes!(revoke::revoke)))
        .merge(metadata::router())
}

/// The grants of a workspace, for whoever shows a credential.
pub fn grant_routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(revoke::list)).routes(routes!(revoke::delete))
}

/// The pages of consent and of what came of it.
pub fn pages() -> Router<App> {
    consent::router().merge(apps::router())
}

/// Ends whatever a user has let apps do, in every workspace.
pub fn end_grants_of(user_id: UserId, reason: grant::Reason, now: i64) -> Batch {
    grant::revoke_of(user_id, reason, now)
}

/// Lets pages of other origins use a route: a browser asks first.
fn preflighted(route: UtoipaMethodRouter<App>) -> UtoipaMethodRouter<App> {
    route.map(|route| route.options(answer::preflight))
}

/// Deletes the requests that nobody decided in time, a bounded number at once;
/// then codes and tokens that have expired.
pub async fn sweep(db: &Db, clock: &Clock) -> Result<(), DbError> {
    let now = clock.now();
    let mut full = true;
    while full {
        let swept = db.commit(store::sweep_requests(clock.steady())).await?;
        full = swept.first().is_some_and(|effect| effect.changed >= store::SWEEP as u64);
    }
    db.commit(grant::sweep(now, clock.steady()).and(store::sweep_documents(now))).await.map(drop)
}

/// Deletes the clients that strangers registered and nobody ever approved. Looks
/// at every client, so it is done now and then only.
pub async fn sweep_clients(db: &Db, clock: &Clock) -> Result<(), DbError> {
    let now = clock.now();
    let clients = db.commit(store::sweep_clients(now - IDLE_CLIENT)).await?;
    if clients.first().is_some_and(|effect| effect.changed > 0) {
        db.commit(crate::auth::store::raise_access()).await?;
    }
    Ok(())
}
