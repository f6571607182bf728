//! What is due to be judged, and what is looked at for it, in the store.

use serde_json::json;
use uuid::Uuid;

use crate::clock::SECOND;
use crate::contacts::Contact;
use crate::db::{DbError, Row, Sql, statements};
use crate::id::{BroadcastId, ContactId, SegmentId, WorkspaceId};
use crate::segments::{Filling, Filter, due};
use crate::work::{Claimable, InOrder, claim_rows};

/// The contacts of a list `[{"id": …, "sequence": …}, …]` that still have that sequence. PostgreSQL holds on to them
/// until the commit: whoever changes one then, knows the filter.
macro_rules! unchanged {
    (sqlite) => {
        // In this order: there may be many contacts.
        "json_each($3) v CROSS JOIN contacts c ON c.id = unhex(replace(json_extract(v.value, '$.id'), '-', ''))
             AND c.sequence = json_extract(v.value, '$.sequence')"
    };
    (postgres) => {
        "contacts c JOIN jsonb_to_recordset(CAST(CAST($3 AS TEXT) AS JSONB)) AS v (id UUID, sequence BIGINT)
             ON c.id = v.id AND c.sequence = v.sequence"
    };
}

/// The contacts of a list `[{"id": …, "mail": …, "at": …}, …]`.
macro_rules! mailed {
    (sqlite) => {
        // In this order: there may be many contacts.
        "json_each($3) v CROSS JOIN contacts c ON c.id = unhex(replace(json_extract(v.value, '$.id'), '-', ''))"
    };
    (postgres) => {
        "contacts c JOIN jsonb_to_recordset(CAST(CAST($3 AS TEXT) AS JSONB)) AS v (id UUID, mail UUID, at BIGINT)
             ON c.id = v.id"
    };
}

statements! {
    functions {
        pub fn contact(workspace_id: WorkspaceId, id: ContactId) = Sql::both(
            "SELECT id, email, first_name, last_name, unsubscribed, properties, sequence, created_at, updated_at
             FROM contacts WHERE workspace_id = $1 AND id = $2");
        /// The next contacts behind an id.
        pub fn contacts_after(workspace_id: WorkspaceId, after: Uuid, most: i64) = Sql::both(
            "SELECT id, email, first_name, last_name, unsubscribed, properties, sequence, created_at, updated_at
             FROM contacts WHERE workspace_id = $1 AND id > $2 ORDER BY id LIMIT $3");
        /// The next contacts before an id.
        pub fn contacts_before(workspace_id: WorkspaceId, before: Uuid, most: i64) = Sql::both(
            "SELECT id, email, first_name, last_name, unsubscribed, properties, sequence, created_at, updated_at
             FROM contacts WHERE workspace_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3");
        pub fn count_contacts(workspace_id: WorkspaceId) = Sql::both(
            "SELECT COUNT(*) FROM contacts WHERE workspace_id = $1");
        /// What holds of topics for contacts that have not chosen.
        pub fn topic_defaults(workspace_id: WorkspaceId) = Sql::both(
            "SELECT id, default_subscription FROM topics WHERE workspace_id = $1");
        /// What contacts from one id to another chose.
        pub fn choices(workspace_id: WorkspaceId, first: ContactId, last: ContactId) = Sql::both(
            "SELECT contact_id, topic_id, subscription FROM topic_subscriptions
             WHERE workspace_id = $1 AND contact_id BETWEEN $2 AND $3");
        /// When an event happened to contacts from one id to another the last few times, the newest first.
        pub fn times(workspace_id: WorkspaceId, first: ContactId, last: ContactId, event_key: Uuid, most: i64)
            = Sql::both(
            "SELECT contact_id, happened_at FROM
                 (SELECT contact_id, happened_at,
                         ROW_NUMBER() OVER (PARTITION BY contact_id ORDER BY happened_at DESC) AS place
                  FROM segment_events
                  WHERE workspace_id = $1 AND contact_id BETWEEN $2 AND $3 AND event_key = $4) AS counted
             WHERE place <= $5 ORDER BY contact_id, happened_at DESC");
        /// The next occurrences of an event behind an id.
        pub fn occurrences_after(workspace_id: WorkspaceId, name: &str, after: Uuid, most: i64) = Sql::each(
            "SELECT id FROM occurrences INDEXED BY occurrences_by_name
             WHERE workspace_id = $1 AND name = $2 AND id > $3 ORDER BY id LIMIT $4",
            "SELECT id FROM occurrences
             WHERE workspace_id = $1 AND substr(name, 1, 128) = substr($2, 1, 128) AND name = $2 AND id > $3
             ORDER BY id LIMIT $4");
        /// Whom an event happened to last, and when, the newest first.
        pub fn latest(workspace_id: WorkspaceId, name: &str, after: Uuid, most: i64) = Sql::each(
            "SELECT contact_id, created_at FROM occurrences INDEXED BY occurrences_by_name
             WHERE workspace_id = $1 AND name = $2 AND id > $3 ORDER BY id DESC LIMIT $4",
            "SELECT contact_id, created_at FROM occurrences
             WHERE workspace_id = $1 AND substr(name, 1, 128) = substr($2, 1, 128) AND name = $2 AND id > $3
             ORDER BY id DESC LIMIT $4");
        /// Counts the occurrences of an event behind one id and up to another.
        pub fn count_between(workspace_id: WorkspaceId, name: &str, after: Uuid, last: Uuid, event_key: Uuid)
            = Sql::each(
            "INSERT INTO segment_events (workspace_id, contact_id, event_key, happened_at, occurrence_id)
             SELECT workspace_id, contact_id, $5, created_at, id FROM occurrences INDEXED BY occurrences_by_name
             WHERE workspace_id = $1 AND name = $2 AND id > $3 AND id <= $4 ON CONFLICT DO NOTHING",
            "INSERT INTO segment_events (workspace_id, contact_id, event_key, happened_at, occurrence_id)
             SELECT workspace_id, contact_id, CAST($5 AS UUID), created_at, id FROM occurrences
             WHERE workspace_id = $1 AND substr(name, 1, 128) = substr($2, 1, 128) AND name = $2
               AND id > $3 AND id <= $4
             ON CONFLICT DO NOTHING");
        /// Those that they happened to are judged anew.
        pub fn judge_between(workspace_id: WorkspaceId, name: &str, after: Uuid, last: Uuid, due_at: i64) = Sql::each(
            due!("SELECT DISTINCT o.workspace_id, o.contact_id, CAST($5 AS BIGINT), 0
                  FROM occurrences o INDEXED BY occurrences_by_name
                  WHERE o.workspace_id = $1 AND o.name = $2 AND o.id > $3 AND o.id <= $4"),
            due!("SELECT DISTINCT o.workspace_id, o.contact_id, CAST($5 AS BIGINT), 0 FROM occurrences o
                  WHERE o.workspace_id = $1 AND substr(o.name, 1, 128) = substr($2, 1, 128) AND o.name = $2
                    AND o.id > $3 AND o.id <= $4"));
        /// The mails of a broadcast that have left, behind one id and up to another, and when.
        pub fn sent_between(workspace_id: WorkspaceId, after: Uuid, last: Uuid, most: i64) = Sql::both(
            "SELECT email_id, MIN(created_at) FROM email_events
             WHERE email_id > $2 AND email_id <= $3 AND workspace_id = $1 AND type IN ('sent', 'delivered')
             GROUP BY email_id ORDER BY email_id LIMIT $4");
        /// Whom a broadcast goes to, from one number to another.
        pub fn recipients_between(id: BroadcastId, first: i64, last: i64) = Sql::both(
            "SELECT number, contact_id FROM email_recipients
             WHERE email_id = $1 AND number BETWEEN $2 AND $3 AND contact_id IS NOT NULL");
        /// Counts mails of a broadcast for the contacts that are there.
        pub fn count_sent(workspace_id: WorkspaceId, event_key: Uuid, mails: &str) = Sql::each(
            concat!(
                "INSERT INTO segment_events (workspace_id, contact_id, event_key, happened_at, occurrence_id)
                 SELECT c.workspace_id, c.id, $2, json_extract(v.value, '$.at'),
                        unhex(replace(json_extract(v.value, '$.mail'), '-', ''))
                 FROM ", mailed!(sqlite), " WHERE c.workspace_id = $1 ON CONFLICT DO NOTHING"),
            concat!(
                "INSERT INTO segment_events (workspace_id, contact_id, event_key, happened_at, occurrence_id)
                 SELECT c.workspace_id, c.id, CAST($2 AS UUID), v.at, v.mail
                 FROM ", mailed!(postgres), " WHERE c.workspace_id = $1 FOR KEY SHARE OF c ON CONFLICT DO NOTHING"));
        /// Has those judged anew whose mail is not counted yet.
        pub fn judge_uncounted(workspace_id: WorkspaceId, event_key: Uuid, mails: &str, due_at: i64) = Sql::each(
            due!(
                "SELECT c.workspace_id, c.id, CAST($4 AS BIGINT), 0 FROM ", mailed!(sqlite),
                " WHERE c.workspace_id = $1 AND NOT EXISTS
                      (SELECT 1 FROM segment_events e
                       WHERE e.workspace_id = $1 AND e.contact_id = c.id AND e.event_key = $2)"),
            due!(
                "SELECT c.workspace_id, c.id, CAST($4 AS BIGINT), 0 FROM ", mailed!(postgres),
                " WHERE c.workspace_id = $1 AND NOT EXISTS
                      (SELECT 1 FROM segment_events e
                       WHERE e.workspace_id = $1 AND e.contact_id = c.id AND e.event_key = CAST($2 AS UUID))"));
        /// Puts contacts into a segment that have not changed since they were judged.
        pub fn fill_in(workspace_id: WorkspaceId, segment_id: SegmentId, judged: &str, now: i64) = Sql::each(
            concat!(
                "INSERT INTO segment_members (workspace_id, segment_id, contact_id, added_at)
                 SELECT c.workspace_id, $2, c.id, CAST($4 AS BIGINT) FROM ", unchanged!(sqlite),
                " WHERE c.workspace_id = $1 ON CONFLICT DO NOTHING"),
            concat!(
                "INSERT INTO segment_members (workspace_id, segment_id, contact_id, added_at)
                 SELECT c.workspace_id, CAST($2 AS UUID), c.id, CAST($4 AS BIGINT) FROM ", unchanged!(postgres),
                " WHERE c.workspace_id = $1 FOR SHARE OF c ON CONFLICT DO NOTHING"));
        /// Takes contacts out of a segment that have not changed since they were judged.
        pub fn take_out(workspace_id: WorkspaceId, segment_id: SegmentId, judged: &str) = Sql::each(
            concat!(
                "DELETE FROM segment_members WHERE workspace_id = $1 AND segment_id = $2 AND contact_id IN
                     (SELECT c.id FROM ", unchanged!(sqlite), " WHERE c.workspace_id = $1)"),
            concat!(
                "DELETE FROM segment_members WHERE workspace_id = $1 AND segment_id = $2 AND contact_id IN
                     (SELECT c.id FROM ", unchanged!(postgres), " WHERE c.workspace_id = $1 FOR SHARE OF c)"));
        /// Has those judged anew that have changed since they were judged, or for which a window closes.
        pub fn judge_later(workspace_id: WorkspaceId, judged: &str, now: i64) = Sql::each(
            due!("SELECT c.workspace_id, c.id,
                         CASE WHEN c.sequence <> json_extract(v.value, '$.sequence') THEN CAST($3 AS BIGINT)
                              ELSE json_extract(v.value, '$.due_at') END, 0
                  FROM json_each($2) v CROSS JOIN contacts c
                      ON c.id = unhex(replace(json_extract(v.value, '$.id'), '-', ''))
                  WHERE c.workspace_id = $1
                    AND (c.sequence <> json_extract(v.value, '$.sequence') OR json_extract(v.value, '$.due_at') IS NOT NULL)"),
            due!("SELECT c.workspace_id, c.id,
                         CASE WHEN c.sequence <> v.sequence THEN CAST($3 AS BIGINT) ELSE v.due_at END, 0
                  FROM contacts c
                      JOIN jsonb_to_recordset(CAST(CAST($2 AS TEXT) AS JSONB)) AS v (id UUID, sequence BIGINT, due_at BIGINT)
                      ON c.id = v.id
                  WHERE c.workspace_id = $1 AND (c.sequence <> v.sequence OR v.due_at IS NOT NULL)"));
        /// Where a filling goes on; `None`: it is done. Holds only as long as nobody else fills the segment, and nobody
        /// has changed its filter.
        pub fn advance(segment: &DueSegment, to: Option<&Filling>, due_at: Option<i64>)
            with [segment.workspace_id, segment.id, segment.attempt, to.map(Filling::to_json), due_at]
            expects 1 = Sql::both(
            "UPDATE segments SET filling = $4, due_at = $5 WHERE workspace_id = $1 AND id = $2 AND attempt = $3");
        /// A contact is judged, and not to be judged again before `due_at`.
        pub fn settle(contact: &DueContact, due_at: i64)
            with [contact.workspace_id, contact.id, contact.attempt, due_at] expects 1 = Sql::both(
            "UPDATE segment_due SET due_at = $4 WHERE workspace_id = $1 AND contact_id = $2 AND attempt = $3");
        /// The same, for good.
        pub fn end(contact: &DueContact)
            with [contact.workspace_id, contact.id, contact.attempt] expects 1 = Sql::both(
            "DELETE FROM segment_due WHERE workspace_id = $1 AND contact_id = $2 AND attempt = $3");
    }
    NEXT_CONTACT = Sql::both("SELECT due_at FROM segment_due ORDER BY due_at LIMIT 1");
    CLAIM_CONTACTS = claim_rows!(
        "segment_due" ("workspace_id", "contact_id") where "TRUE" set ""
        returning "segment_due.workspace_id, segment_due.contact_id, attempt");
    NEXT_SEGMENT = Sql::both("SELECT due_at FROM segments WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1");
    CLAIM_SEGMENT = claim_rows!(
        "segments" ("workspace_id", "id") where "due_at IS NOT NULL" set ""
        returning "segments.workspace_id, segments.id, filter, filling, attempt");
}

/// A contact that somebody judges.
pub struct DueContact {
    pub workspace_id: WorkspaceId,
    pub id: ContactId,
    /// Counts claims and whatever happens to the contact that filters ask for.
    pub attempt: i64,
}

impl Claimable for DueContact {
    const QUEUE: &'static str = "segment_contacts";
    const LEASE: i64 = 20 * SECOND;

    fn read(row: &Row) -> Result<DueContact, DbError> {
        Ok(DueContact { workspace_id: row.id(0)?, id: row.id(1)?, attempt: row.int(2)? })
    }
}

impl InOrder for DueContact {
    const NEXT: Sql = NEXT_CONTACT;
    const CLAIM: Sql = CLAIM_CONTACTS;
}

/// A segment that somebody fills.
pub struct DueSegment {
    pub workspace_id: WorkspaceId,
    pub id: SegmentId,
    pub filter: Filter,
    pub filling: Filling,
    /// Counts claims and changes of the filter.
    pub attempt: i64,
}

impl Claimable for DueSegment {
    const QUEUE: &'static str = "segments";
    const LEASE: i64 = 20 * SECOND;

    fn read(row: &Row) -> Result<DueSegment, DbError> {
        let broken = || DbError::Broken("a segment that fills itself cannot be read".into());
        Ok(DueSegment {
            workspace_id: row.id(0)?,
            id: row.id(1)?,
            filter: Filter::stored(&row.text(2)?).ok_or_else(broken)?,
            filling: Filling::stored(&row.text(3)?).ok_or_else(broken)?,
            attempt: row.int(4)?,
        })
    }
}

impl InOrder for DueSegment {
    const NEXT: Sql = NEXT_SEGMENT;
    const CLAIM: Sql = CLAIM_SEGMENT;
}

/// A contact as it was judged.
pub struct Judged<'a> {
    pub contact: &'a Contact,
    /// When it is to be judged again, in steady time.
    pub due_at: Option<i64>,
}

/// For the statements that take a list of them.
pub fn list<'a>(judged: impl IntoIterator<Item = &'a Judged<'a>>) -> String {
    let item = |judged: &Judged<'_>| json!({"id": judged.contact.id, "sequence": judged.contact.sequence, "due_at": judged.due_at});
    serde_json::Value::Array(judged.into_iter().map(item).collect()).to_string()
}
