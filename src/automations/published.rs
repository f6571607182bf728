//! What webhooks are told of the end of a run.

use serde_json::{Value, json};

use super::run::Ending;
use crate::clock::rfc3339;
use crate::id::{AutomationId, ContactId, OccurrenceId, RunId};
use crate::webhooks::EventType;

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
            "status": self.ending.as_str(),
            "created_at": rfc3339(self.created_at),
            "completed_at": rfc3339(self.now),
        })
    }
}
