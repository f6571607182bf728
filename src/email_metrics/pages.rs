//! What became of mail, day by day, as plots and as a table.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use askama::Template;
use axum::Router;
use axum::routing::get;
use http::StatusCode;
use jiff::Timestamp;

use super::breakdown::Group;
use super::counts::{Counted, Counts};
use super::store::{self, Apart, Period, Which};
use crate::accounts::{Look, Member};
use crate::app::App;
use crate::clock::DAY;
use crate::web::{self, Layout, PageResult, Shell};

/// How many days can be looked at; the first where nothing is said.
const SPANS: [i64; 2] = [30, 7];

/// More groups than the quarter-hours of the longest span there cannot be.
const MOST_ROWS: i64 = 31 * 96;

/// The ground of a plot, and how much of it is left for words.
const WIDTH: i64 = 720;
const HEIGHT: i64 = 200;
const LEFT: i64 = 56;
const BOTTOM: i64 = 24;
const TOP: i64 = 12;

pub fn router() -> Router<App> {
    Router::new().route("/deliverability", get(show))
}

#[derive(Template)]
#[template(path = "email_metrics/deliverability.html")]
struct DeliverabilityPage {
    layout: Layout,
    shell: Shell,
    spans: Vec<(i64, String, bool)>,
    totals: Vec<(&'static str, i64, Option<String>)>,
    is_empty: bool,
    plots: Vec<Plot>,
    days: Vec<Day>,
}

/// A day as a row of the table.
struct Day {
    iso: String,
    counts: Vec<i64>,
}

struct Plot {
    key: &'static str,
    title: &'static str,
    width: i64,
    height: i64,
    left: i64,
    /// Where the ground line lies.
    ground: i64,
    lines: Vec<Line>,
    /// Heights with their numbers.
    marks: Vec<(i64, i64)>,
    first: String,
    last: String,
}

struct Line {
    class: &'static str,
    word: &'static str,
    points: String,
}

/// What is shown, in the order of the table: class, word, and what it is counted from.
const SHOWN: [(&str, &str, &[Counted]); 6] = [
    ("sent", "Sent", &[Counted::Sent]),
    ("delivered", "Delivered", &[Counted::Delivered]),
    ("bounced", "Bounced", &[Counted::BouncedPermanent, Counted::BouncedTransient, Counted::BouncedUndetermined]),
    ("complained", "Complained", &[Counted::Complained]),
    ("opened", "Opened", &[Counted::UniqueOpened]),
    ("clicked", "Clicked", &[Counted::UniqueClicked]),
];

fn count(counts: &Counts, kinds: &[Counted]) -> i64 {
    kinds.iter().map(|kind| counts.of(*kind)).sum()
}

/// Counts by days from the first on, those without mail among them.
fn by_days(rows: &[(i64, Counts)], first: i64, days: i64) -> Vec<(i64, Counts)> {
    let mut found: BTreeMap<i64, Counts> = (0..days).map(|day| (first + day * DAY, Counts::default())).collect();
    for (period, counts) in rows {
        if let Some(day) = found.get_mut(&(first + (period - first).div_euclid(DAY) * DAY)) {
            *day += *counts;
        }
    }
    found.into_iter().collect()
}

fn date(moment: i64) -> String {
    Timestamp::from_microsecond(moment).unwrap_or_default().strftime("%-d %b").to_string()
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

fn plot(key: &'static str, title: &'static str, wanted: &[&str], days: &[(i64, Counts)]) -> Plot {
    let lines: Vec<_> = SHOWN.into_iter().filter(|(class, ..)| wanted.contains(class)).collect();
    let highest = days.iter().flat_map(|(_, counts)| lines.iter().map(|(.., kinds)| count(counts, kinds))).max();
    let most = round_up(highest.unwrap_or_default().max(1));
    let ground = HEIGHT - BOTTOM;
    let height = |value: i64| ground - value * (ground - TOP) / most;
    let across = |day: usize| LEFT + (WIDTH - LEFT - TOP) * day as i64 / (days.len() as i64 - 1).max(1);
    let line = |&(class, word, kinds): &(&'static str, &'static str, &[Counted])| {
        let mut points = String::new();
        for (day, (_, counts)) in days.iter().enumerate() {
            let _ = write!(points, "{},{} ", across(day), height(count(counts, kinds)));
        }
        Line { class, word, points: points.trim_end().to_owned() }
    };
    let end = |day: Option<&(i64, Counts)>| day.map(|(at, _)| date(*at)).unwrap_or_default();
    Plot {
        key,
        title,
        width: WIDTH,
        height: HEIGHT,
        left: LEFT,
        ground,
        lines: lines.iter().map(line).collect(),
        marks: [most, most / 2].into_iter().filter(|mark| *mark > 0).map(|mark| (height(mark), mark)).collect(),
        first: end(days.first()),
        last: end(days.last()),
    }
}

async fn show(member: Member<Look>) -> PageResult {
    let asked = member.asked("days").and_then(|days| days.parse().ok());
    let days = SPANS.into_iter().find(|days| Some(*days) == asked).unwrap_or(SPANS[0]);
    let now = member.app.clock.now();
    let first = now - now.rem_euclid(DAY) - (days - 1) * DAY;
    let (workspace_id, span) = (member.workspace_id(), (first, first + days * DAY));
    let which = Which { workspace_id, span, domains: None, broadcasts: None };
    let apart = Apart { by_period: Some(Period::Day), by_domain: false, by_broadcast: false };
    let groups: Vec<Group> = member.query(store::grouped(&which, &apart, MOST_ROWS)).await?;
    let counted: Vec<(i64, Counts)> = groups.iter().map(|group| (group.period, group.counts)).collect();
    let by_day = by_days(&counted, first, days);
    let mut total = Counts::default();
    by_day.iter().for_each(|(_, counts)| total += *counts);
    let share = |class: &str, part: i64| {
        let whole = match class {
            "delivered" | "bounced" => total.of(Counted::Sent),
            "complained" | "opened" | "clicked" => total.of(Counted::Delivered),
            _ => 0,
        };
        (whole > 0).then(|| format!("{:.1} %", part as f64 * 100.0 / whole as f64))
    };
    let here = member.address("/deliverability");
    let content = DeliverabilityPage {
        layout: member.layout(),
        shell: member.shell("/deliverability"),
        spans: SPANS.map(|span| (span, format!("{here}?days={span}"), span == days)).into(),
        totals: SHOWN
            .map(|(class, word, kinds)| (word, count(&total, kinds), share(class, count(&total, kinds))))
            .into(),
        is_empty: total == Counts::default(),
        plots: vec![
            plot("arrived", "What arrived", &["delivered", "bounced", "complained"], &by_day),
            plot("read", "What was read", &["opened", "clicked"], &by_day),
        ],
        days: by_day
            .iter()
            .rev()
            .map(|(at, counts)| Day {
                iso: Timestamp::from_microsecond(*at).unwrap_or_default().strftime("%Y-%m-%d").to_string(),
                counts: SHOWN.map(|(.., kinds)| count(counts, kinds)).into(),
            })
            .collect(),
    };
    Ok(web::page(StatusCode::OK, &content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_hold_what_happened_in_them_and_empty_ones_are_shown() {
        let (mut one, mut two) = (Counts::default(), Counts::default());
        one.add(Counted::Delivered, 3);
        two.add(Counted::Delivered, 4);
        let days = by_days(&[(0, one), (DAY - 1, two), (2 * DAY, one), (9 * DAY, two)], 0, 3);
        let delivered: Vec<i64> = days.iter().map(|(_, counts)| counts.of(Counted::Delivered)).collect();
        assert_eq!(delivered, [7, 0, 3]);
    }

    #[test]
    fn a_plot_ends_at_a_number_that_is_easily_read() {
        assert_eq!([1, 2, 3, 6, 11, 99, 501].map(round_up), [1, 2, 5, 10, 20, 100, 1000]);
        let days = by_days(&[], 0, 2);
        let empty = plot("a", "A", &["delivered"], &days);
        assert_eq!(empty.lines[0].points, "56,176 708,176");
    }
}
