//! Who is calling: programs by their credentials, people by sessions and passwords;
//! and extractors that no handler can forget.

mod caller;
mod fair_queue;
pub mod password;
pub mod session;
mod store;

pub use caller::{Caller, FullAccess, Need, SendOnly, confirm};
pub use fair_queue::Asker;
pub use session::Session;
pub use store::{delete_sessions_of, session_stands};

use crate::db::Sql;

pub const STATEMENTS: &[&[Sql]] = &[store::ALL];
