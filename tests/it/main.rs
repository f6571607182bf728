//! The whole product, through its real gate, on both engines.
//!
//! Every test is named after the rule it proves and runs as `…::sqlite` and as
//! `…::postgres`; `./test` provides the PostgreSQL.

mod asking;
mod binary;
mod graphs;
mod harness;
mod store;

mod authorize;
mod authorize_order;
mod authorize_store;
mod automation_pages;
mod automations;
mod bodies;
mod cli;
mod consent;
mod contacts;
mod credentials;
mod db;
mod decisions;
mod engine;
mod engine_races;
mod engine_webhooks;
mod envelope;
mod events_create;
mod events_read;
mod flow;
mod fuzz;
mod imports;
mod isolation;
mod limits;
mod migrations;
mod register;
mod runs;
mod segments;
mod sending;
mod setup;
mod tokens;
mod topics;
mod wire;
