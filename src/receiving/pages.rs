//! Received mail in the dashboard.

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{get, post};
use http::StatusCode;

use super::authentication::{Authentication, Checked, Verdict};
use super::email::{Stored, Summary};
use super::routes::{find, gone, saved, with_pictures};
use super::{Receiving, answering, contents, page_forward, store};
use crate::accounts::{Duty, Look, Manage, Member};
use crate::emails::{self, FileRow, TypedMail};
use crate::error::Error;
use crate::id::{AttachmentId, EmailId, ReceivedEmailId};
use crate::web::{self, Field, Form, Layout, Leaf, PageResult, PathId, Shell, Stamp};

pub(super) type Id = Result<PathId<ReceivedEmailId>, Error>;

pub fn router() -> Router<Receiving> {
    Router::new()
        .route("/received", get(list))
        .route("/received/{id}", get(read))
        .route("/received/{id}/html", get(show_html))
        .route("/received/{id}/source", get(show_source))
        .route("/received/{id}/attachments/{attachment}", get(download))
        .route("/received/{id}/reply", post(reply))
        .route("/received/{id}/forward", get(page_forward::ask).post(page_forward::forward))
}

#[derive(Template)]
#[template(path = "receiving/list.html")]
struct ListPage {
    layout: Layout,
    shell: Shell,
    emails: Vec<EmailRow>,
    newer: Option<String>,
    older: Option<String>,
}

struct EmailRow {
    href: String,
    subject: String,
    from: String,
    received_for: String,
    arrived: Stamp,
}

#[derive(Template)]
#[template(path = "receiving/one.html")]
struct OnePage {
    layout: Layout,
    shell: Shell,
    subject: String,
    id: ReceivedEmailId,
    message_id: String,
    facts: Vec<(&'static str, String)>,
    checks: Vec<Check>,
    arrived: Stamp,
    frame: Option<String>,
    text: Option<String>,
    source: Option<String>,
    attachments: Vec<FileRow>,
    answer: Option<AnswerForm>,
    /// Where it is sent on, while there is something to send.
    forward: Option<String>,
}

/// What came of a check, and the look of its badge.
struct Check {
    name: &'static str,
    word: &'static str,
    look: &'static str,
    domain: Option<String>,
}

impl Check {
    fn of(name: &'static str, checked: &Checked) -> Check {
        let (word, look) = match checked.result {
            Verdict::None => ("nothing to check", "bare"),
            Verdict::Pass => ("passed", "good"),
            Verdict::Fail => ("failed", "bad"),
            Verdict::SoftFail => ("failed softly", "busy"),
            Verdict::Neutral => ("neutral", "bare"),
            Verdict::TempError => ("not checked: no name server answered", "busy"),
            Verdict::PermError => ("cannot be read", "bad"),
        };
        Check { name, word, look, domain: checked.domain.clone() }
    }
}

/// The form that answers it.
struct AnswerForm {
    action: String,
    hidden: Vec<(String, String)>,
    problem: Option<String>,
    typed: TypedMail,
}

async fn list(member: Member<Look>) -> PageResult {
    let page = member.page()?;
    let stored: Vec<Summary> = member.query(store::page(member.workspace_id(), &page)).await?;
    let Leaf { items, newer, older } = page.leaf(stored, &member.address("/received"), |email| email.id);
    let now = member.app.clock.now();
    let row = |email: Summary| EmailRow {
        href: member.address(&format!("/received/{}", email.id)),
        subject: emails::titled(email.subject),
        from: email.sender,
        received_for: email.envelope.received_for.join(", "),
        arrived: Stamp::ago(email.created_at, now),
    };
    let content = ListPage {
        layout: member.layout(),
        shell: member.shell("/received"),
        emails: items.into_iter().map(row).collect(),
        newer,
        older,
    };
    Ok(web::page(StatusCode::OK, &content))
}

pub(super) async fn found<D: Duty>(member: &Member<D>, id: Id) -> Result<Stored, Error> {
    let gone = || Error::not_found("There is no such mail here.");
    let PathId(id) = id.map_err(|_| gone())?;
    find(member, id).await.map_err(|error| match error {
        Error::NotFound { .. } => gone(),
        other => other,
    })
}

fn purpose(id: ReceivedEmailId) -> String {
    format!("answer email {id} as")
}

async fn read(member: Member<Look>, id: Id) -> PageResult {
    let email = found(&member, id).await?;
    let typed = TypedMail {
        from: Field::of(email.summary.envelope.received_for.first().cloned().unwrap_or_default()),
        to: Field::of(answering::answers_to(&email.summary).join("\n")),
        ..TypedMail::default()
    };
    let answer = answer_form(&member, email.summary.id, member.app.clock.ordered_id(), typed);
    Ok(page(&member, StatusCode::OK, email, answer))
}

/// The form, with the id that the mail it sends gets.
fn answer_form<D: Duty>(member: &Member<D>, id: ReceivedEmailId, sent_as: EmailId, typed: TypedMail) -> AnswerForm {
    AnswerForm {
        action: member.address(&format!("/received/{id}/reply")),
        hidden: member.hidden_making(&purpose(id), sent_as),
        problem: None,
        typed,
    }
}

fn page<D: Duty>(member: &Member<D>, status: StatusCode, email: Stored, answer: AnswerForm) -> Response {
    let Stored { summary, html, text } = email;
    let id = summary.id;
    let address = |path: String| member.address(&format!("/received/{id}{path}"));
    let envelope = &summary.envelope;
    let Authentication { spf, dkim, dmarc } = &envelope.authentication;
    let signatures = dkim.iter().map(|one| Check::of("DKIM", one));
    let facts = [
        ("From", summary.sender.clone()),
        ("To", envelope.to.join(", ")),
        ("Cc", envelope.cc.join(", ")),
        ("Reply to", envelope.reply_to.join(", ")),
        ("Received for", envelope.received_for.join(", ")),
    ];
    let files = envelope.attachments.iter().filter(|_| summary.size.is_some()).map(|file| FileRow {
        href: address(format!("/attachments/{}", file.id)),
        name: file.filename.clone().unwrap_or_else(|| "attachment".into()),
        kind: file.content_type.clone(),
        size: file.size,
    });
    let content = OnePage {
        layout: member.layout(),
        shell: member.shell("/received"),
        subject: emails::titled(summary.subject),
        id,
        message_id: summary.message_id.clone(),
        facts: facts.into_iter().filter(|(_, value)| !value.is_empty()).collect(),
        checks: std::iter::once(Check::of("SPF", spf)).chain(signatures).chain([Check::of("DMARC", dmarc)]).collect(),
        arrived: Stamp::exact(summary.created_at),
        frame: html.map(|_| address("/html".into())),
        text: text.filter(|text| !text.is_empty()),
        source: summary.size.map(|_| address("/source".into())),
        attachments: files.collect(),
        answer: member.may_manage().then_some(answer),
        forward: summary.size.filter(|_| member.may_manage()).map(|_| address("/forward".into())),
    };
    web::page_framing(status, &content)
}

async fn show_html(member: Member<Look>, State(receiving): State<Receiving>, id: Id) -> PageResult {
    let Stored { summary, html, .. } = found(&member, id).await?;
    let html = with_pictures(&receiving.db, &summary, html.ok_or_else(gone)?).await?;
    Ok(web::sandboxed(html.into()))
}

/// The message as it came.
async fn show_source(member: Member<Look>, id: Id) -> PageResult {
    let Summary { id, size, .. } = found(&member, id).await?.summary;
    let size = size.ok_or_else(gone)? as u64;
    let message = contents::message(&member.app.db, id, size);
    Ok(saved(message, (&format!("{id}.eml"), "message/rfc822", size)))
}

async fn download(member: Member<Look>, Path((id, attachment)): Path<(String, String)>) -> PageResult {
    let missing = || Error::not_found("There is no such file here.");
    let wanted: AttachmentId = attachment.parse().map_err(|_| missing())?;
    let email = found(&member, id.parse().map(PathId).map_err(|_| missing())).await?.summary;
    let mut files = email.envelope.attachments.iter().filter(|_| email.size.is_some());
    let file = files.find(|file| file.id == wanted).ok_or_else(missing)?;
    let name = file.filename.as_deref().unwrap_or("attachment");
    let content = contents::file(&member.app.db, email.id, file);
    Ok(saved(content, (name, &file.content_type, file.size)))
}

async fn reply(member: Member<Manage>, State(receiving): State<Receiving>, id: Id, form: Form) -> PageResult {
    let email = found(&member, id).await?;
    let (sent_as, accepted) = member.accept_making(&purpose(email.summary.id), &form)?;
    let typed = TypedMail::of(&form);
    let sent = async {
        let fields = answering::answer(&receiving, &email.summary, typed.fields()?).await?;
        emails::send_fields(&receiving.emails, &accepted, sent_as, fields, Vec::new()).await
    };
    let refusal = match sent.await {
        Ok(()) => return Ok(member.see_other(&format!("/emails/{sent_as}?sent"))),
        Err(refusal) if refusal.status().is_client_error() => refusal,
        Err(error) => return Err(error.into()),
    };
    // What was changed after it was sent is another mail.
    let sent_as = match refusal {
        Error::Conflict { .. } => member.app.clock.ordered_id(),
        _ => sent_as,
    };
    let mut answer = answer_form(&member, email.summary.id, sent_as, typed);
    answer.problem = answer.typed.refused(&refusal);
    Ok(page(&member, refusal.status(), email, answer))
}
