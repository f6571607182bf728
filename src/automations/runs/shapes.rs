//! What runs look like over HTTP.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::STATUSES;
use super::record::{Record, StepRecord};
use super::store::Listed;
use crate::clock::rfc3339;
use crate::id::{ContactId, OccurrenceId, RunId};
use crate::text::shown;

/// Which runs.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct StatusParam {
    /// Only those with one of these statuses, separated by commas.
    #[param(
        value_type = Option<String>,
        pattern = "^(running|completed|failed|cancelled)(,(running|completed|failed|cancelled))*$",
        example = "running,failed"
    )]
    pub status: Option<Statuses>,
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
