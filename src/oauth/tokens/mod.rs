//! The endpoints at which clients get tokens and give them back.

mod client_auth;
mod issue;
mod refresh;
mod revoke;
mod token;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::oauth::OAuth;
use crate::oauth::answer::preflighted;

pub fn router() -> OpenApiRouter<OAuth> {
    OpenApiRouter::new().routes(preflighted(routes!(token::token))).routes(preflighted(routes!(revoke::revoke)))
}
