//! Runs in the store, as far as workers bring them on.

use serde_json::Value;

use super::LEASE;
use crate::automations::app_grants::grant_stands;
use crate::automations::run::{Heard, Run};
use crate::clock::time_of;
use crate::contacts::Contact;
use crate::db::{Batch, Columns, DbError, FromRow, Row, Sql, Stmt, among, from_row, statements};
use crate::id::{AutomationId, ContactId, OccurrenceId, RunId, WorkspaceId};
use crate::occurrences::Ending;
use crate::windows::{Window, Zone};
use crate::work::{Claimable, InOrder, claim_rows};

/// How many occurrences one look into a contact's history returns. Each may be large.
pub const HISTORY_PAGE: usize = 16;

/// How many runs of a deleted automation one commit deletes.
const SWEEP: i64 = 500;

/// What a claim tells of a run.
macro_rules! claimed {
    () => {
        "runs.automation_id, runs.id, workspace_id, version, contact_id, occurrence_id, since, exit_on, state, attempt,
         settled, created_at, destination"
    };
}

statements! {
    functions {
        /// The payload that started the run, whether the automation is there, whether its steps may call the outside
        /// (what an app published may as long as a key of that app would work), when its mail may be sent, and the
        /// contact.
        pub fn sight(claimed: &Claimed)
            with [claimed.workspace_id, claimed.contact_id, claimed.occurrence_id, claimed.automation_id,
                claimed.version] = Sql::both(concat!(
            "SELECT o.payload, CASE WHEN a.id IS NULL THEN 0 ELSE 1 END,
                    CASE WHEN b.grant_id IS NULL OR ", grant_stands!("b.grant_id"), " THEN 1 ELSE 0 END,
                    a.send_window, w.timezone, c.id, c.email, c.first_name, c.last_name, c.unsubscribed, c.properties, c.sequence, c.created_at,
                    c.updated_at
             FROM workspaces w
             LEFT JOIN contacts c ON c.workspace_id = w.id AND c.id = $2
             LEFT JOIN occurrences o ON o.workspace_id = w.id AND o.id = $3
             LEFT JOIN automations a ON a.workspace_id = w.id AND a.id = $4 AND a.deleted_at IS NULL
             LEFT JOIN automation_version_grants b ON b.automation_id = $4 AND b.version = $5
             WHERE w.id = $1"));
        /// Finds a row if the event happened to the contact between two moments.
        pub fn happened(contact_id: ContactId, span: (i64, i64), name: &str)
            with [contact_id, span.0, name, span.1] = Sql::both(
            "SELECT 1 FROM occurrences WHERE contact_id = $1
               AND seq > $2 AND seq <= $4 AND heard AND name = $3 LIMIT 1");
        /// What happened to the contact after one moment, up to another, under these names,
        /// a JSON array.
        pub fn history(contact_id: ContactId, span: (i64, i64), names: &str)
            with [contact_id, span.0, names, HISTORY_PAGE as i64, span.1] = among!(
            "SELECT id, seq, name, payload FROM occurrences
             WHERE contact_id = $1 AND seq > $2 AND seq <= $5 AND heard AND name", texts "$3", " ORDER BY seq LIMIT $4");
        /// Writes down where a run is now, in wall time and in steady time, if nobody else has claimed it since.
        pub fn settle(claimed: &Claimed, run: &Run, ahead: Ahead<'_>, now: i64, steady: i64)
            with [claimed.automation_id, claimed.id, claimed.attempt, run.to_json(),
                run.ending().map_or("running", Ending::as_str), ahead.waiting_for, run.due_at(steady),
                run.ending().map(|_| now), ahead.destination] expects 1 = Sql::both(
            "UPDATE runs SET state = $4, status = $5, waiting_for = $6, due_at = $7, completed_at = $8,
                    destination = $9, settled = attempt
             WHERE automation_id = $1 AND id = $2 AND attempt = $3 AND status = 'running'");
        /// Lets a run be claimed again at another time, if nobody else has claimed it since.
        pub fn put_off(claimed: &Claimed, due_at: i64)
            with [claimed.automation_id, claimed.id, claimed.attempt, due_at] expects 1 = Sql::both(
            "UPDATE runs SET due_at = $4, settled = attempt
             WHERE automation_id = $1 AND id = $2 AND attempt = $3 AND status = 'running'");
        /// Moves the end of a claim of which nothing came yet, if nobody else has claimed the run since.
        pub fn renew(claimed: &Claimed, lease_until: i64)
            with [claimed.automation_id, claimed.id, claimed.attempt, lease_until] expects 1 = Sql::both(
            "UPDATE runs SET due_at = $4
             WHERE automation_id = $1 AND id = $2 AND attempt = $3 AND settled < attempt AND status = 'running'");
        /// What waits in the outbox of the runs that [`delete_until`] deletes.
        fn delete_messages(automation_id: AutomationId, last: RunId) = Sql::both(
            "DELETE FROM outbox WHERE run_id IN (SELECT id FROM runs WHERE automation_id = $1 AND id <= $2)");
        fn delete_until(automation_id: AutomationId, last: RunId) = Sql::both(
            "DELETE FROM runs WHERE automation_id = $1 AND id <= $2");
        fn delete_versions(automation_id: AutomationId) = Sql::both(
            "DELETE FROM automation_versions WHERE automation_id = $1");
        fn delete_version_grants(automation_id: AutomationId) = Sql::both(
            "DELETE FROM automation_version_grants WHERE automation_id = $1");
        fn delete_automation(workspace_id: WorkspaceId, id: AutomationId) = Sql::both(
            "DELETE FROM automations WHERE workspace_id = $1 AND id = $2 AND deleted_at IS NOT NULL");
    }
    reads {
        /// Automations that were deleted before `until` and are not gone yet.
        pub fn deleted(until: i64) -> Vec<(WorkspaceId, AutomationId)> = Sql::both(
            "SELECT workspace_id, id FROM automations WHERE deleted_at < $1 LIMIT 10");
        /// The first of its runs.
        pub fn some_runs(automation_id: AutomationId) with [automation_id, SWEEP] -> Vec<LeftRun> = Sql::both(
            "SELECT id, contact_id, occurrence_id, created_at, CASE WHEN status = 'running' THEN TRUE ELSE FALSE END
             FROM runs WHERE automation_id = $1 ORDER BY id LIMIT $2");
    }
    NEXT = Sql::both(
        "SELECT due_at FROM runs WHERE due_at IS NOT NULL AND destination IS NULL ORDER BY due_at LIMIT 1");
    CLAIM = claim_rows!("runs" ("automation_id", "id") where "destination IS NULL" set "" returning claimed!());
    CLAIM_OF_LINE = claim_rows!("runs" ("automation_id", "id") where "destination = $4" set "" returning claimed!());
}

/// Claims runs that are to call a destination and are due.
pub const CLAIM_CALLS: Sql = CLAIM_OF_LINE;

/// A run that a worker has claimed.
#[derive(Debug, Clone)]
pub struct Claimed {
    pub automation_id: AutomationId,
    pub id: RunId,
    pub workspace_id: WorkspaceId,
    pub version: i64,
    pub contact_id: ContactId,
    pub occurrence_id: OccurrenceId,
    pub since: i64,
    pub exit_on: Option<String>,
    pub state: String,
    /// The fence.
    pub attempt: i64,
    pub settled: i64,
    pub created_at: i64,
    /// Where it is about to call.
    pub destination: Option<String>,
}

from_row! { Claimed {
    automation_id, id, workspace_id, version, contact_id, occurrence_id, since, exit_on, state, attempt, settled,
    created_at, destination
} }

impl Claimable for Claimed {
    const QUEUE: &'static str = "runs";
    const LEASE: i64 = LEASE;

    fn read(row: &Row) -> Result<Claimed, DbError> {
        FromRow::of_row(row)
    }
}

impl InOrder for Claimed {
    const NEXT: Sql = NEXT;
    const CLAIM: Sql = CLAIM;
}

/// What a run can see at a moment.
pub struct Sight {
    /// Null where the occurrence is gone.
    pub payload: Value,
    pub automation_stands: bool,
    pub may_call: bool,
    pub send_window: Option<Window>,
    /// Of contacts that name no zone.
    pub zone: Zone,
    pub contact: Option<Contact>,
}

from_row!(Sight { payload: json, automation_stands, may_call, send_window, zone, contact });

impl FromRow for Window {
    fn take(columns: &mut Columns<'_>) -> Result<Window, DbError> {
        columns.parsed("a window", Window::stored)
    }
}

impl FromRow for Zone {
    fn take(columns: &mut Columns<'_>) -> Result<Zone, DbError> {
        // One that this machine does not know is not worth a run.
        columns.parsed("a time zone", |name| Some(Zone::named(name).unwrap_or(Zone::UTC)))
    }
}

impl Sight {
    /// Of a workspace that is gone.
    pub const NOTHING: Sight = Sight {
        payload: Value::Null,
        automation_stands: false,
        may_call: false,
        send_window: None,
        zone: Zone::UTC,
        contact: None,
    };
}

pub fn read_heard(row: &Row) -> Result<Heard, DbError> {
    let id = row.id(0)?;
    Ok(Heard {
        // The time that is shown may have been set since; the id's was not.
        at: time_of(id),
        id,
        seq: row.int(1)?,
        name: row.text(2)?,
        payload: serde_json::from_str(&row.text(3)?).unwrap_or(Value::Null),
    })
}

/// What a run stands before, for those who look for such runs.
#[derive(Debug, Clone, Default)]
pub struct Ahead<'a> {
    pub waiting_for: Option<&'a str>,
    pub destination: Option<String>,
}

/// A run that an automation has left.
pub struct LeftRun {
    pub id: RunId,
    pub contact_id: ContactId,
    pub occurrence_id: OccurrenceId,
    pub created_at: i64,
    pub is_under_way: bool,
}

from_row!(LeftRun { id, contact_id, occurrence_id, created_at, is_under_way });

/// The runs of an automation up to one, and the messages that wait of them.
pub fn delete_runs(automation_id: AutomationId, last: RunId) -> Batch {
    Batch::from(delete_messages(automation_id, last)).and(delete_until(automation_id, last))
}

/// The last of an automation whose runs are gone.
pub fn purge(workspace_id: WorkspaceId, id: AutomationId) -> [Stmt; 3] {
    [delete_versions(id), delete_version_grants(id), delete_automation(workspace_id, id)]
}
