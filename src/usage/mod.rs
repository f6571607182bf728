//! How much a workspace uses. Nothing is sold here, so there are no quotas; what clients must be able
//! to read as a number is then as large as all of them can read.

mod pages;

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::app::App;
use crate::auth::{Actor, Caller};
use crate::clock::{Time, first_id_at};
use crate::db::{Row, Sql, statements};
use crate::email_metrics::{self, Counted, Counts};
use crate::error::Error;
use crate::id::WorkspaceId;
use crate::web::JsonResult;

pub use pages::router as pages;

pub const STATEMENTS: &[&[Sql]] = &[ALL];

/// No limit, for clients that take no null for it.
const UNLIMITED: u32 = u32::MAX;

/// Who has more wants to know that there are many, not wait until they are counted.
const MOST_COUNTED: i64 = 1_000_000;
/// The same, of a page.
const MOST_SHOWN: i64 = 10_000;

statements! {
    functions {
        /// Contacts, segments, broadcasts, domains, and runs that began since an id of the moment.
        fn counts(workspace_id: WorkspaceId, since: Uuid, most: i64) = Sql::both(
            "SELECT (SELECT COUNT(*) FROM (SELECT 1 FROM contacts WHERE workspace_id = $1 LIMIT $3) AS some_contacts),
                    (SELECT COUNT(*) FROM (SELECT 1 FROM segments WHERE workspace_id = $1 LIMIT $3) AS some_segments),
                    (SELECT COUNT(*) FROM (SELECT 1 FROM broadcasts WHERE workspace_id = $1 LIMIT $3) AS some_broadcasts),
                    (SELECT COUNT(*) FROM (SELECT 1 FROM domains WHERE workspace_id = $1 LIMIT $3) AS some_domains),
                    (SELECT COUNT(*) FROM (SELECT 1 FROM automations a JOIN runs r ON r.automation_id = a.id
                        WHERE a.workspace_id = $1 AND r.id >= $2 LIMIT $3) AS some_runs)");
    }
}

/// How much the workspace uses.
#[derive(Serialize, ToSchema)]
struct Usage {
    #[schema(pattern = "^usage$")]
    object: &'static str,
    emails: Emails,
    /// Counted to a million.
    contacts: Used,
    segments: Used,
    broadcasts: Used,
    /// There are none here.
    ai_credits: AiCredits,
    /// Since the beginning of the month, counted to a million.
    automation_runs: UsedSince,
    domains: Used,
    rate_limit: RateLimit,
}

#[derive(Serialize, ToSchema)]
#[schema(as = UsageEmails)]
struct Emails {
    daily: Mails,
    monthly: Mails,
}

/// The mail of a day or a month in UTC: every recipient counts.
#[derive(Serialize, ToSchema)]
#[schema(as = UsageMails)]
struct Mails {
    used: i64,
    limit: Option<u32>,
    sent: i64,
    received: i64,
    #[schema(value_type = String, format = DateTime)]
    resets_at: Time,
}

#[derive(Serialize, ToSchema)]
struct Used {
    used: i64,
    limit: Option<u32>,
}

#[derive(Serialize, ToSchema)]
struct UsedSince {
    used: i64,
    limit: Option<u32>,
    #[schema(value_type = String, format = DateTime)]
    resets_at: Time,
}

#[derive(Serialize, ToSchema)]
struct AiCredits {
    used: i64,
    limit: Option<u32>,
    #[schema(value_type = Option<String>, format = DateTime)]
    next_increase_at: Option<Time>,
}

/// Requests that one caller may make in a time.
#[derive(Serialize, ToSchema)]
#[schema(as = UsageRateLimit)]
struct RateLimit {
    limit: u32,
    #[schema(example = "1000ms")]
    duration: &'static str,
}

pub fn router() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(read))
}

/// Read the usage
///
/// What the workspace has, and the mail and the runs of this day and month. There are no quotas: a `limit` is null, or
/// 4294967295 where clients read a number; only requests may be limited, by the server's settings.
#[utoipa::path(
    get, path = "/usage", tag = "Logs", operation_id = "read_usage",
    responses((status = 200, description = "The usage.", body = Usage)),
)]
async fn read(caller: Caller, State(app): State<App>) -> JsonResult<Usage> {
    usage(&caller, &app, MOST_COUNTED).await.map(Json)
}

/// Counted to a bound.
async fn usage(actor: &dyn Actor, app: &App, most: i64) -> Result<Usage, Error> {
    let now = app.clock.now();
    let (day, month) = (today(now).ok_or(Error::Internal)?, this_month(now).ok_or(Error::Internal)?);
    // Ids are made in steady time.
    let since = first_id_at(month.0 - now + app.clock.steady());
    let rows = actor.read(|| counts(actor.workspace_id(), since, most)).await?;
    let row = rows.first().ok_or(Error::Internal)?;
    let used = |column: usize, limit: Option<u32>| Ok::<_, Error>(Used { used: row.int(column)?, limit });
    Ok(Usage {
        object: "usage",
        emails: Emails { daily: mails(actor, day, None).await?, monthly: mails(actor, month, Some(UNLIMITED)).await? },
        contacts: used(0, Some(UNLIMITED))?,
        segments: used(1, None)?,
        broadcasts: used(2, None)?,
        ai_credits: AiCredits { used: 0, limit: None, next_increase_at: None },
        automation_runs: UsedSince { used: row.int(4)?, limit: Some(UNLIMITED), resets_at: Time(month.1) },
        domains: used(3, None)?,
        rate_limit: RateLimit { limit: app.allowances.limit().unwrap_or(UNLIMITED), duration: "1000ms" },
    })
}

async fn mails(actor: &dyn Actor, span: (i64, i64), limit: Option<u32>) -> Result<Mails, Error> {
    let rows: Vec<Row> = actor.read(|| email_metrics::totals(actor.workspace_id(), span)).await?;
    let counts = Counts::read(rows.first().ok_or(Error::Internal)?)?;
    let (sent, received) = (counts.of(Counted::Sent), counts.of(Counted::Received));
    Ok(Mails { used: sent + received, limit, sent, received, resets_at: Time(span.1) })
}

/// From the beginning of the day to its end, in UTC.
fn today(now: i64) -> Option<(i64, i64)> {
    let date = Timestamp::from_microsecond(now).ok()?.to_zoned(TimeZone::UTC).date();
    Some((beginning(date)?, beginning(date.tomorrow().ok()?)?))
}

fn this_month(now: i64) -> Option<(i64, i64)> {
    let date = Timestamp::from_microsecond(now).ok()?.to_zoned(TimeZone::UTC).date();
    Some((beginning(date.first_of_month())?, beginning(date.last_of_month().tomorrow().ok()?)?))
}

fn beginning(date: Date) -> Option<i64> {
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_microsecond())
}
