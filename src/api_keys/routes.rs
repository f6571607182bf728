//! The HTTP face of API keys.

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::store;
use crate::app::App;
use crate::auth::Caller;
use crate::clock::Time;
use crate::credentials::{KeyName, NewKey, Permission, grant_stands, insert_key};
use crate::db::{Batch, DbError, from_row};
use crate::domains;
use crate::error::{Error, OrMissing};
use crate::id::{ApiKeyId, DomainId, GrantId};
use crate::web::{self, Answer, Body, Idempotency, JsonResult, List, Page, PathId};

type Reference = web::Reference<ApiKeyId>;
type Deleted = web::Deleted<ApiKeyId>;

pub fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(create, list)).routes(routes!(rename, delete))
}

/// What to make.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewApiKey, example = json!({"name": "web shop", "permission": "sending_access"}))]
pub struct NewApiKey {
    /// What will use it. One line, and not only spaces.
    name: KeyName,
    /// `full_access`: every route; `sending_access`: only those that send mail.
    #[schema(default = "full_access")]
    permission: Option<Permission>,
    /// The only domain that the key may send from; it goes with `sending_access`. The key ends with the domain.
    #[schema(value_type = Option<Uuid>)]
    domain_id: Option<DomainId>,
}

impl NewApiKey {
    /// What the key may do. A wish to narrow it that cannot be granted is refused: a key
    /// that may do more than its maker thinks must not exist.
    fn permission(&self) -> Result<Permission, Error> {
        let permission = self.permission.unwrap_or(Permission::FullAccess);
        match self.domain_id {
            Some(_) if permission != Permission::SendingAccess => Err(Error::invalid(
                "The `domain_id` field needs the `permission` `sending_access`: a key with full access is not held to \
                 a domain.",
            )),
            _ => Ok(permission),
        }
    }
}

/// What to change.
#[derive(Deserialize, ToSchema)]
#[schema(as = ApiKeyChange)]
pub struct Change {
    name: KeyName,
}

/// A new key. Its token is told this once.
#[derive(Serialize, ToSchema)]
#[schema(as = CreatedApiKey)]
pub struct Created {
    #[schema(value_type = Uuid)]
    id: ApiKeyId,
    #[schema(example = "re_8cKJ2mZx_5tQ1vN7yB4pLrWsXeDfGhTkUzQa9Mn3b")]
    token: String,
}

/// A key as lists show it.
#[derive(Serialize, ToSchema)]
#[schema(as = ApiKey)]
pub struct Item {
    #[schema(value_type = Uuid)]
    pub(super) id: ApiKeyId,
    #[schema(example = "web shop")]
    pub(super) name: String,
    #[serde(skip)]
    pub(super) permission: String,
    #[serde(skip)]
    pub(super) prefix: String,
    #[schema(value_type = String, format = DateTime)]
    pub(super) created_at: Time,
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    pub(super) last_used_at: Option<Time>,
    #[serde(skip)]
    pub(super) grant_id: Option<GrantId>,
    /// The name of the only domain that it may send from.
    #[serde(skip)]
    pub(super) domain: Option<String>,
}

from_row!(Item { id, name, permission, prefix, created_at, last_used_at, grant_id, domain });

/// Create an API key
///
/// The token is in this answer and nowhere else. A key that is made with an OAuth access token ends with the app's
/// access. Under an `Idempotency-Key` the answer is given again to the credential that made the key, and to no other.
#[utoipa::path(
    post, path = "/api-keys", tag = "API keys", operation_id = "create_api_key",
    params(Idempotency), request_body = NewApiKey,
    responses((status = 201, description = "The key is made.", body = Created)),
)]
async fn create(
    caller: Caller,
    State(app): State<App>,
    idempotency: Idempotency,
    body: Body<NewApiKey>,
) -> Result<Response, Error> {
    let request = idempotency.request(&caller, &app, &body);
    let new = body.read()?;
    let (permission, domain_id, grant_id) = (new.permission()?, new.domain_id, caller.grant_id());
    let made = NewKey::make(&app.clock, caller.workspace_id(), new.name.as_str(), permission);
    let key = NewKey { grant_id, domain_id, ..made };
    // A key outlives the request: a grant or a domain that ends in this moment ends it, too.
    let insert = || {
        let mut batch = Batch::new();
        domain_id.into_iter().for_each(|id| batch.push(domains::exists(key.workspace_id, id)));
        if let Some(grant_id) = grant_id {
            batch = batch.fence(grant_stands(grant_id));
        }
        batch.and(insert_key(&key))
    };
    let answer = Answer::created(&Created { id: key.id, token: key.secret.clone() })?.secret();
    match request.commit(answer, insert).await? {
        Err(DbError::Unexpected { statement: 0 }) if domain_id.is_some() => Err(Error::invalid(
            "The `domain_id` field names no domain of this workspace. `GET /domains` lists those there are.",
        )),
        settled => Ok(settled?),
    }
}

/// List API keys
///
/// The keys of the workspace, newest first. What a key may do and the key itself are not told.
#[utoipa::path(
    get, path = "/api-keys", tag = "API keys", operation_id = "list_api_keys",
    params(Page), responses((status = 200, description = "The keys, newest first.", body = List<Item>)),
)]
async fn list(caller: Caller, page: Page) -> JsonResult<List<Item>> {
    let rows = caller.read(|| store::page(caller.workspace_id(), &page)).await?;
    page.answer(&rows, |row| Ok(Item::read(row)?))
}

/// Rename an API key
///
/// Changes what people call the key; what it may do stays as it is.
#[utoipa::path(
    patch, path = "/api-keys/{id}", tag = "API keys", operation_id = "rename_api_key",
    params(PathId), request_body = Change,
    responses((status = 200, description = "The key has its new name.", body = Reference)),
)]
async fn rename(caller: Caller, PathId(id): PathId<ApiKeyId>, body: Body<Change>) -> JsonResult<Reference> {
    let name = body.read()?.name;
    let set = || store::rename(caller.workspace_id(), id, name.as_str()).into();
    caller.try_commit(set).await?.or_missing(not_found)?;
    Ok(Json(Reference::to(id)))
}

/// Delete an API key
///
/// From the next request on it is refused, by every process. A key may delete itself.
#[utoipa::path(
    delete, path = "/api-keys/{id}", tag = "API keys", operation_id = "delete_api_key",
    params(PathId), responses((status = 200, description = "The key is gone.", body = Deleted)),
)]
async fn delete(caller: Caller, PathId(id): PathId<ApiKeyId>) -> JsonResult<Deleted> {
    caller.try_commit(|| store::delete(caller.workspace_id(), id)).await?.or_missing(not_found)?;
    Ok(Json(Deleted::of(id)))
}

fn not_found() -> Error {
    Error::not_found("API key not found. `GET /api-keys` lists those there are.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<NewApiKey, Error> {
        let fields: serde_json::Map<_, _> = serde_json::from_str(json).expect("an object");
        Body::new(fields).read()
    }

    #[test]
    fn a_permission_is_one_that_there_is() {
        let permission = |json: &str| read(json).expect("valid").permission;
        assert_eq!(permission(r#"{"name":"n"}"#), None);
        assert_eq!(permission(r#"{"name":"n","permission":null}"#), None);
        assert_eq!(permission(r#"{"name":"n","permission":"sending_access"}"#), Some(Permission::SendingAccess));
    }

    #[test]
    fn a_permission_that_cannot_be_given_is_refused_and_not_widened() {
        for body in [
            r#"{"name":"n","permission":"read_only"}"#,
            r#"{"name":"n","permission":""}"#,
            r#"{"name":"n","permission":["sending_access"]}"#,
            r#"{"name":"n","permission":"sending_access","domain_id":"d"}"#,
            r#"{"name":"n","permission":"full_access","domain_id":"01890000-0000-7000-8000-000000000000"}"#,
            r#"{"name":"n","domain_id":"01890000-0000-7000-8000-000000000000"}"#,
        ] {
            let permitted = read(body).and_then(|new| new.permission());
            assert!(matches!(permitted, Err(Error::Invalid { .. })), "{body}");
        }
    }

    #[test]
    fn a_name_is_needed_and_is_text() {
        assert!(matches!(read("{}"), Err(Error::Missing { .. })));
        for body in [r#"{"name":""}"#, r#"{"name":1}"#, r#"{"name":"a\u0000b"}"#] {
            assert!(matches!(read(body), Err(Error::Invalid { .. })), "{body}");
        }
    }
}
