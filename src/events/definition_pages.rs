//! One event in the dashboard: what it is, who listens to it, what happened.

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::{get, post};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Events;
use super::as_code::sending;
use super::event::{EventName, Schema};
use super::happened_pages::{OccurrenceRow, occurrence_rows};
use super::payload::Type;
use super::store::{self, Listener, Stored};
use crate::accounts::{Duty, Look, Manage, Member};
use crate::docs::Call;
use crate::error::{Error, OrMissing};
use crate::id::EventId;
use crate::web::{self, ConfirmPage, Field, Form, Layout, Leaf, PageResult, PathId, Shell, Stamp};

/// How many empty rows wait for more keys.
const BLANK: usize = 3;

type Id = Result<PathId<EventId>, Error>;

pub fn router() -> Router<Events> {
    Router::new()
        .route("/events/new", get(ask_new).post(create))
        .route("/events/{id}", get(show))
        .route("/events/{id}/schema", post(set_schema))
        .route("/events/{id}/delete", get(ask).post(delete))
}

/// A key of the payload and its type, as typed.
pub struct KeyRow {
    pub key: String,
    /// Word, and whether it is chosen.
    pub types: Vec<(&'static str, bool)>,
}

/// A schema as it is typed: in rows, or as JSON.
pub struct SchemaFields {
    pub rows: Vec<KeyRow>,
    pub json: Field,
    /// What is wrong with the rows.
    pub error: Option<String>,
}

fn row(key: &str, chosen: &str) -> KeyRow {
    KeyRow { key: key.to_owned(), types: Type::ALL.map(|kind| (kind.as_str(), kind.as_str() == chosen)).into() }
}

impl SchemaFields {
    fn new(pairs: &[(String, String)], json: String) -> SchemaFields {
        let rows = pairs.iter().map(|(key, kind)| row(key, kind)).chain((0..BLANK).map(|_| row("", "string")));
        SchemaFields { rows: rows.collect(), json: Field::of(json), error: None }
    }

    /// Of a schema as the store keeps it.
    fn of(schema: Option<&str>) -> SchemaFields {
        let fields: Map<String, Value> = schema.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let pair = |(key, kind): (&String, &Value)| (key.clone(), kind.as_str().unwrap_or_default().to_owned());
        let json = schema.map(|_| serde_json::to_string_pretty(&fields).unwrap_or_default()).unwrap_or_default();
        SchemaFields::new(&fields.iter().map(pair).collect::<Vec<_>>(), json)
    }

    /// As typed, and what it asks for; `None` asks for any payload.
    fn read(form: &Form) -> Result<Option<Schema>, SchemaFields> {
        let pairs: Vec<(String, String)> = form.all("key").into_iter().zip(form.all("kind")).collect();
        let pairs: Vec<(String, String)> = pairs.into_iter().filter(|(key, _)| !key.trim().is_empty()).collect();
        let text = form.text("json");
        if form.text("as") == "json" {
            let read = match text.trim() {
                "" | "null" => return Ok(None),
                text => serde_json::from_str::<Value>(text).map_err(|flaw| format!("This is not JSON: {flaw}.")),
            };
            return read.and_then(schema).map(Some).map_err(|flaw| {
                let mut fields = SchemaFields::new(&pairs, text);
                fields.json.error = Some(flaw);
                fields
            });
        }
        if pairs.is_empty() {
            return Ok(None);
        }
        let object: Map<String, Value> = pairs.iter().map(|(key, kind)| (key.trim().to_owned(), json!(kind))).collect();
        let read = match object.len() == pairs.len() {
            true => schema(Value::Object(object)),
            false => Err("Two rows have the same name.".to_owned()),
        };
        read.map(Some).map_err(|flaw| SchemaFields { error: Some(flaw), ..SchemaFields::new(&pairs, text) })
    }
}

fn schema(value: Value) -> Result<Schema, String> {
    Schema::deserialize(value).map_err(|flaw| format!("The schema {flaw}."))
}

#[derive(Template)]
#[template(path = "events/new.html")]
struct NewPage {
    layout: Layout,
    shell: Shell,
    back: String,
    action: String,
    hidden: Vec<(String, String)>,
    named: Field,
    schema: SchemaFields,
}

const DEFINE: &str = "create event";

async fn ask_new(member: Member<Manage>) -> PageResult {
    let name = Field::of(member.asked("name").unwrap_or_default());
    let id = member.app.clock.ordered_id();
    Ok(new_page(&member, StatusCode::OK, id, name, SchemaFields::of(None)))
}

fn new_page(member: &Member<Manage>, status: StatusCode, id: EventId, name: Field, schema: SchemaFields) -> Response {
    let content = NewPage {
        layout: member.layout(),
        shell: member.shell("/events"),
        back: member.address("/events"),
        action: member.address("/events/new"),
        hidden: member.hidden_making(DEFINE, id),
        named: name,
        schema,
    };
    web::page(status, &content)
}

async fn create(member: Member<Manage>, form: Form) -> PageResult {
    let (id, accepted): (EventId, _) = member.accept_making(DEFINE, &form)?;
    let mut field = form.field("name");
    let name = EventName::try_from(field.value.clone());
    let schema = SchemaFields::read(&form);
    let (name, schema) = match (name, schema) {
        (Ok(name), Ok(schema)) => (name, schema),
        (name, schema) => {
            field.error = name.err().map(|flaw| format!("The name {flaw}."));
            let typed =
                schema.map_or_else(|typed| typed, |schema| SchemaFields::of(schema.as_ref().map(Schema::as_str)));
            return Ok(new_page(&member, StatusCode::UNPROCESSABLE_ENTITY, id, field, typed));
        }
    };
    let insert = store::insert(member.workspace_id(), id, &name, schema.as_ref(), member.app.clock.now());
    match accepted.commit(insert.into()).await? {
        Ok(_) | Err(crate::db::DbError::Duplicate(_)) => Ok(member.see_other(&format!("/events/{id}?made"))),
        Err(error) => Err(error.into()),
    }
}

#[derive(Template)]
#[template(path = "events/one.html")]
struct EventPage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    back: String,
    address: String,
    id: EventId,
    name: String,
    by_use: bool,
    created: Stamp,
    updated: Option<Stamp>,
    /// The newer definition that has replaced this one.
    newer_definition: Option<String>,
    schema: SchemaFields,
    has_schema: bool,
    hidden: Vec<(String, String)>,
    may_manage: bool,
    listeners: Vec<ListenerRow>,
    occurrences: Vec<OccurrenceRow>,
    newer: Option<String>,
    older: Option<String>,
    code: Call,
}

struct ListenerRow {
    href: String,
    name: String,
    is_enabled: bool,
}

pub fn gone() -> Error {
    Error::not_found("There is no such event here. It may have been deleted already.")
}

pub async fn find<D: Duty>(member: &Member<D>, id: Id) -> Result<Stored, Error> {
    let PathId(id) = id.map_err(|_| gone())?;
    member.query::<Option<Stored>>(store::by_id(member.workspace_id(), id)).await?.ok_or_else(gone)
}

async fn show(member: Member<Look>, id: Id) -> PageResult {
    let stored = find(&member, id).await?;
    let schema = SchemaFields::of(stored.schema.as_deref());
    event_page(&member, StatusCode::OK, stored, schema).await
}

fn purpose(act: &str, id: EventId) -> String {
    format!("{act} event {id}")
}

async fn event_page<D: Duty>(
    member: &Member<D>,
    status: StatusCode,
    stored: Stored,
    schema: SchemaFields,
) -> PageResult {
    let address = member.address(&format!("/events/{}", stored.id));
    let listening: Vec<Listener> = member.query(store::listeners(member.workspace_id(), &stored.name)).await?;
    let listener = |one: Listener| ListenerRow {
        href: member.address(&format!("/automations/{}", one.id)),
        name: one.name,
        is_enabled: one.status == "enabled",
    };
    let Leaf { items, newer, older } = occurrence_rows(member, &stored.name, &address).await?;
    let in_force: Option<Stored> = member.query(store::by_name(member.workspace_id(), &stored.name)).await?;
    let replaced = in_force.filter(|newest| newest.id != stored.id);
    let now = member.app.clock.now();
    let content = EventPage {
        layout: member.layout(),
        shell: member.shell("/events"),
        notice: member
            .notice("made", "The event is defined. Automations can start from it.")
            .or(member.notice("saved", "The schema is saved: it holds from the next event on.")),
        back: member.address("/events"),
        id: stored.id,
        by_use: stored.defined_by_use,
        created: Stamp::ago(stored.created_at, now),
        updated: stored.updated_at.map(|at| Stamp::ago(at, now)),
        newer_definition: replaced.map(|newest| member.address(&format!("/events/{}", newest.id))),
        has_schema: stored.schema.is_some(),
        schema,
        hidden: member.hidden(&purpose("change", stored.id)),
        may_manage: member.may_manage(),
        listeners: listening.into_iter().map(listener).collect(),
        occurrences: items,
        newer,
        older,
        code: sending(&member.app, &stored.name, stored.schema.as_deref()),
        name: stored.name,
        address,
    };
    Ok(web::page(status, &content))
}

async fn set_schema(member: Member<Manage>, id: Id, form: Form) -> PageResult {
    let stored = find(&member, id).await?;
    let accepted = member.accept(&purpose("change", stored.id), &form)?;
    let schema = match SchemaFields::read(&form) {
        Ok(schema) => schema,
        Err(typed) => return event_page(&member, StatusCode::UNPROCESSABLE_ENTITY, stored, typed).await,
    };
    let set = store::set_schema(member.workspace_id(), stored.id, schema.as_ref(), member.app.clock.now());
    accepted.commit(set.into()).await?.or_missing(gone)?;
    Ok(member.see_other(&format!("/events/{}?saved", stored.id)))
}

async fn ask(member: Member<Manage>, id: Id) -> PageResult {
    let stored = find(&member, id).await?;
    let listening: Vec<Listener> = member.query(store::listeners(member.workspace_id(), &stored.name)).await?;
    let still = match listening.len() {
        0 => "No automation listens to it.".to_owned(),
        1 => "1 automation listens to its name and goes on doing so.".to_owned(),
        many => format!("{many} automations listen to its name and go on doing so."),
    };
    let content = ConfirmPage {
        layout: member.layout(),
        shell: member.shell("/events"),
        title: "Delete this event?".into(),
        subject: stored.name,
        sentence: format!(
            "Its definition and schema are gone; what happened stays. An older definition of the name is in force again. {still}"
        ),
        action: member.address(&format!("/events/{}/delete", stored.id)),
        hidden: member.hidden(&purpose("delete", stored.id)),
        button: "Delete".into(),
        cancel: member.address(&format!("/events/{}", stored.id)),
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn delete(member: Member<Manage>, id: Id, form: Form) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let accepted = member.accept(&purpose("delete", id), &form)?;
    accepted.commit(store::delete(member.workspace_id(), id).into()).await?.or_missing(gone)?;
    Ok(member.see_other("/events?deleted"))
}
