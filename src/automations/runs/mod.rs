//! The runs of an automation, to be read, cancelled and tried again.

mod mail;
mod pages;
mod record;
mod retention;
mod routes;
mod shapes;
mod store;

pub use mail::HELD_AFTER;
pub use pages::{RunRow, router as pages, run_rows};
pub use retention::{ALL as RETENTION, forget_ended};
pub use routes::router;
pub use store::{ALL, Fence, cancel};

/// What a run can be.
pub const STATUSES: [&str; 4] = ["running", "completed", "failed", "cancelled"];
