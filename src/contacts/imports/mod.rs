//! Imports: a file of contacts, taken in as a whole and worked off in the
//! background. The file and how far it has come are in the store, so whoever
//! stops in the middle is carried on from there.

mod apply;
mod form;
mod fuzzing;
mod page_map;
mod pages;
mod plan;
mod routes;
mod shapes;
mod store;
mod worker;

pub use fuzzing::csv_file;
pub use pages::router as pages;
pub use routes::router;
pub use store::ALL;
pub use worker::{claim, round, run, step, sweep};
