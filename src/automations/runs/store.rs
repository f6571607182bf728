//! Runs in the store, as far as people and programs look at them.

use super::STATUSES;
use crate::automations::run::Ending;
use crate::db::{Sql, Stmt, Value, from_row, statements};
use crate::id::{AutomationId, ContactId, MessageId, OccurrenceId, RunId, WorkspaceId};
use crate::web::Page;

statements! {
    lists {
        /// Four statuses: who wants fewer names some of them twice.
        OLDER, NEWER =
            "SELECT id, status, created_at, completed_at FROM runs
             WHERE automation_id = $1 AND status IN ($4, $5, $6, $7)" by "id";
        /// Through an index of their own.
        OLDER_FAILED, NEWER_FAILED =
            "SELECT id, status, created_at, completed_at FROM runs
             WHERE automation_id = $1 AND status = 'failed'" by "id";
    }
    functions {
        pub fn by_id(workspace_id: WorkspaceId, automation_id: AutomationId, id: RunId) = Sql::both(
            "SELECT r.id, r.status, r.created_at, r.completed_at, r.contact_id, r.occurrence_id, r.version, r.state,
                    r.attempt, r.settled, v.event_name, v.steps, v.connections, o.payload,
                    CASE WHEN r.destination IS NOT NULL THEN r.due_at END, p.failures, p.paused_until, p.reason
             FROM automations a
             JOIN runs r ON r.automation_id = a.id
             JOIN automation_versions v ON v.automation_id = r.automation_id AND v.version = r.version
             LEFT JOIN occurrences o ON o.workspace_id = r.workspace_id AND o.id = r.occurrence_id
             LEFT JOIN call_pauses p ON p.destination = r.destination
             WHERE a.workspace_id = $1 AND a.id = $2 AND a.deleted_at IS NULL AND r.id = $3");
        /// Ends a run, if nobody has claimed it or brought it on since it was `seen`.
        /// Raising the attempt takes the run from a worker who has claimed it; one who settled it leaves the attempt
        /// as it was, and `settled` tells.
        pub fn cancel(automation_id: AutomationId, id: RunId, seen: Fence, state: &str, now: i64)
            with [automation_id, id, seen.attempt, state, now, seen.settled] expects 1 = Sql::both(
            "UPDATE runs SET status = 'cancelled', state = $4, waiting_for = NULL, due_at = NULL, completed_at = $5,
                    destination = NULL, attempt = attempt + 1, settled = attempt + 1
             WHERE automation_id = $1 AND id = $2 AND attempt = $3 AND settled = $6");
        /// Makes a run due again, if nobody has claimed it or brought it on since it was `seen`.
        pub fn retry(automation_id: AutomationId, id: RunId, seen: Fence, state: &str, due_at: i64)
            with [automation_id, id, seen.attempt, state, due_at, seen.settled] expects 1 = Sql::both(
            "UPDATE runs SET status = 'running', state = $4, waiting_for = NULL, due_at = $5, completed_at = NULL,
                    destination = NULL, attempt = attempt + 1, settled = attempt + 1
             WHERE automation_id = $1 AND id = $2 AND attempt = $3 AND settled = $6");
        /// The messages of a run that wait for their templates.
        pub fn kept(run_id: RunId) = Sql::both(
            "SELECT step, id, created_at, CASE WHEN dropped_at IS NULL THEN 0 ELSE 1 END, reason,
                    CASE WHEN wanted_at IS NULL THEN 0 ELSE 1 END
             FROM outbox WHERE run_id = $1");
        /// A person decides that a message is sent, however long it has waited.
        pub fn want_message(run_id: RunId, id: MessageId, now: i64) expects 1 = Sql::both(
            "UPDATE outbox SET wanted_at = $3 WHERE run_id = $1 AND id = $2 AND dropped_at IS NULL");
        /// A person decides that a message is not sent.
        pub fn drop_message(run_id: RunId, id: MessageId, now: i64) expects 1 = Sql::both(
            "UPDATE outbox SET dropped_at = $3 WHERE run_id = $1 AND id = $2 AND dropped_at IS NULL");
    }
}

/// A run as lists show it.
pub struct Listed {
    pub id: RunId,
    pub status: String,
    pub created_at: i64,
    pub completed_at: Option<i64>,
}

from_row!(Listed { id, status, created_at, completed_at });

/// The last claim of a run, and the last that brought it on: whoever changes the
/// run must have seen both.
#[derive(Debug, Clone, Copy)]
pub struct Fence {
    pub attempt: i64,
    pub settled: i64,
}

/// A run with the version it is pinned to and the occurrence that started it.
pub struct Stored {
    pub listed: Listed,
    pub contact_id: ContactId,
    pub occurrence_id: OccurrenceId,
    pub version: i64,
    pub state: String,
    pub fence: Fence,
    pub event_name: String,
    pub steps: String,
    pub connections: String,
    /// `None` where the occurrence is gone.
    pub payload: Option<String>,
    pub call: Option<PendingCall>,
}

/// What a run that is to call the outside waits for.
pub struct PendingCall {
    pub due_at: i64,
    pub pause: Option<HostPause>,
}

/// A host that does not answer.
pub struct HostPause {
    pub failures: i64,
    pub until: i64,
    pub reason: String,
}

from_row!(Fence { attempt, settled });
from_row!(HostPause { failures, until, reason });
from_row!(PendingCall { due_at, pause });
from_row! { Stored {
    listed, contact_id, occurrence_id, version, state, fence, event_name, steps, connections, payload, call
} }

/// The runs of an automation with one of the statuses; all, where none is named.
pub fn page(automation_id: AutomationId, page: &Page, wanted: &[&'static str]) -> Stmt {
    if wanted == [Ending::Failed.as_str()] {
        return page.statement(OLDER_FAILED, NEWER_FAILED, automation_id, []);
    }
    let wanted = if wanted.is_empty() { &STATUSES } else { wanted };
    let four: [Value; 4] = std::array::from_fn(|at| wanted[at % wanted.len()].into());
    page.statement(OLDER, NEWER, automation_id, four)
}

/// A message of a step that waits for its template.
pub struct KeptMessage {
    pub step: String,
    pub id: MessageId,
    pub created_at: i64,
    pub is_dropped: bool,
    /// Why, where no person decided it.
    pub reason: Option<String>,
    pub is_wanted: bool,
}

from_row!(KeptMessage { step, id, created_at, is_dropped, reason, is_wanted });
