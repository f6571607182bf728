//! What was set for sessions, in the store.

use crate::db::{Batch, Sql, statements};
use crate::id::{AssistantSessionId, WorkspaceId};

/// For how many sessions of a workspace something is kept; the oldest are forgotten.
const MOST: i64 = 100;

statements! {
    functions {
        fn keep(workspace_id: WorkspaceId, session_id: AssistantSessionId, level: &str, now: i64) = Sql::both(
            "INSERT INTO assistant_log_levels (workspace_id, session_id, level, set_at) VALUES ($1, $2, $3, $4)
             ON CONFLICT (workspace_id, session_id) DO UPDATE SET level = excluded.level, set_at = excluded.set_at");
        fn forget_oldest(workspace_id: WorkspaceId) with [workspace_id, MOST - 1] = Sql::both(
            "DELETE FROM assistant_log_levels WHERE workspace_id = $1 AND set_at <
                 (SELECT set_at FROM assistant_log_levels WHERE workspace_id = $1
                  ORDER BY set_at DESC LIMIT 1 OFFSET $2)");
        pub fn level(workspace_id: WorkspaceId, session_id: AssistantSessionId) = Sql::both(
            "SELECT level FROM assistant_log_levels WHERE workspace_id = $1 AND session_id = $2");
    }
}

pub fn set_level(workspace_id: WorkspaceId, session_id: AssistantSessionId, level: &str, now: i64) -> Batch {
    Batch::from(keep(workspace_id, session_id, level, now)).and(forget_oldest(workspace_id))
}
