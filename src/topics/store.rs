//! Topics and what contacts chose of them, in the store.

use super::topic::{Choice, NewTopic, TopicChange, Visibility};
use crate::db::{Batch, Sql, Stmt, statements};
use crate::id::{ContactId, TopicId, WorkspaceId};
use crate::segments::{self, Filling};
use crate::web::Page;

statements! {
    lists {
        OLDER, NEWER, BY_ID =
            "SELECT id, name, description, default_subscription, visibility, created_at FROM topics
             WHERE workspace_id = $1" by "id";
        OLDER_OF_CONTACT, NEWER_OF_CONTACT =
            "SELECT t.id, t.name, t.description, COALESCE(s.subscription, t.default_subscription), t.created_at
             FROM topics t LEFT JOIN topic_subscriptions s
                 ON s.workspace_id = t.workspace_id AND s.contact_id = $4 AND s.topic_id = t.id
             WHERE t.workspace_id = $1" by "t.id";
    }
    functions {
        pub fn insert(workspace_id: WorkspaceId, id: TopicId, new: &NewTopic, now: i64)
            with [workspace_id, id, new.name.as_str(), new.description.as_ref().map(|words| words.as_str()),
                new.default_subscription.as_str(), new.visibility.unwrap_or(Visibility::Private).as_str(), now]
            = Sql::both(
            "INSERT INTO topics (workspace_id, id, name, description, default_subscription, visibility, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7)");
        /// Changes what is named and leaves the rest, whatever others change meanwhile.
        pub fn change(workspace_id: WorkspaceId, id: TopicId, changes: &TopicChange)
            with [workspace_id, id, changes.name.as_ref().map(|name| name.as_str()),
                changes.visibility.map(Visibility::as_str), changes.description.0.is_some(),
                changes.description.0.as_ref().and_then(Option::as_ref).map(|words| words.as_str())]
            expects 1 = Sql::both(
            "UPDATE topics SET name = COALESCE($3, name), visibility = COALESCE($4, visibility),
                 description = CASE WHEN $5 THEN $6 ELSE description END
             WHERE workspace_id = $1 AND id = $2");
        /// Writes down what a contact chose, where both are there and of this workspace. PostgreSQL is told to hold
        /// on to both rows until then: one that is deleted meanwhile would leave its choice behind.
        pub fn choose(workspace_id: WorkspaceId, contact_id: ContactId, choice: &Choice)
            with [workspace_id, contact_id, choice.topic_id, choice.subscription.as_str()] = Sql::each(
            "INSERT INTO topic_subscriptions (workspace_id, contact_id, topic_id, subscription)
             SELECT t.workspace_id, c.id, t.id, $4 FROM topics t JOIN contacts c ON c.workspace_id = t.workspace_id
             WHERE t.workspace_id = $1 AND c.id = $2 AND t.id = $3
             ON CONFLICT (workspace_id, contact_id, topic_id) DO UPDATE SET subscription = excluded.subscription",
            "INSERT INTO topic_subscriptions (workspace_id, contact_id, topic_id, subscription)
             SELECT t.workspace_id, c.id, t.id, $4 FROM topics t JOIN contacts c ON c.workspace_id = t.workspace_id
             WHERE t.workspace_id = $1 AND c.id = $2 AND t.id = $3
             FOR KEY SHARE OF t, c
             ON CONFLICT (workspace_id, contact_id, topic_id) DO UPDATE SET subscription = excluded.subscription");
        /// Every topic with what holds for a contact, and whether that was chosen.
        pub fn all_of_contact(workspace_id: WorkspaceId, contact_id: ContactId) = Sql::both(
            "SELECT t.id, t.name, t.description, t.visibility, COALESCE(s.subscription, t.default_subscription),
                 CASE WHEN s.subscription IS NULL THEN FALSE ELSE TRUE END
             FROM topics t LEFT JOIN topic_subscriptions s
                 ON s.workspace_id = t.workspace_id AND s.contact_id = $2 AND s.topic_id = t.id
             WHERE t.workspace_id = $1 ORDER BY t.id");
        /// The newest topics, to choose from: ids and names.
        pub fn choices(workspace_id: WorkspaceId) = Sql::both(
            "SELECT id, name FROM topics WHERE workspace_id = $1 ORDER BY id DESC LIMIT 500");
        /// Forgets all that a contact chose.
        pub fn forget(workspace_id: WorkspaceId, contact_id: ContactId) = Sql::both(
            "DELETE FROM topic_subscriptions WHERE workspace_id = $1 AND contact_id = $2");
    }
    DELETE = Sql::both("DELETE FROM topics WHERE workspace_id = $1 AND id = $2");
    DELETE_CHOICES = Sql::both("DELETE FROM topic_subscriptions WHERE workspace_id = $1 AND topic_id = $2");
}

pub fn page(workspace_id: WorkspaceId, page: &Page) -> Stmt {
    page.statement(OLDER, NEWER, workspace_id, [])
}

pub fn by_id(workspace_id: WorkspaceId, id: TopicId) -> Stmt {
    BY_ID.with([workspace_id.into(), id.into()])
}

/// Deletes a topic and what contacts chose of it. The topic goes first: whoever
/// is choosing has either finished by then, or finds it gone. Segments whose filters ask for it are filled anew.
pub fn delete(workspace_id: WorkspaceId, id: TopicId, steady: i64) -> Batch {
    let of = || [workspace_id.into(), id.into()];
    Batch::new().and(DELETE.with(of()).expect(1)).and(DELETE_CHOICES.with(of())).and(segments::refill_naming(
        workspace_id,
        &id.to_string(),
        &Filling::begin(steady),
    ))
}

/// Every topic, with what holds for a contact.
pub fn page_of_contact(workspace_id: WorkspaceId, contact_id: ContactId, page: &Page) -> Stmt {
    page.statement(OLDER_OF_CONTACT, NEWER_OF_CONTACT, workspace_id, [contact_id.into()])
}
