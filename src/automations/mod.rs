//! Automations: what happens to a contact when an event occurs.
//!
//! | Route | |
//! |---|---|
//! | `POST /automations` | make one of steps and connections |
//! | `POST /automations/validate` | everything that is wrong with a graph, at once |
//! | `GET /automations` | list them, newest first |
//! | `GET /automations/{id}` | read one with the graph in force |
//! | `PATCH /automations/{id}` | change it; a new graph is a new version, for new runs |
//! | `DELETE /automations/{id}` | delete it |
//! | `POST /automations/{id}/duplicate` | copy it, disabled |
//! | `POST /automations/{id}/stop` | start no more runs; those in flight finish |

pub mod app_grants;
pub mod automation;
pub mod budget;
pub mod duration;
pub mod engine;
pub mod entry;
pub mod fuse;
pub mod graph;
pub mod pages;
pub mod picture;
pub mod routes;
pub mod rule;
pub mod run;
pub mod runs;
mod shapes;
#[cfg(test)]
mod simulation;
pub mod step;
pub mod store;
pub mod triggers;
pub mod values;

use axum::Router;
use utoipa_axum::router::OpenApiRouter;

pub use store::reseal;
pub use triggers::Triggers;

use crate::app::App;
use crate::db::Sql;

pub const STATEMENTS: &[&[Sql]] = &[
    app_grants::ALL,
    engine::pauses::ALL,
    engine::store::ALL,
    entry::ALL,
    runs::store::ALL,
    store::ALL,
    triggers::ALL,
];

pub fn routes() -> OpenApiRouter<App> {
    routes::router().merge(runs::routes::router())
}

pub fn pages() -> Router<App> {
    pages::router().merge(runs::pages::router())
}
