//! Received mail is sent on from the dashboard.

use askama::Template;
use axum::extract::State;
use http::StatusCode;
use serde_json::{Map, Value};

use super::email::Summary;
use super::pages::{Id, found};
use super::routes::gone;
use super::{Receiving, answering};
use crate::accounts::{Manage, Member};
use crate::emails::{self, TypedMail};
use crate::error::Error;
use crate::id::{EmailId, ReceivedEmailId};
use crate::web::{self, Field, Form, Layout, PageResult, Shell};

#[derive(Template)]
#[template(path = "receiving/forward.html")]
struct ForwardPage {
    layout: Layout,
    shell: Shell,
    subject: String,
    back: String,
    action: String,
    hidden: Vec<(String, String)>,
    problem: Option<String>,
    typed: TypedMail,
}

fn purpose(id: ReceivedEmailId) -> String {
    format!("forward email {id} as")
}

impl ForwardPage {
    /// The form, with the id that the mail it sends gets.
    fn of(member: &Member<Manage>, email: &Summary, sent_as: EmailId, typed: TypedMail) -> ForwardPage {
        ForwardPage {
            layout: member.layout(),
            shell: member.shell("/received"),
            subject: emails::titled(email.subject.clone()),
            back: member.address(&format!("/received/{}", email.id)),
            action: member.address(&format!("/received/{}/forward", email.id)),
            hidden: member.hidden_making(&purpose(email.id), sent_as),
            problem: None,
            typed,
        }
    }

    /// The fields of `POST /emails/receiving/{id}/forward`. Without a word of its own, the mail goes on as it came.
    fn fields(&self) -> Result<Map<String, Value>, Error> {
        let is_silent = |field: &Field| field.value.trim().is_empty();
        let is_as_it_came = is_silent(&self.typed.text) && is_silent(&self.typed.html);
        let mut fields = self.typed.fields()?;
        fields.insert("passthrough".into(), is_as_it_came.into());
        Ok(fields)
    }

    fn refused(mut self, refusal: &Error) -> PageResult {
        self.problem = self.typed.refused(refusal);
        Ok(web::page(refusal.status(), &self))
    }
}

pub async fn ask(member: Member<Manage>, id: Id) -> PageResult {
    let email = found(&member, id).await?.summary;
    email.size.ok_or_else(gone)?;
    let from = email.envelope.received_for.first().cloned().unwrap_or_default();
    let sent_as = member.app.clock.ordered_id();
    let typed = TypedMail { from: Field::of(from), ..TypedMail::default() };
    Ok(web::page(StatusCode::OK, &ForwardPage::of(&member, &email, sent_as, typed)))
}

pub async fn forward(member: Member<Manage>, State(receiving): State<Receiving>, id: Id, form: Form) -> PageResult {
    let email = found(&member, id).await?;
    let (sent_as, accepted) = member.accept_making(&purpose(email.summary.id), &form)?;
    let id = email.summary.id;
    let mut page = ForwardPage::of(&member, &email.summary, sent_as, TypedMail::of(&form));
    let sending = async {
        let (fields, files) = answering::forwarded(&receiving, email, page.fields()?).await?;
        emails::send_fields(&receiving.emails, &accepted, sent_as, fields, files).await
    };
    match sending.await {
        Ok(()) => Ok(member.see_other(&format!("/emails/{sent_as}?sent"))),
        Err(refusal) if refusal.status().is_client_error() => {
            if matches!(refusal, Error::Conflict { .. }) {
                // What was changed after it was sent is another mail.
                page.hidden = member.hidden_making(&purpose(id), member.app.clock.ordered_id::<EmailId>());
            }
            page.refused(&refusal)
        }
        Err(error) => Err(error.into()),
    }
}
