//! Sending an event from the dashboard, to try it: one that is defined, with the keys of its schema, or one by name.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::Events;
use super::definition_pages::find as find_event;
use super::event::EventName;
use super::happened_pages::happen;
use super::occurrences::{EventToSend, Order};
use super::payload::{Type, Types};
use super::store::{self, Stored};
use crate::accounts::{Manage, Member};
use crate::contacts::Email;
use crate::error::Error;
use crate::id::{EventId, OccurrenceId};
use crate::web::{self, Field, Form, Layout, PageResult, PathId, Shell};

pub fn router() -> Router<Events> {
    Router::new()
        .route("/events/send", get(ask_for_name).post(send_named))
        .route("/events/{id}/test", get(ask).post(send))
}

#[derive(Template)]
#[template(path = "events/test.html")]
struct TestPage {
    layout: Layout,
    shell: Shell,
    trouble: Option<String>,
    back: String,
    action: String,
    hidden: Vec<(String, String)>,
    subject: Subject,
    typed: Typed,
    /// How many enabled automations listen; unknown where the form names the event.
    listeners: Option<usize>,
}

/// What a form sends: an event that is defined, or the one that is named in it.
enum Subject {
    Defined(Stored),
    Named(Field),
}

impl Subject {
    fn name(&self) -> &str {
        match self {
            Subject::Defined(stored) => &stored.name,
            Subject::Named(field) => &field.value,
        }
    }

    fn schema(&self) -> Option<&str> {
        match self {
            Subject::Defined(stored) => stored.schema.as_deref(),
            Subject::Named(_) => None,
        }
    }

    fn purpose(&self) -> String {
        match self {
            Subject::Defined(stored) => format!("send event {} as", stored.id),
            Subject::Named(_) => "send event".to_owned(),
        }
    }

    /// Where its form goes, and the page behind it.
    fn paths(&self) -> (String, String) {
        match self {
            Subject::Defined(stored) => (format!("/events/{}/test", stored.id), format!("/events/{}", stored.id)),
            Subject::Named(_) => ("/events/send".to_owned(), "/events".to_owned()),
        }
    }
}

/// What is typed beside the event.
struct Typed {
    email: Field,
    values: Vec<ValueField>,
    more: Field,
}

/// What a key of the schema is given.
struct ValueField {
    /// `v0`, `v1` and so on: keys may be anything.
    name: String,
    key: String,
    kind: Type,
    hint: &'static str,
    typed: Field,
}

impl ValueField {
    /// Why what was typed cannot be sent.
    fn flaw(&self) -> Option<String> {
        let typed = &self.typed.value;
        (!typed.is_empty() && !self.kind.takes(typed)).then(|| format!("This must be {}.", self.kind.wanted()))
    }
}

/// The keys of a schema, with what was typed for them or samples.
fn values(schema: Option<&str>, typed: impl Fn(&str) -> Option<String>) -> Vec<ValueField> {
    let fields: Map<String, Value> = schema.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let known = fields.into_iter().filter_map(|(key, kind)| Some((key, Type::parse(kind.as_str()?)?)));
    let field = |(at, (key, kind)): (usize, (String, Type))| {
        let name = format!("v{at}");
        let hint = match kind {
            Type::String => "Text. Empty: left out.",
            Type::Number => "A number, such as 12 or 0.5. Empty: left out.",
            Type::Boolean => "true or false. Empty: left out.",
            Type::Date => "Such as 2026-01-31 or 2026-01-31T12:00:00Z. Empty: left out.",
        };
        let sample = || match kind.sample() {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let typed = Field::of(typed(&name).unwrap_or_else(sample));
        ValueField { typed, name, key, kind, hint }
    };
    known.enumerate().map(field).collect()
}

async fn ask(member: Member<Manage>, id: Result<PathId<EventId>, Error>) -> PageResult {
    let stored = find_event(&member, id).await?;
    offer(&member, Subject::Defined(stored)).await
}

/// For a name that may not be defined yet; one that is has a form with the keys of its schema.
async fn ask_for_name(member: Member<Manage>) -> PageResult {
    let name = member.asked("name").unwrap_or_default();
    let defined: Option<Stored> = member.query(store::by_name(member.workspace_id(), &name)).await?;
    match defined {
        Some(stored) => Ok(member.see_other(&format!("/events/{}/test", stored.id))),
        None => offer(&member, Subject::Named(Field::of(name))).await,
    }
}

async fn offer(member: &Member<Manage>, subject: Subject) -> PageResult {
    let id = member.app.clock.ordered_id();
    let email = Field::of(member.asked("email").unwrap_or_else(|| member.session.email.clone()));
    let values = values(subject.schema(), |_| None);
    test_page(member, StatusCode::OK, (id, subject), Typed { email, values, more: Field::default() }, None).await
}

async fn test_page(
    member: &Member<Manage>,
    status: StatusCode,
    (id, subject): (OccurrenceId, Subject),
    typed: Typed,
    trouble: Option<String>,
) -> PageResult {
    let listeners = match &subject {
        Subject::Defined(stored) => {
            let all: Vec<store::Listener> = member.query(store::listeners(member.workspace_id(), &stored.name)).await?;
            Some(all.iter().filter(|one| one.status == "enabled").count())
        }
        Subject::Named(_) => None,
    };
    let (action, back) = subject.paths();
    let content = TestPage {
        layout: member.layout(),
        shell: member.shell("/events"),
        trouble,
        back: member.address(&back),
        action: member.address(&action),
        hidden: member.hidden_making(&subject.purpose(), id),
        subject,
        typed,
        listeners,
    };
    let page: Response = web::page(status, &content);
    Ok(page)
}

async fn send(
    State(events): State<Events>,
    member: Member<Manage>,
    id: Result<PathId<EventId>, Error>,
    form: Form,
) -> PageResult {
    let stored = find_event(&member, id).await?;
    send_typed(&events, &member, &form, Subject::Defined(stored)).await
}

async fn send_named(State(events): State<Events>, member: Member<Manage>, form: Form) -> PageResult {
    let name = form.field("name");
    send_typed(&events, &member, &form, Subject::Named(name)).await
}

async fn send_typed(events: &Events, member: &Member<Manage>, form: &Form, mut subject: Subject) -> PageResult {
    let (id, accepted) = member.accept_making(&subject.purpose(), form)?;
    let mut typed = Typed {
        email: form.field("email"),
        values: values(subject.schema(), |name| Some(form.text(name))),
        more: form.field("more"),
    };
    for one in &mut typed.values {
        one.typed.error = one.flaw();
    }
    let is_flawless = typed.values.iter().all(|one| one.typed.error.is_none());
    let event = EventName::try_from(subject.name().to_owned());
    let payload = payload(subject.schema(), &typed.values, &typed.more.value);
    let order = match (event, read_email(&typed.email.value), payload) {
        (Ok(event), Ok(address), Ok(payload)) if is_flawless => {
            let event = EventToSend { event, contact_id: None, email: Some(address), payload: Some(payload) };
            Order::new(events, event)?.of_form(id)
        }
        (event, address, payload) => {
            if let Subject::Named(field) = &mut subject {
                field.error = event.err().map(|flaw| format!("The name {flaw}."));
            }
            typed.email.error = address.err();
            typed.more.error = payload.err();
            return test_page(member, StatusCode::UNPROCESSABLE_ENTITY, (id, subject), typed, None).await;
        }
    };
    match happen(events, member, &accepted, &order, "sent").await {
        // What a schema says that is newer than the form.
        Err(Error::Invalid { message }) => {
            test_page(member, StatusCode::UNPROCESSABLE_ENTITY, (id, subject), typed, Some(message)).await
        }
        sent => Ok(sent?),
    }
}

fn read_email(typed: &str) -> Result<Email, String> {
    Email::try_from(typed.trim().to_owned()).map_err(|flaw| format!("The address {flaw}."))
}

/// The payload that was typed: what the schema knows and takes, and more, or what is wrong with that.
fn payload(schema: Option<&str>, values: &[ValueField], more: &str) -> Result<Value, String> {
    let mut payload = match more.trim() {
        "" => Map::new(),
        text => match serde_json::from_str(text) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => return Err("This must be an object, such as {\"plan\": \"pro\"}.".into()),
            Err(flaw) => return Err(format!("This is not JSON: {flaw}.")),
        },
    };
    for field in values.iter().filter(|field| !field.typed.value.is_empty() && field.typed.error.is_none()) {
        // The schema brings it into its type.
        payload.insert(field.key.clone(), json!(field.typed.value));
    }
    let payload = Value::Object(payload);
    Types::of(schema).check(Some(&payload)).map_err(|flaw| flaw.message().into_owned())?;
    Ok(payload)
}
