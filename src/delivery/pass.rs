//! A pass over all lines in which somebody waits, a page at a time.

use super::store::{PAGE, Waiting};
use crate::work::Next;

/// Transactional mail is looked for first.
pub const LANES: [i64; 2] = [0, BULK];
pub const BULK: i64 = 1;

/// How far the pass has come. A lane that has come to its end begins anew beside the other, which
/// may be far longer; when both have, the pass is over.
#[derive(Debug, Default)]
pub struct Pass {
    lanes: [Progress; 2],
    /// When something is due of which nothing was.
    next_due: Option<i64>,
}

#[derive(Debug, Default)]
struct Progress {
    /// The last line that was seen.
    after: String,
    has_ended: bool,
}

impl Pass {
    fn lane(&mut self, lane: i64) -> &mut Progress {
        &mut self.lanes[usize::from(lane == BULK)]
    }

    /// Behind which line the next page of a lane begins.
    pub fn after(&mut self, lane: i64) -> String {
        self.lane(lane).after.clone()
    }

    /// A page of a lane was seen.
    pub fn saw(&mut self, lane: i64, lines: &[Waiting]) {
        let next = lines.get(PAGE - 1).map(|last| last.line.clone());
        let progress = self.lane(lane);
        progress.has_ended |= next.is_none();
        progress.after = next.unwrap_or_default();
    }

    /// A page of each lane was seen; `due` is when the first is due of those that are not.
    pub fn end_of_look(&mut self, due: Option<i64>) -> Next {
        self.next_due = [self.next_due, due].into_iter().flatten().min();
        if self.lanes.iter().any(|lane| !lane.has_ended) {
            return Next::AtOnce;
        }
        Next::Due(std::mem::take(self).next_due)
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
}
