//! What happened, drawn by the server: bars, told apart by lightness and by words.

use crate::clock::{DAY, HOUR, rfc3339};
use crate::email_metrics::{Counted, Counts};
use crate::web::Stamp;

/// How high the tallest bar is, and how wide a place.
const HEIGHT: i64 = 96;
const WIDTH: i64 = 14;

/// A span of time in equal parts.
pub struct Plot {
    pub title: String,
    pub summary: String,
    pub width: i64,
    pub bars: Vec<Bar>,
    pub first: Stamp,
    pub last: Stamp,
    pub is_empty: bool,
}

pub struct Bar {
    pub x: i64,
    pub title: String,
    pub parts: Vec<Part>,
}

/// Of one bar: how many, from where to where.
pub struct Part {
    pub class: &'static str,
    pub y: i64,
    pub height: i64,
}

/// What a plot shows.
#[derive(Clone, Copy)]
pub enum Span {
    Day,
    Week,
}

impl Span {
    fn step(self) -> i64 {
        match self {
            Span::Day => HOUR,
            Span::Week => DAY,
        }
    }

    /// In which of its parts a moment is.
    pub fn place_of(self, at: i64, now: i64) -> Option<usize> {
        usize::try_from((at - self.start(now)).div_euclid(self.step())).ok()
    }

    pub fn count(self) -> i64 {
        match self {
            Span::Day => 24,
            Span::Week => 7,
        }
    }

    /// When it begins, seen from now: the part that is under way is its last.
    pub fn start(self, now: i64) -> i64 {
        now - now.rem_euclid(self.step()) - (self.count() - 1) * self.step()
    }

    fn name(self) -> &'static str {
        match self {
            Span::Day => "last 24 hours",
            Span::Week => "last 7 days",
        }
    }

    fn label(self, at: i64) -> String {
        let time = jiff::Timestamp::from_microsecond(at).unwrap_or_default();
        time.strftime(match self {
            Span::Day => "%H:00 UTC",
            Span::Week => "%a %-d %b UTC",
        })
        .to_string()
    }
}

/// Where a plot begins or ends.
fn end(span: Span, at: i64) -> Stamp {
    Stamp { iso: rfc3339(at), text: span.label(at) }
}

fn bounced(counts: &Counts) -> i64 {
    counts.bounced() + counts.of(Counted::Failed)
}

/// What each part of a span comes to: in words, and as parts of a bar from the ground on.
pub struct Place {
    pub words: String,
    pub parts: Vec<(&'static str, i64)>,
}

impl Place {
    fn size(&self) -> i64 {
        self.parts.iter().map(|(_, count)| count).sum()
    }
}

impl Plot {
    /// Of counters of mail by when they were counted.
    pub fn new(span: Span, counted: &[(i64, Counts)], now: i64) -> Plot {
        let mut buckets = vec![Counts::default(); span.count() as usize];
        for (period, counts) in counted {
            if let Some(bucket) = span.place_of(*period, now).and_then(|at| buckets.get_mut(at)) {
                *bucket += *counts;
            }
        }
        let total = buckets.iter().fold(Counts::default(), |mut sum, counts| {
            sum += *counts;
            sum
        });
        let places = buckets.iter().map(|counts| Place { words: in_words(counts), parts: parts(counts) });
        Plot::drawn("Mail", span, in_words(&total), places.collect(), now)
    }

    /// Of places in their order; without any, only what is said of them all.
    pub fn drawn(subject: &str, span: Span, summary: String, places: Vec<Place>, now: i64) -> Plot {
        let start = span.start(now);
        let most = places.iter().map(Place::size).max().unwrap_or_default();
        let bars = (0..).zip(&places).map(|(at, place)| Bar {
            x: at * WIDTH,
            title: format!("{}: {}", span.label(start + at * span.step()), place.words),
            parts: stacked(&place.parts, most.max(1)),
        });
        Plot {
            title: format!("{subject}, {}", span.name()),
            summary,
            width: span.count() * WIDTH,
            bars: bars.collect(),
            first: end(span, start),
            last: end(span, start + (span.count() - 1) * span.step()),
            is_empty: most == 0,
        }
    }
}

fn in_words(counts: &Counts) -> String {
    format!(
        "{} sent, {} delivered, {} bounced or failed",
        counts.of(Counted::Sent),
        counts.of(Counted::Delivered),
        bounced(counts)
    )
}

/// From the ground: what was delivered, what bounced, and the rest of what was sent.
fn parts(counts: &Counts) -> Vec<(&'static str, i64)> {
    let (delivered, lost) = (counts.of(Counted::Delivered), bounced(counts));
    let rest = (counts.of(Counted::Sent) - delivered - lost).max(0);
    vec![("plot-delivered", delivered), ("plot-bounced", lost), ("plot-sent", rest)]
}

fn stacked(parts: &[(&'static str, i64)], most: i64) -> Vec<Part> {
    let mut top = HEIGHT;
    let drawn = parts.iter().filter(|(_, count)| *count > 0).map(|(class, count)| {
        // Whatever there is can be seen.
        let height = (count * HEIGHT / most).max(2);
        top -= height;
        Part { class, y: top.max(0), height }
    });
    drawn.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_767_323_045_678_901;

    #[test]
    fn what_is_counted_falls_into_its_hour() {
        let mut counts = Counts::default();
        counts.add(Counted::Sent, 4);
        counts.add(Counted::Delivered, 3);
        counts.add(Counted::BouncedPermanent, 1);
        let hour = NOW - NOW.rem_euclid(HOUR);
        let plot = Plot::new(Span::Day, &[(hour, counts), (hour - HOUR, counts), (hour - 30 * HOUR, counts)], NOW);
        assert_eq!(plot.bars.len(), 24);
        assert_eq!(plot.summary, "8 sent, 6 delivered, 2 bounced or failed");
        let heights: Vec<i64> = plot.bars[23].parts.iter().map(|part| part.height).collect();
        assert_eq!((heights, plot.bars[22].parts.len(), plot.bars[0].parts.len()), (vec![72, 24], 2, 0));
        assert!(plot.bars[23].title.starts_with("03:00 UTC: 4 sent"), "{}", plot.bars[23].title);
        let ends = (plot.first.iso.as_str(), plot.last.text.as_str());
        assert_eq!(ends, ("2026-01-01T04:00:00.000000Z", "03:00 UTC"));
        assert!(!plot.is_empty && Plot::new(Span::Week, &[], NOW).is_empty);
    }
}
