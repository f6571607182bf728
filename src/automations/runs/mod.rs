//! The runs of an automation, to be read, cancelled and tried again.

mod all_pages;
mod mail;
mod pages;
mod record;
mod retention;
mod routes;
mod shapes;
mod store;

use axum::Router;

use crate::app::App;

pub use all_pages::runs_by_status;
pub use mail::HELD_AFTER;
pub use pages::{COUNTED, RunRow, run_rows, traffic};
pub use retention::{ALL as RETENTION, forget_ended};
pub use routes::router;
pub use store::{ALL, Fence, cancel};

pub fn pages() -> Router<App> {
    pages::router().merge(all_pages::router())
}

/// What a run can be.
pub const STATUSES: [&str; 4] = ["running", "completed", "failed", "cancelled"];
