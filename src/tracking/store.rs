//! Opens and clicks in the store: as they come in, and what they come to.

use serde_json::Value;
use uuid::Uuid;

use super::links::Place;
use crate::clock::SECOND;
use crate::db::{DbError, Row, Sql, among, from_row, statements};
use crate::emails::{NewEvent, State};
use crate::id::{ContactId, EmailId, WorkspaceId, own_id};
use crate::work::{Claimable, InOrder, claim_rows};

statements! {
    functions {
        /// Somebody opened a mail, or clicked a link.
        pub fn add(hit: &NewHit<'_>)
            with [hit.id, hit.place.email_id, i64::from(hit.place.number), hit.link, hit.is_machine, hit.ip_address,
                hit.user_agent, hit.now, hit.due_at] = Sql::both(
            "INSERT INTO tracking_hits (id, email_id, number, link, is_machine, ip_address, user_agent, created_at,
                 due_at, attempt)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0)")
            .for_rows(
            "INSERT OR FAIL INTO tracking_hits (id, email_id, number, link, is_machine, ip_address, user_agent,
                 created_at, due_at, attempt)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0), ($10, $11, $12, $13, $14, $15, $16, $17, $18, 0),
                 ($19, $20, $21, $22, $23, $24, $25, $26, $27, 0), ($28, $29, $30, $31, $32, $33, $34, $35, $36, 0)")
            .for_many(
            "INSERT INTO tracking_hits (id, email_id, number, link, is_machine, ip_address, user_agent, created_at,
                 due_at, attempt)
             SELECT id, email_id, number, link, is_machine, ip_address, user_agent, created_at, due_at, 0
             FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::text[], $5::boolean[], $6::text[], $7::text[],
                         $8::bigint[], $9::bigint[])
                  AS many (id, email_id, number, link, is_machine, ip_address, user_agent, created_at, due_at)");
        /// Whoever has claimed it is done with it.
        pub fn forget(hit: &Hit) with [hit.id, hit.attempt] expects 1 = Sql::both(
            "DELETE FROM tracking_hits WHERE id = $1 AND attempt = $2");
        /// Counts hits of one recipient, on one link.
        pub fn count(place: Place, link: Uuid, news: &Count)
            with [place.email_id, i64::from(place.number), link, news.hits, news.machine_hits, news.last_at] = Sql::both(
            "INSERT INTO tracking_recipients (email_id, number, link_key, hits, machine_hits, last_at)
             VALUES ($1, $2, $3, $4, $5, $6)
             ON CONFLICT (email_id, number, link_key) DO UPDATE SET hits = tracking_recipients.hits + excluded.hits,
                 machine_hits = tracking_recipients.machine_hits + excluded.machine_hits, last_at = excluded.last_at");
        /// The same, of all recipients together.
        pub fn count_link(email_id: EmailId, link: Uuid, url: &str, news: &Count)
            with [email_id, link, url, news.hits, news.machine_hits] = Sql::both(
            "INSERT INTO tracking_links (email_id, link_key, url, hits, machine_hits) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (email_id, link_key) DO UPDATE SET hits = tracking_links.hits + excluded.hits,
                 machine_hits = tracking_links.machine_hits + excluded.machine_hits");
        /// How far a recipient is. Of one of whom nobody knew whether he got the mail it is known now: nobody sends it
        /// again.
        pub fn raise(place: Place, state: State) with [place.email_id, i64::from(place.number), state as i64] = Sql::both(
            "UPDATE email_recipients SET state = $3, due_at = CASE WHEN state = 28 THEN NULL ELSE due_at END,
                 attempt = CASE WHEN state = 28 THEN attempt + 1 ELSE attempt END
             WHERE email_id = $1 AND number = $2 AND state < $3");
        /// What happened, and who did it.
        pub fn add_event(event: &NewEvent<'_>, visitor: &str)
            with [event.workspace_id, event.email_id, event.id, event.number, event.state.as_str(), event.detail,
                event.now, visitor] = Sql::both(
            "INSERT INTO email_events (workspace_id, email_id, id, number, type, detail, created_at, visitor)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8)");
        /// Forgets who opened and clicked before a moment, some at a time.
        pub fn forget_visitors(before: i64, most: i64) = Sql::both(
            "UPDATE email_events SET visitor = NULL WHERE (email_id, id) IN
                 (SELECT email_id, id FROM email_events WHERE visitor IS NOT NULL AND created_at < $1
                  ORDER BY created_at LIMIT $2)");
        /// What some recipients opened and clicked: number, link, its address, all hits, those of machines.
        pub fn of_recipients(email_id: EmailId, numbers: &[i64])
            with [email_id, Value::from(numbers).to_string()] = among!(
            "SELECT t.number, t.link_key, l.url, t.hits, t.machine_hits FROM tracking_recipients t
                 JOIN tracking_links l ON l.email_id = t.email_id AND l.link_key = t.link_key
             WHERE t.email_id = $1 AND t.number", numbers "$2", " ORDER BY t.number, t.hits DESC");
    }
    reads {
        /// Whom a mail went to, and when it was taken there.
        pub fn recipient(place: Place)
            with [place.email_id, i64::from(place.number), own_id(place.email_id, place.number.into())]
            -> Option<Recipient> = Sql::both(
            "SELECT r.workspace_id, r.address, r.state, r.contact_id, e.origin, e.sender_domain,
                 (SELECT MIN(v.created_at) FROM email_events v
                  WHERE v.email_id IN ($1, $3) AND v.number = $2 AND v.type IN ('sent', 'delivered'))
             FROM email_recipients r JOIN emails e ON e.id = r.email_id WHERE r.email_id = $1 AND r.number = $2");
        /// What is counted of a recipient by now, by link.
        pub fn counted(place: Place) with [place.email_id, i64::from(place.number)] -> Vec<(Uuid, Count)> = Sql::both(
            "SELECT link_key, hits, machine_hits, last_at FROM tracking_recipients WHERE email_id = $1 AND number = $2");
        /// The links of a mail that its recipients clicked; those that people clicked most come first.
        pub fn links(email_id: EmailId, most: i64) with [email_id, Uuid::nil(), most] -> Vec<LinkCount> = Sql::both(
            "SELECT link_key, url, hits, machine_hits FROM tracking_links WHERE email_id = $1 AND link_key <> $2
             ORDER BY hits - machine_hits DESC, hits DESC, link_key LIMIT $3");
        /// How often the recipients of a mail opened it, and clicked links of it.
        pub fn totals(email_id: EmailId) with [email_id, Uuid::nil()] -> Option<Totals> = Sql::both(
            "SELECT CAST(COALESCE(SUM(CASE WHEN link_key = $2 THEN hits ELSE 0 END), 0) AS BIGINT),
                 CAST(COALESCE(SUM(CASE WHEN link_key = $2 THEN machine_hits ELSE 0 END), 0) AS BIGINT),
                 CAST(COALESCE(SUM(CASE WHEN link_key = $2 THEN 0 ELSE hits END), 0) AS BIGINT),
                 CAST(COALESCE(SUM(CASE WHEN link_key = $2 THEN 0 ELSE machine_hits END), 0) AS BIGINT)
             FROM tracking_links WHERE email_id = $1");
    }
    NEXT = Sql::both("SELECT due_at FROM tracking_hits ORDER BY due_at LIMIT 1");
    CLAIM = claim_rows!(
        "tracking_hits" ("id") where "due_at IS NOT NULL" set ""
        returning "tracking_hits.id, attempt, email_id, number, link, is_machine, ip_address, user_agent, created_at");
}

/// An open or a click as it comes in.
pub struct NewHit<'a> {
    pub id: Uuid,
    pub place: Place,
    pub link: Option<&'a str>,
    pub is_machine: bool,
    pub ip_address: &'a str,
    pub user_agent: &'a str,
    pub now: i64,
    /// In steady time.
    pub due_at: i64,
}

/// One that somebody is writing down.
#[derive(Debug, Clone)]
pub struct Hit {
    pub id: Uuid,
    /// The fence.
    pub attempt: i64,
    pub place: Place,
    pub link: Option<String>,
    pub is_machine: bool,
    pub ip_address: String,
    pub user_agent: String,
    pub created_at: i64,
}

impl Claimable for Hit {
    const QUEUE: &'static str = "tracking";
    const LEASE: i64 = 30 * SECOND;

    fn read(row: &Row) -> Result<Hit, DbError> {
        let place = Place::new(row.id(2)?, row.int(3)?);
        Ok(Hit {
            id: row.id(0)?,
            attempt: row.int(1)?,
            place: place.ok_or_else(|| DbError::Broken("the number of a recipient".into()))?,
            link: row.maybe(4, Row::text)?,
            is_machine: row.bool(5)?,
            ip_address: row.text(6)?,
            user_agent: row.text(7)?,
            created_at: row.int(8)?,
        })
    }
}

impl InOrder for Hit {
    const NEXT: Sql = NEXT;
    const CLAIM: Sql = CLAIM;
}

/// Whom a mail went to.
pub struct Recipient {
    pub workspace_id: WorkspaceId,
    pub address: String,
    pub state: i64,
    /// Where it is a broadcast's.
    pub contact_id: Option<ContactId>,
    pub origin: String,
    pub sender_domain: String,
    pub arrived_at: Option<i64>,
}

from_row!(Recipient { workspace_id, address, state, contact_id, origin, sender_domain, arrived_at });

/// How often something was opened or clicked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    pub hits: i64,
    pub machine_hits: i64,
    pub last_at: i64,
}

from_row!(Count { hits, machine_hits, last_at });

/// How often a link was clicked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkCount {
    pub id: Uuid,
    pub url: String,
    pub clicks: i64,
    pub machine_clicks: i64,
}

from_row!(LinkCount { id, url, clicks, machine_clicks });

/// How often a mail was opened and its links clicked, by all of its recipients, and how much of that machines did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    pub opens: i64,
    pub machine_opens: i64,
    pub clicks: i64,
    pub machine_clicks: i64,
}

from_row!(Totals { opens, machine_opens, clicks, machine_clicks });
