//! Runs in the store, as far as people and programs look at them.

use uuid::Uuid;

use super::STATUSES;
use crate::db::{Sql, Stmt, Value, from_row, statements};
use crate::id::{AutomationId, ContactId, Id, MessageId, OccurrenceId, RunId, WorkspaceId};
use crate::occurrences::Ending;
use crate::web::Page;

/// What a list of runs of several automations shows.
macro_rules! everywhere {
    ($from:expr) => {
        concat!(
            "SELECT r.id, r.status, r.created_at, r.completed_at, r.automation_id, a.name, r.contact_id, c.email,
                    r.waiting_for, r.due_at ",
            $from
        )
    };
}

/// The runs of automations, all of them or one: of each only as many as a page may show, and all of them in order.
/// Without an index over all runs of a workspace, which every run would have to be written to, that is how few are
/// looked at.
macro_rules! of_each {
    (sqlite, $runs:expr, $order:literal) => {
        concat!(
            everywhere!("FROM automations a CROSS JOIN runs r"),
            " LEFT JOIN contacts c ON c.workspace_id = r.workspace_id AND c.id = r.contact_id
              WHERE a.workspace_id = $1 AND a.id BETWEEN $4 AND $5 AND a.deleted_at IS NULL
                AND r.automation_id = a.id AND r.id IN (",
            $runs,
            ") ORDER BY r.id",
            $order,
            " LIMIT $3"
        )
    };
    (postgres, $runs:expr, $order:literal) => {
        concat!(
            everywhere!("FROM automations a CROSS JOIN LATERAL ("),
            $runs,
            ") AS one JOIN runs r ON r.automation_id = a.id AND r.id = one.id
              LEFT JOIN contacts c ON c.workspace_id = r.workspace_id AND c.id = r.contact_id
              WHERE a.workspace_id = $1 AND a.id BETWEEN $4 AND $5 AND a.deleted_at IS NULL ORDER BY r.id",
            $order,
            " LIMIT $3"
        )
    };
}

/// The runs of one automation that a page may show, of those that are among some.
macro_rules! of_one {
    ($among:literal, $side:literal, $order:literal) => {
        concat!(
            "SELECT n.id FROM runs n WHERE n.automation_id = a.id",
            $among,
            " AND n.id ",
            $side,
            " $2 ORDER BY n.id",
            $order,
            " LIMIT $3"
        )
    };
}

macro_rules! everywhere_by {
    ($among:literal, $side:literal, $order:literal) => {
        Sql::each(
            of_each!(sqlite, of_one!($among, $side, $order), $order),
            of_each!(postgres, of_one!($among, $side, $order), $order),
        )
    };
}

/// How many automations have more runs than so many on one side of one.
macro_rules! longer {
    ($side:literal, $order:literal) => {
        Sql::both(concat!(
            "SELECT COUNT(*) FROM automations a
             WHERE a.workspace_id = $1 AND a.id BETWEEN $4 AND $5 AND a.deleted_at IS NULL AND EXISTS
                 (SELECT 1 FROM runs n WHERE n.automation_id = a.id AND n.id ",
            $side,
            " $2 ORDER BY n.id",
            $order,
            " LIMIT 1 OFFSET $3)"
        ))
    };
}

/// The first run of any automation that has so many others of its own before it.
macro_rules! edge {
    ($side:literal, $order:literal) => {
        Sql::each(
            concat!(
                "SELECT r.id, r.created_at FROM automations a CROSS JOIN runs r
                 WHERE a.workspace_id = $1 AND a.id BETWEEN $4 AND $5 AND a.deleted_at IS NULL
                   AND r.automation_id = a.id AND r.id =
                     (SELECT n.id FROM runs n WHERE n.automation_id = a.id AND n.id ",
                $side,
                " $2 ORDER BY n.id",
                $order,
                " LIMIT 1 OFFSET $3) ORDER BY r.id",
                $order,
                " LIMIT 1"
            ),
            concat!(
                "SELECT r.id, r.created_at FROM automations a CROSS JOIN LATERAL
                     (SELECT n.id, n.created_at FROM runs n WHERE n.automation_id = a.id AND n.id ",
                $side,
                " $2 ORDER BY n.id",
                $order,
                " LIMIT 1 OFFSET $3) AS r
                 WHERE a.workspace_id = $1 AND a.id BETWEEN $4 AND $5 AND a.deleted_at IS NULL ORDER BY r.id",
                $order,
                " LIMIT 1"
            ),
        )
    };
}

/// The runs of one contact.
macro_rules! of_contact {
    ($side:literal, $order:literal) => {
        Sql::both(concat!(
            everywhere!("FROM runs r JOIN automations a ON a.workspace_id = r.workspace_id AND a.id = r.automation_id"),
            " LEFT JOIN contacts c ON c.workspace_id = r.workspace_id AND c.id = r.contact_id
              WHERE r.workspace_id = $1 AND r.contact_id = $4 AND a.deleted_at IS NULL
                AND r.status IN ($5, $6, $7, $8) AND r.automation_id BETWEEN $9 AND $10 AND r.id ",
            $side,
            " $2 ORDER BY r.id",
            $order,
            " LIMIT $3"
        ))
    };
}

statements! {
    lists {
        /// Four statuses: who wants fewer names some of them twice.
        OLDER, NEWER =
            "SELECT id, status, created_at, completed_at FROM runs
             WHERE automation_id = $1 AND status IN ($4, $5, $6, $7)" by "id";
        /// The same, with whom they are about.
        OLDER_NAMED, NEWER_NAMED =
            "SELECT r.id, r.status, r.created_at, r.completed_at, r.contact_id, c.email, r.version
             FROM runs r LEFT JOIN contacts c ON c.workspace_id = r.workspace_id AND c.id = r.contact_id
             WHERE r.automation_id = $1" by "r.id";
        /// Through an index of their own.
        OLDER_FAILED, NEWER_FAILED =
            "SELECT id, status, created_at, completed_at FROM runs
             WHERE automation_id = $1 AND status = 'failed'" by "id";
    }
    functions {
        /// How many automations the runs of a workspace are of.
        pub fn count_automations(workspace_id: WorkspaceId) = Sql::both(
            "SELECT COUNT(*) FROM automations WHERE workspace_id = $1 AND deleted_at IS NULL");
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
        /// What is kept of the newest runs of an automation that go by this version.
        pub fn newest_states(automation_id: AutomationId, version: i64, newest: i64) = Sql::both(
            "SELECT n.state FROM
                 (SELECT id, version, state FROM runs WHERE automation_id = $1 ORDER BY id DESC LIMIT $3) AS n
             WHERE n.version = $2");
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
    OLDER_OF_ALL = everywhere_by!("", "<", " DESC");
    NEWER_OF_ALL = everywhere_by!("", ">", "");
    /// Through an index of their own.
    OLDER_FAILED_OF_ALL = everywhere_by!(" AND n.status = 'failed'", "<", " DESC");
    NEWER_FAILED_OF_ALL = everywhere_by!(" AND n.status = 'failed'", ">", "");
    /// As far as to an edge.
    OLDER_SOME_OF_ALL = everywhere_by!(" AND n.status = $6 AND n.id > $7", "<", " DESC");
    NEWER_SOME_OF_ALL = everywhere_by!(" AND n.status = $6 AND n.id < $7", ">", "");
    OLDER_LONGER = longer!("<", " DESC");
    NEWER_LONGER = longer!(">", "");
    OLDER_EDGE = edge!("<", " DESC");
    NEWER_EDGE = edge!(">", "");
    OLDER_OF_CONTACT = of_contact!("<", " DESC");
    NEWER_OF_CONTACT = of_contact!(">", "");
}

/// A run among those of other automations.
pub struct Everywhere {
    pub listed: Listed,
    pub automation_id: AutomationId,
    pub automation: String,
    pub contact_id: ContactId,
    pub email: Option<String>,
    pub waiting_for: Option<String>,
    /// In steady time.
    pub due_at: Option<i64>,
}

from_row!(Everywhere { listed, automation_id, automation, contact_id, email, waiting_for, due_at });

/// Which runs of a workspace are wanted.
pub struct Wanted {
    pub workspace_id: WorkspaceId,
    /// Of all automations, or of one.
    pub automation_id: Option<AutomationId>,
    pub status: Option<&'static str>,
}

/// The first run that a look did not go through.
pub struct Edge {
    pub id: RunId,
    pub created_at: i64,
}

from_row!(Edge { id, created_at });

impl Wanted {
    /// From the first automation to the last.
    fn span(&self) -> [Value; 2] {
        let [first, last] = self.automation_id.map_or([Uuid::nil(), Uuid::max()], |id| [id.uuid(); 2]);
        [first.into(), last.into()]
    }

    /// Whether no index finds them, so that the runs have to be gone through.
    pub fn are_looked_for(&self) -> bool {
        self.status.is_some_and(|status| status != Ending::Failed.as_str())
    }

    /// A page of them; of those that are looked for, as far as to the edge.
    pub fn page(&self, page: &Page, edge: Option<RunId>) -> Stmt {
        let [first, last] = self.span();
        match self.status {
            None => page.statement(OLDER_OF_ALL, NEWER_OF_ALL, self.workspace_id, [first, last]),
            Some(status) if self.are_looked_for() => {
                let end = if page.bounds().0 { Uuid::max() } else { Uuid::nil() };
                let more = [first, last, status.into(), edge.map_or(end, Id::uuid).into()];
                page.statement(OLDER_SOME_OF_ALL, NEWER_SOME_OF_ALL, self.workspace_id, more)
            }
            Some(_) => page.statement(OLDER_FAILED_OF_ALL, NEWER_FAILED_OF_ALL, self.workspace_id, [first, last]),
        }
    }

    /// How many automations have more runs than so many that a page may show.
    pub fn longer(&self, page: &Page, each: i64) -> Stmt {
        self.beside(page, [OLDER_LONGER, NEWER_LONGER], each)
    }

    /// Where a look ends that goes through so many runs of each automation.
    pub fn edge(&self, page: &Page, each: i64) -> Stmt {
        self.beside(page, [OLDER_EDGE, NEWER_EDGE], each)
    }

    fn beside(&self, page: &Page, [older, newer]: [Sql; 2], each: i64) -> Stmt {
        let (upwards, from, _) = page.bounds();
        let [first, last] = self.span();
        let sql = if upwards { newer } else { older };
        sql.with([self.workspace_id.into(), from.into(), each.into(), first, last])
    }

    /// A page of those of a contact.
    pub fn page_of_contact(&self, contact_id: ContactId, page: &Page) -> Stmt {
        let [a, b, c, d]: [Value; 4] = STATUSES.map(|one| self.status.unwrap_or(one).into());
        let [first, last] = self.span();
        let more = [contact_id.into(), a, b, c, d, first, last];
        page.statement(OLDER_OF_CONTACT, NEWER_OF_CONTACT, self.workspace_id, more)
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

/// The runs of an automation with their contacts.
pub fn page_named(automation_id: AutomationId, page: &Page) -> Stmt {
    page.statement(OLDER_NAMED, NEWER_NAMED, automation_id, [])
}

/// A run of an automation, and whom it is about.
pub struct Named {
    pub listed: Listed,
    pub contact_id: ContactId,
    pub email: Option<String>,
    pub version: i64,
}

from_row!(Named { listed, contact_id, email, version });

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
