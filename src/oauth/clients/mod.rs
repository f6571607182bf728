//! Clients: what they are, how they register, and those in use.

mod cache;
mod client;
mod page_store;
mod pages;
mod refused;
mod register;
mod registration;
#[cfg(test)]
mod registration_tests;
mod store;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::oauth::OAuth;
use crate::oauth::answer::preflighted;

pub use cache::{Clients, Known};
pub use client::{AuthMethod, Client, Grant, GrantSet};
pub use page_store::ALL as PAGE_STATEMENTS;
pub use pages::router as pages;
pub use refused::{ALL as REFUSED_STATEMENTS, Refusals, note_refusals};
pub use registration::{Origin, RegisteredClient, Registration};
pub use store::{
    ALL, client_is_there, clients, delete_client, disable_client, insert_client, keep_document, sweep, sweep_documents,
    verify_client,
};

pub fn router() -> OpenApiRouter<OAuth> {
    OpenApiRouter::new().routes(preflighted(routes!(register::register)))
}
