//! The numbers of mails one by one, which are not counted but found in their histories: those of a
//! few mails, or of the newest of a span. Mails of broadcasts have histories of their own, and one that
//! came in is its own.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::breakdown::Group;
use super::counts::{Counted, Counts};
use super::period;
use super::query::Question;
use crate::auth::Actor;
use crate::clock::first_id_at;
use crate::db::{DbError, Row, Sql, among, from_row, statements};
use crate::error::Error;
use crate::id::{EmailId, Id, WorkspaceId, json_array, own_id, parts_of};

/// How many mails are looked at where none are named, and how many events of all of them.
const MOST_MAILS: i64 = 1000;
const MOST_EVENTS: i64 = 20_000;

/// How often one recipient's open, or click of one link, stands in the history by itself; and as often of machines.
/// What is more is only counted.
pub const MOST_KEPT: i64 = 10;

statements! {
    functions {
        fn named(workspace_id: WorkspaceId, ids: String) = among!(
            "SELECT id, sender_domain, origin FROM emails WHERE workspace_id = $1 AND id", ids "$2", "");
        /// Of those that were handed in in the span.
        fn newest(workspace_id: WorkspaceId, since: i64, until: i64)
            with [workspace_id, first_id_at(since), first_id_at(until), MOST_MAILS] = Sql::both(
            "SELECT id, created_at, sender_domain, CAST(NULL AS BIGINT) FROM emails
             WHERE workspace_id = $1 AND id >= $2 AND id < $3 AND origin NOT IN ('system', 'broadcast')
             ORDER BY id DESC LIMIT $4");
        /// Of those that were begun in the span.
        fn newest_broadcasts(workspace_id: WorkspaceId, since: i64, until: i64)
            with [workspace_id, since, until, MOST_MAILS] = Sql::both(
            "SELECT b.id, b.started_at, e.sender_domain, b.recipients FROM broadcasts b JOIN emails e ON e.id = b.id
             WHERE b.workspace_id = $1 AND b.started_at >= $2 AND b.started_at < $3
             ORDER BY b.started_at DESC LIMIT $4");
        fn named_received(workspace_id: WorkspaceId, ids: String) = among!(
            "SELECT r.id, r.created_at, d.name FROM received_emails r LEFT JOIN domains d ON d.id = r.domain_id
             WHERE r.workspace_id = $1 AND r.id", ids "$2", "");
        fn newest_received(workspace_id: WorkspaceId, since: i64, until: i64)
            with [workspace_id, first_id_at(since), first_id_at(until), MOST_MAILS] = Sql::both(
            "SELECT r.id, r.created_at, d.name FROM received_emails r LEFT JOIN domains d ON d.id = r.domain_id
             WHERE r.workspace_id = $1 AND r.id >= $2 AND r.id < $3 ORDER BY r.id DESC LIMIT $4");
        /// Their histories, from the beginning: what is the first of its kind is seen there alone.
        fn histories(workspace_id: WorkspaceId, ids: String) with [workspace_id, ids, MOST_EVENTS + 1] = among!(
            "SELECT email_id, number, type, created_at,
                 CASE WHEN type IN ('bounced', 'opened', 'clicked') THEN detail ELSE NULL END
             FROM email_events WHERE workspace_id = $1 AND email_id", ids "$2", " ORDER BY email_id, id LIMIT $3");
        /// How often recipients, each as JSON the id of the mail's row and a number, opened or clicked.
        fn visits(of: String) = Sql::each(
            "SELECT t.email_id, t.number, t.link_key, t.hits - t.machine_hits, t.last_at
             FROM json_each($1) p JOIN tracking_recipients t
                 ON t.email_id = unhex(json_extract(p.value, '$[0]')) AND t.number = json_extract(p.value, '$[1]')",
            "SELECT t.email_id, t.number, t.link_key, t.hits - t.machine_hits, t.last_at
             FROM json_array_elements(CAST(CAST($1 AS TEXT) AS JSON)) p JOIN tracking_recipients t
                 ON t.email_id = CAST(p.value ->> 0 AS UUID) AND t.number = CAST(p.value ->> 1 AS BIGINT)");
    }
}

/// One that is told of.
struct Mail {
    domain: String,
    /// The row that it is in; recipients of a broadcast share one.
    row: EmailId,
}

type Mails = HashMap<EmailId, Mail>;

/// A row, which may be that of a broadcast with so many mails.
struct Found {
    id: EmailId,
    at: i64,
    domain: String,
    recipients: Option<i64>,
}

from_row!(Found { id, at, domain, recipients });

/// What happened to the mails that are asked for.
pub async fn groups(actor: &dyn Actor, question: &Question) -> Result<Vec<Group>, Error> {
    let (workspace_id, (since, until)) = (actor.workspace_id(), question.span());
    let (mails, received) = match &question.email_ids {
        Some(ids) => {
            let rows: Vec<EmailId> = ids.iter().flat_map(|id| [*id, parts_of(*id).0]).collect();
            let rows = actor.read(|| named(workspace_id, json_array(rows.iter().copied()))).await?;
            (of_named(ids, &rows)?, actor.read(|| named_received(workspace_id, json_array(ids.iter().copied()))).await?)
        }
        None => {
            let mut rows = actor.read(|| newest(workspace_id, since, until)).await?;
            rows.extend(actor.read(|| newest_broadcasts(workspace_id, since, until)).await?);
            let found = rows.iter().map(Found::read).collect::<Result<_, _>>()?;
            (of_newest(found), actor.read(|| newest_received(workspace_id, since, until)).await?)
        }
    };
    let rows = actor.read(|| histories(workspace_id, json_array(mails.keys().copied()))).await?;
    if rows.len() as i64 > MOST_EVENTS {
        let message = "More happened to these mails than can be told at once. Narrow the dates or name fewer mails.";
        return Err(Error::InvalidParameter { message: message.into() });
    }
    let mut told = Told::of(&mails, &rows)?;
    let busy = told.busy();
    if !busy.is_empty() {
        told.add_visits(&actor.read(|| visits(Value::from(busy.clone()).to_string())).await?)?;
    }
    received.iter().try_for_each(|row| told.add_received(row))?;
    told.groups.retain(|(at, _)| (since..until).contains(at));
    Ok(told.groups.into_iter().map(|(_, group)| group).collect())
}

/// The product's own mail is nobody's, and what a broadcast's mails share is no mail.
fn of_named(ids: &[EmailId], rows: &[Row]) -> Result<Mails, DbError> {
    let mut found: HashMap<EmailId, (String, String)> = HashMap::new();
    for row in rows {
        found.insert(row.id(0)?, (row.text(1)?, row.text(2)?));
    }
    let find = |id: &EmailId| {
        let by = |row: EmailId, is_shared: bool| {
            let (domain, origin) = found.get(&row)?;
            let is_meant = origin != "system" && (origin == "broadcast") == is_shared;
            is_meant.then(|| (*id, Mail { domain: domain.clone(), row }))
        };
        by(*id, false).or_else(|| by(parts_of(*id).0, true).filter(|(id, mail)| *id != mail.row))
    };
    Ok(ids.iter().filter_map(find).collect())
}

fn of_newest(mut found: Vec<Found>) -> Mails {
    found.sort_by_key(|one| Reverse(one.at));
    let mails = found.into_iter().flat_map(|Found { id: row, domain, recipients, .. }| {
        let numbers = recipients.map_or(0..1, |count| 0..count.min(MOST_MAILS));
        numbers.map(move |behind| {
            let id = recipients.map_or(row, |count| own_id(row, count - behind));
            (id, Mail { domain: domain.clone(), row })
        })
    });
    mails.take(MOST_MAILS as usize).collect()
}

/// A recipient of a mail, and whether it is about clicks.
type Visited = (EmailId, i64, bool);

/// What happened, and when.
struct Told<'a> {
    mails: &'a Mails,
    groups: Vec<(i64, Group)>,
    /// How often people did what stands in the histories.
    kept: HashMap<Visited, i64>,
}

impl<'a> Told<'a> {
    fn of(mails: &'a Mails, rows: &[Row]) -> Result<Told<'a>, DbError> {
        let mut told = Told { mails, groups: Vec::with_capacity(rows.len()), kept: HashMap::new() };
        let mut seen: HashSet<(EmailId, Option<i64>, Counted)> = HashSet::new();
        for row in rows {
            let (id, number, kind): (EmailId, _, _) = (row.id(0)?, row.maybe(1, Row::int)?, row.text(2)?);
            let detail: Option<Value> = row.maybe(4, Row::text)?.and_then(|detail| serde_json::from_str(&detail).ok());
            // What machines open and click is counted apart, by tracking.
            if detail.as_ref().is_some_and(|detail| detail["machine"] == true) {
                continue;
            }
            let mut counts = Counts::default();
            let mut first = |what: Counted| i64::from(seen.insert((id, number, what)));
            match kind.as_str() {
                "sent" => {}
                "delivered" => counts.add(Counted::Delivered, 1),
                "delivery_delayed" => counts.add(Counted::DeliveryDelayed, 1),
                "bounced" => {
                    let kind = detail.as_ref().and_then(|detail| detail["bounce"]["type"].as_str());
                    counts.add(Counted::bounce(kind), 1);
                }
                "complained" => counts.add(Counted::Complained, 1),
                "suppressed" => counts.add(Counted::Suppressed, 1),
                "failed" => counts.add(Counted::Failed, 1),
                "unsubscribed" => counts.add(Counted::Unsubscribed, 1),
                "opened" => {
                    counts.add(Counted::Opened, 1);
                    counts.add(Counted::UniqueOpened, first(Counted::UniqueOpened));
                }
                "clicked" => {
                    counts.add(Counted::Clicked, 1);
                    counts.add(Counted::UniqueClicked, first(Counted::UniqueClicked));
                }
                _ => continue,
            }
            if matches!(kind.as_str(), "sent" | "delivered" | "bounced" | "complained") {
                counts.add(Counted::Sent, first(Counted::Sent));
            }
            if let ("opened" | "clicked", Some(number)) = (kind.as_str(), number) {
                *told.kept.entry((id, number, kind == "clicked")).or_default() += 1;
            }
            told.add(id, row.int(3)?, counts);
        }
        Ok(told)
    }

    fn add(&mut self, id: EmailId, at: i64, counts: Counts) {
        let domain = self.mails.get(&id).map(|mail| mail.domain.clone()).unwrap_or_default();
        self.push(id, at, domain, counts);
    }

    fn push(&mut self, id: EmailId, at: i64, domain: String, counts: Counts) {
        let period = period::quarter_of(at);
        self.groups.push((at, Group { period, domain, email_id: Some(id), broadcast_id: None, counts }));
    }

    /// Those of whom more may be counted than their histories have: the row of the mail, and the number.
    fn busy(&self) -> Vec<Value> {
        let many = self.kept.iter().filter(|(_, count)| **count >= MOST_KEPT);
        let places: HashSet<(EmailId, i64)> =
            many.filter_map(|((id, number, _), _)| Some((self.mails.get(id)?.row, *number))).collect();
        places.into_iter().map(|(row, number)| serde_json::json!([row.uuid().simple().to_string(), number])).collect()
    }

    /// What people did more often than it is kept, at the last time that is known.
    fn add_visits(&mut self, rows: &[Row]) -> Result<(), DbError> {
        let told_as: HashMap<(EmailId, i64), EmailId> =
            self.kept.keys().filter_map(|(id, number, _)| Some(((self.mails.get(id)?.row, *number), *id))).collect();
        let mut counted: HashMap<Visited, (i64, i64)> = HashMap::new();
        for row in rows {
            let (place, link, count, at) =
                ((row.id(0)?, row.int(1)?), row.id::<uuid::Uuid>(2)?, row.int(3)?, row.int(4)?);
            if let Some(id) = told_as.get(&place) {
                let (sum, last) = counted.entry((*id, place.1, !link.is_nil())).or_default();
                (*sum, *last) = (*sum + count, at.max(*last));
            }
        }
        for ((id, number, is_click), (sum, at)) in counted {
            let more = sum - self.kept.get(&(id, number, is_click)).copied().unwrap_or_default();
            if more > 0 {
                let mut counts = Counts::default();
                counts.add(if is_click { Counted::Clicked } else { Counted::Opened }, more);
                self.add(id, at, counts);
            }
        }
        Ok(())
    }

    fn add_received(&mut self, row: &Row) -> Result<(), DbError> {
        let mut counts = Counts::default();
        counts.add(Counted::Received, 1);
        self.push(row.id(0)?, row.int(1)?, row.maybe(2, Row::text)?.unwrap_or_default(), counts);
        Ok(())
    }
}
