//! A graph in words, for those who do not see the picture.

use super::graph::{Exit, Graph, Step};
use super::picture::{self, Names, Traffic};

/// A step in words.
pub struct StepLine {
    pub key: String,
    pub label: &'static str,
    pub detail: String,
    /// How many runs are there; empty where that is not told.
    pub visits: String,
    pub ways: Vec<WayLine>,
}

/// Which way leads where, and how many took it.
pub struct WayLine {
    pub label: &'static str,
    pub to: String,
    pub taken: Option<usize>,
}

pub fn lines(graph: &Graph, names: &Names, traffic: Option<&Traffic>) -> Vec<StepLine> {
    let way = |at: usize, exit: Exit| {
        let (from, to) = (graph.step(at)?, graph.step(graph.next(at, exit)?)?);
        let taken = traffic.map(|traffic| traffic.taken(&from.key, exit));
        Some(WayLine { label: picture::label(exit), to: to.key.clone(), taken })
    };
    let line = |(at, step): (usize, &Step)| {
        let (_, label, detail) = picture::described(step.action.type_name(), &step.config, names);
        let visits = traffic.map(|traffic| traffic.at(&step.key).sentence()).unwrap_or_default();
        let ways = Exit::ALL.into_iter().filter_map(|exit| way(at, exit)).collect();
        StepLine { key: step.key.clone(), label, detail, visits, ways }
    };
    graph.in_order().map(line).collect()
}
