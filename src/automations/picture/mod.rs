//! A graph as a picture: boxes in layers from the trigger down, arrows between
//! them. Pure: it says where everything stands, a template draws it.

mod traffic;
mod words;
mod zoom;

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::automations::graph::{Exit, Graph};

pub use traffic::Traffic;
#[cfg(test)]
use words::words;
pub use words::{Names, described, rule_in_words};
pub use zoom::Zoom;

pub const BOX_WIDTH: i32 = 216;
pub const BOX_HEIGHT: i32 = 78;
const GAP_ACROSS: i32 = 28;
const GAP_DOWN: i32 = 64;
const MARGIN: i32 = 12;
const CORNER: i32 = 10;

/// How far below a step its ways out can be added to.
const PLUS: i32 = 15;
/// What has to be below the last of them.
const PLUS_ROOM: i32 = 24;

/// What a box has room for, in tenths of an ordinary letter: of what a step does, and of its key.
const MOST_DETAIL: usize = 190;
const MOST_KEY: usize = 210;

/// Everything that is drawn, and how large it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    pub width: i32,
    pub height: i32,
    pub boxes: Vec<StepBox>,
    pub arrows: Vec<Arrow>,
    pub ways: Vec<Way>,
    pub zoom: Zoom,
}

/// A way out of a step, by the point below it where something can be put in between.
#[derive(Debug, Clone, PartialEq)]
pub struct Way {
    pub x: i32,
    pub y: i32,
    pub key: String,
    pub exit: Exit,
}

/// What a picture is made of: steps, and how they lead to one another. Unlike a graph it need not be one that can run.
#[derive(Debug, Clone, Default)]
pub struct Sketch {
    steps: Vec<SketchStep>,
    links: Vec<(usize, Exit, usize)>,
    order: Vec<usize>,
}

#[derive(Debug, Clone)]
pub struct SketchStep {
    pub key: String,
    pub icon: &'static str,
    pub label: &'static str,
    pub detail: String,
    pub look: &'static str,
    pub exits: &'static [Exit],
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
    /// How many runs are here now, and what became of others; empty where that is not shown.
    pub count: String,
    pub visits: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Arrow {
    from: String,
    exit: Exit,
    /// The line as SVG writes it.
    pub line: String,
    /// When this way is taken, where there are two, and how often it was.
    pub label: String,
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
    pub fn draw(graph: &Graph, names: &Names, look: impl Fn(&str) -> &'static str) -> Picture {
        Picture::of(&Sketch::of(graph, names, look))
    }

    /// Draws whatever can be reached from the first step.
    pub fn of(sketch: &Sketch) -> Picture {
        let places = places(sketch);
        let (mut boxes, mut arrows, mut ways) = (Vec::new(), Vec::new(), Vec::new());
        for at in sketch.order.iter().copied() {
            let (place, step) = (places[&at], &sketch.steps[at]);
            boxes.push(StepBox {
                x: place.left(),
                y: place.top(),
                key: step.key.clone(),
                icon: step.icon,
                label: step.label,
                detail: step.detail.clone(),
                look: step.look,
                count: String::new(),
                visits: String::new(),
            });
            arrows.extend(sketch.ways(at).map(|(exit, to)| arrow(place, step, exit, places[&to])));
            ways.extend(step.exits.iter().map(|exit| Way {
                x: place.centre() + aside(step.exits, *exit),
                y: place.bottom() + PLUS,
                key: step.key.clone(),
                exit: *exit,
            }));
        }
        let right = places.values().map(|place| place.left() + BOX_WIDTH).max().unwrap_or_default();
        let bottom = places.values().map(|place| place.bottom()).max().unwrap_or_default();
        Picture { width: right + MARGIN, height: bottom + MARGIN, boxes, arrows, ways, zoom: Zoom::default() }
    }

    /// With the size that was asked for.
    pub fn zoomed(self, asked: Option<&str>) -> Picture {
        Picture { zoom: Zoom::parse(asked), ..self }
    }

    /// Each icon once.
    pub fn icons(&self) -> BTreeSet<&'static str> {
        self.boxes.iter().map(|step| step.icon).collect()
    }

    /// Where it begins: left of the first box, where the label of a way stands out there.
    pub fn left(&self) -> i32 {
        let begin = |arrow: &Arrow| if arrow.left { arrow.label_x - arrow.label_room() } else { arrow.label_x };
        self.arrows.iter().map(begin).min().unwrap_or_default().min(0)
    }

    /// From there to behind the last box, or the last label.
    pub fn whole_width(&self) -> i32 {
        let end = |arrow: &Arrow| if arrow.left { arrow.label_x } else { arrow.label_x + arrow.label_room() };
        self.arrows.iter().map(end).max().unwrap_or_default().max(self.width) - self.left()
    }

    pub fn shown_width(&self) -> i32 {
        self.zoom.of(self.whole_width())
    }

    pub fn shown_height(&self) -> i32 {
        self.zoom.of(self.height)
    }

    /// With how many runs are at each step, and took each way.
    pub fn counted(mut self, traffic: &Traffic) -> Picture {
        for step in &mut self.boxes {
            let visits = traffic.at(&step.key);
            step.count = if visits.here > 0 { visits.here.to_string() } else { String::new() };
            step.visits = visits.sentence();
        }
        for arrow in &mut self.arrows {
            let taken = traffic.taken(&arrow.from, arrow.exit);
            arrow.label = match arrow.label.is_empty() {
                true => taken.to_string(),
                false => format!("{} · {taken}", arrow.label),
            };
        }
        self
    }

    /// With room below the last steps for what can be added there.
    pub fn roomier(self) -> Picture {
        Picture { height: self.height + PLUS_ROOM, ..self }
    }
}

impl Arrow {
    /// How much room its label takes, with a mark between it and the line.
    fn label_room(&self) -> i32 {
        const MARK: usize = 12;
        let tenths: usize = self.label.chars().map(breadth).sum();
        i32::try_from(tenths * 8 / 10 + MARK).unwrap_or_default()
    }
}

impl StepBox {
    /// What fits into the box of what the step does.
    pub fn short_detail(&self) -> String {
        cut(&self.detail, MOST_DETAIL, breadth)
    }

    /// How wide the mark is that holds the count.
    pub fn count_width(&self) -> i32 {
        16 + 9 * i32::try_from(self.count.len()).unwrap_or_default()
    }

    pub fn short_key(&self) -> String {
        cut(&self.key, MOST_KEY, |letter| if letter.is_ascii() || letter == '…' { 10 } else { breadth(letter).max(10) })
    }
}

/// As much of a text as there is room for, with "…" where that is not all.
fn cut(text: &str, room: usize, breadth: impl Fn(char) -> usize) -> String {
    let whole: usize = text.chars().map(&breadth).sum();
    if whole <= room {
        return text.to_owned();
    }
    let mut left = room.saturating_sub(breadth('…'));
    let fits = |letter: &char| {
        let enough = left.checked_sub(breadth(*letter));
        left = enough.unwrap_or_default();
        enough.is_some()
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

/// About how broad a letter is, in tenths of an ordinary one; rather too much than too little, because the broadest
/// face that a browser may have to take (DejaVu Sans) is a fifth broader than most.
fn breadth(letter: char) -> usize {
    match letter {
        'i' | 'l' | 'j' | 't' | 'f' | 'I' | ' ' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | '(' | ')' => 6,
        'r' => 7,
        'm' | 'w' | 'M' | '%' => 16,
        'W' | '@' | '…' => 19,
        'A'..='Z' => 14,
        _ if letter.is_ascii() => 10,
        // Scripts whose letters are as broad as they are high, and pictures.
        '\u{1100}'.. => 16,
        _ => 14,
    }
}

impl Sketch {
    fn of(graph: &Graph, names: &Names, look: impl Fn(&str) -> &'static str) -> Sketch {
        let reached: Vec<usize> = graph.in_order().map(|(at, _)| at).collect();
        let place = |at: usize| reached.iter().position(|one| *one == at);
        let step = |(_, step): (usize, &crate::automations::graph::Step)| {
            let (icon, label, detail) = described(step.action.type_name(), &step.config, names);
            let (key, look, exits) = (step.key.clone(), look(&step.key), step.action.exits());
            SketchStep { key, icon, label, detail, look, exits }
        };
        let link = |from: usize, exit: Exit| Some((place(from)?, exit, place(graph.next(from, exit)?)?));
        let links = reached.iter().flat_map(|from| Exit::ALL.into_iter().filter_map(|exit| link(*from, exit)));
        Sketch {
            links: links.collect(),
            order: (0..reached.len()).collect(),
            steps: graph.in_order().map(step).collect(),
        }
    }

    /// Of steps of which the first is where it begins. Links that lead back are left out.
    pub fn new(steps: Vec<SketchStep>, links: Vec<(usize, Exit, usize)>) -> Sketch {
        let mut sketch = Sketch { steps, links: Vec::new(), order: Vec::new() };
        if !sketch.steps.is_empty() {
            sketch.visit(0, &links, &mut HashSet::new());
            sketch.order.reverse();
        }
        sketch
    }

    /// Notes a step behind all that it leads to.
    fn visit(&mut self, at: usize, links: &[(usize, Exit, usize)], open: &mut HashSet<usize>) {
        open.insert(at);
        for link in Exit::ALL.into_iter().filter_map(|exit| links.iter().find(|one| (one.0, one.1) == (at, exit))).rev()
        {
            if open.contains(&link.2) || link.2 >= self.steps.len() {
                continue;
            }
            self.links.push(*link);
            if !self.order.contains(&link.2) {
                self.visit(link.2, links, open);
            }
        }
        open.remove(&at);
        self.order.push(at);
    }

    /// Where a step leads, in the order in which its ways out are drawn.
    fn ways(&self, at: usize) -> impl Iterator<Item = (Exit, usize)> {
        Exit::ALL.into_iter().filter_map(move |exit| Some((exit, self.next(at, exit)?)))
    }

    fn next(&self, from: usize, exit: Exit) -> Option<usize> {
        self.links.iter().find(|(at, by, _)| *at == from && *by == exit).map(|(_, _, to)| *to)
    }

    fn first(&self) -> usize {
        self.order.first().copied().unwrap_or_default()
    }
}

/// Gives every step a layer below all that lead to it, and a column of which no
/// box stands above it: so the arrows can come down from the layer where they
/// begin without crossing a box.
fn places(sketch: &Sketch) -> HashMap<usize, Place> {
    let mut layers = HashMap::from([(sketch.first(), 0)]);
    let mut parents: HashMap<usize, usize> = HashMap::new();
    for at in sketch.order.iter().copied() {
        for (_, to) in sketch.ways(at) {
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
    for at in sketch.order.iter().copied() {
        for (_, to) in sketch.ways(at).filter(|(_, to)| parents[to] == at) {
            let below = children.entry(at).or_default();
            if !below.contains(&to) {
                below.push(to);
            }
        }
    }
    let mut columns = HashMap::new();
    settle(sketch.first(), &children, &mut 0, &mut columns);
    columns.into_iter().map(|(at, column)| (at, Place { layer: layers[&at], column })).collect()
}

/// Gives a step and all below it their columns: side by side, each in the middle above its own. Where one side alone
/// branches further, the step stands above that one, so that a chain of conditions stays in its column. Tells the
/// column, and whether anything branches below.
fn settle(
    at: usize,
    children: &HashMap<usize, Vec<usize>>,
    free: &mut i32,
    columns: &mut HashMap<usize, i32>,
) -> (i32, bool) {
    let below: Vec<(i32, bool)> = children
        .get(&at)
        .map(|below| below.iter().map(|child| settle(*child, children, free, columns)).collect())
        .unwrap_or_default();
    let (column, branches) = match below.as_slice() {
        [] => {
            *free += 2;
            (*free - 2, false)
        }
        [only] => *only,
        [(_, false), (column, true)] | [(column, true), (_, false)] => (*column, true),
        [(first, _), .., (last, _)] => ((first + last) / 2, true),
    };
    columns.insert(at, column);
    (column, branches)
}

/// An arrow leaves below its step, crosses in the gap that follows, and comes
/// down on the step it leads to.
fn arrow(from: Place, step: &SketchStep, exit: Exit, to: Place) -> Arrow {
    let aside = aside(step.exits, exit);
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
    let label_x = start + if left { -7 } else { 7 };
    Arrow { from: step.key.clone(), exit, line, label: label(exit).to_owned(), label_x, label_y: top + 19, left }
}

/// How far from the middle of a step a way leaves it.
fn aside(exits: &[Exit], exit: Exit) -> i32 {
    match exits.iter().position(|one| *one == exit) {
        Some(0) if exits.len() == 2 => -BOX_WIDTH / 4,
        Some(1) => BOX_WIDTH / 4,
        _ => 0,
    }
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

#[cfg(test)]
mod tests;
