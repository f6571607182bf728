//! Who is calling: programs by their credentials, people by sessions and passwords;
//! and extractors that no handler can forget.

mod actor;
mod audited_call;
mod caller;
mod fair_queue;
mod password;
mod session;
mod store;

pub use password::{Hasher, hash as hash_password, verify as verify_password};
pub use session::{
    Origin, SESSION, VISIT, check_form, cookie, find as find_session, form_token, is_alive as session_is_alive,
    read_cookie, refuse_foreign, start as start_session, start_from as start_session_from, sweep as sweep_sessions,
};

pub use actor::{Actor, Operator, Settled};
pub use audited_call::{AuditedCall, Sender};
pub use caller::{Caller, FullAccess, Principal, RefusedQuery, Seen, SendMany, SendOnly, confirm, workspace_of};
pub use fair_queue::Asker;
pub use session::Session;
pub use store::{
    ListedSession, delete_other_sessions, delete_session_of, delete_sessions_of, session_stands, sessions_of,
};

use crate::db::Sql;

pub const STATEMENTS: &[&[Sql]] = &[store::ALL];
