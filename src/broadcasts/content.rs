//! What a broadcast says, made ready to be sent: its template filled in, its preview in its place,
//! and all of it tried once.

use std::borrow::Cow;

use serde_json::Map;

use super::Broadcasts;
use super::broadcast::Content;
use super::mailing::Letter;
use super::people::Setting;
use super::store;
use crate::auth::{Caller, Need};
use crate::contacts::{self, Contact, Declared, Email};
use crate::emails::{self, Lane, NewEmail, Origin};
use crate::error::Error;
use crate::id::{DomainId, WorkspaceId};
use crate::mime::Mailbox;
use crate::render::{Kind, Template};
use crate::segments;
use crate::subscriptions::Links;
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
pub async fn check<N: Need>(broadcasts: &Broadcasts, caller: &Caller<N>, content: &Content) -> Result<(), Error> {
    check_ties(caller, content).await?;
    check_sendable(broadcasts, caller.workspace_id(), caller.domain_id(), content).await
}

/// The same of a broadcast whose segment and topic are the workspace's own. `key_domain` is the only domain that the
/// caller may send from, if he is held to one.
pub async fn check_sendable(
    broadcasts: &Broadcasts,
    workspace_id: WorkspaceId,
    key_domain: Option<DomainId>,
    content: &Content,
) -> Result<(), Error> {
    let sender = content.sender.parse::<Mailbox>().map_err(|_| Error::Internal)?;
    broadcasts.domains.may_send(workspace_id, key_domain, sender.address.ascii_domain()).await?;
    mail(broadcasts, workspace_id, content).await?;
    let members = broadcasts.db.read(store::has_members(workspace_id, content.segment_id)).await?;
    match members.is_empty() {
        true => Err(Error::invalid("The segment is empty: there is nobody to send to.")),
        false => Ok(()),
    }
}

/// Refuses a segment or a topic that the caller's workspace does not have.
pub async fn check_ties<N: Need>(caller: &Caller<N>, content: &Content) -> Result<(), Error> {
    segments::must_exist(caller, content.segment_id).await?;
    match content.topic_id {
        Some(topic_id) => topics::must_exist(caller, topic_id).await,
        None => Ok(()),
    }
}

/// The mail that all recipients of a broadcast will share.
pub async fn mail(broadcasts: &Broadcasts, workspace_id: WorkspaceId, content: &Content) -> Result<NewEmail, Error> {
    let address = |text: &String| text.parse::<Mailbox>().map_err(|_| Error::Internal);
    let bodies = bodies(content)?;
    let html = bodies.html.map(|html| with_preview(&html, content.preview_text.as_deref()).into_owned());
    try_out(broadcasts, workspace_id, content, (html.as_deref(), bodies.text.as_deref())).await?;
    Ok(NewEmail {
        lane: Lane::Bulk,
        when_uncertain: broadcasts.config.mail.when_uncertain(true),
        reply_to: content.reply_to.iter().map(address).collect::<Result<_, _>>()?,
        subject: content.subject.clone(),
        topic_id: content.topic_id,
        html: html.map(emails::Content::Here),
        text: bodies.text.map(emails::Content::Here),
        ..NewEmail::new(workspace_id, Origin::Broadcast, address(&content.sender)?, Vec::new())
    })
}

struct Bodies {
    html: Option<String>,
    text: Option<String>,
}

fn bodies(content: &Content) -> Result<Bodies, Error> {
    let missing = || Error::Missing { message: "Missing `html` or `text` field.".into() };
    match (&content.html, &content.text) {
        (None, None) => Err(missing()),
        (html, text) => Ok(Bodies { html: html.clone(), text: text.clone() }),
    }
}

/// Renders the mail for somebody of whom nothing is known: what it names must be there for everybody.
async fn try_out(
    broadcasts: &Broadcasts,
    workspace_id: WorkspaceId,
    content: &Content,
    (html, text): (Option<&str>, Option<&str>),
) -> Result<(), Error> {
    let letter = Letter::parse(&content.subject, html, text).map_err(Error::invalid)?;
    let declared = broadcasts.db.read(contacts::declared_properties(workspace_id)).await?;
    let (declared, links) = (Declared::read_all(&declared)?, Links::of(broadcasts).await?);
    let none = Map::new();
    let setting = Setting {
        workspace_id,
        topic_id: content.topic_id,
        declared: &declared,
        variables: content.template.as_ref().map_or(&none, |template| &template.variables),
        links: &links,
    };
    let sample = Email::read(SAMPLE).ok_or(Error::Internal)?;
    let sample = Contact::new(broadcasts.clock.ordered_id(), &sample, broadcasts.clock.now());
    letter.render(&setting.values(&sample)).map(drop).map_err(Error::invalid)
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
