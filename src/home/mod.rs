//! Where people arrive: the page at the root of the API, and the overview of a
//! workspace in the dashboard.

mod activity;
mod overview;
mod plot;
mod store;
mod welcome;

use axum::Router;
use axum::routing::get;

use crate::app::App;
use crate::db::Sql;

pub const STATEMENTS: &[&[Sql]] = &[store::ALL];

/// The dashboard's first page.
pub fn pages() -> Router<App> {
    Router::new().route("/", get(overview::show))
}

/// The page beside the API.
pub fn beside_api() -> Router<App> {
    Router::new().route("/", get(welcome::show))
}
