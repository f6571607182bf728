//! Runs in the store, as far as people and programs look at them.

use super::STATUSES;
use crate::automations::run::Ending;
use crate::db::{DbError, Row, Sql, Stmt, Value, from_row, statements};
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
                    r.attempt, r.settled, v.event_name, v.steps, v.connections, o.payload, r.destination, r.due_at,
                    p.failures, p.paused_until, p.reason
             FROM automations a
             JOIN runs r ON r.automation_id = a.id
             JOIN automation_versions v ON v.automation_id = r.automation_id AND v.version = r.version
             LEFT JOIN occurrences o ON o.workspace_id = r.workspace_id AND o.id = r.occurrence_id
             LEFT JOIN call_pauses p ON p.destination = r.destination
             WHERE a.workspace_id = $1 AND a.id = $2 AND a.deleted_at IS NULL AND r.id = $3");
    }
    /// Raising the attempt takes the run from a worker who has claimed it; one who settled it leaves the attempt
    /// as it was, and `settled` tells.
    CANCEL = Sql::both(
        "UPDATE runs SET status = 'cancelled', state = $4, waiting_for = NULL, due_at = NULL, completed_at = $5, destination = NULL,
                attempt = attempt + 1, settled = attempt + 1
         WHERE automation_id = $1 AND id = $2 AND attempt = $3 AND settled = $6");
    RETRY = Sql::both(
        "UPDATE runs SET status = 'running', state = $4, waiting_for = NULL, due_at = $5, completed_at = NULL, destination = NULL,
                attempt = attempt + 1, settled = attempt + 1
         WHERE automation_id = $1 AND id = $2 AND attempt = $3 AND settled = $6");
    KEPT = Sql::both("SELECT step, id, created_at, dropped_at, reason, wanted_at FROM outbox WHERE run_id = $1");
    WANT_MESSAGE = Sql::both(
        "UPDATE outbox SET wanted_at = $3 WHERE run_id = $1 AND id = $2 AND dropped_at IS NULL");
    DROP_MESSAGE = Sql::both(
        "UPDATE outbox SET dropped_at = $3 WHERE run_id = $1 AND id = $2 AND dropped_at IS NULL");
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

impl PendingCall {
    fn read(row: &Row) -> Result<Option<PendingCall>, DbError> {
        let (Some(_), Some(due_at)) = (row.maybe(14, Row::text)?, row.maybe(15, Row::int)?) else { return Ok(None) };
        let pause = match row.maybe(16, Row::int)? {
            Some(failures) => Some(HostPause { failures, until: row.int(17)?, reason: row.text(18)? }),
            None => None,
        };
        Ok(Some(PendingCall { due_at, pause }))
    }
}

impl Stored {
    pub fn read(row: &Row) -> Result<Stored, DbError> {
        Ok(Stored {
            listed: Listed::read(row)?,
            contact_id: row.id(4)?,
            occurrence_id: row.id(5)?,
            version: row.int(6)?,
            state: row.text(7)?,
            fence: Fence { attempt: row.int(8)?, settled: row.int(9)? },
            event_name: row.text(10)?,
            steps: row.text(11)?,
            connections: row.text(12)?,
            payload: row.maybe(13, Row::text)?,
            call: PendingCall::read(row)?,
        })
    }
}

/// The runs of an automation with one of the statuses; all, where none is named.
pub fn page(automation_id: AutomationId, page: &Page, wanted: &[&'static str]) -> Stmt {
    if wanted == [Ending::Failed.as_str()] {
        return page.statement(OLDER_FAILED, NEWER_FAILED, automation_id, []);
    }
    let wanted = if wanted.is_empty() { &STATUSES } else { wanted };
    let four: [Value; 4] = std::array::from_fn(|at| wanted[at % wanted.len()].into());
    page.statement(OLDER, NEWER, automation_id, four)
}

/// Ends a run, if nobody has claimed it or brought it on since it was `seen`.
pub fn cancel(automation_id: AutomationId, id: RunId, seen: Fence, state: &str, now: i64) -> Stmt {
    CANCEL.with(change(automation_id, id, seen, state, now)).expect(1)
}

/// Makes a run due again, if nobody has claimed it or brought it on since it was `seen`.
pub fn retry(automation_id: AutomationId, id: RunId, seen: Fence, state: &str, due_at: i64) -> Stmt {
    RETRY.with(change(automation_id, id, seen, state, due_at)).expect(1)
}

fn change(automation_id: AutomationId, id: RunId, seen: Fence, state: &str, time: i64) -> [Value; 6] {
    [automation_id.into(), id.into(), seen.attempt.into(), state.into(), time.into(), seen.settled.into()]
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

impl KeptMessage {
    pub fn read(row: &Row) -> Result<KeptMessage, DbError> {
        Ok(KeptMessage {
            step: row.text(0)?,
            id: row.id(1)?,
            created_at: row.int(2)?,
            is_dropped: row.maybe(3, Row::int)?.is_some(),
            reason: row.maybe(4, Row::text)?,
            is_wanted: row.maybe(5, Row::int)?.is_some(),
        })
    }
}

/// The messages of a run that wait for their templates.
pub fn kept(run_id: RunId) -> Stmt {
    KEPT.with([run_id.into()])
}

/// A person decides that a message is sent, however long it has waited.
pub fn want_message(run_id: RunId, id: MessageId, now: i64) -> Stmt {
    WANT_MESSAGE.with([run_id.into(), id.into(), now.into()]).expect(1)
}

/// A person decides that a message is not sent.
pub fn drop_message(run_id: RunId, id: MessageId, now: i64) -> Stmt {
    DROP_MESSAGE.with([run_id.into(), id.into(), now.into()]).expect(1)
}
