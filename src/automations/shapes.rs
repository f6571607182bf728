//! What automations look like over HTTP: the bodies that routes take and give.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::automation::{AutomationName, ExitEvent, ReEntry, Status};
use super::graph::{Connection, Finding, Step};
use super::store::Stored;
use crate::clock::Time;
use crate::db::from_row;
use crate::error::Error;
use crate::id::AutomationId;
use crate::seal::Seal;
use crate::web::{self, OrNull};
use crate::windows::Window;

/// What to make.
#[derive(Deserialize, ToSchema)]
#[schema(as = NewAutomation, example = json!({
    "name": "Welcome",
    "status": "enabled",
    "steps": [
        {"key": "start", "type": "trigger", "config": {"event_name": "user.created"}},
        {"key": "wait", "type": "delay", "config": {"duration": "1 day"}},
    ],
    "connections": [{"from": "start", "to": "wait", "type": "default"}],
}))]
pub struct AutomationBody {
    pub name: AutomationName,
    /// Whether events start runs of it.
    #[schema(default = "disabled")]
    pub status: Option<Status>,
    /// What happens when the trigger occurs again for a contact: `always` starts another run, `once_per_contact`
    /// never does, `one_at_a_time` does unless one is in flight.
    #[schema(default = "always")]
    pub re_entry: Option<ReEntry>,
    /// The name of an event that ends a run wherever it is.
    pub exit_on: Option<ExitEvent>,
    /// When its mail may be sent, in the zone of the contact (its property `timezone`), or else of the workspace. A
    /// step outside of it waits until it opens.
    pub send_window: Option<Window>,
    #[schema(value_type = Vec<Step>, min_items = 1, max_items = 150)]
    pub steps: Value,
    #[schema(value_type = Vec<Connection>)]
    pub connections: Value,
}

/// What to change: at least one of these.
#[derive(Deserialize, ToSchema)]
#[schema(as = AutomationChange, example = json!({"name": "Welcome", "status": "disabled"}))]
pub struct Change {
    /// The name of an event that ends a run wherever it is; null removes it.
    #[schema(value_type = Option<ExitEvent>)]
    pub exit_on: web::Change<ExitEvent>,
    /// When its mail may be sent; null: at any time. What waits already waits until the time it was told.
    #[schema(value_type = Option<Window>)]
    pub send_window: web::Change<Window>,
    pub name: Option<AutomationName>,
    pub status: Option<Status>,
    pub re_entry: Option<ReEntry>,
    /// The whole new graph, together with `connections`.
    #[schema(value_type = Option<Vec<Step>>, min_items = 1, max_items = 150)]
    pub steps: Option<Value>,
    /// Together with `steps`.
    #[schema(value_type = Option<Vec<Connection>>)]
    pub connections: Option<Value>,
}

/// A graph to look at. Whatever stands here is judged, not refused.
#[derive(Deserialize, ToSchema)]
#[schema(as = AutomationDraft, example = json!({
    "steps": [
        {"key": "start", "type": "trigger", "config": {"event_name": "user.created"}},
        {"key": "wait", "type": "delay", "config": {"duration": "1 day"}},
    ],
    "connections": [{"from": "start", "to": "wait"}],
}))]
pub struct Draft {
    /// An array of steps, as for a new automation.
    #[schema(value_type = Value)]
    pub steps: OrNull<Value>,
    /// An array of connections, as for a new automation.
    #[schema(value_type = Value)]
    pub connections: OrNull<Value>,
    /// When its mail may be sent, as for a new automation.
    pub send_window: Option<Value>,
}

/// Which automations.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct StatusParam {
    /// Only those with this status.
    #[param(inline)]
    pub status: Option<Status>,
}

/// An automation that starts no more runs.
#[derive(Serialize, ToSchema)]
#[schema(as = StoppedAutomation)]
pub struct Stopped {
    #[schema(pattern = "^automation$")]
    pub object: &'static str,
    #[schema(value_type = Uuid)]
    pub id: AutomationId,
    #[schema(pattern = "^disabled$")]
    pub status: &'static str,
}

/// What is wrong with a graph.
#[derive(Serialize, ToSchema)]
#[schema(as = AutomationCheck)]
pub struct Check {
    #[schema(pattern = "^automation_check$")]
    pub object: &'static str,
    /// Whether an automation could be made of it.
    pub valid: bool,
    /// Everything that is wrong with it.
    pub findings: Vec<Finding>,
}

/// An automation as lists show it.
#[derive(Serialize, ToSchema)]
#[schema(as = AutomationItem)]
pub struct Item {
    #[schema(value_type = Uuid)]
    pub id: AutomationId,
    #[schema(example = "Welcome")]
    pub name: String,
    #[schema(value_type = Status)]
    pub status: String,
    #[serde(skip)]
    pub version: i64,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Time,
    /// When it was last changed, or made.
    #[schema(value_type = String, format = DateTime)]
    pub updated_at: Time,
    // The event that triggers it.
    #[serde(skip)]
    pub event_name: String,
}

from_row!(Item { id, name, status, version, created_at, updated_at, event_name });

/// An automation with the graph that new runs start with.
#[derive(Serialize, ToSchema)]
#[schema(as = Automation)]
pub struct AutomationDetail {
    #[schema(pattern = "^automation$")]
    object: &'static str,
    #[schema(value_type = Uuid)]
    id: AutomationId,
    #[schema(example = "Welcome")]
    name: String,
    #[schema(value_type = Status)]
    status: String,
    #[schema(value_type = ReEntry)]
    re_entry: String,
    #[schema(required = true)]
    exit_on: Option<String>,
    /// When its mail may be sent; only where it is not at any time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    send_window: Option<Window>,
    /// Counts the graphs that it has had.
    #[schema(minimum = 1)]
    version: i64,
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    /// When it was last changed, or made.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Time,
    #[schema(value_type = Vec<Step>)]
    steps: Box<RawValue>,
    #[schema(value_type = Vec<Connection>)]
    connections: Box<RawValue>,
    /// What calls of its webhook steps are signed with; only where it has some.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, pattern = "^whsec_")]
    webhook_secret: Option<String>,
}

impl AutomationDetail {
    pub fn new(stored: Stored, seal: &Seal) -> Result<AutomationDetail, Error> {
        let Stored { listed, re_entry, exit_on, signing_secret, steps, connections, send_window } = stored;
        let raw = |text: String| RawValue::from_string(text).map_err(|_| Error::Internal);
        Ok(AutomationDetail {
            object: "automation",
            id: listed.id,
            name: listed.name,
            status: listed.status,
            re_entry,
            exit_on,
            send_window: send_window.as_deref().and_then(Window::stored),
            version: listed.version,
            created_at: listed.created_at,
            updated_at: listed.updated_at,
            webhook_secret: has_webhook(&steps).then(|| seal.open_text(&signing_secret)).flatten(),
            steps: raw(steps)?,
            connections: raw(connections)?,
        })
    }
}

/// Whether steps, as the store keeps them, call somebody.
fn has_webhook(steps: &str) -> bool {
    let steps: Vec<serde_json::Value> = serde_json::from_str(steps).unwrap_or_default();
    steps.iter().any(|step| step["type"] == "webhook")
}
