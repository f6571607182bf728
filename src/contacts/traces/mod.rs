//! All that is kept of one person, to be exported or erased. Much of it is found by going through what a workspace
//! has, some rows at a time: an index for it would cost every write something, and this is asked for seldom.

mod erase;
mod export;
mod routes;
mod store;

pub use erase::{Erased, begin, find, round, run};
pub use export::ContactExport;
pub use routes::{document, router};
pub use store::ALL;
