//! OAuth 2.0: applications obtain a user's consent to call the API on the
//! user's behalf.

mod answer;
mod authorize;
mod client_document;
mod clients;
mod consent;
mod fuzzing;
mod grant;
mod metadata;
#[cfg(test)]
mod properties;
mod redirect_uri;
mod refusal;
mod tokens;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use utoipa_axum::router::OpenApiRouter;

use crate::app::{App, holds_app};
use crate::clock::{Clock, HOUR};
use crate::credentials::raise_access;
use crate::db::{Db, DbError, Sql};
use crate::limits::{Attempts, RateLimit};

pub use answer::OAuthError;
pub use client_document::Documents;
pub use clients::{
    AuthMethod, Client, Clients, Grant, Origin, RegisteredClient, Registration, clients, delete_client, disable_client,
    insert_client, note_refusals, verify_client,
};
pub use fuzzing::{raw_query, redirect_match};
pub use grant::{Token, decide, revoke_token, router as grant_routes, tally};
pub use metadata::outside as metadata_outside;

pub const STATEMENTS: &[&[Sql]] =
    &[authorize::ALL, clients::ALL, clients::PAGE_STATEMENTS, clients::REFUSED_STATEMENTS, grant::ALL];

/// What OAuth needs beside what all share. Clones share it.
#[derive(Clone)]
pub struct OAuth {
    app: App,
    pub clients: Arc<Clients>,
    pub documents: Arc<Documents>,
    refusals: Arc<clients::Refusals>,
    limits: Arc<Limits>,
}

/// The rate limits, one for each door that strangers knock at.
struct Limits {
    authorize: RateLimit,
    register: RateLimit,
    token_address: Attempts,
}

holds_app!(OAuth { app: App });

impl OAuth {
    pub fn new(app: App) -> OAuth {
        let exempt = !app.config.limit_loopback;
        let limits = Limits {
            authorize: RateLimit::new(app.config.authorize_rate, Duration::from_secs(60), exempt),
            register: RateLimit::new(app.config.register_rate, Duration::from_secs(3600), exempt),
            token_address: Attempts::new(300),
        };
        OAuth {
            app,
            clients: Arc::default(),
            documents: Arc::default(),
            refusals: Arc::default(),
            limits: Arc::new(limits),
        }
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

/// A client that a stranger registered and nobody approved is forgotten after
/// this long.
const IDLE_CLIENT: i64 = 7 * 24 * HOUR;

pub fn routes() -> OpenApiRouter<OAuth> {
    authorize::router().merge(clients::router()).merge(tokens::router()).merge(metadata::router())
}

/// The pages of consent and of what came of it.
pub fn pages() -> Router<OAuth> {
    consent::router().merge(grant::pages()).merge(clients::pages())
}

/// Deletes what has expired: requests that nobody decided in time, codes and tokens.
pub async fn sweep(db: &Db, clock: &Clock) -> Result<(), DbError> {
    let (now, steady) = (clock.now(), clock.steady());
    authorize::sweep(db, steady).await?;
    db.commit(grant::sweep(now, steady).and(clients::sweep_documents(now))).await.map(drop)
}

/// Deletes the clients that strangers registered and nobody ever approved. Looks
/// at every client, so it is done now and then only.
pub async fn sweep_clients(db: &Db, clock: &Clock) -> Result<(), DbError> {
    let swept = db.commit(clients::sweep(clock.now() - IDLE_CLIENT)).await?;
    if swept.first().is_some_and(|effect| effect.changed > 0) {
        db.commit(raise_access()).await?;
    }
    Ok(())
}
