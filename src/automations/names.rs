//! What things are called that steps name.

use std::collections::HashMap;
use std::hash::Hash;

use serde_json::{Value, json};

use super::picture::Names;
use crate::db::{Db, DbError, Sql, statements};
use crate::id::{SegmentId, TemplateId, WorkspaceId};

statements! {
    functions {
        fn newest_segments(workspace_id: WorkspaceId) = Sql::both(
            "SELECT id, name FROM segments WHERE workspace_id = $1 AND filter IS NULL ORDER BY id DESC LIMIT 300");
        fn newest_templates(workspace_id: WorkspaceId) = Sql::both(
            "SELECT id, name FROM templates WHERE workspace_id = $1 AND published_version_id IS NOT NULL
             ORDER BY id DESC LIMIT 300");
        fn segments(workspace_id: WorkspaceId, ids: &str) = Sql::each(
            "SELECT s.id, s.name FROM json_each($2) k CROSS JOIN segments s
             ON s.workspace_id = $1 AND s.id = unhex(replace(k.value, '-', ''))",
            "SELECT s.id, s.name FROM json_array_elements_text(CAST(CAST($2 AS TEXT) AS JSON)) AS k (value)
             JOIN segments s ON s.workspace_id = $1 AND s.id = CAST(k.value AS UUID)");
        fn templates(workspace_id: WorkspaceId, ids: &str) = Sql::each(
            "SELECT t.id, t.name FROM json_each($2) k CROSS JOIN templates t
             ON t.workspace_id = $1 AND t.id = unhex(replace(k.value, '-', ''))",
            "SELECT t.id, t.name FROM json_array_elements_text(CAST(CAST($2 AS TEXT) AS JSON)) AS k (value)
             JOIN templates t ON t.workspace_id = $1 AND t.id = CAST(k.value AS UUID)");
        fn templates_by_alias(workspace_id: WorkspaceId, aliases: &str) = Sql::each(
            "SELECT t.alias, t.name FROM json_each($2) k CROSS JOIN templates t
             ON t.workspace_id = $1 AND t.alias = k.value",
            "SELECT t.alias, t.name FROM json_array_elements_text(CAST(CAST($2 AS TEXT) AS JSON)) AS k (value)
             JOIN templates t ON t.workspace_id = $1 AND t.alias = k.value");
        fn events(workspace_id: WorkspaceId) = Sql::both(
            "SELECT name FROM events WHERE workspace_id = $1 ORDER BY id DESC LIMIT 100");
    }
}

/// What steps name: as they write it, and the id that is meant.
#[derive(Debug, Default)]
struct Wanted {
    segments: Vec<(String, SegmentId)>,
    templates: Vec<(String, TemplateId)>,
    aliases: Vec<String>,
}

impl Wanted {
    /// By steps of these configurations.
    fn in_configs<'a>(configs: impl IntoIterator<Item = &'a Value>) -> Wanted {
        let mut named = Wanted::default();
        for config in configs {
            if let Some(text) = config.get("segment_id").and_then(Value::as_str) {
                named.segments.extend(text.parse().map(|id| (text.to_owned(), id)));
            }
            if let Some(text) = config.pointer("/template/id").and_then(Value::as_str).filter(|text| !text.is_empty()) {
                match text.parse() {
                    Ok(id) => named.templates.push((text.to_owned(), id)),
                    // PostgreSQL would not take it, and no alias holds it.
                    Err(_) if text.contains('\0') => {}
                    Err(_) => named.aliases.push(text.to_owned()),
                }
            }
        }
        named
    }
}

/// The names of exactly what steps of these configurations name, whatever has become of it since.
pub async fn load<'a>(
    db: &Db,
    workspace_id: WorkspaceId,
    configs: impl IntoIterator<Item = &'a Value>,
) -> Result<Names, DbError> {
    let named = Wanted::in_configs(configs);
    let mut names = Names::default();
    if !named.segments.is_empty() {
        let found: Vec<(SegmentId, String)> = db.query(segments(workspace_id, &ids(&named.segments))).await?;
        names.segments = called(&named.segments, found);
    }
    if !named.templates.is_empty() {
        let found: Vec<(TemplateId, String)> = db.query(templates(workspace_id, &ids(&named.templates))).await?;
        names.templates = called(&named.templates, found);
    }
    if !named.aliases.is_empty() {
        let aliases = json!(named.aliases).to_string();
        let found: Vec<(String, String)> = db.query(templates_by_alias(workspace_id, &aliases)).await?;
        names.templates.extend(found);
    }
    Ok(names)
}

fn ids<Id: ToString>(named: &[(String, Id)]) -> String {
    json!(named.iter().map(|(_, id)| id.to_string()).collect::<Vec<_>>()).to_string()
}

/// Names by what steps write.
fn called<Id: Hash + Eq>(named: &[(String, Id)], found: Vec<(Id, String)>) -> HashMap<String, String> {
    let found: HashMap<Id, String> = found.into_iter().collect();
    named.iter().filter_map(|(text, id)| Some((text.clone(), found.get(id)?.clone()))).collect()
}

/// What a form offers to choose from, by ids and names.
#[derive(Default)]
pub struct Offers {
    pub segments: Vec<(String, String)>,
    pub templates: Vec<(String, String)>,
}

/// The newest segments that take contacts, and the newest templates that are published.
pub async fn offers(db: &Db, workspace_id: WorkspaceId) -> Result<Offers, DbError> {
    let segments: Vec<(SegmentId, String)> = db.query(newest_segments(workspace_id)).await?;
    let templates: Vec<(TemplateId, String)> = db.query(newest_templates(workspace_id)).await?;
    Ok(Offers {
        segments: segments.into_iter().map(|(id, name)| (id.to_string(), name)).collect(),
        templates: templates.into_iter().map(|(id, name)| (id.to_string(), name)).collect(),
    })
}

/// The names of events that were defined last.
pub async fn event_names(db: &Db, workspace_id: WorkspaceId) -> Result<Vec<String>, DbError> {
    let mut names: Vec<String> = db.query(events(workspace_id)).await?;
    names.sort();
    names.dedup();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steps_name_is_looked_up_as_they_write_it() {
        let id = "01890000-0000-7000-8000-0000000000AB";
        let configs = [
            json!({"template": {"id": id}}),
            json!({"template": {"id": "welcome"}}),
            json!({"template": {"id": ""}, "html": "<p>"}),
            json!({"template": {"id": "no\0alias"}}),
            json!({"segment_id": id}),
            json!({"segment_id": "nothing"}),
            json!({"segment_id": 5, "template": "x"}),
            json!(null),
        ];
        let wanted = Wanted::in_configs(&configs);
        assert_eq!(wanted.aliases, ["welcome"]);
        assert_eq!((wanted.segments.len(), wanted.templates.len()), (1, 1));
        let found = called(&wanted.templates, vec![(wanted.templates[0].1, "Welcome".to_owned())]);
        assert_eq!(found.get(id).map(String::as_str), Some("Welcome"));
        assert_eq!(ids(&wanted.segments), format!("[\"{}\"]", id.to_lowercase()));
    }
}
