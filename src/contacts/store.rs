//! Contacts in the store.

use serde_json::Value;

use super::contact::{Contact, Email, email_key};
use crate::db::{Batch, Db, DbError, Sql, Stmt, among, from_row, statements};
use crate::id::{ContactId, SegmentId, TopicId, WorkspaceId, json_array};
use crate::web::Page;
use crate::{segments, topics};

statements! {
    lists {
        /// Lists leave properties out: of a thousand contacts they would be many megabytes.
        OLDER, NEWER =
            "SELECT id, email, first_name, last_name, unsubscribed, created_at, updated_at
             FROM contacts WHERE workspace_id = $1" by "id";
        OLDER_IN_SEGMENT, NEWER_IN_SEGMENT =
            "SELECT c.id, c.email, c.first_name, c.last_name, c.unsubscribed, c.created_at, c.updated_at
             FROM segment_members m JOIN contacts c ON c.workspace_id = m.workspace_id AND c.id = m.contact_id
             WHERE m.workspace_id = $1 AND m.segment_id = $4" by "m.contact_id";
    }
    functions {
        pub(super) fn insert(workspace_id: WorkspaceId, contact: &Contact)
            with [workspace_id, contact.id, &contact.email, email_key(&contact.email), contact.first_name.as_deref(),
                contact.last_name.as_deref(), contact.unsubscribed,
                Value::Object(contact.properties.clone()).to_string(), contact.sequence, contact.created_at] = Sql::both(
            "INSERT INTO contacts (workspace_id, id, email, email_key, first_name, last_name, unsubscribed, properties,
                 sequence, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)");
        /// The addresses of those of some contacts that are still there.
        pub fn emails_of(workspace_id: WorkspaceId, ids: &[ContactId])
            with [workspace_id, json_array(ids.iter().copied())] = among!(
            "SELECT id, email FROM contacts WHERE workspace_id = $1 AND id", ids "$2", "");
        pub fn by_id(workspace_id: WorkspaceId, id: ContactId) = Sql::both(
            "SELECT id, email, first_name, last_name, unsubscribed, properties, sequence, created_at, updated_at
             FROM contacts WHERE workspace_id = $1 AND id = $2");
        /// `key` is the address in lower case.
        pub fn by_email_key(workspace_id: WorkspaceId, key: &str) = Sql::both(
            "SELECT id, email, first_name, last_name, unsubscribed, properties, sequence, created_at, updated_at
             FROM contacts WHERE workspace_id = $1 AND email_key = $2");
        /// Writes the whole contact over the one it was read from, unless that has
        /// changed since.
        pub(super) fn replace(workspace_id: WorkspaceId, contact: &Contact, now: i64)
            with [workspace_id, contact.id, contact.sequence, &contact.email, email_key(&contact.email),
                contact.first_name.as_deref(), contact.last_name.as_deref(), contact.unsubscribed,
                Value::Object(contact.properties.clone()).to_string(), now] expects 1 = Sql::both(
            "UPDATE contacts SET email = $4, email_key = $5, first_name = $6, last_name = $7, unsubscribed = $8,
                 properties = $9, sequence = sequence + 1, updated_at = $10
             WHERE workspace_id = $1 AND id = $2 AND sequence = $3");
        /// Why an address gets no mail, and since when, if that is so.
        pub(super) fn suppression(workspace_id: WorkspaceId, email_key: &str) = Sql::both(
            "SELECT origin, created_at FROM suppressions WHERE workspace_id = $1 AND email_key = $2");
        /// Counts up the sequence of a contact that must be there.
        pub(super) fn next_sequence(workspace_id: WorkspaceId, id: ContactId) expects 1 = Sql::both(
            "UPDATE contacts SET sequence = sequence + 1 WHERE workspace_id = $1 AND id = $2");
        /// The same of one that may be gone.
        pub(super) fn next_sequence_if_there(workspace_id: WorkspaceId, id: ContactId) = Sql::both(
            "UPDATE contacts SET sequence = sequence + 1 WHERE workspace_id = $1 AND id = $2");
        /// Counts up the sequence of whoever has this address, if it is a contact's.
        pub(super) fn next_sequence_by_email(workspace_id: WorkspaceId, email_key: &str) = Sql::both(
            "UPDATE contacts SET sequence = sequence + 1 WHERE workspace_id = $1 AND email_key = $2");
        /// Nothing has happened to a contact since it had this sequence, and nothing
        /// will before the commit.
        pub fn hold_sequence(workspace_id: WorkspaceId, contact: &Contact)
            with [workspace_id, contact.id, contact.sequence] expects 1 = Sql::both(
            "UPDATE contacts SET sequence = sequence WHERE workspace_id = $1 AND id = $2 AND sequence = $3");
    }
    /// One that is new has the sequence `FIRST_SEQUENCE`.
    UPSERT_BY_EMAIL = Sql::both(
        "INSERT INTO contacts (workspace_id, id, email, email_key, unsubscribed, properties, sequence, created_at)
         VALUES ($1, $2, $3, $4, $5, '{}', 2, $6)
         ON CONFLICT (workspace_id, email_key) DO UPDATE SET sequence = contacts.sequence + 1");
    /// What holds for these addresses of mail about a topic. Who is no contact has not chosen.
    TOPIC_RECIPIENTS = Sql::each(
        "SELECT k.value, c.id, COALESCE(c.unsubscribed, FALSE),
                COALESCE(s.subscription, t.default_subscription, 'opt_in') = 'opt_out'
         FROM json_each($3) k
         LEFT JOIN contacts c ON c.workspace_id = $1 AND c.email_key = k.value
         LEFT JOIN topics t ON t.workspace_id = $1 AND t.id = $2
         LEFT JOIN topic_subscriptions s ON s.workspace_id = $1 AND s.contact_id = c.id AND s.topic_id = $2",
        "SELECT k.value, c.id, COALESCE(c.unsubscribed, FALSE),
                COALESCE(s.subscription, t.default_subscription, 'opt_in') = 'opt_out'
         FROM json_array_elements_text(CAST(CAST($3 AS TEXT) AS JSON)) AS k (value)
         LEFT JOIN contacts c ON c.workspace_id = $1 AND c.email_key = k.value
         LEFT JOIN topics t ON t.workspace_id = $1 AND t.id = $2
         LEFT JOIN topic_subscriptions s ON s.workspace_id = $1 AND s.contact_id = c.id AND s.topic_id = $2");
    DELETE = Sql::both("DELETE FROM contacts WHERE workspace_id = $1 AND id = $2");
    DELETE_MEMBERSHIPS = Sql::both("DELETE FROM segment_members WHERE workspace_id = $1 AND contact_id = $2");
}

from_row! { Contact {
    id, email, first_name, last_name, unsubscribed, properties: json, sequence, created_at, updated_at
} }

/// Whoever has an address, of which `key` is the key.
pub async fn find_by_email_key(db: &Db, workspace_id: WorkspaceId, key: &str) -> Result<Option<Contact>, DbError> {
    db.read(by_email_key(workspace_id, key)).await?.first().map(Contact::read).transpose()
}

pub fn page(workspace_id: WorkspaceId, page: &Page) -> Stmt {
    page.statement(OLDER, NEWER, workspace_id, [])
}

pub fn page_in_segment(workspace_id: WorkspaceId, segment_id: SegmentId, page: &Page) -> Stmt {
    page.statement(OLDER_IN_SEGMENT, NEWER_IN_SEGMENT, workspace_id, [segment_id.into()])
}

/// What holds for an address of mail about a topic.
pub struct TopicRecipient {
    pub email_key: String,
    /// Who has it, if that is a contact.
    pub contact_id: Option<ContactId>,
    pub unsubscribed: bool,
    /// By choice, or by the topic's default.
    pub is_opted_out: bool,
}

from_row!(TopicRecipient { email_key, contact_id, unsubscribed, is_opted_out });

/// Finds what holds for these addresses of mail about a topic.
pub fn topic_recipients(workspace_id: WorkspaceId, topic_id: TopicId, email_keys: &[String]) -> Stmt {
    TOPIC_RECIPIENTS.with([workspace_id.into(), topic_id.into(), Value::from(email_keys).to_string().into()])
}

/// Counts up the sequence of whoever has this address, of which `key` is the key; a
/// contact is made where nobody has it.
pub(super) fn upsert_by_email(
    workspace_id: WorkspaceId,
    (email, key): (&Email, &str),
    new_id: ContactId,
    now: i64,
) -> Stmt {
    UPSERT_BY_EMAIL.with([
        workspace_id.into(),
        new_id.into(),
        email.as_str().into(),
        key.into(),
        false.into(),
        now.into(),
    ])
}

/// Deletes a contact, takes it out of its segments and forgets what it chose.
/// The contact goes first: whoever is adding it to a segment has either finished
/// by then, or finds it gone.
pub(super) fn delete(workspace_id: WorkspaceId, id: ContactId) -> Batch {
    let of = || [workspace_id.into(), id.into()];
    let mut batch = Batch::new()
        .and(DELETE.with(of()).expect(1))
        .and(DELETE_MEMBERSHIPS.with(of()))
        .and(topics::forget(workspace_id, id));
    batch.append(segments::forget(workspace_id, id));
    batch
}
