//! Imports and their files in the store.

use uuid::Uuid;

use super::apply::{Counts, Problem};
use super::plan::{Plan, Upload};
use super::shapes::{ImportDetail, ImportStatus, Item};
use crate::clock::SECOND;
use crate::db::{Batch, DbError, FromRow, Row, Sql, Stmt, among, elements, from_row, statements};
use crate::id::{Id, ImportId, TopicId, WorkspaceId, json_array};
use crate::web::Page;
use crate::work::{Claimable, InOrder, claim_rows};

/// How large a piece of a file is.
pub const CHUNK: usize = 256 << 10;

/// Of the contacts with the addresses `$2`, who wants mail about which of the topics `$3`.
macro_rules! opted_in {
    ($engine:ident) => {
        concat!(
            "SELECT c.id, t.id FROM contacts c
                 JOIN topics t ON t.workspace_id = $1 AND t.id IN ",
            elements!($engine ids "$3"),
            " LEFT JOIN topic_subscriptions s
                     ON s.workspace_id = $1 AND s.contact_id = c.id AND s.topic_id = t.id
             WHERE c.workspace_id = $1 AND c.email_key IN ",
            elements!($engine texts "$2"),
            " AND COALESCE(s.subscription, t.default_subscription) = 'opt_in'"
        )
    };
}

statements! {
    lists {
        OLDER, NEWER =
            "SELECT id, status, total, created, updated, skipped, failed, created_at, completed_at, errors
             FROM contact_imports WHERE workspace_id = $1 AND ($4 = '' OR status = $4)" by "id";
    }
    functions {
        pub fn insert(workspace_id: WorkspaceId, id: ImportId, upload: &Upload, now: i64, due_at: i64)
            with [workspace_id, id, written(&upload.plan), upload.file.len() as i64, upload.position as i64,
                upload.line, now, due_at] = Sql::both(
            "INSERT INTO contact_imports (workspace_id, id, status, plan, size, position, line, total, created, updated,
                 skipped, failed, errors, created_at, due_at, attempt)
             VALUES ($1, $2, 'queued', $3, $4, $5, $6, 0, 0, 0, 0, 0, '[]', $7, $8, 0)");
        pub fn add_chunk(workspace_id: WorkspaceId, id: ImportId, number: usize, bytes: &[u8])
            with [workspace_id, id, number as i64, bytes] = Sql::both(
            "INSERT INTO contact_import_chunks (workspace_id, import_id, number, bytes) VALUES ($1, $2, $3, $4)");
        pub(super) fn read_chunk(import: &Claimed, number: i64)
            with [import.workspace_id, import.id, number] = Sql::both(
            "SELECT bytes FROM contact_import_chunks WHERE workspace_id = $1 AND import_id = $2 AND number = $3");
        /// A piece of a file that waits for somebody to say what its columns are.
        pub fn piece(workspace_id: WorkspaceId, id: ImportId, number: i64) = Sql::both(
            "SELECT bytes FROM contact_import_chunks WHERE workspace_id = $1 AND import_id = $2 AND number = $3");
        /// How long such a file is.
        pub fn length(workspace_id: WorkspaceId, id: ImportId) = Sql::both(
            "SELECT CAST(COALESCE(SUM(LENGTH(bytes)), 0) AS BIGINT) FROM contact_import_chunks
             WHERE workspace_id = $1 AND import_id = $2");
        pub fn by_id(workspace_id: WorkspaceId, id: ImportId) = Sql::both(
            "SELECT id, status, total, created, updated, skipped, failed, created_at, completed_at, errors
             FROM contact_imports WHERE workspace_id = $1 AND id = $2");
        /// Deletes so many pieces of files that were never handed in whole: their ids are older than this.
        pub(super) fn sweep(oldest: Uuid, most: u64) with [oldest, most as i64] = Sql::both(
            "DELETE FROM contact_import_chunks WHERE (workspace_id, import_id, number) IN
                 (SELECT c.workspace_id, c.import_id, c.number FROM contact_import_chunks c
                  WHERE c.import_id < $1 AND NOT EXISTS
                      (SELECT 1 FROM contact_imports i WHERE i.workspace_id = c.workspace_id AND i.id = c.import_id)
                  LIMIT $2)");
        /// The contacts that have these addresses, which are in lower case.
        pub(super) fn contacts(workspace_id: WorkspaceId, keys: &[String])
            with [workspace_id, written(&keys)] = among!(
            "SELECT id, email, first_name, last_name, unsubscribed, properties, sequence, created_at, updated_at
             FROM contacts WHERE workspace_id = $1 AND email_key", texts "$2", "");
        /// Who of those that have these addresses wants mail about which of these topics.
        pub(super) fn opted_in(workspace_id: WorkspaceId, keys: &[String], topic_ids: &[TopicId])
            with [workspace_id, written(&keys), json_array(topic_ids.iter().copied())] = Sql::each(
            opted_in!(sqlite), opted_in!(postgres));
        /// Where an import stands once some rows are in, if nobody else has claimed it since.
        pub(super) fn advance(import: &Claimed, to: &Advance<'_>)
            with [import.workspace_id, import.id, import.attempt, to.position, to.line, to.counts.total,
                to.counts.created, to.counts.updated, to.counts.skipped, to.counts.failed, written(&to.problems),
                to.lease_until] expects 1 = Sql::both(
            "UPDATE contact_imports SET position = $4, line = $5, total = total + $6, created = created + $7,
                 updated = updated + $8, skipped = skipped + $9, failed = failed + $10, errors = $11, due_at = $12
             WHERE workspace_id = $1 AND id = $2 AND attempt = $3 AND status = 'in_progress'");
        /// Gives an import back, to be gone on with.
        pub(super) fn release(import: &Claimed, due_at: i64)
            with [import.workspace_id, import.id, import.attempt, due_at] expects 1 = Sql::both(
            "UPDATE contact_imports SET due_at = $4
             WHERE workspace_id = $1 AND id = $2 AND attempt = $3 AND status = 'in_progress'");
        fn set_ended(import: &Claimed, status: &str, now: i64)
            with [import.workspace_id, import.id, import.attempt, status, now] expects 1 = Sql::both(
            "UPDATE contact_imports SET status = $4, completed_at = $5, due_at = NULL
             WHERE workspace_id = $1 AND id = $2 AND attempt = $3 AND status = 'in_progress'");
        fn delete_chunks(workspace_id: WorkspaceId, id: ImportId) = Sql::both(
            "DELETE FROM contact_import_chunks WHERE workspace_id = $1 AND import_id = $2");
    }
    NEXT = Sql::both("SELECT due_at FROM contact_imports WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1");
    /// Workspaces take turns: the next one behind $4 has its own, however many imports another has.
    CLAIM = claim_rows!(
        "contact_imports" ("workspace_id", "id") where "due_at IS NOT NULL"
        first "CASE WHEN workspace_id > $4 THEN 0 ELSE 1 END, workspace_id, " set "status = 'in_progress', "
        returning "contact_imports.workspace_id, contact_imports.id, plan, size, position, line, errors, attempt");
}

from_row!(Counts { total, created, updated, skipped, failed });
from_row!(Item { object = ImportId::OBJECT, id, status, counts, created_at, completed_at });
from_row!(ImportDetail { item, errors: json });

/// An import that somebody works on.
pub struct Claimed {
    pub workspace_id: WorkspaceId,
    pub id: ImportId,
    pub plan: Plan,
    pub size: i64,
    /// Where the next row begins.
    pub position: i64,
    pub line: i64,
    /// The first rows that failed.
    pub problems: Vec<Problem>,
    /// Which attempt this is, from 1 on: the fence against a worker that overslept its lease.
    pub attempt: i64,
}

from_row!(Claimed { workspace_id, id, plan: json, size, position, line, problems: json, attempt });

impl Claimable for Claimed {
    const QUEUE: &'static str = "imports";
    /// Far longer than some rows take.
    const LEASE: i64 = 20 * SECOND;

    fn read(row: &Row) -> Result<Claimed, DbError> {
        FromRow::of_row(row)
    }
}

impl InOrder for Claimed {
    const NEXT: Sql = NEXT;
    const CLAIM: Sql = CLAIM;
}

fn written<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// `status` keeps to imports of one.
pub fn page(workspace_id: WorkspaceId, status: Option<ImportStatus>, page: &Page) -> Stmt {
    page.statement(OLDER, NEWER, workspace_id, [status.map_or("", ImportStatus::as_str).into()])
}

/// Where an import stands once some rows are in.
pub(super) struct Advance<'a> {
    pub position: i64,
    pub line: i64,
    pub counts: &'a Counts,
    pub problems: &'a [Problem],
    pub lease_until: i64,
}

/// Ends an import; its file goes.
pub(super) fn end(import: &Claimed, status: &str, now: i64) -> Batch {
    Batch::from(set_ended(import, status, now)).and(delete_chunks(import.workspace_id, import.id))
}
