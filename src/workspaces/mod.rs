//! What a workspace has settled for all of its mail: the zone of contacts that name none, and how
//! much bulk mail one contact gets.

mod pages;
mod routes;
mod settings;
mod store;

use crate::db::Sql;

pub use pages::router as pages;
pub use routes::router as routes;
pub use settings::{BulkCap, Workspace};

pub const STATEMENTS: &[&[Sql]] = &[store::ALL];
