//! The whole product, through its real gate, on both engines.
//!
//! Every test is named after the rule it proves and runs as `…::sqlite` and as
//! `…::postgres`; `./test` provides the PostgreSQL.

mod asking;
mod harness;
mod store;

mod authorize;
mod authorize_order;
mod authorize_store;
mod consent;
mod credentials;
mod envelope;
mod events_create;
mod events_read;
mod isolation;
mod limits;
mod register;
mod setup;
