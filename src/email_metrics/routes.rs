//! The HTTP face of the numbers.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::breakdown::{Breakdown, DataRow, Group, MOST_GROUPS, too_many};
use super::counts::Counts;
use super::mails;
use super::metric::Metric;
use super::period::Granularity;
use super::query::{Dimension, Params, Question};
use super::store::{self, Domains, Grouping, Which};
use crate::app::App;
use crate::auth::{Actor, Caller};
use crate::clock::Time;
use crate::error::Error;
use crate::id::{Id, json_array};
use crate::web::{JsonResult, Query};

pub fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(read))
}

/// What became of mail, in numbers.
#[derive(Serialize, ToSchema)]
#[schema(as = EmailMetrics)]
pub struct Answer {
    #[schema(pattern = "^metrics$")]
    object: &'static str,
    #[schema(value_type = String, format = DateTime)]
    start_date: Time,
    #[schema(value_type = String, format = DateTime)]
    end_date: Time,
    metrics: Vec<Metric>,
    dimensions: Vec<Dimension>,
    granularity: Granularity,
    /// The metrics of everything that was asked for.
    #[schema(value_type = HashMap<String, f64>)]
    totals: Map<String, Value>,
    /// The same, apart by the dimensions; left out where there are none. What is all zero is not listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Vec<DataRow>>,
}

/// Read metrics
///
/// What became of mail, each recipient counted, by quarter-hours: in all, and by period, domain, and mail or broadcast.
/// Rates are numbers, 1 for all: of delivery and bounces of what was sent, of the others of what was delivered. By period
/// one may be above 1, because what comes back counts when it comes.
/// Where `email` is a dimension and none are named, the newest 1,000 of the dates are told, and as many that came in.
#[utoipa::path(
    get, path = "/emails/metrics", tag = "Emails", operation_id = "read_email_metrics",
    params(Params),
    responses((status = 200, description = "The numbers.", body = Answer)),
)]
async fn read(caller: Caller, State(app): State<App>, Query(params): Query<Params>) -> JsonResult<Answer> {
    let question = params.read(app.clock.now())?;
    let domains = domains(&caller, &question).await?;
    let names = names(&question, &domains);
    let (totals, data) = match question.dimensions.is_empty() && !question.is_of_mails() {
        true => (totals(&caller, &question, names.as_deref()).await?, None),
        false => {
            let breakdown = Breakdown::of(&question, groups(&caller, &question, names.as_deref()).await?)?;
            let ids = breakdown.broadcasts();
            let rows = match ids.is_empty() {
                true => Vec::new(),
                false => {
                    caller.read(|| store::broadcasts(caller.workspace_id(), json_array(ids.iter().copied()))).await?
                }
            };
            let totals = breakdown.totals;
            let data = breakdown.rows(&question.metrics, &domains, &store::named(&rows)?);
            (totals, (!question.dimensions.is_empty()).then_some(data))
        }
    };
    Ok(Json(Answer {
        object: "metrics",
        start_date: Time(question.start),
        end_date: Time(question.end),
        totals: Metric::values(&question.metrics, &totals),
        metrics: question.metrics,
        dimensions: question.dimensions,
        granularity: question.granularity,
        data,
    }))
}

/// The domains of the workspace, where they matter.
async fn domains(caller: &Caller, question: &Question) -> Result<Domains, Error> {
    if !question.by(Dimension::Domain) && question.domain_ids.is_none() {
        return Ok(Domains::new());
    }
    Ok(store::named(&caller.read(|| store::domains(caller.workspace_id())).await?)?)
}

/// Of the domains that are asked for.
pub fn names(question: &Question, domains: &Domains) -> Option<Vec<String>> {
    let ids = question.domain_ids.as_ref()?;
    Some(domains.iter().filter(|(id, _)| ids.contains(id)).map(|(_, name)| name.clone()).collect())
}

fn which<'a>(actor: &dyn Actor, question: &'a Question, domains: Option<&'a [String]>) -> Which<'a> {
    let (workspace_id, span) = (actor.workspace_id(), question.span());
    Which { workspace_id, span, domains, broadcasts: question.broadcast_ids.as_deref() }
}

async fn totals(actor: &dyn Actor, question: &Question, domains: Option<&[String]>) -> Result<Counts, Error> {
    let rows = actor.read(|| store::totals_of(&which(actor, question, domains))).await?;
    Ok(Counts::read(rows.first().ok_or(Error::Internal)?)?)
}

/// What was counted, as far apart as is asked for.
pub async fn groups(actor: &dyn Actor, question: &Question, domains: Option<&[String]>) -> Result<Vec<Group>, Error> {
    if question.is_of_mails() {
        let mut groups = mails::groups(actor, question).await?;
        groups.retain(|group| domains.is_none_or(|domains| domains.contains(&group.domain)));
        return Ok(groups);
    }
    let grouping = Grouping {
        by_period: question.by(Dimension::Period).then(|| question.period()),
        by_domain: question.by(Dimension::Domain),
        by_broadcast: question.by(Dimension::Broadcast),
    };
    let which = which(actor, question, domains);
    let rows = actor.read(|| store::grouped(&which, &grouping, MOST_GROUPS + 1)).await?;
    if rows.len() as i64 > MOST_GROUPS {
        return Err(too_many());
    }
    let mut groups: Vec<Group> = rows.iter().map(Group::read).collect::<Result<_, _>>()?;
    for group in &mut groups {
        group.broadcast_id = group.broadcast_id.filter(|id| id.uuid() != Uuid::nil());
    }
    Ok(groups)
}
