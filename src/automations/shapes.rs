//! What automations look like over HTTP: the bodies that routes take and give.

use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use super::graph::Finding;
use super::store::{Listed, Stored};
use crate::clock::rfc3339;
use crate::error::Error;
use crate::id::AutomationId;
use crate::seal::Seal;

/// What to make.
#[derive(ToSchema)]
#[schema(as = NewAutomation, example = json!({
    "name": "Welcome",
    "status": "enabled",
    "steps": [
        {"key": "start", "type": "trigger", "config": {"event_name": "user.created"}},
        {"key": "wait", "type": "delay", "config": {"duration": "1 day"}},
    ],
    "connections": [{"from": "start", "to": "wait", "type": "default"}],
}))]
#[expect(dead_code, reason = "describes the body to readers of the API's description")]
pub struct Wish {
    /// One line, and not only spaces.
    #[schema(
        min_length = 1,
        max_length = 200,
        pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f][^\\x00-\\x1f\\x7f-\\x9f]*$"
    )]
    #[schema(example = "Welcome")]
    name: String,
    /// Whether events start runs of it.
    #[schema(nullable = true, default = "disabled", pattern = "^(enabled|disabled)$")]
    status: Option<String>,
    #[schema(min_items = 1, max_items = 150)]
    steps: Vec<StepShape>,
    connections: Vec<ConnectionShape>,
    /// What happens when the trigger occurs again for a contact: `always` starts another run, `once_per_contact`
    /// never does, `one_at_a_time` does unless one is in flight.
    #[schema(nullable = true, default = "always", pattern = "^(always|once_per_contact|one_at_a_time)$")]
    re_entry: Option<String>,
    /// The name of an event that ends a run wherever it is.
    #[schema(nullable = true, min_length = 1, max_length = 1024, pattern = "^[^\\u0000]+$")]
    #[schema(example = "subscription.cancelled")]
    exit_on: Option<String>,
}

/// What to change: at least one of these.
#[derive(ToSchema)]
#[schema(as = AutomationChange)]
#[expect(dead_code, reason = "describes the body to readers of the API's description")]
pub struct Change {
    /// One line, and not only spaces.
    #[schema(
        nullable = true,
        min_length = 1,
        max_length = 200,
        pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f][^\\x00-\\x1f\\x7f-\\x9f]*$"
    )]
    #[schema(example = "Welcome, once more")]
    name: Option<String>,
    #[schema(nullable = true, pattern = "^(enabled|disabled)$")]
    status: Option<String>,
    /// The whole new graph, together with `connections`.
    #[schema(nullable = true, min_items = 1, max_items = 150)]
    steps: Option<Vec<StepShape>>,
    /// Together with `steps`.
    #[schema(nullable = true)]
    connections: Option<Vec<ConnectionShape>>,
    #[schema(nullable = true, pattern = "^(always|once_per_contact|one_at_a_time)$")]
    re_entry: Option<String>,
    /// The name of an event that ends a run wherever it is; null removes it.
    #[schema(nullable = true, min_length = 1, max_length = 1024, pattern = "^[^\\u0000]+$")]
    exit_on: Option<String>,
}

/// A graph to look at. Whatever stands here is judged, not refused.
#[derive(ToSchema)]
#[schema(as = AutomationDraft)]
#[expect(dead_code, reason = "describes the body to readers of the API's description")]
pub struct Draft {
    /// An array of steps, as for a new automation.
    #[schema(value_type = Value, example = json!([
        {"key": "start", "type": "trigger", "config": {"event_name": "user.created"}},
    ]))]
    steps: serde_json::Value,
    /// An array of connections, as for a new automation.
    #[schema(value_type = Value, example = json!([]))]
    connections: serde_json::Value,
}

/// One step. Its `config` depends on its type: `trigger` takes `event_name`; `delay` takes `duration`;
/// `wait_for_event` takes `event_name`, `timeout` and `filter_rule`; `condition` takes a rule; `send_email` takes
/// `template`, `from`, `subject` and `reply_to`; `contact_update` takes `first_name`, `last_name`, `unsubscribed` and
/// `properties`; `add_to_segment` takes `segment_id`; `webhook` takes `url` and `body`; `contact_delete` and `exit`
/// take nothing.
#[derive(ToSchema)]
#[schema(as = AutomationStep)]
#[expect(dead_code, reason = "describes a step to readers of the API's description")]
pub struct StepShape {
    /// What connections and runs call it; no other step has it.
    #[schema(min_length = 1, max_length = 100, pattern = "^[^\\u0000]+$", example = "start")]
    key: String,
    #[schema(
        rename = "type",
        pattern = "^(trigger|delay|condition|wait_for_event|send_email|contact_update|contact_delete|add_to_segment|webhook|exit)$",
        example = "trigger"
    )]
    kind: String,
    #[schema(nullable = true, value_type = Option<Object>, example = json!({"event_name": "user.created"}))]
    config: Option<serde_json::Value>,
}

/// How one step leads to another.
#[derive(ToSchema)]
#[schema(as = AutomationConnection)]
#[expect(dead_code, reason = "describes a connection to readers of the API's description")]
pub struct ConnectionShape {
    /// The key of the step it comes from.
    #[schema(example = "start")]
    from: String,
    /// The key of the step it leads to.
    #[schema(example = "wait")]
    to: String,
    /// Out of a condition, whether it was met; out of a wait, whether the event came; else `default`.
    #[schema(
        rename = "type",
        nullable = true,
        default = "default",
        pattern = "^(default|condition_met|condition_not_met|event_received|timeout)$"
    )]
    kind: Option<String>,
}

/// Which automations.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes the parameter to readers of the API's description")]
pub struct StatusParam {
    /// Only those with this status.
    #[param(pattern = "^(enabled|disabled)$")]
    status: Option<String>,
}

/// The answer to a change: which automation it was.
#[derive(Serialize, ToSchema)]
#[schema(as = AutomationReference)]
pub struct Reference {
    #[schema(pattern = "^automation$")]
    object: &'static str,
    #[schema(value_type = Uuid)]
    id: AutomationId,
}

/// The answer to a deletion.
#[derive(Serialize, ToSchema)]
#[schema(as = DeletedAutomation)]
pub struct Deleted {
    #[schema(pattern = "^automation$")]
    object: &'static str,
    #[schema(value_type = Uuid)]
    id: AutomationId,
    #[schema(example = true)]
    deleted: bool,
}

/// An automation that starts no more runs.
#[derive(Serialize, ToSchema)]
#[schema(as = StoppedAutomation)]
pub struct Stopped {
    #[schema(pattern = "^automation$")]
    object: &'static str,
    #[schema(value_type = Uuid)]
    id: AutomationId,
    #[schema(pattern = "^disabled$")]
    status: &'static str,
}

/// What is wrong with a graph.
#[derive(Serialize, ToSchema)]
#[schema(as = AutomationCheck)]
pub struct Check {
    #[schema(pattern = "^automation_check$")]
    object: &'static str,
    /// Whether an automation could be made of it.
    valid: bool,
    /// Everything that is wrong with it.
    findings: Vec<Finding>,
}

/// An automation as lists show it.
#[derive(Serialize, ToSchema)]
#[schema(as = AutomationItem)]
pub struct Item {
    #[schema(value_type = Uuid)]
    id: AutomationId,
    #[schema(example = "Welcome")]
    name: String,
    #[schema(pattern = "^(enabled|disabled)$")]
    status: String,
    #[schema(format = DateTime)]
    created_at: String,
    /// When it was last changed, or made.
    #[schema(format = DateTime)]
    updated_at: String,
}

/// An automation with the graph that new runs start with.
#[derive(Serialize, ToSchema)]
#[schema(as = Automation)]
pub struct Whole {
    #[schema(pattern = "^automation$")]
    object: &'static str,
    #[schema(value_type = Uuid)]
    id: AutomationId,
    #[schema(example = "Welcome")]
    name: String,
    #[schema(pattern = "^(enabled|disabled)$")]
    status: String,
    #[schema(pattern = "^(always|once_per_contact|one_at_a_time)$")]
    re_entry: String,
    #[schema(required = true)]
    exit_on: Option<String>,
    /// Counts the graphs that it has had.
    #[schema(minimum = 1)]
    version: i64,
    #[schema(format = DateTime)]
    created_at: String,
    /// When it was last changed, or made.
    #[schema(format = DateTime)]
    updated_at: String,
    #[schema(value_type = Vec<StepShape>)]
    steps: Box<RawValue>,
    #[schema(value_type = Vec<ConnectionShape>)]
    connections: Box<RawValue>,
    /// What calls of its webhook steps are signed with; only where it has some.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, pattern = "^whsec_")]
    webhook_secret: Option<String>,
}

impl Reference {
    pub fn new(id: AutomationId) -> Reference {
        Reference { object: "automation", id }
    }
}

impl Deleted {
    pub fn new(id: AutomationId) -> Deleted {
        Deleted { object: "automation", id, deleted: true }
    }
}

impl Stopped {
    pub fn new(id: AutomationId) -> Stopped {
        Stopped { object: "automation", id, status: "disabled" }
    }
}

impl Check {
    pub fn new(findings: Vec<Finding>) -> Check {
        Check { object: "automation_check", valid: findings.is_empty(), findings }
    }
}

impl From<Listed> for Item {
    fn from(listed: Listed) -> Item {
        Item {
            id: listed.id,
            name: listed.name,
            status: listed.status,
            created_at: rfc3339(listed.created_at),
            updated_at: rfc3339(listed.updated_at),
        }
    }
}

impl Whole {
    pub fn new(stored: Stored, seal: &Seal) -> Result<Whole, Error> {
        let Stored { listed, re_entry, exit_on, signing_secret, steps, connections } = stored;
        let raw = |text: String| RawValue::from_string(text).map_err(|_| Error::Internal);
        Ok(Whole {
            object: "automation",
            id: listed.id,
            name: listed.name,
            status: listed.status,
            re_entry,
            exit_on,
            version: listed.version,
            created_at: rfc3339(listed.created_at),
            updated_at: rfc3339(listed.updated_at),
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
