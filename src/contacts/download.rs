//! The list of contacts as a file, made while it is sent.

use std::io;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use serde_json::Value;
use uuid::Uuid;

use super::contact::Contact;
use super::page_one::declared;
use crate::accounts::{Manage, Member};
use crate::app::App;
use crate::clock::rfc3339;
use crate::csv;
use crate::db::{DbError, ReadLimit, Sql, statements};
use crate::error::Error;
use crate::id::{Id, SegmentId, WorkspaceId};
use crate::segments;
use crate::web::PageResult;

/// How many rows are read at once, and how many bytes of them.
const ROWS: i64 = 500;
const LARGEST: usize = 1 << 20;

const COLUMNS: [&str; 5] = ["email", "first_name", "last_name", "unsubscribed", "created_at"];

statements! {
    functions {
        fn behind(workspace_id: WorkspaceId, last: Uuid) with [workspace_id, last, ROWS] = Sql::both(
            "SELECT id, email, first_name, last_name, unsubscribed, properties, sequence, created_at, updated_at
             FROM contacts WHERE workspace_id = $1 AND id > $2 ORDER BY id LIMIT $3");
        fn behind_in_segment(workspace_id: WorkspaceId, last: Uuid, segment_id: SegmentId)
            with [workspace_id, last, ROWS, segment_id] = Sql::both(
            "SELECT c.id, c.email, c.first_name, c.last_name, c.unsubscribed, c.properties, c.sequence, c.created_at,
                    c.updated_at
             FROM segment_members m JOIN contacts c ON c.workspace_id = m.workspace_id AND c.id = m.contact_id
             WHERE m.workspace_id = $1 AND m.segment_id = $4 AND m.contact_id > $2 ORDER BY m.contact_id LIMIT $3");
    }
}

/// Which contacts, and which of their properties.
struct Wanted {
    app: App,
    workspace_id: WorkspaceId,
    segment_id: Option<SegmentId>,
    keys: Vec<String>,
}

/// All contacts, or those of a segment, oldest first. An import takes the file as it is.
pub async fn contacts(member: Member<Manage>) -> PageResult {
    let segment_id = match member.asked("segment") {
        Some(id) => Some(id.parse().map_err(|_| segments::not_found())?),
        None => None,
    };
    if let Some(id) = segment_id {
        segments::must_exist(&member, id).await?;
    }
    let keys = declared(&member).await?.into_iter().map(|property| property.key).collect();
    let wanted = Wanted { app: member.app.clone(), workspace_id: member.workspace_id(), segment_id, keys };
    Ok(file(wanted).await?)
}

async fn file(wanted: Wanted) -> Result<Response, Error> {
    let mut head = String::new();
    csv::write(COLUMNS.into_iter().chain(wanted.keys.iter().map(String::as_str)), &mut head);
    // Whoever cannot be served is told so, and not in the middle of a file.
    let (first, last) = some(&wanted, Uuid::nil()).await?;
    let rest = stream::try_unfold((wanted, last), async |(wanted, last)| {
        let Some(last) = last else { return Ok(None) };
        let (rows, last) = some(&wanted, last).await.map_err(|error| io::Error::other(error.to_string()))?;
        Ok::<_, io::Error>(Some((Bytes::from(rows), (wanted, last))))
    });
    let start = stream::iter([Ok(Bytes::from(head + &first))]);
    let body = Body::from_stream(futures_util::StreamExt::chain(start, rest));
    let headers = [
        (CONTENT_TYPE, "text/csv; charset=utf-8"),
        (CONTENT_DISPOSITION, "attachment; filename=\"contacts.csv\""),
        (CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, body).into_response())
}

/// The next rows, and the last id among them where there may be more.
async fn some(wanted: &Wanted, last: Uuid) -> Result<(String, Option<Uuid>), DbError> {
    let limit = ReadLimit::new(LARGEST);
    let stmt = match wanted.segment_id {
        Some(segment_id) => behind_in_segment(wanted.workspace_id, last, segment_id),
        None => behind(wanted.workspace_id, last),
    };
    let rows = wanted.app.db.read(stmt.within(&limit)).await?;
    let mut text = String::new();
    let mut last = None;
    for row in &rows {
        let contact = Contact::read(row)?;
        last = Some(contact.id.uuid());
        write(&contact, &wanted.keys, &mut text);
    }
    let is_more = limit.is_cut() || rows.len() as i64 == ROWS;
    Ok((text, last.filter(|_| is_more)))
}

fn write(contact: &Contact, keys: &[String], out: &mut String) {
    let created = rfc3339(contact.created_at);
    let unsubscribed = if contact.unsubscribed { "true" } else { "false" };
    let value = |key: &String| match contact.properties.get(key) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let properties: Vec<String> = keys.iter().map(value).collect();
    let (first, last) = (contact.first_name.as_deref(), contact.last_name.as_deref());
    let own = [contact.email.as_str(), first.unwrap_or_default(), last.unwrap_or_default(), unsubscribed, &created];
    csv::write(own.into_iter().chain(properties.iter().map(String::as_str)), out);
}
