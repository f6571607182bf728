//! Contacts: people to write to, with names and properties, in segments, and with
//! a mind of their own about topics.
//!
//! | Route | |
//! |---|---|
//! | `POST /contacts` | add a contact, perhaps into segments and with topics chosen |
//! | `GET /contacts` | list them, newest first; `segment_id` keeps to one segment |
//! | `GET /contacts/{id or email}` | read one |
//! | `PATCH /contacts/{id or email}` | change what is given, leave the rest |
//! | `DELETE /contacts/{id or email}` | delete one |
//! | `GET /contacts/{id or email}/segments` | the segments that it is in |
//! | `POST`, `DELETE /contacts/{id or email}/segments/{segment_id}` | put it into one, take it out |
//! | `GET`, `PATCH /contacts/{id or email}/topics` | what it wants to hear of, and a change of mind |
//! | `GET /segments/{id}/contacts` | who is in a segment |
//! | `/audiences/{id}/contacts`, `…/{id or email}` | the same as older programs ask for it |
//! | `POST`, `GET /contact-properties` | declare a property with its type, list those declared |
//! | `GET`, `PATCH`, `DELETE /contact-properties/{id}` | read one, change its fallback, delete it |

mod audience_routes;
mod change;
mod contact;
mod imports;
mod membership_routes;
mod pages;
mod path;
mod properties;
mod properties_routes;
mod properties_store;
mod routes;
mod shapes;
mod store;
mod topic_routes;
mod write;

pub use contact::{Changes, Email, FIRST_VERSION, email_key};
pub use imports::fuzzing::csv_file;
pub use imports::worker::{
    claim as claim_import, round as import_round, run as run_imports, step as import_step, sweep as sweep_imports,
};
pub use properties::Declared;
pub use properties_store::all as declared_properties;
pub use write::{
    add_to_segment, bump_version, delete as delete_contact, hold_version, tell_by_email, update as update_contact,
    upsert_by_email,
};

use axum::Router;
use utoipa_axum::router::OpenApiRouter;

pub use contact::Contact;

use crate::app::App;
use crate::db::Sql;
use crate::occurrences::Occurrences;

pub const STATEMENTS: &[&[Sql]] = &[imports::store::ALL, properties_store::ALL, store::ALL];

pub fn pages() -> Router<App> {
    pages::router()
}

pub fn routes() -> OpenApiRouter<Occurrences> {
    routes::router()
        .merge(membership_routes::router())
        .merge(topic_routes::router())
        .merge(imports::router())
        .merge(properties_routes::router())
        .merge(audience_routes::router())
}
