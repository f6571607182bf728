//! The HTTP face of runs.

use axum::Json;
use axum::extract::{FromRequestParts, Path, State};
use http::request::Parts;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::record::Record;
use super::shapes::{Changed, Item, RunDetail, StatusParam, Statuses};
use super::store::{self, Listed, Stored};
use crate::app::App;
use crate::auth::Caller;
use crate::automations::routes::not_found;
use crate::automations::store::version_number;
use crate::clock::Clock;
use crate::db::{Batch, DbError};
use crate::emails;
use crate::error::Error;
use crate::id::{AutomationId, RunId};
use crate::web::{self, JsonResult, List, Newest, OfState, PathId, Query};

/// How often a change is tried that a worker got ahead of.
pub(super) const ATTEMPTS: usize = 8;

pub fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(read)).routes(routes!(cancel)).routes(routes!(retry))
}

/// The ids in the path of a run.
pub struct RunPath {
    pub automation: AutomationId,
    pub run: RunId,
}

impl IntoParams for RunPath {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let automation = web::id_in_path("id", "The id of the automation.");
        vec![automation, web::id_in_path("run_id", "The id of the run.")]
    }
}

impl<S: Send + Sync> FromRequestParts<S> for RunPath {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<RunPath, Error> {
        let wrong = || Error::InvalidParameter { message: "The ids in the path must be UUIDs.".into() };
        let ids = Path::<(String, String)>::from_request_parts(parts, state).await;
        let Path((automation, run)) = ids.map_err(|_| wrong())?;
        let ids = automation.parse().ok().zip(run.parse().ok());
        ids.map(|(automation, run)| RunPath { automation, run }).ok_or_else(wrong)
    }
}

/// List the runs of an automation
///
/// Newest first, whatever version of the automation they keep to.
#[utoipa::path(
    get, path = "/automations/{id}/runs", tag = "Automations", operation_id = "list_automation_runs",
    params(PathId, Newest, StatusParam),
    responses((status = 200, description = "The runs, newest first.", body = List<Item>)),
)]
async fn list(
    caller: Caller,
    PathId(id): PathId<AutomationId>,
    Newest(page): Newest,
    Query(StatusParam { status }): Query<StatusParam>,
) -> JsonResult<List<Item>> {
    let wanted = status.map(|Statuses(wanted)| wanted).unwrap_or_default();
    let found = caller.read(|| version_number(caller.workspace_id(), id)).await?;
    found.first().ok_or_else(not_found)?;
    let rows = caller.read(|| store::page(id, &page, &wanted)).await?;
    page.answer(&rows, |row| Ok(Listed::read(row)?.into()))
}

/// Read a run
///
/// With what became of every step: those that the run can still come to are pending, those that it passed by are
/// skipped. Of a step that sent a mail, `output` has its `email_id` and its `last_event`; one that names a template is
/// waiting, and `output.waiting` says why.
#[utoipa::path(
    get, path = "/automations/{id}/runs/{run_id}", tag = "Automations", operation_id = "read_automation_run",
    params(RunPath), responses((status = 200, description = "The run.", body = RunDetail)),
)]
async fn read(caller: Caller, State(app): State<App>, id: RunPath) -> JsonResult<RunDetail> {
    Ok(Json(find(&caller, &app.clock, &id).await?.into()))
}

/// Cancel a run
///
/// Ends a run that is in flight, wherever it is. What its steps have done stays done.
#[utoipa::path(
    post, path = "/automations/{id}/runs/{run_id}/cancel", tag = "Automations", operation_id = "cancel_automation_run",
    params(RunPath), responses((status = 200, description = "The run is cancelled.", body = Changed), OfState),
)]
async fn cancel(caller: Caller, State(app): State<App>, id: RunPath) -> JsonResult<Changed> {
    change(&caller, &app.clock, &id, |record, clock| record.cancel((caller.workspace_id(), id.automation), clock))
        .await?;
    Ok(Json(Changed::new(id.run, "cancelled")))
}

/// Retry a run
///
/// Puts a failed run back before the step that failed, and lets it go on from there at once.
#[utoipa::path(
    post, path = "/automations/{id}/runs/{run_id}/retry", tag = "Automations", operation_id = "retry_automation_run",
    params(RunPath), responses((status = 200, description = "The run goes on.", body = Changed), OfState),
)]
async fn retry(caller: Caller, State(app): State<App>, id: RunPath) -> JsonResult<Changed> {
    change(&caller, &app.clock, &id, |record, clock| record.retry(id.automation, clock)).await?;
    Ok(Json(Changed::new(id.run, "running")))
}

/// Changes a run as `decide` says. Where a worker has brought it on meanwhile,
/// the decision is made again over what it is now.
async fn change(
    caller: &Caller,
    clock: &Clock,
    id: &RunPath,
    decide: impl Fn(&mut Record, &Clock) -> Result<Batch, Error>,
) -> Result<(), Error> {
    for _ in 0..ATTEMPTS {
        let batch = decide(&mut find(caller, clock, id).await?, clock)?;
        match caller.try_commit(|| batch.clone()).await? {
            Err(DbError::Unexpected { .. }) => {}
            settled => return Ok(settled.map(drop)?),
        }
    }
    Err(Error::Unavailable)
}

async fn find(caller: &Caller, clock: &Clock, id: &RunPath) -> Result<Record, Error> {
    let rows = caller.read(|| store::by_id(caller.workspace_id(), id.automation, id.run)).await?;
    let missing = || Error::not_found("Run not found. `GET /automations/{id}/runs` lists those there are.");
    let mut record = Record::new(Stored::read(rows.first().ok_or_else(missing)?)?, clock)?;
    if record.may_send() {
        let queued = caller.read(|| emails::of_run(id.run)).await?;
        let kept = caller.read(|| store::kept(id.run)).await?;
        record.link_mail(&queued, &kept, clock)?;
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_8_statuses_are_a_list_with_commas() {
        let statuses = |query: &str| Query::parse(query).map(|Query(StatusParam { status })| status);
        assert_eq!(statuses("").expect("valid"), None);
        assert_eq!(statuses("status=failed").expect("valid"), Some(Statuses(vec!["failed"])));
        assert_eq!(statuses("status=running%2Cfailed").expect("valid"), Some(Statuses(vec!["running", "failed"])));
        for query in ["status=", "status=x", "status=failed,", "status=failed, running", "status=a&status=b"] {
            assert!(matches!(statuses(query), Err(Error::InvalidParameter { .. })), "{query}");
        }
    }
}
