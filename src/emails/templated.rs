//! Mail that is made of a template: what the template gives takes its place among the fields of the
//! mail, which then is read as any other.

use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::Emails;
use super::body::{AddressList, EmailToSend};
use super::draft::{self, Draft};
use super::send::accept;
use super::shapes::Sent;
use super::store::FIRST_RECIPIENT;
use crate::auth::{Actor, Caller};
use crate::contacts::{self, Contact};
use crate::error::Error;
use crate::id::{EmailId, TemplateId, TemplateVersionId, WorkspaceId};
use crate::mime::Mailbox;
use crate::subscriptions::{Links, Subscriber, URL_KEYS};
use crate::templates::{Named, Rendered, Rendering, Unsendable};
use crate::text::kind;
use crate::web::{Body, Idempotency};

/// The template that a mail is made of.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = TemplateToSend)]
pub struct TemplateToSend {
    /// The id or the alias of a template that was published.
    #[schema(example = "order-confirmation")]
    #[expect(dead_code, reason = "it is read before the mail is, and described here")]
    id: String,
    /// Values of its variables, by key.
    #[schema(value_type = Option<Object>, example = json!({"ORDER_ID": "A-1"}))]
    #[expect(dead_code, reason = "they are read before the mail is, and described here")]
    variables: Option<Map<String, Value>>,
}

/// Whether a mail names a template.
pub fn names_template(body: &Body<EmailToSend>) -> bool {
    body.fields().get("template").is_some_and(|template| !template.is_null())
}

/// The mail with what its template gives, and which template that is; `id` is the one that it will have.
pub async fn filled(
    emails: &Emails,
    (workspace_id, id): (WorkspaceId, EmailId),
    body: Body<EmailToSend>,
) -> Result<(Body<EmailToSend>, Option<TemplateId>), Error> {
    let mut fields = Map::from(body.into_fields());
    let Some(template) = fields.remove("template").filter(|template| !template.is_null()) else {
        return Ok((Body::new(fields), None));
    };
    if ["html", "text"].iter().any(|name| has(&fields, name)) {
        let message = "The `template` field cannot stand beside `html` or `text`: a mail is made of one of them.";
        return Err(Error::invalid(message));
    }
    let (named, mut variables) = read(template)?;
    let rendering = emails.templates.published(workspace_id, &named).await?.map_err(Unsendable::refusal)?;
    if rendering.names_any(&URL_KEYS) {
        add_link(emails, (workspace_id, id), &fields, &mut variables).await?;
    }
    let render = move || rendering.render(&variables).map(|rendered| (rendered, rendering));
    let (rendered, rendering) = emails.admission.build(render).await?.map_err(Error::invalid)?;
    fill(&mut fields, rendered, &rendering)?;
    Ok((Body::new(fields), Some(rendering.template_id)))
}

/// A mail to one contact can name the link that ends mail about its topic, or all mail where it is about none.
async fn add_link(
    emails: &Emails,
    (workspace_id, id): (WorkspaceId, EmailId),
    fields: &Map<String, Value>,
    variables: &mut Map<String, Value>,
) -> Result<(), Error> {
    let Some(to) = only_recipient(fields) else { return Ok(()) };
    let rows = emails.db.read(contacts::by_email_key(workspace_id, &to.address.key())).await?;
    let Some(contact) = rows.first().map(Contact::read).transpose()? else { return Ok(()) };
    let topic_id = fields.get("topic_id").and_then(Value::as_str).and_then(|id| id.parse().ok());
    let (contact_id, mail) = (contact.id, Some((id, FIRST_RECIPIENT)));
    let url = Links::of(emails).await?.unsubscribe_url(&Subscriber { workspace_id, contact_id, topic_id, mail });
    for key in URL_KEYS {
        variables.entry(key).or_insert_with(|| url.clone().into());
    }
    Ok(())
}

/// Whom a mail is for, where that is one. What is no address is told of when the mail is read.
fn only_recipient(fields: &Map<String, Value>) -> Option<Mailbox> {
    if ["cc", "bcc"].iter().any(|name| has(fields, name)) {
        return None;
    }
    match fields.get("to")? {
        Value::String(one) => one.parse().ok(),
        Value::Array(list) => match list.as_slice() {
            [one] => one.as_str()?.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

fn has(fields: &Map<String, Value>, name: &str) -> bool {
    fields.get(name).is_some_and(|value| !value.is_null())
}

/// Which template, and with which values.
fn read(template: Value) -> Result<(String, Map<String, Value>), Error> {
    let Value::Object(mut template) = template else {
        return Err(Error::invalid(format!("The `template` field must be an object, but is {}.", kind(&template))));
    };
    let id = match template.remove("id") {
        Some(Value::String(id)) => id,
        None | Some(Value::Null) => return Err(Error::Missing { message: "Missing `template.id` field.".into() }),
        Some(other) => {
            return Err(Error::invalid(format!("The `template.id` field must be a string, but is {}.", kind(&other))));
        }
    };
    match template.remove("variables") {
        None | Some(Value::Null) => Ok((id, Map::new())),
        Some(Value::Object(variables)) => Ok((id, variables)),
        Some(other) => {
            let message = format!("The `template.variables` field must be an object, but is {}.", kind(&other));
            Err(Error::invalid(message))
        }
    }
}

/// What the mail says itself stays.
fn fill(fields: &mut Map<String, Value>, rendered: Rendered, rendering: &Rendering) -> Result<(), Error> {
    let Rendered { subject, html, text } = rendered;
    let reply_to = Some(rendering.reply_to.clone()).filter(|addresses| !addresses.is_empty());
    let given = [
        ("subject", subject.map(Value::from)),
        ("from", rendering.from.clone().map(Value::from)),
        ("reply_to", reply_to.map(Value::from)),
        ("html", Some(html.into())),
        ("text", text.map(Value::from)),
    ];
    for (name, value) in given {
        if let Some(value) = value.filter(|_| !has(fields, name)) {
            fields.insert(name.to_owned(), value);
        }
    }
    match ["from", "subject"].into_iter().find(|name| !has(fields, name)) {
        Some(name) => {
            Err(Error::Missing { message: format!("Missing `{name}` field: the template has none, either.") })
        }
        None => Ok(()),
    }
}

/// Whom to send a test to.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"to": "ada@example.com", "variables": {"ORDER_ID": "A-1"}}))]
pub struct TemplateTest {
    /// An address, or up to 50.
    #[schema(value_type = AddressList)]
    to: Value,
    /// Values of variables. What is missing is shown with a sample.
    #[schema(value_type = Option<Object>)]
    variables: Option<Map<String, Value>>,
    /// Which version; left out: the draft.
    #[schema(value_type = Option<Uuid>)]
    version_id: Option<TemplateVersionId>,
    /// Whom it comes from, if not from whom the template says.
    from: Option<String>,
}

/// Send a test of a template
///
/// Sends the draft, or a version, with samples for what is not given. Its subject begins with `[Test]`.
#[utoipa::path(
    post, path = "/templates/{id}/test", tag = "Templates", operation_id = "test_template",
    params(Named, Idempotency), request_body = TemplateTest,
    responses((status = 200, description = "It is queued.", body = Sent)),
)]
pub async fn send_test(
    caller: Caller,
    State(emails): State<Emails>,
    key: Idempotency,
    named: Named,
    body: Body<TemplateTest>,
) -> Result<Response, Error> {
    let request = key.request(&caller, &emails, &body);
    let test = body.read()?;
    let sending = async {
        let draft = test_mail(&emails, &caller, &named, test).await?;
        accept(&emails, &caller, &request, draft).await
    };
    request.run(Box::pin(sending)).await
}

/// The mail that shows what a template looks like.
pub async fn test_mail(emails: &Emails, actor: &dyn Actor, named: &Named, test: TemplateTest) -> Result<Draft, Error> {
    let variables = test.variables.unwrap_or_default();
    let (rendering, rendered, _) = emails.templates.sample(actor, named, test.version_id, variables).await?;
    let subject = format!("[Test] {}", rendered.subject.as_deref().unwrap_or_default());
    let mut fields = Map::from_iter([("to".to_owned(), test.to), ("subject".to_owned(), subject.into())]);
    fields.extend(test.from.map(|from| ("from".to_owned(), from.into())));
    fill(&mut fields, rendered, &rendering)?;
    let of = (actor.workspace_id(), emails.clock.ordered_id());
    let draft = Draft::new(emails, of, draft::read(Body::new(fields))?)?;
    Ok(draft.made_of(Some(rendering.template_id)))
}
