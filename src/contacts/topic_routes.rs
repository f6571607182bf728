//! What contacts want to hear of.

use axum::Json;
use axum::extract::{FromRef, FromRequest, Request, State};
use serde_json::{Map, Value};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::path::Named;
use super::shapes::Reference;
use super::subscription;
use super::write::UnsubscribedBy;
use crate::app::App;
use crate::auth::Caller;
use crate::error::Error;
use crate::occurrences::Occurrences;
use crate::text::kind;
use crate::topics::{self, Chosen, TopicChoices};
use crate::web::{self, Body, JsonResult, List, Page};

pub fn router() -> OpenApiRouter<Occurrences> {
    OpenApiRouter::new().routes(routes!(list, choose))
}

/// List a contact's topics
///
/// Every topic of the workspace, newest first, with what holds for the contact: what it chose, or else the topic's
/// default.
#[utoipa::path(
    get, path = "/contacts/{contact}/topics", tag = "Contacts", operation_id = "list_contact_topics",
    params(Named, Page), responses((status = 200, description = "The topics, newest first.", body = List<Chosen>)),
)]
async fn list(caller: Caller, named: Named, page: Page) -> JsonResult<List<Chosen>> {
    let contact = named.find(&caller).await?;
    let rows = caller.read(|| topics::page_of_contact(caller.workspace_id(), contact.id, &page)).await?;
    page.answer(&rows, |row| Ok(Chosen::read(row)?))
}

/// Choose a contact's topics
///
/// Sets what is named and leaves the rest. Where one of the topics is not there, none is set.
#[utoipa::path(
    patch, path = "/contacts/{contact}/topics", tag = "Contacts", operation_id = "choose_contact_topics",
    params(Named), request_body = TopicChoices,
    responses((status = 200, description = "The choices are set.", body = Reference)),
)]
async fn choose(
    caller: Caller,
    State(app): State<Occurrences>,
    named: Named,
    Choices(given): Choices,
) -> JsonResult<Reference> {
    let choices = || given?.read().map(|choices| choices.topics.0);
    let contact = subscription::choose_topics(&caller, &app, &named, choices, UnsubscribedBy::Api).await?;
    Ok(Json(Reference::to(contact.id)))
}

/// The list of choices in a body, be it the whole body or its `topics` field. A
/// body without one is the handler's to refuse: who names no contact is told that
/// first.
struct Choices(Result<Body<TopicChoices>, Error>);

impl<S: Send + Sync> FromRequest<S> for Choices
where
    App: FromRef<S>,
{
    type Rejection = Error;

    async fn from_request(request: Request, state: &S) -> Result<Choices, Error> {
        let app = &App::from_ref(state);
        let given = match web::read_json(app, request, web::BODY_LIMIT).await? {
            Some(items @ Value::Array(_)) => Ok(Map::from_iter([("topics".to_owned(), items)])),
            Some(Value::Object(fields)) => Ok(fields),
            Some(other) => {
                Err(Error::invalid(format!("The body must be a JSON array or object, but is {}.", kind(&other))))
            }
            None => Ok(Map::new()),
        };
        Ok(Choices(given.map(Body::new)))
    }
}
