//! Sending a mail from the dashboard: one that is written there, or a test of a template.

use askama::Template;
use axum::extract::State as Shared;
use http::StatusCode;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::draft::{self, Draft};
use super::queue::{self, MailForm};
use super::send::{StoredFile, allowed, attach, forget_refused};
use super::templated::{TemplateTest, filled, test_mail};
use super::typed::{TypedMail, addresses, lines, pairs, some};
use super::{Emails, NewEmail, Origin, contents};
use crate::accounts::{Accepted, Manage, Member};
use crate::app::App;
use crate::auth::Actor;
use crate::docs::Call;
use crate::error::Error;
use crate::id::{EmailId, TemplateId, TopicId};
use crate::templates::{self, Named};
use crate::topics;
use crate::web::{self, Body, Field, FileForm, Form, FormFile, Layout, Link, PageResult, PathId, Shell};

#[derive(Template)]
#[template(path = "emails/send.html")]
struct SendPage {
    layout: Layout,
    shell: Shell,
    title: String,
    lede: &'static str,
    back: Link,
    action: String,
    hidden: Vec<(String, String)>,
    problem: Option<String>,
    /// What is left out for a test of a template: it has that.
    is_test: bool,
    typed: TypedMail,
    template: Field,
    variables: Field,
    topic_id: Field,
    /// Ids and names, none first.
    topics: Vec<(String, String)>,
    tags: Field,
    /// Its value is what no page can keep.
    attachments: Field,
    had_files: bool,
    /// Addresses to fetch further attachments from.
    paths: Field,
    code: Option<Call>,
}

impl SendPage {
    fn empty(member: &Member<Manage>, id: EmailId) -> SendPage {
        SendPage {
            layout: member.layout(),
            shell: member.shell("/emails"),
            title: "Send an email".into(),
            lede: "One mail, written here. It goes the way of all others, and is found among them.",
            back: Link { href: member.address("/emails"), label: "Emails".into() },
            action: member.address("/emails/new"),
            hidden: member.hidden_making(SEND, id),
            problem: None,
            is_test: false,
            typed: TypedMail::default(),
            template: Field::default(),
            variables: Field::default(),
            topic_id: Field::default(),
            topics: Vec::new(),
            tags: Field::default(),
            attachments: Field::default(),
            had_files: false,
            paths: Field::default(),
            code: None,
        }
    }

    /// With what was typed.
    fn of(member: &Member<Manage>, id: EmailId, form: &Form) -> SendPage {
        SendPage {
            typed: TypedMail::of(form),
            template: form.field("template"),
            variables: Field::of(form.lines("variables")),
            topic_id: form.field("topic_id"),
            tags: Field::of(form.lines("tags")),
            paths: Field::of(form.lines("paths")),
            ..SendPage::empty(member, id)
        }
    }

    /// The same, for a test of a template.
    fn for_test(self, member: &Member<Manage>, id: TemplateId, name: &str) -> SendPage {
        let address = member.address(&format!("/templates/{id}"));
        SendPage {
            shell: member.shell("/templates"),
            title: format!("Send a test of {name}"),
            lede: "The draft, with samples for what you give no value for. Its subject begins with [Test].",
            action: format!("{address}/test"),
            back: Link { href: address, label: name.to_owned() },
            is_test: true,
            ..self
        }
    }

    /// The same for another mail.
    fn anew(self, member: &Member<Manage>) -> SendPage {
        SendPage { hidden: member.hidden_making(SEND, member.app.clock.ordered_id::<EmailId>()), ..self }
    }

    fn refused(mut self, refusal: &Error) -> PageResult {
        let own = [
            ("template", &mut self.template),
            ("variables", &mut self.variables),
            ("topic_id", &mut self.topic_id),
            ("tags", &mut self.tags),
            ("attachments", &mut self.attachments),
        ];
        let fields = self.typed.by_name().into_iter().chain(own);
        self.problem = web::beside_field(refusal, fields);
        if self.had_files {
            let again = "The files are not kept: choose them again.";
            let error = self.attachments.error.map_or_else(|| again.to_owned(), |error| format!("{error} {again}"));
            self.attachments.error = Some(error);
        }
        Ok(web::page(refusal.status(), &self))
    }

    /// Values of variables, as JSON.
    fn values(&self) -> Result<Map<String, Value>, Error> {
        let text = self.variables.value.trim();
        if text.is_empty() {
            return Ok(Map::new());
        }
        serde_json::from_str(text)
            .map_err(|error| Error::invalid(format!("The `variables` are an object of JSON: {error}.")))
    }

    /// As a request would say it, but for what is in the files.
    fn fields(&self, files: &[FormFile]) -> Result<Map<String, Value>, Error> {
        let mut fields = self.typed.fields()?;
        let topic = self.topic_id.value.as_str();
        fields.extend((!topic.is_empty()).then(|| ("topic_id".to_owned(), topic.into())));
        if !self.template.value.is_empty() {
            let template = json!({"id": self.template.value.trim(), "variables": self.values()?});
            fields.insert("template".into(), template);
        }
        let lists = [
            ("tags", self.tags()?),
            ("attachments", some(files.iter().map(named).chain(lines(&self.paths).map(|path| json!({"path": path}))))),
        ];
        fields.extend(lists.into_iter().filter_map(|(name, list)| Some((name.to_owned(), list?))));
        Ok(fields)
    }

    fn tags(&self) -> Result<Option<Value>, Error> {
        let tags = pairs(("tags", &self.tags), '=', "name=value")?;
        Ok(some(tags.into_iter().map(|(name, value)| json!({"name": name, "value": value}))))
    }
}

/// An attachment as a request would name it. What browsers do not know is told by the name's ending.
fn named(file: &FormFile) -> Value {
    let kind = file.content_type.as_deref().filter(|kind| *kind != "application/octet-stream");
    json!({"filename": file.filename, "content_type": kind, "content": ""})
}

const SEND: &str = "send email";

/// Whether a refusal is about what was typed.
fn is_about_form(refusal: &Error) -> bool {
    refusal.status().is_client_error()
}

pub async fn ask(member: Member<Manage>) -> PageResult {
    let page = SendPage::empty(&member, member.app.clock.ordered_id());
    let code = Some(code(&member.app, &member.session.email));
    let topics = topics_of(&member).await?;
    let typed = TypedMail { to: Field::of(&member.session.email), ..TypedMail::default() };
    Ok(web::page(StatusCode::OK, &SendPage { typed, topics, code, ..page }))
}

async fn topics_of(member: &Member<Manage>) -> Result<Vec<(String, String)>, Error> {
    let topics: Vec<(TopicId, String)> = member.query(topics::choices(member.workspace_id())).await?;
    let none = (String::new(), "None".to_owned());
    Ok(std::iter::once(none).chain(topics.into_iter().map(|(id, name)| (id.to_string(), name))).collect())
}

/// A first mail, as a program sends it.
pub fn code(app: &App, to: &str) -> Call {
    let mail = json!({"from": "you@example.com", "to": to, "subject": "Hello", "text": "It works."});
    Call::to(app, "POST", "/emails", Some(mail))
}

pub async fn send(member: Member<Manage>, Shared(emails): Shared<Emails>, form: FileForm) -> PageResult {
    let (id, accepted) = member.accept_making(SEND, &form)?;
    let (topics, had_files) = (topics_of(&member).await?, !form.files.is_empty());
    let page = SendPage { topics, had_files, ..SendPage::of(&member, id, &form) };
    let sending = async {
        let fields = page.fields(&form.files)?;
        let sent = MailForm::new(id, &fields);
        let mut draft = drafted(&emails, &accepted, id, fields).await?.with_files(&form);
        if draft.pending.is_empty() {
            return hand_over(&emails, &accepted, (&sent, None), draft).await.map(drop);
        }
        emails.admission.admit().await?;
        let digest = form.digest_files(&member.app, Sha256::new_with_prefix(sent.fingerprint)).await?;
        let sent = MailForm { fingerprint: digest.finalize().into(), ..sent };
        let stored_as = emails.clock.ordered_id();
        let stored = contents::store(&emails, &accepted, stored_as, &mut draft, None).await;
        hand_over_stored(&emails, &accepted, (&sent, stored_as), stored.map(|()| draft)).await
    };
    match Box::pin(sending).await {
        Ok(()) => Ok(member.see_other(&format!("/emails/{id}?sent"))),
        Err(refusal @ Error::Conflict { .. }) => page.anew(&member).refused(&refusal),
        Err(refusal) if is_about_form(&refusal) => page.refused(&refusal),
        Err(error) => Err(error.into()),
    }
}

/// Sends the mail that a request with these fields would send, under the id that its form carries.
pub async fn send_fields(
    emails: &Emails,
    accepted: &Accepted<'_>,
    id: EmailId,
    fields: Map<String, Value>,
    files: Vec<StoredFile>,
) -> Result<(), Error> {
    let sent = MailForm::new(id, &fields);
    let mut draft = drafted(emails, accepted, id, fields).await?;
    if files.is_empty() {
        return hand_over(emails, accepted, (&sent, None), draft).await.map(drop);
    }
    emails.admission.admit().await?;
    let stored_as = emails.clock.ordered_id();
    let stored = attach(emails, accepted, stored_as, &mut draft, files).await;
    hand_over_stored(emails, accepted, (&sent, stored_as), stored.map(|()| draft)).await
}

/// The mail that a request with these fields would make, if it may be sent.
async fn drafted(
    emails: &Emails,
    accepted: &Accepted<'_>,
    id: EmailId,
    fields: Map<String, Value>,
) -> Result<Draft, Error> {
    let of = (accepted.workspace_id(), id);
    let (body, template_id) = Box::pin(filled(emails, of, Body::new(fields))).await?;
    let draft = Draft::new(emails, of, draft::read(body)?)?.made_of(template_id);
    allowed(emails, accepted, &draft).await?;
    Ok(draft)
}

/// Sends a mail whose files are in the store. They came under an id of their own: whoever sends the form twice, or
/// again after it was cut off, meets no pieces of before, and takes none away from the mail that is there.
async fn hand_over_stored(
    emails: &Emails,
    accepted: &Accepted<'_>,
    (form, stored_as): (&MailForm, EmailId),
    stored: Result<Draft, Error>,
) -> Result<(), Error> {
    let sent = match stored {
        Ok(draft) => hand_over(emails, accepted, (form, Some(stored_as)), draft).await,
        Err(refusal) => Err(refusal),
    };
    // Whatever no mail has taken over: a commit that is still under way would miss it, and do nothing.
    if !matches!(sent, Ok(true)) {
        forget_refused(emails, stored_as).await;
    }
    sent.map(drop)
}

/// It was no program that handed it in. Tells whether it was queued now, and not before.
async fn hand_over(
    emails: &Emails,
    accepted: &Accepted<'_>,
    (form, stored_as): (&MailForm, Option<EmailId>),
    draft: Draft,
) -> Result<bool, Error> {
    let email = NewEmail { origin: Origin::Command, ..draft.email };
    queue::send_stored((&emails.occurrences, &emails.domains), accepted, form, email, stored_as).await
}

async fn outline(
    member: &Member<Manage>,
    id: Result<PathId<TemplateId>, Error>,
) -> Result<(TemplateId, String), Error> {
    let gone = || Error::not_found("There is no such template here. It may have been deleted already.");
    let PathId(id) = id.map_err(|_| gone())?;
    let name = templates::name_of(&member.app.db, member.workspace_id(), id).await?.ok_or_else(gone)?;
    Ok((id, name))
}

pub async fn ask_test(member: Member<Manage>, id: Result<PathId<TemplateId>, Error>) -> PageResult {
    let (id, name) = outline(&member, id).await?;
    let page = SendPage::empty(&member, member.app.clock.ordered_id()).for_test(&member, id, &name);
    let typed = TypedMail { to: Field::of(&member.session.email), ..TypedMail::default() };
    Ok(web::page(StatusCode::OK, &SendPage { typed, ..page }))
}

pub async fn send_test(
    member: Member<Manage>,
    Shared(emails): Shared<Emails>,
    id: Result<PathId<TemplateId>, Error>,
    form: Form,
) -> PageResult {
    let (template_id, name) = outline(&member, id).await?;
    let (id, accepted) = member.accept_making(SEND, &form)?;
    let page = SendPage::of(&member, id, &form).for_test(&member, template_id, &name);
    let sending = async {
        let mut fields = Map::from_iter([("variables".to_owned(), page.values()?.into())]);
        fields.extend(addresses(&page.typed.to).map(|list| ("to".to_owned(), list)));
        let from = page.typed.from.value.trim();
        fields.extend((!from.is_empty()).then(|| ("from".to_owned(), from.into())));
        let sent = MailForm::new(id, &fields);
        let test: TemplateTest = web::read_fields(fields)?;
        let draft = test_mail(&emails, &accepted, &Named::from(template_id), test).await?;
        hand_over(&emails, &accepted, (&sent, None), draft).await.map(drop)
    };
    match Box::pin(sending).await {
        Ok(()) => Ok(member.see_other(&format!("/emails/{id}?sent"))),
        Err(refusal @ Error::Conflict { .. }) => page.anew(&member).refused(&refusal),
        Err(refusal) if is_about_form(&refusal) => page.refused(&refusal),
        Err(error) => Err(error.into()),
    }
}
