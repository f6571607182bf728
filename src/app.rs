//! The running product: what it holds, and the list of its routes.

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::Notify;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::auth::Credentials;
use crate::auth::password::Hasher;
use crate::automations::triggers::Triggers;
use crate::clock::Clock;
use crate::config::{Config, PublicUrl};
use crate::db::{Db, Sql};
use crate::events::Definitions;
use crate::oauth::{Clients, Documents};
use crate::seal::Seal;
use crate::web::address::neighbourhood;
use crate::web::admission::Admission;
use crate::web::attempts::Attempts;
use crate::web::limit::Limit;
use crate::web::spool::DiskUse;
use crate::web::{assets, docs, gate, idempotency, system};
use crate::{accounts, api_keys, auth, automations, contacts, db, events, hold, mail, oauth, segments, topics};

/// Everything a handler can reach. Clones share it.
#[derive(Clone)]
pub struct App(Arc<Parts>);

pub struct Parts {
    pub config: Config,
    pub addresses: Addresses,
    pub db: Db,
    pub clock: Clock,
    pub seal: Arc<Seal>,
    pub credentials: Credentials,
    pub clients: Clients,
    pub documents: Documents,
    pub definitions: Definitions,
    pub triggers: Triggers,
    /// Rings when there is work that a worker need not wait for.
    work: Notify,
    pub hasher: Hasher,
    pub limits: Limits,
    pub admission: Admission,
    pub readiness: system::Probes,
    /// What bodies take on disk.
    pub spooled: DiskUse,
    pub metrics: PrometheusHandle,
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl AsRef<App> for App {
    fn as_ref(&self) -> &App {
        self
    }
}

/// Where the outside finds us. Never taken from a request.
#[derive(Debug, Clone)]
pub struct Addresses {
    pub base: PublicUrl,
    pub dashboard: PublicUrl,
}

impl Addresses {
    /// What a protected-resource challenge points at.
    pub fn resource_metadata(&self) -> String {
        format!("{}/.well-known/oauth-protected-resource{}", self.base.origin(), self.base.path())
    }

    fn share_a_host(&self) -> bool {
        self.base.origin() == self.dashboard.origin()
    }
}

/// The rate limits, one for each door that strangers knock at.
pub struct Limits {
    pub authorize: Limit,
    pub register: Limit,
    pub login_account: Attempts,
    pub login_address: Attempts,
    pub token_address: Attempts,
    exempt_loopback: bool,
}

impl Limits {
    pub fn new(config: &Config) -> Limits {
        let exempt = !config.limit_loopback;
        Limits {
            authorize: Limit::new(config.authorize_rate, Duration::from_secs(60), exempt),
            register: Limit::new(config.register_rate, Duration::from_secs(3600), exempt),
            login_account: Attempts::new(10),
            login_address: Attempts::new(50),
            token_address: Attempts::new(300),
            exempt_loopback: exempt,
        }
    }
}

impl Limits {
    /// Under what name failures are held against an address, if they are.
    pub fn counted(&self, address: IpAddr) -> Option<String> {
        let exempt = self.exempt_loopback && address.to_canonical().is_loopback();
        (!exempt).then(|| neighbourhood(address).to_string())
    }

    pub fn sweep(&self, now: i64) {
        [&self.authorize, &self.register].iter().for_each(|limit| limit.sweep());
        [&self.login_account, &self.login_address, &self.token_address].iter().for_each(|limit| limit.sweep(now));
    }
}

impl App {
    pub fn new(
        config: Config,
        addresses: Addresses,
        db: Db,
        clock: Clock,
        metrics: PrometheusHandle,
        seal: Seal,
    ) -> App {
        let limits = Limits::new(&config);
        let triggers = Triggers::new(config.contact_run_limit);
        let seal = Arc::new(seal);
        let credentials = Credentials::new(seal.clone());
        App(Arc::new(Parts {
            config,
            addresses,
            db,
            clock,
            seal,
            credentials,
            clients: Clients::default(),
            documents: Documents::default(),
            definitions: Definitions::default(),
            triggers,
            work: Notify::new(),
            hasher: Hasher::default(),
            limits,
            admission: Admission::default(),
            readiness: system::Probes::default(),
            spooled: DiskUse::default(),
            metrics,
        }))
    }

    /// Tells this process's workers that something is due, if it is.
    pub fn wake_workers_if(&self, is_due: bool) {
        if is_due {
            self.work.notify_one();
        }
    }

    /// Resolves when somebody said that something is due.
    pub async fn work_waits(&self) {
        self.work.notified().await;
    }

    /// The same, with clients' documents from somewhere else than the internet.
    #[cfg(test)]
    pub(crate) fn reading(mut self, documents: Documents) -> App {
        Arc::get_mut(&mut self.0).expect("an app that nobody else holds").documents = documents;
        self
    }

    /// What stands behind the gate, told apart by host where hosts differ.
    pub fn site(&self) -> gate::Site {
        let (base, dashboard) = (self.addresses.base.path(), self.addresses.dashboard.path());
        let description = openapi(self.addresses.base.as_str());
        let refusing = |router: Router<App>| router.method_not_allowed_fallback(gate::method_not_allowed);
        let named = |router: Router<App>| router.route_layer(gate::NameRoute::default());
        let callers = refusing(for_callers().into()).route_layer(gate::NameRoute::for_callers(self.clone()));
        let doors = refusing(Router::from(doors()).merge(system::described(self, &description)));
        let api = callers.merge(named(doors)).fallback(gate::not_found);
        let outside = refusing(oauth::metadata::outside(base));
        let main = nested(base, api).merge(if outside.has_routes() { named(outside) } else { outside });
        let pages = named(nested(dashboard, pages()));
        let finish = |router: Router<App>| router.with_state(self.clone());
        if !self.addresses.share_a_host() {
            return gate::Site { main: finish(main), dashboard: Some(finish(pages)) };
        }
        let mut main = main.merge(pages);
        if !base.is_empty() && !dashboard.is_empty() {
            main = main.fallback(gate::not_found);
        }
        gate::Site { main: finish(main), dashboard: None }
    }
}

/// The API: for programs, with a credential. What is listed here, and OAuth's own
/// doors, is described in `/openapi.json`.
fn for_callers() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(docs::description())
        .merge(api_keys::routes::router())
        .merge(contacts::router())
        .merge(segments::routes::router())
        .merge(segments::audiences::router())
        .merge(topics::routes::router())
        .merge(events::routes::router())
        .merge(events::occurrences::routes::router())
        .merge(automations::routes::router())
        .merge(automations::runs::routes::router())
        .merge(oauth::grant_routes())
}

/// What nobody has to show an API key or an access token for.
fn doors() -> OpenApiRouter<App> {
    OpenApiRouter::new().merge(oauth::routes()).merge(system::routes())
}

/// The API's description, as `/openapi.json` and `posthorn openapi` show it, of
/// a server at `base`.
pub fn openapi(base: &str) -> OpenApi {
    docs::finished(for_callers().merge(doors()).into_openapi(), base)
}

/// Pages for people.
fn pages() -> Router<App> {
    accounts::pages()
        .merge(api_keys::pages::router())
        .merge(contacts::pages::router())
        .merge(events::pages::router())
        .merge(automations::pages::router())
        .merge(automations::runs::pages::router())
        .merge(mail::pages::router())
        .merge(oauth::pages())
        .merge(assets::router())
        .method_not_allowed_fallback(gate::method_not_allowed)
        .fallback(gate::no_such_page)
}

/// Puts a router at the path of a public address.
fn nested(path: &str, router: Router<App>) -> Router<App> {
    if path.is_empty() { router } else { Router::new().nest(path, router) }
}

/// Every statement of every feature, for the test that prepares them all.
pub fn statements() -> impl Iterator<Item = Sql> {
    [
        accounts::device::ALL,
        accounts::store::ALL,
        api_keys::store::ALL,
        auth::store::ALL,
        automations::app_grants::ALL,
        automations::engine::pauses::ALL,
        automations::engine::store::ALL,
        automations::entry::ALL,
        automations::triggers::ALL,
        db::inspect::ALL,
        events::occurrences::store::ALL,
        idempotency::ALL,
        automations::runs::store::ALL,
        automations::store::ALL,
        contacts::imports::store::ALL,
        contacts::properties_store::ALL,
        contacts::store::ALL,
        db::clock::ALL,
        db::migrate::ALL,
        events::store::ALL,
        hold::ALL,
        mail::store::ALL,
        oauth::app_automations::ALL,
        oauth::grant::ALL,
        oauth::store::ALL,
        segments::store::ALL,
        system::ALL,
        topics::store::ALL,
    ]
    .into_iter()
    .flatten()
    .copied()
}
