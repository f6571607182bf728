//! How runs begin: in the commit of the occurrence that starts them.

use super::automation::ReEntry;
use super::run::Run;
use super::triggers::Trigger;
use crate::clock::Clock;
use crate::db::{Sql, Stmt, statements};

/// A run for the contact of an occurrence that was just recorded; none where it
/// was not. SQLite is told to fail without undoing: of one row there is nothing
/// to undo, and it need not keep copies of the pages that it changes.
macro_rules! enter {
    ($insert:literal, $unless:expr) => {
        concat!(
            $insert,
            " INTO runs (automation_id, id, workspace_id, version, contact_id, occurrence_id, since, status,
                         state, exit_on, due_at, attempt, settled, created_at)
             SELECT $3, $4, o.workspace_id, CAST($5 AS BIGINT), o.contact_id, o.id, o.seq, 'running',
                    '', $6, CAST($7 AS BIGINT), 0, 0, CAST($8 AS BIGINT)
             FROM occurrences o WHERE o.workspace_id = $1 AND o.id = $2",
            $unless
        )
    };
}

/// The contact has never been in this automation, or is not in it at the moment.
/// Left to itself, SQLite would walk through all runs of the automation.
macro_rules! unless_there {
    ($hint:literal, $when:literal) => {
        concat!(
            " AND NOT EXISTS (SELECT 1 FROM runs r",
            $hint,
            " WHERE r.contact_id = o.contact_id AND r.automation_id = $3",
            $when,
            ")"
        )
    };
}

statements! {
    ENTER = Sql::each(enter!("INSERT OR FAIL", ""), enter!("INSERT", ""));
    ENTER_ONCE = Sql::each(
        enter!("INSERT OR FAIL", unless_there!(" INDEXED BY runs_by_contact", "")),
        enter!("INSERT", unless_there!("", "")));
    ENTER_ALONE = Sql::each(
        enter!("INSERT OR FAIL", unless_there!(" INDEXED BY runs_by_contact", " AND r.status = 'running'")),
        enter!("INSERT", unless_there!("", " AND r.status = 'running'")));
    WAKE = Sql::both(
        "UPDATE runs SET due_at = $4
         WHERE contact_id = (SELECT o.contact_id FROM occurrences o WHERE o.workspace_id = $1 AND o.id = $2)
           AND status = 'running' AND (waiting_for IS NOT NULL OR exit_on IS NOT NULL)
           AND (waiting_for = $3 OR exit_on = $3) AND (due_at IS NULL OR due_at > $4)");
    RELEASE = Sql::both(
        "UPDATE runs SET due_at = $3
         WHERE contact_id = $2 AND workspace_id = $1
           AND status = 'running' AND (waiting_for IS NOT NULL OR exit_on IS NOT NULL) AND due_at IS NULL");
}

/// The occurrence that starts a run, recorded before it in the same commit.
pub struct Cause<'a> {
    pub workspace_id: &'a str,
    pub occurrence_id: &'a str,
    pub now: i64,
}

/// Lets the contact in, if the automation takes it, with the first timer set.
/// Tells whether the run can go on at once. Its state is left empty: until a
/// worker has brought it on, it follows from the graph and the time.
pub fn enter(cause: &Cause<'_>, trigger: &Trigger, clock: &Clock) -> (Stmt, bool) {
    let due_at = Run::first_due(&trigger.graph, cause.now);
    let sql = match trigger.re_entry {
        ReEntry::Always => ENTER,
        ReEntry::OncePerContact => ENTER_ONCE,
        ReEntry::OneAtATime => ENTER_ALONE,
    };
    let stmt = sql.with([
        cause.workspace_id.into(),
        cause.occurrence_id.into(),
        (&trigger.automation_id).into(),
        clock.ordered_id().into(),
        trigger.version.into(),
        trigger.exit_on.as_deref().into(),
        due_at.into(),
        cause.now.into(),
    ]);
    (stmt, due_at <= cause.now)
}

/// Wakes the runs of the occurrence's contact that wait for the event, or end on it.
pub fn wake(cause: &Cause<'_>, event_name: &str) -> Stmt {
    WAKE.with([cause.workspace_id.into(), cause.occurrence_id.into(), event_name.into(), cause.now.into()])
}

/// Wakes the runs of a contact that is gone which only an event could wake: none
/// will come.
pub fn release(workspace_id: &str, contact_id: &str, now: i64) -> Stmt {
    RELEASE.with([workspace_id.into(), contact_id.into(), now.into()])
}
