//! Segments: named sets of contacts, to write to at once.
//!
//! Who is in a segment is told and changed by `contacts`.

mod audiences;
mod routes;
mod segment;
mod store;

use utoipa_axum::router::OpenApiRouter;

use crate::app::App;
use crate::db::Sql;

pub use routes::{Item, must_exist, not_found};
pub use segment::{SegmentList, SegmentName};
pub use store::{add, exists, insert, is_member, names_between, page_of_contact, remove};

pub const STATEMENTS: &[&[Sql]] = &[store::ALL];

pub fn routes() -> OpenApiRouter<App> {
    routes::router().merge(audiences::router())
}
