//! The grants of a workspace over HTTP.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::store::{self, DELETED_CLIENT, Listed};
use crate::auth::Caller;
use crate::clock::rfc3339;
use crate::error::{Envelope, Error, OrMissing};
use crate::grants::{self, Kept, Reason};
use crate::id::GrantId;
use crate::oauth::OAuth;
use crate::web::{JsonResult, List, Page, PathId};

/// What an app may do in the workspace.
#[derive(Serialize, ToSchema)]
#[schema(as = OAuthGrant)]
pub struct Item {
    #[schema(value_type = Uuid)]
    id: GrantId,
    client_id: String,
    scopes: Vec<&'static str>,
    resource: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime, required = true)]
    revoked_at: Option<String>,
    #[schema(required = true)]
    revoked_reason: Option<String>,
    client: ClientItem,
}

/// Who was given the grant.
#[derive(Serialize, ToSchema)]
#[schema(as = OAuthGrantClient)]
pub struct ClientItem {
    name: String,
    #[schema(required = true)]
    logo_uri: Option<String>,
}

impl From<Listed> for Item {
    fn from(listed: Listed) -> Item {
        Item {
            id: listed.id,
            client_id: listed.client_id,
            scopes: listed.scopes.iter().map(|scope| scope.as_str()).collect(),
            resource: None,
            created_at: rfc3339(listed.created_at),
            revoked_at: listed.revoked_at.map(rfc3339),
            revoked_reason: listed.revoked_reason,
            client: ClientItem {
                name: listed.client_name.unwrap_or_else(|| DELETED_CLIENT.into()),
                logo_uri: listed.logo_uri,
            },
        }
    }
}

/// The answer to ending a grant.
#[derive(Serialize, ToSchema)]
#[schema(as = RevokedOAuthGrant)]
pub struct Revoked {
    #[schema(pattern = "^oauth_grant$")]
    object: &'static str,
    #[schema(value_type = Uuid)]
    id: GrantId,
    #[schema(format = DateTime)]
    revoked_at: String,
    revoked_reason: &'static str,
}

/// List grants
///
/// The apps that were given access to the workspace, ended ones included, newest first.
#[utoipa::path(
    get, path = "/oauth/grants", tag = "OAuth", operation_id = "list_grants",
    params(Page), responses((status = 200, description = "The grants.", body = List<Item>)),
)]
pub async fn list(caller: Caller, page: Page) -> JsonResult<List<Item>> {
    let rows = caller.read(|| store::page(caller.workspace_id(), &page)).await?;
    page.answer(&rows, |row| Ok(Listed::read(row)?.into()))
}

/// End a grant
///
/// Every token of the grant, and every key made through it, stops working at once. Automations with webhook steps that
/// the app published are disabled, and their runs in flight call nobody any more; so are the webhooks that it made.
/// Whoever enables one afterwards keeps it.
#[utoipa::path(
    delete, path = "/oauth/grants/{id}", tag = "OAuth", operation_id = "revoke_grant",
    params(("id" = String, Path, description = "The id of the grant.", format = Uuid)),
    responses(
        (status = 200, description = "The grant has ended.", body = Revoked),
        (status = 404, description = "The workspace has no such grant, or it has ended before.", body = Envelope),
        (status = 422, description = "The id is not a UUID.", body = Envelope),
    ),
)]
pub async fn delete(caller: Caller, State(app): State<OAuth>, PathId(id): PathId<GrantId>) -> JsonResult<Revoked> {
    let (now, reason) = (app.clock.now(), Reason::Api);
    let revoke = || grants::revoke_in(caller.workspace_id(), id, reason, &Kept::default(), (&app.clock, now));
    let missing = || Error::not_found("Grant not found, or already revoked.");
    caller.try_commit(revoke).await?.or_missing(missing)?;
    Ok(Json(Revoked { object: "oauth_grant", id, revoked_at: rfc3339(now), revoked_reason: reason.as_str() }))
}
