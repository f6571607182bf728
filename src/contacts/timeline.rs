//! What happened to one contact, newest first. What an index leads to is there whole; for the rest, so many of the
//! newest events and mails of the workspace are gone through, and the page says where that ended.

use std::collections::HashMap;

use uuid::Uuid;

use super::contact::{Contact, email_key};
use crate::accounts::{Duty, Member};
use crate::clock::Time;
use crate::db::{Sql, among, from_row, statements};
use crate::error::Error;
use crate::id::{AutomationId, ContactId, EmailId, Id, OccurrenceId, RunId, WorkspaceId, json_array, own_id};
use crate::segments;
use crate::web::Stamp;

/// How many of the newest events, and of the newest mails, of the workspace are gone through.
const EVENTS: i64 = 5_000;
const MAILS: i64 = 1_000;

/// How many of the newest broadcasts of the workspace are looked through.
const BROADCASTS: i64 = 20;

/// How many of each kind are shown.
const SHOWN: i64 = 50;

statements! {
    functions {
        fn edge_of_events(workspace_id: WorkspaceId, before: Uuid) with [workspace_id, before, EVENTS] = Sql::both(
            "SELECT id FROM (SELECT id FROM occurrences WHERE workspace_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3)
                 AS looked
             ORDER BY id LIMIT 1");
        fn edge_of_mails(workspace_id: WorkspaceId, before: Uuid) with [workspace_id, before, MAILS] = Sql::both(
            "SELECT id FROM (SELECT id FROM emails WHERE workspace_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3)
                 AS looked
             ORDER BY id LIMIT 1");
        fn has_older(workspace_id: WorkspaceId, event: Uuid, mail: Uuid) = Sql::both(
            "SELECT 1 FROM workspaces w WHERE w.id = $1
               AND (EXISTS (SELECT 1 FROM occurrences o WHERE o.workspace_id = $1 AND o.id < $2)
                    OR EXISTS (SELECT 1 FROM emails e WHERE e.workspace_id = $1 AND e.id < $3))");
        fn events(workspace_id: WorkspaceId, contact_id: ContactId, before: Uuid, edge: Uuid)
            with [workspace_id, contact_id, before, edge, SHOWN] = Sql::both(
            "SELECT id, name, created_at FROM occurrences
             WHERE workspace_id = $1 AND id < $3 AND id >= $4 AND contact_id = $2 ORDER BY id DESC LIMIT $5");
        /// Those that runs may have waited for, through their index.
        fn heard_events(workspace_id: WorkspaceId, contact_id: ContactId) with [workspace_id, contact_id, SHOWN]
            = Sql::both(
            "SELECT id, name, created_at FROM occurrences
             WHERE workspace_id = $1 AND contact_id = $2 AND heard ORDER BY seq DESC LIMIT $3");
        /// Mail to the contact, but for that of broadcasts: one mail with as many recipients as the segment has contacts.
        fn mails(workspace_id: WorkspaceId, address: &str, before: Uuid, edge: Uuid)
            with [workspace_id, address, before, edge, SHOWN] = Sql::both(
            "SELECT e.id, e.subject, e.created_at, (SELECT v.type FROM email_events v WHERE v.email_id = e.id
                 AND (v.number IS NULL OR v.number = r.number) ORDER BY v.id DESC LIMIT 1)
             FROM emails e JOIN email_recipients r ON r.email_id = e.id
             WHERE e.workspace_id = $1 AND e.id < $3 AND e.id >= $4 AND e.origin <> 'broadcast'
               AND LOWER(r.address) = $2
             ORDER BY e.id DESC LIMIT $5");
        fn runs(workspace_id: WorkspaceId, contact_id: ContactId) with [workspace_id, contact_id, SHOWN] = Sql::both(
            "SELECT r.automation_id, r.id, a.name, r.status, r.created_at, o.id, o.name
             FROM runs r JOIN automations a ON a.workspace_id = r.workspace_id AND a.id = r.automation_id
             LEFT JOIN occurrences o ON o.workspace_id = r.workspace_id AND o.id = r.occurrence_id
             WHERE r.contact_id = $2 AND r.workspace_id = $1 AND a.deleted_at IS NULL
             ORDER BY r.created_at DESC LIMIT $3");
        /// In the order of its index, which leads to no other mail.
        fn mails_of_run(run_id: RunId) with [run_id, SHOWN] = Sql::both(
            "SELECT e.id, e.subject, e.created_at, (SELECT v.type FROM email_events v WHERE v.email_id = e.id
                 ORDER BY v.id DESC LIMIT 1)
             FROM emails e WHERE e.run_id = $1 AND e.run_id IS NOT NULL ORDER BY e.step LIMIT $2");
        /// The contact among the recipients of the newest broadcasts. These are numbered in the order of their contacts:
        /// each is looked for by halves.
        fn broadcasts(workspace_id: WorkspaceId, contact_id: ContactId) with [workspace_id, contact_id, BROADCASTS]
            = Sql::both(
            "WITH RECURSIVE halves (id, name, started_at, low, high) AS (
                 SELECT id, name, started_at, CAST(1 AS BIGINT), recipients
                 FROM (SELECT id, name, COALESCE(started_at, created_at) AS started_at, recipients FROM broadcasts
                       WHERE workspace_id = $1 AND recipients > 0 ORDER BY id DESC LIMIT $3) AS newest
                 UNION ALL
                 SELECT h.id, h.name, h.started_at, CASE WHEN r.contact_id < $2 THEN r.number + 1 ELSE h.low END,
                     CASE WHEN r.contact_id < $2 THEN h.high ELSE r.number END
                 FROM halves h CROSS JOIN email_recipients r
                 WHERE h.low < h.high AND r.email_id = h.id AND r.number = (h.low + h.high) / 2)
             SELECT h.id, r.number, h.name, h.started_at
             FROM halves h CROSS JOIN email_recipients r
             WHERE h.low = h.high AND r.email_id = h.id AND r.number = h.low AND r.contact_id = $2");
        /// What happened last to each of some mails.
        fn last_events(ids: &[EmailId]) with [json_array(ids.iter().copied())] = among!(
            "SELECT v.email_id, v.type FROM email_events v WHERE v.email_id", ids "$1",
            " AND v.id = (SELECT l.id FROM email_events l WHERE l.email_id = v.email_id ORDER BY l.id DESC LIMIT 1)");
        /// When mails were opened, or clicked in.
        fn engagements(workspace_id: WorkspaceId, contact_id: ContactId, key: Uuid)
            with [workspace_id, contact_id, key, SHOWN] = Sql::both(
            "SELECT occurrence_id, happened_at FROM segment_events
             WHERE workspace_id = $1 AND contact_id = $2 AND event_key = $3 ORDER BY happened_at DESC LIMIT $4");
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
    occurrence_id: Option<OccurrenceId>,
    event: Option<String>,
}

from_row!(EventRow { id, name, at });
from_row!(MailRow { id, subject, at, last });
from_row!(BroadcastRow { id, number, name, at });
from_row!(RunRow { automation_id, id, automation, status, at, occurrence_id, event });

/// Something that happened.
pub struct Entry {
    id: Uuid,
    micros: i64,
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
    /// Where to look further back, where not everything was gone through.
    pub further: Option<String>,
    /// Whether this is such a look.
    pub is_further: bool,
    /// How many broadcasts are looked through.
    pub broadcasts: i64,
}

fn entry((id, at): (Uuid, Time), icon: &'static str, what: &'static str, name: String) -> Entry {
    Entry { id, micros: at.0, at: Stamp::exact(at.0), icon, what, name, state: None, href: None }
}

fn of_event(row: EventRow) -> Entry {
    let what = match row.name.as_str() {
        "svc:contact.created" => "Became a contact",
        "svc:contact.updated" => "Was changed",
        "svc:contact.unsubscribed" => "Unsubscribed",
        _ => "Event",
    };
    let icon = if what == "Event" { "event" } else { "person" };
    entry((row.id.uuid(), row.at), icon, what, row.name)
}

/// Mail of broadcasts, with what became of it; what nothing is written of yet is queued.
async fn of_broadcasts<D: Duty>(member: &Member<D>, contact_id: ContactId) -> Result<Vec<Entry>, Error> {
    let rows: Vec<BroadcastRow> = member.query(broadcasts(member.workspace_id(), contact_id)).await?;
    let ids: Vec<EmailId> = rows.iter().map(|row| own_id(row.id, row.number)).collect();
    let last: Vec<(EmailId, String)> = member.query(last_events(&ids)).await?;
    let mut last: HashMap<EmailId, String> = last.into_iter().collect();
    let entries = rows.into_iter().zip(ids).map(|(row, id)| Entry {
        state: Some(last.remove(&id).unwrap_or_else(|| "queued".into())),
        href: Some(member.address(&format!("/emails/{id}"))),
        ..entry((id.uuid(), row.at), "send", "Broadcast", row.name)
    });
    Ok(entries.collect())
}

impl Timeline {
    pub async fn of<D: Duty>(member: &Member<D>, contact: &Contact) -> Result<Timeline, Error> {
        let workspace = member.workspace_id();
        let behind = |name: &str| member.asked(name).and_then(|id| Uuid::try_parse(&id).ok());
        let is_further = behind("events").is_some() || behind("mails").is_some();
        let (before_event, before_mail) =
            (behind("events").unwrap_or(Uuid::max()), behind("mails").unwrap_or(Uuid::max()));
        let mut entries = Vec::new();
        let event_edge: Option<Uuid> = member.query(edge_of_events(workspace, before_event)).await?;
        let mail_edge: Option<Uuid> = member.query(edge_of_mails(workspace, before_mail)).await?;
        if let Some(edge) = event_edge {
            let rows: Vec<EventRow> = member.query(events(workspace, contact.id, before_event, edge)).await?;
            entries.extend(rows.into_iter().map(of_event));
        }
        let mail = |row: MailRow| Entry {
            state: row.last,
            href: Some(member.address(&format!("/emails/{}", row.id))),
            ..entry((row.id.uuid(), row.at), "mail", "Mail", row.subject)
        };
        if let Some(edge) = mail_edge {
            let rows: Vec<MailRow> =
                member.query(mails(workspace, &email_key(&contact.email), before_mail, edge)).await?;
            entries.extend(rows.into_iter().map(mail));
        }
        if !is_further {
            let rows: Vec<EventRow> = member.query(heard_events(workspace, contact.id)).await?;
            entries.extend(rows.into_iter().map(of_event));
            let rows: Vec<RunRow> = member.query(runs(workspace, contact.id)).await?;
            for row in rows {
                let sent: Vec<MailRow> = member.query(mails_of_run(row.id)).await?;
                entries.extend(sent.into_iter().map(mail));
                if let Some((id, name)) = row.occurrence_id.zip(row.event) {
                    entries.push(of_event(EventRow { id, name, at: row.at }));
                }
                entries.push(Entry {
                    state: Some(row.status),
                    href: Some(member.address(&format!("/automations/{}/runs/{}", row.automation_id, row.id))),
                    ..entry((row.id.uuid(), row.at), "branch", "Run", row.automation)
                });
            }
            entries.extend(of_broadcasts(member, contact.id).await?);
            for (word, what) in [("opened", "Opened a mail"), ("clicked", "Clicked in a mail")] {
                let key = segments::event_key(&segments::engagement_name(word, None));
                let rows: Vec<(EmailId, Time)> = member.query(engagements(workspace, contact.id, key)).await?;
                entries.extend(rows.into_iter().map(|(id, at)| Entry {
                    href: Some(member.address(&format!("/emails/{id}"))),
                    // Both may be of one mail, which is there itself, too.
                    id: segments::event_key(&format!("{id} {word}")),
                    ..entry((id.uuid(), at), "mail", what, String::new())
                }));
            }
        }
        entries.sort_by_key(|entry| (std::cmp::Reverse(entry.micros), std::cmp::Reverse(entry.id)));
        let mut seen = std::collections::HashSet::new();
        entries.retain(|entry| seen.insert(entry.id));
        let (events, mails) = (event_edge.unwrap_or_default(), mail_edge.unwrap_or_default());
        let is_more = !member.read(has_older(workspace, events, mails)).await?.is_empty();
        let address = || member.address(&format!("/contacts/{}?events={events}&mails={mails}#timeline", contact.id));
        Ok(Timeline { entries, further: is_more.then(address), is_further, broadcasts: BROADCASTS })
    }
}
