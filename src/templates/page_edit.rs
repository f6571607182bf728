//! Writing a template in the dashboard.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use http::StatusCode;

use super::Templates;
use super::page_form::Typed;
use super::pages::gone;
use super::shapes::{FieldChange, changes};
use super::store::{self, Key, Stored};
use super::template::Alias;
use super::variable::VariableType;
use super::work;
use crate::accounts::{Duty, Manage, Member};
use crate::db::DbError;
use crate::error::Error;
use crate::id::TemplateId;
use crate::web::{self, Layout, Link, LongForm, PageResult, PathId, Shell};

pub fn router() -> Router<Templates> {
    Router::new()
        .route("/templates/new", get(ask_new).post(create))
        .route("/templates/{id}/edit", get(ask_change).post(change))
}

#[derive(Template)]
#[template(path = "templates/edit.html")]
struct EditPage {
    layout: Layout,
    shell: Shell,
    title: String,
    back: Link,
    action: String,
    hidden: Vec<(String, String)>,
    problem: Option<String>,
    changes: Vec<FieldChange>,
    kinds: Vec<&'static str>,
    typed: Typed,
}

const KINDS: [VariableType; 5] =
    [VariableType::String, VariableType::Number, VariableType::Boolean, VariableType::Object, VariableType::List];

impl EditPage {
    fn new<D: Duty>(member: &Member<D>, typed: Typed) -> EditPage {
        EditPage {
            layout: member.layout(),
            shell: member.shell("/templates"),
            title: "New template".into(),
            back: Link { href: member.address("/templates"), label: "Templates".into() },
            action: member.address("/templates/new"),
            hidden: Vec::new(),
            problem: None,
            changes: Vec::new(),
            kinds: KINDS.map(VariableType::as_str).into(),
            typed: typed.with_room(),
        }
    }

    fn of_new<D: Duty>(member: &Member<D>, typed: Typed, id: TemplateId) -> EditPage {
        EditPage { hidden: member.hidden_making(CREATE, id), ..EditPage::new(member, typed) }
    }

    /// The form carries what it was made from: who comes second is told.
    fn of_change<D: Duty>(member: &Member<D>, typed: Typed, template: &Stored) -> EditPage {
        let mut hidden = member.hidden(&purpose_of_change(template.id));
        hidden.push(("revision".into(), template.revision.to_string()));
        let address = member.address(&format!("/templates/{}", template.id));
        EditPage {
            title: format!("Edit {}", template.name),
            action: format!("{address}/edit"),
            back: Link { href: address, label: template.name.clone() },
            hidden,
            ..EditPage::new(member, typed)
        }
    }

    fn refused(mut self, refusal: &Error) -> PageResult {
        self.problem = self.typed.refuse(refusal);
        Ok(web::page(refusal.status(), &self))
    }
}

const CREATE: &str = "create template";

fn purpose_of_change(id: TemplateId) -> String {
    format!("change template {id}")
}

async fn ask_new(member: Member<Manage>) -> PageResult {
    let id = member.app.clock.ordered_id();
    Ok(web::page(StatusCode::OK, &EditPage::of_new(&member, Typed::default(), id)))
}

async fn create(member: Member<Manage>, State(templates): State<Templates>, form: LongForm) -> PageResult {
    let (id, accepted): (TemplateId, _) = member.accept_making(CREATE, &form)?;
    let typed = Typed::read(&form);
    let reading = typed.new_template();
    let (name, alias, contents) = match reading {
        Ok(new) => new.contents(),
        Err(refusal) => return EditPage::of_new(&member, typed, id).refused(&refusal),
    };
    let made =
        accepted.try_commit(|| work::making(&accepted, &templates, id, (&name, alias.as_ref()), &contents)).await?;
    match made {
        Err(DbError::Duplicate(_)) if exists(&member, id).await? => {}
        Err(error @ DbError::Duplicate(_)) => {
            let refusal = work::taken(error, alias.as_ref().map(Alias::as_str));
            return EditPage::of_new(&member, typed, id).refused(&refusal);
        }
        settled => drop(settled?),
    }
    Ok(member.see_other(&format!("/templates/{id}?created")))
}

async fn exists(member: &Member<Manage>, id: TemplateId) -> Result<bool, Error> {
    Ok(!member.read(store::find(member.workspace_id(), &Key::Id(id))).await?.is_empty())
}

async fn stored(member: &Member<Manage>, id: Result<PathId<TemplateId>, Error>) -> Result<Stored, Error> {
    let PathId(id) = id.map_err(|_| gone())?;
    let rows = member.read(store::find(member.workspace_id(), &Key::Id(id))).await?;
    Ok(Stored::read(rows.first().ok_or_else(gone)?)?)
}

async fn ask_change(member: Member<Manage>, id: Result<PathId<TemplateId>, Error>) -> PageResult {
    let template = stored(&member, id).await?;
    Ok(web::page(StatusCode::OK, &EditPage::of_change(&member, Typed::of(&template), &template)))
}

async fn change(
    member: Member<Manage>,
    State(templates): State<Templates>,
    id: Result<PathId<TemplateId>, Error>,
    form: LongForm,
) -> PageResult {
    let template = stored(&member, id).await?;
    let accepted = member.accept(&purpose_of_change(template.id), &form)?;
    let typed = Typed::read(&form);
    if form.text("revision") != template.revision.to_string() {
        return Ok(overtaken(&member, typed, &template));
    }
    let change = match typed.change(&template) {
        Ok(change) => change,
        Err(refusal) => return EditPage::of_change(&member, typed, &template).refused(&refusal),
    };
    match work::change_once(&accepted, &templates, &template, &change).await {
        Ok(Some(id)) => Ok(member.see_other(&format!("/templates/{id}?saved"))),
        Ok(None) => {
            let template = stored(&member, Ok(PathId(template.id))).await?;
            Ok(overtaken(&member, typed, &template))
        }
        Err(refusal @ Error::Conflict { .. }) => EditPage::of_change(&member, typed, &template).refused(&refusal),
        Err(error) => Err(error.into()),
    }
}

/// Somebody else was faster: what was typed stays, beside what it would change of theirs.
fn overtaken(member: &Member<Manage>, typed: Typed, template: &Stored) -> axum::response::Response {
    let change = typed.change(template).map(|change| change.apply(template.contents.clone()));
    let changes = change.map(|after| changes(&template.contents, &after)).unwrap_or_default();
    let problem = "Somebody changed this template after you opened it. Nothing is lost: below stands what you typed, \
                   and what saving it would change of theirs. Save again to replace theirs.";
    let page = EditPage { problem: Some(problem.into()), changes, ..EditPage::of_change(member, typed, template) };
    web::page(StatusCode::CONFLICT, &page)
}
