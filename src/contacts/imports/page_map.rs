//! What the columns of a file hold, told by sight.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::pages::gone;
use super::plan::Sample;
use super::routes::check_ties;
use super::store;
use crate::accounts::{Manage, Member};
use crate::contacts::{change::Ties, page_one::declared, properties::Declared};
use crate::db::DbError;
use crate::error::Error;
use crate::id::{ImportId, SegmentId, TopicId};
use crate::occurrences::Occurrences;
use crate::segments;
use crate::topics::{self, Subscription, TopicChoices};
use crate::web::{self, Field, Form, Layout, PageResult, PathId, Shell};

/// How many rows of a file are shown.
const SHOWN: usize = 4;

/// How much of a cell is shown.
const LONGEST_CELL: usize = 80;

#[derive(Template)]
#[template(path = "imports/map.html")]
struct MapPage {
    layout: Layout,
    shell: Shell,
    action: String,
    hidden: Vec<(String, String)>,
    flaws: Flaws,
    columns: Vec<Column>,
    overwrites: bool,
    segments: Vec<(SegmentId, String, bool)>,
    topics: Vec<Topic>,
}

/// What was refused, beside what it is about.
#[derive(Default)]
struct Flaws {
    columns: Field,
    segments: Field,
    topics: Field,
    problem: Option<String>,
}

impl Flaws {
    fn of(error: &Error) -> Flaws {
        let mut flaws = Flaws::default();
        let rest = web::beside_field(error, [("segments", &mut flaws.segments), ("topics", &mut flaws.topics)]);
        match error {
            Error::Invalid { .. } => flaws.columns.error = rest,
            _ => flaws.problem = rest,
        }
        flaws
    }
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
struct ImportOptions {
    overwrites: bool,
    segment_ids: Vec<SegmentId>,
    /// Of each topic its id and a subscription, or nothing.
    topics: Vec<String>,
}

impl ImportOptions {
    fn sent(form: &Form) -> ImportOptions {
        ImportOptions {
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
    is_wrong: bool,
}

/// Whether a refusal of what columns hold is about one: two hold the same, or else none what one has to hold.
fn is_wrong(chosen: &[String], at: usize) -> bool {
    let is_single = |meaning: &str| !meaning.is_empty() && meaning != "own" && !meaning.starts_with("property:");
    let is_doubled = |meaning: &String| is_single(meaning) && chosen.iter().filter(|one| *one == meaning).count() > 1;
    !chosen.iter().any(is_doubled) || chosen.get(at).is_some_and(is_doubled)
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

fn purpose(id: ImportId) -> String {
    format!("create import {id}")
}

pub async fn map(member: Member<Manage>, id: Result<PathId<ImportId>, Error>) -> PageResult {
    let PathId(id) = id.map_err(|_| gone())?;
    if !member.read(store::by_id(member.workspace_id(), id)).await?.is_empty() {
        return Ok(member.see_other(&format!("/imports/{id}")));
    }
    let (sample, _) = waiting(&member, id).await?;
    let declared = declared(&member).await?;
    let guessed: Vec<String> = (0..sample.header.len()).map(|column| sample.guess(column, &declared)).collect();
    let options = ImportOptions::default();
    Ok(map_page(&member, StatusCode::OK, id, (&sample, &guessed, &declared), &options, Flaws::default()).await?)
}

async fn map_page(
    member: &Member<Manage>,
    status: StatusCode,
    id: ImportId,
    (sample, all_chosen, declared): (&Sample, &[String], &[Declared]),
    options: &ImportOptions,
    flaws: Flaws,
) -> Result<Response, Error> {
    let own = [
        ("", "leave it out"),
        ("email", "Address"),
        ("first_name", "First name"),
        ("last_name", "Last name"),
        ("unsubscribed", "Unsubscribed"),
        ("own", "a property with the column’s name"),
    ];
    let column = |(at, name): (usize, &String)| {
        let chosen = all_chosen.get(at).map_or("", String::as_str);
        let mut meanings: Vec<(String, String, bool)> =
            own.iter().map(|(value, label)| ((*value).into(), (*label).into(), *value == chosen)).collect();
        meanings.extend(declared.iter().map(|property| {
            let value = format!("property:{}", property.key);
            let is_chosen = value == chosen;
            (value, format!("Property {}", property.key), is_chosen)
        }));
        let cell = |row: &Vec<String>| row.get(at).map_or("", String::as_str).chars().take(LONGEST_CELL).collect();
        let is_wrong = flaws.columns.error.is_some() && is_wrong(all_chosen, at);
        Column { name: name.clone(), cells: sample.rows.iter().map(cell).collect(), meanings, is_wrong }
    };
    let all: Vec<(SegmentId, String, bool)> = member.query(segments::choices(member.workspace_id())).await?;
    let open = all.into_iter().filter(|(.., fills_itself)| !fills_itself);
    let topics: Vec<(TopicId, String)> = member.query(topics::choices(member.workspace_id())).await?;
    let content = MapPage {
        layout: member.layout(),
        shell: member.shell("/imports"),
        action: member.address(&format!("/imports/{id}/map")),
        hidden: member.hidden(&purpose(id)),
        columns: sample.header.iter().enumerate().map(column).collect(),
        flaws,
        overwrites: options.overwrites,
        segments: open.map(|(id, name, _)| (id, name, options.segment_ids.contains(&id))).collect(),
        topics: topics.into_iter().map(|topic| Topic::of(topic, &options.topics)).collect(),
    };
    Ok(web::page(status, &content))
}

pub async fn begin(
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
    let (meanings, options) = (form.all("column"), ImportOptions::sent(&form));
    let begun = async {
        let upload = sample.upload(size, &meanings, options.overwrites, options.ties()?)?;
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
            let declared = declared(&member).await?;
            let chosen = (&sample, meanings.as_slice(), declared.as_slice());
            Ok(map_page(&member, status, id, chosen, &options, Flaws::of(&error)).await?)
        }
        Err(error) => Err(error.into()),
    }
}
