//! Runs in the store, as far as workers bring them on.

use serde_json::Value;

use super::LEASE;
use crate::automations::app_grants::grant_stands;
use crate::automations::run::{Ending, Heard, Run};
use crate::clock::time_of;
use crate::contacts::Contact;
use crate::db::{Batch, DbError, Row, Sql, Stmt, statements};
use crate::id::{AutomationId, ContactId, OccurrenceId, RunId, WorkspaceId};
use crate::windows::{Window, Zone};
use crate::work::{Claimable, InOrder, claim_rows};

/// How many occurrences one look into a contact's history returns. Each may be large.
pub const HISTORY_PAGE: usize = 16;

/// How many runs of a deleted automation one commit deletes.
const SWEEP: i64 = 500;

/// What happened to a contact between two moments, under one of these names.
macro_rules! history {
    ($names:literal) => {
        concat!(
            "SELECT id, seq, name, payload FROM occurrences
             WHERE contact_id = $1 AND seq > $2 AND seq <= $5 AND heard AND name IN (",
            $names,
            ") ORDER BY seq LIMIT $4"
        )
    };
}

/// What a claim tells of a run.
macro_rules! claimed {
    () => {
        "runs.automation_id, runs.id, workspace_id, version, contact_id, occurrence_id, since, exit_on, state, attempt,
         settled, created_at, destination"
    };
}

statements! {
    NEXT = Sql::both(
        "SELECT due_at FROM runs WHERE due_at IS NOT NULL AND destination IS NULL ORDER BY due_at LIMIT 1");
    CLAIM = claim_rows!("runs" ("automation_id", "id") where "destination IS NULL" set "" returning claimed!());
    CLAIM_CALLS = claim_rows!("runs" ("automation_id", "id") where "destination = $4" set "" returning claimed!());
    /// The contact, the payload that started the run, whether the automation is
    /// there, whether its steps may call the outside (what an app published may as
    /// long as a key of that app would work), and when its mail may be sent.
    SIGHT = Sql::both(concat!(
        "SELECT c.id, c.email, c.first_name, c.last_name, c.unsubscribed, c.properties, c.version, c.created_at,
                c.updated_at, o.payload, CASE WHEN a.id IS NULL THEN 0 ELSE 1 END,
                CASE WHEN b.grant_id IS NULL OR ", grant_stands!("b.grant_id"), " THEN 1 ELSE 0 END,
                a.send_window, w.timezone
         FROM workspaces w
         LEFT JOIN contacts c ON c.workspace_id = w.id AND c.id = $2
         LEFT JOIN occurrences o ON o.workspace_id = w.id AND o.id = $3
         LEFT JOIN automations a ON a.workspace_id = w.id AND a.id = $4 AND a.deleted_at IS NULL
         LEFT JOIN automation_version_grants b ON b.automation_id = $4 AND b.version = $5
         WHERE w.id = $1"));
    /// Finds a row if the event happened to the contact between two moments.
    HAPPENED = Sql::both(
        "SELECT 1 FROM occurrences WHERE contact_id = $1 AND seq > $2 AND seq <= $4 AND heard AND name = $3 LIMIT 1");
    HISTORY = Sql::each(
        history!("SELECT value FROM json_each($3)"),
        // As text first: a parameter of the type JSON is none that values can be bound to.
        history!("SELECT json_array_elements_text(CAST(CAST($3 AS TEXT) AS JSON))"));
    /// Each holds only as long as nobody else has claimed the run since.
    SETTLE = Sql::both(
        "UPDATE runs SET state = $4, status = $5, waiting_for = $6, due_at = $7, completed_at = $8, destination = $9,
                settled = attempt
         WHERE automation_id = $1 AND id = $2 AND attempt = $3 AND status = 'running'");
    PUT_OFF = Sql::both(
        "UPDATE runs SET due_at = $4, settled = attempt
         WHERE automation_id = $1 AND id = $2 AND attempt = $3 AND status = 'running'");
    DELETED = Sql::both("SELECT workspace_id, id FROM automations WHERE deleted_at < $1 LIMIT 10");
    DELETE_MESSAGES = Sql::both(
        "DELETE FROM outbox WHERE run_id IN (SELECT id FROM runs WHERE automation_id = $1 ORDER BY id LIMIT $2)");
    DELETE_RUNS = Sql::both(
        "DELETE FROM runs WHERE automation_id = $1 AND id IN
             (SELECT id FROM runs WHERE automation_id = $1 ORDER BY id LIMIT $2)");
    DELETE_VERSIONS = Sql::both("DELETE FROM automation_versions WHERE automation_id = $1");
    DELETE_VERSION_GRANTS = Sql::both("DELETE FROM automation_version_grants WHERE automation_id = $1");
    DELETE_AUTOMATION = Sql::both(
        "DELETE FROM automations WHERE workspace_id = $1 AND id = $2 AND deleted_at IS NOT NULL");
}

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

impl Claimable for Claimed {
    const QUEUE: &'static str = "runs";
    const LEASE: i64 = LEASE;

    fn read(row: &Row) -> Result<Claimed, DbError> {
        Ok(Claimed {
            automation_id: row.id(0)?,
            id: row.id(1)?,
            workspace_id: row.id(2)?,
            version: row.int(3)?,
            contact_id: row.id(4)?,
            occurrence_id: row.id(5)?,
            since: row.int(6)?,
            exit_on: row.maybe(7, Row::text)?,
            state: row.text(8)?,
            attempt: row.int(9)?,
            settled: row.int(10)?,
            created_at: row.int(11)?,
            destination: row.maybe(12, Row::text)?,
        })
    }
}

impl InOrder for Claimed {
    const NEXT: Sql = NEXT;
    const CLAIM: Sql = CLAIM;
}

/// Claims runs that are to call this destination and are due; it returns them.
pub fn claim_calls(destination: &str, now: i64, lease_until: i64, most: i64) -> Stmt {
    CLAIM_CALLS.with([now.into(), lease_until.into(), most.into(), destination.into()])
}

/// What a run can see at a moment.
pub struct Sight {
    pub contact: Option<Contact>,
    pub payload: Value,
    pub automation_stands: bool,
    pub may_call: bool,
    pub send_window: Option<Window>,
    /// Of contacts that name no zone.
    pub zone: Zone,
}

pub fn sight(claimed: &Claimed) -> Stmt {
    SIGHT.with([
        claimed.workspace_id.into(),
        claimed.contact_id.into(),
        claimed.occurrence_id.into(),
        claimed.automation_id.into(),
        claimed.version.into(),
    ])
}

impl Sight {
    /// Of a workspace that is gone.
    pub const NOTHING: Sight = Sight {
        contact: None,
        payload: Value::Null,
        automation_stands: false,
        may_call: false,
        send_window: None,
        zone: Zone::UTC,
    };

    pub fn read(row: &Row) -> Result<Sight, DbError> {
        let contact = match row.maybe(0, Row::id::<ContactId>)? {
            Some(_) => Some(Contact::read(row)?),
            None => None,
        };
        let payload = row.maybe(9, Row::text)?.and_then(|text| serde_json::from_str(&text).ok());
        Ok(Sight {
            contact,
            payload: payload.unwrap_or(Value::Null),
            automation_stands: row.bool(10)?,
            may_call: row.bool(11)?,
            send_window: row.maybe(12, Row::text)?.and_then(|text| Window::stored(&text)),
            zone: Zone::named(&row.text(13)?).unwrap_or(Zone::UTC),
        })
    }
}

/// What happened to the contact after one moment, up to another, under these names,
/// a JSON array.
pub fn history(contact_id: ContactId, (after, until): (i64, i64), names: &str) -> Stmt {
    let most = HISTORY_PAGE as i64;
    HISTORY.with([contact_id.into(), after.into(), names.into(), most.into(), until.into()])
}

pub fn happened(contact_id: ContactId, (after, until): (i64, i64), name: &str) -> Stmt {
    HAPPENED.with([contact_id.into(), after.into(), name.into(), until.into()])
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

/// Writes down where a run is now, in wall time and in steady time, if it is
/// still ours.
pub fn settle(claimed: &Claimed, run: &Run, ahead: Ahead<'_>, now: i64, steady: i64) -> Stmt {
    let ending = run.ending();
    let status = ending.map_or("running", Ending::as_str);
    let stmt = SETTLE.with([
        claimed.automation_id.into(),
        claimed.id.into(),
        claimed.attempt.into(),
        run.to_json().into(),
        status.into(),
        ahead.waiting_for.into(),
        run.due_at(steady).into(),
        ending.map(|_| now).into(),
        ahead.destination.into(),
    ]);
    stmt.expect(1)
}

/// Lets a run be claimed again at another time.
pub fn put_off(claimed: &Claimed, due_at: i64) -> Stmt {
    let params = [claimed.automation_id.into(), claimed.id.into(), claimed.attempt.into(), due_at.into()];
    PUT_OFF.with(params).expect(1)
}

/// Automations that were deleted before `until` and are not gone yet: workspace
/// and id.
pub fn deleted(until: i64) -> Stmt {
    DELETED.with([until.into()])
}

/// Some runs of an automation, and the messages that wait of them.
pub fn delete_runs(automation_id: AutomationId) -> Batch {
    let messages = DELETE_MESSAGES.with([automation_id.into(), SWEEP.into()]);
    Batch::new().and(messages).and(DELETE_RUNS.with([automation_id.into(), SWEEP.into()]))
}

/// The last of an automation whose runs are gone.
pub fn purge(workspace_id: WorkspaceId, id: AutomationId) -> [Stmt; 3] {
    let (versions, grants) = (DELETE_VERSIONS.with([id.into()]), DELETE_VERSION_GRANTS.with([id.into()]));
    [versions, grants, DELETE_AUTOMATION.with([workspace_id.into(), id.into()])]
}
