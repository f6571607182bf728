//! The runs of an automation, to be read, cancelled and tried again.
//!
//! | Route | |
//! |---|---|
//! | `GET /automations/{id}/runs` | list them, newest first |
//! | `GET /automations/{id}/runs/{run_id}` | read one, with what became of each step |
//! | `POST /automations/{id}/runs/{run_id}/cancel` | end one that is in flight |
//! | `POST /automations/{id}/runs/{run_id}/retry` | go on where one failed |

pub mod pages;
pub mod record;
pub mod routes;
mod shapes;
pub mod store;

/// What a run can be.
pub const STATUSES: [&str; 4] = ["running", "completed", "failed", "cancelled"];
