//! Segments and who is in them, in the store.

use super::segment::SegmentName;
use crate::db::{Batch, Sql, Stmt, statements};
use crate::id::{ContactId, SegmentId, WorkspaceId};
use crate::web::Page;

statements! {
    lists {
        OLDER, NEWER, BY_ID = "SELECT id, name, created_at FROM segments WHERE workspace_id = $1" by "id";
        OLDER_OF_CONTACT, NEWER_OF_CONTACT =
            "SELECT s.id, s.name, s.created_at
             FROM segment_members m JOIN segments s ON s.workspace_id = m.workspace_id AND s.id = m.segment_id
             WHERE m.workspace_id = $1 AND m.contact_id = $4" by "m.segment_id";
    }
    functions {
        pub fn insert(workspace_id: WorkspaceId, id: SegmentId, name: &SegmentName, now: i64)
            with [workspace_id, id, name.as_str(), now] = Sql::both(
            "INSERT INTO segments (workspace_id, id, name, created_at) VALUES ($1, $2, $3, $4)");
        /// The names of the segments of all contacts from one id to another, each
        /// behind the contact's id.
        pub fn names_between(workspace_id: WorkspaceId, first: ContactId, last: ContactId) = Sql::both(
            "SELECT m.contact_id, s.name
             FROM segment_members m JOIN segments s ON s.workspace_id = m.workspace_id AND s.id = m.segment_id
             WHERE m.workspace_id = $1 AND m.contact_id BETWEEN $2 AND $3
             ORDER BY m.contact_id, m.segment_id");
        /// Finds a row if there is such a segment.
        pub fn exists(workspace_id: WorkspaceId, segment_id: SegmentId) = Sql::both(
            "SELECT 1 FROM segments WHERE workspace_id = $1 AND id = $2");
        /// Finds a row if the contact is in the segment.
        pub fn is_member(workspace_id: WorkspaceId, segment_id: SegmentId, contact_id: ContactId) = Sql::both(
            "SELECT 1 FROM segment_members WHERE workspace_id = $1 AND segment_id = $2 AND contact_id = $3");
        pub fn rename(workspace_id: WorkspaceId, id: SegmentId, name: &SegmentName)
            with [workspace_id, id, name.as_str()] expects 1 = Sql::both(
            "UPDATE segments SET name = $3 WHERE workspace_id = $1 AND id = $2");
        /// Puts a contact into a segment, where both are of this workspace. One that is
        /// in it already stays in it.
        /// PostgreSQL is told to hold on to both rows until the member is in: one that is deleted meanwhile
        /// would leave its membership behind.
        pub fn add(workspace_id: WorkspaceId, segment_id: SegmentId, contact_id: ContactId, now: i64) = Sql::each(
            "INSERT INTO segment_members (workspace_id, segment_id, contact_id, added_at)
             SELECT s.workspace_id, s.id, c.id, $4 FROM segments s JOIN contacts c ON c.workspace_id = s.workspace_id
             WHERE s.workspace_id = $1 AND s.id = $2 AND c.id = $3
             ON CONFLICT DO NOTHING",
            "INSERT INTO segment_members (workspace_id, segment_id, contact_id, added_at)
             SELECT s.workspace_id, s.id, c.id, $4 FROM segments s JOIN contacts c ON c.workspace_id = s.workspace_id
             WHERE s.workspace_id = $1 AND s.id = $2 AND c.id = $3
             FOR KEY SHARE OF s, c
             ON CONFLICT DO NOTHING");
        pub fn remove(workspace_id: WorkspaceId, segment_id: SegmentId, contact_id: ContactId) expects 1 = Sql::both(
            "DELETE FROM segment_members WHERE workspace_id = $1 AND segment_id = $2 AND contact_id = $3");
    }
    DELETE = Sql::both("DELETE FROM segments WHERE workspace_id = $1 AND id = $2");
    DELETE_MEMBERS = Sql::both("DELETE FROM segment_members WHERE workspace_id = $1 AND segment_id = $2");
}

pub fn page(workspace_id: WorkspaceId, page: &Page) -> Stmt {
    page.statement(OLDER, NEWER, workspace_id, [])
}

/// The segments that a contact is in.
pub fn page_of_contact(workspace_id: WorkspaceId, contact_id: ContactId, page: &Page) -> Stmt {
    page.statement(OLDER_OF_CONTACT, NEWER_OF_CONTACT, workspace_id, [contact_id.into()])
}

pub fn by_id(workspace_id: WorkspaceId, id: SegmentId) -> Stmt {
    BY_ID.with([workspace_id.into(), id.into()])
}

/// Deletes a segment; its contacts stay. The segment goes first: whoever is
/// adding a contact to it has either finished by then, or finds it gone.
pub fn delete(workspace_id: WorkspaceId, id: SegmentId) -> Batch {
    let of = || [workspace_id.into(), id.into()];
    Batch::new().and(DELETE.with(of()).expect(1)).and(DELETE_MEMBERS.with(of()))
}
