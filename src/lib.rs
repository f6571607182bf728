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
pub mod credentials;
pub mod db;
pub mod dns;
pub mod emails;
pub mod error;
pub mod events;
pub mod grants;
pub mod hold;
pub mod home;
mod http_client;
pub mod id;
pub mod limits;
pub mod log;
pub mod mail;
pub mod oauth;
pub mod occurrences;
pub mod product;
pub mod seal;
pub mod secret;
pub mod segments;
pub mod serve;
pub mod smtp;
#[cfg(test)]
mod testing;
mod tls;
pub mod topics;
pub mod web;
mod work;
