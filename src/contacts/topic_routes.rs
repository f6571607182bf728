//! What contacts want to hear of.

use axum::Json;
use axum::extract::{FromRequest, Request};
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::path::{Named, not_found};
use super::shapes::{Identifier, Reference};
use super::store;
use crate::app::App;
use crate::auth::{Caller, FullAccess};
use crate::db::{Batch, DbError};
use crate::error::Error;
use crate::topics::{self, Choice, Chosen, TopicChoices};
use crate::web::input::{self, Input, kind};
use crate::web::pagination::{List, Page, PageParams};
use crate::web::refusals::{OfBody, OfCaller, OfPath, OfQuery};

pub fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list, choose))
}

/// List a contact's topics
///
/// Every topic of the workspace, newest first, with what holds for the contact: what it chose, or else the topic's
/// default.
#[utoipa::path(
    get, path = "/contacts/{contact}/topics", tag = "Contacts", operation_id = "list_contact_topics",
    params(Identifier, PageParams),
    responses(
        (status = 200, description = "The topics, newest first.", body = List<Chosen>),
        OfCaller, OfPath, OfQuery,
    ),
    security(("api_key" = []), ("oauth" = ["full_access"])),
)]
async fn list(caller: Caller<FullAccess>, named: Named, page: Page) -> Result<Json<List<Chosen>>, Error> {
    let contact = named.find(&caller).await?;
    let rows = caller.read(|| topics::store::page_of_contact(caller.workspace_id(), contact.id, &page)).await?;
    let items: Result<Vec<Chosen>, DbError> = rows.iter().map(Chosen::read).collect();
    Ok(Json(page.list(items?)))
}

/// Choose a contact's topics
///
/// Sets what is named and leaves the rest. Where one of the topics is not there, none is set.
#[utoipa::path(
    patch, path = "/contacts/{contact}/topics", tag = "Contacts", operation_id = "choose_contact_topics",
    params(Identifier),
    request_body = TopicChoices,
    responses(
        (status = 200, description = "The choices are set.", body = Reference),
        OfCaller, OfPath, OfBody,
    ),
    security(("api_key" = []), ("oauth" = ["full_access"])),
)]
async fn choose(caller: Caller<FullAccess>, named: Named, Choices(given): Choices) -> Result<Json<Reference>, Error> {
    let contact = named.find(&caller).await?;
    let choices = topics::choices(&given?)?;
    let workspace = caller.workspace_id();
    let choose = |choice: &Choice| topics::store::choose(workspace, contact.id, choice).expect(1);
    let batch = || -> Batch {
        // The contact is looked for on its own, so that it is known which of them is missing.
        std::iter::once(store::by_id(workspace, contact.id).expect(1)).chain(choices.iter().map(choose)).collect()
    };
    match caller.try_commit(batch).await? {
        Ok(_) => Ok(Json(Reference::to(&contact))),
        Err(DbError::Unexpected { statement: 0 }) => Err(not_found()),
        Err(DbError::Unexpected { .. }) => Err(topics::not_found()),
        Err(error) => Err(error.into()),
    }
}

/// The list of choices in a body, be it the whole body or its `topics` field. A
/// body without one is the handler's to refuse: who names no contact is told that
/// first.
struct Choices(Result<Value, Error>);

impl FromRequest<App> for Choices {
    type Rejection = Error;

    async fn from_request(request: Request, app: &App) -> Result<Choices, Error> {
        let given = match input::json(app, request, input::LIMIT).await? {
            Some(Value::Array(items)) => Ok(Value::Array(items)),
            Some(Value::Object(fields)) => Input(fields).required("topics").cloned(),
            Some(other) => {
                Err(Error::invalid(format!("The body must be a JSON array or object, but is {}.", kind(&other))))
            }
            None => Input(serde_json::Map::new()).required("topics").cloned(),
        };
        Ok(Choices(given))
    }
}
