//! Segments and who is in them, in the store.

use super::filling::Filling;
use super::filter::Filter;
use super::segment::SegmentName;
use crate::db::{Batch, Db, DbError, Sql, Stmt, statements};
use crate::id::{BroadcastId, ContactId, SegmentId, WorkspaceId};
use crate::web::Page;

/// How many segments of a workspace may fill themselves: each is looked at whenever a contact changes.
pub const MOST_SELF_FILLING: i64 = 100;

statements! {
    lists {
        OLDER, NEWER = "SELECT id, name, created_at FROM segments WHERE workspace_id = $1" by "id";
        OLDER_OF_CONTACT, NEWER_OF_CONTACT =
            "SELECT s.id, s.name, s.created_at
             FROM segment_members m JOIN segments s ON s.workspace_id = m.workspace_id AND s.id = m.segment_id
             WHERE m.workspace_id = $1 AND m.contact_id = $4" by "m.segment_id";
    }
    functions {
        pub fn insert(workspace_id: WorkspaceId, id: SegmentId, name: &SegmentName, now: i64)
            with [workspace_id, id, name.as_str(), now] = Sql::both(
            "INSERT INTO segments (workspace_id, id, name, created_at) VALUES ($1, $2, $3, $4)");
        /// One that fills itself, unless there are too many.
        fn insert_with(workspace_id: WorkspaceId, id: SegmentId, name: &SegmentName, now: i64, filter: &Filter,
            filling: &Filling)
            with [workspace_id, id, name.as_str(), now, filter.as_str(), filling.to_json(), filling.began_at,
                MOST_SELF_FILLING] expects 1 = Sql::both(
            "INSERT INTO segments (workspace_id, id, name, created_at, filter, filling, due_at)
             SELECT w.id, $2, $3, $4, $5, $6, $7 FROM workspaces w
             WHERE w.id = $1
               AND (SELECT COUNT(*) FROM segments WHERE workspace_id = $1 AND filter IS NOT NULL) < $8");
        /// The segments that fill themselves, and their filters.
        pub fn filters(workspace_id: WorkspaceId) = Sql::both(
            "SELECT id, filter FROM segments WHERE workspace_id = $1 AND filter IS NOT NULL ORDER BY id");
        /// What there is to know of one: id, name, when it was made, filter, filling.
        pub fn detail(workspace_id: WorkspaceId, id: SegmentId) = Sql::both(
            "SELECT id, name, created_at, filter, filling FROM segments WHERE workspace_id = $1 AND id = $2");
        /// How many are in it: what was counted up to a moment, and what changed since.
        pub fn count(workspace_id: WorkspaceId, id: SegmentId) = Sql::both(
            "SELECT CAST(COALESCE((SELECT members FROM segment_counts WHERE segment_id = s.id), 0)
                       + COALESCE((SELECT SUM(members) FROM segment_deltas WHERE segment_id = s.id), 0) AS BIGINT)
             FROM segments s WHERE s.workspace_id = $1 AND s.id = $2");
        /// What to choose from: ids and names.
        pub fn names(workspace_id: WorkspaceId) = Sql::both(
            "SELECT id, name FROM segments WHERE workspace_id = $1 ORDER BY id DESC LIMIT 500");
        /// Finds a row if there is something to [`take_up`].
        pub fn has_deltas() = Sql::both("SELECT 1 FROM segment_deltas LIMIT 1");
        /// Adds some of what changed to what was counted; the store does that where it goes.
        pub fn take_up(most: i64) = Sql::both(
            "DELETE FROM segment_deltas WHERE id IN (SELECT id FROM segment_deltas ORDER BY id LIMIT $1)");
        /// Finds a row if there is such a segment and contacts can be put into it. PostgreSQL holds on to that.
        pub fn takes_members(workspace_id: WorkspaceId, segment_id: SegmentId) = Sql::each(
            "SELECT 1 FROM segments WHERE workspace_id = $1 AND id = $2 AND filter IS NULL",
            "SELECT 1 FROM segments WHERE workspace_id = $1 AND id = $2 AND filter IS NULL FOR SHARE");
        /// Gives a segment another filter, or none, unless too many have one. Whoever fills it stops.
        fn set_filter(workspace_id: WorkspaceId, id: SegmentId, filter: Option<&Filter>, filling: Option<&Filling>)
            with [workspace_id, id, filter.map(Filter::as_str), filling.map(Filling::to_json),
                filling.map(|filling| filling.began_at), MOST_SELF_FILLING] expects 1 = Sql::both(
            "UPDATE segments SET filter = $3, filling = $4, due_at = $5, attempt = attempt + 1
             WHERE workspace_id = $1 AND id = $2
               AND (CAST($3 AS TEXT) IS NULL OR (SELECT COUNT(*) FROM segments o
                                   WHERE o.workspace_id = $1 AND o.id <> $2 AND o.filter IS NOT NULL) < $6)");
        /// Has the segments filled once more whose filters hold a text.
        pub fn refill_naming(workspace_id: WorkspaceId, text: &str, filling: &Filling)
            with [workspace_id, text, filling.to_json(), filling.began_at] = Sql::both(
            "UPDATE segments SET filling = $3, due_at = $4, attempt = attempt + 1
             WHERE workspace_id = $1 AND filter LIKE '%' || $2 || '%'");
        /// Belongs into every commit that changes what a filter says: it is cached with the automations.
        fn raise_revision(workspace_id: WorkspaceId) = Sql::both(
            "UPDATE workspaces SET automations_revision = automations_revision + 1 WHERE id = $1")
            .raising();
        /// The newest segments, to choose from: id, name, and whether it fills itself.
        pub fn choices(workspace_id: WorkspaceId) = Sql::both(
            "SELECT id, name, CASE WHEN filter IS NULL THEN FALSE ELSE TRUE END
             FROM segments WHERE workspace_id = $1 ORDER BY id DESC LIMIT 500");
        /// The newest segments that a contact is in, in the same way.
        pub fn newest_of_contact(workspace_id: WorkspaceId, contact_id: ContactId) = Sql::both(
            "SELECT s.id, s.name, CASE WHEN s.filter IS NULL THEN FALSE ELSE TRUE END
             FROM segment_members m JOIN segments s ON s.workspace_id = m.workspace_id AND s.id = m.segment_id
             WHERE m.workspace_id = $1 AND m.contact_id = $2 ORDER BY m.segment_id DESC LIMIT 500");
        /// The keys of the properties that are declared.
        pub fn declared_keys(workspace_id: WorkspaceId) = Sql::both(
            "SELECT key FROM contact_properties WHERE workspace_id = $1");
        /// Finds a row if there is such a broadcast.
        pub fn has_broadcast(workspace_id: WorkspaceId, id: BroadcastId) = Sql::both(
            "SELECT 1 FROM broadcasts WHERE workspace_id = $1 AND id = $2");
        pub fn topic_ids(workspace_id: WorkspaceId) = Sql::both("SELECT id FROM topics WHERE workspace_id = $1");
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
        /// Puts a contact into a segment, where both are of this workspace and it does not
        /// fill itself. One that is in it already stays in it.
        /// PostgreSQL is told to hold on to both rows until the member is in: one that is deleted meanwhile
        /// would leave its membership behind.
        pub fn add(workspace_id: WorkspaceId, segment_id: SegmentId, contact_id: ContactId, now: i64) = Sql::each(
            "INSERT INTO segment_members (workspace_id, segment_id, contact_id, added_at)
             SELECT s.workspace_id, s.id, c.id, $4 FROM segments s JOIN contacts c ON c.workspace_id = s.workspace_id
             WHERE s.workspace_id = $1 AND s.id = $2 AND c.id = $3 AND s.filter IS NULL
             ON CONFLICT DO NOTHING",
            "INSERT INTO segment_members (workspace_id, segment_id, contact_id, added_at)
             SELECT s.workspace_id, s.id, c.id, $4 FROM segments s JOIN contacts c ON c.workspace_id = s.workspace_id
             WHERE s.workspace_id = $1 AND s.id = $2 AND c.id = $3 AND s.filter IS NULL
             FOR SHARE OF s FOR KEY SHARE OF c
             ON CONFLICT DO NOTHING");
        pub fn remove(workspace_id: WorkspaceId, segment_id: SegmentId, contact_id: ContactId) expects 1 = Sql::both(
            "DELETE FROM segment_members WHERE workspace_id = $1 AND segment_id = $2 AND contact_id = $3
               AND EXISTS (SELECT 1 FROM segments WHERE workspace_id = $1 AND id = $2 AND filter IS NULL)");
    }
    reads {
        fn filling_of(workspace_id: WorkspaceId, id: SegmentId) -> Option<(SegmentId, Option<String>)> = Sql::both(
            "SELECT id, filling FROM segments WHERE workspace_id = $1 AND id = $2");
    }
    DELETE = Sql::both("DELETE FROM segments WHERE workspace_id = $1 AND id = $2");
    RAISE_IF_SELF_FILLING = Sql::both(
        "UPDATE workspaces SET automations_revision = automations_revision + 1
         WHERE id = $1
           AND EXISTS (SELECT 1 FROM segments WHERE workspace_id = $1 AND id = $2 AND filter IS NOT NULL)")
        .raising();
    DELETE_MEMBERS = Sql::both("DELETE FROM segment_members WHERE workspace_id = $1 AND segment_id = $2");
    DELETE_DELTAS = Sql::both("DELETE FROM segment_deltas WHERE segment_id = $1");
    DELETE_COUNT = Sql::both("DELETE FROM segment_counts WHERE segment_id = $1");
}

/// Whether there are contacts that were not yet asked whether they belong to a segment; `None`: there is no such segment.
pub async fn is_filling(db: &Db, workspace_id: WorkspaceId, id: SegmentId) -> Result<Option<bool>, DbError> {
    let found = filling_of(db, workspace_id, id).await?;
    let is_under_way =
        |kept: Option<String>| kept.as_deref().and_then(Filling::stored).is_some_and(|one| !one.is_settling);
    Ok(found.map(|(_, kept)| is_under_way(kept)))
}

pub fn page(workspace_id: WorkspaceId, page: &Page) -> Stmt {
    page.statement(OLDER, NEWER, workspace_id, [])
}

/// The segments that a contact is in.
pub fn page_of_contact(workspace_id: WorkspaceId, contact_id: ContactId, page: &Page) -> Stmt {
    page.statement(OLDER_OF_CONTACT, NEWER_OF_CONTACT, workspace_id, [contact_id.into()])
}

/// Makes a segment that fills itself; fails where there are too many.
pub fn insert_self_filling(
    workspace_id: WorkspaceId,
    (id, name): (SegmentId, &SegmentName),
    filter: &Filter,
    (now, steady): (i64, i64),
) -> Batch {
    Batch::new()
        .and(insert_with(workspace_id, id, name, now, filter, &Filling::begin(steady)))
        .and(raise_revision(workspace_id))
}

/// Gives a segment a filter, or takes it away: then who is in it stays.
pub fn change_filter(workspace_id: WorkspaceId, id: SegmentId, filter: Option<&Filter>, steady: i64) -> Batch {
    let filling = filter.map(|_| Filling::begin(steady));
    Batch::new().and(set_filter(workspace_id, id, filter, filling.as_ref())).and(raise_revision(workspace_id))
}

/// Deletes a segment; its contacts stay. The segment goes first: whoever is
/// adding a contact to it has either finished by then, or finds it gone.
pub fn delete(workspace_id: WorkspaceId, id: SegmentId) -> Batch {
    let of = || [workspace_id.into(), id.into()];
    Batch::new()
        .and(RAISE_IF_SELF_FILLING.with(of()))
        .and(DELETE.with(of()).expect(1))
        .and(DELETE_MEMBERS.with(of()))
        .and(DELETE_DELTAS.with([id.into()]))
        .and(DELETE_COUNT.with([id.into()]))
}
