//! A pass over all lines in which somebody waits, a page at a time.

use std::collections::HashMap;

use super::store::{PAGE, Waiting};
use crate::work::Next;

/// Lanes that are always there, in the order in which they are looked at. Behind them come those of
/// broadcasts, which are bulk mail, each in a lane of its own.
pub const LANES: [i64; 2] = [TRANSACTIONAL, BULK];
pub const TRANSACTIONAL: i64 = 0;
pub const BULK: i64 = 1;

/// How far the pass has come. A lane that has come to its end begins anew beside the others, which
/// may be far longer; when all have, the pass is over.
#[derive(Debug, Default)]
pub struct Pass {
    lanes: HashMap<i64, Progress>,
    /// When something is due of which nothing was.
    next_due: Option<i64>,
    /// How many looks there were: broadcasts take turns at being first.
    looks: usize,
}

#[derive(Debug, Default)]
struct Progress {
    /// The last line that was seen.
    after: String,
    has_ended: bool,
}

impl Pass {
    /// A look at these lanes begins: in which others nobody waits any more.
    pub fn begin_look(&mut self, lanes: &[i64]) {
        self.looks = self.looks.wrapping_add(1);
        self.lanes.retain(|lane, _| lanes.contains(lane));
    }

    /// Who of so many is first this time.
    pub fn turn(&self, count: usize) -> usize {
        if count == 0 { 0 } else { self.looks % count }
    }

    /// Behind which line the next page of a lane begins.
    pub fn after(&mut self, lane: i64) -> String {
        self.lanes.entry(lane).or_default().after.clone()
    }

    /// A page of a lane was seen.
    pub fn saw(&mut self, lane: i64, lines: &[Waiting]) {
        let next = lines.get(PAGE - 1).map(|last| last.line.clone());
        let progress = self.lanes.entry(lane).or_default();
        progress.has_ended |= next.is_none();
        progress.after = next.unwrap_or_default();
    }

    /// A page of each lane was seen; `due` is when the first is due of those that are not.
    pub fn end_of_look(&mut self, due: Option<i64>) -> Next {
        self.next_due = [self.next_due, due].into_iter().flatten().min();
        if self.lanes.values().any(|lane| !lane.has_ended) {
            return Next::AtOnce;
        }
        self.lanes.clear();
        Next::Due(self.next_due.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(lines: usize, after: &str) -> Vec<Waiting> {
        let first = after.parse::<usize>().map_or(0, |last| last + 1);
        (first..lines).take(PAGE).map(|line| Waiting { line: line.to_string(), due_at: 7 }).collect()
    }

    /// Looks until the pass is over; tells how many looks that were, and how many lines were seen.
    fn looks(pass: &mut Pass, lines: [usize; 2], due: &[i64]) -> (usize, [usize; 2], Next) {
        let mut seen = [0; 2];
        for look in 0..50 {
            pass.begin_look(&LANES);
            for lane in LANES {
                let found = page(lines[lane as usize], &pass.after(lane));
                seen[lane as usize] += found.len();
                pass.saw(lane, &found);
            }
            match pass.end_of_look(due.get(look).copied()) {
                Next::AtOnce => {}
                next @ Next::Due(_) => return (look + 1, seen, next),
            }
        }
        panic!("it goes on and on");
    }

    #[test]
    fn a_pass_ends_however_many_lines_both_lanes_have() {
        let mut pass = Pass::default();
        for _ in 0..3 {
            assert_eq!(looks(&mut pass, [0, 3], &[9]), (1, [0, 3], Next::Due(Some(9))));
        }
        for lines in [[PAGE, 2 * PAGE], [3 * PAGE + 1, PAGE + 1], [PAGE + 1, PAGE + 1]] {
            for _ in 0..3 {
                let (count, seen, next) = looks(&mut pass, lines, &[9, 8, 9, 9, 9]);
                assert!(count <= 5 && seen[0] >= lines[0] && seen[1] >= lines[1], "{lines:?}: {count}, {seen:?}");
                assert_eq!(next, Next::Due(Some(8)));
            }
        }
    }

    #[test]
    fn a_lane_in_which_nobody_waits_any_more_does_not_keep_the_pass_going() {
        let mut pass = Pass::default();
        pass.begin_look(&[0, 1, 77]);
        for lane in [0, 1, 77] {
            let lines = if lane == 77 { PAGE } else { 1 };
            pass.saw(lane, &page(lines, ""));
        }
        assert_eq!(pass.end_of_look(None), Next::AtOnce);
        pass.begin_look(&LANES);
        LANES.iter().for_each(|lane| pass.saw(*lane, &[]));
        assert_eq!(pass.end_of_look(Some(3)), Next::Due(Some(3)));
    }

    #[test]
    fn broadcasts_take_turns_at_being_first() {
        let mut pass = Pass::default();
        let turns: Vec<usize> = (0..6)
            .map(|_| {
                pass.begin_look(&LANES);
                pass.turn(3)
            })
            .collect();
        assert_eq!(turns, [1, 2, 0, 1, 2, 0]);
        assert_eq!(pass.turn(0), 0);
    }
}
