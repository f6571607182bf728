//! The runs of an automation, to be read, cancelled and tried again.
//!
//! | Route | |
//! |---|---|
//! | `GET /automations/{id}/runs` | list them, newest first |
//! | `GET /automations/{id}/runs/{run_id}` | read one, with what became of each step |
//! | `POST /automations/{id}/runs/{run_id}/cancel` | end one that is in flight |
//! | `POST /automations/{id}/runs/{run_id}/retry` | go on where one failed |

mod pages;
mod record;
mod routes;
mod shapes;
mod store;

pub use pages::{RunRow, router as pages, run_rows};
pub use routes::router;
pub use store::{ALL, Fence, cancel};

/// What a run can be.
pub const STATUSES: [&str; 4] = ["running", "completed", "failed", "cancelled"];
