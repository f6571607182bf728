//! A run as it is told: what started it, and what became of every step.

use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::mail::StepMail;
use super::store::{self, Fence, Listed, PendingCall, Stored};
use crate::automations::graph::{Graph, Step};
use crate::automations::run::{Run, Status, Trace};
use crate::clock::{Clock, Time, rfc3339};
use crate::db::Batch;
use crate::error::Error;
use crate::id::{AutomationId, ContactId, OccurrenceId, WorkspaceId};
use crate::occurrences::{EndedRun, Ending};

/// A run with all that is known of it.
pub struct Record {
    pub listed: Listed,
    pub contact_id: ContactId,
    pub occurrence_id: OccurrenceId,
    pub version: i64,
    pub event_name: String,
    /// `None` where the occurrence is gone.
    pub payload: Option<Value>,
    /// In the order a reader follows them.
    pub steps: Vec<StepRecord>,
    pub graph: Graph,
    pub run: Run,
    pub fence: Fence,
}

/// A step of a run.
#[derive(Serialize, ToSchema)]
#[schema(as = AutomationRunStep)]
pub struct StepRecord {
    pub key: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Steps that the run can still come to are pending; those that it passed by are skipped.
    #[schema(pattern = "^(pending|running|waiting|completed|failed|skipped)$")]
    pub status: &'static str,
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    pub started_at: Option<Time>,
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    pub completed_at: Option<Time>,
    /// What came of it, depending on the type.
    #[schema(value_type = Option<Object>, required = true)]
    pub output: Option<Value>,
    /// What went wrong: `message`, and perhaps more.
    #[schema(value_type = Option<Object>, required = true)]
    pub error: Option<Value>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Time,
    #[serde(skip)]
    pub mail: Option<StepMail>,
}

impl Record {
    pub fn new(stored: Stored, clock: &Clock) -> Result<Record, Error> {
        let graph = Graph::stored(&stored.steps, &stored.connections).ok_or(Error::Internal)?;
        let (id, created_at) = (&stored.listed.id, stored.listed.created_at);
        let run = Run::stored(&stored.state, *id, &graph, created_at).ok_or(Error::Internal)?;
        let mut steps = steps(&run, &graph, stored.listed.created_at);
        if let Some(call) = &stored.call {
            let calling = steps.iter_mut().filter(|step| step.status == "running");
            calling.for_each(|step| step.output = Some(waiting(call, clock)));
        }
        Ok(Record {
            steps,
            listed: stored.listed,
            contact_id: stored.contact_id,
            occurrence_id: stored.occurrence_id,
            version: stored.version,
            event_name: stored.event_name,
            payload: stored.payload.as_deref().map(parsed).transpose()?,
            graph,
            run,
            fence: stored.fence,
        })
    }

    /// What ends the run and tells webhooks, or why it cannot be cancelled.
    pub fn cancel(
        &mut self,
        (workspace_id, automation_id): (WorkspaceId, AutomationId),
        clock: &Clock,
    ) -> Result<Batch, Error> {
        if self.listed.status != "running" {
            return Err(self.conflict("Only a run in flight can be cancelled."));
        }
        let now = clock.now();
        self.run.cancel(now);
        let Listed { id, created_at, .. } = self.listed;
        let mut batch = Batch::from(store::cancel(automation_id, id, self.fence, &self.state()?, now));
        let (contact_id, occurrence_id, ending) = (self.contact_id, self.occurrence_id, Ending::Cancelled);
        let ended = EndedRun { id, automation_id, contact_id, occurrence_id, created_at, ending, now };
        ended.tell(&mut batch, clock, workspace_id);
        Ok(batch)
    }

    /// What lets a failed run go on where it failed, or why it cannot.
    pub fn retry(&mut self, automation_id: AutomationId, clock: &Clock) -> Result<Batch, Error> {
        if self.listed.status != "failed" || !self.run.retry() {
            return Err(self.conflict("Only a failed run can be tried again."));
        }
        Ok(store::retry(automation_id, self.listed.id, self.fence, &self.state()?, clock.steady()).into())
    }

    fn conflict(&self, sentence: &str) -> Error {
        Error::Conflict { message: format!("The run is {}. {sentence}", self.listed.status) }
    }

    fn state(&self) -> Result<String, Error> {
        serde_json::to_string(&self.run).map_err(|_| Error::Internal)
    }
}

fn parsed<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| {
        tracing::error!(%error, "what the store keeps of a run cannot be read");
        Error::Internal
    })
}

/// What became of every step. One that was not reached is pending while the run
/// can still come to it, and skipped when it cannot.
fn steps(run: &Run, graph: &Graph, created_at: i64) -> Vec<StepRecord> {
    let record = |(step, trace, ahead): (&Step, Option<&Trace>, bool)| StepRecord {
        key: step.key.clone(),
        kind: step.action.type_name(),
        status: match trace {
            Some(trace) => word(trace.status),
            None if ahead => "pending",
            None => "skipped",
        },
        started_at: trace.map(|trace| Time(trace.started_at)),
        completed_at: trace.and_then(|trace| trace.completed_at).map(Time),
        output: trace.and_then(|trace| trace.output.clone()),
        error: trace.and_then(|trace| trace.error.clone()),
        created_at: Time(trace.map_or(created_at, |trace| trace.started_at)),
        mail: None,
    };
    run.history(graph).map(record).collect()
}

/// Why a call has not been made yet, and until when.
fn waiting(call: &PendingCall, clock: &Clock) -> Value {
    let (reason, until) = match &call.pause {
        Some(pause) => {
            let reason = format!(
                "the host has not answered {} calls in a row ({}); one is tried after a pause, the others wait for it",
                pause.failures, pause.reason
            );
            (reason, pause.until.max(call.due_at))
        }
        None => {
            ("it is made when its time has come and there is room among the calls to this host".into(), call.due_at)
        }
    };
    json!({"waiting": {"reason": reason, "until": rfc3339(clock.shown_at(until))}})
}

fn word(status: Status) -> &'static str {
    match status {
        Status::Running => "running",
        Status::Waiting => "waiting",
        Status::Completed => "completed",
        Status::Failed => "failed",
        Status::Skipped => "skipped",
    }
}
