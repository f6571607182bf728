//! Forms with which strangers subscribe, in the dashboard.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use serde_json::{Map, Value};

use super::form::{Form, FormChange, NewForm, embedded};
use super::{Forms, routes, store};
use crate::accounts::{Duty, Look, Manage, Member};
use crate::error::Error;
use crate::id::{FormId, SegmentId, TopicId};
use crate::web::{self, ConfirmPage, Field, Layout, Leaf, PageResult, PathId, Shell, Stamp};
use crate::{segments, topics};

const CREATE: &str = "create form";

pub fn router() -> Router<Forms> {
    Router::new()
        .route("/forms", get(list))
        .route("/forms/new", get(blank).post(create))
        .route("/forms/{id}", get(show).post(change))
        .route("/forms/{id}/delete", get(ask).post(delete))
}

#[derive(Template)]
#[template(path = "forms/list.html")]
struct ListPage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    may_manage: bool,
    forms: Vec<FormRow>,
    newer: Option<String>,
    older: Option<String>,
}

struct FormRow {
    href: String,
    name: String,
    from: String,
    is_enabled: bool,
    created: Stamp,
}

/// One form, or one that is to be made.
#[derive(Template)]
#[template(path = "forms/one.html")]
struct OnePage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    may_manage: bool,
    title: String,
    action: String,
    hidden: Vec<(String, String)>,
    shown: Option<Shown>,
    typed: Typed,
    segments: Vec<(String, String)>,
    topics: Vec<(TopicId, String, bool)>,
}

/// What there is of a form that exists.
struct Shown {
    id: FormId,
    url: String,
    html: String,
    created: Stamp,
    is_enabled: bool,
}

impl Shown {
    fn of(form: &Form, forms: &Forms) -> Shown {
        let url = form.url(forms);
        let created = Stamp::ago(form.created_at, forms.clock.now());
        Shown { id: form.id, html: embedded(&url), url, created, is_enabled: form.enabled }
    }
}

/// What was typed.
#[derive(Default)]
struct Typed {
    name: Field,
    from: Field,
    heading: Field,
    text: Field,
    redirect_url: Field,
    segment_id: Field,
    topics: Vec<String>,
    /// Holds what is wrong with them.
    topics_field: Field,
    is_enabled: bool,
    /// What is wrong, and stands beside no field.
    problem: Option<String>,
}

impl Typed {
    fn of(form: &Form) -> Typed {
        let field = |value: Option<String>| Field::of(value.unwrap_or_default());
        Typed {
            name: field(Some(form.name.clone())),
            from: field(Some(form.from.clone())),
            heading: field(form.heading.clone()),
            text: field(form.text.clone()),
            redirect_url: field(form.redirect_url.clone()),
            segment_id: field(form.segment_id.map(|id| id.to_string())),
            topics: form.topics.0.iter().map(ToString::to_string).collect(),
            topics_field: Field::default(),
            is_enabled: form.enabled,
            problem: None,
        }
    }

    fn sent(form: &web::Form) -> Typed {
        Typed {
            name: form.field("name"),
            from: form.field("from"),
            heading: form.field("heading"),
            text: Field::of(form.lines("text")),
            redirect_url: form.field("redirect_url"),
            segment_id: form.field("segment_id"),
            topics: form.all("topics"),
            topics_field: Field::default(),
            is_enabled: form.text("enabled") == "on",
            problem: None,
        }
    }

    /// What a request with the same wish would say.
    fn fields(&self) -> Map<String, Value> {
        let text = |field: &Field| Value::from(field.value.trim());
        let or_null = |field: &Field| if field.value.trim().is_empty() { Value::Null } else { text(field) };
        let fields = [
            ("name", text(&self.name)),
            ("from", text(&self.from)),
            ("heading", or_null(&self.heading)),
            ("text", or_null(&self.text)),
            ("redirect_url", or_null(&self.redirect_url)),
            ("segment_id", or_null(&self.segment_id)),
            ("topics", self.topics.clone().into()),
            ("enabled", self.is_enabled.into()),
        ];
        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// The same with what is wrong beside its field. What is nobody's fault is an error still.
    fn refused(mut self, error: Error) -> Result<Typed, Error> {
        if !error.status().is_client_error() {
            return Err(error);
        }
        let fields = [
            ("name", &mut self.name),
            ("from", &mut self.from),
            ("heading", &mut self.heading),
            ("text", &mut self.text),
            ("redirect_url", &mut self.redirect_url),
            ("segment_id", &mut self.segment_id),
            ("topics", &mut self.topics_field),
        ];
        self.problem = web::beside_field(&error, fields);
        Ok(self)
    }
}

async fn list(member: Member<Look>) -> PageResult {
    let page = member.page()?;
    let rows = member.read(store::page(member.workspace_id(), &page)).await?;
    let stored: Vec<Form> = rows.iter().map(Form::read).collect::<Result<_, _>>()?;
    let Leaf { items, newer, older } = page.leaf(stored, &member.address("/forms"), |form| form.id);
    let now = member.app.clock.now();
    let row = |form: Form| FormRow {
        href: member.address(&format!("/forms/{}", form.id)),
        name: form.name,
        from: form.from,
        is_enabled: form.enabled,
        created: Stamp::ago(form.created_at, now),
    };
    let content = ListPage {
        layout: member.layout(),
        shell: member.shell("/forms"),
        notice: member
            .notice("deleted", "The form is deleted. Who was asked and has not answered cannot confirm any more."),
        may_manage: member.may_manage(),
        forms: items.into_iter().map(row).collect(),
        newer,
        older,
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn one_page<D: Duty>(
    member: &Member<D>,
    status: StatusCode,
    shown: Option<Shown>,
    typed: Typed,
) -> Result<Response, Error> {
    let segments: Vec<(SegmentId, String)> = member.query(segments::names(member.workspace_id())).await?;
    let topics: Vec<(TopicId, String)> = member.query(topics::choices(member.workspace_id())).await?;
    let none = (String::new(), "None".to_owned());
    let is_chosen = |id: TopicId| typed.topics.contains(&id.to_string());
    let (hidden, path) = match &shown {
        Some(Shown { id, .. }) => (member.hidden(&changing(*id)), format!("/forms/{id}")),
        None => {
            let id: FormId = member.app.clock.ordered_id();
            (member.hidden_making(CREATE, id), "/forms/new".to_owned())
        }
    };
    let content = OnePage {
        layout: member.layout(),
        shell: member.shell("/forms"),
        notice: member
            .notice("created", "The form is made. Strangers can use it once it is switched on.")
            .or(member.notice("saved", "The form is saved."))
            .filter(|_| status == StatusCode::OK),
        may_manage: member.may_manage(),
        title: if shown.is_some() { typed.name.value.clone() } else { "New form".into() },
        action: member.address(&path),
        hidden,
        segments: std::iter::once(none).chain(segments.into_iter().map(|(id, name)| (id.to_string(), name))).collect(),
        topics: topics.into_iter().map(|(id, name)| (id, name, is_chosen(id))).collect(),
        shown,
        typed,
    };
    Ok(web::page(status, &content))
}

fn changing(id: FormId) -> String {
    format!("change form {id}")
}

async fn blank(member: Member<Manage>) -> PageResult {
    Ok(one_page(&member, StatusCode::OK, None, Typed::default()).await?)
}

async fn create(member: Member<Manage>, State(forms): State<Forms>, form: web::Form) -> PageResult {
    let (id, accepted) = member.accept_making(CREATE, &form)?;
    let typed = Typed::sent(&form);
    let made = async {
        let new: NewForm = web::read_fields(typed.fields())?;
        routes::add(&forms, &accepted, id, new).await
    };
    match made.await {
        Ok(()) => Ok(member.see_other(&format!("/forms/{id}?created"))),
        Err(error) => {
            let typed = typed.refused(error)?;
            Ok(one_page(&member, StatusCode::UNPROCESSABLE_ENTITY, None, typed).await?)
        }
    }
}

async fn find<D: Duty>(member: &Member<D>, id: Result<PathId<FormId>, Error>) -> Result<Form, Error> {
    let gone = || Error::not_found("There is no such form here. It may have been deleted already.");
    let PathId(id) = id.map_err(|_| gone())?;
    routes::find(member, id).await.map_err(|error| match error {
        Error::NotFound { .. } => gone(),
        other => other,
    })
}

async fn show(member: Member<Look>, State(forms): State<Forms>, id: Result<PathId<FormId>, Error>) -> PageResult {
    let form = find(&member, id).await?;
    let (shown, typed) = (Shown::of(&form, &forms), Typed::of(&form));
    Ok(one_page(&member, StatusCode::OK, Some(shown), typed).await?)
}

async fn change(
    member: Member<Manage>,
    State(forms): State<Forms>,
    id: Result<PathId<FormId>, Error>,
    form: web::Form,
) -> PageResult {
    let before = find(&member, id).await?;
    let accepted = member.accept(&changing(before.id), &form)?;
    let typed = Typed::sent(&form);
    let changed = async {
        let changes: FormChange = web::read_fields(typed.fields())?;
        routes::change(&forms, &accepted, before.id, changes).await
    };
    match changed.await {
        Ok(()) => Ok(member.see_other(&format!("/forms/{}?saved", before.id))),
        Err(error) => {
            let (shown, typed) = (Shown::of(&before, &forms), typed.refused(error)?);
            Ok(one_page(&member, StatusCode::UNPROCESSABLE_ENTITY, Some(shown), typed).await?)
        }
    }
}

async fn ask(member: Member<Manage>, id: Result<PathId<FormId>, Error>) -> PageResult {
    let form = find(&member, id).await?;
    let address = member.address(&format!("/forms/{}", form.id));
    let content = ConfirmPage {
        layout: member.layout(),
        shell: member.shell("/forms"),
        title: "Delete this form?".into(),
        sentence:
            "Its page is gone at once, forms on pages of your own lead to nothing, and who was asked and has not \
                   answered cannot confirm any more. Who has confirmed stays subscribed. This cannot be undone."
                .into(),
        action: format!("{address}/delete"),
        hidden: member.hidden(&format!("delete form {}", form.id)),
        button: "Delete".into(),
        cancel: address,
        subject: form.name,
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn delete(member: Member<Manage>, id: Result<PathId<FormId>, Error>, form: web::Form) -> PageResult {
    let id = find(&member, id).await?.id;
    let accepted = member.accept(&format!("delete form {id}"), &form)?;
    routes::remove(&accepted, id).await?;
    Ok(member.see_other("/forms?deleted"))
}
