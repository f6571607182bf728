//! What webhooks are told of the end of a run.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::clock::{Clock, rfc3339};
use crate::db::{Batch, Sql, statements};
use crate::id::{AutomationId, ContactId, OccurrenceId, RunId, WorkspaceId};
use crate::text::words;
use crate::webhooks::{self, EventType, When};

statements! {
    functions {
        /// Whoever brings it on has lost it. When it ended is left out: nobody will ask, and no other run is like that.
        fn cut(automation_id: AutomationId, id: RunId) = Sql::both(
            "UPDATE runs SET status = 'cancelled' WHERE automation_id = $1 AND id = $2 AND status = 'running'");
    }
}

/// How a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    Completed,
    Failed,
    Cancelled,
}

words!(Ending { Completed = "completed", Failed = "failed", Cancelled = "cancelled" });

/// A run that ends.
pub struct EndedRun {
    pub id: RunId,
    pub automation_id: AutomationId,
    pub contact_id: ContactId,
    pub occurrence_id: OccurrenceId,
    pub created_at: i64,
    pub ending: Ending,
    pub now: i64,
}

impl EndedRun {
    pub fn event_type(&self) -> EventType {
        match self.ending {
            Ending::Completed => EventType::RunCompleted,
            Ending::Failed => EventType::RunFailed,
            Ending::Cancelled => EventType::RunCancelled,
        }
    }

    pub fn data(&self) -> Value {
        json!({
            "id": self.id,
            "automation_id": self.automation_id,
            "contact_id": self.contact_id,
            "occurrence_id": self.occurrence_id,
            "status": self.ending,
            "created_at": rfc3339(self.created_at),
            "completed_at": rfc3339(self.now),
        })
    }

    /// Belongs into the commit that ends the run.
    pub fn tell(&self, batch: &mut Batch, clock: &Clock, workspace_id: WorkspaceId) {
        self.tell_when(When::Always, batch, clock, workspace_id);
    }

    /// Belongs into a commit that deletes the run, before that: if it is under way by then, it is cancelled, and told.
    pub fn cut_short(&self, batch: &mut Batch, clock: &Clock, workspace_id: WorkspaceId) {
        batch.push(cut(self.automation_id, self.id));
        self.tell_when(When::RunCut(self.automation_id, self.id), batch, clock, workspace_id);
    }

    fn tell_when(&self, when: When<'_>, batch: &mut Batch, clock: &Clock, workspace_id: WorkspaceId) {
        webhooks::publish(batch, clock, workspace_id, (self.event_type(), when, self.now), &self.data());
    }
}
