//! Emails in the store.

use serde_json::Value;

use super::email::{Content, NewEmail, Origin};
use super::envelope::{CHUNK, Envelope, FIRST_ATTACHMENT, HTML, MESSAGE, TEXT, inline};
use super::state::State;
use crate::clock::Clock;
use crate::db::{Batch, Db, DbError, Row, Sql, Stmt, among, statements};
use crate::domains::Tracking;
use crate::id::{EmailEventId, EmailId, RunId, WorkspaceId, json_array};
use crate::mime::Address;
use crate::web::Page;

/// The columns that [`Summary::read`] reads, or all that [`Stored::read`] does.
macro_rules! columns {
    (summary) => {
        "id, workspace_id, created_at, sender, subject, envelope, message_id, scheduled_at, state"
    };
    (all) => {
        concat!(
            columns!(summary),
            ", origin, lane, sender_domain, html, text, size, updated_at, when_uncertain, run_id, step"
        )
    };
}
pub(super) use columns;

statements! {
    lists {
        OLDER, NEWER =
            "SELECT id, workspace_id, created_at, sender, subject, envelope, message_id, scheduled_at, state
             FROM emails WHERE workspace_id = $1" by "id";
    }
    functions {
        pub fn add_chunk(id: EmailId, part: i64, number: i64, bytes: &[u8]) = Sql::both(
            "INSERT INTO email_chunks (email_id, part, number, bytes) VALUES ($1, $2, $3, $4)");
        /// Gives pieces that were stored before their mail to the mail that they belong to.
        pub fn take_over(stored_as: EmailId, id: EmailId) = Sql::both(
            "UPDATE email_chunks SET email_id = $2 WHERE email_id = $1");
        /// Reads one piece of something long.
        pub fn chunk(id: EmailId, part: i64, number: i64) = Sql::both(
            "SELECT bytes FROM email_chunks WHERE email_id = $1 AND part = $2 AND number = $3");
        pub fn by_id(workspace_id: WorkspaceId, id: EmailId) = Sql::both(concat!(
            "SELECT ", columns!(all), " FROM emails WHERE workspace_id = $1 AND id = $2"));
        /// The mails that the steps of a run sent: step, id, state.
        pub fn of_run(run_id: RunId) = Sql::both("SELECT step, id, state FROM emails WHERE run_id = $1");
        /// How many there are, counted to a bound, and when the newest was handed in.
        pub fn tally(workspace_id: WorkspaceId) = Sql::both(
            "SELECT COUNT(*), MAX(created_at) FROM
                 (SELECT created_at FROM emails WHERE workspace_id = $1 ORDER BY id DESC LIMIT 1001) AS newest");
        pub fn recipients(id: EmailId) = Sql::both(
            "SELECT number, address, state, due_at, reason, attempt, dot_attempt FROM email_recipients
             WHERE email_id = $1 ORDER BY number");
        pub fn first_recipients(id: EmailId, most: i64) = Sql::both(
            "SELECT number, address, state, due_at, reason, attempt, dot_attempt FROM email_recipients
             WHERE email_id = $1 ORDER BY number LIMIT $2");
        /// What happened to a mail, from the first thing on: recipient, type, detail as JSON, time, who did it as JSON.
        pub fn events(id: EmailId, most: i64) = Sql::both(
            "SELECT number, type, detail, created_at, visitor FROM email_events WHERE email_id = $1 ORDER BY id LIMIT $2");
        pub fn add_event(event: &NewEvent<'_>)
            with [event.workspace_id, event.email_id, event.id, event.number, event.state.as_str(), event.detail, event.now]
            = Sql::both(
            "INSERT INTO email_events (workspace_id, email_id, id, number, type, detail, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7)");
        /// A mail is as far as the farthest of its recipients.
        pub fn raise(id: EmailId, state: State, now: i64) with [id, state as i64, now] = Sql::both(
            "UPDATE emails SET state = CASE WHEN state < $2 THEN $2 ELSE state END, updated_at = $3 WHERE id = $1");
        /// The same where the next server has taken it, and will say when it is delivered.
        /// A recipient that was late, or of which nobody knew, may be farther down by that.
        pub fn hand_on(id: EmailId, now: i64) = Sql::both(
            "UPDATE emails SET updated_at = $2, state = CASE WHEN state < 20 THEN 20 WHEN state IN (28, 30)
                 THEN (SELECT MAX(r.state) FROM email_recipients r WHERE r.email_id = $1) ELSE state END WHERE id = $1");
    }
    INSERT = Sql::both(
        "INSERT INTO emails (id, workspace_id, created_at, origin, lane, sender, sender_domain, subject, envelope,
             message_id, html, text, size, scheduled_at, state, when_uncertain, run_id, step, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $3)")
        .for_rows(
        "INSERT OR FAIL INTO emails (id, workspace_id, created_at, origin, lane, sender, sender_domain, subject, envelope,
             message_id, html, text, size, scheduled_at, state, when_uncertain, run_id, step, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $3),
             ($19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35, $36, $21),
             ($37, $38, $39, $40, $41, $42, $43, $44, $45, $46, $47, $48, $49, $50, $51, $52, $53, $54, $39),
             ($55, $56, $57, $58, $59, $60, $61, $62, $63, $64, $65, $66, $67, $68, $69, $70, $71, $72, $57)");
    ADD_RECIPIENT = Sql::both(
        "INSERT INTO email_recipients (email_id, number, workspace_id, address, state, lane, line, due_at, queued_at,
             attempt, dot_attempt, tries, delay_told)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, 0, 0, 0, FALSE)")
        .for_rows(
        "INSERT OR FAIL INTO email_recipients (email_id, number, workspace_id, address, state, lane, line, due_at,
             queued_at, attempt, dot_attempt, tries, delay_told)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, 0, 0, 0, FALSE),
             ($9, $10, $11, $12, $13, $14, $15, $16, $16, 0, 0, 0, FALSE),
             ($17, $18, $19, $20, $21, $22, $23, $24, $24, 0, 0, 0, FALSE),
             ($25, $26, $27, $28, $29, $30, $31, $32, $32, 0, 0, 0, FALSE)");
    /// Apart, because most mail is about nothing in particular.
    SET_TOPIC = Sql::both("UPDATE emails SET topic_id = $2 WHERE id = $1");
    LOAD = Sql::both(concat!("SELECT ", columns!(all), " FROM emails WHERE id = $1"));
    LOAD_SMALL = among!(
        concat!("SELECT ", columns!(all), " FROM emails WHERE id"), ids "$1", " AND size <= $2");
    SUMMARY = Sql::both(concat!("SELECT ", columns!(summary), " FROM emails WHERE id = $1"));
    /// Only those that nobody has claimed yet.
    CANCEL_RECIPIENTS = Sql::both(
        "UPDATE email_recipients SET state = $2, due_at = NULL WHERE email_id = $1 AND attempt = 0 AND state <= $3");
    CANCEL = Sql::both("UPDATE emails SET state = $3, updated_at = $4 WHERE workspace_id = $1 AND id = $2");
    RESCHEDULE_RECIPIENTS = Sql::both(
        "UPDATE email_recipients SET due_at = $2, queued_at = $2 WHERE email_id = $1 AND attempt = 0 AND state = $3");
    RESCHEDULE = Sql::both(
        "UPDATE emails SET scheduled_at = $3, updated_at = $4 WHERE workspace_id = $1 AND id = $2");
}

/// The number of the first recipient of a mail; the others follow.
pub const FIRST_RECIPIENT: i64 = 0;

/// The id of a mail as it travels.
pub fn message_id(id: EmailId, sender: &Address) -> String {
    format!("<{id}@{}>", sender.ascii_domain())
}

/// The statements that queue a mail, to be committed with whatever else belongs to it. `line` says
/// where a recipient waits.
pub fn insert(new: &NewEmail, id: EmailId, clock: &Clock, line: impl Fn(&Address) -> String) -> Batch {
    insert_tracked(new, id, clock, None, line)
}

/// The same, of a mail that is tracked as its sender's domain wants it. Only what has HTML can be; what was handed in
/// whole goes as it was written, and what asks whether somebody wants mail is nobody's business.
pub fn insert_tracked(
    new: &NewEmail,
    id: EmailId,
    clock: &Clock,
    tracking: Option<&Tracking>,
    line: impl Fn(&Address) -> String,
) -> Batch {
    let is_fit = new.html.is_some() && new.written.is_none() && !matches!(new.origin, Origin::System | Origin::Form);
    let (now, steady) = (clock.now(), clock.steady());
    let state = if new.scheduled_at.is_some() { State::Scheduled } else { State::Queued } as i64;
    let due_at = steady + new.scheduled_at.map_or(0, |at| (at - now).max(0));
    let text = |content: &Option<Content<String>>| content.as_ref().and_then(inline).into();
    let envelope = Envelope { tracking: tracking.filter(|_| is_fit).cloned(), ..Envelope::of(new) };
    let envelope = serde_json::to_string(&envelope).unwrap_or_default();
    let (run_id, step) = new.run.as_ref().map_or((None, None), |(run, step)| (Some(*run), Some(step)));
    let mut batch: Batch = INSERT
        .with([
            id.into(),
            new.workspace_id.into(),
            now.into(),
            new.origin.as_str().into(),
            (new.lane as i64).into(),
            new.from.to_string().into(),
            new.from.address.ascii_domain().into(),
            (&new.subject).into(),
            envelope.into(),
            new.message_id(id).into(),
            text(&new.html),
            text(&new.text),
            (new.size() as i64).into(),
            new.scheduled_at.into(),
            state.into(),
            new.when_uncertain.as_str().into(),
            run_id.into(),
            step.into(),
        ])
        .into();
    if let Some(topic_id) = new.topic_id {
        batch.push(SET_TOPIC.with([id.into(), topic_id.into()]));
    }
    for (recipient, number) in new.recipients().into_iter().zip(FIRST_RECIPIENT..) {
        batch.push(ADD_RECIPIENT.with([
            id.into(),
            number.into(),
            new.workspace_id.into(),
            recipient.address.as_str().into(),
            state.into(),
            (new.lane as i64).into(),
            line(&recipient.address).into(),
            due_at.into(),
        ]));
    }
    pieces(new, id).for_each(|piece| batch.push(piece));
    batch
}

/// What stands in pieces and is not in the store yet.
fn pieces(new: &NewEmail, id: EmailId) -> impl Iterator<Item = Stmt> + '_ {
    let long = |content: &'_ Option<Content<String>>| match content {
        Some(Content::Here(text)) if text.len() > CHUNK => Some(text.as_bytes().to_vec()),
        _ => None,
    };
    let message = new.written.as_ref().and_then(|message| match &message.content {
        Content::Here(bytes) => Some(bytes.to_vec()),
        Content::Stored { .. } => None,
    });
    let bodies = [(HTML, long(&new.html)), (TEXT, long(&new.text)), (MESSAGE, message)];
    let attached = new.attachments.iter().zip(FIRST_ATTACHMENT..).map(|(attachment, part)| match &attachment.content {
        Content::Here(bytes) => (part, Some(bytes.clone())),
        Content::Stored { .. } => (part, None),
    });
    bodies.into_iter().chain(attached).flat_map(move |(part, bytes)| {
        let bytes = bytes.unwrap_or_default();
        let chunks: Vec<Stmt> =
            bytes.chunks(CHUNK).zip(0..).map(|(chunk, number)| add_chunk(id, part, number, chunk)).collect();
        chunks
    })
}

/// A mail as lists show it.
#[derive(Debug, Clone)]
pub struct Summary {
    pub id: EmailId,
    pub workspace_id: WorkspaceId,
    pub created_at: i64,
    /// As it was given.
    pub sender: String,
    pub subject: String,
    pub envelope: Envelope,
    pub message_id: String,
    pub scheduled_at: Option<i64>,
    pub state: State,
}

impl Summary {
    pub fn read(row: &Row) -> Result<Summary, DbError> {
        let broken = |what: &str| DbError::Broken(format!("{what} of an email"));
        Ok(Summary {
            id: row.id(0)?,
            workspace_id: row.id(1)?,
            created_at: row.int(2)?,
            sender: row.text(3)?,
            subject: row.text(4)?,
            envelope: serde_json::from_str(&row.text(5)?).map_err(|_| broken("envelope"))?,
            message_id: row.text(6)?,
            scheduled_at: row.maybe(7, Row::int)?,
            state: State::of(row.int(8)?).ok_or_else(|| broken("state"))?,
        })
    }
}

/// A mail with everything but its pieces.
#[derive(Debug, Clone)]
pub struct Stored {
    pub summary: Summary,
    pub origin: String,
    pub lane: i64,
    pub sender_domain: String,
    /// `None` where there is none, where it stands in pieces, and where it is not kept any more.
    pub html: Option<String>,
    pub text: Option<String>,
    /// `None` where the content is not kept any more.
    pub size: Option<i64>,
    pub updated_at: i64,
    /// `retry` or `hold`.
    pub when_uncertain: String,
    pub run: Option<(RunId, String)>,
}

impl Stored {
    /// Whether each of its recipients has a mail of his own: it is a broadcast's.
    pub fn is_shared(&self) -> bool {
        self.origin == Origin::Broadcast.as_str()
    }

    pub fn read(row: &Row) -> Result<Stored, DbError> {
        let run_id = row.maybe(17, Row::id)?;
        Ok(Stored {
            summary: Summary::read(row)?,
            origin: row.text(9)?,
            lane: row.int(10)?,
            sender_domain: row.text(11)?,
            html: row.maybe(12, Row::text)?,
            text: row.maybe(13, Row::text)?,
            size: row.maybe(14, Row::int)?,
            updated_at: row.int(15)?,
            when_uncertain: row.text(16)?,
            run: run_id.map(|id| row.text(18).map(|step| (id, step))).transpose()?,
        })
    }
}

/// A mail as lists show it, whoever it belongs to.
pub async fn summary(db: &Db, id: EmailId) -> Result<Option<Summary>, DbError> {
    db.read(SUMMARY.with([id.into()])).await?.first().map(Summary::read).transpose()
}

/// The tags of a mail as an object.
pub fn tags(all: &[(String, String)]) -> Value {
    Value::Object(all.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect())
}

/// A mail, whoever it belongs to; its pieces are read by [`chunk`].
pub async fn load(db: &Db, id: EmailId) -> Result<Option<Stored>, DbError> {
    db.read(LOAD.with([id.into()])).await?.first().map(Stored::read).transpose()
}

/// Those of some mails that are no larger than this, whoever they belong to.
pub async fn load_small(db: &Db, ids: impl IntoIterator<Item = EmailId>, most: i64) -> Result<Vec<Stored>, DbError> {
    db.read(LOAD_SMALL.with([json_array(ids).into(), most.into()])).await?.iter().map(Stored::read).collect()
}

pub fn page(workspace_id: WorkspaceId, page: &Page) -> Stmt {
    page.statement(OLDER, NEWER, workspace_id, [])
}

/// A recipient, and what has become of the mail's way to it.
#[derive(Debug, Clone)]
pub struct Recipient {
    pub number: i64,
    pub address: String,
    pub state: State,
    /// In steady time; `None` where nothing is to be done.
    pub due_at: Option<i64>,
    /// Why it waits, or what the last server said.
    pub reason: Option<String>,
    /// The fence.
    pub attempt: i64,
    /// The end of the message was announced to a server whose reply is not known yet.
    pub is_at_the_dot: bool,
}

impl Recipient {
    pub fn read(row: &Row) -> Result<Recipient, DbError> {
        Ok(Recipient {
            number: row.int(0)?,
            address: row.text(1)?,
            state: State::of(row.int(2)?).ok_or_else(|| DbError::Broken("state of a recipient".into()))?,
            due_at: row.maybe(3, Row::int)?,
            reason: row.maybe(4, Row::text)?,
            attempt: row.int(5)?,
            is_at_the_dot: row.int(6)? != 0,
        })
    }
}

/// Something happened to a mail, or to its way to one recipient.
pub struct NewEvent<'a> {
    pub workspace_id: WorkspaceId,
    pub email_id: EmailId,
    pub id: EmailEventId,
    pub number: Option<i64>,
    pub state: State,
    /// As JSON.
    pub detail: &'a str,
    pub now: i64,
}

/// Takes a mail back whose recipients, so many, nobody has claimed; else the first statement fails.
pub fn cancel(workspace_id: WorkspaceId, id: EmailId, recipients: usize, now: i64, event_id: EmailEventId) -> Batch {
    let (canceled, queued) = (State::Canceled as i64, State::Queued as i64);
    let event =
        NewEvent { workspace_id, email_id: id, id: event_id, number: None, state: State::Canceled, detail: "{}", now };
    Batch::new()
        .and(CANCEL_RECIPIENTS.with([id.into(), canceled.into(), queued.into()]).expect(recipients as u64))
        .and(CANCEL.with([workspace_id.into(), id.into(), canceled.into(), now.into()]).expect(1))
        .and(add_event(&event))
}

/// Another time for a mail that is scheduled; else the first statement fails. `due_at` is the same
/// moment in steady time.
pub fn reschedule(
    workspace_id: WorkspaceId,
    id: EmailId,
    recipients: usize,
    (scheduled_at, due_at): (i64, i64),
    now: i64,
) -> Batch {
    let scheduled = State::Scheduled as i64;
    Batch::new()
        .and(RESCHEDULE_RECIPIENTS.with([id.into(), due_at.into(), scheduled.into()]).expect(recipients as u64))
        .and(RESCHEDULE.with([workspace_id.into(), id.into(), scheduled_at.into(), now.into()]).expect(1))
}
