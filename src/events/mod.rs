//! Named events: a caller defines them and sends them, automations are triggered
//! by them.
//!
//! | Route | |
//! |---|---|
//! | `POST /events` | define an event by name, with an optional schema of its payload |
//! | `GET /events` | list the definitions, newest first |
//! | `GET /events/{id or name}` | read one; a name finds its newest definition |
//! | `PATCH /events/{id or name}` | change its schema |
//! | `DELETE /events/{id or name}` | delete it |

pub mod event;
pub mod fuzzing;
pub mod in_force;
pub mod occurrences;
pub mod pages;
pub mod payload;
pub mod routes;
pub mod store;

pub use in_force::Definitions;
pub use store::tally;
