//! Topics: what mail can be about, so that a contact who has enough of one kind
//! of mail need not go without the others.
//!
//! What a contact chose is told and changed by `contacts`.

mod routes;
mod shapes;
mod store;
mod topic;

pub use store::{choose, forget, page_of_contact};

pub use routes::{must_exist, not_found};
pub use shapes::Chosen;
pub use topic::{Choice, ChoiceList, TopicChoices};

use crate::db::Sql;

pub use routes::router as routes;

pub const STATEMENTS: &[&[Sql]] = &[store::ALL];
