//! What happened to one contact, newest first, a page at a time. Runs and what was done with mail are found by an index;
//! for events, mails and broadcasts a look goes through so many of the workspace's, and the page ends where that ended.

use std::collections::HashMap;

use uuid::Uuid;

use super::contact::{Contact, email_key};
use super::walk::{self, Place, START, Source, walk};
use crate::accounts::{Duty, Member};
use crate::clock::{DAY, SECOND, Time, first_id_at, time_of};
use crate::db::{Sql, among, from_row, statements};
use crate::error::Error;
use crate::id::{AutomationId, ContactId, EmailId, Id, OccurrenceId, RunId, WorkspaceId, json_array, own_id};
use crate::segments;
use crate::web::Stamp;

/// How many of the events, of the mails, and of the broadcasts of the workspace one look goes through.
const EVENTS: i64 = 5_000;
const MAILS: i64 = 1_000;
const BROADCASTS: i64 = 50;

/// How many entries a page has, and how many of a kind are read for it.
const SHOWN: usize = 50;
const READ: i64 = SHOWN as i64 + 1;

/// How many runs are asked for their mail, to know where one can skip to.
const ASKED_RUNS: usize = 10;

statements! {
    functions {
        /// The first event that a look does not go through.
        fn edge_of_events(workspace_id: WorkspaceId, before: Uuid, floor: Uuid)
            with [workspace_id, before, floor, EVENTS] = Sql::both(
            "SELECT created_at, id FROM occurrences WHERE workspace_id = $1 AND id < $2 AND id > $3
             ORDER BY id DESC LIMIT 1 OFFSET $4");
        fn edge_of_mails(workspace_id: WorkspaceId, before: Uuid) with [workspace_id, before, MAILS] = Sql::both(
            "SELECT created_at, id FROM emails WHERE workspace_id = $1 AND id < $2 ORDER BY id DESC LIMIT 1 OFFSET $3");
        fn edge_of_broadcasts(workspace_id: WorkspaceId, before: Uuid) with [workspace_id, before, BROADCASTS]
            = Sql::both(
            "SELECT COALESCE(started_at, created_at), id FROM broadcasts
             WHERE workspace_id = $1 AND recipients > 0 AND id < $2 ORDER BY id DESC LIMIT 1 OFFSET $3");
        fn events(workspace_id: WorkspaceId, contact_id: ContactId, before: Uuid, edge: Uuid)
            with [workspace_id, contact_id, before, edge, READ] = Sql::both(
            "SELECT id, name, created_at FROM occurrences
             WHERE workspace_id = $1 AND id < $3 AND id > $4 AND contact_id = $2 ORDER BY id DESC LIMIT $5");
        /// Mail to the contact, but for that of broadcasts: one mail with as many recipients as the segment has contacts.
        fn mails(workspace_id: WorkspaceId, address: &str, before: Uuid, edge: Uuid)
            with [workspace_id, address, before, edge, READ] = Sql::both(
            "SELECT e.id, e.subject, e.created_at, (SELECT v.type FROM email_events v WHERE v.email_id = e.id
                 AND (v.number IS NULL OR v.number = r.number) ORDER BY v.id DESC LIMIT 1)
             FROM emails e JOIN email_recipients r ON r.email_id = e.id
             WHERE e.workspace_id = $1 AND e.id < $3 AND e.id > $4 AND e.origin <> 'broadcast'
               AND LOWER(r.address) = $2
               AND NOT EXISTS (SELECT 1 FROM email_recipients f
                               WHERE f.email_id = e.id AND f.number < r.number AND LOWER(f.address) = $2)
             ORDER BY e.id DESC LIMIT $5");
        fn runs(workspace_id: WorkspaceId, contact_id: ContactId, before: i64, id: Uuid)
            with [workspace_id, contact_id, before, id, READ] = Sql::both(
            "SELECT r.automation_id, r.id, a.name, r.status, r.created_at
             FROM runs r JOIN automations a ON a.workspace_id = r.workspace_id AND a.id = r.automation_id
             WHERE r.contact_id = $2 AND r.workspace_id = $1 AND a.deleted_at IS NULL
               AND r.created_at <= $3 AND (r.created_at < $3 OR r.id < $4)
             ORDER BY r.created_at DESC, r.id DESC LIMIT $5");
        /// When some runs last handed in a mail, before a moment.
        fn last_mail_of(runs: &[RunId], before: i64) with [json_array(runs.iter().copied()), before] = among!(
            "SELECT created_at FROM emails WHERE run_id", ids "$1",
            " AND run_id IS NOT NULL AND created_at < $2 ORDER BY created_at DESC LIMIT 1");
        /// The contact among the recipients of some broadcasts. These are numbered in the order of their contacts:
        /// each is looked for by halves.
        fn broadcasts(workspace_id: WorkspaceId, contact_id: ContactId, before: Uuid)
            with [workspace_id, contact_id, BROADCASTS, before] = Sql::both(
            "WITH RECURSIVE halves (id, name, started_at, low, high) AS (
                 SELECT id, name, started_at, CAST(1 AS BIGINT), recipients
                 FROM (SELECT id, name, COALESCE(started_at, created_at) AS started_at, recipients FROM broadcasts
                       WHERE workspace_id = $1 AND recipients > 0 AND id < $4 ORDER BY id DESC LIMIT $3) AS newest
                 UNION ALL
                 SELECT h.id, h.name, h.started_at, CASE WHEN r.contact_id < $2 THEN r.number + 1 ELSE h.low END,
                     CASE WHEN r.contact_id < $2 THEN h.high ELSE r.number END
                 FROM halves h CROSS JOIN email_recipients r
                 WHERE h.low < h.high AND r.email_id = h.id AND r.number = (h.low + h.high) / 2)
             SELECT h.id, r.number, h.name, h.started_at
             FROM halves h CROSS JOIN email_recipients r
             WHERE h.low = h.high AND r.email_id = h.id AND r.number = h.low AND r.contact_id = $2
             ORDER BY h.id DESC");
        /// What happened last to each of some mails.
        fn last_events(ids: &[EmailId]) with [json_array(ids.iter().copied())] = among!(
            "SELECT v.email_id, v.type FROM email_events v WHERE v.email_id", ids "$1",
            " AND v.id = (SELECT l.id FROM email_events l WHERE l.email_id = v.email_id ORDER BY l.id DESC LIMIT 1)");
        /// When mails were opened, or clicked in.
        fn engagements(workspace_id: WorkspaceId, contact_id: ContactId, key: Uuid, before: i64, id: Uuid)
            with [workspace_id, contact_id, key, before, id, READ] = Sql::both(
            "SELECT occurrence_id, happened_at FROM segment_events
             WHERE workspace_id = $1 AND contact_id = $2 AND event_key = $3
               AND happened_at <= $4 AND (happened_at < $4 OR occurrence_id < $5)
             ORDER BY happened_at DESC, occurrence_id DESC LIMIT $6");
    }
}

struct EventRow {
    id: OccurrenceId,
    name: String,
    at: Time,
}

struct MailRow {
    id: EmailId,
    subject: String,
    at: Time,
    last: Option<String>,
}

struct BroadcastRow {
    id: EmailId,
    number: i64,
    name: String,
    at: Time,
}

struct RunRow {
    automation_id: AutomationId,
    id: RunId,
    automation: String,
    status: String,
    at: Time,
}

from_row!(EventRow { id, name, at });
from_row!(MailRow { id, subject, at, last });
from_row!(BroadcastRow { id, number, name, at });
from_row!(RunRow { automation_id, id, automation, status, at });

/// Something that happened.
pub struct Entry {
    pub at: Stamp,
    pub icon: &'static str,
    pub what: &'static str,
    pub name: String,
    /// What became of it.
    pub state: Option<String>,
    pub href: Option<String>,
}

pub struct Timeline {
    pub entries: Vec<Entry>,
    /// Where what is right behind can be seen, where there is or may be anything.
    pub earlier: Option<String>,
    /// Where the newest can be seen, if this is not it.
    pub newest: Option<String>,
    /// When the look ended, because it went through as much as one look does.
    pub stopped: Option<Stamp>,
    /// What comes next of what is known without going through everybody's.
    pub skip: Option<Skip>,
}

pub struct Skip {
    pub href: String,
    pub what: &'static str,
    pub at: Stamp,
}

fn entry(at: Time, icon: &'static str, what: &'static str, name: String) -> Entry {
    Entry { at: Stamp::exact(at.0), icon, what, name, state: None, href: None }
}

fn of_event(row: EventRow) -> Entry {
    let what = match row.name.as_str() {
        "svc:contact.created" => "Became a contact",
        "svc:contact.updated" => "Was changed",
        "svc:contact.unsubscribed" => "Unsubscribed",
        _ => "Event",
    };
    let icon = if what == "Event" { "event" } else { "person" };
    entry(row.at, icon, what, row.name)
}

/// One look at what happened to a contact.
struct Look<'a, D: Duty> {
    member: &'a Member<D>,
    contact: &'a Contact,
}

impl<D: Duty> Look<'_, D> {
    /// Behind what the address goes on in a list.
    fn place(&self, word: &str) -> Place {
        self.member.asked(word).and_then(|text| walk::read(&text)).unwrap_or(START)
    }

    fn source(word: &'static str, place: Place, edge: Option<Place>, found: Vec<(Place, Entry)>) -> Source<Entry> {
        Source { word, place, found: found.into(), edge }
    }

    async fn events(&self) -> Result<Source<Entry>, Error> {
        let (workspace, place) = (self.member.workspace_id(), self.place("events"));
        // Nothing happened to the contact long before it was there.
        let floor = first_id_at(time_of(self.contact.id) - DAY);
        let edge: Option<Place> = self.member.query(edge_of_events(workspace, place.1, floor)).await?;
        let after = edge.map_or(floor, |(_, id)| id);
        let rows: Vec<EventRow> = self.member.query(events(workspace, self.contact.id, place.1, after)).await?;
        let found = rows.into_iter().map(|row| ((row.at.0, row.id.uuid()), of_event(row))).collect();
        Ok(Self::source("events", place, edge, found))
    }

    async fn mails(&self) -> Result<Source<Entry>, Error> {
        let (workspace, place) = (self.member.workspace_id(), self.place("mails"));
        let edge: Option<Place> = self.member.query(edge_of_mails(workspace, place.1)).await?;
        let (address, after) = (email_key(&self.contact.email), edge.map_or(Uuid::nil(), |(_, id)| id));
        let rows: Vec<MailRow> = self.member.query(mails(workspace, &address, place.1, after)).await?;
        let found = rows.into_iter().map(|row| {
            let entry = Entry {
                state: row.last,
                href: Some(self.member.address(&format!("/emails/{}", row.id))),
                ..entry(row.at, "mail", "Mail", row.subject)
            };
            ((row.at.0, row.id.uuid()), entry)
        });
        Ok(Self::source("mails", place, edge, found.collect()))
    }

    /// Mail of broadcasts, with what became of it; what nothing is written of yet is queued.
    async fn broadcasts(&self) -> Result<Source<Entry>, Error> {
        let (workspace, place) = (self.member.workspace_id(), self.place("broadcasts"));
        let edge: Option<Place> = self.member.query(edge_of_broadcasts(workspace, place.1)).await?;
        let rows: Vec<BroadcastRow> = self.member.query(broadcasts(workspace, self.contact.id, place.1)).await?;
        let ids: Vec<EmailId> = rows.iter().map(|row| own_id(row.id, row.number)).collect();
        let last: Vec<(EmailId, String)> = self.member.query(last_events(&ids)).await?;
        let mut last: HashMap<EmailId, String> = last.into_iter().collect();
        let found = rows.into_iter().zip(ids).map(|(row, id)| {
            let entry = Entry {
                state: Some(last.remove(&id).unwrap_or_else(|| "queued".into())),
                href: Some(self.member.address(&format!("/emails/{id}"))),
                ..entry(row.at, "send", "Broadcast", row.name)
            };
            ((row.at.0, row.id.uuid()), entry)
        });
        Ok(Self::source("broadcasts", place, edge, found.collect()))
    }

    async fn runs(&self) -> Result<Source<Entry>, Error> {
        let (workspace, place) = (self.member.workspace_id(), self.place("runs"));
        let rows: Vec<RunRow> = self.member.query(runs(workspace, self.contact.id, place.0, place.1)).await?;
        let found = rows.into_iter().map(|row| {
            let entry = Entry {
                state: Some(row.status),
                href: Some(self.member.address(&format!("/automations/{}/runs/{}", row.automation_id, row.id))),
                ..entry(row.at, "branch", "Run", row.automation)
            };
            ((row.at.0, row.id.uuid()), entry)
        });
        Ok(Self::source("runs", place, None, found.collect()))
    }

    async fn engagements(&self, word: &'static str, what: &'static str) -> Result<Source<Entry>, Error> {
        let (workspace, place) = (self.member.workspace_id(), self.place(word));
        let key = segments::event_key(&segments::engagement_name(word, None));
        let rows: Vec<(EmailId, Time)> =
            self.member.query(engagements(workspace, self.contact.id, key, place.0, place.1)).await?;
        let found = rows.into_iter().map(|(id, at)| {
            let href = Some(self.member.address(&format!("/emails/{id}")));
            ((at.0, id.uuid()), Entry { href, ..entry(at, "mail", what, String::new()) })
        });
        Ok(Self::source(word, place, None, found.collect()))
    }

    /// The next that is known of without going through everybody's events and mails.
    async fn next_known(&self, sources: &[Source<Entry>], stopped: i64) -> Result<Option<(i64, &'static str)>, Error> {
        let mut known = vec![(self.contact.created_at, "when the contact was added")];
        for source in sources {
            let what = match source.word {
                "runs" => "a run",
                "broadcasts" => "a broadcast",
                "opened" => "an opened mail",
                "clicked" => "a click",
                _ => continue,
            };
            known.extend(source.found.front().map(|((at, _), _)| (*at, what)));
            if source.word == "runs" {
                let ids: Vec<RunId> =
                    source.found.iter().take(ASKED_RUNS).map(|((_, id), _)| RunId::from(*id)).collect();
                let mail: Option<i64> = self.member.query(last_mail_of(&ids, stopped)).await?;
                known.extend(mail.map(|at| (at, "a mail of a run")));
            }
        }
        Ok(known.into_iter().filter(|(at, _)| *at < stopped).max())
    }

    fn address(&self, places: impl Iterator<Item = (&'static str, Place)>) -> String {
        let places = places.filter(|(_, place)| *place != START);
        let query: Vec<String> = places.map(|(word, place)| format!("{word}={}", walk::written(place))).collect();
        self.member.address(&format!("/contacts/{}?{}#timeline", self.contact.id, query.join("&")))
    }
}

impl Timeline {
    pub async fn of<D: Duty>(member: &Member<D>, contact: &Contact) -> Result<Timeline, Error> {
        let look = Look { member, contact };
        let mut sources = vec![
            look.events().await?,
            look.mails().await?,
            look.broadcasts().await?,
            look.runs().await?,
            look.engagements("opened", "Opened a mail").await?,
            look.engagements("clicked", "Clicked in a mail").await?,
        ];
        let is_newest = sources.iter().all(|source| source.place == START);
        let walked = walk(&mut sources, SHOWN);
        let mut skip = None;
        if let Some((word @ ("events" | "mails"), at)) = walked.stopped
            && let Some((at, what)) = look.next_known(&sources, at).await?
        {
            // Ids are of steady time.
            let steady = at + SECOND - member.app.clock.now() + member.app.clock.steady();
            let until = (at, first_id_at(steady));
            let skipped = sources.iter().map(|source| match source.word {
                "events" | "mails" if source.place.1 > until.1 => (source.word, until),
                word => (word, source.place),
            });
            let is_further = sources.iter().any(|source| source.word == word && source.place.1 > until.1);
            skip = is_further.then(|| Skip { href: look.address(skipped), what, at: Stamp::exact(at) });
        }
        let places = sources.iter().map(|source| (source.word, source.place));
        Ok(Timeline {
            entries: walked.items.into_iter().map(|(_, entry)| entry).collect(),
            earlier: walked.is_more.then(|| look.address(places)),
            newest: (!is_newest).then(|| member.address(&format!("/contacts/{}#timeline", contact.id))),
            stopped: walked.stopped.map(|(_, at)| Stamp::exact(at)),
            skip,
        })
    }
}
