//! What a draft holds, and how it is edited. Pure. Unlike a graph it may be unfinished: what is wrong with it is found
//! by the same judgement as for a graph that a program sends.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::automations::graph::{Exit, LONGEST_KEY, MOST_STEPS, exits_of};
use crate::automations::picture::{self, Names};
use crate::text::is_longer;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contents {
    pub name: String,
    pub re_entry: String,
    pub exit_on: Option<String>,
    pub send_window: Option<Value>,
    pub steps: Vec<DraftStep>,
    pub connections: Vec<Link>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DraftStep {
    pub key: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub config: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Link {
    pub from: String,
    pub to: String,
    #[serde(rename = "type")]
    pub exit: Exit,
}

/// A type of step that can be added: its word, what it is called, what it does, and what it has before anybody says
/// more.
pub struct Kind {
    pub word: &'static str,
    pub label: &'static str,
    pub does: &'static str,
    config: fn() -> Value,
}

pub const KINDS: [Kind; 9] = [
    Kind { word: "delay", label: "Wait", does: "Waits for some time.", config: || json!({"duration": "1 day"}) },
    Kind { word: "send_email", label: "Send e-mail", does: "Sends a mail to the contact.", config: || json!({}) },
    Kind {
        word: "condition",
        label: "Condition",
        does: "Goes one of two ways, by what is known of the contact and the event.",
        config: || json!({}),
    },
    Kind {
        word: "wait_for_event",
        label: "Wait for event",
        does: "Waits until an event happens to the contact, or for too long.",
        config: || json!({"timeout": "3 days"}),
    },
    Kind { word: "contact_update", label: "Update contact", does: "Changes the contact.", config: || json!({}) },
    Kind {
        word: "add_to_segment",
        label: "Add to segment",
        does: "Puts the contact into a segment.",
        config: || json!({}),
    },
    Kind { word: "webhook", label: "Call webhook", does: "Posts JSON to an address.", config: || json!({}) },
    Kind {
        word: "contact_delete",
        label: "Delete contact",
        does: "Deletes the contact and ends the run.",
        config: || json!({}),
    },
    Kind { word: "exit", label: "Exit", does: "Ends the run.", config: || json!({}) },
];

impl DraftStep {
    pub fn exits(&self) -> &'static [Exit] {
        exits_of(&self.kind)
    }

    /// What it is called, and what it is about, in one line.
    pub fn sentence(&self, names: &Names) -> String {
        let (_, label, detail) = picture::described(&self.kind, &self.config, names);
        if detail.is_empty() { label.to_owned() } else { format!("{label}: {detail}") }
    }
}

impl Contents {
    pub fn step(&self, key: &str) -> Option<&DraftStep> {
        self.steps.iter().find(|step| step.key == key)
    }

    fn step_mut(&mut self, key: &str) -> Option<&mut DraftStep> {
        self.steps.iter_mut().find(|step| step.key == key)
    }

    /// What its steps are told.
    pub fn configs(&self) -> impl Iterator<Item = &Value> {
        self.steps.iter().map(|step| &step.config)
    }

    pub fn trigger(&self) -> Option<&DraftStep> {
        self.steps.iter().find(|step| step.kind == "trigger")
    }

    pub fn next(&self, from: &str, exit: Exit) -> Option<&str> {
        self.connections.iter().find(|link| link.from == from && link.exit == exit).map(|link| link.to.as_str())
    }

    pub fn leading_to(&self, key: &str) -> impl Iterator<Item = &Link> {
        self.connections.iter().filter(move |link| link.to == key)
    }

    pub fn steps_json(&self) -> Value {
        json!(self.steps)
    }

    pub fn connections_json(&self) -> Value {
        json!(self.connections)
    }

    /// Everything that can be reached from a step, itself included.
    pub fn reach(&self, from: &str) -> HashSet<&str> {
        let mut reached = HashSet::new();
        let mut ahead: Vec<&str> = self.step(from).map(|step| step.key.as_str()).into_iter().collect();
        while let Some(key) = ahead.pop() {
            if reached.insert(key) {
                ahead.extend(self.connections.iter().filter(|link| link.from == key).map(|link| link.to.as_str()));
            }
        }
        reached
    }

    /// The steps that a way out of this one may lead to: all but those that lead to it.
    pub fn targets(&self, from: &str) -> Vec<&DraftStep> {
        let fits = |step: &&DraftStep| step.kind != "trigger" && !self.reach(&step.key).contains(from);
        self.steps.iter().filter(fits).collect()
    }

    /// Adds a step of a kind behind a way out of another. What followed follows the new one. Tells its key.
    pub fn add(&mut self, after: &str, exit: Exit, kind: &Kind) -> Result<String, String> {
        let fits = self.step(after).is_some_and(|step| step.exits().contains(&exit));
        if !fits {
            return Err("There is no such place in the draft any more.".into());
        }
        if self.steps.len() >= MOST_STEPS {
            return Err(format!("An automation has at most {MOST_STEPS} steps."));
        }
        let next = self.next(after, exit).map(str::to_owned);
        let main = exits_of(kind.word).first();
        if next.is_some() && main.is_none() {
            return Err(format!("“{}” ends the run: nothing can follow it, and here something does.", kind.label));
        }
        let key = self.free_key(kind.word);
        self.set_link(after, exit, Some(&key));
        if let (Some(next), Some(main)) = (next, main) {
            self.set_link(&key, *main, Some(&next));
        }
        let at = self.steps.iter().position(|step| step.key == after).map_or(self.steps.len(), |at| at + 1);
        self.steps.insert(at, DraftStep { key: key.clone(), kind: kind.word.to_owned(), config: (kind.config)() });
        Ok(key)
    }

    fn free_key(&self, word: &str) -> String {
        let numbered = |number: usize| if number == 1 { word.to_owned() } else { format!("{word}_{number}") };
        (1..).map(numbered).find(|key| self.step(key).is_none()).unwrap_or_default()
    }

    /// Lets a way out of a step lead somewhere, or nowhere.
    fn set_link(&mut self, from: &str, exit: Exit, to: Option<&str>) {
        self.connections.retain(|link| link.from != from || link.exit != exit);
        let link = to.map(|to| Link { from: from.to_owned(), to: to.to_owned(), exit });
        self.connections.extend(link);
    }

    pub fn connect(&mut self, from: &str, exit: Exit, to: Option<&str>) -> Result<(), String> {
        let fits = self.step(from).is_some_and(|step| step.exits().contains(&exit));
        let leads = to.is_none_or(|to| self.targets(from).iter().any(|step| step.key == to));
        if !fits || !leads {
            return Err("This way cannot lead there: one of the steps is gone, or it would go in circles.".into());
        }
        self.set_link(from, exit, to);
        Ok(())
    }

    /// Gives a step another key and configuration.
    pub fn change(&mut self, key: &str, new_key: &str, config: Value) -> Result<(), String> {
        if new_key != key && self.step(new_key).is_some() {
            return Err("Another step has this key. Every key must be different.".into());
        }
        if new_key.is_empty() || is_longer(new_key, LONGEST_KEY) || new_key.contains('\0') {
            return Err(format!("A key has 1 to {LONGEST_KEY} characters."));
        }
        let step = self.step_mut(key).ok_or("The step is gone.")?;
        (step.key, step.config) = (new_key.to_owned(), config);
        for link in &mut self.connections {
            for end in [&mut link.from, &mut link.to] {
                if end == key {
                    *end = new_key.to_owned();
                }
            }
        }
        Ok(())
    }

    /// Takes a step out: what led to it leads to what follows it by the way `keep`. Steps that only the other way led to
    /// go with it.
    pub fn remove(&mut self, key: &str, keep: Option<Exit>) -> Result<(), String> {
        let step = self.step(key).filter(|step| step.kind != "trigger").ok_or("This step cannot be removed.")?;
        let keep = keep.or(step.exits().first().copied());
        let next = keep.and_then(|exit| self.next(key, exit)).map(str::to_owned);
        let start = self.trigger().map(|step| step.key.clone()).unwrap_or_default();
        let before: HashSet<String> = self.reach(&start).into_iter().map(str::to_owned).collect();
        let led: Vec<(String, Exit)> = self.leading_to(key).map(|link| (link.from.clone(), link.exit)).collect();
        self.connections.retain(|link| link.from != key && link.to != key);
        self.steps.retain(|step| step.key != key);
        for (from, exit) in led {
            self.set_link(&from, exit, next.as_deref());
        }
        let lost: HashSet<String> = {
            let after = self.reach(&start);
            before.into_iter().filter(|key| !after.contains(key.as_str())).collect()
        };
        self.steps.retain(|step| !lost.contains(&step.key));
        self.connections.retain(|link| !lost.contains(&link.from) && !lost.contains(&link.to));
        Ok(())
    }

    /// The step that this one would change places with on its way up.
    pub fn above(&self, key: &str) -> Option<&Link> {
        let step = self.step(key)?;
        let mut led = self.leading_to(key);
        let (link, others) = (led.next()?, led.next());
        let above = self.step(&link.from)?;
        (others.is_none() && above.kind != "trigger" && !step.exits().is_empty()).then_some(link)
    }

    /// The step that this one would change places with on its way down.
    pub fn below(&self, key: &str) -> Option<&str> {
        let step = self.step(key).filter(|step| step.kind != "trigger")?;
        let below = self.next(key, *step.exits().first()?)?;
        self.above(below).map(|_| below)
    }

    /// Lets a step come before the one that leads to it. What followed it follows that one.
    pub fn move_up(&mut self, key: &str) -> Result<(), String> {
        let link = self.above(key).cloned().ok_or("This step cannot be moved there.")?;
        let main = self.step(key).and_then(|step| step.exits().first().copied()).ok_or("The step is gone.")?;
        let next = self.next(key, main).map(str::to_owned);
        let led: Vec<(String, Exit)> = self.leading_to(&link.from).map(|one| (one.from.clone(), one.exit)).collect();
        for (from, exit) in led {
            self.set_link(&from, exit, Some(key));
        }
        self.set_link(&link.from, link.exit, next.as_deref());
        self.set_link(key, main, Some(&link.from));
        Ok(())
    }

    pub fn move_down(&mut self, key: &str) -> Result<(), String> {
        let below = self.below(key).map(str::to_owned).ok_or("This step cannot be moved there.")?;
        self.move_up(&below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::automations::graph::Graph;

    fn kind(word: &str) -> &'static Kind {
        KINDS.iter().find(|kind| kind.word == word).expect(word)
    }

    fn empty() -> Contents {
        let trigger = json!({"event_name": "user.created"});
        Contents {
            name: "Welcome".into(),
            re_entry: "always".into(),
            exit_on: None,
            send_window: None,
            steps: vec![DraftStep { key: "start".into(), kind: "trigger".into(), config: trigger }],
            connections: Vec::new(),
        }
    }

    /// The keys from the trigger on, by the first way out of each.
    fn chain(contents: &Contents) -> Vec<&str> {
        let mut keys = vec!["start"];
        while let Some(step) = contents.step(keys[keys.len() - 1])
            && let Some(next) = step.exits().first().and_then(|exit| contents.next(&step.key, *exit))
        {
            keys.push(next);
        }
        keys
    }

    #[test]
    fn steps_are_added_between_others_and_taken_out_again() {
        let mut contents = empty();
        let last = contents.add("start", Exit::Default, kind("delay")).expect("added");
        let first = contents.add("start", Exit::Default, kind("delay")).expect("added");
        assert_eq!((first.as_str(), last.as_str()), ("delay_2", "delay"));
        assert_eq!(chain(&contents), ["start", "delay_2", "delay"]);
        let middle = contents.add("delay_2", Exit::Default, kind("webhook")).expect("added");
        assert_eq!(chain(&contents), ["start", "delay_2", "webhook", "delay"]);
        contents.remove(&middle, None).expect("removed");
        assert_eq!(chain(&contents), ["start", "delay_2", "delay"]);
        assert!(contents.add("start", Exit::Default, kind("exit")).is_err(), "something follows");
        assert!(contents.add("delay", Exit::Timeout, kind("exit")).is_err(), "no such way");
        assert!(contents.remove("start", None).is_err());
        assert!(Graph::parse(&contents.steps_json(), &contents.connections_json()).is_ok());
    }

    #[test]
    fn a_branch_that_is_taken_out_keeps_one_of_its_ways() {
        let mut contents = empty();
        contents.add("start", Exit::Default, kind("condition")).expect("added");
        contents.add("condition", Exit::ConditionMet, kind("delay")).expect("added");
        contents.add("condition", Exit::ConditionNotMet, kind("webhook")).expect("added");
        contents.add("webhook", Exit::Default, kind("exit")).expect("added");
        let mut other = contents.clone();
        contents.remove("condition", Some(Exit::ConditionNotMet)).expect("removed");
        assert_eq!(chain(&contents), ["start", "webhook", "exit"]);
        assert_eq!(contents.steps.len(), 3, "what only the other way led to is gone");
        other.remove("condition", None).expect("removed");
        assert_eq!(chain(&other), ["start", "delay"]);
    }

    #[test]
    fn steps_change_places_with_their_neighbours() {
        let mut contents = empty();
        for word in ["webhook", "condition", "delay"] {
            contents.add("start", Exit::Default, kind(word)).expect("added");
        }
        assert_eq!(chain(&contents), ["start", "delay", "condition", "webhook"]);
        contents.move_up("webhook").expect("moved");
        assert_eq!(chain(&contents), ["start", "delay", "webhook", "condition"]);
        contents.move_down("delay").expect("moved");
        assert_eq!(chain(&contents), ["start", "webhook", "delay", "condition"]);
        assert!(contents.move_up("webhook").is_err(), "the trigger is first");
        assert!(contents.move_down("condition").is_err(), "nothing follows");
    }

    #[test]
    fn a_way_never_leads_back() {
        let mut contents = empty();
        contents.add("start", Exit::Default, kind("delay")).expect("added");
        contents.add("delay", Exit::Default, kind("condition")).expect("added");
        assert!(contents.connect("condition", Exit::ConditionMet, Some("delay")).is_err());
        assert!(contents.connect("condition", Exit::ConditionMet, Some("start")).is_err());
        contents.add("condition", Exit::ConditionMet, kind("exit")).expect("added");
        contents.connect("condition", Exit::ConditionNotMet, Some("exit")).expect("connected");
        contents.change("exit", "end", json!({})).expect("renamed");
        assert_eq!(contents.next("condition", Exit::ConditionNotMet), Some("end"));
        assert!(contents.change("end", "delay", json!({})).is_err() && contents.change("end", "", json!({})).is_err());
        contents.connect("condition", Exit::ConditionNotMet, None).expect("cut");
        assert_eq!(contents.next("condition", Exit::ConditionNotMet), None);
    }
}
