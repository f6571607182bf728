//! Received mail over HTTP.

use axum::Json;
use axum::body::Body as Content;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::TryStreamExt;
use http::HeaderValue;
use http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::email::{Attachment, Stored, Summary};
use super::shapes::{Detail, Download, File, FileInfo, Item};
use super::{Receiving, answering, contents, store};
use crate::auth::{Actor, Caller};
use crate::clock::{HOUR, rfc3339};
use crate::db::{Db, DbError};
use crate::emails::{Link, Pieces, Signer, open_link};
use crate::error::Error;
use crate::id::{AttachmentId, Id, ReceivedEmailId};
use crate::mime::{ReceivedHead, split_head};
use crate::web::{self, JsonResult, List, Newest, Page, PathId, Query, id_in_path};

/// How long something can be downloaded by its link.
const DOWNLOADS_FOR: i64 = HOUR;

/// How much of the pictures in HTML is put into it, in bytes.
const MOST_INLINE: u64 = 1 << 20;

pub fn router() -> OpenApiRouter<Receiving> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(read))
        .routes(routes!(answering::forward))
        .routes(routes!(answering::reply))
        .routes(routes!(list_attachments))
        .routes(routes!(read_attachment))
}

/// What nobody has to show a credential for: the link is one.
pub fn doors() -> OpenApiRouter<Receiving> {
    OpenApiRouter::new().route("/shared/received/{token}", axum::routing::get(download))
}

pub async fn find(actor: &dyn Actor, id: ReceivedEmailId) -> Result<Stored, Error> {
    let found: Option<Stored> = actor.query(|| store::by_id(actor.workspace_id(), id)).await?;
    found.ok_or_else(|| Error::not_found("Received email not found. `GET /emails/receiving` lists those there are."))
}

pub fn gone() -> Error {
    Error::not_found("It is not kept any more.")
}

/// List received emails
///
/// The mails that came in for domains of the workspace, newest first, without what they say.
#[utoipa::path(
    get, path = "/emails/receiving", tag = "Received emails", operation_id = "list_received_emails",
    params(Newest),
    responses(
        (status = 200, description = "The mails, newest first.", body = List<Item>),
    ),
)]
async fn list(caller: Caller, Newest(page): Newest) -> JsonResult<List<Item>> {
    let rows = caller.read(|| store::page(caller.workspace_id(), &page)).await?;
    page.answer(&rows, |row| Ok(Summary::read(row)?.into()))
}

/// How pictures in the HTML are shown.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Format {
    /// `data_uri` puts pictures that belong to the HTML into it, up to 1 MiB of them; `cid` leaves it as it came.
    #[param(inline)]
    html_format: Option<HtmlFormat>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum HtmlFormat {
    DataUri,
    Cid,
}

/// Read a received email
///
/// With what it says and its header fields, as long as they are kept, and a link to the message as it came, which is
/// good for an hour.
#[utoipa::path(
    get, path = "/emails/receiving/{id}", tag = "Received emails", operation_id = "read_received_email",
    params(PathId, Format),
    responses(
        (status = 200, description = "The mail.", body = Detail),
    ),
)]
async fn read(
    caller: Caller,
    State(receiving): State<Receiving>,
    PathId(id): PathId<ReceivedEmailId>,
    Query(format): Query<Format>,
) -> JsonResult<Detail> {
    let Stored { summary, html, text } = find(&caller, id).await?;
    let html = match html {
        Some(html) if format.html_format != Some(HtmlFormat::Cid) => {
            Some(with_pictures(&receiving.db, &summary, html).await?)
        }
        html => html,
    };
    let first = contents::first_piece(&receiving.db, id).await?;
    let headers = ReceivedHead::read(split_head(&first).0).map(|head| head.values()).unwrap_or_default();
    let raw = match summary.size {
        Some(_) => Some(links(&receiving).await?.to(id, None)),
        None => None,
    };
    Ok(Json(Detail { object: "email", html, text, headers, raw, item: summary.into() }))
}

/// HTML with the pictures that it refers to, as far as there is room for them.
pub(super) async fn with_pictures(db: &Db, email: &Summary, mut html: String) -> Result<String, DbError> {
    let is_shown = |file: &&Attachment| file.content_type.starts_with("image/") && file.content_id.is_some();
    let mut pictures: Vec<&Attachment> = email.envelope.attachments.iter().filter(is_shown).collect();
    // An id that begins like another comes first.
    pictures.sort_by_key(|file| std::cmp::Reverse(file.content_id.as_ref().map_or(0, String::len)));
    let mut room = if email.size.is_some() { MOST_INLINE } else { 0 };
    for picture in pictures {
        let reference = format!("cid:{}", picture.content_id.as_deref().unwrap_or_default());
        if picture.size > room || html.matches(&reference).count() != 1 {
            continue;
        }
        room -= picture.size;
        let (mut pieces, mut bytes) = (contents::file(db, email.id, picture), Vec::new());
        while let Some(piece) = pieces.try_next().await? {
            bytes.extend_from_slice(&piece);
        }
        html = html.replace(&reference, &format!("data:{};base64,{}", picture.content_type, STANDARD.encode(bytes)));
    }
    Ok(html)
}

/// Makes links.
struct Links {
    signer: Signer,
    base: String,
    expires_at: i64,
}

async fn links(receiving: &Receiving) -> Result<Links, Error> {
    let signer = Signer::new(receiving).await?;
    let expires_at = receiving.clock.now() + DOWNLOADS_FOR;
    Ok(Links { signer, base: receiving.addresses.base.as_str().to_owned(), expires_at })
}

impl Links {
    /// To a file by its place, or to the whole message.
    fn to(&self, id: ReceivedEmailId, file: Option<usize>) -> Download {
        let link =
            Link { email_id: id.uuid().into(), part: file.map(|place| place as i64), expires_at: self.expires_at };
        Download {
            download_url: format!("{}/shared/received/{}", self.base, self.signer.token(&link)),
            expires_at: rfc3339(self.expires_at),
        }
    }
}

/// The files of a mail, as long as they are kept, each with its place.
fn kept(email: Summary) -> Vec<(usize, Attachment)> {
    match email.size {
        Some(_) => email.envelope.attachments.into_iter().enumerate().rev().collect(),
        None => Vec::new(),
    }
}

/// List a received email's attachments
///
/// Each with a link to download it, which is good for an hour.
#[utoipa::path(
    get, path = "/emails/receiving/{id}/attachments", tag = "Received emails",
    operation_id = "list_received_email_attachments",
    params(PathId, Page),
    responses(
        (status = 200, description = "The attachments.", body = List<File>),
    ),
)]
async fn list_attachments(
    caller: Caller,
    State(receiving): State<Receiving>,
    PathId(id): PathId<ReceivedEmailId>,
    page: Page,
) -> JsonResult<List<File>> {
    let files = page.slice(kept(find(&caller, id).await?.summary), |(_, file)| file.id);
    let links = links(&receiving).await?;
    let shown = files.iter().map(|(place, file)| file_of(file, links.to(id, Some(*place)), None));
    Ok(Json(page.list(shown.collect())))
}

fn file_of(file: &Attachment, link: Download, object: Option<&'static str>) -> File {
    File { object, info: FileInfo::from(file), link }
}

/// The ids of a mail and of one of its attachments.
struct AttachmentPath;

impl IntoParams for AttachmentPath {
    fn into_params(
        _: impl Fn() -> Option<utoipa::openapi::path::ParameterIn>,
    ) -> Vec<utoipa::openapi::path::Parameter> {
        vec![id_in_path("id", "The email's id."), id_in_path("attachment_id", "The attachment's id.")]
    }
}

/// Read a received email's attachment
///
/// With a link to download it, which is good for an hour.
#[utoipa::path(
    get, path = "/emails/receiving/{id}/attachments/{attachment_id}", tag = "Received emails",
    operation_id = "read_received_email_attachment",
    params(AttachmentPath),
    responses(
        (status = 200, description = "The attachment.", body = File),
    ),
)]
async fn read_attachment(
    caller: Caller,
    State(receiving): State<Receiving>,
    Path((id, attachment_id)): Path<(String, String)>,
) -> JsonResult<File> {
    let wrong = || Error::InvalidParameter { message: "Both ids in the path must be UUIDs.".into() };
    let id: ReceivedEmailId = id.parse().map_err(|_| wrong())?;
    let attachment_id: AttachmentId = attachment_id.parse().map_err(|_| wrong())?;
    let files = kept(find(&caller, id).await?.summary);
    let missing =
        || Error::not_found("Attachment not found. `GET /emails/receiving/{id}/attachments` lists those there are.");
    let (place, file) = files.into_iter().find(|(_, file)| file.id == attachment_id).ok_or_else(missing)?;
    Ok(Json(file_of(&file, links(&receiving).await?.to(id, Some(place)), Some("attachment"))))
}

async fn download(State(receiving): State<Receiving>, Path(token): Path<String>) -> Result<Response, Error> {
    let link = open_link(&receiving, &token).await?;
    let id: ReceivedEmailId = link.email_id.uuid().into();
    let email = store::load(&receiving.db, id).await?.ok_or_else(gone)?.summary;
    let size = email.size.ok_or_else(gone)? as u64;
    match link.part {
        None => {
            let message = contents::message(&receiving.db, id, size);
            Ok(saved(message, (&format!("{id}.eml"), "message/rfc822", size)))
        }
        Some(place) => {
            let files = email.envelope.attachments;
            let file = usize::try_from(place).ok().and_then(|place| files.get(place)).ok_or_else(gone)?;
            let content = contents::file(&receiving.db, id, file);
            let name = file.filename.as_deref().unwrap_or("attachment");
            Ok(saved(content, (name, &file.content_type, file.size)))
        }
    }
}

/// A file as a browser saves it.
pub(super) fn saved(content: Pieces, (name, kind, size): (&str, &str, u64)) -> Response {
    let mut response = Content::from_stream(content).into_response();
    let disposition = format!("attachment; filename*=UTF-8''{}", utf8_percent_encode(name, NON_ALPHANUMERIC));
    let headers = response.headers_mut();
    let unknown = HeaderValue::from_static("application/octet-stream");
    headers.insert(CONTENT_TYPE, HeaderValue::from_str(kind).unwrap_or(unknown));
    headers.extend(HeaderValue::from_str(&disposition).ok().map(|value| (CONTENT_DISPOSITION, value)));
    headers.insert(CONTENT_LENGTH, size.into());
    web::protect(&mut response);
    response
}
