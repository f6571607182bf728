//! What a person does with a template that is written: publishing, copying, deleting.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use http::StatusCode;
use serde_json::Map;

use super::Templates;
use super::pages::{Shown, find, gone};
use super::shapes::{FieldChange, changes};
use super::store::{self, Key, Version};
use super::template::{Contents, TemplateName};
use super::variable::RESERVED;
use super::work;
use crate::accounts::{Manage, Member};
use crate::db::DbError;
use crate::error::Error;
use crate::id::{TemplateId, TemplateVersionId};
use crate::web::{self, ConfirmPage, Form, Layout, PageResult, PathId, Query, Shell};

pub fn router() -> Router<Templates> {
    Router::new()
        .route("/templates/{id}/publish", get(ask_publish).post(publish))
        .route("/templates/{id}/duplicate", post(duplicate))
        .route("/templates/{id}/delete", get(ask_delete).post(delete))
}

#[derive(Template)]
#[template(path = "templates/publish.html")]
struct PublishPage {
    layout: Layout,
    shell: Shell,
    name: String,
    back: String,
    action: String,
    hidden: Vec<(String, String)>,
    is_first: bool,
    changes: Vec<FieldChange>,
    /// Names that are used and not declared.
    undeclared: Vec<String>,
    /// What has no fallback.
    needed: Vec<String>,
}

type Id = Result<PathId<TemplateId>, Error>;

fn purpose(act: &str, id: TemplateId) -> String {
    format!("{act} template {id}")
}

pub fn duplicating(id: TemplateId) -> String {
    format!("duplicate template {id} as")
}

async fn ask_publish(
    member: Member<Manage>,
    State(templates): State<Templates>,
    id: Id,
    shown: Result<Query<Shown>, Error>,
) -> PageResult {
    let (template, version) = find(&member, id, shown).await?;
    let sent = match template.published_version_id {
        Some(id) => member.read(store::version(member.workspace_id(), (template.id, id))).await?,
        None => Vec::new(),
    };
    let sent = sent.first().map(Version::read).transpose()?.map_or_else(Contents::default, |sent| sent.contents);
    let declared = version.contents.variables.0.clone();
    let found = changes(&sent, &version.contents);
    let version_id = version.id;
    let (rendering, ..) = templates.rendered(template.id, version, Map::new()).await?;
    let is_known = |key: &&str| RESERVED.contains(key) || declared.iter().any(|one| one.key == *key);
    let undeclared = rendering.keys().into_iter().filter(|key| !is_known(key)).map(str::to_owned).collect();
    let mut hidden = member.hidden(&purpose("publish", template.id));
    hidden.push(("version".into(), version_id.to_string()));
    let back = member.address(&format!("/templates/{}", template.id));
    let content = PublishPage {
        layout: member.layout(),
        shell: member.shell("/templates"),
        action: format!("{back}/publish"),
        back,
        hidden,
        is_first: template.published_version_id.is_none(),
        changes: found,
        undeclared,
        needed: declared.into_iter().filter(|one| one.fallback_value.is_none()).map(|one| one.key).collect(),
        name: template.name,
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn publish(member: Member<Manage>, State(templates): State<Templates>, id: Id, form: Form) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let accepted = member.accept(&purpose("publish", id), &form)?;
    let version: TemplateVersionId = form.text("version").parse().map_err(|_| gone())?;
    work::publish(&accepted, &templates, &Key::Id(id), Some(version)).await?;
    Ok(member.see_other(&format!("/templates/{id}?published")))
}

async fn duplicate(member: Member<Manage>, State(templates): State<Templates>, id: Id, form: Form) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let (copy, accepted): (TemplateId, _) = member.accept_making(&duplicating(id), &form)?;
    let original = work::find(&accepted, &Key::Id(id)).await?;
    let name = TemplateName::of_copy(&original.name);
    let making = || work::making(&accepted, &templates, copy, (&name, None), &original.contents);
    match accepted.try_commit(making).await? {
        Err(DbError::Duplicate(_)) => {}
        settled => drop(settled?),
    }
    Ok(member.see_other(&format!("/templates/{copy}?copied")))
}

async fn ask_delete(member: Member<Manage>, id: Id) -> PageResult {
    let (template, _) = find(&member, id, Ok(Query(Shown { version: None }))).await?;
    let content = ConfirmPage {
        layout: member.layout(),
        shell: member.shell("/templates"),
        title: "Delete this template?".into(),
        sentence: "All of its versions go with it. What was sent of it stays. Programs that name it are refused from \
                   then on. This cannot be undone."
            .into(),
        action: member.address(&format!("/templates/{}/delete", template.id)),
        hidden: member.hidden(&purpose("delete", template.id)),
        button: "Delete".into(),
        cancel: member.address(&format!("/templates/{}", template.id)),
        subject: template.name,
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn delete(member: Member<Manage>, id: Id, form: Form) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let accepted = member.accept(&purpose("delete", id), &form)?;
    work::delete(&accepted, &Key::Id(id)).await?;
    Ok(member.see_other("/templates?deleted"))
}
