//! What webhooks are told of the end of a run.

use serde_json::{Value, json};

use crate::clock::{Clock, rfc3339};
use crate::db::{Batch, Sql, statements};
use crate::id::{AutomationId, ContactId, OccurrenceId, RunId, WorkspaceId};
use crate::webhooks::{self, EventType, When};

statements! {
    functions {
        /// Whoever brings it on has lost it. When it ended is left out: nobody will ask, and no other run is like that.
        fn cut(automation_id: AutomationId, id: RunId) = Sql::both(
            "UPDATE runs SET status = 'cancelled' WHERE automation_id = $1 AND id = $2 AND status = 'running'");
    }
}

/// A run that ends.
pub struct EndedRun {
    pub id: RunId,
    pub automation_id: AutomationId,
    pub contact_id: ContactId,
    pub occurrence_id: OccurrenceId,
    pub created_at: i64,
    /// How it ended: `automation.run.…`.
    pub event_type: EventType,
    pub now: i64,
}

impl EndedRun {
    pub fn data(&self) -> Value {
        let status = self.event_type.as_str().rsplit('.').next();
        json!({
            "id": self.id,
            "automation_id": self.automation_id,
            "contact_id": self.contact_id,
            "occurrence_id": self.occurrence_id,
            "status": status,
            "created_at": rfc3339(self.created_at),
            "completed_at": rfc3339(self.now),
        })
    }

    /// Belongs into a commit that deletes the run, before that: if it is under way by then, it is cancelled, and told.
    pub fn cut_short(&self, batch: &mut Batch, clock: &Clock, workspace_id: WorkspaceId) {
        batch.push(cut(self.automation_id, self.id));
        let told = (self.event_type, When::RunCut(self.automation_id, self.id), self.now);
        webhooks::publish(batch, clock, workspace_id, told, &self.data());
    }
}
