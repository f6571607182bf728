//! Occurrences over HTTP: let an event happen, and read what happened.

mod orders;
mod routes;
mod send;
mod shapes;
mod store;

pub use routes::{Described, list, router};
pub use store::{ALL, any};
