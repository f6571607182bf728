//! Received mail is forwarded and answered: by mails that are sent like any other.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::email::{Attachment, Stored, Summary};
use super::routes::{find, gone};
use super::{Receiving, contents};
use crate::auth::Caller;
use crate::db::DbError;
use crate::emails::{AddressList, Sent, StoredFile, send_with_files};
use crate::error::Error;
use crate::id::ReceivedEmailId;
use crate::mime::{AttachmentInfo, ReceivedHead, split_head};
use crate::web::{Body, Idempotency, PathId};

/// What of a request goes into the mail as it stands.
const OWN_FIELDS: &[&str] =
    &["from", "to", "cc", "bcc", "reply_to", "subject", "html", "text", "headers", "tags", "scheduled_at"];

/// An answer to a mail that came in.
#[derive(Deserialize, ToSchema)]
#[schema(as = ReplyToSend, example = json!({"text": "Thank you, we are on it."}))]
#[expect(dead_code, reason = "its fields are read as those of the mail that is sent")]
pub struct Reply {
    /// The body as plain text.
    text: Option<String>,
    /// The body as HTML.
    html: Option<String>,
    /// Whom it comes from. Without it, the address that the mail was received for.
    #[schema(value_type = Option<String>)]
    from: Option<Value>,
    /// Whom it goes to. Without it, where the mail wants answers, or its sender.
    #[schema(value_type = Option<AddressList>)]
    to: Option<Value>,
    /// Without it, that of the mail with `Re:` before it.
    subject: Option<String>,
    #[schema(value_type = Option<AddressList>)]
    cc: Option<Value>,
    #[schema(value_type = Option<AddressList>)]
    bcc: Option<Value>,
    #[schema(value_type = Option<AddressList>)]
    reply_to: Option<Value>,
    /// Headers of your own, by name. `In-Reply-To` and `References` need not be among them.
    #[schema(value_type = Option<std::collections::HashMap<String, String>>)]
    headers: Option<Value>,
    /// When to send it, up to 30 days ahead.
    scheduled_at: Option<String>,
}

/// To whom a mail that came in is forwarded.
#[derive(Deserialize, ToSchema)]
#[schema(as = ForwardToSend, example = json!({"from": "Acme <hello@acme.example>", "to": "ada@example.com"}))]
#[expect(dead_code, reason = "its fields are read as those of the mail that is sent")]
pub struct Forward {
    /// Whom it goes to: an address or up to 50.
    #[schema(value_type = AddressList)]
    to: Value,
    /// Whom it comes from.
    #[schema(value_type = String)]
    from: Value,
    /// True, which it is by default: as it came, with its bodies and files. False: a mail of your own, with `html` or
    /// `text`, to which the message is attached as it came.
    passthrough: Option<bool>,
    html: Option<String>,
    text: Option<String>,
    /// Without it, that of the mail, with `Fwd:` before it where the mail is your own.
    subject: Option<String>,
    #[schema(value_type = Option<AddressList>)]
    cc: Option<Value>,
    #[schema(value_type = Option<AddressList>)]
    bcc: Option<Value>,
    #[schema(value_type = Option<AddressList>)]
    reply_to: Option<Value>,
}

/// Answer a received email
///
/// Sends a mail that mail programs show below the one it answers: it refers to it, and to what that referred to.
#[utoipa::path(
    post, path = "/emails/receiving/{id}/reply", tag = "Received emails", operation_id = "reply_to_received_email",
    params(PathId, Idempotency),
    request_body = Reply,
    responses(
        (status = 200, description = "The answer is queued.", body = Sent, links(
            ("read" = (operation_id = "read_email", parameters(("id" = "$response.body#/id")))),
        )),
    ),
)]
pub async fn reply(
    caller: Caller,
    State(receiving): State<Receiving>,
    PathId(id): PathId<ReceivedEmailId>,
    key: Idempotency,
    body: Body<Reply>,
) -> Result<Response, Error> {
    let request = key.request(&caller, &receiving, &body);
    let Stored { summary, .. } = find(&caller, id).await?;
    let fields = answer(&receiving, &summary, body.into_fields().into()).await?;
    send_with_files(&receiving.emails, &caller, &request, Body::new(fields), Vec::new()).await
}

/// The fields of the mail that answers another.
pub(super) async fn answer(
    receiving: &Receiving,
    summary: &Summary,
    given: Map<String, Value>,
) -> Result<Map<String, Value>, Error> {
    let mut fields = own_fields(given);
    let references = references(receiving, summary).await?;
    if let Some(last) = references.last() {
        add_header(&mut fields, "In-Reply-To", last);
        add_header(&mut fields, "References", &references.join(" "));
    }
    let envelope = &summary.envelope;
    default(&mut fields, "from", || envelope.received_for.first().cloned().into());
    default(&mut fields, "to", || answers_to(summary).into());
    default(&mut fields, "subject", || titled("Re:", &summary.subject).into());
    Ok(fields)
}

/// Whom an answer goes to: where the mail wants answers, or its sender.
pub(super) fn answers_to(summary: &Summary) -> Vec<String> {
    match summary.envelope.reply_to.is_empty() {
        true => vec![summary.sender.clone()],
        false => summary.envelope.reply_to.clone(),
    }
}

/// Forward a received email
///
/// Sends it on as it came, or attached to a mail of your own. It comes from an address of yours, so that it passes
/// where it arrives.
#[utoipa::path(
    post, path = "/emails/receiving/{id}/forward", tag = "Received emails", operation_id = "forward_received_email",
    params(PathId, Idempotency),
    request_body = Forward,
    responses(
        (status = 200, description = "The mail is queued.", body = Sent, links(
            ("read" = (operation_id = "read_email", parameters(("id" = "$response.body#/id")))),
        )),
    ),
)]
pub async fn forward(
    caller: Caller,
    State(receiving): State<Receiving>,
    PathId(id): PathId<ReceivedEmailId>,
    key: Idempotency,
    body: Body<Forward>,
) -> Result<Response, Error> {
    let request = key.request(&caller, &receiving, &body);
    let email = find(&caller, id).await?;
    let (fields, files) = forwarded(&receiving, email, body.into_fields().into()).await?;
    send_with_files(&receiving.emails, &caller, &request, Body::new(fields), files).await
}

/// The fields of the mail that forwards another, and what goes with it.
pub(super) async fn forwarded(
    receiving: &Receiving,
    Stored { summary, html, text }: Stored,
    given: Map<String, Value>,
) -> Result<(Map<String, Value>, Vec<StoredFile>), Error> {
    let (id, size) = (summary.id, summary.size.ok_or_else(gone)? as u64);
    let is_as_it_came = match given.get("passthrough") {
        None | Some(Value::Null | Value::Bool(true)) => true,
        Some(Value::Bool(false)) => false,
        Some(_) => return Err(Error::invalid("The `passthrough` field must be true or false.")),
    };
    let mut fields = own_fields(given);
    if let Some(last) = references(receiving, &summary).await?.last() {
        add_header(&mut fields, "References", last);
    }
    let files = match is_as_it_came {
        true => {
            // A mail says something, be it nothing.
            let text = text.or_else(|| html.is_none().then(String::new));
            fields.insert("html".into(), html.into());
            fields.insert("text".into(), text.into());
            default(&mut fields, "subject", || summary.subject.clone().into());
            summary.envelope.attachments.iter().map(|file| sent_along(receiving, id, file)).collect()
        }
        false => {
            default(&mut fields, "subject", || titled("Fwd:", &summary.subject).into());
            vec![StoredFile {
                filename: Some("forwarded_message.eml".into()),
                content_type: "message/rfc822".into(),
                content_id: None,
                content: contents::message(&receiving.db, id, size),
            }]
        }
    };
    Ok((fields, files))
}

fn own_fields(given: Map<String, Value>) -> Map<String, Value> {
    given.into_iter().filter(|(name, _)| OWN_FIELDS.contains(&name.as_str())).collect()
}

fn default(fields: &mut Map<String, Value>, name: &str, value: impl FnOnce() -> Value) {
    if fields.get(name).is_none_or(Value::is_null) {
        fields.insert(name.to_owned(), value());
    }
}

/// Adds a header, unless the request has one of this name.
fn add_header(fields: &mut Map<String, Value>, name: &str, value: &str) {
    default(fields, "headers", || json!({}));
    if let Some(Value::Object(headers)) = fields.get_mut("headers")
        && !headers.keys().any(|given| given.eq_ignore_ascii_case(name))
    {
        headers.insert(name.to_owned(), value.into());
    }
}

fn titled(word: &str, subject: &str) -> String {
    let has_word = subject.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word));
    let titled = if has_word { subject.to_owned() } else { format!("{word} {subject}") };
    titled.trim_end().chars().take(2_000).collect()
}

/// What an answer refers to, as far as that is still known.
async fn references(receiving: &Receiving, email: &Summary) -> Result<Vec<String>, DbError> {
    let first = contents::first_piece(&receiving.db, email.id).await?;
    let found = ReceivedHead::read(split_head(&first).0).map(|head| head.references()).unwrap_or_default();
    match found.is_empty() && !email.message_id.is_empty() {
        true => Ok(vec![email.message_id.clone()]),
        false => Ok(found),
    }
}

/// A file of a mail as another takes it.
fn sent_along(receiving: &Receiving, id: ReceivedEmailId, file: &Attachment) -> StoredFile {
    let fits = |text: &String, check: fn(&str) -> Result<(), String>| check(text).is_ok();
    let kind = Some(file.content_type.clone()).filter(|kind| fits(kind, AttachmentInfo::check_content_type));
    StoredFile {
        filename: file.filename.clone().filter(|name| fits(name, AttachmentInfo::check_filename)),
        content_type: kind.unwrap_or_else(|| "application/octet-stream".into()),
        content_id: file.content_id.clone().filter(|id| fits(id, AttachmentInfo::check_content_id)),
        content: contents::file(&receiving.db, id, file),
    }
}
