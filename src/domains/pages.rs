//! Domains in the dashboard.

use axum::Router;

use super::Domains;

pub fn router() -> Router<Domains> {
    Router::new()
}
