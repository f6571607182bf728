//! The list as a file: out to somewhere else, and in from there.

use std::collections::HashSet;
use std::io;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRef, FromRequest, Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use serde::Serialize;
use sha2::Digest;
use utoipa::ToSchema;
use uuid::Uuid;

use super::store::{self, Suppression};
use super::suppression::{Entry, Origin};
use crate::app::App;
use crate::auth::{Actor, Caller};
use crate::clock::rfc3339;
use crate::csv::{self, BYTE_ORDER_MARK, Record, Scan};
use crate::db::Batch;
use crate::error::Error;
use crate::id::{SuppressionId, WorkspaceId};
use crate::mime::Address;
use crate::text::{is_one_line, shown};
use crate::web::{Answer, Idempotency, LIGHT, LIMIT_OF_MANY, Spool};
use crate::webhooks::{self, EventType};

const COLUMNS: [&str; 5] = ["email", "origin", "reason", "source_id", "created_at"];

/// How many rows are read or written at once.
const ROWS: usize = 500;

/// How long a file may take to arrive.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// How many rows that failed are told with their reasons.
const MOST_PROBLEMS: usize = 100;

/// In characters.
const LONGEST_REASON: usize = 1000;

/// Export suppressions
///
/// All of them as a CSV file, oldest first, with a first row that names the columns. `POST /suppressions/import` takes
/// it as it is.
#[utoipa::path(
    get, path = "/suppressions/export", tag = "Suppressions", operation_id = "export_suppressions",
    responses((status = 200, description = "The file.", body = String, content_type = "text/csv")),
)]
pub async fn export(caller: Caller) -> Result<Response, Error> {
    let mut head = String::new();
    csv::write(COLUMNS, &mut head);
    // Whoever cannot be served is told so, and not in the middle of a file.
    let (first, last) = some_rows(&caller, Uuid::nil().into()).await?;
    let rest = stream::try_unfold((caller, last), async |(caller, last)| {
        let Some(last) = last else { return Ok(None) };
        let (rows, last) = some_rows(&caller, last).await.map_err(|error| io::Error::other(error.message()))?;
        Ok::<_, io::Error>(Some((Bytes::from(rows), (caller, last))))
    });
    Ok(file_of(head + &first, rest))
}

/// The same, for somebody who may look at the workspace.
pub async fn export_for(app: &App, workspace_id: WorkspaceId) -> Result<Response, Error> {
    let mut head = String::new();
    csv::write(COLUMNS, &mut head);
    let (first, last) = rows_behind(app, workspace_id, Uuid::nil().into()).await?;
    let rest = stream::try_unfold((app.clone(), last), move |(app, last)| async move {
        let Some(last) = last else { return Ok(None) };
        let rows = rows_behind(&app, workspace_id, last).await;
        let (rows, last) = rows.map_err(|error| io::Error::other(error.message()))?;
        Ok::<_, io::Error>(Some((Bytes::from(rows), (app, last))))
    });
    Ok(file_of(head + &first, rest))
}

async fn rows_behind(
    app: &App,
    workspace_id: WorkspaceId,
    last: SuppressionId,
) -> Result<(String, Option<SuppressionId>), Error> {
    written(&app.db.read(store::behind(workspace_id, last, ROWS as i64)).await?)
}

fn file_of(first: String, rest: impl stream::Stream<Item = io::Result<Bytes>> + Send + 'static) -> Response {
    let start = stream::iter([Ok(Bytes::from(first))]);
    let body = Body::from_stream(futures_util::StreamExt::chain(start, rest));
    let name = "attachment; filename=\"suppressions.csv\"";
    ([(CONTENT_TYPE, "text/csv; charset=utf-8"), (CONTENT_DISPOSITION, name)], body).into_response()
}

/// The next rows, and the last id among them where there may be more.
async fn some_rows(caller: &Caller, last: SuppressionId) -> Result<(String, Option<SuppressionId>), Error> {
    written(&caller.read(|| store::behind(caller.workspace_id(), last, ROWS as i64)).await?)
}

fn written(rows: &[crate::db::Row]) -> Result<(String, Option<SuppressionId>), Error> {
    let entries = rows.iter().map(Entry::read).collect::<Result<Vec<_>, _>>()?;
    let mut text = String::new();
    for entry in &entries {
        let (source, created) = (entry.source_id.map(|id| id.to_string()), rfc3339(entry.created_at.0));
        let reason = entry.reason.as_deref().unwrap_or_default();
        csv::write([&*entry.email, &entry.origin, reason, source.as_deref().unwrap_or_default(), &created], &mut text);
    }
    Ok((text, entries.last().filter(|_| entries.len() == ROWS).map(|entry| entry.id)))
}

/// A CSV file.
pub struct File(Bytes);

impl<S: Send + Sync> FromRequest<S> for File
where
    App: FromRef<S>,
{
    type Rejection = Error;

    async fn from_request(request: Request, state: &S) -> Result<File, Error> {
        let app = &App::from_ref(state);
        let (parts, body) = request.into_parts();
        let label = parts.headers.get(CONTENT_TYPE).and_then(|label| label.to_str().ok()).unwrap_or_default();
        if !label.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/csv") {
            return Err(Error::NotCsv);
        }
        let body = Spool::receive(app, body, LIMIT_OF_MANY, PATIENCE).await?;
        if body.len() > LIGHT {
            app.admission.admit().await?;
        }
        body.part(0..body.len()).map(File)
    }
}

/// What came of the rows of a file.
#[derive(Default, Serialize, ToSchema)]
#[schema(as = SuppressionImport)]
pub struct Imported {
    #[schema(pattern = "^suppression_import$")]
    object: &'static str,
    /// Rows, blank lines aside.
    #[schema(minimum = 0)]
    pub total: u64,
    /// Addresses that are suppressed now and were not before.
    #[schema(minimum = 0)]
    pub added: u64,
    /// Addresses that were suppressed before; they stay as they were.
    #[schema(minimum = 0)]
    pub skipped: u64,
    #[schema(minimum = 0)]
    pub failed: u64,
    /// Why rows failed, of the first hundred.
    pub errors: Vec<Problem>,
}

/// Why a row came to nothing.
#[derive(Serialize, ToSchema)]
#[schema(as = SuppressionImportError)]
pub struct Problem {
    /// The line of the file that the row begins in.
    #[schema(minimum = 1)]
    pub line: i64,
    pub message: String,
}

/// Import suppressions
///
/// Takes a CSV file of at most 8 MiB, in UTF-8. Its first row names the columns: `email`, and if you like `origin`
/// (`manual` where it is empty) and `reason`; others are passed over. A row that cannot be read is told with its line and
/// the reason, and stops no other.
#[utoipa::path(
    post, path = "/suppressions/import", tag = "Suppressions", operation_id = "import_suppressions",
    params(Idempotency), request_body(content = String, content_type = "text/csv"),
    responses((status = 201, description = "The addresses are suppressed.", body = Imported)),
)]
pub async fn import(
    caller: Caller,
    State(app): State<App>,
    key: Idempotency,
    File(file): File,
) -> Result<Response, Error> {
    let digest = key.digest().map(|digest| digest.chain_update(&file));
    let request = key.request(&caller, &app, &digest);
    if let Some(answer) = request.find().await? {
        return Ok(answer);
    }
    let told = take_in(&caller, &app, &file).await?;
    caller.changes(false);
    // Under its key, a file that is sent again gets this answer.
    Ok(request.commit(Answer::created(&told)?, Batch::new).await??)
}

/// Puts the rows of a file on the list, some a commit.
pub async fn take_in(caller: &dyn Actor, app: &App, file: &[u8]) -> Result<Imported, Error> {
    let (mut rows, mut told) = (Rows::new(file)?, Imported { object: "suppression_import", ..Imported::default() });
    let mut is_logged = false;
    loop {
        let lines = rows.some(ROWS);
        if lines.is_empty() {
            return Ok(told);
        }
        let mut new = Vec::new();
        for (line, said) in lines {
            told.total += 1;
            match said {
                Ok(row) => new.push(row),
                Err(message) => {
                    told.failed += 1;
                    if told.errors.len() < MOST_PROBLEMS {
                        told.errors.push(Problem { line, message });
                    }
                }
            }
        }
        // Two files that hold the same must not wait for each other.
        new.sort_by(|one: &Row, other| one.key.cmp(&other.key));
        told.skipped += drop_known(caller, &mut new).await?;
        if new.is_empty() {
            continue;
        }
        let now = app.clock.now();
        let is_published =
            webhooks::listened(&app.db, caller.workspace_id()).await?.contains(EventType::SuppressionAdded);
        let batch = || {
            let mut batch = Batch::new();
            let inserts: Vec<Batch> = new.iter().map(|row| row.insert(caller, app, (now, is_published))).collect();
            inserts.into_iter().for_each(|insert| batch.append(insert));
            batch
        };
        let rows = if is_published { 3 } else { 1 };
        // The log tells of a file once.
        let settled = match is_logged {
            false => caller.try_commit(batch).await?,
            true => caller.try_commit_part(batch).await?,
        }?;
        is_logged = true;
        // What webhooks are told stands behind each row.
        let added: u64 = settled.iter().take(new.len() * rows).step_by(rows).map(|effect| effect.changed).sum();
        told.added += added;
        told.skipped += new.len() as u64 - added;
    }
}

/// Drops those rows whose addresses are on the list, and says how many that are.
async fn drop_known(caller: &dyn Actor, rows: &mut Vec<Row>) -> Result<u64, Error> {
    let keys: Vec<String> = rows.iter().map(|row| row.key.clone()).collect();
    let known = caller.read(|| store::suppressed(caller.workspace_id(), &keys)).await?;
    let known: HashSet<String> = known.iter().map(|row| row.text(0)).collect::<Result<_, _>>()?;
    rows.retain(|row| !known.contains(&row.key));
    Ok((keys.len() - rows.len()) as u64)
}

/// What a row says.
struct Row {
    address: Address,
    key: String,
    origin: Origin,
    reason: Option<String>,
}

impl Row {
    fn insert(&self, caller: &dyn Actor, app: &App, (now, is_published): (i64, bool)) -> Batch {
        let (address, reason) = (self.address.as_str(), self.reason.as_deref());
        let new = Suppression { address, origin: self.origin, reason, email_id: None };
        let (workspace_id, id) = (caller.workspace_id(), app.clock.ordered_id());
        let mut batch = Batch::from(store::insert(workspace_id, id, &new, now));
        if is_published {
            let data = store::published(id, &new, now);
            store::publish(&mut batch, (&app.clock, workspace_id), EventType::SuppressionAdded, id, &data);
        }
        batch
    }
}

/// The rows of a file, one after the other.
struct Rows<'a> {
    rest: &'a [u8],
    line: i64,
    email: usize,
    origin: Option<usize>,
    reason: Option<usize>,
}

impl<'a> Rows<'a> {
    fn new(file: &'a [u8]) -> Result<Rows<'a>, Error> {
        let rest = file.strip_prefix(BYTE_ORDER_MARK).unwrap_or(file);
        let mut rows = Rows { rest, line: 1, email: 0, origin: None, reason: None };
        let header = rows.next().map_or(Ok(Vec::new()), |(_, fields)| fields);
        let header = header.map_err(|flaw| Error::invalid(format!("The first row of the file: {flaw}")))?;
        let column = |name: &str| header.iter().position(|cell| cell.trim().eq_ignore_ascii_case(name));
        let missing = || Error::invalid("The first row of the file must name the columns, `email` among them.");
        rows.email = column("email").ok_or_else(missing)?;
        (rows.origin, rows.reason) = (column("origin"), column("reason"));
        Ok(rows)
    }

    /// The next row that is not blank, and the line that it begins in.
    fn next(&mut self) -> Option<(i64, Result<Vec<String>, &'static str>)> {
        while let Scan::Record(Record { fields, bytes, lines }) = csv::scan(self.rest, true) {
            let line = self.line;
            (self.rest, self.line) = (self.rest.get(bytes..).unwrap_or_default(), line + lines);
            if fields.as_ref().map_or(true, |fields| !fields.is_empty()) {
                return Some((line, fields));
            }
        }
        None
    }

    /// The next rows, each as what it says or what is wrong with it.
    fn some(&mut self, most: usize) -> Vec<(i64, Result<Row, String>)> {
        let mut rows = Vec::new();
        while rows.len() < most
            && let Some((line, fields)) = self.next()
        {
            let said = fields.map_err(str::to_owned).and_then(|fields| self.read(&fields));
            rows.push((line, said));
        }
        rows
    }

    fn read(&self, fields: &[String]) -> Result<Row, String> {
        let cell = |column: Option<usize>| {
            column.and_then(|column| fields.get(column)).map(|cell| cell.trim()).filter(|cell| !cell.is_empty())
        };
        let email = cell(Some(self.email)).ok_or("The row has no address.")?;
        let address: Address = email.parse().map_err(|flaw| format!("`{}` {flaw}.", shown(email)))?;
        let origin = match cell(self.origin) {
            None => Origin::Manual,
            Some(word) => Origin::parse(word).ok_or_else(|| {
                format!("The origin must be `bounce`, `complaint` or `manual`, but is `{}`.", shown(word))
            })?,
        };
        let reason = cell(self.reason).map(str::to_owned);
        if reason.as_deref().is_some_and(|reason| !is_one_line(reason, LONGEST_REASON)) {
            return Err(format!("The reason must be one line of at most {LONGEST_REASON} characters."));
        }
        Ok(Row { key: address.key(), address, origin, reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Said = (String, Origin, Option<String>);

    fn read(file: &str) -> Vec<(i64, Result<Said, String>)> {
        let rows = Rows::new(file.as_bytes()).unwrap_or_else(|error| panic!("{}", error.message())).some(100);
        let said = |row: Row| (row.key, row.origin, row.reason);
        rows.into_iter().map(|(line, row)| (line, row.map(said))).collect()
    }

    #[test]
    fn columns_are_found_by_their_names_and_others_passed_over() {
        let file = "\u{feff}id,Reason, EMAIL ,origin\r\n1,\"no, such\",Ada@b.example,bounce\r\n\r\n2,,c@d.example\r\n";
        let ada = ("ada@b.example".into(), Origin::Bounce, Some("no, such".into()));
        assert_eq!(read(file), [(2, Ok(ada)), (4, Ok(("c@d.example".into(), Origin::Manual, None)))]);
    }

    #[test]
    fn a_bad_row_is_told_with_its_line_and_stops_no_other() {
        let rows = read("email,origin\nx\n,\na@b.example,sad\na@b.example,manual\n");
        let flaws: Vec<_> = rows.iter().map(|(line, said)| (*line, said.as_ref().err().cloned())).collect();
        assert!(matches!(&flaws[0], (2, Some(flaw)) if flaw.contains("`x` must be an address")), "{flaws:?}");
        assert!(matches!(&flaws[1], (3, Some(flaw)) if flaw.contains("no address")), "{flaws:?}");
        assert!(matches!(&flaws[2], (4, Some(flaw)) if flaw.contains("`sad`")), "{flaws:?}");
        assert_eq!(flaws[3], (5, None));
        for headless in ["", "\n", "a@b.example\n", "\"open"] {
            assert!(Rows::new(headless.as_bytes()).is_err(), "{headless:?}");
        }
    }
}
