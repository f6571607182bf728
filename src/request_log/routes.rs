//! The HTTP face of the log.

use axum::Json;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::store;
use crate::app::App;
use crate::auth::Caller;
use crate::clock::Time;
use crate::db::{DbError, Row};
use crate::error::Error;
use crate::id::LogId;
use crate::web::{JsonResult, List, Newest, PathId};

pub fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(read))
}

/// A request to the API.
#[derive(Serialize, ToSchema)]
#[schema(as = LogItem)]
pub struct Item {
    #[schema(value_type = String, format = Uuid)]
    pub id: LogId,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Time,
    #[schema(example = "/emails")]
    pub endpoint: String,
    #[schema(example = "POST")]
    pub method: String,
    #[schema(minimum = 100, maximum = 599)]
    pub response_status: i64,
    pub user_agent: Option<String>,
}

/// A request to the API with what was sent and answered, as far as that is kept.
#[derive(Serialize, ToSchema)]
#[schema(as = Log)]
struct Log {
    #[schema(pattern = "^log$")]
    object: &'static str,
    #[serde(flatten)]
    item: Item,
    /// Without secrets and without what mails say; null where there was none.
    request_body: Option<Value>,
    response_body: Option<Value>,
}

impl Item {
    pub fn read(row: &Row) -> Result<Item, DbError> {
        Ok(Item {
            id: row.id(0)?,
            created_at: Time(row.int(1)?),
            endpoint: row.text(2)?,
            method: row.text(3)?,
            response_status: row.int(4)?,
            user_agent: row.maybe(5, Row::text)?,
        })
    }
}

/// List requests
///
/// Requests to the API that were noted, newest first. Which ones these are, and for how long they are kept, the server's
/// settings say; when there are more than can be noted, some are left out.
#[utoipa::path(
    get, path = "/logs", tag = "Logs", operation_id = "list_logs",
    params(Newest),
    responses((status = 200, description = "The requests, newest first.", body = List<Item>)),
)]
async fn list(caller: Caller, Newest(page): Newest) -> JsonResult<List<Item>> {
    let rows = caller.read(|| store::page(caller.workspace_id(), &page)).await?;
    page.answer(&rows, |row| Ok(Item::read(row)?))
}

/// Read a request
///
/// With the bodies that were sent and answered. What is secret in them, or says what is in a mail, is left out.
#[utoipa::path(
    get, path = "/logs/{id}", tag = "Logs", operation_id = "read_log",
    params(PathId<LogId>),
    responses((status = 200, description = "The request.", body = Log)),
)]
async fn read(caller: Caller, PathId(id): PathId<LogId>) -> JsonResult<Log> {
    let rows = caller.read(|| store::find(caller.workspace_id(), id)).await?;
    let missing = || Error::not_found("There is no such log entry. `GET /logs` lists those that there are.");
    let row = rows.first().ok_or_else(missing)?;
    let body = |column: usize| -> Result<Option<Value>, DbError> {
        Ok(row.maybe(column, Row::text)?.and_then(|text| serde_json::from_str(&text).ok()))
    };
    Ok(Json(Log { object: "log", item: Item::read(row)?, request_body: body(6)?, response_body: body(7)? }))
}
