//! Automations and their versions in the store.

use uuid::Uuid;

use super::app_grants;
use super::automation::{AutomationName, ExitEvent, ReEntry, Status};
use super::editor;
use super::graph::Graph;
use super::shapes::Item;
use crate::credentials::grant_stands;
use crate::db::{Batch, Db, DbError, Row, Sql, Stmt, Value, from_row, statements};
use crate::id::{AutomationId, GrantId, Id, WorkspaceId};
use crate::seal::Seal;
use crate::web::Page;
use crate::windows::Window;

statements! {
    lists {
        /// The last two parameters are both statuses, or one of them twice.
        OLDER, NEWER =
            "SELECT a.id, a.name, a.status, a.version, a.created_at, COALESCE(a.updated_at, a.created_at), v.event_name
             FROM automations a JOIN automation_versions v ON v.automation_id = a.id AND v.version = a.version
             WHERE a.workspace_id = $1 AND a.deleted_at IS NULL AND a.status IN ($4, $5)" by "a.id";
        OLDER_COUNTED, NEWER_COUNTED =
            "SELECT a.id, a.name, a.status, a.version, a.created_at, COALESCE(a.updated_at, a.created_at), v.event_name,
                    (SELECT COUNT(*) FROM (SELECT 1 FROM runs r WHERE r.automation_id = a.id LIMIT 1001) AS counted),
                    (SELECT COUNT(*) FROM
                         (SELECT 1 FROM runs f WHERE f.automation_id = a.id AND f.status = 'failed' LIMIT 101) AS failed)
             FROM automations a JOIN automation_versions v ON v.automation_id = a.id AND v.version = a.version
             WHERE a.workspace_id = $1 AND a.deleted_at IS NULL AND a.status IN ($4, $5)" by "a.id";
    }
    functions {
        /// Automations whose signing secrets do not begin with `prefix`, by id: workspace,
        /// id and secret.
        fn otherwise_sealed(after: Uuid, prefix: &str) with [after, prefix.len() as i64, prefix] = Sql::both(
            "SELECT workspace_id, id, signing_secret FROM automations
             WHERE id > $1 AND substr(signing_secret, 1, $2) <> $3 ORDER BY id LIMIT 500");
        /// Signing secrets behind one, by workspace and automation: both, and what is kept.
        fn all_secrets(behind: (WorkspaceId, AutomationId)) with [behind.0, behind.1] = Sql::both(
            "SELECT workspace_id, id, signing_secret FROM automations
             WHERE (workspace_id, id) > ($1, $2) ORDER BY workspace_id, id LIMIT 500");
        /// How many runs go on at a time that is set, counted to a bound.
        pub fn count_due(most: i64) = Sql::both(
            "SELECT COUNT(*) FROM (
                 SELECT 1 FROM runs WHERE due_at IS NOT NULL AND destination IS NULL
                 UNION ALL
                 SELECT 1 FROM runs WHERE due_at IS NOT NULL AND destination IS NOT NULL
                 LIMIT $1) AS due");
        /// The starts of the names that runs may be woken by.
        pub fn listened(workspace_id: WorkspaceId) = Sql::both(
            "SELECT start FROM listened_names WHERE workspace_id = $1");
        fn insert_version(id: AutomationId, version: i64, graph: &GraphText, now: i64)
            with [id, version, &graph.event_name, &graph.steps, &graph.connections, now] = Sql::both(
            "INSERT INTO automation_versions (automation_id, version, event_name, steps, connections, created_at)
             VALUES ($1, $2, $3, $4, $5, $6)");
        pub fn by_id(workspace_id: WorkspaceId, id: AutomationId) = Sql::both(
            "SELECT a.id, a.name, a.status, a.version, a.created_at, COALESCE(a.updated_at, a.created_at), v.event_name,
                    a.re_entry, a.exit_on, a.signing_secret, v.steps, v.connections, a.send_window
             FROM automations a JOIN automation_versions v ON v.automation_id = a.id AND v.version = a.version
             WHERE a.workspace_id = $1 AND a.id = $2 AND a.deleted_at IS NULL");
        /// The number of the version in force.
        pub fn version_number(workspace_id: WorkspaceId, id: AutomationId) = Sql::both(
            "SELECT version FROM automations WHERE workspace_id = $1 AND id = $2 AND deleted_at IS NULL");
        /// Belongs into every commit that changes what a trigger would do: whoever
        /// prepared something under the automations of before has to prepare it again.
        pub fn raise_revision(workspace_id: WorkspaceId) = Sql::both(
            "UPDATE workspaces SET automations_revision = automations_revision + 1 WHERE id = $1")
            .raising();
        /// Every automation that listens, with the version that new runs start with: id,
        /// version, event name, re-entry, exit event, steps, connections.
        pub fn enabled(workspace_id: WorkspaceId) = Sql::both(
            "SELECT a.id, a.version, v.event_name, a.re_entry, a.exit_on, v.steps, v.connections
             FROM automations a JOIN automation_versions v ON v.automation_id = a.id AND v.version = a.version
             WHERE a.workspace_id = $1 AND a.status = 'enabled' AND a.deleted_at IS NULL
             ORDER BY a.id");
        /// What a run needs to know of the version it is pinned to: steps, connections,
        /// signing secret.
        pub fn version(workspace_id: WorkspaceId, automation_id: AutomationId, version: i64) = Sql::both(
            "SELECT v.steps, v.connections, a.signing_secret
             FROM automations a JOIN automation_versions v ON v.automation_id = a.id AND v.version = $3
             WHERE a.workspace_id = $1 AND a.id = $2");
        fn insert_automation(new: &NewAutomation)
            with [new.workspace_id, new.id, new.name.as_str(), new.status.as_str(), &new.re_entry, new.exit_on.as_ref(),
                &new.signing_secret, new.now, new.send_window.as_ref()] = Sql::both(
            "INSERT INTO automations
                 (workspace_id, id, name, status, version, re_entry, exit_on, signing_secret, created_at, send_window)
             VALUES ($1, $2, $3, $4, 1, $5, $6, $7, $8, $9)");
        fn reseal_one(workspace_id: WorkspaceId, id: AutomationId, kept: &str, sealed: &str) = Sql::both(
            "UPDATE automations SET signing_secret = $4 WHERE workspace_id = $1 AND id = $2 AND signing_secret = $3");
        fn listen_to(workspace_id: WorkspaceId, name: &str) = Sql::both(
            "INSERT INTO listened_names (workspace_id, start) VALUES ($1, substr($2, 1, 128)) ON CONFLICT DO NOTHING");
    }
    SET_NAME = Sql::both(
        "UPDATE automations SET name = $3, updated_at = $4
         WHERE workspace_id = $1 AND id = $2 AND deleted_at IS NULL");
    SET_STATUS = Sql::both(
        "UPDATE automations SET status = $3, updated_at = $4
         WHERE workspace_id = $1 AND id = $2 AND deleted_at IS NULL");
    SET_RE_ENTRY = Sql::both(
        "UPDATE automations SET re_entry = $3, updated_at = $4
         WHERE workspace_id = $1 AND id = $2 AND deleted_at IS NULL");
    SET_EXIT_ON = Sql::both(
        "UPDATE automations SET exit_on = $3, updated_at = $4
         WHERE workspace_id = $1 AND id = $2 AND deleted_at IS NULL");
    /// Runs that may wait for a window look again. Others that do find nothing to do.
    WAKE_PUT_OFF = Sql::both(
        "UPDATE runs SET due_at = $2
         WHERE automation_id = $1 AND status = 'running' AND due_at > $2 AND state LIKE '%\"waiting\":{\"reason\"%'");
    SET_SEND_WINDOW = Sql::both(
        "UPDATE automations SET send_window = $3, updated_at = $4
         WHERE workspace_id = $1 AND id = $2 AND deleted_at IS NULL");
    /// Only whoever has seen the newest version publishes the next.
    SET_VERSION = Sql::both(
        "UPDATE automations SET version = $4, updated_at = $5
         WHERE workspace_id = $1 AND id = $2 AND version = $3 AND deleted_at IS NULL");
    DELETE = Sql::both(
        "UPDATE automations SET deleted_at = $3, status = 'disabled', updated_at = $3
         WHERE workspace_id = $1 AND id = $2 AND deleted_at IS NULL");
}

/// Sees to it that every signing secret is kept as it would be kept today. Tells
/// how many cannot be opened.
pub async fn reseal(db: &Db, seal: &Seal) -> Result<usize, DbError> {
    let (mut unopened, mut after) = (0, Uuid::nil());
    while seal.has_key() {
        let found: Vec<(WorkspaceId, AutomationId, String)> =
            db.query(otherwise_sealed(after, &seal.text_prefix())).await?;
        let Some((_, last, _)) = found.last() else { break };
        after = last.uuid();
        let mut batch = Batch::new();
        for (workspace_id, id, kept) in found {
            match seal.open_text(&kept) {
                Some(secret) => batch.push(reseal_one(workspace_id, id, &kept, &seal.close_text(&secret))),
                None => unopened += 1,
            }
        }
        if !batch.is_empty() {
            db.commit(batch).await?;
        }
    }
    Ok(unopened)
}

/// Signing secrets behind a row of them, or the first: workspace, automation, and what is kept.
pub fn sealed_secrets(behind: Option<&Row>) -> Result<Stmt, DbError> {
    Ok(all_secrets(match behind {
        Some(row) => (row.id(0)?, row.id(1)?),
        None => (Uuid::nil().into(), Uuid::nil().into()),
    }))
}

/// An automation with the version that is in force.
pub struct Stored {
    pub listed: Item,
    pub re_entry: String,
    pub exit_on: Option<String>,
    pub signing_secret: String,
    pub steps: String,
    pub connections: String,
    /// As JSON.
    pub send_window: Option<String>,
}

from_row!(Stored { listed, re_entry, exit_on, signing_secret, steps, connections, send_window });

/// A graph as the store keeps it.
pub struct GraphText {
    /// The events that its runs may wait for.
    pub waits: Vec<String>,
    /// Whether its steps call the outside.
    pub calls_out: bool,
    pub event_name: String,
    pub steps: String,
    pub connections: String,
}

impl From<&Graph> for GraphText {
    fn from(graph: &Graph) -> GraphText {
        GraphText {
            waits: graph.waited_names().map(str::to_owned).collect(),
            calls_out: graph.calls_out(),
            event_name: graph.event_name().to_owned(),
            steps: graph.steps_json().to_string(),
            connections: graph.connections_json().to_string(),
        }
    }
}

/// Everything that the store keeps of an automation when it is made.
pub struct NewAutomation {
    pub workspace_id: WorkspaceId,
    pub id: AutomationId,
    pub name: AutomationName,
    pub status: Status,
    pub re_entry: String,
    pub exit_on: Option<String>,
    /// As JSON.
    pub send_window: Option<String>,
    pub signing_secret: String,
    pub graph: GraphText,
    /// The grant of the app that makes it.
    pub grant_id: Option<GrantId>,
    pub now: i64,
}

impl NewAutomation {
    /// A copy of what is in force of another one. It never listens at once: two
    /// that do the same would do it twice.
    pub fn copy(
        workspace_id: WorkspaceId,
        id: AutomationId,
        original: Stored,
        signing_secret: String,
        now: i64,
    ) -> Self {
        let graph = Graph::stored(&original.steps, &original.connections);
        NewAutomation {
            workspace_id,
            id,
            name: AutomationName::of_copy(&original.listed.name),
            status: Status::Disabled,
            re_entry: original.re_entry,
            exit_on: original.exit_on,
            send_window: original.send_window,
            signing_secret,
            graph: GraphText {
                // The original's are listened to already.
                waits: Vec::new(),
                calls_out: graph.is_some_and(|graph| graph.calls_out()),
                event_name: original.listed.event_name,
                steps: original.steps,
                connections: original.connections,
            },
            grant_id: None,
            now,
        }
    }

    /// Made under a grant, if there is one.
    pub fn under(self, grant_id: Option<GrantId>) -> Self {
        NewAutomation { grant_id, ..self }
    }
}

pub fn insert(new: &NewAutomation) -> Batch {
    let mut batch = Batch::from(insert_automation(new)).and(insert_version(new.id, 1, &new.graph, new.now));
    tie(&mut batch, (new.id, 1), &new.graph, new.grant_id);
    listen(&mut batch, new.workspace_id, new.graph.waits.iter().chain(new.exit_on.as_ref()));
    batch.and(raise_revision(new.workspace_id))
}

/// What an app publishes calls the outside only as long as the app has access.
fn tie(batch: &mut Batch, (id, version): (AutomationId, i64), graph: &GraphText, grant_id: Option<GrantId>) {
    if let Some(grant_id) = grant_id.filter(|_| graph.calls_out) {
        // A grant that ends in this moment would not find what is not committed yet.
        *batch = std::mem::take(batch).fence(grant_stands(grant_id));
        batch.push(app_grants::tie(id, version, grant_id));
    }
}

/// Notes that runs may be woken by events of these names.
fn listen<'a>(batch: &mut Batch, workspace_id: WorkspaceId, names: impl Iterator<Item = &'a String>) {
    names.for_each(|name| batch.push(listen_to(workspace_id, name)));
}

/// Those with the status, or all.
pub fn page(workspace_id: WorkspaceId, page: &Page, status: Option<Status>) -> Stmt {
    page.statement(OLDER, NEWER, workspace_id, either(status))
}

/// As [`page`], each row followed by how many runs it has had and how many of them
/// failed, counted to a bound.
pub fn page_counted(workspace_id: WorkspaceId, page: &Page, status: Option<Status>) -> Stmt {
    page.statement(OLDER_COUNTED, NEWER_COUNTED, workspace_id, either(status))
}

/// The status twice, or both of them.
fn either(status: Option<Status>) -> [Value; 2] {
    status.map_or(Status::ALL, |status| [status, status]).map(|status| status.as_str().into())
}

/// What to change; whatever is `None` stays as it is.
#[derive(Default)]
pub struct Change {
    pub name: Option<AutomationName>,
    pub status: Option<Status>,
    pub re_entry: Option<ReEntry>,
    /// `Some(None)` removes it.
    pub exit_on: Option<Option<ExitEvent>>,
    /// `Some(None)` removes it.
    pub send_window: Option<Option<Window>>,
    pub graph: Option<GraphText>,
    /// The grant of the app that changes it.
    pub grant_id: Option<GrantId>,
    /// This moment in steady time: runs that wait for a window that is changed look again.
    pub steady: i64,
}

impl Change {
    pub fn is_nothing(&self) -> bool {
        self.name.is_none()
            && self.status.is_none()
            && self.re_entry.is_none()
            && self.exit_on.is_none()
            && self.send_window.is_none()
            && self.graph.is_none()
    }
}

/// Changes an automation. `seen` is the version that the caller has seen: a new
/// graph becomes the one after it, or nothing is changed at all.
pub fn change(workspace_id: WorkspaceId, id: AutomationId, seen: i64, change: &Change, now: i64) -> Batch {
    let set =
        |sql: Sql, value: Option<&str>| sql.with([workspace_id.into(), id.into(), value.into(), now.into()]).expect(1);
    let mut batch = Batch::new();
    if let Some(graph) = &change.graph {
        let next = seen + 1;
        let params = [workspace_id.into(), id.into(), seen.into(), next.into(), now.into()];
        batch.push(SET_VERSION.with(params).expect(1));
        batch.push(insert_version(id, next, graph, now));
        tie(&mut batch, (id, next), graph, change.grant_id);
        listen(&mut batch, workspace_id, graph.waits.iter());
    }
    if let Some(name) = &change.name {
        batch.push(set(SET_NAME, Some(name.as_str())));
    }
    if let Some(status) = change.status {
        batch.push(set(SET_STATUS, Some(status.as_str())));
        if status == Status::Enabled {
            batch.push(app_grants::adopt(id, change.grant_id));
        }
    }
    if let Some(re_entry) = change.re_entry {
        batch.push(set(SET_RE_ENTRY, Some(re_entry.as_str())));
    }
    if let Some(exit_on) = &change.exit_on {
        batch.push(set(SET_EXIT_ON, exit_on.as_ref().map(ExitEvent::as_str)));
        let name = exit_on.as_ref().map(|name| name.as_str().to_owned());
        listen(&mut batch, workspace_id, name.iter());
    }
    if let Some(window) = &change.send_window {
        batch.push(set(SET_SEND_WINDOW, window.as_ref().map(Window::to_json).as_deref()));
        batch.push(WAKE_PUT_OFF.with([id.into(), change.steady.into()]));
    }
    batch.and(raise_revision(workspace_id))
}

/// A person enables an automation, or anybody disables it.
pub fn set_status(workspace_id: WorkspaceId, id: AutomationId, status: Status, now: i64) -> Batch {
    let change = Change { status: Some(status), ..Change::default() };
    self::change(workspace_id, id, 0, &change, now)
}

/// Deletes an automation for everybody to see.
pub fn delete(workspace_id: WorkspaceId, id: AutomationId, now: i64) -> Batch {
    let params = [workspace_id.into(), id.into(), now.into()];
    let batch = Batch::new().and(DELETE.with(params).expect(1)).and(raise_revision(workspace_id));
    editor::forget(batch, workspace_id, id)
}
