//! How runs begin: in the commit of the occurrence that starts them.

use super::automation::ReEntry;
use super::run::Run;
use super::triggers::Trigger;
use crate::clock::Clock;
use crate::db::{Sql, Stmt, statements};

/// A run for the contact that the condition finds, as it is at this moment.
/// SQLite is told to fail without undoing: of one row there is nothing to undo,
/// and it need not keep copies of the pages that it changes.
macro_rules! enter {
    ($insert:literal, $whom:literal, $unless:expr) => {
        concat!(
            $insert,
            " INTO runs (automation_id, id, workspace_id, version, contact_id, occurrence_id, since, status,
                               state, exit_on, due_at, attempt, settled, created_at)
             SELECT $3, $4, c.workspace_id, CAST($5 AS BIGINT), c.id, $6, c.version - $7, 'running',
                    $8, $9, CAST($10 AS BIGINT), 0, 0, CAST($11 AS BIGINT)
             FROM contacts c WHERE c.workspace_id = $1 AND c.",
            $whom,
            " = $2 AND c.version <= $12",
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
            " WHERE r.contact_id = c.id AND r.automation_id = $3",
            $when,
            ")"
        )
    };
}

statements! {
    ENTER_BY_ID = Sql::each(enter!("INSERT OR FAIL", "id", ""), enter!("INSERT", "id", ""));
    ENTER_ONCE_BY_ID = Sql::each(
        enter!("INSERT OR FAIL", "id", unless_there!(" INDEXED BY runs_by_contact", "")),
        enter!("INSERT", "id", unless_there!("", "")));
    ENTER_ALONE_BY_ID = Sql::each(
        enter!("INSERT OR FAIL", "id", unless_there!(" INDEXED BY runs_by_contact", " AND r.status = 'running'")),
        enter!("INSERT", "id", unless_there!("", " AND r.status = 'running'")));
    ENTER_BY_EMAIL = Sql::each(enter!("INSERT OR FAIL", "email_key", ""), enter!("INSERT", "email_key", ""));
    ENTER_ONCE_BY_EMAIL = Sql::each(
        enter!("INSERT OR FAIL", "email_key", unless_there!(" INDEXED BY runs_by_contact", "")),
        enter!("INSERT", "email_key", unless_there!("", "")));
    ENTER_ALONE_BY_EMAIL = Sql::each(
        enter!("INSERT OR FAIL", "email_key", unless_there!(" INDEXED BY runs_by_contact", " AND r.status = 'running'")),
        enter!("INSERT", "email_key", unless_there!("", " AND r.status = 'running'")));
    WAKE_BY_ID = Sql::both(
        "UPDATE runs SET due_at = $4
         WHERE contact_id = $2 AND workspace_id = $1
           AND status = 'running' AND (waiting_for IS NOT NULL OR exit_on IS NOT NULL)
           AND (waiting_for = $3 OR exit_on = $3) AND (due_at IS NULL OR due_at > $4)");
    RELEASE = Sql::both(
        "UPDATE runs SET due_at = $3
         WHERE contact_id = $2 AND workspace_id = $1
           AND status = 'running' AND (waiting_for IS NOT NULL OR exit_on IS NOT NULL) AND due_at IS NULL");
    WAKE_BY_EMAIL = Sql::both(
        "UPDATE runs SET due_at = $4
         WHERE contact_id = (SELECT c.id FROM contacts c WHERE c.workspace_id = $1 AND c.email_key = $2)
           AND status = 'running' AND (waiting_for IS NOT NULL OR exit_on IS NOT NULL)
           AND (waiting_for = $3 OR exit_on = $3) AND (due_at IS NULL OR due_at > $4)");
}

/// How a statement finds the contact that something happened to.
#[derive(Debug, Clone, Copy)]
pub enum Whom<'a> {
    Id(&'a str),
    EmailKey(&'a str),
}

impl<'a> Whom<'a> {
    pub fn key(self) -> &'a str {
        match self {
            Whom::Id(key) | Whom::EmailKey(key) => key,
        }
    }
}

/// The moment in a contact's life that an occurrence is.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// How far it lies behind the contact's version.
    pub behind: i64,
    /// It only comes to pass for a contact of no higher version.
    pub newest: i64,
}

impl Moment {
    /// Whatever just made the contact's version what it is.
    pub const NOW: Moment = Moment { behind: 0, newest: i64::MAX };
    /// The making of a contact that is new; nothing for one that is not.
    pub const BIRTH: Moment = Moment { behind: 1, newest: crate::contacts::arrival::NEW };
}

/// The occurrence that starts a run.
pub struct Cause<'a> {
    pub workspace_id: &'a str,
    pub occurrence_id: &'a str,
    pub whom: Whom<'a>,
    pub moment: Moment,
    pub now: i64,
}

/// Lets the contact in, if the automation takes it, with the first timer set.
/// Tells whether the run can go on at once.
pub fn enter(cause: &Cause<'_>, trigger: &Trigger, clock: &Clock) -> (Stmt, bool) {
    let run = Run::begun(clock.ordered_id(), &trigger.graph, cause.now);
    let due_at = run.due_at(cause.now);
    let sql = match (cause.whom, trigger.re_entry) {
        (Whom::Id(_), ReEntry::Always) => ENTER_BY_ID,
        (Whom::Id(_), ReEntry::OncePerContact) => ENTER_ONCE_BY_ID,
        (Whom::Id(_), ReEntry::OneAtATime) => ENTER_ALONE_BY_ID,
        (Whom::EmailKey(_), ReEntry::Always) => ENTER_BY_EMAIL,
        (Whom::EmailKey(_), ReEntry::OncePerContact) => ENTER_ONCE_BY_EMAIL,
        (Whom::EmailKey(_), ReEntry::OneAtATime) => ENTER_ALONE_BY_EMAIL,
    };
    let stmt = sql.with([
        cause.workspace_id.into(),
        cause.whom.key().into(),
        (&trigger.automation_id).into(),
        (&run.id).into(),
        trigger.version.into(),
        cause.occurrence_id.into(),
        cause.moment.behind.into(),
        run.to_json().into(),
        trigger.exit_on.as_deref().into(),
        due_at.into(),
        cause.now.into(),
        cause.moment.newest.into(),
    ]);
    (stmt, due_at.is_some_and(|due| due <= cause.now))
}

/// Wakes the contact's runs that wait for the event, or end on it.
pub fn wake(workspace_id: &str, whom: Whom<'_>, event_name: &str, now: i64) -> Stmt {
    let sql = match whom {
        Whom::Id(_) => WAKE_BY_ID,
        Whom::EmailKey(_) => WAKE_BY_EMAIL,
    };
    sql.with([workspace_id.into(), whom.key().into(), event_name.into(), now.into()])
}

/// Wakes the runs of a contact that is gone which only an event could wake: none
/// will come.
pub fn release(workspace_id: &str, contact_id: &str, now: i64) -> Stmt {
    RELEASE.with([workspace_id.into(), contact_id.into(), now.into()])
}
