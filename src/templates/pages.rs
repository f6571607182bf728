//! Templates in the dashboard: what there is, and what it looks like with samples.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use http::StatusCode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::page_form::VariableRow as Written;
use super::shapes::Listed;
use super::store::{self, Key, Stored, Version};
use super::template::Contents;
use super::variable::{RESERVED, Variable, VariableType};
use super::{Templates, page_acts, page_edit};
use crate::accounts::{Duty, Look, Member};
use crate::app::App;
use crate::db::DbError;
use crate::docs::Call;
use crate::error::Error;
use crate::id::{TemplateId, TemplateVersionId};
use crate::web::{self, Layout, Leaf, Page, PageResult, PathId, Query, RECENT, Shell, Stamp};

pub fn router() -> Router<Templates> {
    Router::new()
        .route("/templates", get(list))
        .route("/templates/{id}", get(show))
        .route("/templates/{id}/html", get(html))
        .merge(page_edit::router())
        .merge(page_acts::router())
}

/// How a status is shown.
struct Badge {
    look: &'static str,
    word: &'static str,
}

impl Badge {
    fn of(is_published: bool) -> Badge {
        match is_published {
            true => Badge { look: "good", word: "Published" },
            false => Badge { look: "off", word: "Draft" },
        }
    }
}

#[derive(Template)]
#[template(path = "templates/list.html")]
struct ListPage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    /// Where a new one is written, for those who may.
    new: Option<String>,
    templates: Vec<TemplateRow>,
    newer: Option<String>,
    older: Option<String>,
}

struct TemplateRow {
    href: String,
    name: String,
    alias: Option<String>,
    status: Badge,
    updated: Stamp,
}

#[derive(Template)]
#[template(path = "templates/one.html")]
struct OnePage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    back: String,
    id: TemplateId,
    name: String,
    /// What to say where it is not what is edited that is shown.
    older: Option<String>,
    /// For those who may.
    acts: Option<Acts>,
    status: Badge,
    /// Whether the draft is not what is sent.
    has_draft: bool,
    /// Who it is from, and the like.
    facts: Vec<(&'static str, String)>,
    updated: Stamp,
    published: Option<Stamp>,
    /// Address of this page.
    here: String,
    version_id: TemplateVersionId,
    /// How wide it is shown: `phone`, `desktop`, or as wide as the page.
    width: &'static str,
    /// What a width is called, where it is shown so, and its key.
    widths: Vec<(&'static str, String, &'static str)>,
    /// Where its HTML is shown.
    frame: String,
    subject: Option<String>,
    /// Why it cannot be shown with these values.
    problem: Option<String>,
    /// What has neither a value nor a fallback.
    missing: Vec<String>,
    /// What broadcasts know of each recipient.
    filled_in: Vec<String>,
    inputs: Vec<Input>,
    variables: Vec<VariableRow>,
    versions: Vec<VersionRow>,
    code: Call,
}

/// Where things are done with it.
struct Acts {
    edit: String,
    publish: Option<String>,
    test: String,
    duplicate: String,
    duplicate_hidden: Vec<(String, String)>,
    delete: String,
}

/// A value to try.
struct Input {
    key: String,
    kind: &'static str,
    value: String,
    fallback: String,
}

struct VariableRow {
    key: String,
    kind: &'static str,
    /// As JSON.
    fallback: Option<String>,
}

struct VersionRow {
    href: String,
    created: Stamp,
    published: Option<Stamp>,
    status: Option<Badge>,
    is_shown: bool,
    /// Where it is published again, if that is something.
    publish: Option<String>,
}

/// Which version of a template is shown.
#[derive(Deserialize)]
pub struct Shown {
    pub version: Option<TemplateVersionId>,
}

pub fn gone() -> Error {
    Error::not_found("There is no such template here. It may have been deleted already.")
}

async fn list(member: Member<Look>) -> PageResult {
    let page = member.page()?;
    let rows = member.read(store::page(member.workspace_id(), &page)).await?;
    let listed: Result<Vec<Listed>, DbError> = rows.iter().map(Listed::read).collect();
    let Leaf { items, newer, older } = page.leaf(listed?, &member.address("/templates"), |template| template.id);
    let now = member.app.clock.now();
    let row = |template: Listed| TemplateRow {
        href: member.address(&format!("/templates/{}", template.id)),
        status: Badge::of(template.published_at.is_some()),
        updated: Stamp::ago(template.updated_at, now),
        alias: template.alias,
        name: template.name,
    };
    let content = ListPage {
        layout: member.layout(),
        shell: member.shell("/templates"),
        notice: member.notice("deleted", "The template is deleted."),
        new: member.may_manage().then(|| member.address("/templates/new")),
        templates: items.into_iter().map(row).collect(),
        newer,
        older,
    };
    Ok(web::page(StatusCode::OK, &content))
}

/// The template, and the version that is to be shown: that which is edited, or another.
pub async fn find<D: Duty>(
    member: &Member<D>,
    id: Result<PathId<TemplateId>, Error>,
    shown: Result<Query<Shown>, Error>,
) -> Result<(Stored, Version), Error> {
    let (PathId(id), Query(shown)) = (id.map_err(|_| gone())?, shown.map_err(|_| gone())?);
    let rows = member.read(store::find(member.workspace_id(), &Key::Id(id))).await?;
    let template = Stored::read(rows.first().ok_or_else(gone)?)?;
    let version_id = shown.version.unwrap_or(template.current_version_id);
    let rows = member.read(store::version(member.workspace_id(), (id, version_id))).await?;
    Ok((template, Version::read(rows.first().ok_or_else(gone)?)?))
}

/// The values to try that the address tells, beside the variables that take them.
fn values<D: Duty>(member: &Member<D>, version: &Version) -> (Vec<Input>, Map<String, Value>) {
    let (mut inputs, mut given) = (Vec::new(), Map::new());
    for variable in &version.contents.variables.0 {
        let value = member.asked(&format!("v.{}", variable.key)).unwrap_or_default();
        if !value.is_empty() {
            // What is no JSON is taken for text, and refused as such.
            let read = match variable.kind {
                VariableType::String => value.as_str().into(),
                _ => serde_json::from_str(&value).unwrap_or_else(|_| value.as_str().into()),
            };
            given.insert(variable.key.clone(), read);
        }
        let Written { key, fallback, .. } = Written::of(variable);
        inputs.push(Input { key, kind: variable.kind.as_str(), value, fallback });
    }
    (inputs, given)
}

async fn show(
    member: Member<Look>,
    State(templates): State<Templates>,
    id: Result<PathId<TemplateId>, Error>,
    shown: Result<Query<Shown>, Error>,
) -> PageResult {
    let (template, version) = find(&member, id, shown).await?;
    let newest = Page::parse("", RECENT)?;
    let rows = member.read(store::versions(member.workspace_id(), template.id, &newest)).await?;
    let versions: Result<Vec<Version>, DbError> = rows.iter().take(RECENT).map(Version::read).collect();
    let now = member.app.clock.now();
    let here = member.address(&format!("/templates/{}", template.id));
    let address = |path: &str, id| format!("{here}{path}?version={id}");
    let publish = |id: TemplateVersionId| {
        let is_open = member.may_manage() && template.published_version_id != Some(id);
        is_open.then(|| address("/publish", id))
    };
    let version_row = |one: &Version| VersionRow {
        href: address("", one.id),
        created: Stamp::ago(one.created_at, now),
        published: one.published_at.map(|at| Stamp::ago(at, now)),
        status: match (template.published_version_id == Some(one.id), template.current_version_id == one.id) {
            (true, _) => Some(Badge { look: "good", word: "Is sent" }),
            (false, true) => Some(Badge { look: "off", word: "Is edited" }),
            (false, false) => None,
        },
        is_shown: one.id == version.id,
        publish: publish(one.id),
    };
    let (inputs, given) = values(&member, &version);
    let tried: String = inputs.iter().filter(|input| !input.value.is_empty()).fold(String::new(), |query, input| {
        format!("{query}&v.{}={}", input.key, utf8_percent_encode(&input.value, NON_ALPHANUMERIC))
    });
    let at_width = |width: &str| format!("{}{tried}&width={width}", address("", version.id));
    let preview = match templates.rendered(template.id, version.clone(), given).await {
        Ok((_, rendered, missing)) => Preview { subject: rendered.subject, missing, problem: None },
        Err(refusal) if refusal.status().is_client_error() => {
            Preview { subject: None, missing: Vec::new(), problem: Some(refusal.message().into_owned()) }
        }
        Err(error) => return Err(error.into()),
    };
    let (filled_in, missing) = preview.missing.into_iter().partition(|key| RESERVED.contains(&key.as_str()));
    let older = "This is another version than the one that is edited.";
    let content = OnePage {
        layout: member.layout(),
        shell: member.shell("/templates"),
        notice: notice(&member),
        back: member.address("/templates"),
        id: template.id,
        older: (version.id != template.current_version_id).then(|| older.into()),
        acts: member.may_manage().then(|| acts(&member, &template, &here, publish(version.id))),
        status: Badge::of(template.published_at.is_some()),
        has_draft: template.published_at.is_some() && template.has_unpublished_versions(),
        facts: facts(&template, &version),
        updated: Stamp::ago(template.updated_at, now),
        published: template.published_at.map(|at| Stamp::ago(at, now)),
        version_id: version.id,
        width: match member.asked("width").as_deref() {
            Some("phone") => "phone",
            Some("desktop") => "desktop",
            _ => "fit",
        },
        widths: [("As wide as here", "fit"), ("Phone, 390 px", "phone"), ("Desktop, 1280 px", "desktop")]
            .map(|(word, key)| (word, at_width(key), key))
            .into(),
        frame: format!("{}{tried}", address("/html", version.id)),
        subject: preview.subject,
        problem: preview.problem,
        missing,
        filled_in,
        inputs,
        variables: variables(&version),
        versions: versions?.iter().map(version_row).collect(),
        code: code(&member.app, &template, &version),
        name: template.name.clone(),
        here,
    };
    Ok(web::page_framing(StatusCode::OK, &content))
}

/// A mail of the template, with samples for what must be given; of a draft, how it becomes one that can be sent.
fn code(app: &App, template: &Stored, version: &Version) -> Call {
    if template.published_version_id.is_none() {
        return Call::to(app, "POST", &format!("/templates/{}/publish", template.id), None);
    }
    let Contents { from, subject, variables, .. } = &version.contents;
    let wanted = variables.0.iter().filter(|variable| variable.fallback_value.is_none());
    let values: Map<String, Value> =
        wanted.map(|variable| (variable.key.clone(), variable.kind.sample(&variable.key))).collect();
    let id = template.alias.clone().unwrap_or_else(|| template.id.to_string());
    let mut mail = json!({"to": "ada@example.com", "template": {"id": id, "variables": values}});
    for (field, own, value) in [("from", from, "you@example.com"), ("subject", subject, "Hello")] {
        if own.is_none() {
            mail[field] = value.into();
        }
    }
    Call::to(app, "POST", "/emails", Some(mail))
}

struct Preview {
    subject: Option<String>,
    missing: Vec<String>,
    problem: Option<String>,
}

fn notice(member: &Member<Look>) -> Option<String> {
    member
        .notice("created", "The template is made. It is a draft until you publish it.")
        .or(member.notice("saved", "The draft is saved."))
        .or(member.notice("published", "It is published: mail is made of it from now on."))
        .or(member.notice("copied", "This is the copy. It is a draft."))
}

fn acts(member: &Member<Look>, template: &Stored, here: &str, publish: Option<String>) -> Acts {
    let copy: TemplateId = member.app.clock.ordered_id();
    Acts {
        edit: format!("{here}/edit"),
        publish,
        test: format!("{here}/test"),
        duplicate: format!("{here}/duplicate"),
        duplicate_hidden: member.hidden_making(&page_acts::duplicating(template.id), copy),
        delete: format!("{here}/delete"),
    }
}

fn facts(template: &Stored, version: &Version) -> Vec<(&'static str, String)> {
    let all = [
        ("Alias", template.alias.clone().unwrap_or_default()),
        ("From", version.contents.from.clone().unwrap_or_default()),
        ("Subject", version.contents.subject.clone().unwrap_or_default()),
        ("Reply to", version.contents.reply_to.join(", ")),
    ];
    all.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

fn variables(version: &Version) -> Vec<VariableRow> {
    let row = |variable: &Variable| VariableRow {
        key: variable.key.clone(),
        kind: variable.kind.as_str(),
        fallback: variable.fallback_value.as_ref().map(ToString::to_string),
    };
    version.contents.variables.0.iter().map(row).collect()
}

/// What a version looks like with samples, where it can do nothing.
async fn html(
    State(templates): State<Templates>,
    member: Member<Look>,
    id: Result<PathId<TemplateId>, Error>,
    shown: Result<Query<Shown>, Error>,
) -> PageResult {
    let (template, version) = find(&member, id, shown).await?;
    let (_, given) = values(&member, &version);
    let (_, rendered, _) = templates.rendered(template.id, version, given).await?;
    Ok(web::sandboxed(rendered.html.into()))
}
