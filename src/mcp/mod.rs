//! The endpoint at which assistants use the API: the Model Context Protocol over
//! HTTP, without sessions, so any process answers any request.
//!
//! A tool is an operation of the API. What it takes is read from the API's
//! description, and a call of it becomes a request to the API's own router with the
//! caller's credential; so permissions, rules and messages are the API's.

mod arguments;
mod call;
mod catalogue;
mod routes;
mod schema;
mod server;
mod tool;

pub use routes::routes;
pub use tool::{Tools, tools};
