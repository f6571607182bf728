//! Topics in the dashboard.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use serde_json::{Map, Value};

use super::routes;
use super::shapes::Item;
use super::store;
use super::topic::{NewTopic, TopicChange};
use crate::accounts::{Duty, Look, Manage, Member};
use crate::app::App;
use crate::error::Error;
use crate::id::TopicId;
use crate::web::{self, ConfirmPage, Field, Form, Layout, Leaf, Page, PageResult, PathId, RECENT, Shell, Stamp};

pub fn router() -> Router<App> {
    Router::new()
        .route("/topics", get(list).post(create))
        .route("/topics/{id}", get(show).post(change))
        .route("/topics/{id}/delete", get(ask).post(delete))
}

const CREATE: &str = "create topic";

#[derive(Template)]
#[template(path = "topics/list.html")]
struct ListPage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    may_manage: bool,
    hidden: Vec<(String, String)>,
    form: TopicForm,
    topics: Vec<TopicRow>,
    newer: Option<String>,
    older: Option<String>,
}

#[derive(Template)]
#[template(path = "topics/one.html")]
struct OnePage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    may_manage: bool,
    address: String,
    hidden: Vec<(String, String)>,
    id: TopicId,
    title: String,
    opts_in: bool,
    created: Stamp,
    form: TopicForm,
}

struct TopicRow {
    href: String,
    name: String,
    description: String,
    opts_in: bool,
    is_public: bool,
}

/// What was typed.
#[derive(Default)]
struct TopicForm {
    name: Field,
    description: Field,
    opts_in: bool,
    is_public: bool,
    problem: Option<String>,
}

impl TopicForm {
    fn sent(form: &Form) -> TopicForm {
        TopicForm {
            name: form.field("name"),
            description: form.field("description"),
            opts_in: form.text("default_subscription") == "opt_in",
            is_public: form.text("visibility") == "public",
            problem: None,
        }
    }

    fn of(topic: &Item) -> TopicForm {
        TopicForm {
            name: Field::of(topic.name.clone()),
            description: Field::of(topic.description.clone().unwrap_or_default()),
            opts_in: topic.default_subscription == "opt_in",
            is_public: topic.visibility == "public",
            problem: None,
        }
    }

    /// What a request with the same wish would say.
    fn fields(&self) -> Map<String, Value> {
        let description = match self.description.value.trim() {
            "" => Value::Null,
            words => words.into(),
        };
        Map::from_iter([
            ("name".to_owned(), self.name.value.trim().into()),
            ("description".to_owned(), description),
            ("visibility".to_owned(), if self.is_public { "public" } else { "private" }.into()),
        ])
    }

    /// The same with what is wrong beside its field. What is nobody's fault is an error still.
    fn refused(mut self, error: Error) -> Result<TopicForm, Error> {
        if !matches!(error, Error::Invalid { .. } | Error::Missing { .. }) {
            return Err(error);
        }
        let fields = [("name", &mut self.name), ("description", &mut self.description)];
        self.problem = web::beside_field(&error, fields);
        Ok(self)
    }
}

fn gone() -> Error {
    Error::not_found("There is no such topic here. It may have been deleted already.")
}

async fn list(member: Member<Look>) -> PageResult {
    let form = TopicForm { is_public: true, ..TopicForm::default() };
    Ok(list_page(&member, StatusCode::OK, &member.page()?, form).await?)
}

async fn list_page<D: Duty>(
    member: &Member<D>,
    status: StatusCode,
    page: &Page,
    form: TopicForm,
) -> Result<Response, Error> {
    let stored: Vec<Item> = member.query(store::page(member.workspace_id(), page)).await?;
    let Leaf { items, newer, older } = page.leaf(stored, &member.address("/topics"), |topic| topic.id);
    let row = |topic: Item| TopicRow {
        href: member.address(&format!("/topics/{}", topic.id)),
        name: topic.name,
        description: topic.description.unwrap_or_default(),
        opts_in: topic.default_subscription == "opt_in",
        is_public: topic.visibility == "public",
    };
    let content = ListPage {
        layout: member.layout(),
        shell: member.shell("/topics"),
        notice: member
            .notice("deleted", "The topic is deleted, and what contacts chose of it is forgotten.")
            .or(member.notice("created", "The topic is made.")),
        may_manage: member.may_manage(),
        hidden: member.hidden_making(CREATE, member.app.clock.ordered_id::<TopicId>()),
        form,
        topics: items.into_iter().map(row).collect(),
        newer,
        older,
    };
    Ok(web::page(status, &content))
}

async fn create(State(app): State<App>, member: Member<Manage>, form: Form) -> PageResult {
    let (id, accepted) = member.accept_making(CREATE, &form)?;
    let typed = TopicForm::sent(&form);
    let made = async {
        let mut fields = typed.fields();
        let default = if typed.opts_in { "opt_in" } else { "opt_out" };
        fields.insert("default_subscription".into(), default.into());
        let new: NewTopic = web::read_fields(fields)?;
        routes::add(&accepted, &app, id, &new).await
    };
    match made.await {
        Ok(()) => Ok(member.see_other("/topics?created")),
        Err(error) => {
            let (form, first) = (typed.refused(error)?, Page::parse("", RECENT)?);
            Ok(list_page(&member, StatusCode::UNPROCESSABLE_ENTITY, &first, form).await?)
        }
    }
}

async fn find<D: Duty>(member: &Member<D>, id: Result<PathId<TopicId>, Error>) -> Result<Item, Error> {
    let PathId(id) = id.map_err(|_| gone())?;
    routes::find(member, id).await.map_err(|error| match error {
        Error::NotFound { .. } => gone(),
        other => other,
    })
}

async fn show(member: Member<Look>, id: Result<PathId<TopicId>, Error>) -> PageResult {
    let topic = find(&member, id).await?;
    let form = TopicForm::of(&topic);
    Ok(one(&member, StatusCode::OK, topic, form))
}

fn one<D: Duty>(member: &Member<D>, status: StatusCode, topic: Item, form: TopicForm) -> Response {
    let content = OnePage {
        layout: member.layout(),
        shell: member.shell("/topics"),
        notice: member.notice("saved", "The topic is saved.").filter(|_| status == StatusCode::OK),
        may_manage: member.may_manage(),
        address: member.address(&format!("/topics/{}", topic.id)),
        hidden: member.hidden(&format!("change topic {}", topic.id)),
        id: topic.id,
        title: topic.name,
        opts_in: topic.default_subscription == "opt_in",
        created: Stamp::ago(topic.created_at.0, member.app.clock.now()),
        form,
    };
    web::page(status, &content)
}

async fn change(
    State(app): State<App>,
    member: Member<Manage>,
    id: Result<PathId<TopicId>, Error>,
    form: Form,
) -> PageResult {
    let topic = find(&member, id).await?;
    let accepted = member.accept(&format!("change topic {}", topic.id), &form)?;
    let typed = TopicForm::sent(&form);
    let changed = async {
        let changes: TopicChange = web::read_fields(typed.fields())?;
        routes::change(&accepted, &app, topic.id, &changes).await
    };
    match changed.await {
        Ok(()) => Ok(member.see_other(&format!("/topics/{}?saved", topic.id))),
        Err(error) => Ok(one(&member, StatusCode::UNPROCESSABLE_ENTITY, topic, typed.refused(error)?)),
    }
}

async fn ask(member: Member<Manage>, id: Result<PathId<TopicId>, Error>) -> PageResult {
    let topic = find(&member, id).await?;
    let address = member.address(&format!("/topics/{}", topic.id));
    let content = ConfirmPage {
        layout: member.layout(),
        shell: member.shell("/topics"),
        title: "Delete this topic?".into(),
        sentence: "What contacts chose of it is forgotten, also by whom it was opted out of. Mail about it counts as \
                   mail about nothing. This cannot be undone."
            .into(),
        action: format!("{address}/delete"),
        hidden: member.hidden(&format!("delete topic {}", topic.id)),
        button: "Delete".into(),
        cancel: address,
        subject: topic.name,
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn delete(
    State(app): State<App>,
    member: Member<Manage>,
    id: Result<PathId<TopicId>, Error>,
    form: Form,
) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let accepted = member.accept(&format!("delete topic {id}"), &form)?;
    routes::remove(&accepted, &app, id).await?;
    Ok(member.see_other("/topics?deleted"))
}
