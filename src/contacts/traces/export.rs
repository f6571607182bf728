//! All that is kept of a person as one JSON document, made piece by piece: of whom there is much, nothing is held
//! whole.

use serde_json::{Value, json};
use uuid::Uuid;

use super::store::{self, Event, Happened, Mail, Person, Received, Run, Stretch};
use crate::app::App;
use crate::clock::rfc3339;
use crate::contacts::{contact::Contact, contact::email_key};
use crate::db::DbError;
use crate::id::{EmailId, Id, SegmentId, WorkspaceId};
use crate::segments;
use crate::topics::{self, Standing};

/// How much of a body is told.
const MOST_PIECES: i64 = 64;

/// What comes next in the document.
enum Part {
    Head,
    Runs(Uuid),
    Events((Uuid, i64)),
    Mails((Uuid, i64)),
    Received((Uuid, i64)),
    End,
}

pub struct ContactExport {
    app: App,
    person: Person,
    contact: Contact,
    part: Part,
    /// Whether the next item is the first of its list.
    is_first: bool,
}

impl ContactExport {
    pub fn of(app: &App, workspace_id: WorkspaceId, contact: Contact) -> ContactExport {
        let person = Person { workspace_id, id: contact.id, email_key: email_key(&contact.email) };
        ContactExport { app: app.clone(), person, contact, part: Part::Head, is_first: true }
    }

    /// The next piece of the document; `None` behind the last.
    pub async fn next(&mut self) -> Result<Option<String>, DbError> {
        let nil = (Uuid::nil(), 0);
        let (text, next) = match self.part {
            Part::Head => (self.head().await?, Part::Runs(Uuid::nil())),
            Part::Runs(behind) => match self.runs(behind).await? {
                (text, Some(reached)) => (text, Part::Runs(reached)),
                (_, None) => (self.list("events"), Part::Events(nil)),
            },
            Part::Events(behind) => match self.events(behind).await? {
                (text, Some(reached)) => (text, Part::Events(reached)),
                (_, None) => (self.list("emails"), Part::Mails(nil)),
            },
            Part::Mails(behind) => match self.mails(behind).await? {
                (text, Some(reached)) => (text, Part::Mails(reached)),
                (_, None) => (self.list("received_emails"), Part::Received(nil)),
            },
            Part::Received(behind) => match self.received(behind).await? {
                (text, Some(reached)) => (text, Part::Received(reached)),
                (_, None) => ("]}\n".into(), Part::End),
            },
            Part::End => return Ok(None),
        };
        self.part = next;
        Ok(Some(text))
    }

    /// Ends one list and begins another.
    fn list(&mut self, name: &str) -> String {
        self.is_first = true;
        format!("],\"{name}\":[")
    }

    fn item(&mut self, item: &Value) -> String {
        let comma = if std::mem::take(&mut self.is_first) { "" } else { "," };
        format!("{comma}{item}")
    }

    async fn head(&self) -> Result<String, DbError> {
        let (db, workspace_id) = (&self.app.db, self.person.workspace_id);
        let joined: Vec<(SegmentId, String, bool)> =
            db.query(segments::newest_of_contact(workspace_id, self.contact.id)).await?;
        let topics: Vec<Standing> = db.query(topics::all_of_contact(workspace_id, self.contact.id)).await?;
        let suppressed: Option<(String, Option<String>, i64)> = db.query(store::suppression(&self.person)).await?;
        let topic = |topic: &Standing| {
            json!({"id": topic.topic_id, "name": topic.name, "subscription": topic.subscription,
                "chosen": topic.is_chosen})
        };
        let head = json!({
            "object": "contact_export",
            "exported_at": rfc3339(self.app.clock.now()),
            "contact": self.contact.json(),
            "segments": joined.iter().map(|(id, name, _)| json!({"id": id, "name": name})).collect::<Vec<_>>(),
            "topics": topics.iter().map(topic).collect::<Vec<_>>(),
            "suppression": suppressed.map(|(origin, reason, at)| {
                json!({"origin": origin, "reason": reason, "created_at": rfc3339(at)})
            }),
        });
        let head = head.to_string();
        Ok(format!("{},\"runs\":[", head.strip_suffix('}').unwrap_or(&head)))
    }

    async fn runs(&mut self, behind: Uuid) -> Result<(String, Option<Uuid>), DbError> {
        let found: Vec<Run> = self.app.db.query(store::runs(&self.person, behind)).await?;
        let reached = found.last().map(|run| run.id.uuid());
        let mut text = String::new();
        for run in found {
            let state: Option<Value> = serde_json::from_str(&run.state).ok();
            let item = json!({"id": run.id, "automation_id": run.automation_id, "status": run.status,
                "created_at": run.created_at, "completed_at": run.completed_at, "state": state});
            text += &self.item(&item);
        }
        Ok((text, reached))
    }

    async fn events(&mut self, behind: (Uuid, i64)) -> Result<(String, Option<(Uuid, i64)>), DbError> {
        let edge: Option<Uuid> = self.app.db.query(store::edge_of_events(self.person.workspace_id, behind.0)).await?;
        let Some(until) = edge.map(|edge| (edge, 0)) else { return Ok((String::new(), None)) };
        let found: Vec<Event> = self.app.db.query(store::events(&self.person, Stretch { behind, until })).await?;
        let mut text = String::new();
        for event in found {
            let item = json!({"id": event.id, "event": event.name, "payload": event.payload,
                "created_at": event.created_at});
            text += &self.item(&item);
        }
        Ok((text, Some(until)))
    }

    async fn mails(&mut self, behind: (Uuid, i64)) -> Result<(String, Option<(Uuid, i64)>), DbError> {
        let edge: Option<(Uuid, i64)> = self.app.db.query(store::edge_of_recipients(behind.0, behind.1)).await?;
        let Some(until) = edge else { return Ok((String::new(), None)) };
        let of = Stretch { behind, until };
        let found: Vec<(EmailId, i64)> = self.app.db.query(store::recipients(&self.person, of)).await?;
        let mut text = String::new();
        for (id, number) in found {
            let mail: Option<Mail> = self.app.db.query(store::mail(id)).await?;
            let Some(mail) = mail else { continue };
            let history: Vec<Happened> = self.app.db.query(store::history(id, number)).await?;
            let happened =
                |one: &Happened| json!({"type": one.kind, "detail": one.detail, "created_at": one.created_at});
            let html = match mail.html {
                Some(html) => Some(html),
                None => self.body(id, 0).await?,
            };
            let plain = match mail.text {
                Some(text) => Some(text),
                None => self.body(id, 1).await?,
            };
            let item = json!({"id": id, "origin": mail.origin, "from": mail.sender, "subject": mail.subject,
                "html": html, "text": plain, "created_at": mail.created_at,
                "history": history.iter().map(happened).collect::<Vec<_>>()});
            text += &self.item(&item);
        }
        Ok((text, Some(until)))
    }

    /// A body that stands in pieces.
    async fn body(&self, id: EmailId, part: i64) -> Result<Option<String>, DbError> {
        let mut bytes = Vec::new();
        for number in 0..MOST_PIECES {
            let rows = self.app.db.read(store::body_piece(id, part, number)).await?;
            let Some(row) = rows.first() else { break };
            bytes.extend(row.bytes(0)?);
        }
        Ok((!bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).into_owned()))
    }

    async fn received(&mut self, behind: (Uuid, i64)) -> Result<(String, Option<(Uuid, i64)>), DbError> {
        let edge: Option<Uuid> = self.app.db.query(store::edge_of_received(self.person.workspace_id, behind.0)).await?;
        let Some(until) = edge.map(|edge| (edge, 0)) else { return Ok((String::new(), None)) };
        let found: Vec<Received> = self.app.db.query(store::received(&self.person, Stretch { behind, until })).await?;
        let mut text = String::new();
        for mail in found {
            let item = json!({"id": mail.id, "subject": mail.subject, "text": mail.text,
                "created_at": mail.created_at});
            text += &self.item(&item);
        }
        Ok((text, Some(until)))
    }
}
