//! A draft as an outline: what a list within a list shows, piece by piece.

use std::collections::{HashMap, HashSet};

use super::contents::{Contents, DraftStep};
use crate::automations::graph::{Exit, Finding};
use crate::automations::picture::{self, Names, Picture, Sketch, SketchStep};

/// What comes next in the outline.
pub enum Piece {
    /// A list begins: what follows a way out, if it has a name.
    Open(&'static str),
    Close,
    Step(Line),
    /// The end of a step, and of what lies within it.
    EndStep,
    /// A place where a step can be added: what it comes behind, and the words for that.
    Plus {
        after: String,
        way: &'static str,
        label: String,
    },
    /// What was shown already follows here.
    Jump(String),
}

/// A step in words.
pub struct Line {
    pub key: String,
    pub icon: &'static str,
    pub sentence: String,
    pub is_current: bool,
    pub findings: Vec<String>,
}

/// Step boxes in the picture, by what they are called.
pub struct Described {
    pub picture: Picture,
    /// For each box its name, and how it looks.
    pub names: Vec<String>,
}

pub struct Outline<'a> {
    contents: &'a Contents,
    names: &'a Names,
    findings: HashMap<&'a str, Vec<String>>,
    current: &'a str,
}

impl<'a> Outline<'a> {
    pub fn new(contents: &'a Contents, names: &'a Names, findings: &'a [Finding], current: &'a str) -> Outline<'a> {
        let mut by_step: HashMap<&str, Vec<String>> = HashMap::new();
        for finding in findings {
            if let Some(step) = finding.step.as_deref() {
                by_step.entry(step).or_default().push(finding.sentence());
            }
        }
        Outline { contents, names, findings: by_step, current }
    }

    /// What is wrong with a step.
    pub fn findings(&self, key: &str) -> Vec<String> {
        self.findings.get(key).cloned().unwrap_or_default()
    }

    fn line(&self, step: &DraftStep) -> Line {
        let (icon, _, _) = picture::described(&step.kind, &step.config, self.names);
        Line {
            key: step.key.clone(),
            icon,
            sentence: step.sentence(self.names),
            is_current: step.key == self.current,
            findings: self.findings(&step.key),
        }
    }

    /// All that the trigger leads to.
    pub fn pieces(&self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        if let Some(trigger) = self.contents.trigger() {
            self.chain(Some(&trigger.key), "", &mut HashSet::new(), &mut pieces);
        }
        pieces
    }

    /// The steps that nothing leads to.
    pub fn loose(&self) -> Vec<Line> {
        let reached = self.contents.trigger().map(|step| self.contents.reach(&step.key)).unwrap_or_default();
        let lost = self.contents.steps.iter().filter(|step| !reached.contains(step.key.as_str()));
        lost.map(|step| self.line(step)).collect()
    }

    fn chain(&self, from: Option<&str>, label: &'static str, shown: &mut HashSet<String>, pieces: &mut Vec<Piece>) {
        pieces.push(Piece::Open(label));
        let mut at = from.map(str::to_owned);
        while let Some(step) = at.take().and_then(|key| self.contents.step(&key)) {
            if !shown.insert(step.key.clone()) {
                pieces.push(Piece::Jump(step.key.clone()));
                break;
            }
            pieces.push(Piece::Step(self.line(step)));
            let exits = step.exits();
            if exits.len() == 1 {
                pieces.push(plus(step, exits[0]));
                at = self.contents.next(&step.key, exits[0]).map(str::to_owned);
            }
            for exit in exits.iter().filter(|_| exits.len() > 1) {
                pieces.push(plus(step, *exit));
                self.chain(self.contents.next(&step.key, *exit), picture::label(*exit), shown, pieces);
            }
            pieces.push(Piece::EndStep);
        }
        pieces.push(Piece::Close);
    }

    /// The same as a picture, and what each box in it is called.
    pub fn picture(&self) -> Described {
        let trigger = self.contents.trigger().map(|step| step.key.as_str());
        let mut steps: Vec<&DraftStep> = self.contents.steps.iter().collect();
        steps.sort_by_key(|step| Some(step.key.as_str()) != trigger);
        let place = |key: &str| steps.iter().position(|step| step.key == key);
        let links = self.contents.connections.iter();
        let links = links.filter_map(|link| Some((place(&link.from)?, link.exit, place(&link.to)?))).collect();
        let sketched = |step: &&DraftStep| {
            let (icon, label, detail) = picture::described(&step.kind, &step.config, self.names);
            let look = match (step.key == self.current, self.findings.contains_key(step.key.as_str())) {
                (true, _) => "current",
                (false, true) => "failed",
                (false, false) => "",
            };
            SketchStep { key: step.key.clone(), icon, label, detail, look, exits: step.exits() }
        };
        let sketch = match trigger {
            Some(_) => Sketch::new(steps.iter().map(sketched).collect(), links),
            None => Sketch::default(),
        };
        let picture = Picture::of(&sketch).roomier();
        let all = picture.boxes.len();
        let named = picture.boxes.iter().enumerate().map(|(at, one)| self.name(&one.key, at + 1, all)).collect();
        Described { picture, names: named }
    }

    /// What somebody hears of a step who does not see it.
    fn name(&self, key: &str, number: usize, of: usize) -> String {
        let Some(step) = self.contents.step(key) else { return String::new() };
        let mut name = format!("Step {number} of {of}, {} ({key})", step.sentence(self.names));
        for exit in step.exits() {
            let label = picture::label(*exit);
            match (self.contents.next(key, *exit), label) {
                (Some(next), "") => name.push_str(&format!("; leads to {next}")),
                (Some(next), label) => name.push_str(&format!("; {label} → {next}")),
                (None, _) => {}
            }
        }
        match self.findings(key).len() {
            0 => {}
            1 => name.push_str("; 1 finding"),
            many => name.push_str(&format!("; {many} findings")),
        }
        name
    }
}

fn plus(step: &DraftStep, exit: Exit) -> Piece {
    Piece::Plus { after: step.key.clone(), way: exit.as_str(), label: place(&step.key, exit) }
}

/// Where a step would be added, in words.
pub fn place(key: &str, exit: Exit) -> String {
    match picture::label(exit) {
        "" => format!("after {key}"),
        label => format!("after {key}, when {label}"),
    }
}
