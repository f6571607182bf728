//! What a request hands in becomes a mail: checked, and with its contents as far as they are there.

use std::ops::Range;
use std::sync::Arc;

use serde_json::Map;

use super::base64;
use super::body::{AttachmentToSend, Bytes, EmailToSend, LARGEST, Text};
use super::email::{Content, Lane, NewAttachment, NewEmail, Origin};
use super::envelope::{FIRST_ATTACHMENT, HTML, TEXT};
use super::schedule;
use crate::app::App;
use crate::error::Error;
use crate::id::{EmailId, TemplateId, WorkspaceId};
use crate::mime::AttachmentInfo;
use crate::web::{self, Body, FileForm, Spool};

/// How many files may go with a mail.
const MOST_ATTACHMENTS: usize = 100;

/// A mail, some of whose contents are still to be had.
pub struct Draft {
    pub id: EmailId,
    pub email: NewEmail,
    /// What is to be brought into the store first.
    pub pending: Vec<Pending>,
}

/// A content that is not there yet, and the number of the part that it becomes.
pub struct Pending {
    pub part: i64,
    pub source: Source,
}

pub enum Source {
    /// By its number among the long values of the request.
    Text(usize),
    Base64(usize),
    /// An address to fetch it from.
    Path(String),
    /// A part of a form, where that arrived.
    Spooled(Arc<Spool>, Range<usize>),
}

/// Reads the fields of a mail, in the order in which clients know the refusals.
pub fn read(body: Body<EmailToSend>) -> Result<EmailToSend, Error> {
    let has = |name: &str| body.fields().get(name).is_some_and(|value| !value.is_null());
    if has("to") && !has("html") && !has("text") && !has("template") {
        let to = body.fields().get("to").cloned().unwrap_or_default();
        web::read_fields::<Addressed>(Map::from_iter([("to".to_owned(), to)]))?;
        return Err(Error::Missing { message: "Missing `html` or `text` field.".into() });
    }
    let read = body.read()?;
    read.check_tags().map_err(Error::invalid)?;
    Ok(read)
}

/// What is looked at before anything else.
#[derive(serde::Deserialize)]
struct Addressed {
    #[serde(rename = "to")]
    _to: super::body::Mailboxes<1>,
}

impl Draft {
    pub fn new(app: &App, (workspace_id, id): (WorkspaceId, EmailId), given: EmailToSend) -> Result<Draft, Error> {
        let scheduled_at = given.scheduled_at.as_deref().map(|text| schedule::parse(text, app.clock.now()));
        let scheduled_at =
            scheduled_at.transpose().map_err(|flaw| Error::invalid(format!("The `scheduled_at` field {flaw}.")))?;
        let mut pending = Vec::new();
        let mut body = |text: Option<Text>, part| text.map(|text| content(text, part, &mut pending));
        let (html, text) = (body(given.html, HTML), body(given.text, TEXT));
        let given_files = given.attachments.unwrap_or_default();
        if given_files.len() > MOST_ATTACHMENTS {
            let message = format!("The `attachments` field must hold at most {MOST_ATTACHMENTS} files.");
            return Err(Error::InvalidAttachment { message });
        }
        let mut attachments = Vec::with_capacity(given_files.len());
        for (at, file) in given_files.into_iter().enumerate() {
            attachments.push(attachment(app, (at, file), &mut pending)?);
        }
        let list = |mailboxes: Option<super::body::Mailboxes<0>>| mailboxes.map(|list| list.0).unwrap_or_default();
        let email = NewEmail {
            lane: Lane::Transactional,
            when_uncertain: app.config.mail.when_uncertain(false),
            cc: list(given.cc),
            bcc: list(given.bcc),
            reply_to: list(given.reply_to),
            subject: given.subject.0,
            headers: given.headers.map(|headers| headers.0).unwrap_or_default(),
            tags: given.tags.unwrap_or_default().into_iter().map(|tag| (tag.name.0, tag.value.0)).collect(),
            topic_id: given.topic_id,
            html,
            text,
            attachments,
            scheduled_at,
            ..NewEmail::new(workspace_id, Origin::Api, given.from.0, given.to.0)
        };
        let draft = Draft { id, email, pending };
        draft.check_size()?;
        Ok(draft)
    }

    /// The same, of a template.
    #[must_use]
    pub fn made_of(mut self, template_id: Option<TemplateId>) -> Draft {
        self.email.template_id = template_id;
        self
    }

    /// The same, with the files of a form as its first attachments, of which only names and kinds are there. One that
    /// the HTML shows by its name is a picture in it.
    #[must_use]
    pub fn with_files(mut self, form: &FileForm) -> Draft {
        let html = match &self.email.html {
            Some(Content::Here(html)) => html.as_str(),
            Some(Content::Stored { .. }) | None => "",
        };
        let is_shown =
            |name: &&String| AttachmentInfo::check_content_id(name).is_ok() && html.contains(&format!("cid:{name}"));
        let attachments = self.email.attachments.iter_mut().zip(FIRST_ATTACHMENT..);
        for (file, (attachment, part)) in form.files.iter().zip(attachments) {
            attachment.content_id = attachment.filename.as_ref().filter(is_shown).cloned();
            attachment.content = Content::Stored { size: 0 };
            self.pending.push(Pending { part, source: Source::Spooled(form.body.clone(), file.place.clone()) });
        }
        self
    }

    /// Refuses what is too large, as far as it is known.
    pub fn check_size(&self) -> Result<(), Error> {
        match self.email.encoded_size() > LARGEST {
            true => Err(Error::TooLarge { limit: LARGEST as usize }),
            false => Ok(()),
        }
    }
}

fn content(text: Text, part: i64, pending: &mut Vec<Pending>) -> Content<String> {
    match text {
        Text::Short(text) => Content::Here(text),
        Text::Long(number) => {
            pending.push(Pending { part, source: Source::Text(number) });
            Content::Stored { size: 0 }
        }
    }
}

fn attachment(
    app: &App,
    (at, given): (usize, AttachmentToSend),
    pending: &mut Vec<Pending>,
) -> Result<NewAttachment, Error> {
    let refused = |what: &str| Error::InvalidAttachment { message: format!("The `attachments[{at}]` field {what}.") };
    let part = FIRST_ATTACHMENT + at as i64;
    let mut later = |source| {
        pending.push(Pending { part, source });
        Content::Stored { size: 0 }
    };
    let content = match (given.content, &given.path) {
        (Some(_), Some(_)) => return Err(refused("must have `content` or `path`, not both")),
        (None, None) => return Err(refused("must have `content` or `path`")),
        (Some(Bytes::Numbers(bytes)), None) => Content::Here(bytes),
        (Some(Bytes::Base64(Text::Long(number))), None) => later(Source::Base64(number)),
        (Some(Bytes::Base64(Text::Short(text))), None) => {
            let decoded = base64::decode_all(&text).map_err(|_| refused("must have `content` in base64"))?;
            Content::Here(decoded)
        }
        (None, Some(path)) => later(Source::Path(path.clone())),
    };
    let filename = given.filename.map(|name| name.0).or_else(|| given.path.as_deref().and_then(name_in_path));
    let content_type = given.content_type.map(|kind| kind.0);
    let guessed = || kind_of_file(filename.as_deref().unwrap_or_default()).to_owned();
    Ok(NewAttachment {
        id: app.clock.ordered_id(),
        content_type: content_type.unwrap_or_else(guessed),
        filename,
        content_id: given.content_id.map(|id| id.0),
        content,
    })
}

/// What a file is called at the end of an address.
fn name_in_path(address: &str) -> Option<String> {
    let path = address.split_once("://")?.1.split(['?', '#']).next()?;
    let name = web::decode(path.split_once('/')?.1.rsplit('/').next()?.as_bytes());
    let name = String::from_utf8(name.into_owned()).ok()?;
    let is_plain =
        !name.is_empty() && name.len() <= 255 && !name.contains(|char: char| char.is_control() || char == '/');
    is_plain.then_some(name)
}

/// What kind of file has a name that ends so.
fn kind_of_file(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending).to_ascii_lowercase();
    match ending.as_str() {
        "pdf" => "application/pdf",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "svg" => "image/svg+xml",
        "txt" | "log" => "text/plain",
        "md" => "text/markdown",
        "csv" => "text/csv",
        "htm" | "html" => "text/html",
        "ics" => "text/calendar",
        "vcf" => "text/vcard",
        "json" => "application/json",
        "xml" => "application/xml",
        "zip" => "application/zip",
        "gz" => "application/gzip",
        "doc" => "application/msword",
        "docx" => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "xls" => "application/vnd.ms-excel",
        "xlsx" => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "ppt" => "application/vnd.ms-powerpoint",
        "pptx" => "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "mp3" => "audio/mpeg",
        "mp4" => "video/mp4",
        _ => "application/octet-stream",
    }
}
