//! Named events: a caller defines them and sends them, automations are triggered
//! by them.

mod as_code;
mod definition_pages;
mod event;
mod fuzzing;
mod happened_pages;
mod in_force;
mod occurrences;
mod pages;
mod payload;
mod routes;
mod store;
mod test_pages;

use std::sync::Arc;

use axum::Router;
use utoipa::OpenApi as _;
use utoipa_axum::router::OpenApiRouter;

use crate::app::holds_app;
use crate::db::Sql;
use crate::occurrences::Occurrences;

pub use as_code::{defining as defining_as_code, sending as sending_as_code};
pub use event::{EventName, RESERVED_PREFIX};
pub use fuzzing::event_body;
pub use in_force::Definitions;
pub use store::{by_id, delete, insert, set_schema, tally};

pub const STATEMENTS: &[&[Sql]] = &[store::ALL, occurrences::ALL];

/// What events need beside what all share. Clones share it.
#[derive(Clone)]
pub struct Events {
    occurrences: Occurrences,
    definitions: Arc<Definitions>,
}

impl Events {
    pub fn new(occurrences: Occurrences) -> Events {
        Events { occurrences, definitions: Arc::default() }
    }

    pub fn occurrences(&self) -> &Occurrences {
        &self.occurrences
    }
}

holds_app!(Events { occurrences: Occurrences });

pub fn pages() -> Router<Events> {
    pages::router().merge(definition_pages::router()).merge(happened_pages::router()).merge(test_pages::router())
}

pub fn routes() -> OpenApiRouter<Events> {
    let described = occurrences::Described::openapi();
    OpenApiRouter::with_openapi(described).merge(routes::router()).merge(occurrences::router())
}
