//! `POST /oauth/revoke` (RFC 7009), and the grants of a workspace.

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::response::IntoResponse;
use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::answer::{self, OAuthError};
use super::client_auth::{self, Denied, Fields, Visit};
use super::clients::Known;
use super::grant::{self, DELETED_CLIENT, Listed};
use crate::auth::{Caller, FullAccess};
use crate::clock::{SECOND, rfc3339};
use crate::db::{Batch, DbError};
use crate::error::{Envelope, Error};
use crate::grants::{self, Reason};
use crate::id::GrantId;
use crate::oauth::OAuth;
use crate::web::{List, OfCaller, OfQuery, Page, PathId, Sender};

/// What to give back.
#[derive(ToSchema)]
#[schema(example = json!({"token": "the token to give back", "client_id": "7136aa0b-625c-4c9c-8820-e9784c8eb141"}))]
#[expect(dead_code, reason = "describes the body to readers of the API's description")]
pub struct RevokeRequest {
    /// A refresh token or an access token.
    #[schema(min_length = 1)]
    token: String,
    /// `refresh_token` or `access_token`; not needed, and not believed.
    token_type_hint: Option<String>,
    /// Needed unless the client authenticates with HTTP Basic.
    client_id: Option<String>,
    /// Of a client registered for `client_secret_post`.
    client_secret: Option<String>,
}

/// Give a token back
///
/// A refresh token ends its grant and everything that came of it; an access token ends alone. A token that is not
/// known, or not the client's own, changes nothing and is answered the same.
#[utoipa::path(
    post, path = "/oauth/revoke", tag = "OAuth", operation_id = "revoke",
    request_body(content((RevokeRequest = "application/x-www-form-urlencoded"), (RevokeRequest = "application/json"))),
    responses(
        (status = 200, description = "The token is worth nothing now."),
        (status = 400, description = "The request is malformed.", body = OAuthError,
            example = json!({"error": "invalid_request", "error_description": "token is missing"})),
        client_auth::Unproved, answer::Failures, answer::BodyFailures,
    ),
    security(()),
)]
pub async fn revoke(
    State(app): State<OAuth>,
    Extension(Sender(sender)): Extension<Sender>,
    request: Request,
) -> Response {
    let revoked = async {
        let (headers, fields) = Fields::read(request).await?;
        let token = fields.required("token")?;
        let mut visit = Visit::begin(&app, sender, &headers, &fields).await?;
        loop {
            match async { end(&app, &*visit.client(&app).await?, token).await }.await {
                Err(denied) if visit.looked_too_early(&app, &denied).await? => {}
                settled => return settled,
            }
        }
    };
    let response = match revoked.await {
        Ok(()) => {
            let mut response = StatusCode::OK.into_response();
            answer::keep_private(response.headers_mut());
            response
        }
        Err(denied) => denied.into_response(),
    };
    answer::readable_by_pages(response)
}

/// Ends whatever the token is, whatever the client thinks it is.
async fn end(app: &OAuth, client: &Known, token: &str) -> Result<(), Denied> {
    client_auth::insist(app, client).await?;
    let Some(batch) = ending(app, client, token).await? else { return Ok(()) };
    match app.db.commit(batch).await {
        // Somebody was faster.
        Ok(_) | Err(DbError::Unexpected { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What ends the token; nothing where it is not the client's, or has ended. So
/// who gives one back over and over writes once.
async fn ending(app: &OAuth, client: &Known, token: &str) -> Result<Option<Batch>, Denied> {
    let now = app.clock.now();
    if let Some(family) = grant::find_family(&app.db, token).await? {
        let alive = family.client_id == client.client.id && !family.revoked;
        return Ok(alive.then(|| grants::revoke(family.grant_id, Reason::Client, now)));
    }
    let claims = match app.credentials.signing.verify(&app.db, &app.clock, token).await {
        Ok(claims) => claims,
        Err(Error::InvalidToken) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let expires_at = claims.exp.saturating_mul(SECOND);
    let ended = claims.client_id != client.client.id
        || expires_at <= now
        || grant::token_is_revoked(&app.db, claims.jti).await?;
    Ok((!ended).then(|| grant::revoke_token(claims.jti, expires_at)))
}

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
    params(Page),
    responses(
        (status = 200, description = "The grants.", body = List<Item>),
        OfCaller, OfQuery,
    ),
    security(("api_key" = []), ("oauth" = ["full_access"])),
)]
pub async fn list(caller: Caller<FullAccess>, page: Page) -> Result<Json<List<Item>>, Error> {
    let rows = caller.read(|| grant::page(caller.workspace_id(), &page)).await?;
    let items: Result<Vec<Item>, Error> = rows.iter().map(|row| Ok(Listed::read(row)?.into())).collect();
    Ok(Json(page.list(items?)))
}

/// End a grant
///
/// Every token of the grant, and every key made through it, stops working at once. Automations with webhook steps that
/// the app published are disabled, and their runs in flight call nobody any more; whoever enables one afterwards keeps it.
#[utoipa::path(
    delete, path = "/oauth/grants/{id}", tag = "OAuth", operation_id = "revoke_grant",
    params(("id" = String, Path, description = "The id of the grant.", format = Uuid)),
    responses(
        (status = 200, description = "The grant has ended.", body = Revoked),
        OfCaller,
        (status = 404, description = "The workspace has no such grant, or it has ended before.", body = Envelope),
        (status = 422, description = "The id is not a UUID.", body = Envelope),
    ),
    security(("api_key" = []), ("oauth" = ["full_access"])),
)]
pub async fn delete(
    caller: Caller<FullAccess>,
    State(app): State<OAuth>,
    PathId(id): PathId<GrantId>,
) -> Result<Json<Revoked>, Error> {
    let (now, reason) = (app.clock.now(), Reason::Api);
    match caller.try_commit(|| grants::revoke_in(caller.workspace_id(), id, reason, &[], now)).await? {
        Ok(_) => {}
        Err(DbError::Unexpected { .. }) => return Err(Error::not_found("Grant not found, or already revoked.")),
        Err(error) => return Err(error.into()),
    }
    Ok(Json(Revoked { object: "oauth_grant", id, revoked_at: rfc3339(now), revoked_reason: reason.as_str() }))
}
