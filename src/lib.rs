//! Posthorn: an e-mail platform that people run themselves.

pub mod accounts;
pub mod api_keys;
pub mod app;
pub mod auth;
pub mod automations;
pub mod cli;
pub mod clock;
pub mod config;
pub mod contacts;
pub mod db;
pub mod error;
pub mod events;
pub mod hold;
pub mod id;
pub mod log;
pub mod mail;
pub mod oauth;
pub mod seal;
pub mod secret;
pub mod segments;
pub mod serve;
#[cfg(test)]
mod testing;
pub mod topics;
pub mod web;
