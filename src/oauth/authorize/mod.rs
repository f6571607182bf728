//! `GET /oauth/authorize`: the rules of an authorization request, and the
//! requests that wait for a decision.

mod route;
mod rules;
mod store;
#[cfg(test)]
mod tests;

use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouterExt};
use utoipa_axum::routes;

use crate::oauth::OAuth;

pub use rules::{Callback, Claim, PendingRequest};
pub use store::{ALL, Bound, bind_request, find_request, sweep};

pub fn router() -> OpenApiRouter<OAuth> {
    let route = routes!(route::authorize).map(|get| get.head(route::only_get).fallback(route::only_get));
    OpenApiRouter::new().routes(route)
}
