//! The HTTP face of exporting and erasing one person.

use std::io;

use axum::Json;
use axum::body::Body as Stream;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::StatusCode;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::erase::{self, Erased};
use super::export::ContactExport;
use crate::auth::Caller;
use crate::clock::Time;
use crate::contacts::path::{Named, not_found};
use crate::db::Batch;
use crate::error::{Error, OrMissing};
use crate::id::ContactId;
use crate::occurrences::Occurrences;
use crate::web::{Answer, Body, Idempotency, JsonResult, PathId};

pub fn router() -> OpenApiRouter<Occurrences> {
    OpenApiRouter::new().routes(routes!(export)).routes(routes!(begin)).routes(routes!(read))
}

/// Export a contact
///
/// All that is kept of the person, as one JSON document: the contact with its segments, topics and runs, the events
/// that happened to it, and the mail that was sent to its address or came from it. Where there is much to go through,
/// this takes a while.
#[utoipa::path(
    get, path = "/contacts/{contact}/export", tag = "Contacts", operation_id = "export_contact",
    params(Named),
    responses((status = 200, description = "The document.", body = serde_json::Value)),
)]
async fn export(caller: Caller, State(app): State<Occurrences>, named: Named) -> Result<Response, Error> {
    let contact = named.find(&caller).await?;
    document(ContactExport::of(&app, caller.workspace_id(), contact)).await
}

/// The answer that an export is.
pub async fn document(mut export: ContactExport) -> Result<Response, Error> {
    // Whoever cannot be served is told so, and not in the middle of a document.
    let first = export.next().await?.unwrap_or_default();
    let rest = stream::try_unfold(export, async |mut export| {
        let piece = export.next().await.map_err(|error| {
            tracing::error!(%error, "the export of a person was cut off");
            io::Error::other(error.to_string())
        })?;
        Ok::<_, io::Error>(piece.map(|piece| (Bytes::from(piece), export)))
    });
    let start = stream::iter([Ok(Bytes::from(first))]);
    let body = Stream::from_stream(futures_util::StreamExt::chain(start, rest));
    let name = "attachment; filename=\"contact.json\"";
    Ok(([(CONTENT_TYPE, "application/json"), (CONTENT_DISPOSITION, name)], body).into_response())
}

/// How to erase.
#[derive(Deserialize, ToSchema)]
#[schema(as = ContactErasureRequest)]
pub struct ErasureRequest {
    /// Whether the address is put on the suppression list, so that it never gets mail again. Left out: if the contact
    /// has unsubscribed.
    suppress: Option<bool>,
}

/// The erasure of a person.
#[derive(Serialize, ToSchema)]
#[schema(as = ContactErasure)]
pub struct Erasure {
    #[schema(pattern = "^contact_erasure$")]
    object: &'static str,
    /// The id that the contact had.
    #[schema(value_type = Uuid)]
    id: ContactId,
    #[schema(pattern = "^(in_progress|completed)$")]
    status: &'static str,
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    completed_at: Option<Time>,
}

impl From<Erased> for Erasure {
    fn from(erased: Erased) -> Erasure {
        Erasure {
            object: "contact_erasure",
            id: erased.id,
            status: if erased.completed_at.is_some() { "completed" } else { "in_progress" },
            created_at: erased.created_at,
            completed_at: erased.completed_at,
        }
    }
}

/// Erase a contact
///
/// The contact is gone with the answer. What else is kept of the person (events, runs, mail and its history) goes in
/// the background, as `GET /contact-erasures/{id}` tells. This cannot be undone.
#[utoipa::path(
    post, path = "/contacts/{contact}/erase", tag = "Contacts", operation_id = "erase_contact",
    params(Named, Idempotency), request_body = Option<ErasureRequest>,
    responses((status = 202, description = "The person is being erased.", body = Erasure)),
)]
async fn begin(
    caller: Caller,
    State(app): State<Occurrences>,
    key: Idempotency,
    named: Named,
    body: Body<ErasureRequest>,
) -> Result<Response, Error> {
    let request = key.request(&caller, &app, &body);
    let erasure = body.read()?;
    let erase = async {
        let contact = named.find(&caller).await?;
        caller.acts_on(contact.id);
        let suppress = erasure.suppress.unwrap_or(contact.unsubscribed);
        let now = app.clock.now();
        let erased = Erased { id: contact.id, created_at: Time(now), completed_at: None };
        let answer = Answer::json(StatusCode::ACCEPTED, &Erasure::from(erased))?;
        let first = |batch: &mut Batch| request.take(&answer, batch);
        let settled = erase::commit(&caller, &app, &contact, suppress, now, first).await?;
        request.settle(settled, answer).await?.or_missing(not_found)
    };
    request.run(erase).await
}

/// Read an erasure
///
/// How far it is.
#[utoipa::path(
    get, path = "/contact-erasures/{id}", tag = "Contacts", operation_id = "read_contact_erasure",
    params(PathId), responses((status = 200, description = "The erasure.", body = Erasure)),
)]
async fn read(caller: Caller, PathId(id): PathId<ContactId>) -> JsonResult<Erasure> {
    let not_found = || Error::not_found("Erasure not found. Its id is the one that the contact had.");
    Ok(Json(erase::find(&caller, id).await?.ok_or_else(not_found)?.into()))
}
