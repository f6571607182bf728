//! Topics: what mail can be about, so that a contact who has enough of one kind
//! of mail need not go without the others.
//!
//! | Route | |
//! |---|---|
//! | `POST /topics` | make a topic |
//! | `GET /topics` | list them, newest first |
//! | `GET /topics/{id}` | read one |
//! | `PATCH /topics/{id}` | change its name, description or visibility |
//! | `DELETE /topics/{id}` | delete one, and what contacts chose of it |
//!
//! What a contact chose is told and changed by `contacts`.

mod routes;
mod shapes;
mod store;
mod topic;

pub use store::{choose, forget, page_of_contact};

use utoipa_axum::router::OpenApiRouter;

pub use routes::{must_exist, not_found};
pub use shapes::Chosen;
pub use topic::{Choice, ChoiceList, TopicChoices};

use crate::app::App;
use crate::db::Sql;

pub const STATEMENTS: &[&[Sql]] = &[store::ALL];

pub fn routes() -> OpenApiRouter<App> {
    routes::router()
}
