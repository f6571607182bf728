//! Templates in the dashboard: to be looked at.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use http::StatusCode;
use serde::Deserialize;
use serde_json::Map;

use super::Templates;
use super::shapes::Listed;
use super::store::{self, Key, Stored, Version};
use super::variable::Variable;
use crate::accounts::{Look, Member};
use crate::db::DbError;
use crate::error::Error;
use crate::id::{TemplateId, TemplateVersionId};
use crate::web::{self, Layout, Leaf, Page, PageResult, PathId, Query, RECENT, Shell, Stamp};

pub fn router() -> Router<Templates> {
    Router::new()
        .route("/templates", get(list))
        .route("/templates/{id}", get(show))
        .route("/templates/{id}/html", get(html))
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
    back: String,
    id: TemplateId,
    name: String,
    status: Badge,
    /// Whether the draft is not what is sent.
    has_draft: bool,
    /// Who it is from, and the like.
    facts: Vec<(&'static str, String)>,
    updated: Stamp,
    published: Option<Stamp>,
    /// Where its HTML is shown.
    frame: String,
    variables: Vec<VariableRow>,
    versions: Vec<VersionRow>,
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
}

/// Which version of a template is shown.
#[derive(Deserialize)]
struct Shown {
    version: Option<TemplateVersionId>,
}

fn gone() -> Error {
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
        templates: items.into_iter().map(row).collect(),
        newer,
        older,
    };
    Ok(web::page(StatusCode::OK, &content))
}

/// The template, and the version that is to be shown: that which is edited, or another.
async fn find(
    member: &Member<Look>,
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

async fn show(
    member: Member<Look>,
    id: Result<PathId<TemplateId>, Error>,
    shown: Result<Query<Shown>, Error>,
) -> PageResult {
    let (template, version) = find(&member, id, shown).await?;
    let newest = Page::parse("", RECENT)?;
    let rows = member.read(store::versions(member.workspace_id(), template.id, &newest)).await?;
    let versions: Result<Vec<Version>, DbError> = rows.iter().take(RECENT).map(Version::read).collect();
    let now = member.app.clock.now();
    let address = |path: &str, id| member.address(&format!("/templates/{}{path}?version={id}", template.id));
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
    };
    let content = OnePage {
        layout: member.layout(),
        shell: member.shell("/templates"),
        back: member.address("/templates"),
        id: template.id,
        status: Badge::of(template.published_at.is_some()),
        has_draft: template.published_at.is_some() && template.has_unpublished_versions(),
        facts: facts(&template, &version),
        updated: Stamp::ago(template.updated_at, now),
        published: template.published_at.map(|at| Stamp::ago(at, now)),
        frame: address("/html", version.id),
        variables: variables(&version),
        versions: versions?.iter().map(version_row).collect(),
        name: template.name.clone(),
    };
    Ok(web::page_framing(StatusCode::OK, &content))
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
    let (_, rendered, _) = templates.rendered(template.id, version, Map::new()).await?;
    Ok(web::sandboxed(rendered.html.into()))
}
