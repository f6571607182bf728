//! A graph as a picture: boxes in layers from the trigger down, arrows between
//! them. Pure: it says where everything stands, a template draws it.

use std::collections::HashMap;

use serde_json::Value;

use crate::automations::graph::{Action, Exit, Graph, Step};

pub const BOX_WIDTH: i32 = 216;
pub const BOX_HEIGHT: i32 = 78;
const GAP_ACROSS: i32 = 28;
const GAP_DOWN: i32 = 64;
const MARGIN: i32 = 12;
const CORNER: i32 = 10;

/// Everything that is drawn, and how large it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    pub width: i32,
    pub height: i32,
    pub boxes: Vec<StepBox>,
    pub arrows: Vec<Arrow>,
}

/// A step, by its upper left corner.
#[derive(Debug, Clone, PartialEq)]
pub struct StepBox {
    pub x: i32,
    pub y: i32,
    pub key: String,
    pub icon: &'static str,
    /// What it does, in two or three words.
    pub label: &'static str,
    /// What it does it with.
    pub detail: String,
    /// What became of it in a run; empty in a picture of the automation.
    pub look: &'static str,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Arrow {
    /// The line as SVG writes it.
    pub line: String,
    /// When this way is taken, where there are two.
    pub label: &'static str,
    pub label_x: i32,
    pub label_y: i32,
    /// Whether the label ends where it stands, left of the line.
    pub left: bool,
}

/// Where a step stands: how far down, and how far across in half boxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    layer: i32,
    column: i32,
}

impl Place {
    fn left(self) -> i32 {
        MARGIN + self.column * (BOX_WIDTH + GAP_ACROSS) / 2
    }

    fn centre(self) -> i32 {
        self.left() + BOX_WIDTH / 2
    }

    fn top(self) -> i32 {
        MARGIN + self.layer * (BOX_HEIGHT + GAP_DOWN)
    }

    fn bottom(self) -> i32 {
        self.top() + BOX_HEIGHT
    }
}

impl Picture {
    /// Draws a graph; `look` says what became of a step, by its key.
    pub fn draw(graph: &Graph, look: impl Fn(&str) -> &'static str) -> Picture {
        let places = places(graph);
        let mut boxes = Vec::new();
        let mut arrows = Vec::new();
        for (at, step) in graph.in_order() {
            let place = places[&at];
            let (icon, label, detail) = words(step);
            let look = look(&step.key);
            boxes.push(StepBox { x: place.left(), y: place.top(), key: step.key.clone(), icon, label, detail, look });
            arrows.extend(ways(graph, at).map(|(exit, to)| arrow(place, step, exit, places[&to])));
        }
        let right = places.values().map(|place| place.left() + BOX_WIDTH).max().unwrap_or_default();
        let bottom = places.values().map(|place| place.bottom()).max().unwrap_or_default();
        Picture { width: right + MARGIN, height: bottom + MARGIN, boxes, arrows }
    }
}

/// Where a step leads, in the order in which its ways out are drawn.
fn ways(graph: &Graph, at: usize) -> impl Iterator<Item = (Exit, usize)> {
    Exit::ALL.into_iter().filter_map(move |exit| Some((exit, graph.next(at, exit)?)))
}

/// Gives every step a layer below all that lead to it, and a column of which no
/// box stands above it: so the arrows can come down from the layer where they
/// begin without crossing a box.
fn places(graph: &Graph) -> HashMap<usize, Place> {
    let mut layers = HashMap::from([(graph.trigger(), 0)]);
    let mut parents: HashMap<usize, usize> = HashMap::new();
    for (at, _) in graph.in_order() {
        for (_, to) in ways(graph, at) {
            let below = layers[&at] + 1;
            let layer = layers.entry(to).or_insert(below);
            *layer = below.max(*layer);
            // Where several lead to a step, the uppermost has it below itself.
            let parent = parents.entry(to).or_insert(at);
            if layers[&at] < layers[parent] {
                *parent = at;
            }
        }
    }
    let mut children: HashMap<usize, Vec<usize>> = HashMap::new();
    for (at, _) in graph.in_order() {
        for (_, to) in ways(graph, at).filter(|(_, to)| parents[to] == at) {
            let below = children.entry(at).or_default();
            if !below.contains(&to) {
                below.push(to);
            }
        }
    }
    let mut columns = HashMap::new();
    settle(graph.trigger(), &children, &mut 0, &mut columns);
    columns.into_iter().map(|(at, column)| (at, Place { layer: layers[&at], column })).collect()
}

/// Gives a step and all below it their columns: side by side, each in the
/// middle above its own.
fn settle(at: usize, children: &HashMap<usize, Vec<usize>>, free: &mut i32, columns: &mut HashMap<usize, i32>) -> i32 {
    let below: Vec<i32> = children
        .get(&at)
        .map(|below| below.iter().map(|child| settle(*child, children, free, columns)).collect())
        .unwrap_or_default();
    let column = match (below.first(), below.last()) {
        (Some(first), Some(last)) => (first + last) / 2,
        _ => {
            *free += 2;
            *free - 2
        }
    };
    columns.insert(at, column);
    column
}

/// An arrow leaves below its step, crosses in the gap that follows, and comes
/// down on the step it leads to.
fn arrow(from: Place, step: &Step, exit: Exit, to: Place) -> Arrow {
    let aside = match step.action.exits().iter().position(|one| *one == exit) {
        Some(0) if step.action.exits().len() == 2 => -BOX_WIDTH / 4,
        Some(1) => BOX_WIDTH / 4,
        _ => 0,
    };
    let (start, end) = (from.centre() + aside, to.centre());
    let (top, bottom) = (from.bottom(), to.top() - 3);
    let across = top + GAP_DOWN * 5 / 8;
    let line = if start == end {
        format!("M{start} {top}V{bottom}")
    } else {
        let corner = CORNER.min((end - start).abs() / 2);
        let step = corner * (end - start).signum();
        format!(
            "M{start} {top}V{}q0 {corner} {step} {corner}H{}q{step} 0 {step} {corner}V{bottom}",
            across - corner,
            end - step
        )
    };
    let left = aside < 0;
    Arrow { line, label: label(exit), label_x: start + if left { -7 } else { 7 }, label_y: top + 19, left }
}

/// When a way is taken, where there is a choice.
pub fn label(exit: Exit) -> &'static str {
    match exit {
        Exit::Default => "",
        Exit::ConditionMet => "met",
        Exit::ConditionNotMet => "not met",
        Exit::EventReceived => "received",
        Exit::Timeout => "timeout",
    }
}

/// A step's icon, what it is called, and what it is about.
pub fn words(step: &Step) -> (&'static str, &'static str, String) {
    let text = |path: &str| step.config.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    match &step.action {
        Action::Trigger { event_name } => ("event", "Event", event_name.clone()),
        Action::Delay { .. } => ("clock", "Wait", text("/duration")),
        Action::Condition { .. } => ("branch", "Condition", rule_in_words(&step.config)),
        Action::WaitForEvent { event_name, .. } => ("hourglass", "Wait for event", event_name.clone()),
        Action::SendEmail => ("mail", "Send e-mail", text("/subject")),
        Action::SendTemplate => ("mail", "Send e-mail", text("/template/id")),
        Action::ContactUpdate => ("person", "Update contact", keys(&step.config)),
        Action::ContactDelete => ("cross", "Delete contact", String::new()),
        Action::AddToSegment { segment_id } => ("tag", "Add to segment", segment_id.to_string()),
        Action::Webhook { url } => ("globe", "Call webhook", url.clone()),
        Action::Exit => ("exit", "Exit", String::new()),
    }
}

fn keys(config: &Value) -> String {
    let fields = config.as_object().map(|fields| fields.keys().cloned().collect::<Vec<_>>());
    fields.unwrap_or_default().join(", ")
}

fn rule_in_words(rule: &Value) -> String {
    let word = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or_default();
    let rules = rule.get("rules").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    match (word("type"), rules) {
        ("and" | "or", [only]) => rule_in_words(only),
        ("and", all) => format!("all of {} rules", all.len()),
        ("or", all) => format!("any of {} rules", all.len()),
        _ => {
            let sign = match word("operator") {
                "eq" => "=",
                "neq" => "≠",
                "gt" => ">",
                "gte" => "≥",
                "lt" => "<",
                "lte" => "≤",
                "contains" => "contains",
                "starts_with" => "starts with",
                "ends_with" => "ends with",
                "exists" => return format!("{} exists", word("field")),
                _ => return format!("{} is empty", word("field")),
            };
            let value = match rule.get("value") {
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
                None => "null".into(),
            };
            format!("{} {sign} {value}", word("field"))
        }
    }
}

#[cfg(test)]
mod tests;
