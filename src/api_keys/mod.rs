//! API keys: a program shows one to act for a workspace. `auth` knows what a key
//! is and lets it in; here people and programs make, name and delete them.

mod pages;
mod routes;
mod store;

use crate::db::Sql;

pub use pages::router as pages;
pub use routes::router as routes;
pub use store::tally;

pub const STATEMENTS: &[&[Sql]] = &[store::ALL];
