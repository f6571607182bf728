//! The whole product, through its real gate, on both engines.
//!
//! Every test is named after the rule it proves and runs as `…::sqlite` and as
//! `…::postgres`; `./test` provides the PostgreSQL.

mod asking;
mod binary;
mod dns;
mod graphs;
mod harness;
mod store;

mod app_automations;
mod authorize;
mod authorize_order;
mod authorize_store;
mod automation_pages;
mod automations;
mod backup;
mod bodies;
mod cli;
mod clocks;
mod connections;
mod consent;
mod contacts;
mod credentials;
mod db;
mod decisions;
mod doctor;
mod domains;
mod email_pages;
mod emails;
mod emails_large;
mod emails_read;
mod engine;
mod engine_limits;
mod engine_races;
mod engine_webhooks;
mod envelope;
mod error_texts;
mod events_create;
mod events_read;
mod fences;
mod first_use;
mod flow;
mod fuzz;
mod hold;
mod idempotency;
mod imports;
mod isolation;
mod limits;
mod links;
mod lists;
mod logins;
mod migrations;
mod register;
mod runs;
mod segments;
mod sending;
mod setup;
mod snapshots;
mod store_faults;
mod storms;
mod tokens;
mod topics;
mod wire;
