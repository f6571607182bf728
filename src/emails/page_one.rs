//! One email in the dashboard: what it holds, what became of it, why it waits, and what can be
//! decided of it.

use askama::Template;
use axum::extract::{Path, State as Shared};
use http::StatusCode;

use super::Emails;
use super::contents_read::{file, is_shown, sandboxed, text_of, text_page};
use super::decisions::{self, Decision, Whom};
use super::page_history::{HistoryRow, history};
use super::page_time;
use super::pages::{Badge, titled};
use super::recipients::{recipient, uncertain_recipients};
use super::state::State;
use super::store::{self, Recipient, Stored};
use super::waiting::{Lines, Why};
use crate::accounts::{Duty, Look, Manage, Member};
use crate::db::Stmt;
use crate::error::Error;
use crate::id::{AttachmentId, EmailId, parts_of};
use crate::web::{self, ConfirmPage, Field, Form, Layout, PageResult, PathId, Shell, Stamp};

/// How much of what happened is shown.
const MOST_EVENTS: i64 = 500;

/// How many recipients of a broadcast are shown.
const MOST_UNCERTAIN: i64 = 100;

#[derive(Template)]
#[template(path = "emails/one.html")]
struct EmailPage {
    layout: Layout,
    shell: Shell,
    id: EmailId,
    subject: String,
    message_id: String,
    state: Badge,
    /// Who it is from and for.
    facts: Vec<(&'static str, String)>,
    created: Stamp,
    scheduled: Option<Stamp>,
    recipients: Vec<RecipientRow>,
    /// What was just decided, and of which recipients something can be.
    notice: Option<String>,
    is_decidable: bool,
    /// Where it is given another time, with the fields of that form.
    reschedule: Option<(String, Vec<(String, String)>)>,
    typed: TypedHere,
    /// Where it is taken back.
    cancel: Option<String>,
    /// Where a link to it is made, with the fields of that form.
    share: Option<(String, Vec<(String, String)>)>,
    /// How wide it is shown: `phone`, `desktop`, or as wide as the page.
    width: &'static str,
    widths: Vec<(&'static str, String, &'static str)>,
    headers: Vec<(String, String)>,
    /// Where its HTML is shown.
    frame: Option<String>,
    text: Option<String>,
    /// Where a text is that is too long for this page.
    long_text: Option<String>,
    /// Where it is as it travels.
    source: Option<String>,
    is_forgotten: bool,
    attachments: Vec<FileRow>,
    history: Vec<HistoryRow>,
    back: String,
}

/// What was typed in the forms of the page.
#[derive(Default)]
pub struct TypedHere {
    pub scheduled_at: Field,
    /// How long a link is to be good for.
    pub expires_in: Field,
}

struct RecipientRow {
    address: String,
    state: Badge,
    why: Option<Why>,
    acts: Vec<Act>,
    /// Where it is dropped.
    drop: Option<String>,
}

/// A form with nothing but a button.
struct Act {
    label: &'static str,
    action: String,
    hidden: Vec<(String, String)>,
}

/// A file of a mail, and where it is.
pub struct FileRow {
    pub href: String,
    pub name: String,
    pub kind: String,
    pub size: u64,
}

pub async fn find<D: Duty>(member: &Member<D>, id: Result<EmailId, Error>) -> Result<Stored, Error> {
    let gone = || Error::not_found("There is no such email here.");
    let id = id.map_err(|_| gone())?;
    let rows = member.read(store::by_id(member.workspace_id(), id)).await?;
    Ok(Stored::read(rows.first().ok_or_else(gone)?)?)
}

/// What is shown: a mail, or the one that a recipient of a broadcast got.
struct Shown {
    email: Stored,
    /// All of them; of a broadcast's many those of whom somebody has to decide.
    recipients: Vec<Recipient>,
    lines: Lines,
    /// The mail under which recipients stand.
    shared_id: EmailId,
}

impl Shown {
    async fn find<D: Duty>(
        member: &Member<D>,
        emails: &Emails,
        id: Result<PathId<EmailId>, Error>,
    ) -> Result<Shown, Error> {
        let gone = || Error::not_found("There is no such email here.");
        let PathId(id) = id.map_err(|_| gone())?;
        let rows = member.read(store::by_id(member.workspace_id(), id)).await?;
        if let Some(row) = rows.first() {
            let email = Stored::read(row)?;
            let rows = member.read(shown_recipients(&email)).await?;
            let recipients = rows.iter().map(Recipient::read).collect::<Result<_, _>>()?;
            let lines = Lines::find(&emails.db, &email).await?;
            return Ok(Shown { email, recipients, lines, shared_id: id });
        }
        let (shared_id, number) = parts_of(id);
        let rows = member.read(recipient(member.workspace_id(), shared_id, number)).await?;
        let recipient = Recipient::read(rows.first().ok_or_else(gone)?)?;
        let email = emails.own_mail(find(member, Ok(shared_id)).await?, &recipient).await?;
        let lines = Lines::of_one(&emails.db, shared_id, number).await?;
        Ok(Shown { email, recipients: vec![recipient], lines, shared_id })
    }
}

pub async fn read(
    member: Member<Look>,
    Shared(emails): Shared<Emails>,
    id: Result<PathId<EmailId>, Error>,
) -> PageResult {
    show(&member, &emails, id, (StatusCode::OK, TypedHere::default())).await
}

/// The page of a mail, with what was typed there.
pub async fn show<D: Duty>(
    member: &Member<D>,
    emails: &Emails,
    id: Result<PathId<EmailId>, Error>,
    (status, typed): (StatusCode, TypedHere),
) -> PageResult {
    let Shown { email, recipients, lines, shared_id } = Shown::find(member, emails, id).await?;
    let (app, id) = (&member.app, email.summary.id);
    let history = history(&email, &recipients, &member.read(store::events(id, MOST_EVENTS)).await?)?;
    let text = text_of(&app.db, &email).await?.filter(|text| !text.is_empty());
    let envelope = &email.summary.envelope;
    let has_html = email.html.is_some() || (email.size.is_some() && envelope.html_size.is_some());
    let has_long_text = email.size.is_some() && envelope.text_size.is_some_and(|size| !is_shown(size));
    let address = |path: String| member.address(&format!("/emails/{id}{path}"));
    let rows: Vec<RecipientRow> = recipients.iter().map(|one| recipient_row(member, shared_id, one, &lines)).collect();
    let files = envelope.attachments.iter().filter(|_| email.size.is_some()).map(|file| FileRow {
        href: address(format!("/attachments/{}", file.id)),
        name: file.filename.clone().unwrap_or_else(|| "attachment".into()),
        kind: file.content_type.clone(),
        size: file.size,
    });
    let state = email.summary.state;
    let may_change = member.may_manage() && id == shared_id && !email.is_shared();
    let reschedule = (may_change && state == State::Scheduled)
        .then(|| (address("/reschedule".into()), member.hidden(&page_time::purpose("reschedule", id))));
    let is_whole = member.may_manage() && id == shared_id && email.size.is_some();
    let share = is_whole.then(|| (address("/share".into()), member.hidden(&page_time::purpose("share", id))));
    let content = EmailPage {
        layout: member.layout(),
        shell: member.shell("/emails"),
        share,
        id,
        subject: titled(email.summary.subject.clone()),
        message_id: email.summary.message_id.clone(),
        state: email.summary.state.into(),
        facts: facts(&email),
        created: Stamp::new(email.summary.created_at),
        scheduled: email.summary.scheduled_at.map(Stamp::new),
        is_decidable: rows.iter().any(|row| !row.acts.is_empty() || row.drop.is_some()),
        recipients: rows,
        notice: decided(member),
        reschedule,
        typed,
        cancel: (may_change && page_time::is_open(state)).then(|| address("/cancel".into())),
        width: match member.asked("width").as_deref() {
            Some("phone") => "phone",
            Some("desktop") => "desktop",
            _ => "fit",
        },
        widths: [("As wide as here", "fit"), ("Phone, 390 px", "phone"), ("Desktop, 1280 px", "desktop")]
            .map(|(word, key)| (word, address(format!("?width={key}#html")), key))
            .into(),
        headers: envelope.headers.clone(),
        frame: has_html.then(|| address("/html".into())),
        text,
        long_text: has_long_text.then(|| address("/text".into())),
        // Those who deliver know how it travels; they have this page.
        source: email.size.filter(|_| id == shared_id).map(|_| address("/source".into())),
        is_forgotten: email.size.is_none(),
        attachments: files.collect(),
        history,
        back: member.address("/emails"),
    };
    Ok(web::page_framing(status, &content))
}

/// All of them; of a broadcast's many those of whom somebody has to decide.
fn shown_recipients(email: &Stored) -> Stmt {
    match email.is_shared() {
        true => uncertain_recipients(email.summary.workspace_id, email.summary.id, MOST_UNCERTAIN),
        false => store::recipients(email.summary.id),
    }
}

fn facts(email: &Stored) -> Vec<(&'static str, String)> {
    let envelope = &email.summary.envelope;
    let tags: Vec<String> = envelope.tags.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let all = [
        ("From", email.summary.sender.clone()),
        ("To", envelope.to.join(", ")),
        ("Cc", envelope.cc.join(", ")),
        ("Bcc", envelope.bcc.join(", ")),
        ("Reply to", envelope.reply_to.join(", ")),
        ("Tags", tags.join(", ")),
    ];
    all.into_iter().filter(|(_, value)| !value.is_empty()).collect()
}

fn recipient_row<D: Duty>(member: &Member<D>, id: EmailId, recipient: &Recipient, lines: &Lines) -> RecipientRow {
    let clock = &member.app.clock;
    let is_open = |decision: Decision| member.may_manage() && decision.is_open(recipient, clock.steady());
    let address = |decision| address_of(member, decision, id, recipient.number);
    let act = |(decision, label)| Act {
        label,
        action: address(decision),
        hidden: member.hidden(&purpose(decision, id, recipient.number)),
    };
    let at_once = [(Decision::Retry, "Try now"), (Decision::MarkDelivered, "Mark as delivered")];
    RecipientRow {
        address: recipient.address.clone(),
        state: recipient.state.into(),
        why: lines.why(recipient, clock),
        acts: at_once.into_iter().filter(|(decision, _)| is_open(*decision)).map(act).collect(),
        drop: is_open(Decision::Drop).then(|| address(Decision::Drop)),
    }
}

fn address_of<D: Duty>(member: &Member<D>, decision: Decision, id: EmailId, number: i64) -> String {
    member.address(&format!("/emails/{id}/recipients/{number}/{}", decision.as_str()))
}

fn purpose(decision: Decision, id: EmailId, number: i64) -> String {
    format!("{} recipient {number} of email {id}", decision.as_str())
}

/// What to say of what was just decided.
fn decided<D: Duty>(member: &Member<D>) -> Option<String> {
    let sentence = |decision: Decision| {
        member.notice(
            decision.as_str(),
            match decision {
                Decision::Retry => "It is tried now.",
                Decision::Drop => "It is not sent any more.",
                Decision::MarkDelivered => "It is marked as delivered.",
            },
        )
    };
    Decision::ALL
        .into_iter()
        .find_map(sentence)
        .or(member.notice("sent", "The mail is queued."))
        .or(member.notice("rescheduled", "The mail has its new time."))
        .or(member.notice("canceled", "The mail will not be sent."))
}

type RecipientPath = Path<(String, String, String)>;

fn no_recipient() -> Error {
    Error::not_found("There is no such recipient here.")
}

/// A mail of the workspace, and what is decided of which of its recipients.
async fn chosen(
    member: &Member<Manage>,
    Path((id, number, decision)): RecipientPath,
) -> Result<(Stored, i64, Decision), Error> {
    let number: i64 = number.parse().map_err(|_| no_recipient())?;
    let decision = Decision::parse(&decision).ok_or_else(no_recipient)?;
    Ok((find(member, id.parse().map_err(|_| no_recipient())).await?, number, decision))
}

/// Only what cannot be taken back is asked for.
pub async fn ask(member: Member<Manage>, path: RecipientPath) -> PageResult {
    let (email, number, decision) = chosen(&member, path).await?;
    let id = email.summary.id;
    let rows = member.read(recipient(member.workspace_id(), id, number)).await?;
    let row = rows.first().filter(|_| decision == Decision::Drop).ok_or_else(no_recipient)?;
    let recipient = Recipient::read(row)?;
    if !decision.is_open(&recipient, member.app.clock.steady()) {
        return Err(decision.refusal(&[&recipient]).into());
    }
    let content = ConfirmPage {
        layout: member.layout(),
        shell: member.shell("/emails"),
        title: "Drop this mail?".into(),
        subject: recipient.address,
        sentence: "It is not tried any more, for this recipient. This cannot be undone.".into(),
        action: address_of(&member, decision, id, number),
        hidden: member.hidden(&purpose(decision, id, number)),
        button: "Do not send it".into(),
        cancel: member.address(&format!("/emails/{id}")),
    };
    Ok(web::page(StatusCode::OK, &content))
}

pub async fn decide(
    member: Member<Manage>,
    Shared(emails): Shared<Emails>,
    path: RecipientPath,
    form: Form,
) -> PageResult {
    let (email, number, decision) = chosen(&member, path).await?;
    let id = email.summary.id;
    let accepted = member.accept(&purpose(decision, id, number), &form)?;
    let whose = (member.workspace_id(), id);
    let whom = if email.is_shared() { Whom::Own(number) } else { Whom::Number(number) };
    decisions::decide(&emails, whose, decision, &whom, |batch| accepted.commit(batch)).await?;
    Ok(member.see_other(&format!("/emails/{id}?{}", decision.as_str())))
}

pub async fn show_html(
    member: Member<Look>,
    Shared(emails): Shared<Emails>,
    id: Result<PathId<EmailId>, Error>,
) -> PageResult {
    let Shown { email, .. } = Shown::find(&member, &emails, id).await?;
    Ok(sandboxed(&member.app.db, email)?)
}

pub async fn show_text(
    member: Member<Look>,
    Shared(emails): Shared<Emails>,
    id: Result<PathId<EmailId>, Error>,
) -> PageResult {
    let Shown { email, .. } = Shown::find(&member, &emails, id).await?;
    Ok(text_page(&member.app.db, email)?)
}

pub async fn download(member: Member<Look>, Path((id, attachment)): Path<(String, String)>) -> PageResult {
    let gone = || Error::not_found("There is no such file here.");
    let email = find(&member, id.parse().map_err(|_| gone())).await?;
    let wanted: AttachmentId = attachment.parse().map_err(|_| gone())?;
    let mut files = email.summary.envelope.attachments.iter().filter(|_| email.size.is_some());
    let found = files.find(|file| file.id == wanted).ok_or_else(gone)?;
    Ok(file(&member.app.db, email.summary.id, found))
}
