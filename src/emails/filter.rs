//! Which mails a list shows.

use super::state::State;
use super::store;
use crate::db::{Sql, Stmt, statements};
use crate::id::WorkspaceId;
use crate::web::Page;

statements! {
    lists {
        /// Of a state that has an index: not of those two that most mails are in.
        OLDER, NEWER =
            "SELECT id, workspace_id, created_at, sender, subject, envelope, message_id, scheduled_at, state
             FROM emails WHERE workspace_id = $1 AND state = $4 AND state <> 10 AND state <> 40" by "id";
        /// A mail may have come further with one recipient and be uncertain with another.
        OLDER_UNCERTAIN, NEWER_UNCERTAIN =
            "SELECT id, workspace_id, created_at, sender, subject, envelope, message_id, scheduled_at, state
             FROM emails WHERE workspace_id = $1 AND id IN
                 (SELECT r.email_id FROM email_recipients r WHERE r.workspace_id = $1 AND r.state = 28)" by "id";
    }
    COUNT_UNCERTAIN = Sql::both(
        "SELECT COUNT(*) FROM (SELECT DISTINCT email_id FROM email_recipients
             WHERE workspace_id = $1 AND state = 28 LIMIT 1001) AS uncertain");
}

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

/// How many mails are uncertain, counted to a bound.
pub fn count_uncertain(workspace_id: WorkspaceId) -> Stmt {
    COUNT_UNCERTAIN.with([workspace_id.into()])
}
