//! The gate: every request passes here on its way in and out. It names the
//! request, finds who sent it, sends it to the right router, and writes the one
//! line of log and the metrics that a request gets.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::MatchedPath;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::header::{AUTHORIZATION, HOST, HeaderName, X_CONTENT_TYPE_OPTIONS};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, Uri};
use metrics::{Counter, Histogram};
use percent_encoding::percent_decode_str;
use tower::{Layer, Service, ServiceExt};
use uuid::Uuid;

use super::compression::{Accepted, compress};
use super::stream::REQUEST_LINE;
use super::warnings::{self, Handling, KnownQueries};
use super::{layout, system, workspace_path};
use crate::app::{Addresses, App};
use crate::auth::{self, Sender};
use crate::config::PublicUrl;
use crate::error::Error;
use crate::id::WorkspaceId;
use crate::limits;
use crate::memory::Lazily;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The routers behind the gate.
pub struct Site {
    pub main: Router,
    /// Only where the dashboard has a host of its own.
    pub dashboard: Option<Router>,
}

pub struct Gate {
    app: App,
    site: Site,
}

impl Gate {
    pub fn new(app: App, site: Site) -> Gate {
        Gate { app, site }
    }

    /// A gate before other routers than the product's: the benchmarks put an
    /// empty handler behind it, to measure what the gate itself costs.
    pub fn before(app: App, main: Router) -> Gate {
        let main = main.route_layer(NameRoute::default());
        Gate { app, site: Site { main, dashboard: None } }
    }

    pub async fn handle(&self, mut request: Request<Body>, peer: IpAddr) -> Response {
        let started = Instant::now();
        let id = Uuid::new_v4();
        let method = request.method().clone();
        let sender = self.sender(&request, peer);
        request.extensions_mut().insert(Sender(sender));
        self.mend_slashes(&mut request);

        let accepted = Accepted::by(&request);
        let response = match check_form(&request) {
            Ok(()) => self.route(request, id).await,
            Err(error) => error.into_response(),
        };
        let mut response = compress(response, accepted);
        let mut buffer = Uuid::encode_buffer();
        let shown_id: &str = id.as_hyphenated().encode_lower(&mut buffer);
        if let Ok(value) = HeaderValue::from_str(shown_id) {
            response.headers_mut().insert(REQUEST_ID, value);
        }
        response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        record(&method, &response, started, shown_id, sender);
        response
    }

    /// Hands a request to its router. A path that is not text names nothing;
    /// a handler that panics has an answer all the same.
    async fn route(&self, mut request: Request<Body>, id: Uuid) -> Response {
        let for_people = self.is_for_people(&request);
        if for_people {
            workspace_path::take(&mut request, self.app.addresses.dashboard.path());
        }
        let refuse =
            |error: Error| if for_people { layout::error_page(&self.app, &error) } else { error.into_response() };
        if percent_decode_str(request.uri().path()).decode_utf8().is_err() {
            return refuse(not_found().await);
        }
        let router = self.router(&request).clone();
        match AssertUnwindSafe(limits::serving(router.oneshot(request))).catch_unwind().await {
            Ok(Ok(response)) => response,
            Ok(Err(never)) => match never {},
            Err(_) => {
                tracing::error!(request_id = %id, "a handler panicked");
                refuse(Error::Internal)
            }
        }
    }

    /// Proxies append the address they saw, so the list is believed from its
    /// end, for as long as a configured proxy vouches for what stands before it.
    fn sender(&self, request: &Request<Body>, peer: IpAddr) -> IpAddr {
        let proxies = &self.app.config.trusted_proxies;
        let trusted = |address: IpAddr| proxies.iter().any(|network| network.contains(address));
        if proxies.is_empty() || !trusted(peer) {
            return peer;
        }
        let lines = request.headers().get_all(FORWARDED_FOR).iter().rev();
        let hops = lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','));
        let mut sender = peer;
        for hop in hops {
            // What is no address was written by whoever is in front of the last that is one.
            let Some(address) = str::from_utf8(hop).ok().and_then(|hop| forwarded(hop.trim())) else { break };
            sender = address;
            if !trusted(address) {
                break;
            }
        }
        sender
    }

    /// A base URL written with a slash at its end gives `//events` when clients
    /// append their paths, and some write `/events/`. Only the front and the end are
    /// mended: names in paths keep the slashes within. What is for operators answers
    /// by its exact path alone: that is what a proxy before us is told to keep from
    /// others.
    fn mend_slashes(&self, request: &mut Request<Body>) {
        let path = request.uri().path();
        if !path.starts_with("//") && (path == "/" || !path.ends_with('/')) {
            return;
        }
        let inner = path.trim_start_matches('/');
        let inner = inner.strip_suffix('/').unwrap_or(inner);
        let mended = match request.uri().query() {
            Some(query) => format!("/{inner}?{query}"),
            None => format!("/{inner}"),
        };
        if let Ok(mended) = mended.parse::<PathAndQuery>()
            && !system::is_for_operators(mended.path(), self.app.addresses.base.path())
        {
            *request.uri_mut() = Uri::from(mended);
        }
    }

    fn router(&self, request: &Request<Body>) -> &Router {
        match &self.site.dashboard {
            Some(dashboard) if self.names_dashboard(request) => dashboard,
            _ => &self.site.main,
        }
    }

    fn names_dashboard(&self, request: &Request<Body>) -> bool {
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        host.eq_ignore_ascii_case(self.app.addresses.dashboard.authority())
    }

    /// Whether a page or the envelope is the answer where no handler answers. Of
    /// two addresses on one host the longer one knows better.
    fn is_for_people(&self, request: &Request<Body>) -> bool {
        let Addresses { base, dashboard } = &self.app.addresses;
        if base.origin() != dashboard.origin() {
            return self.names_dashboard(request);
        }
        let is_below = |address: &PublicUrl| {
            let rest = request.uri().path().strip_prefix(address.path());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        is_below(dashboard) && !(base.path().len() > dashboard.path().len() && is_below(base))
    }
}

/// Refuses a request that could be understood in two ways, or is too long.
fn check_form(request: &Request<Body>) -> Result<(), Error> {
    let uri = request.uri();
    let (scheme, authority) = (uri.scheme_str().map_or(0, |scheme| scheme.len() + 3), uri.authority());
    let target = uri.path_and_query().map_or(0, |whole| whole.as_str().len());
    let line = request.method().as_str().len()
        + " ".len()
        + scheme
        + authority.map_or(0, |authority| authority.as_str().len())
        + target
        + " HTTP/1.1".len();
    if line > REQUEST_LINE {
        return Err(Error::UriTooLong { limit: REQUEST_LINE });
    }
    if request.headers().get_all(HOST).iter().nth(1).is_some() {
        return Err(Error::BadRequest { message: "The header `Host` was sent more than once. Send it once.".into() });
    }
    Ok(())
}

/// The address that a proxy saw; some append the port that it came from.
fn forwarded(hop: &str) -> Option<IpAddr> {
    let bracketed = || hop.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let with_port = || hop.parse::<SocketAddr>().ok().map(|address| address.ip());
    hop.parse().ok().or_else(with_port).or_else(bracketed)
}

fn record(method: &Method, response: &Response, started: Instant, id: &str, sender: IpAddr) {
    let elapsed = started.elapsed();
    let status = response.status();
    let known = response.extensions().get::<MatchedPath>();
    // The pattern, never the path: paths hold addresses, names and set-up links.
    let route = known.map_or("none", MatchedPath::as_str);
    let method = match *method {
        Method::GET | Method::POST | Method::PUT | Method::PATCH | Method::DELETE | Method::HEAD | Method::OPTIONS => {
            method.as_str()
        }
        _ => "other",
    };
    let (status, micros) = (status.as_u16(), elapsed.as_micros() as u64);
    Tally::with(method, route, status, |tally| {
        tally.requests.increment(1);
        tally.seconds.record(elapsed.as_secs_f64());
    });
    tracing::info!(target: "posthorn::request", id, method, route, status, micros, %sender, "request");
}

/// Where the requests of one kind are counted.
struct Tally {
    method: String,
    route: String,
    status: u16,
    requests: Counter,
    seconds: Histogram,
}

impl Tally {
    /// Each thread keeps the tallies that it has used: to look one up among all
    /// that there are costs more than to count. Routes are few, so the list is short.
    fn with(method: &str, route: &str, status: u16, count: impl FnOnce(&Tally)) {
        thread_local! {
            static KNOWN: RefCell<Vec<Tally>> = const { RefCell::new(Vec::new()) };
        }
        KNOWN.with_borrow_mut(|known| {
            let is_ours = |one: &Tally| one.status == status && one.method == method && one.route == route;
            let place = known.iter().position(is_ours).unwrap_or_else(|| {
                known.push(Tally::new(method, route, status));
                known.len() - 1
            });
            count(&known[place]);
        });
    }

    fn new(method: &str, route: &str, status: u16) -> Tally {
        let (method, route) = (method.to_owned(), route.to_owned());
        let labels = [("method", method.clone()), ("route", route.clone()), ("status", status.to_string())];
        let requests = metrics::counter!("posthorn_http_requests_total", &labels);
        let seconds = metrics::histogram!("posthorn_http_request_seconds", "route" => route.clone());
        Tally { method, route, status, requests, seconds }
    }
}

/// Hands the pattern of the route that answered back to the gate.
#[derive(Clone, Default)]
pub struct NameRoute {
    callers: Option<Callers>,
}

/// What is known of the routes that ask for a credential, and who looks on.
#[derive(Clone)]
struct Callers {
    app: App,
    queries: Lazily<KnownQueries>,
    observer: Arc<dyn Observer>,
}

/// Whoever looks at requests to the API and at what they came to.
pub trait Observer: Send + Sync {
    /// Looks at a request before it is answered; `None` where its answer does not matter.
    fn begin(&self, request: &mut Request<Body>) -> Option<Box<dyn Observation>>;

    /// Looks at the answer to a request that was refused, of whichever kind.
    fn refused<'a>(&'a self, call: RefusedCall<'a>, response: Response) -> Answering<'a>;
}

/// What is known of a request that was refused.
pub struct RefusedCall<'a> {
    pub workspace_id: WorkspaceId,
    pub method: &'a Method,
    /// The pattern of its route.
    pub route: &'a str,
}

/// An answer, when it has been looked at.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Response> + Send + 'a>>;

/// A request that is being answered.
pub trait Observation: Send {
    fn finish(self: Box<Self>, response: Response) -> Answering<'static>;
}

impl NameRoute {
    /// For routes that ask for a credential, which may be known from before: none
    /// of them gives a refusal to one that no longer stands, whatever the refusal
    /// is about. What is granted is guarded by itself and pays nothing here. What a
    /// query holds beside what its route knows is told to its caller.
    pub fn for_callers(app: App, queries: Lazily<KnownQueries>, observer: Arc<dyn Observer>) -> NameRoute {
        NameRoute { callers: Some(Callers { app, queries, observer }) }
    }
}

impl<S> Layer<S> for NameRoute {
    type Service = NamedRoute<S>;

    fn layer(&self, inner: S) -> NamedRoute<S> {
        NamedRoute { inner, callers: self.callers.clone() }
    }
}

#[derive(Clone)]
pub struct NamedRoute<S> {
    inner: S,
    callers: Option<Callers>,
}

impl<S> Service<Request<Body>> for NamedRoute<S>
where
    S: Service<Request<Body>, Response = Response> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let route = request.extensions().get::<MatchedPath>().cloned();
        // A copy: what shares the buffer that the head was read into keeps it from
        // being read into again.
        let shown = self.callers.as_ref().and_then(|callers| {
            let shown = request.headers().get(AUTHORIZATION)?;
            Some((callers.app.clone(), callers.observer.clone(), HeaderValue::from_bytes(shown.as_bytes()).ok()?))
        });
        let method = request.method().clone();
        let observation = self.callers.as_ref().and_then(|callers| callers.observer.begin(&mut request));
        let (handling, told) = self.callers.as_ref().map_or((Handling::Usual, Vec::new()), |callers| {
            (Handling::of(request.headers()), callers.look_at_query(&request, route.as_ref()))
        });
        if handling == Handling::Strict
            && let Some(first) = told.first()
        {
            request.extensions_mut().insert(auth::RefusedQuery(first.clone()));
        }
        let served = self.inner.call(request);
        Box::pin(async move {
            let mut response = warnings::noting(handling, told, served).await?;
            if response.status().is_client_error()
                && let Some((app, _, shown)) = &shown
                && let Err(error) = Box::pin(auth::confirm(app, shown)).await
            {
                response = error.into_response();
            }
            if let Some(observation) = observation {
                response = observation.finish(response).await;
            }
            if (response.status().is_client_error() || response.status().is_server_error())
                && let Some((app, observer, shown)) = &shown
                && let Some(workspace_id) = auth::workspace_of(app, shown)
            {
                let route = route.as_ref().map_or("", MatchedPath::as_str);
                response = observer.refused(RefusedCall { workspace_id, method: &method, route }, response).await;
            }
            if let Some(route) = route {
                response.extensions_mut().insert(route);
            }
            Ok(response)
        })
    }
}

impl Callers {
    fn look_at_query(&self, request: &Request<Body>, route: Option<&MatchedPath>) -> Vec<String> {
        let (Some(query), Some(route)) = (request.uri().query().filter(|query| !query.is_empty()), route) else {
            return Vec::new();
        };
        let route = route.as_str();
        let route = route.strip_prefix(self.app.addresses.base.path()).unwrap_or(route);
        self.queries.get().unknown(request.method(), route, query)
    }
}

/// The answer of the API where nothing is.
pub async fn not_found() -> Error {
    Error::not_found("There is nothing at this path. The API is described at /docs.")
}

pub async fn method_not_allowed() -> Error {
    Error::MethodNotAllowed
}
