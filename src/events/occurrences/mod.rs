//! Occurrences over HTTP: let an event happen, and read what happened.

mod orders;
mod routes;
mod send;
mod shapes;
mod store;

pub use orders::Order;
pub use routes::{Described, list, router};
pub use send::send_on_page;
pub use shapes::{EventToSend, StartedRun};
pub use store::{ALL, Stored as StoredOccurrence, any, by_id, page, runs_of};
