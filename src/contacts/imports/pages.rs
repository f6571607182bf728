//! Imports in the dashboard: a file is handed in, its columns are told by sight, and then it is worked off.

use askama::Template;
use axum::Router;
use axum::extract::{FromRef, FromRequest, Request, State};
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;

use super::apply::Problem;
use super::page_map;
use super::plan::Sample;
use super::routes::{CHUNKS_AT_ONCE, HandedIn, LARGEST};
use super::shapes::{ImportDetail, ImportStatus, Item};
use super::store::{self, CHUNK};
use crate::accounts::{Duty, Look, Manage, Member};
use crate::app::App;
use crate::auth::{self, Actor};
use crate::db::{Batch, DbError, Row};
use crate::error::Error;
use crate::id::ImportId;
use crate::occurrences::Occurrences;
use crate::web::{self, Field, Layout, Leaf, MultipartForm, Page, PageError, PageResult, PathId, RECENT, Shell, Stamp};

const UPLOAD: &str = "upload a file of contacts";

pub fn router() -> Router<Occurrences> {
    Router::new()
        .route("/imports", get(list).post(upload))
        .route("/imports/{id}", get(show))
        .route("/imports/{id}/map", get(page_map::map).post(page_map::begin))
}

#[derive(Template)]
#[template(path = "imports/list.html")]
struct ListPage {
    layout: Layout,
    shell: Shell,
    may_manage: bool,
    hidden: Vec<(String, String)>,
    /// Its value is what no page can keep.
    file: Field,
    imports: Vec<ImportRow>,
    /// What is listed, where, and whether that is here: all, or those with a status.
    statuses: Vec<(&'static str, String, bool)>,
    is_filtered: bool,
    newer: Option<String>,
    older: Option<String>,
}

struct ImportRow {
    href: String,
    look: &'static str,
    word: &'static str,
    total: i64,
    failed: i64,
    created: Stamp,
}

#[derive(Template)]
#[template(path = "imports/one.html")]
struct OnePage {
    layout: Layout,
    shell: Shell,
    look: &'static str,
    word: &'static str,
    is_running: bool,
    id: ImportId,
    counts: [(&'static str, i64); 5],
    failed: i64,
    problems: Vec<Problem>,
    created: Stamp,
    completed: Option<Stamp>,
}

fn badge(status: &str) -> (&'static str, &'static str) {
    match status {
        "queued" => ("off", "Waiting"),
        "in_progress" => ("off", "In progress"),
        "completed" => ("good", "Done"),
        _ => ("bad", "Failed"),
    }
}

pub(super) fn gone() -> Error {
    Error::not_found("There is no such import here. A file whose columns nobody named is kept for an hour.")
}

async fn list(member: Member<Look>) -> PageResult {
    Ok(list_page(&member, StatusCode::OK, &member.page()?, Field::default()).await?)
}

async fn list_page<D: Duty>(
    member: &Member<D>,
    status: StatusCode,
    page: &Page,
    file: Field,
) -> Result<Response, Error> {
    let chosen = member.asked("status").as_deref().and_then(ImportStatus::parse);
    let rows = member.read(store::page(member.workspace_id(), chosen, page)).await?;
    let stored: Result<Vec<ImportDetail>, DbError> = rows.iter().map(ImportDetail::read).collect();
    let address = |status: Option<ImportStatus>| {
        let query = status.map(|status| format!("?status={status}")).unwrap_or_default();
        member.address(&format!("/imports{query}"))
    };
    let Leaf { items, newer, older } = page.leaf(stored?, &address(chosen), |import| import.item.id);
    let now = member.app.clock.now();
    let row = |ImportDetail { item, .. }: ImportDetail| {
        let (look, word) = badge(&item.status);
        ImportRow {
            href: member.address(&format!("/imports/{}", item.id)),
            look,
            word,
            total: item.counts.total,
            failed: item.counts.failed,
            created: Stamp::ago(item.created_at.0, now),
        }
    };
    let choice = |status: Option<ImportStatus>| {
        (status.map_or("All", |status| badge(status.as_str()).1), address(status), status == chosen)
    };
    let content = ListPage {
        layout: member.layout(),
        shell: member.shell("/imports"),
        may_manage: member.may_manage(),
        hidden: member.hidden(UPLOAD),
        file,
        imports: items.into_iter().map(row).collect(),
        statuses: std::iter::once(None).chain(ImportStatus::ALL.map(Some)).map(choice).collect(),
        is_filtered: chosen.is_some(),
        newer,
        older,
    };
    Ok(web::page(status, &content))
}

/// A form with a file, from a page of ours.
struct Handed(MultipartForm);

impl<S: Send + Sync> FromRequest<S> for Handed
where
    App: FromRef<S>,
{
    type Rejection = PageError;

    async fn from_request(request: Request, state: &S) -> Result<Handed, PageError> {
        auth::refuse_foreign(&App::from_ref(state), request.headers())?;
        let HandedIn(form) = HandedIn::from_request(request, state).await?;
        Ok(Handed(form))
    }
}

async fn upload(State(app): State<Occurrences>, member: Member<Manage>, Handed(form): Handed) -> PageResult {
    let accepted = member.accept_token(UPLOAD, &form.text("token")?.unwrap_or_default())?;
    match keep(&accepted, &app, &form).await {
        Ok(id) => Ok(member.see_other(&format!("/imports/{id}/map"))),
        Err(error @ (Error::Invalid { .. } | Error::Missing { .. } | Error::TooLarge { .. })) => {
            let file = Field { value: String::new(), error: Some(error.message().into_owned()) };
            Ok(list_page(&member, StatusCode::UNPROCESSABLE_ENTITY, &Page::parse("", RECENT)?, file).await?)
        }
        Err(error) => Err(error.into()),
    }
}

/// Stores a file, some pieces at a time. It is swept away if nobody says what its columns are.
async fn keep(actor: &dyn Actor, app: &Occurrences, form: &MultipartForm) -> Result<ImportId, Error> {
    let file = form.get("file").ok_or_else(|| Error::invalid("Choose a CSV file that is not empty."))?;
    if file.len() > LARGEST {
        return Err(Error::TooLarge { limit: LARGEST });
    }
    let start = form.read(file.start..file.end.min(file.start + CHUNK))?;
    Sample::of(&start, start.len() == file.len(), 0)?;
    let (workspace, id) = (actor.workspace_id(), app.clock.ordered_id());
    let mut start = file.start;
    while start < file.end {
        let end = file.end.min(start + CHUNK * CHUNKS_AT_ONCE);
        let _turn = app.admission.write().await?;
        let (bytes, first) = (form.read(start..end)?, (start - file.start) / CHUNK);
        let one = |(at, chunk): (usize, &[u8])| store::add_chunk(workspace, id, first + at, chunk);
        let batch: Batch = bytes.chunks(CHUNK).enumerate().map(one).collect();
        // The log is told once, however many pieces there are.
        let is_last = end == file.end;
        let kept = if is_last { actor.act(batch).await } else { actor.try_commit_part(|| batch.clone()).await };
        kept??;
        start = end;
    }
    Ok(id)
}

async fn show(member: Member<Look>, id: Result<PathId<ImportId>, Error>) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let rows: Vec<Row> = member.read(store::by_id(member.workspace_id(), id)).await?;
    let ImportDetail { item, errors } = ImportDetail::read(rows.first().ok_or_else(gone)?)?;
    let Item { status, counts, created_at, completed_at, .. } = item;
    let ((look, word), now) = (badge(&status), member.app.clock.now());
    let content = OnePage {
        layout: member.layout(),
        shell: member.shell("/imports"),
        look,
        word,
        is_running: completed_at.is_none(),
        id,
        counts: [
            ("Rows read", counts.total),
            ("Contacts added", counts.created),
            ("Contacts changed", counts.updated),
            ("Left as they were", counts.skipped),
            ("Refused", counts.failed),
        ],
        failed: counts.failed,
        problems: errors,
        created: Stamp::ago(created_at.0, now),
        completed: completed_at.map(|at| Stamp::ago(at.0, now)),
    };
    Ok(web::page(StatusCode::OK, &content))
}
