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

mod app_grants;
mod automation;
mod budget;
mod duration;
mod engine;
mod entry;
mod fuse;
mod graph;
mod pages;
mod picture;
mod routes;
mod rule;
mod run;
mod runs;
mod shapes;
#[cfg(test)]
mod simulation;
mod step;
mod store;
mod triggers;
mod values;

pub use budget::Budget;
pub use engine::store::{Ahead, settle as settle_run};
pub use engine::{Engine, LEASE, run as run_engine, sweep as sweep_deleted};
pub use graph::Graph;
pub use run::{ContactRules, LogPart, Run, World};
pub use runs::store::{Fence, cancel as cancel_run};
pub use store::otherwise_sealed;

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
