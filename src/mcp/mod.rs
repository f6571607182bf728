//! The endpoint at which assistants use the API: the Model Context Protocol over
//! HTTP. No process remembers anything from one request to the next, so any of them answers.
//!
//! A tool is an operation of the API. What it takes is read from the API's
//! description, and a call of it becomes a request to the API's own router with the
//! caller's credential; so permissions, rules and messages are the API's.

mod arguments;
mod call;
mod catalogue;
mod log;
mod prompts;
mod resources;
mod routes;
mod schema;
mod server;
mod session;
mod store;
mod tool;

use crate::db::Sql;

pub use routes::routes;
pub use tool::{Tools, tools};

pub const STATEMENTS: &[&[Sql]] = &[store::ALL];
