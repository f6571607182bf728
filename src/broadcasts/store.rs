//! Broadcasts in the store.

use serde_json::Value;

use super::broadcast::{Content, LeftOut, State, UsedTemplate};
use crate::clock::SECOND;
use crate::db::{DbError, Row, Sql, Stmt, statements};
use crate::id::{BroadcastId, ContactId, SegmentId, TopicId, WorkspaceId};
use crate::web::Page;
use crate::windows::Window;
use crate::work::{Claimable, InOrder, claim_rows};

macro_rules! columns {
    () => {
        "id, workspace_id, name, segment_id, topic_id, sender, subject, reply_to, preview_text, html, text, template,
         state, reason, created_at, scheduled_at, started_at, ended_at, lane, is_audience_whole, recipients, left_out,
         send_window, priority, send_within_hours"
    };
}

statements! {
    lists {
        /// Lists leave bodies out: of a thousand broadcasts they would be many megabytes.
        OLDER, NEWER =
            "SELECT id, workspace_id, name, segment_id, topic_id, sender, subject, reply_to, preview_text, NULL, NULL,
                 NULL, state, reason, created_at, scheduled_at, started_at, ended_at, lane, is_audience_whole,
                 recipients, left_out, send_window, priority, send_within_hours
             FROM broadcasts WHERE workspace_id = $1" by "id";
    }
    functions {
        pub fn by_id(workspace_id: WorkspaceId, id: BroadcastId) = Sql::both(concat!(
            "SELECT ", columns!(), " FROM broadcasts WHERE workspace_id = $1 AND id = $2"));
        /// The same, of whoever's it is.
        pub fn load(id: BroadcastId) = Sql::both(concat!("SELECT ", columns!(), " FROM broadcasts WHERE id = $1"));
        pub fn delete(workspace_id: WorkspaceId, id: BroadcastId) expects 1
            = Sql::both(
            "DELETE FROM broadcasts WHERE workspace_id = $1 AND id = $2 AND state = 'draft'");
        /// A draft is to be sent, at once or later; `due_at` is that moment in steady time.
        pub fn launch(workspace_id: WorkspaceId, id: BroadcastId, launch: &Launch)
            with [workspace_id, id, launch.state.as_str(), launch.scheduled_at, launch.due_at, launch.started_at]
            expects 1 = Sql::both(
            "UPDATE broadcasts SET state = $3, scheduled_at = $4, due_at = $5, started_at = $6, reason = NULL,
                 attempt = attempt + 1
             WHERE workspace_id = $1 AND id = $2 AND state = 'draft'");
        /// Whoever is working on it loses it.
        pub fn pause(workspace_id: WorkspaceId, id: BroadcastId) expects 1 = Sql::both(
            "UPDATE broadcasts SET state = 'paused', due_at = NULL, attempt = attempt + 1
             WHERE workspace_id = $1 AND id = $2 AND state = 'sending'");
        pub fn resume(workspace_id: WorkspaceId, id: BroadcastId, due_at: i64) expects 1 = Sql::both(
            "UPDATE broadcasts SET state = 'sending', due_at = $3, attempt = attempt + 1
             WHERE workspace_id = $1 AND id = $2 AND state = 'paused'");
        /// One of which nothing was sent is a draft again.
        pub fn cancel_scheduled(workspace_id: WorkspaceId, id: BroadcastId) expects 1 = Sql::both(
            "UPDATE broadcasts SET state = 'draft', scheduled_at = NULL, due_at = NULL, attempt = attempt + 1
             WHERE workspace_id = $1 AND id = $2 AND state = 'scheduled'");
        pub fn cancel(workspace_id: WorkspaceId, id: BroadcastId, now: i64) expects 1 = Sql::both(
            "UPDATE broadcasts SET state = 'canceled', ended_at = $3, due_at = NULL, attempt = attempt + 1
             WHERE workspace_id = $1 AND id = $2 AND state IN ('sending', 'paused')");
        /// Its time has come: from now on its template is what it is at this moment.
        pub fn begin(claimed: &Claimed, now: i64, lease_until: i64, used: Option<&UsedTemplate>)
            with [claimed.id, claimed.attempt, now, lease_until, template(used)] expects 1 = Sql::both(
            "UPDATE broadcasts SET state = 'sending', started_at = $3, due_at = $4, template = $5
             WHERE id = $1 AND attempt = $2");
        /// It cannot be sent as it is.
        pub fn give_back(claimed: &Claimed, reason: &str) with [claimed.id, claimed.attempt, reason] expects 1 = Sql::both(
            "UPDATE broadcasts SET state = 'draft', reason = $3, scheduled_at = NULL, started_at = NULL, due_at = NULL
             WHERE id = $1 AND attempt = $2");
        /// Its time has not come yet.
        pub fn put_off(claimed: &Claimed, due_at: i64) with [claimed.id, claimed.attempt, due_at] expects 1 = Sql::both(
            "UPDATE broadcasts SET due_at = $3 WHERE id = $1 AND attempt = $2");
        /// It waits for something.
        pub fn hold_up(claimed: &Claimed, reason: &str, due_at: i64) with [claimed.id, claimed.attempt, reason, due_at]
            expects 1 = Sql::both(
            "UPDATE broadcasts SET reason = $3, due_at = $4 WHERE id = $1 AND attempt = $2");
        /// Some more contacts of the segment were looked at.
        pub fn advance(claimed: &Claimed, to: &Advance<'_>)
            with [claimed.id, claimed.attempt, to.cursor, to.is_whole, to.recipients,
                Value::from_iter(to.left_out.clone()).to_string(), to.reason, to.due_at] expects 1 = Sql::both(
            "UPDATE broadcasts SET audience_cursor = $3, is_audience_whole = $4, recipients = $5, left_out = $6,
                 reason = $7, due_at = $8
             WHERE id = $1 AND attempt = $2");
        /// It is looked at again.
        pub fn look_again(claimed: &Claimed, due_at: i64) with [claimed.id, claimed.attempt, due_at] expects 1
            = Sql::both("UPDATE broadcasts SET due_at = $3 WHERE id = $1 AND attempt = $2");
        /// Some more of those who were put off are looked at anew; `None`: that were all.
        pub fn retimed(claimed: &Claimed, behind: Option<i64>, due_at: i64)
            with [claimed.id, claimed.attempt, behind, due_at] expects 1 = Sql::both(
            "UPDATE broadcasts SET retimed_behind = $3, due_at = $4 WHERE id = $1 AND attempt = $2");
        pub fn end(claimed: &Claimed, now: i64) with [claimed.id, claimed.attempt, now] expects 1 = Sql::both(
            "UPDATE broadcasts SET state = 'sent', ended_at = $3, due_at = NULL WHERE id = $1 AND attempt = $2");
        pub fn state_of_lane(lane: i64) = Sql::both("SELECT state FROM broadcasts WHERE lane = $1");
        /// Whether anybody is in a segment.
        pub fn has_members(workspace_id: WorkspaceId, segment_id: SegmentId) = Sql::both(
            "SELECT 1 FROM segment_members WHERE workspace_id = $1 AND segment_id = $2 LIMIT 1");
        /// Finds what [`replace`] has to know.
        pub fn version(workspace_id: WorkspaceId, id: BroadcastId) = Sql::both(
            "SELECT attempt FROM broadcasts WHERE workspace_id = $1 AND id = $2");
        /// The next of a segment behind one, whether they are contacts still, and whether they want mail like this.
        pub fn members(
            workspace_id: WorkspaceId, segment_id: SegmentId, behind: ContactId, topic_id: Option<TopicId>, most: i64,
        ) = Sql::both(
            "SELECT m.contact_id, c.email, c.unsubscribed, COALESCE(s.subscription, t.default_subscription), x.email_key
             FROM (SELECT contact_id FROM segment_members
                   WHERE workspace_id = $1 AND segment_id = $2 AND contact_id > $3 ORDER BY contact_id LIMIT $5) m
                 LEFT JOIN contacts c ON c.workspace_id = $1 AND c.id = m.contact_id
                 LEFT JOIN topics t ON t.workspace_id = $1 AND t.id = $4
                 LEFT JOIN topic_subscriptions s
                     ON s.workspace_id = $1 AND s.contact_id = m.contact_id AND s.topic_id = $4
                 LEFT JOIN suppressions x ON x.workspace_id = $1 AND x.email_key = c.email_key
             ORDER BY m.contact_id");
        /// Lanes behind one in which recipients of broadcasts wait, found in steps from one to the next, but for those that
        /// rest; and how far their broadcasts are.
        pub fn lanes(behind: i64, most: i64) = Sql::both(
            "WITH RECURSIVE lanes (lane) AS (
                 SELECT (SELECT r.lane FROM email_recipients r WHERE r.lane > $1 AND r.due_at IS NOT NULL
                         ORDER BY r.lane LIMIT 1)
                 UNION ALL
                 SELECT (SELECT r.lane FROM email_recipients r WHERE r.lane > l.lane AND r.due_at IS NOT NULL
                         ORDER BY r.lane LIMIT 1)
                 FROM lanes l WHERE l.lane IS NOT NULL)
             SELECT l.lane, b.state, b.priority FROM lanes l LEFT JOIN broadcasts b ON b.lane = l.lane
             WHERE l.lane IS NOT NULL AND (b.state IS NULL OR b.state <> 'paused') LIMIT $2");
    }
    INSERT = Sql::both(
        "INSERT INTO broadcasts (id, workspace_id, name, segment_id, topic_id, sender, subject, reply_to, preview_text,
             html, text, template, state, created_at, scheduled_at, started_at, lane, is_audience_whole, recipients,
             left_out, due_at, attempt, send_window, priority, send_within_hours)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, FALSE, 0, '{}', $18, 0,
             $19, $20, $21)");
    REPLACE = Sql::both(
        "UPDATE broadcasts SET name = $3, segment_id = $4, topic_id = $5, sender = $6, subject = $7, reply_to = $8,
             preview_text = $9, html = $10, text = $11, template = $12, send_window = $14, priority = $15,
             send_within_hours = $16, attempt = attempt + 1
         WHERE workspace_id = $1 AND id = $2 AND state = 'draft' AND attempt = $13");
    NEXT = Sql::both("SELECT due_at FROM broadcasts WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1");
    CLAIM = claim_rows!(
        "broadcasts" ("id") where "due_at IS NOT NULL" set ""
        returning "broadcasts.id, broadcasts.attempt, audience_cursor, retimed_behind");
}

/// When a broadcast is to be sent.
pub struct Launch {
    pub state: State,
    pub scheduled_at: Option<i64>,
    /// In steady time.
    pub due_at: Option<i64>,
    pub started_at: Option<i64>,
}

impl Launch {
    /// Not yet.
    pub const NONE: Launch = Launch { state: State::Draft, scheduled_at: None, due_at: None, started_at: None };

    /// At a moment in wall time, or at once; both clocks are at this moment.
    pub fn at(scheduled_at: Option<i64>, now: i64, steady: i64) -> Launch {
        let state = if scheduled_at.is_some() { State::Scheduled } else { State::Sending };
        let due_at = steady + scheduled_at.map_or(0, |at| (at - now).max(0));
        Launch { state, scheduled_at, due_at: Some(due_at), started_at: scheduled_at.is_none().then_some(now) }
    }
}

/// How far the audience is.
pub struct Advance<'a> {
    pub cursor: Option<ContactId>,
    pub is_whole: bool,
    pub recipients: i64,
    pub left_out: &'a LeftOut,
    pub reason: Option<&'a str>,
    pub due_at: i64,
}

/// A broadcast that somebody is working on.
#[derive(Debug)]
pub struct Claimed {
    pub id: BroadcastId,
    /// The fence.
    pub attempt: i64,
    pub cursor: Option<ContactId>,
    /// Those behind this number who were put off are to be looked at anew.
    pub retimed_behind: Option<i64>,
}

impl Claimable for Claimed {
    const QUEUE: &'static str = "broadcasts";
    const LEASE: i64 = 30 * SECOND;

    fn read(row: &Row) -> Result<Claimed, DbError> {
        Ok(Claimed {
            id: row.id(0)?,
            attempt: row.int(1)?,
            cursor: row.maybe(2, Row::id)?,
            retimed_behind: row.maybe(3, Row::int)?,
        })
    }
}

impl InOrder for Claimed {
    const NEXT: Sql = NEXT;
    const CLAIM: Sql = CLAIM;
}

fn template(used: Option<&UsedTemplate>) -> Option<String> {
    used.and_then(|template| serde_json::to_string(template).ok())
}

pub fn insert(
    (workspace_id, id, lane): (WorkspaceId, BroadcastId, i64),
    content: &Content,
    launch: &Launch,
    now: i64,
) -> Stmt {
    INSERT.with([
        id.into(),
        workspace_id.into(),
        (&content.name).into(),
        content.segment_id.into(),
        content.topic_id.into(),
        (&content.sender).into(),
        (&content.subject).into(),
        Value::from(content.reply_to.as_slice()).to_string().into(),
        content.preview_text.as_ref().into(),
        content.html.as_ref().into(),
        content.text.as_ref().into(),
        template(content.template.as_ref()).into(),
        launch.state.as_str().into(),
        now.into(),
        launch.scheduled_at.into(),
        launch.started_at.into(),
        lane.into(),
        launch.due_at.into(),
        content.timing.send_window.as_ref().map(Window::to_json).into(),
        content.timing.priority.0.into(),
        content.timing.send_within_hours.map(|hours| hours.0).into(),
    ])
}

/// Writes a whole draft over the one it was read from, unless that has changed since.
pub fn replace(workspace_id: WorkspaceId, id: BroadcastId, content: &Content, version: i64) -> Stmt {
    REPLACE
        .with([
            workspace_id.into(),
            id.into(),
            (&content.name).into(),
            content.segment_id.into(),
            content.topic_id.into(),
            (&content.sender).into(),
            (&content.subject).into(),
            Value::from(content.reply_to.as_slice()).to_string().into(),
            content.preview_text.as_ref().into(),
            content.html.as_ref().into(),
            content.text.as_ref().into(),
            template(content.template.as_ref()).into(),
            version.into(),
            content.timing.send_window.as_ref().map(Window::to_json).into(),
            content.timing.priority.0.into(),
            content.timing.send_within_hours.map(|hours| hours.0).into(),
        ])
        .expect(1)
}

pub fn page(workspace_id: WorkspaceId, page: &Page) -> Stmt {
    page.statement(OLDER, NEWER, workspace_id, [])
}
