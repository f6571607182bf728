//! What a broadcast says, made ready to be sent: bodies or what is published of its template, its
//! preview in its place, and all of it tried once.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::Broadcasts;
use super::broadcast::{Content, SentTemplate, UsedTemplate};
use super::mailing::Letter;
use super::people::Setting;
use super::store;
use crate::auth::Actor;
use crate::contacts::{self, Contact, Declared, Email};
use crate::emails::{self, Lane, NewEmail, Origin};
use crate::error::Error;
use crate::id::{DomainId, TemplateId, WorkspaceId};
use crate::mime::Mailbox;
use crate::render::{Kind, Template};
use crate::segments;
use crate::subscriptions::Links;
use crate::templates::{self, Sources, Unsendable};
use crate::topics;

/// How long a body may be, in bytes: with its preview it stands with its mail, and not in pieces.
pub const LONGEST_BODY: usize = 240 << 10;

/// Whom a mail is tried with before it goes to anybody.
const SAMPLE: &str = "someone@example.com";

/// Reads a template of a field; the error names it.
pub fn parse(field: &str, source: &str, kind: Kind) -> Result<Template, String> {
    Template::parse(source, kind).map_err(|flaw| format!("The `{field}` field: {flaw}."))
}

/// Refuses what could not be sent to anybody, for reasons that can be known before.
pub async fn check(broadcasts: &Broadcasts, caller: &dyn Actor, content: &Content) -> Result<(), Error> {
    check_ties(broadcasts, caller, content).await?;
    check_sendable(broadcasts, caller.workspace_id(), caller.domain_id(), content).await
}

/// The same of a broadcast whose segment and topic are the workspace's own. `key_domain` is the only domain that the
/// caller may send from, if it is held to one.
pub async fn check_sendable(
    broadcasts: &Broadcasts,
    workspace_id: WorkspaceId,
    key_domain: Option<DomainId>,
    content: &Content,
) -> Result<(), Error> {
    let sender = content.sender.parse::<Mailbox>().map_err(|_| Error::Internal)?;
    broadcasts.domains.may_send(workspace_id, key_domain, sender.address.ascii_domain()).await?;
    prepare(broadcasts, workspace_id, content).await?;
    // One that is being filled is waited for.
    match segments::is_filling(&broadcasts.db, workspace_id, content.segment_id).await? {
        Some(true) => Ok(()),
        _ => check_members(broadcasts, workspace_id, content).await,
    }
}

/// Refuses an empty segment.
pub async fn check_members(broadcasts: &Broadcasts, workspace_id: WorkspaceId, content: &Content) -> Result<(), Error> {
    let members = broadcasts.db.read(store::has_members(workspace_id, content.segment_id)).await?;
    match members.is_empty() {
        true => Err(Error::invalid("The segment is empty: there is nobody to send to.")),
        false => Ok(()),
    }
}

/// Refuses a segment, a topic or a template that the caller's workspace does not have. A template may be published
/// as late as the broadcast is sent.
pub async fn check_ties(broadcasts: &Broadcasts, caller: &dyn Actor, content: &Content) -> Result<(), Error> {
    segments::must_exist(caller, content.segment_id).await?;
    if let Some(topic_id) = content.topic_id {
        topics::must_exist(caller, topic_id).await?;
    }
    match &content.template {
        Some(template) => {
            let found = templates::check_published(&broadcasts.db, caller.workspace_id(), &template.id).await?;
            found.or_else(|unsendable| match unsendable {
                Unsendable::Draft => Ok(()),
                Unsendable::Missing => Err(unsendable.refusal()),
            })
        }
        None => Ok(()),
    }
}

/// What a broadcast is sent as.
pub struct Prepared {
    /// The mail that all of its recipients will share.
    pub email: NewEmail,
    /// Its template, as it is at this moment.
    pub template: Option<UsedTemplate>,
    /// What somebody gets of whom only the address is known.
    pub sample: Sample,
}

/// Subject, HTML and text.
pub type Sample = (String, Option<String>, Option<String>);

/// Makes a broadcast ready to be sent.
pub async fn prepare(broadcasts: &Broadcasts, workspace_id: WorkspaceId, content: &Content) -> Result<Prepared, Error> {
    let address = |text: &String| text.parse::<Mailbox>().map_err(|_| Error::Internal);
    let Bodies { html, text, template, template_id } = bodies(broadcasts, workspace_id, content).await?;
    let html = html.map(|html| with_preview(&html, content.preview_text.as_deref()).into_owned());
    let none = Map::new();
    let values = template.as_ref().map_or(&none, UsedTemplate::values);
    let nobody = Email::read(SAMPLE).ok_or(Error::Internal)?;
    let sample =
        try_out(broadcasts, workspace_id, (content, &nobody), values, (html.as_deref(), text.as_deref())).await?;
    let email = NewEmail {
        lane: Lane::Bulk,
        when_uncertain: broadcasts.config.mail.when_uncertain(true),
        reply_to: content.reply_to.iter().map(address).collect::<Result<_, _>>()?,
        subject: content.subject.clone(),
        topic_id: content.topic_id,
        template_id,
        html: html.map(emails::Content::Here),
        text: text.map(emails::Content::Here),
        ..NewEmail::new(workspace_id, Origin::Broadcast, address(&content.sender)?, Vec::new())
    };
    Ok(Prepared { email, template, sample })
}

struct Bodies {
    html: Option<String>,
    text: Option<String>,
    template: Option<UsedTemplate>,
    template_id: Option<TemplateId>,
}

async fn bodies(broadcasts: &Broadcasts, workspace_id: WorkspaceId, content: &Content) -> Result<Bodies, Error> {
    let Some(used) = &content.template else {
        return Ok(Bodies {
            html: content.html.clone(),
            text: content.text.clone(),
            template: None,
            template_id: None,
        });
    };
    let Sources { template_id, version_id, html, text, values } =
        broadcasts.templates.sources(workspace_id, &used.id, &used.variables).await?;
    if html.len().max(text.as_ref().map_or(0, String::len)) > LONGEST_BODY {
        return Err(Error::invalid(format!(
            "The template is too long for a broadcast: its HTML and its text may have {LONGEST_BODY} bytes each."
        )));
    }
    let template = UsedTemplate { sent: Some(SentTemplate { version_id, values }), ..used.clone() };
    Ok(Bodies { html: Some(html), text, template: Some(template), template_id: Some(template_id) })
}

/// Renders the mail for somebody of whom nothing is known: what it names must be there for everybody.
async fn try_out(
    broadcasts: &Broadcasts,
    workspace_id: WorkspaceId,
    (content, email): (&Content, &Email),
    variables: &Map<String, Value>,
    (html, text): (Option<&str>, Option<&str>),
) -> Result<Sample, Error> {
    let letter = Letter::parse(&content.subject, html, text).map_err(Error::invalid)?;
    let declared = broadcasts.db.read(contacts::declared_properties(workspace_id)).await?;
    let (declared, links) = (Declared::read_all(&declared)?, Links::of(broadcasts).await?);
    let (email_id, topic_id) = (None, content.topic_id);
    let setting = Setting { workspace_id, email_id, topic_id, declared: &declared, variables, links: &links };
    let contact = Contact::new(broadcasts.clock.ordered_id(), email, broadcasts.clock.now());
    letter.render(&setting.values(&contact, None)).map_err(Error::invalid)
}

/// HTML that begins with a line which mail programs show beside the subject, and nobody sees in the mail.
fn with_preview<'a>(html: &'a str, preview: Option<&str>) -> Cow<'a, str> {
    let Some(preview) = preview.filter(|text| !text.trim().is_empty()) else { return html.into() };
    let escaped = preview.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let lower = html.to_ascii_lowercase();
    let body = lower.find("<body").and_then(|start| Some(start + lower[start..].find('>')? + 1));
    let (before, behind) = html.split_at(body.unwrap_or(0));
    let style = "display:none;overflow:hidden;line-height:1px;opacity:0;max-height:0;max-width:0";
    format!("{before}<div style=\"{style}\">{escaped}</div>{behind}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preview_stands_at_the_beginning_of_what_is_seen() {
        let page = "<html><BODY class=\"a\"><p>Hello</p></BODY></html>";
        let shown = with_preview(page, Some("a < {{{FIRST_NAME|b}}}"));
        assert!(shown.starts_with("<html><BODY class=\"a\"><div style="), "{shown}");
        assert!(shown.contains(">a &lt; {{{FIRST_NAME|b}}}</div><p>Hello"), "{shown}");
        assert!(with_preview("<p>Hello</p>", Some("b")).starts_with("<div"));
        assert_eq!(with_preview(page, None), page);
        assert_eq!(with_preview(page, Some(" ")), page);
    }
}
