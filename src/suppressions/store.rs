//! Suppressions in the store.

use serde_json::{Value, json};

use super::suppression::{Name, Origin};
use crate::clock::{Clock, rfc3339};
use crate::db::{Batch, Sql, Stmt, among, statements};
use crate::id::{EmailId, SuppressionId, WorkspaceId};
use crate::mime::Address;
use crate::occurrences::OccurrenceBatch;
use crate::web::Page;
use crate::webhooks::{self, EventType, When};

statements! {
    lists {
        OLDER, NEWER, BY_ID =
            "SELECT id, email, origin, reason, email_id, created_at FROM suppressions WHERE workspace_id = $1" by "id";
        OLDER_OF_ORIGIN, NEWER_OF_ORIGIN =
            "SELECT id, email, origin, reason, email_id, created_at FROM suppressions
             WHERE workspace_id = $1 AND origin = $4" by "id";
    }
    functions {
        /// Which of these addresses, by their keys as JSON, are on the list.
        fn on_list(workspace_id: WorkspaceId, keys: String) = among!(
            "SELECT email_key, id FROM suppressions WHERE workspace_id = $1 AND email_key", texts "$2", "");
        fn by_key(workspace_id: WorkspaceId, key: &str) = Sql::both(
            "SELECT id, email, origin, reason, email_id, created_at FROM suppressions
             WHERE workspace_id = $1 AND email_key = $2");
        /// The next some of all of them, from the oldest on.
        pub(super) fn behind(workspace_id: WorkspaceId, last: SuppressionId, most: i64) = Sql::both(
            "SELECT id, email, origin, reason, email_id, created_at FROM suppressions
             WHERE workspace_id = $1 AND id > $2 ORDER BY id LIMIT $3");
        /// Of the newest few thousand those in whose address a text stands.
        pub(super) fn containing(workspace_id: WorkspaceId, pattern: &str) = Sql::both(
            "SELECT id, email, origin, reason, email_id, created_at
             FROM (SELECT id, email, email_key, origin, reason, email_id, created_at FROM suppressions
                   WHERE workspace_id = $1 ORDER BY id DESC LIMIT 5000) AS newest
             WHERE email_key LIKE $2 ESCAPE '!' ORDER BY id DESC LIMIT 50");
        fn delete_by_id(workspace_id: WorkspaceId, id: SuppressionId) = Sql::both(
            "DELETE FROM suppressions WHERE workspace_id = $1 AND id = $2 RETURNING id");
        fn delete_by_key(workspace_id: WorkspaceId, key: &str) = Sql::both(
            "DELETE FROM suppressions WHERE workspace_id = $1 AND email_key = $2 RETURNING id");
    }
    INSERT = Sql::both(
        "INSERT INTO suppressions (workspace_id, email_key, id, email, origin, reason, email_id, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING");
}

/// Why an address is to get no mail any more.
pub struct Suppression<'a> {
    pub address: &'a str,
    pub origin: Origin,
    pub reason: Option<&'a str>,
    /// The mail that bounced, or that was complained of.
    pub email_id: Option<EmailId>,
}

/// Puts an address on the list. One that is there stays as it is.
pub fn insert(workspace_id: WorkspaceId, id: SuppressionId, new: &Suppression<'_>, now: i64) -> Stmt {
    INSERT.with([
        workspace_id.into(),
        Address::key_of(new.address).into(),
        id.into(),
        new.address.into(),
        new.origin.as_str().into(),
        new.reason.into(),
        new.email_id.into(),
        now.into(),
    ])
}

/// Puts an address on the list and tells webhooks, in the commit of why that is.
pub fn add(occurrences: &mut OccurrenceBatch<'_>, id: SuppressionId, new: &Suppression<'_>) {
    add_unnamed(occurrences, id, new, new.address);
}

/// The same, where webhooks are not to hear the address: they are told another.
pub fn add_unnamed(occurrences: &mut OccurrenceBatch<'_>, id: SuppressionId, new: &Suppression<'_>, told: &str) {
    let now = occurrences.now();
    occurrences.batch.push(insert(occurrences.workspace_id(), id, new, now));
    let told = Suppression { address: told, ..*new };
    occurrences.publish_when(EventType::SuppressionAdded, When::Suppressed(id), || published(id, &told, now));
}

/// Tells webhooks of an address that a batch puts on the list, or is about to take off it.
pub(super) fn publish(
    batch: &mut Batch,
    (clock, workspace_id): (&Clock, WorkspaceId),
    kind: EventType,
    id: SuppressionId,
    data: &Value,
) {
    webhooks::publish(batch, clock, workspace_id, (kind, When::Suppressed(id), clock.now()), data);
}

/// What webhooks are told of an entry.
pub(super) fn published(id: SuppressionId, new: &Suppression<'_>, now: i64) -> Value {
    let Suppression { address, origin, email_id, .. } = new;
    json!({
        "id": id, "email": address, "origin": origin.as_str(), "source_id": email_id, "created_at": rfc3339(now),
    })
}

/// Finds which of these addresses get no mail of a workspace any more: their keys, each with the id
/// of its entry.
pub fn suppressed(workspace_id: WorkspaceId, email_keys: &[String]) -> Stmt {
    on_list(workspace_id, Value::from(email_keys).to_string())
}

pub(super) fn page(workspace_id: WorkspaceId, origin: Option<Origin>, page: &Page) -> Stmt {
    match origin {
        None => page.statement(OLDER, NEWER, workspace_id, []),
        Some(origin) => page.statement(OLDER_OF_ORIGIN, NEWER_OF_ORIGIN, workspace_id, [origin.as_str().into()]),
    }
}

pub(super) fn find(workspace_id: WorkspaceId, name: &Name) -> Stmt {
    match name {
        Name::Id(id) => BY_ID.with([workspace_id.into(), (*id).into()]),
        Name::Key(key) => by_key(workspace_id, key),
    }
}

/// Takes an entry off the list and returns its id, if it is there.
pub(super) fn delete(workspace_id: WorkspaceId, name: &Name) -> Stmt {
    match name {
        Name::Id(id) => delete_by_id(workspace_id, *id),
        Name::Key(key) => delete_by_key(workspace_id, key),
    }
}
