//! Contents of mails on their way out: read piece by piece, whether they stand with their mail or not.

use std::future::ready;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use http::HeaderValue;
use http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use utoipa_axum::router::OpenApiRouter;

use super::envelope::{Attachment, CHUNK, HTML, TEXT};
use super::store;
use super::{Emails, Stored, links};
use crate::db::{Db, DbError};
use crate::error::Error;
use crate::id::EmailId;
use crate::web;

/// A body that is longer does not stand among other things in an answer.
const LONGEST_SHOWN: u64 = 1 << 20;

/// Whether a body of this size stands among other things; a longer one has an answer of its own.
pub fn is_shown(size: u64) -> bool {
    size <= LONGEST_SHOWN
}

pub fn router() -> OpenApiRouter<Emails> {
    OpenApiRouter::new()
        .route("/shared/attachments/{token}", axum::routing::get(download))
        .route("/shared/emails/{token}", axum::routing::get(shared))
}

/// A body that stands in pieces, if there is one and it is no longer than what is shown.
async fn text_of_part(db: &Db, id: EmailId, part: i64, size: Option<u64>) -> Result<Option<String>, DbError> {
    let Some(size) = size.filter(|size| is_shown(*size)) else { return Ok(None) };
    let mut whole = Vec::with_capacity(size as usize);
    for number in 0..size.div_ceil(CHUNK as u64) as i64 {
        match db.read(store::chunk(id, part, number)).await?.first() {
            Some(row) => whole.extend(row.bytes(0)?),
            None => return Ok(None),
        }
    }
    Ok(String::from_utf8(whole).ok())
}

/// How the HTML of a mail begins, at most so many bytes of it, where it stands in pieces and there is no text.
pub async fn long_html_alone(db: &Db, email: &Stored, most: usize) -> Result<Option<String>, DbError> {
    let envelope = &email.summary.envelope;
    let has_text = email.text.is_some() || envelope.text_size.is_some();
    let Some(size) = envelope.html_size.filter(|_| !has_text) else { return Ok(None) };
    let most = most.min(usize::try_from(size).unwrap_or(usize::MAX));
    let mut html = Vec::with_capacity(most.next_multiple_of(CHUNK));
    while html.len() < most {
        let number = (html.len() / CHUNK) as i64;
        match db.read(store::chunk(email.summary.id, HTML, number)).await?.first() {
            Some(row) => html.extend(row.bytes(0)?),
            None => return Ok(None),
        }
    }
    html.truncate(most);
    // It may end within a character.
    Ok(html.utf8_chunks().next().map(|whole| whole.valid().to_owned()))
}

/// The HTML of a mail, wherever it stands.
pub async fn html_of(db: &Db, email: &Stored) -> Result<Option<String>, DbError> {
    match &email.html {
        Some(html) => Ok(Some(html.clone())),
        None => text_of_part(db, email.summary.id, HTML, email.summary.envelope.html_size).await,
    }
}

/// The same, of its text.
pub async fn text_of(db: &Db, email: &Stored) -> Result<Option<String>, DbError> {
    match &email.text {
        Some(text) => Ok(Some(text.clone())),
        None => text_of_part(db, email.summary.id, TEXT, email.summary.envelope.text_size).await,
    }
}

fn gone() -> Error {
    Error::not_found("It is not kept any more.")
}

async fn download(State(emails): State<Emails>, Path(token): Path<String>) -> Result<Response, Error> {
    let link = links::open(&emails, &token).await?;
    let email = store::load(&emails.db, link.email_id).await?.filter(|email| email.size.is_some()).ok_or_else(gone)?;
    let mut attachments = email.summary.envelope.attachments.into_iter();
    let found = attachments.find(|attachment| Some(attachment.part) == link.part).ok_or_else(gone)?;
    Ok(file(&emails.db, link.email_id, &found))
}

/// A file as a browser saves it.
pub fn file(db: &Db, id: EmailId, attachment: &Attachment) -> Response {
    let mut response = Body::from_stream(pieces(db.clone(), id, attachment.part, attachment.size)).into_response();
    let name = attachment.filename.as_deref().unwrap_or("attachment");
    let disposition = format!("attachment; filename*=UTF-8''{}", utf8_percent_encode(name, NON_ALPHANUMERIC));
    let headers = response.headers_mut();
    let text = |text: &str| HeaderValue::from_str(text);
    headers.insert(
        CONTENT_TYPE,
        text(&attachment.content_type).unwrap_or(HeaderValue::from_static("application/octet-stream")),
    );
    headers.extend(text(&disposition).ok().map(|value| (CONTENT_DISPOSITION, value)));
    headers.insert(CONTENT_LENGTH, attachment.size.into());
    web::protect(&mut response);
    response
}

/// The pieces of a part, one after the other.
fn pieces(db: Db, id: EmailId, part: i64, size: u64) -> impl stream::Stream<Item = Result<Bytes, DbError>> {
    let count = size.div_ceil(CHUNK as u64) as i64;
    stream::try_unfold((db, 0), move |(db, number)| async move {
        if number >= count {
            return Ok(None);
        }
        let rows = db.read(store::chunk(id, part, number)).await?;
        let row = rows.first().ok_or_else(|| DbError::Broken("a piece of a mail is missing".into()))?;
        Ok(Some((Bytes::from(row.bytes(0)?), (db, number + 1))))
    })
}

async fn shared(State(emails): State<Emails>, Path(token): Path<String>) -> Result<Response, Error> {
    let link = links::open(&emails, &token).await?;
    let is_whole = link.part.is_none();
    let email = store::load(&emails.db, link.email_id).await?.filter(|_| is_whole).ok_or_else(gone)?;
    sandboxed(&emails.db, email)
}

/// A mail as a page of its own, which can do nothing but be looked at.
pub fn sandboxed(db: &Db, email: Stored) -> Result<Response, Error> {
    let envelope = &email.summary.envelope;
    match (email.html, envelope.html_size.filter(|_| email.size.is_some())) {
        (Some(html), _) => Ok(web::sandboxed(html.into())),
        (None, Some(size)) => Ok(web::sandboxed(Body::from_stream(pieces(db.clone(), email.summary.id, HTML, size)))),
        (None, None) => text_page(db, Stored { html: None, ..email }),
    }
}

/// The text of a mail as such a page.
pub fn text_page(db: &Db, email: Stored) -> Result<Response, Error> {
    let size = email.summary.envelope.text_size.filter(|_| email.size.is_some());
    let text = match (email.text, size) {
        (Some(text), _) => stream::once(ready(Ok(text.into()))).left_stream(),
        (None, Some(size)) => pieces(db.clone(), email.summary.id, TEXT, size).right_stream(),
        (None, None) => return Err(gone()),
    };
    let part = |html: &'static str| stream::once(ready(Ok(Bytes::from(html))));
    let whole = part("<!doctype html><meta charset=utf-8><pre>").chain(text.map_ok(escaped)).chain(part("</pre>"));
    Ok(web::sandboxed(Body::from_stream(whole)))
}

/// Text as HTML shows it; it does not matter where pieces of it end.
fn escaped(text: Bytes) -> Bytes {
    let mut html = Vec::with_capacity(text.len());
    for byte in text {
        match byte {
            b'&' => html.extend_from_slice(b"&amp;"),
            b'<' => html.extend_from_slice(b"&lt;"),
            _ => html.push(byte),
        }
    }
    html.into()
}
