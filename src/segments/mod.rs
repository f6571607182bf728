//! Segments: named sets of contacts, to write to at once.
//!
//! Who is in a segment is told and changed by `contacts`, and so are those judged that
//! belong into a segment which fills itself.

mod audiences;
mod filling;
mod filter;
mod filters;
mod routes;
mod segment;
mod shapes;
mod store;
mod upkeep;

use utoipa_axum::router::OpenApiRouter;

use crate::app::App;
use crate::db::Sql;

pub use filling::Filling;
pub use filter::{Counted, EventCount, Facts, Filter, engagement_name, event_key};
pub use filters::Filters;
pub use routes::{
    add as create, change, check_filter, detail, fills_itself, is_self_filling, must_exist, must_take_members,
    not_found, remove as delete, why_not_taken,
};
pub use segment::{SegmentList, SegmentName};
pub use shapes::{Detail, GivenFilter, Item, SegmentChange};
pub use store::{
    add, choices, count, has_deltas, insert, is_filling, is_member, names, names_between, newest_of_contact, page,
    page_of_contact, refill_naming, remove, take_up, takes_members,
};
pub(crate) use upkeep::due;
pub use upkeep::{
    count_broadcast, count_engagement, count_event, fill_in, fill_in_made, fill_in_new, forget, judge_after,
    judge_anew, judge_new, take_out,
};

pub const STATEMENTS: &[&[Sql]] = &[store::ALL, upkeep::ALL];

pub fn routes() -> OpenApiRouter<App> {
    routes::router().merge(audiences::router())
}
