//! Declared properties in the dashboard.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use http::StatusCode;
use serde_json::Value;

use super::properties::{Declared, Kind, PropertyKey};
use super::properties_routes as routes;
use super::properties_store as store;
use crate::accounts::{Duty, Look, Manage, Member};
use crate::db::DbError;
use crate::error::Error;
use crate::id::PropertyId;
use crate::occurrences::Occurrences;
use crate::web::{self, ConfirmPage, Field, Form, Layout, Leaf, Page, PageResult, PathId, RECENT, Shell, Stamp};

pub fn router() -> Router<Occurrences> {
    Router::new()
        .route("/properties", get(list).post(create))
        .route("/properties/{id}/fallback", post(set_fallback))
        .route("/properties/{id}/delete", get(ask).post(delete))
}

const DECLARE: &str = "create a property";

#[derive(Template)]
#[template(path = "contacts/properties.html")]
struct ListPage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    may_manage: bool,
    hidden: Vec<(String, String)>,
    draft: Draft,
    properties: Vec<PropertyRow>,
    newer: Option<String>,
    older: Option<String>,
}

/// A property that is to be declared.
#[derive(Default)]
struct Draft {
    key: Field,
    is_number: bool,
    fallback: Field,
    /// Whose fallback was refused, and what was typed for it.
    refused: Option<(PropertyId, Field)>,
}

struct PropertyRow {
    address: String,
    key: String,
    kind: &'static str,
    fallback: Field,
    hidden: Vec<(String, String)>,
    created: Stamp,
}

fn gone() -> Error {
    Error::not_found("There is no such property here. It may have been deleted already.")
}

async fn list(member: Member<Look>) -> PageResult {
    Ok(page(&member, StatusCode::OK, &member.page()?, Draft::default()).await?)
}

async fn page<D: Duty>(member: &Member<D>, status: StatusCode, page: &Page, draft: Draft) -> Result<Response, Error> {
    let rows = member.read(store::page(member.workspace_id(), page)).await?;
    let stored: Result<Vec<Declared>, DbError> = rows.iter().map(Declared::read).collect();
    let Leaf { items, newer, older } = page.leaf(stored?, &member.address("/properties"), |property| property.id);
    let now = member.app.clock.now();
    let row = |property: Declared| {
        let stored = match &property.fallback {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        let typed = draft.refused.as_ref().filter(|(id, _)| *id == property.id).map(|(_, field)| field.clone());
        PropertyRow {
            address: member.address(&format!("/properties/{}", property.id)),
            kind: property.kind.as_str(),
            fallback: typed.unwrap_or(Field::of(stored)),
            hidden: member.hidden(&fallback_of(property.id)),
            created: Stamp::ago(property.created_at, now),
            key: property.key,
        }
    };
    let properties = items.into_iter().map(row).collect();
    let content = ListPage {
        layout: member.layout(),
        shell: member.shell("/properties"),
        notice: member
            .notice("declared", "The property is declared.")
            .or(member.notice("saved", "The fallback is saved."))
            .or(member.notice("deleted", "The property is not declared any more. Contacts keep their values."))
            .filter(|_| status == StatusCode::OK),
        may_manage: member.may_manage(),
        hidden: member.hidden(DECLARE),
        properties,
        draft,
        newer,
        older,
    };
    Ok(web::page(status, &content))
}

fn fallback_of(id: PropertyId) -> String {
    format!("fallback of property {id}")
}

/// What was typed, as a value of the type. What cannot be read so stays text, and is refused as such.
fn typed(kind: Kind, text: &str) -> Option<Value> {
    let number = || serde_json::from_str::<serde_json::Number>(text.trim()).ok().map(Value::Number);
    match (text.is_empty(), kind) {
        (true, _) => None,
        (false, Kind::Number) => Some(number().unwrap_or_else(|| text.into())),
        (false, Kind::String) => Some(text.into()),
    }
}

/// What a person can mend.
fn is_theirs(error: &Error) -> bool {
    matches!(error, Error::Invalid { .. } | Error::Missing { .. } | Error::Conflict { .. })
}

async fn create(State(app): State<Occurrences>, member: Member<Manage>, form: Form) -> PageResult {
    let accepted = member.accept(DECLARE, &form)?;
    let kind = if form.text("type") == "number" { Kind::Number } else { Kind::String };
    let (key, fallback) = (form.text("key"), form.text("fallback_value"));
    let declared = async {
        let wrong = |wrong: String| Error::invalid(format!("The `key` field {wrong}."));
        let key = PropertyKey::try_from(key.trim().to_owned()).map_err(wrong)?;
        let value = kind.fallback(typed(kind, &fallback))?;
        routes::declare(&accepted, &app, (&key, kind), value.as_ref()).await
    };
    match declared.await {
        Ok(()) => Ok(member.see_other("/properties?declared")),
        Err(error) if is_theirs(&error) => {
            let message = error.message().into_owned();
            let is_fallback = message.contains("`fallback_value`");
            let draft = Draft {
                key: Field { value: key, error: (!is_fallback).then(|| message.clone()) },
                is_number: kind == Kind::Number,
                fallback: Field { value: fallback, error: is_fallback.then_some(message) },
                refused: None,
            };
            Ok(page(&member, StatusCode::UNPROCESSABLE_ENTITY, &Page::parse("", RECENT)?, draft).await?)
        }
        Err(error) => Err(error.into()),
    }
}

async fn set_fallback(member: Member<Manage>, id: Result<PathId<PropertyId>, Error>, form: Form) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let property = routes::find(&member, id).await?;
    let accepted = member.accept(&fallback_of(id), &form)?;
    let given = form.text("fallback_value");
    match property.kind.fallback(typed(property.kind, &given)) {
        Ok(fallback) => {
            routes::set_fallback(&accepted, id, fallback.as_ref()).await?;
            Ok(member.see_other("/properties?saved"))
        }
        Err(error) => {
            let field = Field { value: given, error: Some(error.message().into_owned()) };
            let draft = Draft { refused: Some((id, field)), ..Draft::default() };
            // The property is to be on the page, wherever in the list it stands.
            Ok(page(&member, StatusCode::UNPROCESSABLE_ENTITY, &Page::parse("limit=100", RECENT)?, draft).await?)
        }
    }
}

async fn ask(member: Member<Manage>, id: Result<PathId<PropertyId>, Error>) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let property = routes::find(&member, id).await?;
    let content = ConfirmPage {
        layout: member.layout(),
        shell: member.shell("/properties"),
        title: "Delete this declaration?".into(),
        subject: property.key,
        sentence: "Contacts keep their values, which may be of any type from then on. The fallback is gone, and \
                   segments cannot ask for it in new rules."
            .into(),
        action: member.address(&format!("/properties/{id}/delete")),
        hidden: member.hidden(&format!("delete property {id}")),
        button: "Delete".into(),
        cancel: member.address("/properties"),
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn delete(member: Member<Manage>, id: Result<PathId<PropertyId>, Error>, form: Form) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let accepted = member.accept(&format!("delete property {id}"), &form)?;
    routes::remove(&accepted, id).await?;
    Ok(member.see_other("/properties?deleted"))
}
