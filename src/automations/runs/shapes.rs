//! What runs look like over HTTP.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn, ParameterStyle};
use utoipa::openapi::schema::ArrayBuilder;
use utoipa::{IntoParams, ToSchema};

use super::STATUSES;
use super::record::{Record, StepRecord};
use super::store::Listed;
use crate::clock::rfc3339;
use crate::id::{ContactId, OccurrenceId, RunId};
use crate::rules::word_schema;
use crate::text::shown;

/// Which runs.
#[derive(Debug, Deserialize)]
pub struct StatusParam {
    pub status: Option<Statuses>,
}

impl IntoParams for StatusParam {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let words = ArrayBuilder::new().items(word_schema(STATUSES)).min_items(Some(1));
        let status = ParameterBuilder::new()
            .name("status")
            .parameter_in(ParameterIn::Query)
            .description(Some("Only those with one of these statuses, separated by commas."))
            .required(Required::False)
            .schema(Some(words))
            .style(Some(ParameterStyle::Form))
            .explode(Some(false))
            .example(Some(json!(["running", "failed"])));
        vec![status.build()]
    }
}

/// Some of the statuses that a run can have.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Statuses(pub Vec<&'static str>);

impl TryFrom<String> for Statuses {
    type Error = String;

    fn try_from(given: String) -> Result<Statuses, String> {
        let known = |word: &str| STATUSES.into_iter().find(|status| *status == word);
        let wrong = |word: &str| {
            let allowed = STATUSES.map(|status| format!("`{status}`")).join(", ");
            format!("has the unknown value `{}`. Allowed are {allowed}, separated by commas", shown(word))
        };
        given.split(',').map(|word| known(word).ok_or_else(|| wrong(word))).collect::<Result<_, _>>().map(Statuses)
    }
}

/// A run as lists show it.
#[derive(Serialize, ToSchema)]
#[schema(as = AutomationRunItem)]
pub struct Item {
    #[schema(value_type = Uuid)]
    id: RunId,
    #[schema(pattern = "^(running|completed|failed|cancelled)$")]
    status: String,
    #[schema(format = DateTime, required = true)]
    started_at: Option<String>,
    #[schema(format = DateTime, required = true)]
    completed_at: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
}

/// A run and what became of each step.
#[derive(Serialize, ToSchema)]
#[schema(as = AutomationRun)]
pub struct RunDetail {
    #[schema(pattern = "^automation_run$")]
    object: &'static str,
    #[schema(value_type = Uuid)]
    id: RunId,
    #[schema(pattern = "^(running|completed|failed|cancelled)$")]
    status: String,
    #[schema(format = DateTime, required = true)]
    started_at: Option<String>,
    #[schema(format = DateTime, required = true)]
    completed_at: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    /// Whose way it is.
    #[schema(value_type = String)]
    contact_id: ContactId,
    /// The occurrence of the event that started it.
    #[schema(value_type = String)]
    occurrence_id: OccurrenceId,
    /// The version of the automation that it keeps to.
    #[schema(minimum = 1)]
    version: i64,
    trigger: Trigger,
    /// Every step of that version, in the order a reader follows them.
    steps: Vec<StepRecord>,
}

/// What started a run.
#[derive(Serialize, ToSchema)]
#[schema(as = AutomationRunTrigger)]
pub struct Trigger {
    event_name: String,
    /// The event's payload; null where the occurrence has been deleted.
    #[schema(value_type = Option<Object>, required = true)]
    payload: Option<Value>,
}

/// A run whose state was changed.
#[derive(Serialize, ToSchema)]
#[schema(as = ChangedAutomationRun)]
pub struct Changed {
    #[schema(pattern = "^automation_run$")]
    object: &'static str,
    #[schema(value_type = Uuid)]
    id: RunId,
    #[schema(pattern = "^(running|cancelled)$")]
    status: &'static str,
}

impl Changed {
    pub fn new(id: RunId, status: &'static str) -> Changed {
        Changed { object: "automation_run", id, status }
    }
}

impl From<Listed> for Item {
    fn from(listed: Listed) -> Item {
        let created_at = rfc3339(listed.created_at);
        Item {
            id: listed.id,
            status: listed.status,
            // A run starts in the commit that makes it.
            started_at: Some(created_at.clone()),
            completed_at: listed.completed_at.map(rfc3339),
            created_at,
        }
    }
}

impl From<Record> for RunDetail {
    fn from(record: Record) -> RunDetail {
        let Item { id, status, started_at, completed_at, created_at } = record.listed.into();
        RunDetail {
            object: "automation_run",
            id,
            status,
            started_at,
            completed_at,
            created_at,
            contact_id: record.contact_id,
            occurrence_id: record.occurrence_id,
            version: record.version,
            trigger: Trigger { event_name: record.event_name, payload: record.payload },
            steps: record.steps,
        }
    }
}
