//! Automations: what happens to a contact when an event occurs.

pub mod duration;
pub mod graph;
pub mod rule;
pub mod run;
pub mod step;
pub mod values;
