//! Automations: what happens to a contact when an event occurs.

mod app_grants;
mod automation;
mod editor;
mod engine;
mod graph;
mod names;
mod outline;
mod pages;
mod picture;
mod routes;
mod run;
mod runs;
mod shapes;
#[cfg(test)]
mod simulation;
mod store;
mod triggers;
mod unread;

use axum::Router;
use utoipa_axum::router::OpenApiRouter;

use crate::app::App;
use crate::db::Sql;

pub use engine::{Ahead, Engine, LEASE, run as run_engine, settle as settle_run, sweep as sweep_deleted};
pub use graph::Graph;
pub use run::{ContactRules, HistoryPart, Run, World};
pub use runs::{Fence, cancel as cancel_run, forget_ended};
pub use store::{count_due, reseal, sealed_secrets};
pub use triggers::Triggers;

pub const STATEMENTS: &[&[Sql]] = &[
    app_grants::ALL,
    editor::ALL,
    engine::CALLS,
    engine::KEPT,
    engine::RUNS,
    names::ALL,
    runs::ALL,
    runs::RETENTION,
    store::ALL,
    triggers::ALL,
    triggers::ENTRIES,
];

pub fn routes() -> OpenApiRouter<App> {
    routes::router().merge(runs::router())
}

pub fn pages() -> Router<App> {
    pages::router().merge(editor::router()).merge(runs::pages())
}
