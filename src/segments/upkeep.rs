//! What keeps segments that fill themselves up to date, as statements in the commits of others.

use uuid::Uuid;

use crate::db::{Batch, Sql, statements};
use crate::id::{BroadcastId, ContactId, EmailId, OccurrenceId, SegmentId, WorkspaceId};

/// Whoever judges the contact at this moment has not seen what happened: the attempt tells.
macro_rules! due {
    ($($select:tt)+) => {
        concat!(
            "INSERT INTO segment_due (workspace_id, contact_id, due_at, attempt) ",
            $($select)+,
            " ON CONFLICT (workspace_id, contact_id) DO UPDATE SET attempt = segment_due.attempt + 1,
                 due_at = CASE WHEN segment_due.due_at < excluded.due_at THEN segment_due.due_at ELSE excluded.due_at END"
        )
    };
}
pub(crate) use due;

statements! {
    functions {
        /// Puts a contact into a segment that fills itself, where both are there. PostgreSQL is told to hold on to
        /// both rows, as for [`super::add`].
        pub fn fill_in(workspace_id: WorkspaceId, segment_id: SegmentId, contact_id: ContactId, now: i64) = Sql::each(
            "INSERT INTO segment_members (workspace_id, segment_id, contact_id, added_at)
             SELECT s.workspace_id, s.id, c.id, $4 FROM segments s JOIN contacts c ON c.workspace_id = s.workspace_id
             WHERE s.workspace_id = $1 AND s.id = $2 AND c.id = $3 AND s.filter IS NOT NULL
             ON CONFLICT DO NOTHING",
            "INSERT INTO segment_members (workspace_id, segment_id, contact_id, added_at)
             SELECT s.workspace_id, s.id, c.id, $4 FROM segments s JOIN contacts c ON c.workspace_id = s.workspace_id
             WHERE s.workspace_id = $1 AND s.id = $2 AND c.id = $3 AND s.filter IS NOT NULL
             FOR KEY SHARE OF s, c
             ON CONFLICT DO NOTHING");
        /// The same for a contact that this commit makes, or it is none.
        pub fn fill_in_made(workspace_id: WorkspaceId, segment_id: SegmentId, contact_id: ContactId, now: i64)
            = Sql::each(
            "INSERT INTO segment_members (workspace_id, segment_id, contact_id, added_at)
             SELECT workspace_id, id, $3, $4 FROM segments
             WHERE workspace_id = $1 AND id = $2 AND filter IS NOT NULL ON CONFLICT DO NOTHING",
            "INSERT INTO segment_members (workspace_id, segment_id, contact_id, added_at)
             SELECT workspace_id, id, CAST($3 AS UUID), CAST($4 AS BIGINT) FROM segments
             WHERE workspace_id = $1 AND id = $2 AND filter IS NOT NULL FOR KEY SHARE ON CONFLICT DO NOTHING");
        /// The same for whoever has an address and was made in this commit, which its version tells.
        pub fn fill_in_new(workspace_id: WorkspaceId, segment_id: SegmentId, email_key: &str, version: i64, now: i64)
            = Sql::each(
            "INSERT INTO segment_members (workspace_id, segment_id, contact_id, added_at)
             SELECT s.workspace_id, s.id, c.id, $5 FROM segments s JOIN contacts c ON c.workspace_id = s.workspace_id
             WHERE s.workspace_id = $1 AND s.id = $2 AND c.email_key = $3 AND c.sequence <= $4 AND s.filter IS NOT NULL
             ON CONFLICT DO NOTHING",
            "INSERT INTO segment_members (workspace_id, segment_id, contact_id, added_at)
             SELECT s.workspace_id, s.id, c.id, $5 FROM segments s JOIN contacts c ON c.workspace_id = s.workspace_id
             WHERE s.workspace_id = $1 AND s.id = $2 AND c.email_key = $3 AND c.sequence <= $4 AND s.filter IS NOT NULL
             FOR KEY SHARE OF s, c
             ON CONFLICT DO NOTHING");
        /// Takes a contact out of a segment that fills itself.
        pub fn take_out(workspace_id: WorkspaceId, segment_id: SegmentId, contact_id: ContactId) = Sql::both(
            "DELETE FROM segment_members WHERE workspace_id = $1 AND segment_id = $2 AND contact_id = $3
               AND EXISTS (SELECT 1 FROM segments WHERE workspace_id = $1 AND id = $2 AND filter IS NOT NULL)");
        /// A contact is to be judged anew.
        pub fn judge_anew(workspace_id: WorkspaceId, contact_id: ContactId, due_at: i64) = Sql::both(due!(
            "SELECT c.workspace_id, c.id, CAST($3 AS BIGINT), 0 FROM contacts c WHERE c.workspace_id = $1 AND c.id = $2"));
        /// The same for whoever has an address and was made in this commit.
        pub fn judge_new(workspace_id: WorkspaceId, email_key: &str, version: i64, due_at: i64) = Sql::both(due!(
            "SELECT c.workspace_id, c.id, CAST($4 AS BIGINT), 0 FROM contacts c
             WHERE c.workspace_id = $1 AND c.email_key = $2 AND c.sequence <= $3"));
        /// The same for whom something happened to, which is recorded before it in the same commit.
        pub fn judge_after(workspace_id: WorkspaceId, occurrence_id: OccurrenceId, due_at: i64) = Sql::both(due!(
            "SELECT o.workspace_id, o.contact_id, CAST($3 AS BIGINT), 0 FROM occurrences o
             WHERE o.workspace_id = $1 AND o.id = $2"));
        /// Counts what happened, for the filters that ask how often it did.
        pub fn count_event(workspace_id: WorkspaceId, occurrence_id: OccurrenceId, event_key: Uuid) = Sql::each(
            "INSERT INTO segment_events (workspace_id, contact_id, event_key, happened_at, occurrence_id)
             SELECT o.workspace_id, o.contact_id, $3, o.created_at, o.id FROM occurrences o
             WHERE o.workspace_id = $1 AND o.id = $2 ON CONFLICT DO NOTHING",
            "INSERT INTO segment_events (workspace_id, contact_id, event_key, happened_at, occurrence_id)
             SELECT o.workspace_id, o.contact_id, CAST($3 AS UUID), o.created_at, o.id FROM occurrences o
             WHERE o.workspace_id = $1 AND o.id = $2 ON CONFLICT DO NOTHING");
        /// Counts that the mail of a broadcast left for a contact, who is there. `email_id` is the contact's own mail.
        pub fn count_broadcast(workspace_id: WorkspaceId, contact_id: ContactId, id: BroadcastId, email_id: EmailId, now: i64)
            = Sql::each(
            "INSERT INTO segment_events (workspace_id, contact_id, event_key, happened_at, occurrence_id)
             SELECT c.workspace_id, c.id, $3, $5, $4 FROM contacts c WHERE c.workspace_id = $1 AND c.id = $2
             ON CONFLICT DO NOTHING",
            "INSERT INTO segment_events (workspace_id, contact_id, event_key, happened_at, occurrence_id)
             SELECT c.workspace_id, c.id, CAST($3 AS UUID), CAST($5 AS BIGINT), CAST($4 AS UUID)
             FROM contacts c WHERE c.workspace_id = $1 AND c.id = $2 ON CONFLICT DO NOTHING");
        /// Counts what a contact did with a mail.
        pub fn count_engagement(workspace_id: WorkspaceId, email_key: &str, key: Uuid, now: i64, email_id: EmailId)
            = Sql::each(
            "INSERT INTO segment_events (workspace_id, contact_id, event_key, happened_at, occurrence_id)
             SELECT c.workspace_id, c.id, $3, $4, $5 FROM contacts c
             WHERE c.workspace_id = $1 AND c.email_key = $2 ON CONFLICT DO NOTHING",
            "INSERT INTO segment_events (workspace_id, contact_id, event_key, happened_at, occurrence_id)
             SELECT c.workspace_id, c.id, CAST($3 AS UUID), CAST($4 AS BIGINT), CAST($5 AS UUID) FROM contacts c
             WHERE c.workspace_id = $1 AND c.email_key = $2 ON CONFLICT DO NOTHING");
    }
    FORGET_DUE = Sql::both("DELETE FROM segment_due WHERE workspace_id = $1 AND contact_id = $2");
    FORGET_EVENTS = Sql::both("DELETE FROM segment_events WHERE workspace_id = $1 AND contact_id = $2");
}

/// Forgets what is kept of a contact that goes.
pub fn forget(workspace_id: WorkspaceId, contact_id: ContactId) -> Batch {
    let of = || [workspace_id.into(), contact_id.into()];
    Batch::new().and(FORGET_DUE.with(of())).and(FORGET_EVENTS.with(of()))
}
