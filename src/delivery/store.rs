//! Recipients in the store, as far as delivery brings them on.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::times::Place;
use crate::clock::SECOND;
use crate::db::{DbError, Row, Sql, Stmt, among, statements};
use crate::emails::{Origin, State};
use crate::id::{BroadcastId, ContactId, DomainId, EmailId, Id, TopicId, WorkspaceId, json_array, own_id};
use crate::mime::Address;
use crate::work::{Claimable, claim_rows};

/// How many lines one look returns.
pub const PAGE: usize = 200;

/// What is written of an attempt holds as long as nobody else has claimed the recipient since, or
/// nobody has yet settled the attempt whose final dot was sent, or nobody has sent another since
/// it was found that nobody knows.
macro_rules! ours {
    () => {
        " WHERE email_id = $1 AND number = $2
            AND (attempt = $3 OR dot_attempt = $3 OR lost_attempt = $3 AND dot_attempt = 0)"
    };
}

/// Whoever has claimed it meanwhile, and does not know yet that it is settled, loses it; and it is
/// settled once, however often its worker asks because it got no answer.
macro_rules! settled {
    () => {
        "dot_attempt = 0, attempt = attempt + 1"
    };
}

/// Whoever finds a dot of another keeps in mind whose it was.
macro_rules! found {
    () => {
        "WHEN attempt = $3 AND dot_attempt NOT IN (0, $3) THEN dot_attempt"
    };
}

statements! {
    functions {
        /// It was put off by whoever sends it: how long it has been waiting counts from then on.
        pub fn queue_again(email_id: EmailId, number: i64, queued_at: i64) = Sql::both(
            "UPDATE email_recipients SET queued_at = $3 WHERE email_id = $1 AND number = $2");
        /// How many recipients wait for their mail, counted to a bound.
        pub fn count_waiting(most: i64) = Sql::both(
            "SELECT COUNT(*) FROM (SELECT 1 FROM email_recipients WHERE due_at IS NOT NULL LIMIT $1) AS waiting");
        /// Every line of a lane behind `$2` with the time at which its first recipient is due,
        /// found in steps from one to the next: a line may be long.
        pub fn waiting(lane: i64, after: &str) with [lane, after, PAGE as i64] = Sql::both(
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
        /// Claims recipients of one line that are due; it returns them.
        pub fn claim(lane: i64, line: &str, now: i64, most: usize)
            with [now, (now + Claimed::LEASE), most as i64, lane, line] = claim_rows!(
            "email_recipients" ("email_id", "number") where "lane = $4 AND line = $5" set ""
            returning "email_recipients.email_id, email_recipients.number, workspace_id, address, lane, line, attempt,
                       dot_attempt, queued_at, tries, delay_told, state,
                       (SELECT e.when_uncertain || ' ' || e.origin || ' ' || e.sender_domain FROM emails e
                        WHERE e.id = email_recipients.email_id), contact_id,
                       (SELECT e.topic_id FROM emails e WHERE e.id = email_recipients.email_id AND contact_id IS NULL)");
        /// Forgets what was sent before a day.
        pub fn forget_days(day: i64) = Sql::both("DELETE FROM domain_days WHERE day < $1");
        /// How many mails a domain has sent on a day.
        pub fn sent_on_day(domain_id: DomainId, day: i64) = Sql::both(
            "SELECT mails FROM domain_days WHERE domain_id = $1 AND day = $2");
        /// Counts one more, and fails where the limit of the day is reached.
        pub fn count_on_day(domain_id: DomainId, day: i64, limit: i64) expects 1 = Sql::both(
            "INSERT INTO domain_days (domain_id, day, mails) VALUES ($1, $2, 1)
             ON CONFLICT (domain_id, day) DO UPDATE SET mails = domain_days.mails + 1 WHERE domain_days.mails < $3");
    }
    reads {
        /// What mails among these are scheduled for, in wall time.
        pub(super) fn scheduled_times(ids: &HashSet<EmailId>) with [json_array(ids.iter().copied())]
            -> Vec<(EmailId, i64)> = among!(
            "SELECT id, scheduled_at FROM emails WHERE scheduled_at IS NOT NULL AND id", ids "$1", "");
    }
    /// Nobody has claimed it, as far as those need to know who take it back or move it.
    PUT_OFF = Sql::both(
        "UPDATE email_recipients SET due_at = $4, queued_at = $4, attempt = CASE attempt WHEN 1 THEN 0 ELSE attempt END
         WHERE email_id = $1 AND number = $2 AND attempt = $3 AND state = $5");
    /// The time of a scheduled recipient has come.
    ENTER_QUEUE = Sql::both(
        "UPDATE email_recipients SET state = $4 WHERE email_id = $1 AND number = $2 AND attempt = $3 AND state = $5");
    RENEW = Sql::both("UPDATE email_recipients SET due_at = $4 WHERE email_id = $1 AND number = $2 AND attempt = $3");
    /// Committed before the final dot leaves.
    DOT = Sql::both(
        "UPDATE email_recipients SET dot_attempt = attempt
         WHERE email_id = $1 AND number = $2 AND attempt = $3 AND due_at IS NOT NULL");
    /// What is sent is late no more, and nobody is in doubt about it.
    SETTLE = Sql::both(concat!(
        "UPDATE email_recipients SET ", settled!(), ",
                state = CASE WHEN state < $4 OR $4 = 20 AND state IN (28, 30) THEN $4 ELSE state END, due_at = $5,
                lost_attempt = CASE ", found!(), " WHEN attempt = $3 AND CAST($5 AS BIGINT) IS NOT NULL
                                    THEN lost_attempt ELSE 0 END,
                tries = tries + $6, delay_told = delay_told OR CAST($7 AS BOOLEAN), reason = $8", ours!()));
    /// What waits for a person is found by its state, however far it had come before.
    HOLD = Sql::both(concat!(
        "UPDATE email_recipients SET ", settled!(), ", state = CASE WHEN state <= 30 THEN 28 ELSE state END,
                lost_attempt = CASE ", found!(), " ELSE lost_attempt END, due_at = NULL, tries = tries + 1, delay_told = TRUE, reason = $4", ours!()));
    MOVE = Sql::both(
        "UPDATE email_recipients SET line = $4, due_at = $5 WHERE email_id = $1 AND number = $2 AND attempt = $3");
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
    /// It was scheduled, and nobody has been told that its time has come.
    pub is_scheduled: bool,
    /// What is done where nobody knows whether it arrived: wait for a person.
    pub is_held_when_uncertain: bool,
    /// One of the product's own messages, which no list of a workspace can keep away.
    pub is_own: bool,
    /// Sent by an automation that a system event started: what happens to it starts no runs.
    pub is_reaction: bool,
    /// The domain that it is sent from.
    pub sender_domain: String,
    /// Whom it is for, where it is a broadcast's.
    pub contact_id: Option<ContactId>,
    /// What it is about, where it is none of a broadcast's.
    pub topic_id: Option<TopicId>,
    /// What its mail is made of, where that is known.
    pub values: Option<Arc<Values>>,
    /// Its place among the bulk mails that the contact may get.
    pub place: Option<Place>,
    /// When it was last asked whether it is to be sent, in steady time.
    pub judged_at: i64,
}

/// What the mail of a recipient of a broadcast is made of, or of one who can end mail about its topic.
#[derive(Debug)]
pub struct Values {
    pub values: Map<String, Value>,
    /// They are those of an earlier attempt.
    pub are_kept: bool,
}

impl Claimable for Claimed {
    const QUEUE: &'static str = "mail";
    const LEASE: i64 = 30 * SECOND;

    fn read(row: &Row) -> Result<Claimed, DbError> {
        // Of its mail, which is looked at once for all of them.
        let of_mail = row.maybe(12, Row::text)?.unwrap_or_default();
        let mut words = of_mail.split(' ');
        let (policy, origin, sender_domain) = (words.next(), words.next(), words.next());
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
            is_scheduled: row.int(11)? == State::Scheduled as i64,
            is_held_when_uncertain: policy == Some("hold"),
            is_own: origin == Some(Origin::System.as_str()),
            is_reaction: origin == Some(Origin::Reaction.as_str()),
            contact_id: row.maybe(13, Row::id)?,
            topic_id: row.maybe(14, Row::id)?,
            sender_domain: sender_domain.unwrap_or_default().to_owned(),
            values: None,
            place: None,
            judged_at: 0,
        })
    }
}

impl Claimed {
    pub fn place_in_mail(&self) -> (EmailId, i64) {
        (self.email_id, self.number)
    }

    /// What all spellings of the address have in common.
    pub fn email_key(&self) -> String {
        Address::key_of(&self.address)
    }

    /// The id by which it is told of: of its mail, or of the recipient's own.
    pub fn own_id(&self) -> EmailId {
        match self.contact_id {
            Some(_) => own_id(self.email_id, self.number),
            None => self.email_id,
        }
    }

    /// The broadcast whose mail it is.
    pub fn broadcast_id(&self) -> Option<BroadcastId> {
        self.contact_id.map(|_| self.email_id.uuid().into())
    }

    fn key(&self) -> [crate::db::Value; 3] {
        [self.email_id.into(), self.number.into(), self.attempt.into()]
    }
}

/// Only whoever has claimed it, and once.
pub fn enter_queue(claimed: &Claimed) -> Stmt {
    let [email_id, number, attempt] = claimed.key();
    let (queued, scheduled) = (State::Queued as i64, State::Scheduled as i64);
    ENTER_QUEUE.with([email_id, number, attempt, queued.into(), scheduled.into()]).expect(1)
}

/// Its time has not come yet. Whoever claimed it leaves it alone from here on.
pub fn put_off(claimed: &Claimed, due_at: i64) -> Stmt {
    let [email_id, number, attempt] = claimed.key();
    PUT_OFF.with([email_id, number, attempt, due_at.into(), (State::Scheduled as i64).into()]).expect(1)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::db::{Db, Location, Options};
    use crate::emails::{self, NewEmail, Origin};
    use crate::work;

    const LANE: i64 = 0;
    const DELIVERED: Settled<'_> =
        Settled { state: State::Delivered, due_at: None, is_failure: false, tells_delay: false, reason: None };
    const LATER: Settled<'_> =
        Settled { state: State::Queued, due_at: Some(0), is_failure: true, tells_delay: false, reason: Some("later") };
    const UNCERTAIN: Settled<'_> =
        Settled { state: State::Uncertain, due_at: Some(0), is_failure: true, tells_delay: true, reason: Some("lost") };

    /// Claimed by the so-manieth worker, each long after the one before.
    async fn claimed(db: &Db, worker: i64) -> Claimed {
        let now = worker * 2 * Claimed::LEASE;
        let mut rows = work::claim_by::<Claimed>(db, claim(LANE, "relay", now, 1)).await.expect("a claim");
        rows.pop().expect("a recipient")
    }

    /// A store with one mail in it.
    async fn store(folder: &std::path::Path) -> Db {
        let db = Db::open(&Options::new(Location::Sqlite(folder.join("db")))).await.expect("a store");
        let (clock, from, to) = (Clock::fixed(0), "a@b.example".parse(), "c@d.example".parse());
        let new = NewEmail::new(
            uuid::Uuid::nil().into(),
            Origin::Api,
            from.expect("a sender"),
            vec![to.expect("a recipient")],
        );
        let mail = emails::insert(&new, clock.ordered_id(), &clock, |_| "relay".to_owned());
        db.commit(mail).await.expect("a mail");
        db
    }

    async fn is_taken(db: &Db, stmt: Stmt) -> bool {
        match db.commit(stmt).await {
            Ok(_) => true,
            Err(DbError::Unexpected { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    }

    #[tokio::test]
    async fn an_attempt_is_settled_once_however_often_it_is_asked_for() {
        for first in [DELIVERED, LATER, UNCERTAIN] {
            let folder = tempfile::tempdir().expect("a folder");
            let db = store(folder.path()).await;
            let one = claimed(&db, 1).await;
            assert!(is_taken(&db, dot(&one)).await);
            assert!(is_taken(&db, settle(&one, &first)).await, "{:?}", first.state);
            assert!(!is_taken(&db, settle(&one, &first)).await, "{:?}", first.state);
            assert!(!is_taken(&db, hold(&one, "lost")).await, "{:?}", first.state);
            if first.due_at.is_some() {
                let next = claimed(&db, 2).await;
                assert!(!is_taken(&db, settle(&one, &DELIVERED)).await, "it is the next one's");
                assert!(is_taken(&db, dot(&next)).await && is_taken(&db, settle(&next, &DELIVERED)).await);
            }
        }
    }

    #[tokio::test]
    async fn a_reply_that_comes_late_counts_until_another_dot_is_sent() {
        for is_sent_again in [false, true] {
            let folder = tempfile::tempdir().expect("a folder");
            let db = store(folder.path()).await;
            let one = claimed(&db, 1).await;
            assert!(is_taken(&db, dot(&one)).await);
            let finder = claimed(&db, 2).await;
            assert_eq!(finder.dot_attempt, one.attempt);
            assert!(is_taken(&db, settle(&finder, &UNCERTAIN)).await);
            let next = claimed(&db, 3).await;
            if is_sent_again {
                assert!(is_taken(&db, dot(&next)).await);
            }
            assert_eq!(is_taken(&db, settle(&one, &DELIVERED)).await, !is_sent_again);
            assert_eq!(is_taken(&db, dot(&next)).await, is_sent_again, "nobody sends what has arrived");
        }
    }
}
