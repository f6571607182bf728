//! Looking for contacts. However many there are, one look goes through so many of them, newest first, and says where
//! the next one begins.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use uuid::Uuid;

use super::contact::email_key;
use super::shapes::Item;
use crate::accounts::{Duty, Member};
use crate::db::{Sql, Stmt, statements};
use crate::error::Error;
use crate::id::{ContactId, Id, SegmentId, TopicId, WorkspaceId};
use crate::text::like;

/// How many contacts one look goes through.
pub const WINDOW: i64 = 10_000;

/// How many more are gone through to count those that fit, where a page of them was found.
const COUNTED: i64 = 5_000;

/// How many of those that fit are shown at once.
const SHOWN: usize = 20;

/// How much of what was typed is looked for.
const LONGEST: usize = 254;

/// Of contacts `c`: whom a wish fits, but for the segment.
macro_rules! fits {
    () => {
        "($5 = '' OR c.email_key LIKE $5 ESCAPE '\\'
                OR LOWER(COALESCE(c.first_name, '') || ' ' || COALESCE(c.last_name, '')) LIKE $5 ESCAPE '\\'
                OR COALESCE(c.first_name, '') || ' ' || COALESCE(c.last_name, '') LIKE $6 ESCAPE '\\')
           AND ($7 = '' OR c.unsubscribed = ($7 = 'unsubscribed'))
           AND ($9 = '' OR COALESCE(
                (SELECT s.subscription FROM topic_subscriptions s
                 WHERE s.workspace_id = $1 AND s.contact_id = c.id AND s.topic_id = $8),
                (SELECT t.default_subscription FROM topics t WHERE t.workspace_id = $1 AND t.id = $8)) = $9)"
    };
}
pub(super) use fits;

/// Those of some contacts, or of some in a segment, whom a wish fits: from one id to another, as `"<" to ">="` compares
/// theirs with the two.
macro_rules! fitting {
    (all $columns:expr, $from:literal to $to:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM contacts c WHERE c.workspace_id = $1 AND c.id ",
            $from,
            " $2 AND c.id ",
            $to,
            " $4 AND ",
            $crate::contacts::search::fits!()
        )
    };
    (segment $columns:expr, $from:literal to $to:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM segment_members m
             JOIN contacts c ON c.workspace_id = m.workspace_id AND c.id = m.contact_id
             WHERE m.workspace_id = $1 AND m.segment_id = $10 AND m.contact_id ",
            $from,
            " $2 AND m.contact_id ",
            $to,
            " $4 AND ",
            $crate::contacts::search::fits!()
        )
    };
}
pub(super) use fitting;

/// What the list shows of contacts `c`.
macro_rules! columns {
    () => {
        "c.id, c.email, c.first_name, c.last_name, c.unsubscribed, c.created_at, c.updated_at"
    };
}

statements! {
    functions {
        /// The oldest of so many contacts.
        fn edge(workspace_id: WorkspaceId, before: Uuid, most: i64) = Sql::both(
            "SELECT id FROM (SELECT id FROM contacts WHERE workspace_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3)
                 AS looked
             ORDER BY id LIMIT 1");
        fn edge_in_segment(workspace_id: WorkspaceId, before: Uuid, most: i64, segment_id: SegmentId) = Sql::both(
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
    FIT = Sql::both(concat!(
        fitting!(all columns!(), "<" to ">="),
        " ORDER BY c.id DESC LIMIT $3"));
    FIT_IN_SEGMENT = Sql::both(concat!(
        fitting!(segment columns!(), "<" to ">="),
        " ORDER BY m.contact_id DESC LIMIT $3"));
    COUNT_FIT = Sql::both(concat!(fitting!(all "COUNT(*)", "<" to ">="), " LIMIT $3"));
    COUNT_FIT_IN_SEGMENT = Sql::both(concat!(fitting!(segment "COUNT(*)", "<" to ">="), " LIMIT $3"));
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
    /// How many fit, as far as was gone through; `None` where that is not counted.
    pub total: Option<Total>,
}

/// How many contacts fit what is looked for.
#[derive(Clone, Copy)]
pub struct Total {
    pub count: i64,
    /// Whether all contacts were gone through, and not only the newest.
    pub is_whole: bool,
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

    /// Whether all of a segment are wanted.
    pub fn is_whole_segment(&self) -> bool {
        self.segment_id.is_some() && self.text.is_empty() && self.topic_id.is_none() && self.mail.is_empty()
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
        // What is in a segment is counted already.
        let is_counted = self.after.is_none() && !self.is_whole_segment();
        let mut items = self.beginning(member).await?;
        let before = self.after.map_or(Uuid::max(), Id::uuid);
        let Some(edge) = self.edge(member, before, WINDOW).await? else {
            let total = is_counted.then_some(Total { count: 0, is_whole: true });
            return Ok(Found { items, next: None, has_stopped: false, total });
        };
        let (known, shown) = (items.len(), SHOWN + 1);
        let find = self.statement(workspace, [&FIT, &FIT_IN_SEGMENT], (before, edge.uuid()), shown as i64);
        let fit: Vec<Item> = member.query(find).await?;
        let found = fit.len();
        let last = fit.get(SHOWN - 1).map(|item| item.id).filter(|_| found == shown);
        for item in fit.into_iter().take(SHOWN) {
            if items.iter().take(known).all(|first| first.id != item.id) {
                items.push(item);
            }
        }
        if let Some(last) = last {
            let total = if is_counted { Some(self.total(member, last, edge).await?) } else { None };
            return Ok(Found { items, next: Some(last), has_stopped: false, total });
        }
        let is_more = self.has_older(member, edge).await?;
        let total = is_counted.then(|| Total { count: found.max(items.len()) as i64, is_whole: !is_more });
        Ok(Found { items, next: is_more.then_some(edge), has_stopped: is_more, total })
    }

    /// How many fit, where there is more than a page of them; the look may go on to its edge.
    async fn total<D: Duty>(&self, member: &Member<D>, last: ContactId, edge: ContactId) -> Result<Total, Error> {
        let counted = self.edge(member, last.uuid(), COUNTED).await?.unwrap_or(edge);
        let edge = counted.max(edge);
        let span = (last.uuid(), edge.uuid());
        let rest = self.statement(member.workspace_id(), [&COUNT_FIT, &COUNT_FIT_IN_SEGMENT], span, 1);
        let rest: Option<i64> = member.query(rest).await?;
        let is_whole = !self.has_older(member, edge).await?;
        Ok(Total { count: SHOWN as i64 + rest.unwrap_or_default(), is_whole })
    }

    /// The oldest of so many contacts that may be wanted.
    async fn edge<D: Duty>(&self, member: &Member<D>, before: Uuid, most: i64) -> Result<Option<ContactId>, Error> {
        let workspace = member.workspace_id();
        let edge = match self.segment_id {
            Some(segment_id) => edge_in_segment(workspace, before, most, segment_id),
            None => edge(workspace, before, most),
        };
        member.query(edge).await
    }

    async fn has_older<D: Duty>(&self, member: &Member<D>, edge: ContactId) -> Result<bool, Error> {
        let older = match self.segment_id {
            Some(segment_id) => has_older_in_segment(member.workspace_id(), edge, segment_id),
            None => has_older(member.workspace_id(), edge),
        };
        Ok(!member.read(older).await?.is_empty())
    }

    /// One of two statements, for all contacts or for those of a segment, about those between two ids.
    pub(super) fn statement(
        &self,
        workspace: WorkspaceId,
        [all, in_segment]: [&Sql; 2],
        (from, to): (Uuid, Uuid),
        rows: i64,
    ) -> Stmt {
        let pattern = |text: &str| if text.is_empty() { String::new() } else { format!("%{}%", like(text, '\\')) };
        let topic = self.topic_id.map_or("", |_| "opt_in");
        let mut params = vec![
            workspace.into(),
            from.into(),
            rows.into(),
            to.into(),
            pattern(&self.text.to_lowercase()).into(),
            pattern(&self.text).into(),
            self.mail.as_str().into(),
            self.topic_id.map_or(Uuid::nil(), Id::uuid).into(),
            topic.into(),
        ];
        match self.segment_id {
            Some(segment_id) => {
                params.push(segment_id.into());
                in_segment.with_all(params)
            }
            None => all.with_all(params),
        }
    }

    /// Whoever's address begins with what is looked for, however old.
    async fn beginning<D: Duty>(&self, member: &Member<D>) -> Result<Vec<Item>, Error> {
        let is_plain = self.segment_id.is_none() && self.topic_id.is_none() && self.mail.is_empty();
        if self.text.is_empty() || self.after.is_some() || !is_plain {
            return Ok(Vec::new());
        }
        let from = email_key(&self.text);
        let (until, pattern) = (format!("{from}\u{10ffff}"), format!("{}%", like(&from, '\\')));
        member.query(beginning(member.workspace_id(), &from, &until, &pattern)).await
    }
}
