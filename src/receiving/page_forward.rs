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
use crate::emails;
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
    from: Field,
    to: Field,
    text: Field,
}

fn purpose(id: ReceivedEmailId) -> String {
    format!("forward email {id} as")
}

impl ForwardPage {
    /// The form, with the id that the mail it sends gets.
    fn of(member: &Member<Manage>, email: &Summary, sent_as: EmailId, [from, to, text]: [String; 3]) -> ForwardPage {
        let field = |value| Field { value, error: None };
        ForwardPage {
            layout: member.layout(),
            shell: member.shell("/received"),
            subject: emails::titled(email.subject.clone()),
            back: member.address(&format!("/received/{}", email.id)),
            action: member.address(&format!("/received/{}/forward", email.id)),
            hidden: member.hidden_making(&purpose(email.id), sent_as),
            problem: None,
            from: field(from),
            to: field(to),
            text: field(text),
        }
    }

    /// The fields of `POST /emails/receiving/{id}/forward`. Without a word of its own, the mail goes on as it came.
    fn fields(&self) -> Map<String, Value> {
        let text = Some(&self.text.value).filter(|text| !text.trim().is_empty());
        let from = Some(self.from.value.trim()).filter(|from| !from.is_empty());
        let fields = [
            ("from", from.map(Value::from)),
            ("to", emails::addresses_of_form(&self.to)),
            ("passthrough", Some(text.is_none().into())),
            ("text", text.map(|text| text.as_str().into())),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }

    fn refused(mut self, refusal: &Error) -> PageResult {
        let fields = [("from", &mut self.from), ("to", &mut self.to), ("text", &mut self.text)];
        self.problem = web::beside_field(refusal, fields);
        Ok(web::page(refusal.status(), &self))
    }
}

pub async fn ask(member: Member<Manage>, id: Id) -> PageResult {
    let email = found(&member, id).await?.summary;
    email.size.ok_or_else(gone)?;
    let from = email.envelope.received_for.first().cloned().unwrap_or_default();
    let sent_as = member.app.clock.ordered_id();
    Ok(web::page(StatusCode::OK, &ForwardPage::of(&member, &email, sent_as, [from, String::new(), String::new()])))
}

pub async fn forward(member: Member<Manage>, State(receiving): State<Receiving>, id: Id, form: Form) -> PageResult {
    let email = found(&member, id).await?;
    let (sent_as, accepted) = member.accept_making(&purpose(email.summary.id), &form)?;
    let typed = [form.text("from"), form.lines("to"), form.lines("text")];
    let id = email.summary.id;
    let mut page = ForwardPage::of(&member, &email.summary, sent_as, typed);
    let sending = async {
        let (fields, files) = answering::forwarded(&receiving, email, page.fields()).await?;
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
