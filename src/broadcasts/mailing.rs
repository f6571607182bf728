//! The mail of a broadcast: read once, and written for each of its recipients.

use serde_json::{Map, Value};

use super::broadcast::Broadcast;
use super::content::parse;
use super::people::Setting;
use super::store;
use super::timing::Timing;
use crate::app::App;
use crate::contacts::{self, Declared};
use crate::db::DbError;
use crate::emails::{self, Stored};
use crate::error::Error;
use crate::id::{BroadcastId, EmailId, Id, WorkspaceId, own_id};
use crate::render::{self, Kind, Template};
use crate::subscriptions::{Links, URL_KEYS};

/// How many things a contact may lack that the mail names without a fallback.
const MOST_MISSING: usize = 100;

/// What is written into the mail of one broadcast.
pub struct Mailing {
    broadcast: Broadcast,
    email: Stored,
    letter: Letter,
    declared: Vec<Declared>,
    variables: Map<String, Value>,
    links: Links,
}

/// What differs from one recipient to the next.
pub struct Letter {
    pub subject: Template,
    pub html: Option<Template>,
    pub text: Option<Template>,
}

impl Letter {
    /// The error names the field.
    pub fn parse(subject: &str, html: Option<&str>, text: Option<&str>) -> Result<Letter, String> {
        let body =
            |field: &str, source: Option<&str>, kind| source.map(|source| parse(field, source, kind)).transpose();
        Ok(Letter {
            subject: parse("subject", subject, Kind::Line)?,
            html: body("html", html, Kind::Html)?,
            text: body("text", text, Kind::Text)?,
        })
    }

    /// Subject, HTML and text. What a contact lacks is written as nothing.
    pub fn render(&self, values: &Map<String, Value>) -> Result<(String, Option<String>, Option<String>), String> {
        let body = |field: &str, template: &Option<Template>| {
            template.as_ref().map(|template| render(field, template, values)).transpose()
        };
        Ok((render("subject", &self.subject, values)?, body("html", &self.html)?, body("text", &self.text)?))
    }
}

fn render(field: &str, template: &Template, values: &Map<String, Value>) -> Result<String, String> {
    let mut completed: Option<Map<String, Value>> = None;
    for _ in 0..MOST_MISSING {
        let error: render::Error = match template.render(completed.as_ref().unwrap_or(values)) {
            Ok(text) => return Ok(text),
            Err(error) => error,
        };
        let Some(path) = error.missing().and_then(|path| path.strip_prefix("contact.")) else {
            return Err(format!("The `{field}` field: {error}."));
        };
        let path = path.to_owned();
        set_null(completed.get_or_insert_with(|| values.clone()).entry("contact"), &path);
    }
    Err(format!("The `{field}` field names too much that a contact lacks."))
}

/// Gives what a contact lacks the value null.
fn set_null(contact: serde_json::map::Entry<'_>, path: &str) {
    let mut place = contact.or_insert_with(|| Value::Object(Map::new()));
    for part in path.split('.') {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[part];
    }
}

impl Mailing {
    /// `None` where its contents are not kept any more.
    pub async fn load(app: &App, email_id: EmailId) -> Result<Option<Mailing>, DbError> {
        let rows = app.db.read(store::load(BroadcastId::from(email_id.uuid()))).await?;
        let Some(broadcast) = rows.first().map(Broadcast::read).transpose()? else { return Ok(None) };
        let Some(mut email) = emails::load(&app.db, email_id).await?.filter(|email| email.size.is_some()) else {
            return Ok(None);
        };
        let letter = Letter::parse(&email.summary.subject, email.html.as_deref(), email.text.as_deref());
        // From here on it is a frame for what is rendered.
        (email.html, email.text) = (None, None);
        let declared = app.db.read(contacts::declared_properties(broadcast.workspace_id)).await?;
        let unavailable = |error: Error| DbError::Unavailable(error.message().into_owned());
        Ok(Some(Mailing {
            letter: letter.map_err(|flaw| DbError::Broken(format!("a broadcast that was sent: {flaw}")))?,
            declared: Declared::read_all(&declared)?,
            variables: broadcast
                .content
                .template
                .as_ref()
                .map(|template| template.values().clone())
                .unwrap_or_default(),
            links: Links::of(app).await.map_err(unavailable)?,
            broadcast,
            email,
        }))
    }

    pub fn workspace_id(&self) -> WorkspaceId {
        self.broadcast.workspace_id
    }

    pub fn timing(&self) -> &Timing {
        &self.broadcast.content.timing
    }

    /// Until when those are waited for who may not get it yet, in wall time.
    pub fn ends_at(&self) -> Option<i64> {
        self.timing().ends_at(self.broadcast.started_at?)
    }

    /// What it is written with, beside what is known of its recipients.
    pub fn setting(&self) -> Setting<'_> {
        Setting {
            workspace_id: self.broadcast.workspace_id,
            email_id: Some(self.email.summary.id),
            topic_id: self.broadcast.content.topic_id,
            declared: &self.declared,
            variables: &self.variables,
            links: &self.links,
        }
    }

    /// The mail of the recipient with this number, made of these values.
    pub fn write(&self, number: i64, address: &str, values: &Map<String, Value>) -> Result<Stored, String> {
        let mut email = self.email.clone();
        let (subject, html, text) = self.letter.render(values)?;
        let size = html.as_ref().map_or(0, String::len) + text.as_ref().map_or(0, String::len);
        let summary = &mut email.summary;
        summary.id = own_id(summary.id, number);
        summary.message_id = format!("<{}@{}>", summary.id, email.sender_domain);
        summary.subject = subject;
        summary.envelope.to = vec![address.to_owned()];
        let url = URL_KEYS.iter().find_map(|key| values.get(*key)).and_then(Value::as_str).unwrap_or_default();
        let headers = self.links.headers(url);
        let named = headers.iter().map(|header| (header.name().to_owned(), header.value().to_owned()));
        summary.envelope.headers.extend(named);
        summary.envelope.headers.push(("Feedback-ID".to_owned(), self.feedback_id()));
        (email.html, email.text, email.size) = (html, text, Some(size as i64));
        Ok(email)
    }

    /// What mail services that send no reports of complaints add up by: it names nobody.
    fn feedback_id(&self) -> String {
        format!("{}:{}:broadcast:posthorn", self.broadcast.id, self.broadcast.workspace_id)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rendered(html: &str, values: Value) -> Result<String, String> {
        let letter = Letter::parse("Hello", Some(html), None).expect("a letter");
        let values = values.as_object().expect("an object").clone();
        letter.render(&values).map(|(_, html, _)| html.expect("a body"))
    }

    #[test]
    fn what_a_contact_lacks_is_written_as_nothing_and_a_misspelt_name_is_told() {
        let values = json!({"FIRST_NAME": null, "contact": {"first_name": "Ada"}});
        let html = "{{{FIRST_NAME|there}}} {{{contact.first_name}}}[{{{contact.plan}}}{{{contact.address.city}}}]";
        assert_eq!(rendered(html, values.clone()).expect("text"), "there Ada[]");
        let refusal = rendered("{{{FRIST_NAME}}}", values).expect_err("refused");
        assert!(refusal.contains("`html`") && refusal.contains("`FRIST_NAME`"), "{refusal}");
    }
}
