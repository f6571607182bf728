//! A link by which somebody without an account can read a mail.

use askama::Template;
use axum::extract::State as Shared;
use http::StatusCode;

use super::Emails;
use super::links;
use super::page_one::{self, TypedHere, find};
use super::page_time::purpose;
use super::pages::titled;
use crate::accounts::{Manage, Member};
use crate::error::Error;
use crate::id::EmailId;
use crate::web::{self, Field, Form, Layout, PageResult, PathId, Shell, Stamp};

#[derive(Template)]
#[template(path = "emails/shared.html")]
struct SharedPage {
    layout: Layout,
    shell: Shell,
    subject: String,
    /// The mail's own page.
    back: String,
    url: String,
    until: Stamp,
}

pub async fn share(
    member: Member<Manage>,
    Shared(emails): Shared<Emails>,
    id: Result<PathId<EmailId>, Error>,
    form: Form,
) -> PageResult {
    let email = find(&member, id.map(|PathId(id)| id)).await?;
    let id = email.summary.id;
    member.check_form(&purpose("share", id), &form)?;
    let typed = form.text("expires_in");
    let asked = Some(typed.trim()).filter(|text| !text.is_empty());
    let span = match links::span(asked) {
        Ok(span) => span,
        Err(refusal) => {
            let expires_in = Field { value: typed, error: Some(refusal.message().into_owned()) };
            let typed = TypedHere { expires_in, ..TypedHere::default() };
            return page_one::show(&member, &emails, Ok(PathId(id)), (refusal.status(), typed)).await;
        }
    };
    let content = SharedPage {
        layout: member.layout(),
        shell: member.shell("/emails"),
        subject: titled(email.summary.subject),
        back: member.address(&format!("/emails/{id}")),
        url: links::share(&emails, id, span).await?,
        until: Stamp::new(emails.clock.now() + span),
    };
    Ok(web::page(StatusCode::OK, &content))
}
