//! Contacts: people to write to, with names and properties, in segments, and with
//! a mind of their own about topics.

mod audience_routes;
mod change;
mod contact;
mod download;
mod imports;
mod judging;
mod link;
mod membership_routes;
mod page_edit;
mod page_erase;
mod page_one;
mod pages;
mod path;
mod person_form;
mod properties;
mod properties_routes;
mod properties_store;
mod property_pages;
mod routes;
mod rule_editor;
mod rule_page;
mod rule_rows;
mod search;
mod segment_pages;
mod shapes;
mod store;
mod subscription;
mod timeline;
mod topic_routes;
mod traces;
mod walk;
mod write;

use utoipa_axum::router::OpenApiRouter;

use crate::db::Sql;
use crate::occurrences::Occurrences;

pub use contact::{Changes, Contact, Email, FIRST_SEQUENCE, email_key};
pub use imports::{
    claim as claim_import, csv_file, round as import_round, run as run_imports, step as import_step,
    sweep as sweep_imports,
};
pub use judging::{claim_segment, fill_step, round as judging_round, run as run_judging};
pub use link::ContactLink;
pub use pages::router as pages;
pub use path::find_named;
pub use properties::Declared;
pub use properties_store::all as declared_properties;
pub use store::{TopicRecipient, by_email_key, find_by_email_key, topic_recipients};
pub use subscription::{SubscriptionChanges, Subscriptions, change_own as change_own_subscriptions, subscribe};
pub use traces::{ContactExport, begin as erase, round as erasure_round, run as run_erasures};
pub use write::{
    UnsubscribedBy, add_to_segment, count_engagement, delete as delete_contact, hold_sequence, next_sequence,
    note_sent, tell_by_email, tell_waiting_by_email, update as update_contact, upsert_by_email,
};

pub const STATEMENTS: &[&[Sql]] = &[
    download::ALL,
    imports::ALL,
    judging::ALL,
    properties_store::ALL,
    search::ALL,
    store::ALL,
    timeline::ALL,
    traces::ALL,
];

pub fn routes() -> OpenApiRouter<Occurrences> {
    routes::router()
        .merge(membership_routes::router())
        .merge(topic_routes::router())
        .merge(imports::router())
        .merge(judging::router())
        .merge(properties_routes::router())
        .merge(audience_routes::router())
        .merge(traces::router())
}
