//! Counters as lines, period by period.

use std::fmt::Write as _;

use super::counts::{Counted, Counts};

/// The ground of a plot, and how much of it is left for words.
const WIDTH: i64 = 720;
const HEIGHT: i64 = 200;
const LEFT: i64 = 56;
const BOTTOM: i64 = 24;
const TOP: i64 = 12;

pub struct Plot {
    pub key: &'static str,
    pub title: &'static str,
    pub width: i64,
    pub height: i64,
    pub left: i64,
    /// Where the ground line lies.
    pub ground: i64,
    pub lines: Vec<Line>,
    /// Heights with their numbers.
    pub marks: Vec<(i64, i64)>,
    pub first: String,
    pub last: String,
}

pub struct Line {
    pub class: &'static str,
    pub word: &'static str,
    pub points: String,
}

/// What is shown, in the order of the tables: class, word, and what it is counted from.
pub const SHOWN: [(&str, &str, &[Counted]); 6] = [
    ("sent", "Sent", &[Counted::Sent]),
    ("delivered", "Delivered", &[Counted::Delivered]),
    ("bounced", "Bounced", &[Counted::BouncedPermanent, Counted::BouncedTransient, Counted::BouncedUndetermined]),
    ("complained", "Complained", &[Counted::Complained]),
    ("opened", "Opened", &[Counted::UniqueOpened]),
    ("clicked", "Clicked", &[Counted::UniqueClicked]),
];

pub fn count(counts: &Counts, kinds: &[Counted]) -> i64 {
    kinds.iter().map(|kind| counts.of(*kind)).sum()
}

/// The next number that is easily read.
fn round_up(most: i64) -> i64 {
    let mut step = 1;
    loop {
        for nice in [1, 2, 5] {
            if nice * step >= most {
                return nice * step;
            }
        }
        step *= 10;
    }
}

impl Plot {
    /// Of some of what is shown, with what stands at its ends.
    pub fn new(
        (key, title): (&'static str, &'static str),
        wanted: &[&str],
        periods: &[(i64, Counts)],
        [first, last]: [String; 2],
    ) -> Plot {
        let lines: Vec<_> = SHOWN.into_iter().filter(|(class, ..)| wanted.contains(class)).collect();
        let highest = periods.iter().flat_map(|(_, counts)| lines.iter().map(|(.., kinds)| count(counts, kinds))).max();
        let most = round_up(highest.unwrap_or_default().max(1));
        let ground = HEIGHT - BOTTOM;
        let height = |value: i64| ground - value * (ground - TOP) / most;
        let across = |at: usize| LEFT + (WIDTH - LEFT - TOP) * at as i64 / (periods.len() as i64 - 1).max(1);
        let line = |&(class, word, kinds): &(&'static str, &'static str, &[Counted])| {
            let mut points = String::new();
            for (at, (_, counts)) in periods.iter().enumerate() {
                let _ = write!(points, "{},{} ", across(at), height(count(counts, kinds)));
            }
            Line { class, word, points: points.trim_end().to_owned() }
        };
        Plot {
            key,
            title,
            width: WIDTH,
            height: HEIGHT,
            left: LEFT,
            ground,
            lines: lines.iter().map(line).collect(),
            marks: [most, most / 2].into_iter().filter(|mark| *mark > 0).map(|mark| (height(mark), mark)).collect(),
            first,
            last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_ends_at_a_number_that_is_easily_read() {
        assert_eq!([1, 2, 3, 6, 11, 99, 501].map(round_up), [1, 2, 5, 10, 20, 100, 1000]);
        let periods = [(0, Counts::default()), (1, Counts::default())];
        let empty = Plot::new(("a", "A"), &["delivered"], &periods, Default::default());
        assert_eq!(empty.lines[0].points, "56,176 708,176");
    }
}
