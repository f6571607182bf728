//! Recipients of mail that goes to many, each of whom gets a mail of his own.

use serde_json::{Value, json};
use uuid::Uuid;

use super::state::State;
use super::store::Recipient;
use crate::clock::SECOND;
use crate::db::{Batch, DbError, Row, Sql, Stmt, among, statements};
use crate::id::{ContactId, EmailId, Id, WorkspaceId, own_id, parts_of};
use crate::text::like;
use crate::web::Page;

/// For how long a recipient is claimed at least; delivery knows how long exactly.
const LEASE: i64 = 30 * SECOND;

/// $1: the mail; $2: from which number on; $3: how many; $4: states between commas; $5: a pattern of addresses; $6: only
/// whose contact wants no mail any more; $7: up to which number is looked. SQLite goes by one bound of each side, so there
/// is one.
macro_rules! listed {
    ($between:literal, $order:literal) => {
        Sql::both(concat!(
            "SELECT r.number, r.contact_id, r.address, r.state, r.reason, r.due_at FROM email_recipients r
             WHERE r.email_id = $1 AND ",
            $between,
            " AND CAST($4 AS TEXT) LIKE '%,' || CAST(r.state AS TEXT) || ',%' AND LOWER(r.address) LIKE $5 ESCAPE '!'
              AND (NOT CAST($6 AS BOOLEAN) OR EXISTS (SELECT 1 FROM contacts c
                  WHERE c.workspace_id = r.workspace_id AND c.id = r.contact_id AND c.unsubscribed))
              ORDER BY r.number",
            $order,
            " LIMIT $3"
        ))
    };
}

statements! {
    functions {
        /// How many recipients behind a number and up to another are in which state, how many of these were put off
        /// before their first attempt, and when the first of them is due.
        pub fn count_by_state(id: EmailId, behind: i64, until: i64, now: i64) = Sql::both(
            "SELECT state, COUNT(*), COUNT(put_off_until), MIN(put_off_until) FROM
                 (SELECT state, CASE WHEN due_at > $4 AND tries = 0 AND reason IS NOT NULL THEN due_at END AS put_off_until
                  FROM email_recipients WHERE email_id = $1 AND number > $2 AND number <= $3) AS counted
             GROUP BY state");
        /// Finds one, if the mail is of this workspace, as [`Recipient::read`] reads it.
        pub fn recipient(workspace_id: WorkspaceId, id: EmailId, number: i64) = Sql::both(
            "SELECT number, address, state, due_at, reason, attempt, dot_attempt FROM email_recipients
             WHERE workspace_id = $1 AND email_id = $2 AND number = $3");
        /// The same, of those of whom nobody knows whether they got their mail.
        pub fn uncertain_recipients(workspace_id: WorkspaceId, id: EmailId, most: i64) = Sql::each(
            // It would go through all recipients of the mail, of whom there may be many.
            "SELECT number, address, state, due_at, reason, attempt, dot_attempt
             FROM email_recipients INDEXED BY email_recipients_held
             WHERE workspace_id = $1 AND email_id = $2 AND state = 28 ORDER BY number LIMIT $3",
            "SELECT number, address, state, due_at, reason, attempt, dot_attempt FROM email_recipients
             WHERE workspace_id = $1 AND email_id = $2 AND state = 28 ORDER BY number LIMIT $3");
        /// A page of addresses behind a number, with their numbers.
        pub fn addresses(id: EmailId, behind: i64, most: i64) = Sql::both(
            "SELECT number, address FROM email_recipients WHERE email_id = $1 AND number > $2
             ORDER BY number LIMIT $3");
        /// Finds whether anything is still to be done for somebody in a lane.
        pub fn lane_waits(lane: i64) = Sql::both(
            "SELECT 1 FROM email_recipients WHERE lane = $1 AND due_at IS NOT NULL LIMIT 1");
        /// Why the one who is looked at last is looked at again, and when.
        pub fn why_lane_waits(lane: i64) = Sql::both(
            "SELECT due_at, reason FROM email_recipients WHERE lane = $1 AND due_at IS NOT NULL AND reason IS NOT NULL
             LIMIT 1");
        /// The next behind a number who were put off before their first attempt. Whoever is claimed is left alone.
        pub fn put_off(id: EmailId, behind: i64, now: i64, most: i64) with [id, behind, now + LEASE, most] = Sql::both(
            "SELECT number FROM email_recipients
             WHERE email_id = $1 AND number > $2 AND due_at > $3 AND tries = 0 AND reason IS NOT NULL
             ORDER BY number LIMIT $4");
        /// Lets them be looked at now, up to another number.
        pub fn wake_put_off(id: EmailId, behind: i64, last: i64, now: i64)
            with [id, behind, last, now + LEASE, now] = Sql::both(
            "UPDATE email_recipients SET due_at = $5
             WHERE email_id = $1 AND number > $2 AND number <= $3 AND due_at > $4 AND tries = 0 AND reason IS NOT NULL");
        /// Keeps what the mail of a recipient was made of.
        pub fn keep_values(id: EmailId, number: i64, kept: &str) = Sql::both(
            "INSERT INTO email_values (email_id, number, kept) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING");
        pub fn forget_values(id: EmailId, number: i64) = Sql::both(
            "DELETE FROM email_values WHERE email_id = $1 AND number = $2");
        /// What the mails of recipients were made of, as far as that is kept: number, and JSON.
        pub fn kept_values(id: EmailId, numbers: &[i64])
            with [id, Value::from(numbers).to_string()] = among!(
            "SELECT number, kept FROM email_values WHERE email_id = $1 AND number", numbers "$2", "");
    }
    OLDER = listed!("r.number < $2 AND r.number > $7", " DESC");
    NEWER = listed!("r.number > $2 AND r.number < $7", "");
    /// $5: number, contact, address and line of each.
    ADD = Sql::each(
        "INSERT INTO email_recipients (email_id, number, workspace_id, contact_id, address, state, lane, line, due_at,
             queued_at, attempt, dot_attempt, tries, delay_told)
         SELECT $1, json_extract(value, '$[0]'), $2, unhex(json_extract(value, '$[1]')), json_extract(value, '$[2]'),
             10, $3, json_extract(value, '$[3]'), $4, $4, 0, 0, 0, FALSE
         FROM json_each($5)",
        "INSERT INTO email_recipients (email_id, number, workspace_id, contact_id, address, state, lane, line, due_at,
             queued_at, attempt, dot_attempt, tries, delay_told)
         SELECT CAST($1 AS UUID), CAST(value ->> 0 AS BIGINT), CAST($2 AS UUID), CAST(value ->> 1 AS UUID),
             value ->> 2, 10, CAST($3 AS BIGINT), value ->> 3, CAST($4 AS BIGINT), CAST($4 AS BIGINT), 0, 0, 0, FALSE
         FROM json_array_elements(CAST(CAST($5 AS TEXT) AS JSON)) AS given (value)");
}

/// A contact that is to get a mail of its own.
pub struct NewRecipient {
    pub number: i64,
    pub contact_id: ContactId,
    pub address: String,
    /// Where it waits.
    pub line: String,
}

/// Queues recipients in a lane of their own, due at a moment in steady time.
pub fn add_recipients(
    (workspace_id, id): (WorkspaceId, EmailId),
    lane: i64,
    recipients: &[NewRecipient],
    due_at: i64,
) -> Batch {
    if recipients.is_empty() {
        return Batch::new();
    }
    let rows: Value = recipients
        .iter()
        .map(|one| json!([one.number, one.contact_id.uuid().simple().to_string(), one.address, one.line]))
        .collect();
    let params = [id.into(), workspace_id.into(), lane.into(), due_at.into(), rows.to_string().into()];
    ADD.with(params).expect(recipients.len() as u64).into()
}

/// Which recipients a list shows.
pub struct Wanted<'a> {
    pub states: &'a [State],
    /// A part of their addresses.
    pub address: &'a str,
    pub is_unsubscribed: bool,
    /// The number at which the look ends; `None`: at the last.
    pub until: Option<i64>,
}

/// A page of the recipients of a mail, known by the ids of their own mails.
pub fn page_of_recipients(id: EmailId, wanted: &Wanted<'_>, page: &Page) -> Stmt {
    let (upwards, from, rows) = page.bounds();
    let (_, number) = parts_of(from.into());
    let states: String = wanted.states.iter().map(|state| format!("{},", *state as i64)).collect();
    let address = like(&wanted.address.to_lowercase(), '!');
    let sql = if upwards { NEWER } else { OLDER };
    let params = [
        id.into(),
        number.into(),
        rows.into(),
        format!(",{states}").into(),
        format!("%{address}%").into(),
        wanted.is_unsubscribed.into(),
        wanted.until.unwrap_or(if upwards { i64::MAX } else { i64::MIN }).into(),
    ];
    page.within(sql.with(params))
}

/// A recipient as lists show it.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Of its own mail.
    pub id: EmailId,
    pub number: i64,
    pub contact_id: Option<ContactId>,
    pub address: String,
    pub state: State,
    /// Why it waits, or what the last server said.
    pub reason: Option<String>,
    /// In steady time; `None` where nothing is to be done.
    pub due_at: Option<i64>,
}

impl Listed {
    pub fn read(id: EmailId, row: &Row) -> Result<Listed, DbError> {
        Ok(Listed {
            id: own_id(id, row.int(0)?),
            number: row.int(0)?,
            contact_id: row.maybe(1, Row::id::<Uuid>)?.map(Into::into),
            address: row.text(2)?,
            state: State::of(row.int(3)?).ok_or_else(|| DbError::Broken("state of a recipient".into()))?,
            reason: row.maybe(4, Row::text)?,
            due_at: row.maybe(5, Row::int)?,
        })
    }
}

impl Recipient {
    /// The id of its own mail, where it has one.
    pub fn own_id(&self, shared: EmailId) -> EmailId {
        own_id(shared, self.number)
    }
}
