//! Looking for contacts. However many there are, one look goes through so many of them, newest first, and says where
//! the next one begins.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use uuid::Uuid;

use super::contact::email_key;
use super::shapes::Item;
use crate::accounts::{Duty, Member};
use crate::db::{Sql, statements};
use crate::error::Error;
use crate::id::{ContactId, Id, SegmentId, TopicId, WorkspaceId};

/// How many contacts one look goes through.
pub const WINDOW: i64 = 10_000;

/// How many of those that fit are shown at once.
const SHOWN: usize = 20;

/// How much of what was typed is looked for.
const LONGEST: usize = 254;

statements! {
    functions {
        /// The oldest of so many contacts.
        fn edge(workspace_id: WorkspaceId, before: Uuid) with [workspace_id, before, WINDOW] = Sql::both(
            "SELECT id FROM (SELECT id FROM contacts WHERE workspace_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3)
                 AS looked
             ORDER BY id LIMIT 1");
        fn edge_in_segment(workspace_id: WorkspaceId, before: Uuid, segment_id: SegmentId)
            with [workspace_id, before, WINDOW, segment_id] = Sql::both(
            "SELECT contact_id FROM (SELECT contact_id FROM segment_members
                 WHERE workspace_id = $1 AND segment_id = $4 AND contact_id < $2 ORDER BY contact_id DESC LIMIT $3)
                 AS looked
             ORDER BY contact_id LIMIT 1");
        fn has_older(workspace_id: WorkspaceId, before: ContactId) = Sql::both(
            "SELECT 1 FROM contacts WHERE workspace_id = $1 AND id < $2 LIMIT 1");
        fn has_older_in_segment(workspace_id: WorkspaceId, before: ContactId, segment_id: SegmentId) = Sql::both(
            "SELECT 1 FROM segment_members WHERE workspace_id = $1 AND segment_id = $3 AND contact_id < $2 LIMIT 1");
        /// Addresses that begin so, through their index. Where the store orders text by a language, some may be
        /// missing; none is there that does not belong.
        fn beginning(workspace_id: WorkspaceId, from: &str, until: &str, pattern: &str) = Sql::both(
            "SELECT id, email, first_name, last_name, unsubscribed, created_at, updated_at
             FROM contacts WHERE workspace_id = $1 AND email_key >= $2 AND email_key < $3
               AND email_key LIKE $4 ESCAPE '\\' ORDER BY email_key LIMIT 20");
        /// How many contacts there are, counted to a bound.
        pub fn count(workspace_id: WorkspaceId) with [workspace_id, WINDOW + 1] = Sql::both(
            "SELECT COUNT(*) FROM (SELECT 1 FROM contacts WHERE workspace_id = $1 LIMIT $2) AS some_contacts");
    }
    FIT = Sql::both(
        "SELECT c.id, c.email, c.first_name, c.last_name, c.unsubscribed, c.created_at, c.updated_at
         FROM contacts c
         WHERE c.workspace_id = $1 AND c.id < $2 AND c.id >= $4
           AND ($5 = '' OR c.email_key LIKE $5 ESCAPE '\\'
                OR LOWER(COALESCE(c.first_name, '') || ' ' || COALESCE(c.last_name, '')) LIKE $5 ESCAPE '\\'
                OR COALESCE(c.first_name, '') || ' ' || COALESCE(c.last_name, '') LIKE $6 ESCAPE '\\')
           AND ($7 = '' OR c.unsubscribed = ($7 = 'unsubscribed'))
           AND ($9 = '' OR COALESCE(
                (SELECT s.subscription FROM topic_subscriptions s
                 WHERE s.workspace_id = $1 AND s.contact_id = c.id AND s.topic_id = $8),
                (SELECT t.default_subscription FROM topics t WHERE t.workspace_id = $1 AND t.id = $8)) = $9)
         ORDER BY c.id DESC LIMIT $3");
    FIT_IN_SEGMENT = Sql::both(
        "SELECT c.id, c.email, c.first_name, c.last_name, c.unsubscribed, c.created_at, c.updated_at
         FROM segment_members m JOIN contacts c ON c.workspace_id = m.workspace_id AND c.id = m.contact_id
         WHERE m.workspace_id = $1 AND m.segment_id = $10 AND m.contact_id < $2 AND m.contact_id >= $4
           AND ($5 = '' OR c.email_key LIKE $5 ESCAPE '\\'
                OR LOWER(COALESCE(c.first_name, '') || ' ' || COALESCE(c.last_name, '')) LIKE $5 ESCAPE '\\'
                OR COALESCE(c.first_name, '') || ' ' || COALESCE(c.last_name, '') LIKE $6 ESCAPE '\\')
           AND ($7 = '' OR c.unsubscribed = ($7 = 'unsubscribed'))
           AND ($9 = '' OR COALESCE(
                (SELECT s.subscription FROM topic_subscriptions s
                 WHERE s.workspace_id = $1 AND s.contact_id = c.id AND s.topic_id = $8),
                (SELECT t.default_subscription FROM topics t WHERE t.workspace_id = $1 AND t.id = $8)) = $9)
         ORDER BY m.contact_id DESC LIMIT $3");
}

/// Who is looked for, as an address says it.
#[derive(Default)]
pub struct Wanted {
    /// A part of an address or of a name.
    pub text: String,
    pub segment_id: Option<SegmentId>,
    /// Who wants mail about this topic.
    pub topic_id: Option<TopicId>,
    /// `subscribed` or `unsubscribed`; empty: either.
    pub mail: String,
    /// Only those that are older.
    after: Option<ContactId>,
}

/// What one look found.
pub struct Found {
    pub items: Vec<Item>,
    /// Where the next look begins, if there is anybody left.
    pub next: Option<ContactId>,
    /// Whether the look ended before so many were found as are shown.
    pub has_stopped: bool,
}

impl Wanted {
    pub fn of<D: Duty>(member: &Member<D>) -> Wanted {
        let text: String = member.asked("q").unwrap_or_default().trim().chars().take(LONGEST).collect();
        let id = |name: &str| member.asked(name);
        Wanted {
            text: text.replace('\0', ""),
            segment_id: id("segment").and_then(|id| id.parse().ok()),
            topic_id: id("topic").and_then(|id| id.parse().ok()),
            mail: id("mail").filter(|mail| ["subscribed", "unsubscribed"].contains(&mail.as_str())).unwrap_or_default(),
            after: id("after").and_then(|id| id.parse().ok()),
        }
    }

    /// Whether all are wanted.
    pub fn is_everybody(&self) -> bool {
        self.text.is_empty() && self.segment_id.is_none() && self.topic_id.is_none() && self.mail.is_empty()
    }

    /// What the address of the same wish looks like.
    pub fn query(&self) -> String {
        let mut all = vec![format!("q={}", utf8_percent_encode(&self.text, NON_ALPHANUMERIC))];
        all.extend(self.segment_id.map(|id| format!("segment={id}")));
        all.extend(self.topic_id.map(|id| format!("topic={id}")));
        all.extend((!self.mail.is_empty()).then(|| format!("mail={}", self.mail)));
        all.join("&")
    }

    /// Goes through some contacts.
    pub async fn find<D: Duty>(&self, member: &Member<D>) -> Result<Found, Error> {
        let workspace = member.workspace_id();
        let mut items = self.beginning(member).await?;
        let before = self.after.map_or(Uuid::max(), Id::uuid);
        let edge: Option<ContactId> = member
            .query(match self.segment_id {
                Some(segment_id) => edge_in_segment(workspace, before, segment_id),
                None => edge(workspace, before),
            })
            .await?;
        let Some(edge) = edge else { return Ok(Found { items, next: None, has_stopped: false }) };
        let (known, shown) = (items.len(), SHOWN + 1);
        let fit: Vec<Item> = member.query(self.fit(workspace, (before, edge), shown as i64)).await?;
        let is_full = fit.len() == shown;
        let last = fit.get(SHOWN - 1).map(|item| item.id);
        for item in fit.into_iter().take(SHOWN) {
            if items.iter().take(known).all(|first| first.id != item.id) {
                items.push(item);
            }
        }
        if is_full {
            return Ok(Found { items, next: last, has_stopped: false });
        }
        let older = match self.segment_id {
            Some(segment_id) => has_older_in_segment(workspace, edge, segment_id),
            None => has_older(workspace, edge),
        };
        let is_more = !member.read(older).await?.is_empty();
        Ok(Found { items, next: is_more.then_some(edge), has_stopped: is_more })
    }

    fn fit(&self, workspace: WorkspaceId, (before, edge): (Uuid, ContactId), rows: i64) -> crate::db::Stmt {
        let pattern = |text: &str| if text.is_empty() { String::new() } else { format!("%{}%", escaped(text)) };
        let topic = self.topic_id.map_or("", |_| "opt_in");
        let mut params = vec![
            workspace.into(),
            before.into(),
            rows.into(),
            edge.into(),
            pattern(&self.text.to_lowercase()).into(),
            pattern(&self.text).into(),
            self.mail.as_str().into(),
            self.topic_id.map_or(Uuid::nil(), Id::uuid).into(),
            topic.into(),
        ];
        match self.segment_id {
            Some(segment_id) => {
                params.push(segment_id.into());
                FIT_IN_SEGMENT.with_all(params)
            }
            None => FIT.with_all(params),
        }
    }

    /// Whoever's address begins with what is looked for, however old.
    async fn beginning<D: Duty>(&self, member: &Member<D>) -> Result<Vec<Item>, Error> {
        let is_plain = self.segment_id.is_none() && self.topic_id.is_none() && self.mail.is_empty();
        if self.text.is_empty() || self.after.is_some() || !is_plain {
            return Ok(Vec::new());
        }
        let from = email_key(&self.text);
        let (until, pattern) = (format!("{from}\u{10ffff}"), format!("{}%", escaped(&from)));
        member.query(beginning(member.workspace_id(), &from, &until, &pattern)).await
    }
}

/// A text as a pattern that fits it alone.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}
