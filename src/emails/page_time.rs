//! What a person decides of a mail that has not left: another time, or not at all.

use axum::extract::State as Shared;
use http::StatusCode;

use super::page_one::{self, TypedHere, find};
use super::pages::titled;
use super::routes::{move_to, take_back};
use super::store::Stored;
use super::{Emails, State};
use crate::accounts::{Manage, Member};
use crate::error::Error;
use crate::id::EmailId;
use crate::web::{self, ConfirmPage, Form, PageResult, PathId};

type Id = Result<PathId<EmailId>, Error>;

pub fn purpose(act: &str, id: EmailId) -> String {
    format!("{act} email {id}")
}

/// Whether a mail can be taken back.
pub fn is_open(state: State) -> bool {
    matches!(state, State::Scheduled | State::Queued)
}

pub async fn reschedule(member: Member<Manage>, Shared(emails): Shared<Emails>, id: Id, form: Form) -> PageResult {
    let id = find(&member, id.map(|PathId(id)| id)).await?.summary.id;
    let accepted = member.accept(&purpose("reschedule", id), &form)?;
    let mut typed = form.field("scheduled_at");
    match move_to(&emails, &accepted, id, typed.value.trim()).await {
        Ok(()) => Ok(member.see_other(&format!("/emails/{id}?rescheduled"))),
        Err(refusal) => match web::beside_field(&refusal, [("scheduled_at", &mut typed)]) {
            None => {
                let typed = TypedHere { scheduled_at: typed, ..TypedHere::default() };
                page_one::show(&member, &emails, Ok(PathId(id)), (refusal.status(), typed)).await
            }
            Some(_) => Err(refusal.into()),
        },
    }
}

/// Why a mail cannot be taken back, if it cannot.
fn too_late(email: &Stored) -> Option<Error> {
    let message = match email.summary.state {
        _ if email.is_shared() => "This is the mail of a broadcast, which is canceled on the page of the broadcast.",
        state if is_open(state) => return None,
        State::Canceled => "This mail was taken back already. It will not be sent.",
        _ => "This mail cannot be taken back any more: it has left, or is leaving at this moment.",
    };
    Some(Error::Conflict { message: message.into() })
}

pub async fn ask_cancel(member: Member<Manage>, id: Id) -> PageResult {
    let email = find(&member, id.map(|PathId(id)| id)).await?;
    if let Some(refusal) = too_late(&email) {
        return Err(refusal.into());
    }
    let (id, address) = (email.summary.id, member.address(&format!("/emails/{}", email.summary.id)));
    let content = ConfirmPage {
        layout: member.layout(),
        shell: member.shell("/emails"),
        title: "Take this mail back?".into(),
        subject: titled(email.summary.subject),
        sentence: "It has not left yet, and will not be sent. This cannot be undone.".into(),
        action: format!("{address}/cancel"),
        hidden: member.hidden(&purpose("cancel", id)),
        button: "Do not send it".into(),
        cancel: address,
    };
    Ok(web::page(StatusCode::OK, &content))
}

pub async fn cancel(member: Member<Manage>, Shared(emails): Shared<Emails>, id: Id, form: Form) -> PageResult {
    let id = find(&member, id.map(|PathId(id)| id)).await?.summary.id;
    let accepted = member.accept(&purpose("cancel", id), &form)?;
    match take_back(&emails, &accepted, id).await {
        Ok(()) => Ok(member.see_other(&format!("/emails/{id}?canceled"))),
        Err(refusal) => Err(too_late(&find(&member, Ok(id)).await?).unwrap_or(refusal).into()),
    }
}
