//! API keys in the dashboard.

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;

use super::routes::Item;
use super::store;
use crate::accounts::{Duty, Look, Manage, Member};
use crate::app::App;
use crate::credentials::{KeyName, NewKey, Permission, insert_key};
use crate::db::{Batch, DbError};
use crate::domains;
use crate::error::{Error, OrMissing};
use crate::id::{ApiKeyId, DomainId};
use crate::web::{self, ConfirmPage, Field, Form, Layout, Leaf, Page, PageResult, PathId, RECENT, Shell, Stamp};

const CREATE: &str = "create key";

pub fn router() -> Router<App> {
    Router::new()
        .route("/keys", get(list).post(create))
        .route("/keys/{id}/rename", get(show_name).post(rename))
        .route("/keys/{id}/delete", get(ask).post(delete))
}

#[derive(Template)]
#[template(path = "api_keys/list.html")]
struct KeysPage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    /// The key just made, shown this once.
    fresh: Option<FreshKey>,
    may_manage: bool,
    action: String,
    hidden: Vec<(String, String)>,
    key_name: Field,
    sending_only: bool,
    /// Those that a key can be held to.
    domains: Vec<DomainChoice>,
    domain_error: Option<String>,
    keys: Vec<KeyRow>,
    newer: Option<String>,
    older: Option<String>,
}

struct DomainChoice {
    id: DomainId,
    name: String,
    is_chosen: bool,
}

struct FreshKey {
    name: String,
    token: String,
}

struct KeyRow {
    name: String,
    /// The first characters, enough to recognise it.
    start: String,
    permission: String,
    domain: Option<String>,
    created: Stamp,
    last_used: Option<Stamp>,
    through_app: bool,
    rename_url: Option<String>,
    delete_url: Option<String>,
}

#[derive(Template)]
#[template(path = "api_keys/rename.html")]
struct RenamePage {
    layout: Layout,
    shell: Shell,
    start: String,
    action: String,
    hidden: Vec<(String, String)>,
    key_name: Field,
    cancel: String,
}

/// What the form for a new key shows.
#[derive(Default)]
struct Draft {
    name: Field,
    sending_only: bool,
    domain_id: Option<DomainId>,
    domain_error: Option<String>,
    fresh: Option<FreshKey>,
}

async fn list(member: Member<Look>) -> PageResult {
    page(&member, StatusCode::OK, &member.page()?, Draft::default()).await
}

async fn page<D: Duty>(member: &Member<D>, status: StatusCode, page: &Page, draft: Draft) -> PageResult {
    let stored: Vec<Item> = member.query(store::page(member.workspace_id(), page)).await?;
    let Leaf { items, newer, older } = page.leaf(stored, &member.address("/keys"), |key| key.id);
    let content = KeysPage {
        layout: member.layout(),
        shell: member.shell("/keys"),
        notice: member
            .notice("deleted", "The key is deleted.")
            .or(member.notice("renamed", "The key has its new name. What it may do is as before."))
            .or(member.notice("repeated", "That key had been created already. It is in the list below."))
            .filter(|_| draft.fresh.is_none()),
        fresh: draft.fresh,
        may_manage: member.may_manage(),
        action: member.address("/keys"),
        hidden: member.hidden_making(CREATE, member.app.clock.ordered_id::<ApiKeyId>()),
        key_name: draft.name,
        sending_only: draft.sending_only,
        domains: if member.may_manage() { domain_choices(member, draft.domain_id).await? } else { Vec::new() },
        domain_error: draft.domain_error,
        keys: items.into_iter().map(|key| row(member, key)).collect(),
        newer,
        older,
    };
    Ok(web::page(status, &content))
}

async fn domain_choices<D: Duty>(member: &Member<D>, chosen: Option<DomainId>) -> Result<Vec<DomainChoice>, Error> {
    let named: Vec<(DomainId, String)> = member.query(domains::names(member.workspace_id())).await?;
    Ok(named.into_iter().map(|(id, name)| DomainChoice { id, name, is_chosen: chosen == Some(id) }).collect())
}

fn row<D: Duty>(member: &Member<D>, key: Item) -> KeyRow {
    let now = member.app.clock.now();
    KeyRow {
        rename_url: member.may_manage().then(|| member.address(&format!("/keys/{}/rename", key.id))),
        delete_url: member.may_manage().then(|| member.address(&format!("/keys/{}/delete", key.id))),
        name: key.name,
        start: key.prefix,
        permission: key.permission,
        domain: key.domain,
        created: Stamp::ago(key.created_at.0, now),
        last_used: key.last_used_at.map(|at| Stamp::ago(at.0, now)),
        through_app: key.grant_id.is_some(),
    }
}

async fn create(member: Member<Manage>, form: Form) -> PageResult {
    let (id, accepted) = member.accept_making(CREATE, &form)?;
    let permission = Permission::parse(&form.text("permission")).ok_or_else(|| Error::BadRequest {
        message: "The form does not say what the key may do. Load the page again.".into(),
    })?;
    let sending_only = permission == Permission::SendingAccess;
    let domain_id: Option<DomainId> = match form.text("domain").as_str() {
        "" => None,
        id => Some(id.parse().map_err(|_| no_domain())?),
    };
    let name: Result<KeyName, _> = form.text("name").parse();
    let held_wrongly = domain_id.is_some() && !sending_only;
    let name = match name {
        Ok(name) if !held_wrongly => name,
        name => {
            let both = || {
                "A key with full access is not held to a domain. Let it only send mail, or choose any domain.".into()
            };
            let name = Field { value: form.text("name"), error: name.is_err().then(wrong_name) };
            let domain_error = held_wrongly.then(both);
            let draft = Draft { name, sending_only, domain_id, domain_error, fresh: None };
            return page(&member, StatusCode::UNPROCESSABLE_ENTITY, &Page::parse("", RECENT)?, draft).await;
        }
    };
    let made = NewKey::make(&member.app.clock, member.workspace_id(), name.as_str(), permission);
    let key = NewKey { id, domain_id, ..made };
    let mut batch = Batch::new();
    domain_id.into_iter().for_each(|id| batch.push(domains::exists(key.workspace_id, id)));
    match accepted.commit(batch.and(insert_key(&key))).await? {
        Ok(_) => {}
        Err(DbError::Duplicate(_)) => return Ok(member.see_other("/keys?repeated")),
        Err(DbError::Unexpected { .. }) => return Err(no_domain().into()),
        Err(error) => return Err(error.into()),
    }
    let fresh = Some(FreshKey { name: key.name, token: key.secret });
    page(&member, StatusCode::OK, &Page::parse("", RECENT)?, Draft { fresh, ..Draft::default() }).await
}

fn no_domain() -> Error {
    Error::not_found("There is no such domain here. It may have been deleted; load the page again.")
}

fn gone() -> Error {
    Error::not_found("There is no such key here. It may have been deleted already.")
}

async fn find(member: &Member<Manage>, id: ApiKeyId) -> Result<Item, Error> {
    let key: Option<Item> = member.query(store::by_id(member.workspace_id(), id)).await?;
    key.ok_or_else(gone)
}

fn rename_purpose(id: ApiKeyId) -> String {
    format!("rename key {id}")
}

async fn show_name(member: Member<Manage>, id: Result<PathId<ApiKeyId>, Error>) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let key = find(&member, id).await?;
    let name = Field::of(key.name);
    Ok(rename_page(&member, StatusCode::OK, id, key.prefix, name))
}

fn rename_page(member: &Member<Manage>, status: StatusCode, id: ApiKeyId, start: String, key_name: Field) -> Response {
    let content = RenamePage {
        layout: member.layout(),
        shell: member.shell("/keys"),
        start,
        action: member.address(&format!("/keys/{id}/rename")),
        hidden: member.hidden(&rename_purpose(id)),
        key_name,
        cancel: member.address("/keys"),
    };
    web::page(status, &content)
}

async fn rename(member: Member<Manage>, id: Result<PathId<ApiKeyId>, Error>, form: Form) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let accepted = member.accept(&rename_purpose(id), &form)?;
    let Ok(name) = form.text("name").parse::<KeyName>() else {
        let key = find(&member, id).await?;
        let name = Field { value: form.text("name"), error: Some(wrong_name()) };
        return Ok(rename_page(&member, StatusCode::UNPROCESSABLE_ENTITY, id, key.prefix, name));
    };
    let renamed = store::rename(member.workspace_id(), id, name.as_str());
    accepted.commit(renamed.into()).await?.or_missing(gone)?;
    Ok(member.see_other("/keys?renamed"))
}

fn wrong_name() -> String {
    format!("A key needs a name of at most {} characters.", KeyName::LONGEST)
}

async fn ask(member: Member<Manage>, id: Result<PathId<ApiKeyId>, Error>) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let key = find(&member, id).await?;
    let content = ConfirmPage {
        layout: member.layout(),
        shell: member.shell("/keys"),
        title: "Delete this API key?".into(),
        subject: key.name,
        sentence: format!(
            "Programs that use {}… are refused from their next request on. This cannot be undone.",
            key.prefix
        ),
        action: member.address(&format!("/keys/{id}/delete")),
        hidden: member.hidden(&format!("delete key {id}")),
        button: "Delete".into(),
        cancel: member.address("/keys"),
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn delete(member: Member<Manage>, id: Result<PathId<ApiKeyId>, Error>, form: Form) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let accepted = member.accept(&format!("delete key {id}"), &form)?;
    accepted.commit(store::delete(member.workspace_id(), id)).await?.or_missing(gone)?;
    Ok(member.see_other("/keys?deleted"))
}
