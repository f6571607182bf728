//! Imports in the dashboard: a file is handed in, its columns are told by sight, and then it is worked off.

use askama::Template;
use axum::Router;
use axum::extract::{FromRef, FromRequest, Request, State};
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::apply::Problem;
use super::plan::Sample;
use super::routes::{CHUNKS_AT_ONCE, HandedIn, LARGEST, check_ties};
use super::shapes::{ImportDetail, Item};
use super::store::{self, CHUNK};
use crate::accounts::{Duty, Look, Manage, Member};
use crate::app::App;
use crate::auth::{self, Actor};
use crate::contacts::{change::Ties, properties::Declared, properties_store};
use crate::db::{Batch, DbError, Row};
use crate::error::Error;
use crate::id::{ImportId, SegmentId, TopicId};
use crate::occurrences::Occurrences;
use crate::segments;
use crate::topics::{self, Subscription, TopicChoices};
use crate::web::{self, Form, Layout, Leaf, MultipartForm, Page, PageError, PageResult, PathId, RECENT, Shell, Stamp};

/// How many rows of a file are shown.
const SHOWN: usize = 4;

/// How much of a cell is shown.
const LONGEST_CELL: usize = 80;

const UPLOAD: &str = "hand in a file of contacts";

pub fn router() -> Router<Occurrences> {
    Router::new()
        .route("/imports", get(list).post(upload))
        .route("/imports/{id}", get(show))
        .route("/imports/{id}/map", get(map).post(begin))
}

#[derive(Template)]
#[template(path = "imports/list.html")]
struct ListPage {
    layout: Layout,
    shell: Shell,
    may_manage: bool,
    hidden: Vec<(String, String)>,
    problem: Option<String>,
    imports: Vec<ImportRow>,
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
#[template(path = "imports/map.html")]
struct MapPage {
    layout: Layout,
    shell: Shell,
    action: String,
    hidden: Vec<(String, String)>,
    problem: Option<String>,
    columns: Vec<Column>,
    overwrites: bool,
    segments: Vec<(SegmentId, String, bool)>,
    topics: Vec<Topic>,
}

struct Topic {
    name: String,
    /// Value, label, and whether it is chosen.
    choices: Vec<(String, &'static str, bool)>,
}

impl Topic {
    /// What contacts can be said to want of a topic, with what was sent.
    fn of((id, name): (TopicId, String), sent: &[String]) -> Topic {
        let choice = |(subscription, label): (Subscription, &'static str)| {
            let value = format!("{id} {}", subscription.as_str());
            let is_chosen = sent.contains(&value);
            (value, label, is_chosen)
        };
        let choices = [(Subscription::OptIn, "they want it"), (Subscription::OptOut, "they do not want it")];
        Topic { name, choices: choices.into_iter().map(choice).collect() }
    }
}

/// What was said of the contacts of a file, beside what its columns hold.
#[derive(Default)]
struct Wishes {
    overwrites: bool,
    segment_ids: Vec<SegmentId>,
    /// Of each topic its id and a subscription, or nothing.
    topics: Vec<String>,
}

impl Wishes {
    fn sent(form: &Form) -> Wishes {
        Wishes {
            overwrites: form.text("on_conflict") == "upsert",
            segment_ids: form.all("segment").iter().filter_map(|id| id.parse().ok()).collect(),
            topics: form.all("topic"),
        }
    }

    /// As a request would say it.
    fn ties(&self) -> Result<Ties, Error> {
        let chosen = self.topics.iter().filter_map(|one| one.split_once(' '));
        let chosen: Vec<Value> =
            chosen.map(|(id, subscription)| json!({"id": id, "subscription": subscription})).collect();
        let chosen: TopicChoices = web::read_fields(Map::from_iter([("topics".to_owned(), chosen.into())]))?;
        Ok(Ties { segment_ids: self.segment_ids.clone(), choices: chosen.topics.0 })
    }
}

struct Column {
    name: String,
    cells: Vec<String>,
    /// Value, label, and whether it is chosen.
    meanings: Vec<(String, String, bool)>,
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

fn gone() -> Error {
    Error::not_found("There is no such import here. A file whose columns nobody named is kept for an hour.")
}

async fn list(member: Member<Look>) -> PageResult {
    Ok(list_page(&member, StatusCode::OK, &member.page()?, None).await?)
}

async fn list_page<D: Duty>(
    member: &Member<D>,
    status: StatusCode,
    page: &Page,
    problem: Option<String>,
) -> Result<Response, Error> {
    let rows = member.read(store::page(member.workspace_id(), None, page)).await?;
    let stored: Result<Vec<ImportDetail>, DbError> = rows.iter().map(ImportDetail::read).collect();
    let Leaf { items, newer, older } = page.leaf(stored?, &member.address("/imports"), |import| import.item.id);
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
    let content = ListPage {
        layout: member.layout(),
        shell: member.shell("/imports"),
        may_manage: member.may_manage(),
        hidden: member.hidden(UPLOAD),
        problem,
        imports: items.into_iter().map(row).collect(),
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
            let problem = Some(error.message().into_owned());
            Ok(list_page(&member, StatusCode::UNPROCESSABLE_ENTITY, &Page::parse("", RECENT)?, problem).await?)
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
        actor.act(batch).await??;
        start = end;
    }
    Ok(id)
}

/// A file that waits: what it begins with, and its size.
async fn waiting(member: &Member<Manage>, id: ImportId) -> Result<(Sample, usize), Error> {
    let workspace = member.workspace_id();
    let length: Option<i64> = member.query(store::length(workspace, id)).await?;
    let size = usize::try_from(length.unwrap_or_default()).unwrap_or_default();
    let rows = member.read(store::piece(workspace, id, 0)).await?;
    let start = rows.first().ok_or_else(gone)?.bytes(0)?;
    Ok((Sample::of(&start, start.len() == size, SHOWN)?, size))
}

async fn declared(member: &Member<Manage>) -> Result<Vec<Declared>, Error> {
    Ok(Declared::read_all(&member.read(properties_store::all(member.workspace_id())).await?)?)
}

fn purpose(id: ImportId) -> String {
    format!("create import {id}")
}

async fn map(member: Member<Manage>, id: Result<PathId<ImportId>, Error>) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    if !member.read(store::by_id(member.workspace_id(), id)).await?.is_empty() {
        return Ok(member.see_other(&format!("/imports/{id}")));
    }
    let (sample, _) = waiting(&member, id).await?;
    let declared = declared(&member).await?;
    let guessed: Vec<String> = (0..sample.header.len()).map(|column| sample.guess(column, &declared)).collect();
    Ok(map_page(&member, StatusCode::OK, id, (&sample, &guessed), &Wishes::default(), None).await?)
}

async fn map_page(
    member: &Member<Manage>,
    status: StatusCode,
    id: ImportId,
    (sample, chosen): (&Sample, &[String]),
    wishes: &Wishes,
    problem: Option<String>,
) -> Result<Response, Error> {
    let declared = declared(member).await?;
    let own = [
        ("", "leave it out"),
        ("email", "Address"),
        ("first_name", "First name"),
        ("last_name", "Last name"),
        ("unsubscribed", "Unsubscribed"),
        ("own", "a property with the column’s name"),
    ];
    let column = |(at, name): (usize, &String)| {
        let chosen = chosen.get(at).map_or("", String::as_str);
        let mut meanings: Vec<(String, String, bool)> =
            own.iter().map(|(value, label)| ((*value).into(), (*label).into(), *value == chosen)).collect();
        meanings.extend(declared.iter().map(|property| {
            let value = format!("property:{}", property.key);
            let is_chosen = value == chosen;
            (value, format!("Property {}", property.key), is_chosen)
        }));
        let cell = |row: &Vec<String>| row.get(at).map_or("", String::as_str).chars().take(LONGEST_CELL).collect();
        Column { name: name.clone(), cells: sample.rows.iter().map(cell).collect(), meanings }
    };
    let all: Vec<(SegmentId, String, bool)> = member.query(segments::choices(member.workspace_id())).await?;
    let open = all.into_iter().filter(|(.., fills_itself)| !fills_itself);
    let topics: Vec<(TopicId, String)> = member.query(topics::choices(member.workspace_id())).await?;
    let content = MapPage {
        layout: member.layout(),
        shell: member.shell("/imports"),
        action: member.address(&format!("/imports/{id}/map")),
        hidden: member.hidden(&purpose(id)),
        problem,
        columns: sample.header.iter().enumerate().map(column).collect(),
        overwrites: wishes.overwrites,
        segments: open.map(|(id, name, _)| (id, name, wishes.segment_ids.contains(&id))).collect(),
        topics: topics.into_iter().map(|topic| Topic::of(topic, &wishes.topics)).collect(),
    };
    Ok(web::page(status, &content))
}

async fn begin(
    State(app): State<Occurrences>,
    member: Member<Manage>,
    id: Result<PathId<ImportId>, Error>,
    form: Form,
) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    let accepted = member.accept(&purpose(id), &form)?;
    if !member.read(store::by_id(member.workspace_id(), id)).await?.is_empty() {
        return Ok(member.see_other(&format!("/imports/{id}")));
    }
    let (sample, size) = waiting(&member, id).await?;
    let (meanings, wishes) = (form.all("column"), Wishes::sent(&form));
    let begun = async {
        let upload = sample.upload(size, &meanings, wishes.overwrites, wishes.ties()?)?;
        check_ties(&accepted, &upload.plan).await?;
        let insert = store::insert(member.workspace_id(), id, &upload, app.clock.now(), app.clock.steady());
        match accepted.try_commit(|| insert.clone().into()).await? {
            // Sent twice: it is under way.
            Ok(_) | Err(DbError::Duplicate(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    };
    match begun.await {
        Ok(()) => Ok(member.see_other(&format!("/imports/{id}"))),
        Err(error @ (Error::Invalid { .. } | Error::NotFound { .. })) => {
            let status = StatusCode::UNPROCESSABLE_ENTITY;
            let (chosen, problem) = ((&sample, meanings.as_slice()), web::beside_field(&error, []));
            Ok(map_page(&member, status, id, chosen, &wishes, problem).await?)
        }
        Err(error) => Err(error.into()),
    }
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
