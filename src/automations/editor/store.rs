//! Drafts in the store.

use super::contents::Contents;
use crate::db::{Batch, Sql, from_row, statements};
use crate::id::{AutomationId, UserId, WorkspaceId};

/// How many edits can be taken back.
const KEPT: i64 = 200;

statements! {
    functions {
        /// The draft of an automation, with the snapshot that is shown and the edit that comes after it.
        pub fn find(workspace_id: WorkspaceId, automation_id: AutomationId) = Sql::both(
            "SELECT d.base_version, d.revision, d.position, d.updated_at, COALESCE(u.email, ''), s.what, s.contents,
                    (SELECT n.what FROM automation_draft_snapshots n
                     WHERE n.automation_id = d.automation_id AND n.position = d.position + 1),
                    (SELECT MIN(o.position) FROM automation_draft_snapshots o WHERE o.automation_id = d.automation_id)
             FROM automation_drafts d
             JOIN automation_draft_snapshots s ON s.automation_id = d.automation_id AND s.position = d.position
             LEFT JOIN users u ON u.id = d.author_id
             WHERE d.workspace_id = $1 AND d.automation_id = $2");
        /// Drafts of automations that were never published, those edited last before others.
        pub fn unpublished(workspace_id: WorkspaceId) = Sql::both(
            "SELECT d.automation_id, s.contents, COALESCE(u.email, ''), d.updated_at
             FROM automation_drafts d
             JOIN automation_draft_snapshots s ON s.automation_id = d.automation_id AND s.position = d.position
             LEFT JOIN users u ON u.id = d.author_id
             WHERE d.workspace_id = $1 AND d.base_version = 0 ORDER BY d.updated_at DESC LIMIT 50");
        /// It counts on from this moment: whoever has seen an earlier draft of the automation has not seen this one.
        fn insert_draft(workspace_id: WorkspaceId, automation_id: AutomationId, base: i64, position: i64,
            author_id: UserId, now: i64) = Sql::both(
            "INSERT INTO automation_drafts
                 (workspace_id, automation_id, base_version, revision, position, author_id, updated_at)
             VALUES ($1, $2, $3, $6, $4, $5, $6)");
        fn insert_snapshot(automation_id: AutomationId, position: i64, what: &str, contents: &str) = Sql::both(
            "INSERT INTO automation_draft_snapshots (automation_id, position, what, contents)
             VALUES ($1, $2, $3, $4)");
        /// What was taken back can be brought back until something else is edited; what is long ago cannot.
        fn forget_snapshots(automation_id: AutomationId, from: i64, until: i64) = Sql::both(
            "DELETE FROM automation_draft_snapshots WHERE automation_id = $1 AND (position >= $2 OR position < $3)");
        fn set_position(workspace_id: WorkspaceId, automation_id: AutomationId, seen: i64, position: i64,
            author_id: UserId, now: i64) expects 1 = Sql::both(
            "UPDATE automation_drafts SET revision = revision + 1, position = $4, author_id = $5, updated_at = $6
             WHERE workspace_id = $1 AND automation_id = $2 AND revision = $3");
        fn delete_seen(workspace_id: WorkspaceId, automation_id: AutomationId, seen: i64) expects 1 = Sql::both(
            "DELETE FROM automation_drafts WHERE workspace_id = $1 AND automation_id = $2 AND revision = $3");
        fn delete_draft(workspace_id: WorkspaceId, automation_id: AutomationId) = Sql::both(
            "DELETE FROM automation_drafts WHERE workspace_id = $1 AND automation_id = $2");
        fn delete_snapshots(automation_id: AutomationId) = Sql::both(
            "DELETE FROM automation_draft_snapshots WHERE automation_id = $1");
        /// A version that was published once: event, steps, connections, when.
        pub fn version(workspace_id: WorkspaceId, automation_id: AutomationId, version: i64) = Sql::both(
            "SELECT v.version, v.event_name, v.steps, v.connections, v.created_at
             FROM automations a JOIN automation_versions v ON v.automation_id = a.id
             WHERE a.workspace_id = $1 AND a.id = $2 AND a.deleted_at IS NULL AND v.version = $3");
        /// The newest versions below one.
        pub fn versions(workspace_id: WorkspaceId, automation_id: AutomationId, below: i64) = Sql::both(
            "SELECT v.version, v.event_name, v.created_at
             FROM automations a JOIN automation_versions v ON v.automation_id = a.id
             WHERE a.workspace_id = $1 AND a.id = $2 AND a.deleted_at IS NULL AND v.version < $3
             ORDER BY v.version DESC LIMIT 21");
        /// Of so many of the newest runs, how many go by each version, and how many of these are in flight.
        pub fn in_flight(automation_id: AutomationId, newest: i64) = Sql::both(
            "SELECT version, COUNT(*), COUNT(CASE WHEN status = 'running' THEN 1 END) FROM
                 (SELECT version, status FROM runs WHERE automation_id = $1 ORDER BY id DESC LIMIT $2) AS newest
             GROUP BY version");
    }
}

/// A draft as the store keeps it.
pub struct StoredDraft {
    pub base_version: i64,
    pub revision: i64,
    pub position: i64,
    pub updated_at: i64,
    /// The address of who made the last edit.
    pub author: String,
    /// The edit that led here.
    pub what: String,
    pub contents: Contents,
    /// The edit that was taken back last.
    pub ahead: Option<String>,
    /// The first snapshot that is still there.
    pub oldest: Option<i64>,
}

from_row!(StoredDraft { base_version, revision, position, updated_at, author, what, contents: json, ahead, oldest });

/// One that was never published.
pub struct Unpublished {
    pub id: AutomationId,
    pub contents: Contents,
    pub author: String,
    pub updated_at: i64,
}

from_row!(Unpublished { id, contents: json, author, updated_at });

pub struct StoredVersion {
    pub version: i64,
    pub event_name: String,
    pub steps: String,
    pub connections: String,
    pub created_at: i64,
}

from_row!(StoredVersion { version, event_name, steps, connections, created_at });

/// Whose draft is edited, by whom and when.
#[derive(Clone, Copy)]
pub struct Edit {
    pub workspace_id: WorkspaceId,
    pub id: AutomationId,
    pub author_id: UserId,
    pub now: i64,
}

fn text(contents: &Contents) -> String {
    serde_json::to_string(contents).unwrap_or_default()
}

/// A draft of something new.
pub fn begin(edit: Edit, contents: &Contents) -> Batch {
    Batch::from(insert_draft(edit.workspace_id, edit.id, 0, 0, edit.author_id, edit.now)).and(insert_snapshot(
        edit.id,
        0,
        "",
        &text(contents),
    ))
}

/// The first edit of a version that is published.
pub fn depart(edit: Edit, base: i64, from: &Contents, what: &str, contents: &Contents) -> Batch {
    Batch::from(insert_draft(edit.workspace_id, edit.id, base, 1, edit.author_id, edit.now))
        .and(insert_snapshot(edit.id, 0, "", &text(from)))
        .and(insert_snapshot(edit.id, 1, what, &text(contents)))
}

/// Another edit, if nobody has made one since the draft was `seen`.
pub fn edit(edit: Edit, seen: &StoredDraft, what: &str, contents: &Contents) -> Batch {
    let position = seen.position + 1;
    Batch::from(set_position(edit.workspace_id, edit.id, seen.revision, position, edit.author_id, edit.now))
        .and(forget_snapshots(edit.id, position, position - KEPT))
        .and(insert_snapshot(edit.id, position, what, &text(contents)))
}

/// Goes to another snapshot.
pub fn go_to(edit: Edit, seen: &StoredDraft, position: i64) -> Batch {
    set_position(edit.workspace_id, edit.id, seen.revision, position, edit.author_id, edit.now).into()
}

/// Ends a draft, if nobody has edited it since it was `seen`.
pub fn discard(workspace_id: WorkspaceId, id: AutomationId, seen: i64) -> Batch {
    Batch::from(delete_seen(workspace_id, id, seen)).and(delete_snapshots(id))
}

/// Ends a draft together with its automation.
pub fn forget(batch: Batch, workspace_id: WorkspaceId, id: AutomationId) -> Batch {
    batch.and(delete_draft(workspace_id, id)).and(delete_snapshots(id))
}
