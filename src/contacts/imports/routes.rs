//! The HTTP face of imports.

use std::time::Duration;

use axum::Json;
use axum::extract::{FromRef, FromRequest, Request, State};
use axum::response::Response;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::form::NewImport;
use super::plan::{Plan, Upload};
use super::shapes::{Filter, ImportDetail, Item, Reference};
use super::store::{self, CHUNK};
use crate::app::App;
use crate::auth::{Actor, Caller};
use crate::contacts::{properties::Declared, properties_store};
use crate::db::Batch;
use crate::error::Error;
use crate::id::ImportId;
use crate::occurrences::Occurrences;
use crate::web::{
    Answer, Idempotency, IdempotentRequest, JsonResult, List, MultipartForm as Form, Newest, OfPath, PathId, Query,
    Spool,
};
use crate::{segments, topics};

/// The largest file.
pub(super) const LARGEST: usize = 50 << 20;

/// What the other fields of the form and its boundaries may take.
const AROUND: usize = 1 << 20;

/// How long a file may take to arrive.
const PATIENCE: Duration = Duration::from_secs(300);

/// How many pieces of a file go into a commit: others want to write, too.
pub(super) const CHUNKS_AT_ONCE: usize = 2;

/// How many imports are listed where no limit is given.
const UNLIMITED: usize = 10;

pub fn router() -> OpenApiRouter<Occurrences> {
    OpenApiRouter::new().routes(routes!(create, list)).routes(routes!(read))
}

/// A form that may hold a large file.
pub(super) struct HandedIn(pub Form);

impl<S: Send + Sync> FromRequest<S> for HandedIn
where
    App: FromRef<S>,
{
    type Rejection = Error;

    async fn from_request(request: Request, state: &S) -> Result<HandedIn, Error> {
        let app = &App::from_ref(state);
        let (parts, body) = request.into_parts();
        let body = Spool::receive(app, body, LARGEST + AROUND, PATIENCE).await?;
        let _turn = app.admission.turn().await?;
        app.admission.build(move || Form::parse(&parts.headers, body)).await?.map(HandedIn)
    }
}

/// Import contacts
///
/// Takes a CSV file whole and works it off in the background; `GET /contacts/imports/{id}` tells how far it is. A row
/// that cannot be imported is counted with its line and the reason, and stops no other.
#[utoipa::path(
    post, path = "/contacts/imports", tag = "Contacts", operation_id = "create_contact_import",
    params(Idempotency), request_body(content = NewImport, content_type = "multipart/form-data"),
    responses((status = 201, description = "The file is stored and will be imported.", body = Reference), OfPath),
)]
async fn create(
    caller: Caller,
    State(app): State<Occurrences>,
    key: Idempotency,
    HandedIn(form): HandedIn,
) -> Result<Response, Error> {
    let digest = key.digest();
    let read = move || form.digested(digest).map(|digest| (form, digest));
    let (form, digest) = app.admission.build(read).await??;
    let request = key.request(&caller, &app, &digest);
    // A file that was stored before is not stored again, only to be thrown away.
    match request.find().await? {
        Some(answer) => Ok(answer),
        None => request.run(accept(&caller, &app, &request, &form)).await,
    }
}

async fn accept(
    caller: &Caller,
    app: &Occurrences,
    request: &IdempotentRequest<'_>,
    form: &Form,
) -> Result<Response, Error> {
    let rows = caller.read(|| properties_store::all(caller.workspace_id())).await?;
    let upload = Upload::parse(form, &Declared::read_all(&rows)?)?;
    if upload.file.len() > LARGEST {
        return Err(Error::TooLarge { limit: LARGEST });
    }
    check_ties(caller, &upload.plan).await?;
    keep(caller, app, request, form, &upload).await
}

/// Refuses what contacts cannot be tied to: segments that take no members, topics that there are not.
pub(super) async fn check_ties(actor: &dyn Actor, plan: &Plan) -> Result<(), Error> {
    for id in &plan.segment_ids {
        segments::must_take_members(actor, *id).await?;
    }
    for choice in &plan.choices {
        topics::must_exist(actor, choice.topic_id).await?;
    }
    Ok(())
}

/// Stores a file, some pieces at a time. The import itself comes with the last of
/// them: before that it is nothing, and swept away if it stays so.
async fn keep(
    caller: &Caller,
    app: &Occurrences,
    request: &IdempotentRequest<'_>,
    form: &Form,
    upload: &Upload,
) -> Result<Response, Error> {
    let (workspace, file, id) = (caller.workspace_id(), &upload.file, app.clock.ordered_id());
    let mut start = file.start;
    loop {
        let end = file.end.min(start + CHUNK * CHUNKS_AT_ONCE);
        let _turn = app.admission.write().await?;
        let (bytes, first) = (form.read(start..end)?, (start - file.start) / CHUNK);
        let chunks = || -> Batch {
            let one = |(at, chunk): (usize, &[u8])| store::add_chunk(workspace, id, first + at, chunk);
            bytes.chunks(CHUNK).enumerate().map(one).collect()
        };
        if end == file.end {
            let (now, due_at) = (app.clock.now(), app.clock.steady());
            let answer = Answer::created(&Reference::to(id))?;
            let last = || chunks().and(store::insert(workspace, id, upload, now, due_at));
            return Ok(request.commit(answer, last).await??);
        }
        (caller as &dyn Actor).try_commit_part(chunks).await??;
        start = end;
    }
}

/// List imports
///
/// The imports of the workspace, newest first.
#[utoipa::path(
    get, path = "/contacts/imports", tag = "Contacts", operation_id = "list_contact_imports",
    params(Newest::<UNLIMITED>, Filter),
    responses((status = 200, description = "The imports, newest first.", body = List<Item>)),
)]
async fn list(
    caller: Caller,
    Newest(page): Newest<UNLIMITED>,
    Query(Filter { status }): Query<Filter>,
) -> JsonResult<List<Item>> {
    let rows = caller.read(|| store::page(caller.workspace_id(), status, &page)).await?;
    page.answer(&rows, |row| Ok(ImportDetail::read(row)?.item))
}

/// Read an import
///
/// How far it is, and which rows failed.
#[utoipa::path(
    get, path = "/contacts/imports/{id}", tag = "Contacts", operation_id = "read_contact_import",
    params(PathId), responses((status = 200, description = "The import.", body = ImportDetail)),
)]
async fn read(caller: Caller, PathId(id): PathId<ImportId>) -> JsonResult<ImportDetail> {
    let not_found = || Error::not_found("Import not found. `GET /contacts/imports` lists those there are.");
    let rows = caller.read(|| store::by_id(caller.workspace_id(), id)).await?;
    Ok(Json(ImportDetail::read(rows.first().ok_or_else(not_found)?)?))
}
