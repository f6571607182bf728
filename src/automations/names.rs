//! What things are called that steps name.

use super::picture::Names;
use crate::db::{Db, DbError, Sql, statements};
use crate::id::{SegmentId, TemplateId, WorkspaceId};

statements! {
    functions {
        fn segments(workspace_id: WorkspaceId) = Sql::both(
            "SELECT id, name FROM segments WHERE workspace_id = $1 AND filter IS NULL ORDER BY id DESC LIMIT 300");
        fn templates(workspace_id: WorkspaceId) = Sql::both(
            "SELECT id, alias, name FROM templates WHERE workspace_id = $1 AND published_version_id IS NOT NULL
             ORDER BY id DESC LIMIT 300");
        fn events(workspace_id: WorkspaceId) = Sql::both(
            "SELECT name FROM events WHERE workspace_id = $1 ORDER BY id DESC LIMIT 100");
    }
}

/// The newest segments that take contacts, and the newest templates that are published.
pub async fn load(db: &Db, workspace_id: WorkspaceId) -> Result<Names, DbError> {
    let found: Vec<(SegmentId, String)> = db.query(segments(workspace_id)).await?;
    let segments = found.into_iter().map(|(id, name)| (id.to_string(), name)).collect();
    let found: Vec<(TemplateId, Option<String>, String)> = db.query(templates(workspace_id)).await?;
    let aliases = found.iter().filter_map(|(_, alias, name)| Some((alias.clone()?, name.clone()))).collect();
    let templates = found.into_iter().map(|(id, _, name)| (id.to_string(), name)).collect();
    Ok(Names { segments, templates, aliases })
}

/// The names of events that were defined last.
pub async fn event_names(db: &Db, workspace_id: WorkspaceId) -> Result<Vec<String>, DbError> {
    let mut names: Vec<String> = db.query(events(workspace_id)).await?;
    names.sort();
    names.dedup();
    Ok(names)
}
