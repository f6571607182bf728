//! Runs that have ended and need not be kept any longer.

use uuid::Uuid;

use crate::app::App;
use crate::clock::{DAY, first_id_at};
use crate::db::{Batch, DbError, Sql, statements};
use crate::id::{AutomationId, Id, RunId};

/// How many one commit deletes.
const PAGE: i64 = 500;

statements! {
    functions {
        /// One that is under way again, because somebody tried it again, stays.
        fn delete(automation_id: AutomationId, id: RunId) = Sql::both(
            "DELETE FROM runs WHERE automation_id = $1 AND id = $2 AND status <> 'running'");
    }
    reads {
        /// Those whose runs nothing depends on once they have ended: which contacts have had their one run is known
        /// by that.
        fn automations() -> Vec<AutomationId> = Sql::both(
            "SELECT id FROM automations WHERE re_entry <> 'once_per_contact' AND deleted_at IS NULL ORDER BY id");
        /// Those of which no message waits for its template.
        fn ended(automation_id: AutomationId, behind: Uuid, until: Uuid, before: i64)
            with [automation_id, behind, until, before, PAGE] -> Vec<RunId> = Sql::both(
            "SELECT id FROM runs WHERE automation_id = $1 AND id > $2 AND id < $3 AND status <> 'running'
                 AND completed_at < $4 AND NOT EXISTS (SELECT 1 FROM outbox o WHERE o.run_id = runs.id)
             ORDER BY id LIMIT $5");
    }
}

/// Deletes runs that ended longer ago than the setting says.
pub async fn forget_ended(app: &App) -> Result<(), DbError> {
    let days = app.config.retention.run_retention;
    if days == 0 {
        return Ok(());
    }
    let kept = i64::from(days) * DAY;
    let (until, before) = (first_id_at(app.clock.steady() - kept), app.clock.now() - kept);
    for automation_id in automations(&app.db).await? {
        let mut behind = Uuid::nil();
        loop {
            let some = ended(&app.db, automation_id, behind, until, before).await?;
            let Some(last) = some.last() else { break };
            behind = last.uuid();
            app.db.commit(some.iter().map(|id| delete(automation_id, *id)).collect::<Batch>()).await?;
        }
    }
    Ok(())
}
