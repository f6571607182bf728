//! Recipients in the store, as far as delivery brings them on.

use serde_json::Value;

use crate::clock::SECOND;
use crate::db::{DbError, Row, Sql, Stmt, statements};
use crate::emails::State;
use crate::id::{EmailId, SuppressionId, WorkspaceId};
use crate::mime::Address;
use crate::work::{Claimable, claim_rows};

/// How many lines one look returns.
pub const PAGE: usize = 200;

/// What is written of an attempt holds as long as nobody else has claimed the recipient since,
/// or nobody has yet settled the attempt whose final dot was sent.
macro_rules! ours {
    () => {
        " WHERE email_id = $1 AND number = $2 AND (attempt = $3 OR dot_attempt = $3)"
    };
}

/// Whoever has claimed it meanwhile, and does not know yet that it is settled, loses it.
macro_rules! settled {
    () => {
        "dot_attempt = 0, attempt = CASE WHEN attempt = $3 THEN attempt ELSE attempt + 1 END"
    };
}

statements! {
    /// Every line of a lane behind `$2` with the time at which its first recipient is due,
    /// found in steps from one to the next: a line may be long.
    WAITING = Sql::both(
        "WITH RECURSIVE waiting (line, place) AS (
             SELECT (SELECT r.line FROM email_recipients r
                     WHERE r.lane = $1 AND r.line > $2 AND r.due_at IS NOT NULL ORDER BY r.line LIMIT 1),
                    CAST(1 AS BIGINT)
             UNION ALL
             SELECT (SELECT r.line FROM email_recipients r
                     WHERE r.lane = $1 AND r.line > w.line AND r.due_at IS NOT NULL ORDER BY r.line LIMIT 1),
                    w.place + 1
             FROM waiting w WHERE w.line IS NOT NULL AND w.place < $3)
         SELECT w.line,
                (SELECT r.due_at FROM email_recipients r
                 WHERE r.lane = $1 AND r.line = w.line AND r.due_at IS NOT NULL ORDER BY r.due_at LIMIT 1)
         FROM waiting w WHERE w.line IS NOT NULL");
    CLAIM = claim_rows!(
        "email_recipients" ("email_id", "number") where "lane = $4 AND line = $5" set ""
        returning "email_recipients.email_id, email_recipients.number, workspace_id, address, lane, line, attempt,
                   dot_attempt, queued_at, tries, delay_told,
                   (SELECT e.when_uncertain FROM emails e WHERE e.id = email_recipients.email_id),
                   (SELECT e.origin FROM emails e WHERE e.id = email_recipients.email_id)");
    RENEW = Sql::both("UPDATE email_recipients SET due_at = $4 WHERE email_id = $1 AND number = $2 AND attempt = $3");
    /// Committed before the final dot leaves.
    DOT = Sql::both(
        "UPDATE email_recipients SET dot_attempt = attempt
         WHERE email_id = $1 AND number = $2 AND attempt = $3 AND due_at IS NOT NULL");
    SETTLE = Sql::both(concat!(
        "UPDATE email_recipients SET ", settled!(), ", state = CASE WHEN state < $4 THEN $4 ELSE state END, due_at = $5,
                tries = tries + $6, delay_told = delay_told OR CAST($7 AS BOOLEAN), reason = $8", ours!()));
    /// What waits for a person is found by its state, however far it had come before.
    HOLD = Sql::both(concat!(
        "UPDATE email_recipients SET ", settled!(), ", state = CASE WHEN state <= 30 THEN 28 ELSE state END,
                due_at = NULL, tries = tries + 1, delay_told = TRUE, reason = $4", ours!()));
    MOVE = Sql::both(
        "UPDATE email_recipients SET line = $4, due_at = $5 WHERE email_id = $1 AND number = $2 AND attempt = $3");
    SUPPRESS = Sql::both(
        "INSERT INTO suppressions (workspace_id, email_key, id, email, origin, reason, email_id, created_at)
         VALUES ($1, $2, $3, $4, 'bounce', $5, $6, $7) ON CONFLICT DO NOTHING");
    SUPPRESSED = Sql::each(
        "SELECT email_key FROM suppressions
         WHERE workspace_id = $1 AND email_key IN (SELECT value FROM json_each($2))",
        // As text first: a parameter of the type JSON is none that values can be bound to.
        "SELECT email_key FROM suppressions
         WHERE workspace_id = $1 AND email_key IN (SELECT json_array_elements_text(CAST(CAST($2 AS TEXT) AS JSON)))");
}

/// A line in which recipients wait.
pub struct Waiting {
    pub line: String,
    /// When the first of them is due.
    pub due_at: i64,
}

impl Waiting {
    pub fn read(row: &Row) -> Result<Waiting, DbError> {
        Ok(Waiting { line: row.text(0)?, due_at: row.int(1)? })
    }
}

pub fn waiting(lane: i64, after: &str) -> Stmt {
    WAITING.with([lane.into(), after.into(), (PAGE as i64).into()])
}

/// A recipient that somebody is delivering to.
#[derive(Debug, Clone)]
pub struct Claimed {
    pub email_id: EmailId,
    pub number: i64,
    pub workspace_id: WorkspaceId,
    pub address: String,
    pub lane: i64,
    pub line: String,
    /// The fence.
    pub attempt: i64,
    /// An earlier attempt of which nobody knows how it ended; 0: none.
    pub dot_attempt: i64,
    pub queued_at: i64,
    /// How many attempts came to nothing.
    pub tries: i64,
    pub delay_told: bool,
    /// What is done where nobody knows whether it arrived: wait for a person.
    pub is_held_when_uncertain: bool,
    /// One of the product's own messages, which no list of a workspace can keep away.
    pub is_own: bool,
}

impl Claimable for Claimed {
    const QUEUE: &'static str = "mail";
    const LEASE: i64 = 30 * SECOND;

    fn read(row: &Row) -> Result<Claimed, DbError> {
        Ok(Claimed {
            email_id: row.id(0)?,
            number: row.int(1)?,
            workspace_id: row.id(2)?,
            address: row.text(3)?,
            lane: row.int(4)?,
            line: row.text(5)?,
            attempt: row.int(6)?,
            dot_attempt: row.int(7)?,
            queued_at: row.int(8)?,
            tries: row.int(9)?,
            delay_told: row.bool(10)?,
            is_held_when_uncertain: row.maybe(11, Row::text)?.is_some_and(|policy| policy == "hold"),
            is_own: row.maybe(12, Row::text)?.is_some_and(|origin| origin == "system"),
        })
    }
}

impl Claimed {
    /// What all spellings of the address have in common.
    pub fn email_key(&self) -> String {
        let address = if self.address.is_ascii() { None } else { self.address.parse::<Address>().ok() };
        address.map_or_else(|| self.address.to_lowercase(), |address| address.key())
    }

    fn key(&self) -> [crate::db::Value; 3] {
        [self.email_id.into(), self.number.into(), self.attempt.into()]
    }
}

/// Claims recipients of one line that are due; it returns them.
pub fn claim(lane: i64, line: &str, now: i64, most: usize) -> Stmt {
    CLAIM.with([now.into(), (now + Claimed::LEASE).into(), (most as i64).into(), lane.into(), line.into()])
}

pub fn renew(claimed: &Claimed, lease_until: i64) -> Stmt {
    let [email_id, number, attempt] = claimed.key();
    RENEW.with([email_id, number, attempt, lease_until.into()]).expect(1)
}

pub fn dot(claimed: &Claimed) -> Stmt {
    DOT.with(claimed.key()).expect(1)
}

/// Where an attempt leaves a recipient.
pub struct Settled<'a> {
    pub state: State,
    pub due_at: Option<i64>,
    /// It counts as an attempt that came to nothing.
    pub is_failure: bool,
    pub tells_delay: bool,
    pub reason: Option<&'a str>,
}

pub fn settle(claimed: &Claimed, settled: &Settled<'_>) -> Stmt {
    let [email_id, number, attempt] = claimed.key();
    SETTLE
        .with([
            email_id,
            number,
            attempt,
            (settled.state as i64).into(),
            settled.due_at.into(),
            i64::from(settled.is_failure).into(),
            settled.tells_delay.into(),
            settled.reason.into(),
        ])
        .expect(1)
}

pub fn hold(claimed: &Claimed, reason: &str) -> Stmt {
    let [email_id, number, attempt] = claimed.key();
    HOLD.with([email_id, number, attempt, reason.into()]).expect(1)
}

/// Lets a recipient wait in another line.
pub fn move_to(claimed: &Claimed, line: &str, due_at: i64) -> Stmt {
    let [email_id, number, attempt] = claimed.key();
    MOVE.with([email_id, number, attempt, line.into(), due_at.into()]).expect(1)
}

/// Nobody writes to this recipient any more.
pub fn suppress(claimed: &Claimed, id: SuppressionId, reason: &str, now: i64) -> Stmt {
    SUPPRESS.with([
        claimed.workspace_id.into(),
        claimed.email_key().into(),
        id.into(),
        (&claimed.address).into(),
        reason.into(),
        claimed.email_id.into(),
        now.into(),
    ])
}

/// Which of these addresses get no mail of a workspace any more.
pub fn suppressed(workspace_id: WorkspaceId, email_keys: &[String]) -> Stmt {
    SUPPRESSED.with([workspace_id.into(), Value::from(email_keys).to_string().into()])
}
