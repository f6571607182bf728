//! What requests hand in, field by field.

use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::broadcast::{Content, UsedTemplate};
use super::content::LONGEST_BODY;
use super::timing::{Hours, Priority, Timing};
use crate::emails::{AddressList, Mailboxes, OneMailbox, Subject};
use crate::error::Error;
use crate::id::{SegmentId, TopicId};
use crate::text::{checked_text, is_longer, is_one_line};
use crate::web::Change;
use crate::windows::Window;

const LONGEST_PREVIEW: usize = 500;

/// One line, and not only spaces.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(
    min_length = 1,
    max_length = 255,
    pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f][^\\x00-\\x1f\\x7f-\\x9f]*$",
    example = "November news"
)]
pub struct BroadcastName(String);

checked_text!(
    BroadcastName(name) if is_one_line(name, 255),
    else "must be one line of 1 to 255 characters, not all of them spaces"
);

/// What mail programs show beside the subject.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(max_length = 500, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$", example = "Three things that are new")]
pub struct PreviewText(String);

checked_text!(
    PreviewText(text) if !is_longer(text, LONGEST_PREVIEW) && !text.chars().any(char::is_control),
    else format!("must be one line of at most {LONGEST_PREVIEW} characters")
);

/// A body, in which what stands in braces is filled in for each recipient.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(max_length = 245760, example = "<p>Hello {{{FIRST_NAME|there}}}</p>")]
pub struct BroadcastBody(String);

checked_text!(
    BroadcastBody(text) if text.len() <= LONGEST_BODY && !text.contains('\0'),
    else format!("must be text of at most {LONGEST_BODY} bytes, without the character U+0000")
);

/// A published template, in place of `html` and `text`.
#[derive(Debug, Deserialize, ToSchema)]
pub struct BroadcastTemplate {
    /// Its id or its alias.
    id: String,
    /// Values for its variables, the same for everybody.
    variables: Option<Map<String, Value>>,
}

impl From<BroadcastTemplate> for UsedTemplate {
    fn from(given: BroadcastTemplate) -> UsedTemplate {
        UsedTemplate { id: given.id, variables: given.variables.unwrap_or_default(), sent: None }
    }
}

/// A broadcast to make.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({
    "segment_id": "01890000-0000-7000-8000-000000000001", "from": "Acme <news@acme.example>",
    "subject": "What is new", "html": "<p>Hello {{{FIRST_NAME|there}}}</p><a href=\"{{{UNSUBSCRIBE_URL}}}\">Unsubscribe</a>",
}))]
pub struct NewBroadcast {
    /// Whom it goes to: everybody who is in this segment when it is sent.
    #[schema(value_type = Option<Uuid>)]
    pub segment_id: Option<SegmentId>,
    /// The same, by its older name.
    #[schema(value_type = Option<Uuid>)]
    pub audience_id: Option<SegmentId>,
    /// Whom it comes from: `name@example.com`, or `Name <name@example.com>`.
    #[schema(value_type = String)]
    pub from: OneMailbox,
    #[schema(value_type = String, max_length = 2000)]
    pub subject: Subject,
    pub html: Option<BroadcastBody>,
    /// Where there is none, one is made of the HTML.
    pub text: Option<BroadcastBody>,
    pub template: Option<BroadcastTemplate>,
    #[schema(value_type = Option<AddressList>)]
    pub reply_to: Option<Mailboxes<0>>,
    pub preview_text: Option<PreviewText>,
    /// What you call it; nobody else sees it.
    pub name: Option<BroadcastName>,
    /// What it is about: contacts that want no mail about this topic are left out.
    #[schema(value_type = Option<Uuid>)]
    pub topic_id: Option<TopicId>,
    /// When it may be sent, in the zone of each contact (its property `timezone`), or else of the workspace. Who is
    /// outside of it gets the mail when it opens.
    pub send_window: Option<Window>,
    /// Which of several broadcasts goes first.
    pub priority: Option<Priority>,
    /// Who may not get it within so many hours of its beginning, because of its window or the workspace's cap, gets
    /// none. Without it, they are waited for.
    pub send_within_hours: Option<Hours>,
    /// Send it, instead of keeping it as a draft.
    pub send: Option<bool>,
    /// With `send`: when, up to 30 days ahead. A time in ISO 8601 with its zone, or words such as `in 1 hour`.
    #[schema(example = "in 1 hour")]
    pub scheduled_at: Option<String>,
}

impl NewBroadcast {
    pub fn content(self) -> Result<Content, Error> {
        let missing = || Error::Missing { message: "Missing `segment_id` field.".into() };
        let content = Content {
            name: self.name.map_or_else(|| "Untitled".to_owned(), |name| name.as_str().to_owned()),
            segment_id: self.segment_id.or(self.audience_id).ok_or_else(missing)?,
            topic_id: self.topic_id,
            sender: self.from.0.to_string(),
            subject: self.subject.0,
            reply_to: written(self.reply_to),
            preview_text: self.preview_text.map(|text| text.as_str().to_owned()),
            html: self.html.map(|body| body.as_str().to_owned()),
            text: self.text.map(|body| body.as_str().to_owned()),
            template: self.template.map(Into::into),
            timing: Timing {
                send_window: self.send_window,
                priority: self.priority.unwrap_or_default(),
                send_within_hours: self.send_within_hours,
            },
        };
        check_bodies(&content)?;
        Ok(content)
    }
}

fn written(list: Option<Mailboxes<0>>) -> Vec<String> {
    list.map(|list| list.0.iter().map(ToString::to_string).collect()).unwrap_or_default()
}

/// Without bodies there is nothing to say.
fn check_bodies(content: &Content) -> Result<(), Error> {
    match (&content.template, &content.html, &content.text) {
        (None, None, None) => Err(Error::Missing { message: "Missing `html`, `text` or `template` field.".into() }),
        (Some(_), None, None) | (None, ..) => Ok(()),
        (Some(_), ..) => Err(Error::invalid(
            "The `template` field cannot stand beside `html` or `text`: a broadcast is made of one of them.",
        )),
    }
}

/// What to change of a draft. What is left out stays as it is.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = BroadcastChange, example = json!({
    "subject": "What is new in May",
    "html": "<p>Hello {{{FIRST_NAME|there}}}</p><a href=\"{{{UNSUBSCRIBE_URL}}}\">Unsubscribe</a>",
}))]
pub struct BroadcastChange {
    #[schema(value_type = Option<Uuid>)]
    segment_id: Option<SegmentId>,
    /// The same, by its older name.
    #[schema(value_type = Option<Uuid>)]
    audience_id: Option<SegmentId>,
    #[schema(value_type = Option<String>)]
    from: Option<OneMailbox>,
    #[schema(value_type = Option<String>, max_length = 2000)]
    subject: Option<Subject>,
    /// Null takes it away.
    #[schema(value_type = Option<BroadcastBody>)]
    html: Change<BroadcastBody>,
    /// Null takes it away.
    #[schema(value_type = Option<BroadcastBody>)]
    text: Change<BroadcastBody>,
    /// Null takes it away.
    #[schema(value_type = Option<BroadcastTemplate>)]
    template: Change<BroadcastTemplate>,
    #[schema(value_type = Option<AddressList>)]
    reply_to: Option<Mailboxes<0>>,
    /// Null takes it away.
    #[schema(value_type = Option<PreviewText>)]
    preview_text: Change<PreviewText>,
    name: Option<BroadcastName>,
    /// Null takes it away.
    #[schema(value_type = Option<Uuid>)]
    topic_id: Change<TopicId>,
    /// Null: at any time.
    #[schema(value_type = Option<Window>)]
    send_window: Change<Window>,
    priority: Option<Priority>,
    /// Null takes it away.
    #[schema(value_type = Option<Hours>)]
    send_within_hours: Change<Hours>,
}

impl BroadcastChange {
    /// A draft as it is after the change.
    pub fn apply(self, to: &Content) -> Result<Content, Error> {
        fn changed<T, U: Clone>(change: Change<T>, before: &Option<U>, of: impl Fn(T) -> U) -> Option<U> {
            match change.0 {
                None => before.clone(),
                Some(new) => new.map(of),
            }
        }
        // Whoever gives bodies wants no template any more, and the other way round.
        let gives = |change: &Change<BroadcastBody>| matches!(change.0, Some(Some(_)));
        let (gives_bodies, gives_template) =
            (gives(&self.html) || gives(&self.text), matches!(self.template.0, Some(Some(_))));
        let mut content = Content {
            name: self.name.map_or_else(|| to.name.clone(), |name| name.as_str().to_owned()),
            segment_id: self.segment_id.or(self.audience_id).unwrap_or(to.segment_id),
            topic_id: changed(self.topic_id, &to.topic_id, |id| id),
            sender: self.from.map_or_else(|| to.sender.clone(), |from| from.0.to_string()),
            subject: self.subject.map_or_else(|| to.subject.clone(), |subject| subject.0),
            reply_to: self.reply_to.map_or_else(|| to.reply_to.clone(), |list| written(Some(list))),
            preview_text: changed(self.preview_text, &to.preview_text, |text| text.as_str().to_owned()),
            html: changed(self.html, &to.html, |body| body.as_str().to_owned()),
            text: changed(self.text, &to.text, |body| body.as_str().to_owned()),
            template: changed(self.template, &to.template, Into::into),
            timing: Timing {
                send_window: changed(self.send_window, &to.timing.send_window, |window| window),
                priority: self.priority.unwrap_or(to.timing.priority),
                send_within_hours: changed(self.send_within_hours, &to.timing.send_within_hours, |hours| hours),
            },
        };
        if gives_bodies && !gives_template {
            content.template = None;
        } else if gives_template && !gives_bodies {
            (content.html, content.text) = (None, None);
        }
        check_bodies(&content)?;
        Ok(content)
    }
}

/// When to send.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = BroadcastSending)]
pub struct Sending {
    /// Up to 30 days ahead: a time in ISO 8601 with its zone, or words such as `in 1 hour`. Without it, now.
    #[schema(example = "in 1 hour")]
    pub scheduled_at: Option<String>,
}
