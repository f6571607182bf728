//! The graph of an automation: steps and how they lead to one another. What is
//! wrong with one is said in words that need no manual, all at once.

mod description;
mod mail;
mod step;
mod templated_mail;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::id::SegmentId;
use crate::text::{kind, shown};

pub use mail::Mail;
pub use step::{Action, Exit, Step, TEMPLATE_FIELDS, exits_of, fields_of};
pub use templated_mail::TemplatedMail;

pub(super) const MOST_STEPS: usize = 150;
pub(super) const LONGEST_KEY: usize = 100;

/// One thing that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = AutomationFinding)]
pub struct Finding {
    /// The key of the step; null where it is about the whole.
    pub step: Option<String>,
    pub message: String,
}

impl Finding {
    pub fn at(step: &str, message: impl Into<String>) -> Finding {
        Finding { step: Some(step.to_owned()), message: message.into() }
    }

    pub fn whole(message: impl Into<String>) -> Finding {
        Finding { step: None, message: message.into() }
    }

    /// As one sentence. A message says what is wrong with the step ("needs `duration`"), or is about a part of it
    /// ("`url` must be …").
    pub fn sentence(&self) -> String {
        let is_of_part = ["`", "a ", "the "].iter().any(|start| self.message.starts_with(start));
        match &self.step {
            Some(step) if is_of_part => format!("In the step `{}`, {}.", shown(step), self.message),
            Some(step) => format!("The step `{}` {}.", shown(step), self.message),
            None => format!("The automation {}.", self.message),
        }
    }
}

/// A template that a step names.
pub struct StepTemplate<'a> {
    /// The key of the step.
    pub step: &'a str,
    /// The id or the alias of the template.
    pub named: &'a str,
    /// What the step gives it: values, and variables that lead to some.
    pub variables: Option<&'a Map<String, Value>>,
}

/// Where a value is found when the step's turn comes.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "it is described here, and read by `rules`")]
#[schema(example = json!({"var": "contact.first_name"}))]
struct Variable {
    /// A path that begins with `event.`, `contact.` or `wait_events.`.
    var: String,
}

/// How one step leads to another.
#[derive(Serialize, utoipa::ToSchema)]
#[schema(as = AutomationConnection)]
pub struct Connection<'a> {
    /// The key of the step it comes from.
    #[schema(example = "start")]
    from: &'a str,
    /// The key of the step it leads to.
    #[schema(example = "wait")]
    to: &'a str,
    /// Out of a condition, whether it was met; out of a wait, whether the event came; else `default`.
    #[serde(rename = "type")]
    #[schema(value_type = Option<Exit>, default = "default")]
    exit: Exit,
}

/// A graph that can run: one trigger, every step in reach, no way back.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    steps: Vec<Step>,
    connections: Vec<(usize, Exit, usize)>,
    trigger: usize,
    /// The steps from the trigger on, each before those it leads to.
    order: Vec<usize>,
}

impl Graph {
    /// Reads what a caller sent; `Err` holds everything that is wrong with it.
    pub fn parse(steps: &Value, connections: &Value) -> Result<Graph, Vec<Finding>> {
        let mut findings = Vec::new();
        let steps = parse_steps(steps, &mut findings);
        let mut index = HashMap::new();
        for (position, step) in steps.iter().enumerate() {
            if let Some(key) = step.key()
                && index.insert(key, position).is_some()
            {
                findings.push(Finding::at(key, "has a key that another step has, too; every key must be different"));
            }
        }
        let links = parse_connections(connections, &steps, &index, &mut findings);
        if !findings.is_empty() {
            return Err(findings);
        }
        let steps: Vec<Step> = steps.into_iter().filter_map(|step| step.parsed).collect();
        Graph::assemble(steps, links)
    }

    /// A graph that was judged before, from the two texts that the store keeps.
    pub fn stored(steps: &str, connections: &str) -> Option<Graph> {
        let (steps, connections) = (serde_json::from_str(steps).ok()?, serde_json::from_str(connections).ok()?);
        let told =
            |findings: &Vec<Finding>| tracing::error!(?findings, "a graph that was accepted once is not any more");
        Graph::parse(&steps, &connections).inspect_err(told).ok()
    }

    /// The templates that its steps name.
    pub fn templates(&self) -> impl Iterator<Item = StepTemplate<'_>> {
        let named = self.steps.iter().filter(|step| matches!(step.action, Action::SendTemplate));
        named.map(|step| StepTemplate {
            step: &step.key,
            named: templated_mail::named(&step.config),
            variables: step.config.pointer("/template/variables").and_then(Value::as_object),
        })
    }

    /// What its steps are told.
    pub fn configs(&self) -> impl Iterator<Item = &Value> {
        self.steps.iter().map(|step| &step.config)
    }

    /// Whether one of its steps calls the outside.
    pub fn calls_out(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.action, Action::Webhook { .. }))
    }

    fn assemble(steps: Vec<Step>, connections: Vec<(usize, Exit, usize)>) -> Result<Graph, Vec<Finding>> {
        let mut findings = Vec::new();
        let triggers: Vec<usize> =
            (0..steps.len()).filter(|at| matches!(steps[*at].action, Action::Trigger { .. })).collect();
        let Some(trigger) = triggers.first().copied() else {
            return Err(vec![Finding::whole("has no trigger; add one step of the type `trigger`")]);
        };
        for extra in &triggers[1..] {
            findings.push(Finding::at(&steps[*extra].key, "is a second trigger; an automation has exactly one"));
        }
        for (_, _, to) in connections.iter().filter(|(_, _, to)| *to == trigger) {
            findings.push(Finding::at(&steps[*to].key, "is the trigger; no connection may lead to it"));
        }
        let order = match walk(steps.len(), &connections, trigger) {
            Ok(order) => order,
            Err(at) => {
                findings.push(Finding::at(&steps[at].key, "leads back to itself; an automation may not go in circles"));
                return Err(findings);
            }
        };
        let reached: HashSet<usize> = order.iter().copied().collect();
        for lost in (0..steps.len()).filter(|at| !reached.contains(at) && !triggers.contains(at)) {
            findings.push(Finding::at(&steps[lost].key, "cannot be reached from the trigger; connect it or remove it"));
        }
        if findings.is_empty() { Ok(Graph { steps, connections, trigger, order }) } else { Err(findings) }
    }

    pub fn event_name(&self) -> &str {
        match &self.steps[self.trigger].action {
            Action::Trigger { event_name } => event_name,
            _ => "",
        }
    }

    pub fn trigger(&self) -> usize {
        self.trigger
    }

    pub fn step(&self, at: usize) -> Option<&Step> {
        self.steps.get(at)
    }

    /// Where a step leads by one of its ways out.
    pub fn next(&self, from: usize, exit: Exit) -> Option<usize> {
        self.connections.iter().find(|(at, by, _)| *at == from && *by == exit).map(|(_, _, to)| *to)
    }

    /// The step of a key.
    pub fn find(&self, key: &str) -> Option<(usize, &Step)> {
        self.in_order().find(|(_, step)| step.key == key)
    }

    /// The steps in the order a reader follows them.
    pub fn in_order(&self) -> impl Iterator<Item = (usize, &Step)> {
        self.order.iter().map(|at| (*at, &self.steps[*at]))
    }

    /// The names of events that runs of this graph may wait for.
    pub fn waited_names(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().filter_map(|step| match &step.action {
            Action::WaitForEvent { event_name, .. } => Some(event_name.as_str()),
            _ => None,
        })
    }

    /// The segments that runs of this graph may add to.
    pub fn segment_ids(&self) -> impl Iterator<Item = SegmentId> {
        self.steps.iter().filter_map(|step| match &step.action {
            Action::AddToSegment { segment_id } => Some(*segment_id),
            _ => None,
        })
    }

    /// Whether runs of this graph may give properties to a contact.
    pub fn sets_properties(&self) -> bool {
        let sets =
            |step: &Step| matches!(step.action, Action::ContactUpdate) && step.config.get("properties").is_some();
        self.steps.iter().any(sets)
    }

    /// As the API shows it: the steps as they were given, every connection with its type.
    pub fn steps_json(&self) -> Value {
        let step = |step: &Step| json!({"key": step.key, "type": step.action.type_name(), "config": step.config});
        self.steps.iter().map(step).collect()
    }

    pub fn connections_json(&self) -> Value {
        let key = |at: usize| self.steps[at].key.as_str();
        let connection = |&(from, exit, to): &(usize, Exit, usize)| Connection { from: key(from), to: key(to), exit };
        json!(self.connections.iter().map(connection).collect::<Vec<_>>())
    }
}

/// A step on its way in: its key may be readable even where the rest is not.
struct Candidate {
    key: Option<String>,
    parsed: Option<Step>,
}

impl Candidate {
    fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }
}

fn parse_steps(given: &Value, findings: &mut Vec<Finding>) -> Vec<Candidate> {
    let Some(list) = given.as_array() else {
        findings.push(Finding::whole(format!("needs `steps`, an array, but it is {}", kind(given))));
        return Vec::new();
    };
    if list.is_empty() || list.len() > MOST_STEPS {
        findings.push(Finding::whole(format!("needs 1 to {MOST_STEPS} steps, but has {}", list.len())));
        return Vec::new();
    }
    let empty = Map::new();
    let parse = |(position, given): (usize, &Value)| {
        let key = given.get("key").and_then(Value::as_str);
        let key = key.filter(|key| !key.is_empty() && key.chars().count() <= LONGEST_KEY && !key.contains('\0'));
        let Some(key) = key else {
            findings.push(Finding::whole(format!(
                "has a step without a usable key, `steps[{position}]`; a key is text of 1 to {LONGEST_KEY} characters",
            )));
            return Candidate { key: None, parsed: None };
        };
        let type_name = given.get("type").and_then(Value::as_str).unwrap_or_default();
        let config = match given.get("config") {
            None | Some(Value::Null) => Ok(&empty),
            Some(Value::Object(config)) => Ok(config),
            Some(other) => Err(format!("needs `config`, an object, but it is {}", kind(other))),
        };
        let parsed = config.and_then(|config| Step::parse(key, type_name, config));
        let parsed = parsed.map_err(|message| findings.push(Finding::at(key, message))).ok();
        Candidate { key: Some(key.to_owned()), parsed }
    };
    list.iter().enumerate().map(parse).collect()
}

fn parse_connections(
    given: &Value,
    steps: &[Candidate],
    index: &HashMap<&str, usize>,
    findings: &mut Vec<Finding>,
) -> Vec<(usize, Exit, usize)> {
    let Some(list) = given.as_array() else {
        findings.push(Finding::whole(format!("needs `connections`, an array, but it is {}", kind(given))));
        return Vec::new();
    };
    let mut links: Vec<(usize, Exit, usize)> = Vec::new();
    for connection in list {
        match parse_connection(connection, steps, index) {
            Ok(link) if links.iter().any(|(from, exit, _)| (*from, *exit) == (link.0, link.1)) => {
                let key = steps[link.0].key().unwrap_or_default();
                let message = format!("has two connections of the type `{}`; one is enough", link.1.as_str());
                findings.push(Finding::at(key, message));
            }
            Ok(link) => links.push(link),
            Err(Some(finding)) => findings.push(finding),
            // About a step that is itself wrong, which was said before.
            Err(None) => {}
        }
    }
    links
}

fn parse_connection(
    given: &Value,
    steps: &[Candidate],
    index: &HashMap<&str, usize>,
) -> Result<(usize, Exit, usize), Option<Finding>> {
    let end = |name: &str| {
        let key = given.get(name).and_then(Value::as_str);
        let key = key.ok_or_else(|| Finding::whole(format!("has a connection without `{name}`, the key of a step")))?;
        index.get(key).copied().ok_or_else(|| {
            Finding::whole(format!("has a connection whose `{name}` is `{}`, which is no step's key", shown(key)))
        })
    };
    let (from, to) = (end("from").map_err(Some)?, end("to").map_err(Some)?);
    let source = steps[from].parsed.as_ref().ok_or(None)?;
    let exits = source.action.exits();
    let names = || exits.iter().map(|exit| format!("`{}`", exit.as_str())).collect::<Vec<_>>().join(" or ");
    let wrong = |message: String| Some(Finding::at(&source.key, message));
    let named = match given.get("type") {
        None | Some(Value::Null) => Exit::Default.as_str(),
        Some(Value::String(named)) => named,
        Some(other) => return Err(wrong(format!("has a connection whose `type` is {}, not a string", kind(other)))),
    };
    match Exit::parse(named) {
        _ if exits.is_empty() => Err(wrong(format!(
            "ends the run, being of the type `{}`; nothing may follow it",
            source.action.type_name()
        ))),
        Some(exit) if exits.contains(&exit) => Ok((from, exit, to)),
        _ => Err(wrong(format!(
            "is of the type `{}` and has no connection of the type `{}`, only {}",
            source.action.type_name(),
            shown(named),
            names()
        ))),
    }
}

/// The steps in reach of the trigger, each before those it leads to; `Err` is a
/// step on a circle.
fn walk(count: usize, connections: &[(usize, Exit, usize)], trigger: usize) -> Result<Vec<usize>, usize> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; count];
    let mut backwards = Vec::new();
    // Steps to visit; `true` when all that it leads to has been visited.
    let mut stack = vec![(trigger, false)];
    while let Some((at, left)) = stack.pop() {
        if left {
            marks[at] = Mark::Done;
            backwards.push(at);
            continue;
        }
        match marks[at] {
            Mark::Done => continue,
            Mark::Open => return Err(at),
            Mark::New => marks[at] = Mark::Open,
        }
        stack.push((at, true));
        for exit in Exit::ALL {
            for (_, _, to) in connections.iter().filter(|(from, by, _)| (*from, *by) == (at, exit)) {
                match marks[*to] {
                    Mark::Open => return Err(*to),
                    Mark::New => stack.push((*to, false)),
                    Mark::Done => {}
                }
            }
        }
    }
    backwards.reverse();
    Ok(backwards)
}
