//! Grants: what a person allowed a client to do in a workspace; the codes and
//! refresh tokens that lead to one; and where people and programs see them.

mod apps;
mod pages;
mod refresh;
mod routes;
mod store;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::oauth::OAuth;

pub use apps::router as pages;
pub use refresh::{LIFETIME as REFRESH_LIFETIME, Token, Verdict, judge, seal, unseal};
pub use store::{
    ALL, CODE_LIFETIME, Code, Family, NewGrant, Rotated, Rotation, decide, find_code, find_family, insert_code, redeem,
    revoke_token, rotate, sweep, tally, token_is_revoked, use_code,
};

pub fn router() -> OpenApiRouter<OAuth> {
    OpenApiRouter::new().routes(routes!(routes::list)).routes(routes!(routes::delete))
}
