//! Which mails a list shows.

use uuid::Uuid;

use super::state::State;
use super::store::{self, columns};
use crate::db::{Sql, Stmt, statements};
use crate::id::WorkspaceId;
use crate::web::Page;

/// Of a state that has an index: not of those two that most mails are in. The store takes the index only where what it
/// leaves out is left out here in the same words.
macro_rules! in_state {
    ($state:literal) => {
        concat!(" AND state = ", $state, " AND state <> 10 AND state <> 40")
    };
}

/// A mail may have come further with one recipient and be uncertain with another.
macro_rules! uncertain {
    () => {
        " AND id IN (SELECT r.email_id FROM email_recipients r WHERE r.workspace_id = $1 AND r.state = 28)"
    };
}

/// A page of those that are among some: older or newer than one.
macro_rules! listed {
    ($among:expr, $than:literal, $order:literal) => {
        Sql::both(concat!(
            "SELECT ",
            columns!(summary),
            " FROM emails WHERE workspace_id = $1",
            $among,
            " AND id ",
            $than,
            " $2 ORDER BY id",
            $order,
            " LIMIT $3"
        ))
    };
}

/// Those in which a text stands, of the next that are among some.
macro_rules! containing {
    ($among:expr) => {
        concat!(
            "SELECT ",
            columns!(summary),
            " FROM (SELECT ",
            columns!(summary),
            " FROM emails WHERE workspace_id = $1 AND id < $2",
            $among,
            " ORDER BY id DESC LIMIT $4) AS newest
             WHERE LOWER(subject) LIKE $3 ESCAPE '!' OR LOWER(envelope) LIKE $3 ESCAPE '!' ORDER BY id DESC LIMIT 50"
        )
    };
}

/// The last of the next that are among some.
macro_rules! last {
    ($among:expr) => {
        concat!(
            "SELECT id FROM emails WHERE workspace_id = $1 AND id < $2",
            $among,
            " ORDER BY id DESC LIMIT 1 OFFSET $3"
        )
    };
}

statements! {
    functions {
        /// Of the next few thousand behind a mail those in whose subject or addresses a text stands: no index of
        /// either is kept, because each would cost every mail that is handed in.
        fn containing(workspace_id: WorkspaceId, behind: Uuid, pattern: &str)
            with [workspace_id, behind, pattern, SEARCHED] = Sql::both(containing!(""));
        fn containing_in_state(workspace_id: WorkspaceId, behind: Uuid, pattern: &str, state: i64)
            with [workspace_id, behind, pattern, SEARCHED, state] = Sql::both(containing!(in_state!("$5")));
        fn containing_uncertain(workspace_id: WorkspaceId, behind: Uuid, pattern: &str)
            with [workspace_id, behind, pattern, SEARCHED] = Sql::both(containing!(uncertain!()));
        /// The last of those that are looked through.
        fn last(workspace_id: WorkspaceId, behind: Uuid)
            with [workspace_id, behind, SEARCHED - 1] = Sql::both(last!(""));
        fn last_in_state(workspace_id: WorkspaceId, behind: Uuid, state: i64)
            with [workspace_id, behind, SEARCHED - 1, state] = Sql::both(last!(in_state!("$4")));
        fn last_uncertain(workspace_id: WorkspaceId, behind: Uuid)
            with [workspace_id, behind, SEARCHED - 1] = Sql::both(last!(uncertain!()));
        /// How many mails are uncertain, counted to a bound.
        pub fn count_uncertain(workspace_id: WorkspaceId) = Sql::both(
            "SELECT COUNT(*) FROM (SELECT DISTINCT email_id FROM email_recipients
                 WHERE workspace_id = $1 AND state = 28 LIMIT 1001) AS uncertain");
    }
    OLDER = listed!(in_state!("$4"), "<", " DESC");
    NEWER = listed!(in_state!("$4"), ">", "");
    OLDER_UNCERTAIN = listed!(uncertain!(), "<", " DESC");
    NEWER_UNCERTAIN = listed!(uncertain!(), ">", "");
}

/// How many mails one search looks through.
pub const SEARCHED: i64 = 2_000;

/// More are not counted.
pub const MOST_COUNTED: i64 = 1000;

/// A state that mails can be looked for by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filter {
    pub state: State,
    pub word: &'static str,
}

impl Filter {
    /// In the order in which they are offered: first what may need somebody.
    pub const ALL: [Filter; 11] = [
        Filter { state: State::Uncertain, word: "uncertain" },
        Filter { state: State::Delayed, word: "delayed" },
        Filter { state: State::Failed, word: "failed" },
        Filter { state: State::Bounced, word: "bounced" },
        Filter { state: State::Complained, word: "complained" },
        Filter { state: State::Suppressed, word: "suppressed" },
        Filter { state: State::Scheduled, word: "scheduled" },
        Filter { state: State::Canceled, word: "canceled" },
        Filter { state: State::Sent, word: "sent" },
        Filter { state: State::Opened, word: "opened" },
        Filter { state: State::Clicked, word: "clicked" },
    ];

    pub fn parse(word: &str) -> Option<Filter> {
        Filter::ALL.into_iter().find(|filter| filter.word == word)
    }
}

/// A page of all mails of a workspace, or of those that a filter lets through.
pub fn page(workspace_id: WorkspaceId, filter: Option<Filter>, page: &Page) -> Stmt {
    match filter {
        None => store::page(workspace_id, page),
        Some(Filter { state: State::Uncertain, .. }) => {
            page.statement(OLDER_UNCERTAIN, NEWER_UNCERTAIN, workspace_id, [])
        }
        Some(Filter { state, .. }) => page.statement(OLDER, NEWER, workspace_id, [(state as i64).into()]),
    }
}

/// Of the next mails behind one those in which a text stands, and the last that is looked through. With a filter only
/// what it lets through is looked at, so that what is rare is found, too.
pub fn search(workspace_id: WorkspaceId, filter: Option<Filter>, behind: Uuid, pattern: &str) -> (Stmt, Stmt) {
    match filter {
        None => (containing(workspace_id, behind, pattern), last(workspace_id, behind)),
        Some(Filter { state: State::Uncertain, .. }) => {
            (containing_uncertain(workspace_id, behind, pattern), last_uncertain(workspace_id, behind))
        }
        Some(Filter { state, .. }) => (
            containing_in_state(workspace_id, behind, pattern, state as i64),
            last_in_state(workspace_id, behind, state as i64),
        ),
    }
}
