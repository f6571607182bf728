//! The whole product: the state of every feature, made from what they share, and the
//! list of all routes.

mod description;
#[cfg(test)]
mod roles;
mod types;

use std::sync::Arc;

use axum::{Router, middleware};
use serde_json::Value;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::accounts::{self, Accounts};
use crate::app::{App, holds_app};
use crate::automations::{self, Triggers};
use crate::broadcasts::{self, Broadcasts, MailsToRead};
use crate::db::{self, Sql};
use crate::domains::{self, Domains};
use crate::emails::{self, Emails};
use crate::events::{self, Events};
use crate::forms::{self, Forms};
use crate::memory::{Lazily, made_apart};
use crate::oauth::{self, OAuth};
use crate::occurrences::{self, Occurrences};
use crate::receiving::{self, Receiving};
use crate::relay_reports::{self, RelayReports};
use crate::request_log::{self, Calls, RequestLog};
use crate::subscriptions::{self, Preferences};
use crate::templates::{self, Templates};
use crate::tracking::{self, Tracker};
use crate::web::{self, Gate, System};
use crate::{
    api_keys, audit, auth, calls, contacts, credentials, delivery, docs, email_metrics, grants, hold, home, mcp,
    segments, suppressions, topics, upkeep, usage, webhooks, workspaces,
};

/// Every feature's state. Clones share it.
#[derive(Clone)]
pub struct Product {
    app: App,
    accounts: Accounts,
    oauth: OAuth,
    events: Events,
    domains: Domains,
    emails: Emails,
    receiving: Receiving,
    broadcasts: Broadcasts,
    templates: Templates,
    /// Shows mail as it travels.
    writer: delivery::Writer,
    preferences: Preferences,
    forms: Forms,
    relay_reports: RelayReports,
    request_log: RequestLog,
    tracker: Tracker,
    system: System,
    described: Lazily<Described>,
}

holds_app!(Product { app: App });

impl Product {
    pub fn new(app: App) -> Product {
        let triggers = Box::new(Triggers::new(app.config.contact_run_limit));
        let occurrences = Occurrences::new(app.clone(), triggers);
        let domains = Domains::new(app.clone());
        let templates = Templates::new(app.clone());
        let emails = Emails::new(occurrences.clone(), domains.clone(), templates.clone(), Arc::new(MailsToRead));
        Product {
            accounts: Accounts::new(app.clone(), Arc::new(delivery::OwnMail(app.clone()))),
            oauth: OAuth::new(app.clone()),
            forms: Forms::new(emails.clone()),
            receiving: Receiving::new(occurrences.clone(), emails.clone()),
            emails,
            broadcasts: Broadcasts::new(occurrences.clone(), domains.clone(), templates.clone()),
            preferences: Preferences::new(occurrences.clone()),
            relay_reports: RelayReports::new(occurrences.clone()),
            events: Events::new(occurrences),
            writer: delivery::Writer::new(app.clone(), domains.clone(), 1),
            domains,
            templates,
            request_log: RequestLog::default(),
            tracker: Tracker::new(app.clone()),
            system: System::new(app.clone()),
            described: Lazily::new({
                let app = app.clone();
                move || Described::new(&app)
            }),
            app,
        }
    }

    pub fn occurrences(&self) -> &Occurrences {
        self.events.occurrences()
    }

    pub fn emails(&self) -> &Emails {
        &self.emails
    }

    pub fn receiving(&self) -> &Receiving {
        &self.receiving
    }

    pub fn broadcasts(&self) -> &Broadcasts {
        &self.broadcasts
    }

    pub fn domains(&self) -> &Domains {
        &self.domains
    }

    pub fn templates(&self) -> &Templates {
        &self.templates
    }

    pub fn request_log(&self) -> &RequestLog {
        &self.request_log
    }

    /// The same, with clients' documents from somewhere else than the internet.
    #[cfg(test)]
    pub(crate) fn reading(self, documents: oauth::Documents) -> Product {
        Product { oauth: self.oauth.reading(documents), ..self }
    }

    pub fn oauth(&self) -> &OAuth {
        &self.oauth
    }

    /// Forgets what strangers tried so long ago that it counts no more.
    pub fn sweep_limits(&self) {
        self.accounts.sweep_limits();
        self.oauth.sweep_limits();
        self.preferences.sweep_limits();
        self.forms.sweep_limits();
        self.relay_reports.sweep_limits();
        self.tracker.sweep_limits();
    }

    /// Makes what is made when it is first asked for, so that nobody has to wait for it.
    pub fn prepare(&self) {
        self.described.get();
    }

    /// The gate, with everything behind it.
    pub fn gate(&self) -> Gate {
        Gate::new(self.app.clone(), made_apart(|| self.site()))
    }

    /// What stands behind the gate, told apart by host where hosts differ.
    fn site(&self) -> web::Site {
        let (base, dashboard) = (self.addresses.base.path(), self.addresses.dashboard.path());
        let for_callers = Router::from(self.for_callers());
        let assistants = mcp::routes(self.app.clone(), for_callers.clone(), self.described.part(|whole| &whole.tools));
        let refusing = |router: Router| router.method_not_allowed_fallback(web::method_not_allowed);
        let named = |router: Router| router.route_layer(web::NameRoute::default());
        let observer = Arc::new(Calls::new(self.app.clone(), self.request_log.clone()));
        let queries = self.described.part(|whole| &whole.queries);
        let callers = refusing(for_callers.merge(assistants)).route_layer(web::NameRoute::for_callers(
            self.app.clone(),
            queries,
            observer,
        ));
        let described = web::description_routes(self.described.part(|whole| &whole.shown))
            .merge(docs::routes(self.app.clone(), self.described.part(|whole| &whole.shown)))
            .merge(home::beside_api().with_state(self.app.clone()));
        let public = subscriptions::pages()
            .with_state(self.preferences.clone())
            .merge(forms::pages().with_state(self.forms.clone()))
            .merge(relay_reports::routes().with_state(self.relay_reports.clone()))
            .merge(tracking::pages().with_state(self.tracker.clone()));
        let doors = refusing(Router::from(self.doors()).merge(described).merge(public));
        let api = callers.merge(named(doors)).fallback(web::not_found);
        let outside = refusing(oauth::metadata_outside(base).with_state(self.oauth.clone()));
        let main = nested(base, api).merge(if outside.has_routes() { named(outside) } else { outside });
        let pages = named(nested(dashboard, self.pages()));
        if !self.addresses.share_a_host() {
            return web::Site { main, dashboard: Some(pages) };
        }
        let mut main = main.merge(pages);
        if !base.is_empty() && !dashboard.is_empty() {
            main = main.fallback(web::not_found);
        }
        web::Site { main, dashboard: None }
    }

    /// The API: for programs, with a credential. What is listed here, and OAuth's own
    /// doors, is described in `/openapi.json`.
    fn for_callers(&self) -> OpenApiRouter {
        let (app, occurrences) = (|| self.app.clone(), || self.occurrences().clone());
        OpenApiRouter::new()
            .merge(emails::routes().with_state(self.emails.clone()))
            .merge(receiving::routes().with_state(self.receiving.clone()))
            .merge(broadcasts::routes().with_state(self.broadcasts.clone()))
            .merge(templates::routes().with_state(self.templates.clone()))
            .merge(api_keys::routes().with_state(app()))
            .merge(domains::routes().with_state(self.domains.clone()))
            .merge(contacts::routes().with_state(occurrences()))
            .merge(segments::routes().with_state(app()))
            .merge(topics::routes().with_state(app()))
            .merge(suppressions::routes().with_state(app()))
            .merge(subscriptions::routes().with_state(app()))
            .merge(forms::routes().with_state(self.forms.clone()))
            .merge(events::routes().with_state(self.events.clone()))
            .merge(automations::routes().with_state(app()))
            .merge(webhooks::routes().with_state(app()))
            .merge(oauth::grant_routes().with_state(self.oauth.clone()))
            .merge(workspaces::routes().with_state(app()))
            .merge(email_metrics::routes().with_state(app()))
            .merge(request_log::routes().with_state(app()))
            .merge(usage::router().with_state(app()))
    }

    /// What nobody has to show an API key or an access token for.
    fn doors(&self) -> OpenApiRouter {
        OpenApiRouter::new()
            .merge(oauth::routes().with_state(self.oauth.clone()))
            .merge(emails::link_routes().with_state(self.emails.clone()))
            .merge(receiving::link_routes().with_state(self.receiving.clone()))
            .merge(web::system_routes().with_state(self.system.clone()))
    }

    /// Pages for people.
    fn pages(&self) -> Router {
        let app = || self.app.clone();
        Router::<App>::new()
            .merge(home::pages())
            .merge(accounts::pages().with_state(self.accounts.clone()))
            .merge(api_keys::pages().with_state(app()))
            .merge(webhooks::pages().with_state(app()))
            .merge(suppressions::pages().with_state(app()))
            .merge(request_log::pages().with_state(app()))
            .merge(email_metrics::pages().with_state(app()))
            .merge(domains::pages().with_state(self.domains.clone()))
            .merge(contacts::pages().with_state(self.occurrences().clone()))
            .merge(topics::pages().with_state(app()))
            .merge(forms::dashboard().with_state(self.forms.clone()))
            .merge(subscriptions::dashboard().with_state(app()))
            .merge(usage::pages().with_state(app()))
            .merge(events::pages().with_state(self.events.clone()))
            .merge(automations::pages().with_state(app()))
            .merge(emails::pages().with_state(self.emails.clone()))
            .merge(receiving::pages().with_state(self.receiving.clone()))
            .merge(broadcasts::pages().with_state(self.broadcasts.clone()))
            .merge(templates::pages().with_state(self.templates.clone()))
            .merge(delivery::pages().with_state(self.writer.clone()))
            .merge(oauth::pages().with_state(self.oauth.clone()))
            .merge(workspaces::pages().with_state(app()))
            .merge(web::assets())
            .method_not_allowed_fallback(web::method_not_allowed)
            .fallback(accounts::no_such_page)
            .layer(middleware::from_fn_with_state(app(), accounts::show_errors))
            .with_state(app())
    }

    /// The paths of all pages, from the router itself: so none can be forgotten where each is tried.
    pub fn page_paths(&self) -> Vec<String> {
        let drawn = format!("{:?}", self.pages());
        let named = drawn.split("RouteId(").filter_map(|entry| entry.split_once("): \"")?.1.split('"').next());
        let mut paths: Vec<String> = named.filter(|path| !path.contains("__private__")).map(str::to_owned).collect();
        paths.sort();
        paths.dedup();
        paths
    }
}

/// The API's description, in each of the shapes that are needed.
struct Described {
    shown: Arc<web::ShownDescription>,
    queries: Arc<web::KnownQueries>,
    tools: Arc<mcp::Tools>,
}

impl Described {
    fn new(app: &App) -> Described {
        let document = openapi(app.addresses.base.as_str());
        Described {
            shown: Arc::new(web::ShownDescription::new(&document)),
            queries: Arc::new(web::KnownQueries::of(&document)),
            tools: Arc::new(mcp::tools(&document)),
        }
    }
}

/// The API's description of a server at `base`, as `/openapi.json` shows it.
pub fn openapi(base: &str) -> Value {
    let parts: [fn() -> OpenApi; 24] = [
        || emails::routes().into_openapi(),
        || receiving::routes().into_openapi(),
        || broadcasts::routes().into_openapi(),
        || templates::routes().into_openapi(),
        || api_keys::routes().into_openapi(),
        || domains::routes().into_openapi(),
        || contacts::routes().into_openapi(),
        || segments::routes().into_openapi(),
        || topics::routes().into_openapi(),
        || suppressions::routes().into_openapi(),
        || subscriptions::routes().into_openapi(),
        || forms::routes().into_openapi(),
        || events::routes().into_openapi(),
        || automations::routes().into_openapi(),
        || webhooks::routes().into_openapi(),
        || oauth::grant_routes().into_openapi(),
        || workspaces::routes().into_openapi(),
        || email_metrics::routes().into_openapi(),
        || request_log::routes().into_openapi(),
        || usage::router().into_openapi(),
        || oauth::routes().into_openapi(),
        || emails::link_routes().into_openapi(),
        || receiving::link_routes().into_openapi(),
        || web::system_routes().into_openapi(),
    ];
    description::published(base, parts.into_iter().map(|part| part()))
}

/// Puts a router at the path of a public address.
fn nested(path: &str, router: Router) -> Router {
    if path.is_empty() { router } else { Router::new().nest(path, router) }
}

/// Every statement of every feature, for the test that prepares them all.
pub fn statements() -> impl Iterator<Item = Sql> {
    [
        accounts::STATEMENTS,
        api_keys::STATEMENTS,
        audit::STATEMENTS,
        auth::STATEMENTS,
        automations::STATEMENTS,
        broadcasts::STATEMENTS,
        calls::STATEMENTS,
        contacts::STATEMENTS,
        credentials::STATEMENTS,
        db::STATEMENTS,
        delivery::STATEMENTS,
        domains::STATEMENTS,
        email_metrics::STATEMENTS,
        emails::STATEMENTS,
        events::STATEMENTS,
        forms::STATEMENTS,
        grants::STATEMENTS,
        hold::STATEMENTS,
        home::STATEMENTS,
        mcp::STATEMENTS,
        oauth::STATEMENTS,
        occurrences::STATEMENTS,
        receiving::STATEMENTS,
        relay_reports::STATEMENTS,
        request_log::STATEMENTS,
        segments::STATEMENTS,
        subscriptions::STATEMENTS,
        suppressions::STATEMENTS,
        templates::STATEMENTS,
        topics::STATEMENTS,
        tracking::STATEMENTS,
        upkeep::STATEMENTS,
        usage::STATEMENTS,
        web::STATEMENTS,
        webhooks::STATEMENTS,
        workspaces::STATEMENTS,
    ]
    .into_iter()
    .flatten()
    .flat_map(|list| list.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::testing::Store;

    #[tokio::test]
    async fn what_is_described_is_what_is_served() {
        for store in Store::each().await {
            let product = store.open(&[], Clock::system()).await;
            let base = product.addresses.base.as_str();
            let served = product.for_callers().merge(product.doors()).into_openapi();
            let (served, described) = (description::published(base, [served]), openapi(base));
            let paths =
                |whole: &serde_json::Value| whole["paths"].as_object().expect("paths").keys().cloned().collect();
            let (served_paths, described_paths): (Vec<String>, Vec<String>) = (paths(&served), paths(&described));
            assert_eq!(described_paths, served_paths);
            assert_eq!(described, served);
            store.discard().await;
        }
    }
}
