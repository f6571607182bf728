//! Webhooks in the dashboard: what there is, and what is changed of it.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use http::StatusCode;
use serde_json::{Map, Value};

use super::event::{EventType, EventTypes};
use super::routes::{NewRow, change, making, rotating, too_many};
use super::shapes::{Item, WebhookDetail};
use super::webhook::{NewWebhook, Status, WebhookChange};
use super::{page_one, store};
use crate::accounts::{Duty, Look, Manage, Member};
use crate::app::App;
use crate::calls;
use crate::db::DbError;
use crate::error::{Error, OrMissing};
use crate::id::WebhookId;
use crate::web::{self, ConfirmPage, Field, Form, Layout, Leaf, Link, PageResult, PathId, Shell, Stamp};

pub fn router() -> Router<App> {
    Router::new()
        .route("/webhooks", get(list))
        .route("/webhooks/new", get(ask_new).post(create))
        .route("/webhooks/{id}/edit", get(ask_change).post(edit))
        .route("/webhooks/{id}/enable", post(enable))
        .route("/webhooks/{id}/disable", post(disable))
        .route("/webhooks/{id}/rotate", get(ask_rotate).post(rotate))
        .route("/webhooks/{id}/delete", get(ask_delete).post(delete))
        .merge(page_one::router())
}

/// How a status is shown.
pub struct Badge {
    pub look: &'static str,
    pub word: &'static str,
}

impl From<Status> for Badge {
    fn from(status: Status) -> Badge {
        match status {
            Status::Enabled => Badge { look: "good", word: "Enabled" },
            Status::Disabled => Badge { look: "bad", word: "Disabled" },
        }
    }
}

#[derive(Template)]
#[template(path = "webhooks/list.html")]
struct ListPage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    new: Option<String>,
    webhooks: Vec<Row>,
    newer: Option<String>,
    older: Option<String>,
}

struct Row {
    href: String,
    endpoint: String,
    events: String,
    status: Badge,
    reason: Option<String>,
    created: Stamp,
}

#[derive(Template)]
#[template(path = "webhooks/edit.html")]
struct EditPage {
    layout: Layout,
    shell: Shell,
    title: &'static str,
    back: Link,
    action: String,
    hidden: Vec<(String, String)>,
    problem: Option<String>,
    endpoint: Field,
    groups: Vec<Group>,
    events_error: Option<String>,
    button: &'static str,
}

/// Event types about the same thing.
struct Group {
    name: &'static str,
    types: Vec<(&'static str, bool)>,
}

/// A secret, shown this once.
#[derive(Template)]
#[template(path = "webhooks/secret.html")]
struct SecretPage {
    layout: Layout,
    shell: Shell,
    endpoint: String,
    secret: String,
    is_new: bool,
    href: String,
}

pub fn gone() -> Error {
    Error::not_found("There is no such webhook here. It may have been deleted already.")
}

pub type Id = Result<PathId<WebhookId>, Error>;

pub async fn find<D: Duty>(member: &Member<D>, id: Id) -> Result<WebhookDetail, Error> {
    let PathId(id) = id.map_err(|_| gone())?;
    member.query::<Option<WebhookDetail>>(store::by_id(member.workspace_id(), id)).await?.ok_or_else(gone)
}

const CREATE: &str = "create webhook";

pub fn purpose(act: &str, id: WebhookId) -> String {
    format!("{act} webhook {id}")
}

async fn list(member: Member<Look>) -> PageResult {
    let page = member.page()?;
    let stored: Vec<Item> = member.query(store::page(member.workspace_id(), &page)).await?;
    let Leaf { items, newer, older } = page.leaf(stored, &member.address("/webhooks"), |one| one.id);
    let now = member.app.clock.now();
    let row = |one: Item| Row {
        href: member.address(&format!("/webhooks/{}", one.id)),
        events: match one.events.iter().count() {
            all if all == EventType::ALL.len() => "everything".into(),
            1 => one.events.iter().map(EventType::as_str).collect(),
            count => format!("{count} types of events"),
        },
        status: one.status.into(),
        reason: one.disabled_reason,
        created: Stamp::ago(one.created_at.0, now),
        endpoint: one.endpoint,
    };
    let content = ListPage {
        layout: member.layout(),
        shell: member.shell("/webhooks"),
        notice: member.notice("deleted", "The webhook is deleted."),
        new: member.may_manage().then(|| member.address("/webhooks/new")),
        webhooks: items.into_iter().map(row).collect(),
        newer,
        older,
    };
    Ok(web::page(StatusCode::OK, &content))
}

/// Types by what stands before the first dot.
fn groups(chosen: EventTypes) -> Vec<Group> {
    let names = [
        ("Email", "email."),
        ("Contacts", "contact."),
        ("Domains", "domain."),
        ("Suppressions", "suppression."),
        ("Topics", "topic."),
        ("Automations", "automation."),
        ("Connected apps", "oauth."),
    ];
    let types = |start: &str| {
        let all = EventType::ALL.into_iter().filter(|one| one.as_str().starts_with(start));
        all.map(|one| (one.as_str(), chosen.contains(one))).collect()
    };
    names.map(|(name, start)| Group { name, types: types(start) }).into()
}

/// What was chosen in a form.
fn chosen(form: &Form) -> EventTypes {
    form.all("event").iter().filter_map(|word| EventType::parse(word)).collect()
}

/// What was typed, as a request would say it.
fn fields(form: &Form) -> Map<String, Value> {
    let events: Vec<Value> = form.all("event").into_iter().map(Value::from).collect();
    Map::from_iter([("endpoint".to_owned(), form.text("endpoint").trim().into()), ("events".to_owned(), events.into())])
}

impl EditPage {
    fn of_new(member: &Member<Manage>, id: WebhookId, endpoint: String, events: EventTypes) -> EditPage {
        EditPage {
            layout: member.layout(),
            shell: member.shell("/webhooks"),
            title: "New webhook",
            back: Link { href: member.address("/webhooks"), label: "Webhooks".into() },
            action: member.address("/webhooks/new"),
            hidden: member.hidden_making(CREATE, id),
            problem: None,
            endpoint: Field::of(endpoint),
            groups: groups(events),
            events_error: None,
            button: "Create webhook",
        }
    }

    fn of_change(member: &Member<Manage>, webhook: &Item, endpoint: String, events: EventTypes) -> EditPage {
        let address = member.address(&format!("/webhooks/{}", webhook.id));
        EditPage {
            title: "Edit webhook",
            action: format!("{address}/edit"),
            back: Link { href: address, label: webhook.endpoint.clone() },
            hidden: member.hidden(&purpose("change", webhook.id)),
            button: "Save",
            ..EditPage::of_new(member, webhook.id, endpoint, events)
        }
    }

    fn refused(mut self, refusal: &Error) -> PageResult {
        let message = Some(refusal.message().into_owned());
        match web::field_of(refusal).as_deref() {
            Some("endpoint") => self.endpoint.error = message,
            Some("events") => self.events_error = message,
            _ => self.problem = message,
        }
        Ok(web::page(refusal.status(), &self))
    }
}

async fn ask_new(member: Member<Manage>) -> PageResult {
    let id = member.app.clock.ordered_id();
    Ok(web::page(StatusCode::OK, &EditPage::of_new(&member, id, String::new(), EventTypes::default())))
}

async fn create(member: Member<Manage>, State(app): State<App>, form: Form) -> PageResult {
    let (id, accepted): (WebhookId, _) = member.accept_making(CREATE, &form)?;
    let refused =
        |refusal: Error| EditPage::of_new(&member, id, form.text("endpoint"), chosen(&form)).refused(&refusal);
    let read = web::read_fields::<NewWebhook>(fields(&form));
    let read = read.and_then(|new| new.endpoint.must_be_allowed(app.config.private_webhooks).map(|()| new));
    let NewWebhook { endpoint, events } = match read {
        Ok(new) => new,
        Err(refusal) => return refused(refusal),
    };
    let secret = calls::new_secret();
    let sealed = app.seal.close_text(&secret);
    let new = NewRow { id, endpoint: &endpoint, events, sealed: &sealed };
    match accepted.try_commit(|| making(&accepted, &app, &new)).await? {
        // The same form again: its secret was shown then.
        Err(DbError::Duplicate(_)) => return Ok(member.see_other(&format!("/webhooks/{id}"))),
        Err(DbError::Unexpected { .. }) => return refused(too_many()),
        settled => drop(settled?),
    }
    Ok(secret_page(&member, (id, endpoint.as_str()), secret, true))
}

fn secret_page(
    member: &Member<Manage>,
    (id, endpoint): (WebhookId, &str),
    secret: String,
    is_new: bool,
) -> axum::response::Response {
    let content = SecretPage {
        layout: member.layout(),
        shell: member.shell("/webhooks"),
        endpoint: endpoint.to_owned(),
        secret,
        is_new,
        href: member.address(&format!("/webhooks/{id}")),
    };
    web::page(StatusCode::OK, &content)
}

async fn ask_change(member: Member<Manage>, id: Id) -> PageResult {
    let WebhookDetail { item, .. } = find(&member, id).await?;
    let (endpoint, events) = (item.endpoint.clone(), item.events);
    Ok(web::page(StatusCode::OK, &EditPage::of_change(&member, &item, endpoint, events)))
}

async fn edit(member: Member<Manage>, State(app): State<App>, id: Id, form: Form) -> PageResult {
    let WebhookDetail { item, .. } = find(&member, id).await?;
    let accepted = member.accept(&purpose("change", item.id), &form)?;
    let changing = async {
        let given: WebhookChange = web::read_fields(fields(&form))?;
        change(&accepted, &app, item.id, given).await
    };
    match changing.await {
        Ok(()) => Ok(member.see_other(&format!("/webhooks/{}?saved", item.id))),
        Err(refusal) if refusal.status() == StatusCode::UNPROCESSABLE_ENTITY => {
            EditPage::of_change(&member, &item, form.text("endpoint"), chosen(&form)).refused(&refusal)
        }
        Err(error) => Err(error.into()),
    }
}

async fn enable(member: Member<Manage>, State(app): State<App>, id: Id, form: Form) -> PageResult {
    set_status(&member, &app, id, &form, Status::Enabled).await
}

async fn disable(member: Member<Manage>, State(app): State<App>, id: Id, form: Form) -> PageResult {
    set_status(&member, &app, id, &form, Status::Disabled).await
}

async fn set_status(member: &Member<Manage>, app: &App, id: Id, form: &Form, status: Status) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let word = if status == Status::Enabled { "enable" } else { "disable" };
    let accepted = member.accept(&purpose(word, id), form)?;
    let given = WebhookChange { endpoint: None, events: None, status: Some(status) };
    change(&accepted, app, id, given).await?;
    Ok(member.see_other(&format!("/webhooks/{id}?{status}")))
}

async fn ask_rotate(member: Member<Manage>, id: Id) -> PageResult {
    let WebhookDetail { item, .. } = find(&member, id).await?;
    let address = member.address(&format!("/webhooks/{}", item.id));
    let content = ConfirmPage {
        layout: member.layout(),
        shell: member.shell("/webhooks"),
        title: "Make a new signing secret?".into(),
        subject: item.endpoint,
        sentence: "For a day deliveries are signed with the new secret and with the one before. Put the new one where \
                   you verify them within that day, and nothing is lost."
            .into(),
        action: format!("{address}/rotate"),
        hidden: member.hidden(&purpose("rotate", item.id)),
        button: "Make a new secret".into(),
        cancel: address,
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn rotate(member: Member<Manage>, State(app): State<App>, id: Id, form: Form) -> PageResult {
    let WebhookDetail { item, .. } = find(&member, id).await?;
    let accepted = member.accept(&purpose("rotate", item.id), &form)?;
    let secret = calls::new_secret();
    let rotation = rotating(&app, member.workspace_id(), item.id, &secret);
    accepted.try_commit(|| rotation.clone().into()).await?.or_missing(gone)?;
    Ok(secret_page(&member, (item.id, &item.endpoint), secret, false))
}

async fn ask_delete(member: Member<Manage>, id: Id) -> PageResult {
    let WebhookDetail { item, .. } = find(&member, id).await?;
    let address = member.address(&format!("/webhooks/{}", item.id));
    let content = ConfirmPage {
        layout: member.layout(),
        shell: member.shell("/webhooks"),
        title: "Delete this webhook?".into(),
        subject: item.endpoint,
        sentence: "Nothing is delivered to it any more, what waits for it is dropped, and what it was told is \
                   forgotten. This cannot be undone."
            .into(),
        action: format!("{address}/delete"),
        hidden: member.hidden(&purpose("delete", item.id)),
        button: "Delete".into(),
        cancel: address,
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn delete(member: Member<Manage>, id: Id, form: Form) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let accepted = member.accept(&purpose("delete", id), &form)?;
    accepted.try_commit(|| store::delete(member.workspace_id(), id)).await?.or_missing(gone)?;
    Ok(member.see_other("/webhooks?deleted"))
}
