//! Occurrences over HTTP: let an event happen, and read what happened.
//!
//! | Route | |
//! |---|---|
//! | `POST /events/send` | an event happens to a contact; its automations start |
//! | `POST /events/send/batch` | up to 1,000 of them, all or none |
//! | `GET /events/{id or name}/occurrences` | what happened, newest first |
//! | `GET /occurrences/{id}` | one, with the runs that it started |
//! | `POST /occurrences/{id}/replay` | let it happen once more |

mod orders;
mod routes;
mod send;
mod shapes;
mod store;

pub use routes::{list, router};
pub use store::{ALL, any};
