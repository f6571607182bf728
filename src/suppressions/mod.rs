//! Suppressions: who gets no mail of a workspace any more, and why. An address comes onto the list
//! when it turns out not to exist, when its owner complains, or by hand.
//!
//! Whoever delivers asks [`suppressed`] before every attempt, whichever way a mail came in.

mod pages;
mod path;
mod routes;
mod store;
mod suppression;
mod transfer;

use crate::db::Sql;

pub use pages::router as pages;
pub use routes::router as routes;
pub use store::{Suppression, add, add_unnamed, suppressed};
pub use suppression::Origin;

pub const STATEMENTS: &[&[Sql]] = &[store::ALL];
