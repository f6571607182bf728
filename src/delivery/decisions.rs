//! What a person decides of mail of which nobody knows whether it arrived, and that is held.

use serde_json::json;

use super::Engine;
use super::store;
use crate::db::{Batch, DbError};
use crate::emails::State;
use crate::id::{EmailId, WorkspaceId};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Send it again; it may then arrive twice.
    Retry,
    /// Do not send it again.
    Drop,
    /// It arrived.
    MarkDelivered,
}

impl Engine {
    /// [`DbError::Unexpected`] where the recipient is not held, or not any more.
    pub async fn decide(
        &self,
        workspace_id: WorkspaceId,
        (email_id, number): (EmailId, i64),
        decision: Decision,
    ) -> Result<(), DbError> {
        let now = self.app.clock.now();
        let (label, ending) = match decision {
            Decision::Retry => ("retry", None),
            Decision::Drop => {
                ("drop", Some((State::Failed, json!({"reason": "a person decided not to send it again"}))))
            }
            Decision::MarkDelivered => ("delivered", Some((State::Delivered, json!({"via": "person"})))),
        };
        let mut batch = Batch::new();
        match ending {
            None => batch.push(store::retry_held(workspace_id, email_id, number, self.app.clock.steady())),
            Some((state, detail)) => {
                batch.push(store::end_held(workspace_id, email_id, number, state));
                self.tell(&mut batch, (workspace_id, email_id, number), &[(state, detail)], now);
            }
        }
        self.app.db.commit(batch).await?;
        metrics::counter!("posthorn_mail_decisions_total", "decision" => label).increment(1);
        if decision == Decision::Retry {
            self.app.wake_mail();
        }
        Ok(())
    }
}
