//! The form of a step, as the page shows it.

use serde_json::Value;

use super::typed::{Flaws, Typed};
use super::values::{self, Row};
use crate::automations::names::Offers;
use crate::automations::picture::{self, Names};
use crate::windows::Day;

/// How many empty rows wait for more.
const BLANK: usize = 2;

/// An input as the page shows it.
pub struct Input {
    pub name: &'static str,
    pub label: &'static str,
    pub hint: &'static str,
    pub look: Look,
    pub value: String,
    pub error: Option<String>,
}

pub enum Look {
    Line,
    /// One line, with the names of events to choose from.
    Event,
    Area,
    Choice(Vec<Choice>),
}

/// One of several.
pub struct Choice {
    pub value: String,
    pub label: String,
    pub is_chosen: bool,
}

pub fn choices(all: &[(&str, &str)], chosen: &str) -> Vec<Choice> {
    let one = |(value, label): &(&str, &str)| Choice {
        value: (*value).to_owned(),
        label: (*label).to_owned(),
        is_chosen: *value == chosen,
    };
    all.iter().map(one).collect()
}

/// A rule in a row.
pub struct RuleRow {
    pub field: String,
    pub operators: Vec<Choice>,
    pub kinds: Vec<Choice>,
    pub value: String,
    pub error: Option<String>,
}

/// A value by its key in a row.
pub struct PairRow {
    pub key: String,
    pub kinds: Vec<Choice>,
    pub value: String,
    pub error: Option<String>,
}

/// Rules in rows.
pub struct Rules {
    pub joints: Vec<Choice>,
    pub rows: Vec<RuleRow>,
    /// The rule in words, where it cannot be shown in rows.
    pub nested: Option<String>,
    pub title: &'static str,
    pub hint: &'static str,
}

/// Values by keys in rows.
pub struct Pairs {
    pub title: &'static str,
    pub key: &'static str,
    pub rows: Vec<PairRow>,
}

pub struct WindowFields {
    /// Name, and whether it is among those chosen.
    pub days: Vec<(&'static str, bool)>,
    pub from: String,
    pub until: String,
    pub error: Option<String>,
}

impl WindowFields {
    pub fn of(typed: &Typed, error: Option<String>) -> WindowFields {
        let chosen = |day: &Day| typed.all("days").iter().any(|one| one == day.as_str());
        WindowFields {
            days: Day::ALL.into_iter().map(|day| (day.as_str(), chosen(&day))).collect(),
            from: typed.one("window_from").to_owned(),
            until: typed.one("window_until").to_owned(),
            error,
        }
    }

    pub fn of_window(window: Option<&Value>) -> WindowFields {
        let mut typed = Typed::default();
        typed.set_window(window);
        WindowFields::of(&typed, None)
    }
}

/// The whole form of a step.
pub struct Fields {
    pub inputs: Vec<Input>,
    pub rules: Option<Rules>,
    pub pairs: Option<Pairs>,
    pub window: Option<WindowFields>,
}

const OR_VARIABLE: &str = "Text, or one variable such as {{contact.first_name}}.";

impl Fields {
    /// The form for a step that has this configuration, with what was typed into it.
    pub fn new(
        (kind, config): (&str, &Value),
        typed: &Typed,
        flaws: &Flaws,
        (names, offers): (&Names, &Offers),
    ) -> Fields {
        let input = |name: &'static str, label, hint, look| Input {
            name,
            label,
            hint,
            look,
            value: typed.one(name).to_owned(),
            error: flaws.get(name).cloned(),
        };
        let rule = |rule: &Value, title, hint| Some(rules(rule, typed, flaws, (title, hint)));
        let choice = |name: &str, all: &[(&str, &str)]| Look::Choice(choices(all, typed.one(name)));
        let (mut rules, mut pairs, mut window) = (None, None, None);
        let inputs = match kind {
            "trigger" => {
                vec![input("event_name", "Event", "Each time it happens to a contact, a run starts.", Look::Event)]
            }
            "delay" => vec![input(
                "duration",
                "How long",
                "Such as 30 minutes, 1 day 12 hours or 2h; at most 30 days.",
                Look::Line,
            )],
            "condition" => {
                rules = rule(config, "It is met when", "Fields begin with event. or contact.");
                Vec::new()
            }
            "wait_for_event" => {
                let nothing = Value::Null;
                let filter = config.get("filter_rule").unwrap_or(&nothing);
                rules = rule(
                    filter,
                    "Only an event for which",
                    "Fields begin with event. Without a rule, any such event counts.",
                );
                vec![
                    input("event_name", "Event", "It counts from the moment the run began.", Look::Event),
                    input(
                        "timeout",
                        "At most",
                        "Such as 3 days; at most 30 days. Empty: as long as it takes.",
                        Look::Line,
                    ),
                ]
            }
            "send_email" => {
                pairs = Some(self::pairs(typed, flaws, ("Values for the template", "Variable")));
                window = Some(WindowFields::of(typed, flaws.get("window").cloned()));
                vec![
                    input(
                        "mail",
                        "The mail",
                        "",
                        choice("mail", &[("written", "is written here"), ("template", "is made of a template")]),
                    ),
                    input(
                        "template",
                        "Template",
                        "For a mail made of a template.",
                        templates((names, offers), typed.one("template")),
                    ),
                    input(
                        "from",
                        "From",
                        "Such as Acme <hello@acme.example>. With a template, empty means the template’s own.",
                        Look::Line,
                    ),
                    input("subject", "Subject", OR_VARIABLE, Look::Line),
                    input("html", "Body in HTML", "For a mail that is written here.", Look::Area),
                    input("text", "Body as text", "For a mail that is written here: this, HTML, or both.", Look::Area),
                    input("reply_to", "Answers go to", "Empty: to the sender.", Look::Line),
                ]
            }
            "contact_update" => {
                pairs = Some(self::pairs(typed, flaws, ("Properties", "Property")));
                let acts = [("keep", "Leave as it is"), ("set", "Set to"), ("empty", "Empty it")];
                let flags = [
                    ("keep", "Leave as it is"),
                    ("true", "Yes: no more mail"),
                    ("false", "No: may get mail"),
                    ("variable", "As a variable says"),
                    ("null", "Nothing"),
                ];
                vec![
                    input("first_name_act", "First name", "", choice("first_name_act", &acts)),
                    input("first_name", "New first name", OR_VARIABLE, Look::Line),
                    input("last_name_act", "Last name", "", choice("last_name_act", &acts)),
                    input("last_name", "New last name", OR_VARIABLE, Look::Line),
                    input("unsubscribed", "Unsubscribed", "", choice("unsubscribed", &flags)),
                    input("unsubscribed_path", "Variable for “Unsubscribed”", "Such as event.opted_out.", Look::Line),
                ]
            }
            "add_to_segment" => {
                let chosen = typed.one("segment_id");
                let look = listed(&offers.segments, (chosen, names.segment(chosen)), "Choose a segment");
                vec![input("segment_id", "Segment", "Segments that fill themselves take nobody else.", look)]
            }
            "webhook" => vec![
                input("url", "Address", "An http:// or https:// address. Calls are signed.", Look::Line),
                input(
                    "body",
                    "Body",
                    "JSON. Variables are written as {\"var\": \"contact.email\"}. Empty: nothing is sent with it.",
                    Look::Area,
                ),
            ],
            _ => Vec::new(),
        };
        Fields { inputs, rules, pairs, window }
    }

    pub fn is_empty(&self) -> bool {
        self.inputs.is_empty() && self.rules.is_none()
    }
}

fn templates((names, offers): (&Names, &Offers), chosen: &str) -> Look {
    listed(&offers.templates, (chosen, names.template(chosen)), "Choose a template")
}

/// A choice among what is known, and what is chosen even if it is not.
fn listed(known: &[(String, String)], (chosen, name): (&str, String), none: &str) -> Look {
    let mut all = vec![("", none)];
    all.extend(known.iter().map(|(id, name)| (id.as_str(), name.as_str())));
    if !all.iter().any(|(id, _)| *id == chosen) {
        all.push((chosen, &name));
    }
    Look::Choice(choices(&all, chosen))
}

fn rules(rule: &Value, typed: &Typed, flaws: &Flaws, (title, hint): (&'static str, &'static str)) -> Rules {
    let row = |[field, operator, kind, value]: Row, error: Option<String>| RuleRow {
        field,
        operators: choices(&values::OPERATORS, &operator),
        kinds: choices(&values::RULE_KINDS, &kind),
        value,
        error,
    };
    let rows =
        typed.rules().into_iter().enumerate().map(|(at, one)| row(one, flaws.get(&format!("rule_{at}")).cloned()));
    let blank = || row(["", "eq", "text", ""].map(str::to_owned), None);
    Rules {
        joints: choices(&[("and", "all of these hold"), ("or", "any of these holds")], typed.one("joint")),
        rows: rows.chain((0..BLANK).map(|_| blank())).collect(),
        nested: values::rows(rule).is_none().then(|| picture::rule_in_words(rule)),
        title,
        hint,
    }
}

fn pairs(typed: &Typed, flaws: &Flaws, (title, key): (&'static str, &'static str)) -> Pairs {
    let row = |[key, kind, value]: [String; 3], error: Option<String>| PairRow {
        key,
        kinds: choices(&values::KINDS, &kind),
        value,
        error,
    };
    let rows =
        typed.pairs().into_iter().enumerate().map(|(at, one)| row(one, flaws.get(&format!("pair_{at}")).cloned()));
    let blank = || row(["", "text", ""].map(str::to_owned), None);
    Pairs { title, key, rows: rows.chain((0..BLANK).map(|_| blank())).collect() }
}
