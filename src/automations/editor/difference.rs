//! What differs between two graphs, step by step.

use serde_json::Value;

use super::contents::{Contents, DraftStep, Link};
use crate::automations::picture::{self, Names};
use crate::templates::line_diff;
use crate::windows::Window;

/// One thing that differs.
pub struct Difference {
    /// `+`, `−` or `~`.
    pub sign: char,
    pub look: &'static str,
    pub text: String,
    /// The lines that differ.
    pub lines: Option<String>,
}

impl Difference {
    fn new(sign: char, text: String) -> Difference {
        let look = match sign {
            '+' => "added",
            '−' => "removed",
            _ => "changed",
        };
        Difference { sign, look, text, lines: None }
    }
}

/// What is there in `after` that was not in `before`, and the other way round.
pub fn between(before: &Contents, after: &Contents, names: &Names) -> Vec<Difference> {
    let mut all = settings(before, after);
    for step in &after.steps {
        match before.step(&step.key) {
            None => all.push(Difference::new('+', told(step, names))),
            Some(old) if old != step => {
                let lines = line_diff(&pretty(old), &pretty(step));
                all.push(Difference { lines: Some(lines), ..Difference::new('~', told(step, names)) });
            }
            Some(_) => {}
        }
    }
    let removed = before.steps.iter().filter(|step| after.step(&step.key).is_none());
    all.extend(removed.map(|step| Difference::new('−', told(step, names))));
    let missing = |links: &[Link], from: &[Link]| -> Vec<Link> {
        from.iter().filter(|link| !links.contains(link)).cloned().collect()
    };
    let link = |sign: char, link: Link| Difference::new(sign, way(&link));
    all.extend(missing(&before.connections, &after.connections).into_iter().map(|one| link('+', one)));
    all.extend(missing(&after.connections, &before.connections).into_iter().map(|one| link('−', one)));
    all
}

fn settings(before: &Contents, after: &Contents) -> Vec<Difference> {
    let window = |contents: &Contents| match contents.send_window.as_ref().and_then(|one| Window::parse(one).ok()) {
        Some(window) => window.to_string(),
        None => "at any time".to_owned(),
    };
    let exit = |contents: &Contents| contents.exit_on.clone().unwrap_or_else(|| "nothing".into());
    let pairs = [
        ("Name", before.name.clone(), after.name.clone()),
        ("Starts again", before.re_entry.clone(), after.re_entry.clone()),
        ("Ends on", exit(before), exit(after)),
        ("Sends", window(before), window(after)),
    ];
    let changed = pairs.into_iter().filter(|(_, old, new)| old != new);
    changed.map(|(what, old, new)| Difference::new('~', format!("{what}: {old} → {new}"))).collect()
}

fn told(step: &DraftStep, names: &Names) -> String {
    format!("{} ({})", step.sentence(names), step.key)
}

fn way(link: &Link) -> String {
    match picture::label(link.exit) {
        "" => format!("{} leads to {}", link.from, link.to),
        label => format!("{}, when {label}, leads to {}", link.from, link.to),
    }
}

fn pretty(step: &DraftStep) -> String {
    let told = |value: &Value| serde_json::to_string_pretty(value).unwrap_or_default();
    told(&step.config)
}
