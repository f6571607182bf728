//! API keys: a program shows one to act for a workspace. `auth` knows what a key
//! is and lets it in; here people and programs make, name and delete them.
//!
//! | Route | |
//! |---|---|
//! | `POST /api-keys` | make a key; it is told this once |
//! | `GET /api-keys` | list the keys, newest first |
//! | `PATCH /api-keys/{id}` | rename one |
//! | `DELETE /api-keys/{id}` | delete one; it is refused from then on |

mod pages;
mod routes;
mod store;

use axum::Router;
use utoipa_axum::router::OpenApiRouter;

pub use store::tally;

use crate::app::App;
use crate::db::Sql;

pub const STATEMENTS: &[&[Sql]] = &[store::ALL];

pub fn routes() -> OpenApiRouter<App> {
    routes::router()
}

pub fn pages() -> Router<App> {
    pages::router()
}
