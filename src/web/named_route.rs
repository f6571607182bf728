//! The layer around a route: it hands the route's pattern back to the gate, and looks on at requests that show a
//! credential and at what they came to.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::MatchedPath;
use axum::response::{IntoResponse, Response};
use http::header::AUTHORIZATION;
use http::{HeaderValue, Method, Request};
use tower::{Layer, Service};

use super::warnings::{self, Handling, KnownQueries};
use crate::app::App;
use crate::auth;
use crate::id::WorkspaceId;
use crate::memory::Lazily;

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
