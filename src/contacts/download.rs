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
use super::search::{Wanted, fitting};
use crate::accounts::{Manage, Member};
use crate::app::App;
use crate::clock::rfc3339;
use crate::csv;
use crate::db::{DbError, ReadLimit, Sql, statements};
use crate::error::Error;
use crate::id::{Id, SegmentId, WorkspaceId};
use crate::web::PageResult;
use crate::{segments, topics};

/// How many rows are read at once, and how many bytes of them.
const ROWS: i64 = 500;
const LARGEST: usize = 1 << 20;

/// How many contacts are gone through at once, where few of them may fit: others wait meanwhile.
const STRETCH: i64 = 2_000;

const COLUMNS: [&str; 5] = ["email", "first_name", "last_name", "unsubscribed", "created_at"];

/// What is read of contacts `c`.
macro_rules! columns {
    () => {
        "c.id, c.email, c.first_name, c.last_name, c.unsubscribed, c.properties, c.sequence, c.created_at, c.updated_at"
    };
}

statements! {
    functions {
        fn behind(workspace_id: WorkspaceId, last: Uuid) with [workspace_id, last, ROWS] = Sql::both(concat!(
            "SELECT ", columns!(), " FROM contacts c WHERE c.workspace_id = $1 AND c.id > $2 ORDER BY c.id LIMIT $3"));
        fn behind_in_segment(workspace_id: WorkspaceId, last: Uuid, segment_id: SegmentId)
            with [workspace_id, last, ROWS, segment_id] = Sql::both(concat!(
            "SELECT ", columns!(),
            " FROM segment_members m JOIN contacts c ON c.workspace_id = m.workspace_id AND c.id = m.contact_id
             WHERE m.workspace_id = $1 AND m.segment_id = $4 AND m.contact_id > $2 ORDER BY m.contact_id LIMIT $3"));
        /// The last of the next so many contacts.
        fn edge(workspace_id: WorkspaceId, last: Uuid) with [workspace_id, last, STRETCH - 1] = Sql::both(
            "SELECT id FROM contacts WHERE workspace_id = $1 AND id > $2 ORDER BY id LIMIT 1 OFFSET $3");
        fn edge_in_segment(workspace_id: WorkspaceId, last: Uuid, segment_id: SegmentId)
            with [workspace_id, last, STRETCH - 1, segment_id] = Sql::both(
            "SELECT contact_id FROM segment_members WHERE workspace_id = $1 AND segment_id = $4 AND contact_id > $2
             ORDER BY contact_id LIMIT 1 OFFSET $3");
    }
    FIT = Sql::both(concat!(fitting!(all columns!(), ">" to "<="), " ORDER BY c.id LIMIT $3"));
    FIT_IN_SEGMENT = Sql::both(concat!(
        fitting!(segment columns!(), ">" to "<="), " ORDER BY m.contact_id LIMIT $3"));
}

/// Which contacts, and which of their properties.
struct Export {
    app: App,
    workspace_id: WorkspaceId,
    wanted: Wanted,
    keys: Vec<String>,
}

/// All contacts, or those that the list is filtered to, oldest first. An import takes the file as it is.
pub async fn contacts(member: Member<Manage>) -> PageResult {
    let wanted = Wanted::of(&member);
    // Everybody would be the wrong answer to a filter that cannot be read.
    let is_asked = |name: &str| member.asked(name).is_some_and(|value| !value.is_empty());
    if is_asked("segment") && wanted.segment_id.is_none() {
        return Err(segments::not_found().into());
    }
    if is_asked("topic") && wanted.topic_id.is_none() {
        return Err(topics::not_found().into());
    }
    if is_asked("mail") && wanted.mail.is_empty() {
        return Err(Error::invalid("The `mail` parameter must be `subscribed` or `unsubscribed`.").into());
    }
    if let Some(id) = wanted.segment_id {
        segments::must_exist(&member, id).await?;
    }
    let keys = declared(&member).await?.into_iter().map(|property| property.key).collect();
    let export = Export { app: member.app.clone(), workspace_id: member.workspace_id(), wanted, keys };
    Ok(file(export).await?)
}

async fn file(export: Export) -> Result<Response, Error> {
    let mut head = String::new();
    csv::write(COLUMNS.into_iter().chain(export.keys.iter().map(String::as_str)), &mut head);
    // Whoever cannot be served is told so, and not in the middle of a file.
    let (first, last) = some(&export, Uuid::nil()).await?;
    let rest = stream::try_unfold((export, last), async |(export, mut last)| {
        while let Some(behind) = last {
            let (rows, next) = some(&export, behind).await.map_err(|error| io::Error::other(error.to_string()))?;
            if !rows.is_empty() {
                return Ok(Some((Bytes::from(rows), (export, next))));
            }
            last = next;
        }
        Ok::<_, io::Error>(None)
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

/// The next rows, and behind whom there may be more.
async fn some(export: &Export, last: Uuid) -> Result<(String, Option<Uuid>), DbError> {
    let Export { app, workspace_id, wanted, keys } = export;
    let workspace = *workspace_id;
    let mut end: Option<Uuid> = None;
    let stmt = match wanted.segment_id {
        None if wanted.is_everybody() => behind(workspace, last),
        Some(segment_id) if wanted.is_whole_segment() => behind_in_segment(workspace, last, segment_id),
        segment_id => {
            let edge = segment_id.map_or_else(|| edge(workspace, last), |id| edge_in_segment(workspace, last, id));
            end = app.db.query(edge).await?;
            wanted.statement(workspace, [&FIT, &FIT_IN_SEGMENT], (last, end.unwrap_or(Uuid::max())), ROWS)
        }
    };
    let limit = ReadLimit::new(LARGEST);
    let rows = app.db.read(stmt.within(&limit)).await?;
    let mut text = String::new();
    let mut last = None;
    for row in &rows {
        let contact = Contact::read(row)?;
        last = Some(contact.id.uuid());
        write(&contact, keys, &mut text);
    }
    let is_cut = limit.is_cut() || rows.len() as i64 == ROWS;
    Ok((text, if is_cut { last } else { end }))
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
