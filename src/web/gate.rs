//! The gate: every request passes here on its way in and out. It names the
//! request, finds who sent it, sends it to the right router, and writes the one
//! line of log and the metrics that a request gets.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::MatchedPath;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::header::{HOST, HeaderName, X_CONTENT_TYPE_OPTIONS};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, Uri};
use metrics::{Counter, Histogram};
use percent_encoding::percent_decode_str;
use tower::ServiceExt;
use uuid::Uuid;

use super::compression::{Accepted, compress};
use super::named_route::NameRoute;
use super::stream::REQUEST_LINE;
use super::{layout, system, workspace_path};
use crate::app::{Addresses, App};
use crate::auth::Sender;
use crate::config::PublicUrl;
use crate::error::Error;
use crate::limits;

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

/// The answer of the API where nothing is.
pub async fn not_found() -> Error {
    Error::not_found("There is nothing at this path. The API is described at /docs.")
}

pub async fn method_not_allowed() -> Error {
    Error::MethodNotAllowed
}
