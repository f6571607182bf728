//! Topics: what mail can be about, so that a contact who has enough of one kind
//! of mail need not go without the others.
//!
//! What a contact chose is told and changed by `contacts`.

mod pages;
mod routes;
mod shapes;
mod store;
mod topic;

use crate::db::Sql;

pub use pages::router as pages;
pub use routes::{must_exist, not_found, router as routes};
pub use shapes::{Chosen, Standing};
pub use store::{all_of_contact, choices, choose, forget, page_of_contact};
pub use topic::{Choice, ChoiceList, Subscription, TopicChoices, Visibility};

pub const STATEMENTS: &[&[Sql]] = &[store::ALL];
