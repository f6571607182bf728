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
mod apps;
mod authorize;
mod authorize_route;
mod client;
mod client_auth;
mod client_document;
mod clients;
mod consent;
mod destination;
mod fuzzing;
mod grant;
mod metadata;
mod pages;
mod redirect_uri;
mod refresh;
mod refusal;
mod register;
mod registration;
mod revoke;
mod store;
mod token;

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

pub use client::{AuthMethod, Grant};
pub use fuzzing::{raw_query, redirect_match};
pub use grant::{decide, revoke_token};
pub use refresh::Token;
pub use registration::{Origin, Registration, response};
pub use store::{clients, delete_client, disable_client, insert_client, verify_client};

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::FromRef;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter, UtoipaMethodRouterExt};
use utoipa_axum::routes;

use crate::app::App;
use crate::clock::{Clock, HOUR, MINUTE};
use crate::credentials::raise_access;
use crate::db::{Db, DbError, Sql};
use crate::limits::{Attempts, RateLimit};

pub use answer::OAuthError;
pub use client_document::Documents;
pub use clients::Clients;
pub use grant::tally;
pub use metadata::outside as metadata_outside;

pub const STATEMENTS: &[&[Sql]] = &[grant::ALL, store::ALL];

/// What OAuth needs beside what all share. Clones share it.
#[derive(Clone)]
pub struct OAuth {
    app: App,
    pub clients: Arc<Clients>,
    pub documents: Arc<Documents>,
    limits: Arc<Limits>,
}

/// The rate limits, one for each door that strangers knock at.
struct Limits {
    authorize: RateLimit,
    register: RateLimit,
    token_address: Attempts,
}

impl Deref for OAuth {
    type Target = App;

    fn deref(&self) -> &App {
        &self.app
    }
}

impl FromRef<OAuth> for App {
    fn from_ref(oauth: &OAuth) -> App {
        oauth.app.clone()
    }
}

impl OAuth {
    pub fn new(app: App) -> OAuth {
        let exempt = !app.config.limit_loopback;
        let limits = Limits {
            authorize: RateLimit::new(app.config.authorize_rate, Duration::from_secs(60), exempt),
            register: RateLimit::new(app.config.register_rate, Duration::from_secs(3600), exempt),
            token_address: Attempts::new(300),
        };
        OAuth { app, clients: Arc::default(), documents: Arc::default(), limits: Arc::new(limits) }
    }

    /// The same, with clients' documents from somewhere else than the internet.
    #[cfg(test)]
    pub(crate) fn reading(self, documents: Documents) -> OAuth {
        OAuth { documents: Arc::new(documents), ..self }
    }

    /// Forgets who knocked so long ago that it counts no more.
    pub fn sweep_limits(&self) {
        self.limits.authorize.sweep();
        self.limits.register.sweep();
        self.limits.token_address.sweep(self.clock.steady());
    }
}

/// How long a person has to decide.
pub const REQUEST_LIFETIME: i64 = 10 * MINUTE;

/// A client that a stranger registered and nobody approved is forgotten after
/// this long.
const IDLE_CLIENT: i64 = 7 * 24 * HOUR;

pub fn routes() -> OpenApiRouter<OAuth> {
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
pub fn grant_routes() -> OpenApiRouter<OAuth> {
    OpenApiRouter::new().routes(routes!(revoke::list)).routes(routes!(revoke::delete))
}

/// The pages of consent and of what came of it.
pub fn pages() -> Router<OAuth> {
    consent::router().merge(apps::router())
}

/// Lets pages of other origins use a route: a browser asks first.
fn preflighted(route: UtoipaMethodRouter<OAuth>) -> UtoipaMethodRouter<OAuth> {
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
        db.commit(raise_access()).await?;
    }
    Ok(())
}
