//! The suppression list in the dashboard.

use askama::Template;
use axum::Router;
use axum::extract::{FromRef, FromRequest, Request, State};
use axum::routing::{get, post};
use http::StatusCode;

use super::routes::{add_one, remove};
use super::store;
use super::suppression::{Entry, MailAddress, Name, Origin};
use super::transfer::{Imported, PATIENCE, export_for, take_in};
use crate::accounts::{Duty, Look, Manage, Member};
use crate::app::App;
use crate::auth;
use crate::error::Error;
use crate::id::SuppressionId;
use crate::text::like;
use crate::web::{
    self, ConfirmPage, Field, Form, LIMIT_OF_MANY, Layout, Leaf, MultipartForm, Page, PageError, PageResult, PathId,
    RECENT, Shell, Spool, Stamp,
};

pub fn router() -> Router<App> {
    Router::new()
        .route("/suppressions", get(list).post(add))
        .route("/suppressions/export", get(export))
        .route("/suppressions/import", post(import))
        .route("/suppressions/{id}/delete", get(ask).post(delete))
}

#[derive(Template)]
#[template(path = "suppressions/list.html")]
struct ListPage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    /// What came of a file.
    imported: Option<Imported>,
    may_manage: bool,
    here: String,
    add_hidden: Vec<(String, String)>,
    email: Field,
    import_hidden: Vec<(String, String)>,
    /// Its value is what no page can keep.
    file: Field,
    export: String,
    search: String,
    origins: Vec<(&'static str, String, bool)>,
    entries: Vec<Row>,
    newer: Option<String>,
    older: Option<String>,
}

struct Row {
    email: String,
    origin: &'static str,
    reason: Option<String>,
    /// The mail that it comes from.
    source: Option<String>,
    at: Stamp,
    delete: Option<String>,
}

/// What the page shows beside the list.
#[derive(Default)]
struct Told {
    email: Field,
    file: Field,
    imported: Option<Imported>,
}

/// How much of what was typed is looked for.
const LONGEST_SEARCH: usize = 254;

const ADD: &str = "create a suppression";
const IMPORT: &str = "import suppressions";

fn origin_word(origin: Origin) -> &'static str {
    match origin {
        Origin::Bounce => "Bounced",
        Origin::Complaint => "Complained",
        Origin::Manual => "By hand",
    }
}

async fn list(member: Member<Look>) -> PageResult {
    let page = member.page()?;
    shown(&member, StatusCode::OK, &page, Told::default()).await
}

/// Those in whose address a text stands; the whole list has an index for whole addresses alone.
async fn found<D: Duty>(member: &Member<D>, search: &str) -> Result<Vec<Entry>, Error> {
    let workspace_id = member.workspace_id();
    if let Some(name) = Name::read(search) {
        let exact: Vec<Entry> = member.query(store::find(workspace_id, &name)).await?;
        if !exact.is_empty() {
            return Ok(exact);
        }
    }
    let wanted = search.to_lowercase();
    let pattern = format!("%{}%", like(&wanted, '!'));
    let all: Vec<Entry> = member.query(store::containing(workspace_id, &pattern)).await?;
    Ok(all.into_iter().filter(|entry| entry.email.to_lowercase().contains(&wanted)).collect())
}

async fn shown<D: Duty>(member: &Member<D>, status: StatusCode, page: &Page, told: Told) -> PageResult {
    let here = member.address("/suppressions");
    let search: String = member.asked("search").unwrap_or_default().trim().chars().take(LONGEST_SEARCH).collect();
    let search = search.replace('\0', "");
    let origin = member.asked("origin").as_deref().and_then(Origin::parse);
    let Leaf { items, newer, older } = if search.is_empty() {
        let stored: Vec<Entry> = member.query(store::page(member.workspace_id(), origin, page)).await?;
        let query = origin.map(|origin| format!("?origin={origin}")).unwrap_or_default();
        page.leaf(stored, &format!("{here}{query}"), |entry| entry.id)
    } else {
        Leaf { items: found(member, &search).await?, newer: None, older: None }
    };
    let now = member.app.clock.now();
    let row = |entry: Entry| Row {
        origin: Origin::parse(&entry.origin).map_or("", origin_word),
        reason: entry.reason,
        source: entry.source_id.map(|id| member.address(&format!("/emails/{id}"))),
        at: Stamp::ago(entry.created_at.0, now),
        delete: member.may_manage().then(|| format!("{here}/{}/delete", entry.id)),
        email: entry.email,
    };
    let choice = |one: Option<Origin>| {
        let query = one.map(|one| format!("?origin={one}")).unwrap_or_default();
        (one.map_or("All", origin_word), format!("{here}{query}"), one == origin)
    };
    let content = ListPage {
        layout: member.layout(),
        shell: member.shell("/suppressions"),
        notice: member
            .notice("added", "The address gets no mail any more.")
            .or(member.notice("known", "The address was on the list already."))
            .or(member.notice("removed", "The address may get mail again.")),
        imported: told.imported,
        may_manage: member.may_manage(),
        add_hidden: member.hidden(ADD),
        email: told.email,
        import_hidden: member.hidden(IMPORT),
        file: told.file,
        export: format!("{here}/export"),
        search,
        origins: std::iter::once(None).chain(Origin::ALL.map(Some)).map(choice).collect(),
        entries: items.into_iter().map(row).collect(),
        newer,
        older,
        here,
    };
    Ok(web::page(status, &content))
}

async fn add(member: Member<Manage>, State(app): State<App>, form: Form) -> PageResult {
    let accepted = member.accept(ADD, &form)?;
    let given = form.text("email");
    match MailAddress::try_from(given.clone()) {
        Ok(address) => {
            let is_new = add_one(&accepted, &app, &address).await?;
            Ok(member.see_other(if is_new { "/suppressions?added" } else { "/suppressions?known" }))
        }
        Err(flaw) => {
            let email = Field { value: given, error: Some(format!("The address {flaw}.")) };
            let told = Told { email, ..Told::default() };
            shown(&member, StatusCode::UNPROCESSABLE_ENTITY, &Page::parse("", RECENT)?, told).await
        }
    }
}

async fn export(member: Member<Look>) -> PageResult {
    Ok(export_for(&member.app, member.workspace_id()).await?)
}

/// A form of ours with a file in it.
struct Upload(MultipartForm);

impl<S: Send + Sync> FromRequest<S> for Upload
where
    App: FromRef<S>,
{
    type Rejection = PageError;

    async fn from_request(request: Request, state: &S) -> Result<Upload, PageError> {
        let app = &App::from_ref(state);
        let (parts, body) = request.into_parts();
        auth::refuse_foreign(app, &parts.headers)?;
        let body = Spool::receive(app, body, LIMIT_OF_MANY, PATIENCE).await?;
        app.admission.admit().await?;
        Ok(Upload(MultipartForm::parse(&parts.headers, body)?))
    }
}

async fn import(member: Member<Manage>, State(app): State<App>, Upload(form): Upload) -> PageResult {
    let accepted = member.accept_token(IMPORT, &form.text("token")?.unwrap_or_default())?;
    let file = form.get("file").map(|place| form.read(place)).transpose()?.unwrap_or_default();
    let page = Page::parse("", RECENT)?;
    match take_in(&accepted, &app, &file).await {
        Ok(imported) => {
            shown(&member, StatusCode::OK, &page, Told { imported: Some(imported), ..Told::default() }).await
        }
        Err(refusal) if refusal.status() == StatusCode::UNPROCESSABLE_ENTITY => {
            let file = Field { value: String::new(), error: Some(refusal.message().into_owned()) };
            shown(&member, refusal.status(), &page, Told { file, ..Told::default() }).await
        }
        Err(error) => Err(error.into()),
    }
}

fn gone() -> Error {
    Error::not_found("The address is not suppressed here. It may have been taken off the list already.")
}

fn purpose(id: SuppressionId) -> String {
    format!("delete suppression {id}")
}

async fn ask(member: Member<Manage>, id: Result<PathId<SuppressionId>, Error>) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let entry: Option<Entry> = member.query(store::find(member.workspace_id(), &Name::Id(id))).await?;
    let entry = entry.ok_or_else(gone)?;
    let why = match Origin::parse(&entry.origin) {
        Some(Origin::Bounce) => "Mail to it bounced. If it still does, it comes back onto the list.",
        Some(Origin::Complaint) => "Its owner complained of mail. Send again only if he asked for it.",
        _ => "Somebody put it onto the list.",
    };
    let content = ConfirmPage {
        layout: member.layout(),
        shell: member.shell("/suppressions"),
        title: "Let this address have mail again?".into(),
        subject: entry.email,
        sentence: why.into(),
        action: member.address(&format!("/suppressions/{id}/delete")),
        hidden: member.hidden(&purpose(id)),
        button: "Take it off the list".into(),
        cancel: member.address("/suppressions"),
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn delete(
    member: Member<Manage>,
    State(app): State<App>,
    id: Result<PathId<SuppressionId>, Error>,
    form: Form,
) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let accepted = member.accept(&purpose(id), &form)?;
    let removed = remove(&accepted, &app, vec![Name::Id(id)]).await?;
    removed.first().ok_or_else(gone)?;
    Ok(member.see_other("/suppressions?removed"))
}
