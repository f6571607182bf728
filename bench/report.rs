//! What was found, as a table or as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use crate::Plan;
use crate::rows::{Seen, Side};
use crate::server::Memory;

/// The most that a server may hold in memory at any time, and one through which mail goes.
pub const MEMORY_BAR: u64 = 64 << 20;
pub const MAIL_MEMORY_BAR: u64 = 150 << 20;
/// The same, while a broadcast is queued.
pub const BROADCAST_MEMORY_BAR: u64 = 200 << 20;

/// One row, of several rounds.
pub struct Measured {
    what: String,
    against: String,
    bar: f64,
    memory_bar: u64,
    rounds: Vec<Round>,
}

struct Round {
    base: Side,
    subject: Side,
}

impl Measured {
    pub fn new(what: &str, against: &str, bar: f64) -> Measured {
        Measured { what: what.into(), against: against.into(), bar, memory_bar: MEMORY_BAR, rounds: Vec::new() }
    }

    pub fn within(self, memory_bar: u64) -> Measured {
        Measured { memory_bar, ..self }
    }

    pub fn add(&mut self, base: Side, subject: Side) {
        self.rounds.push(Round { base, subject });
    }

    fn ratio(&self) -> f64 {
        self.median(|round| round.subject.per_second / round.base.per_second)
    }

    fn median(&self, of: impl Fn(&Round) -> f64) -> f64 {
        let mut values: Vec<f64> = self.rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
    }

    fn millis(&self, of: impl Fn(&Seen) -> Duration) -> f64 {
        self.median(|round| round.subject.server.as_ref().map_or(f64::NAN, |seen| millis(of(seen))))
    }

    /// Microseconds of processor time that one request cost the two servers.
    fn cpu(&self) -> (f64, f64) {
        let micros = |side: &Side| side.server.map_or(f64::NAN, |seen| seen.cpu.as_secs_f64() * 1e6);
        (self.median(|round| micros(&round.subject)), self.median(|round| micros(&round.base)))
    }

    fn memory(&self) -> Memory {
        most(self.rounds.iter().filter_map(|round| Some(round.subject.server?.memory)))
    }

    fn json(&self) -> Value {
        json!({
            "what": self.what,
            "against": self.against,
            "ratio": self.ratio(),
            "bar": self.bar,
            "met": self.ratio() >= self.bar,
            "p50_ms": self.millis(|seen| seen.outcome.p50),
            "p99_ms": self.millis(|seen| seen.outcome.p99),
            "cpu_us": self.cpu().0,
            "against_cpu_us": self.cpu().1,
            "rss_bytes": self.memory().now,
            "peak_rss_bytes": self.memory().peak,
            "rounds": self.rounds.iter().map(|round| json!([round.subject.per_second, round.base.per_second])).collect::<Vec<_>>(),
        })
    }
}

/// How long a page took: the middle and the slowest of a hundred.
pub struct PageTime {
    pub page: String,
    pub p50: Duration,
    pub p99: Duration,
}

pub struct Report {
    rows: Vec<Measured>,
    pages: Vec<PageTime>,
    quiet: bool,
}

impl Report {
    pub fn new(plan: &Plan) -> Report {
        Report { rows: Vec::new(), pages: Vec::new(), quiet: plan.json }
    }

    /// How it goes, for whoever waits.
    pub fn tell(&self, news: &str) {
        if !self.quiet {
            eprintln!("{news}");
        }
    }

    pub fn add(&mut self, row: Measured) {
        self.rows.push(row);
    }

    /// What the row of pages consists of.
    pub fn add_pages(&mut self, pages: Vec<PageTime>) {
        self.pages = pages;
    }

    /// Of the rows that are held to this bar, if there are any.
    fn memory(&self, bar: u64) -> Option<Memory> {
        let all: Vec<Memory> = self.rows.iter().filter(|row| row.memory_bar == bar).map(Measured::memory).collect();
        (!all.is_empty()).then(|| most(all))
    }

    pub fn print_json(&self) {
        let rows: Vec<Value> = self.rows.iter().map(Measured::json).collect();
        let page = |page: &PageTime| json!({"page": page.page, "p50_ms": millis(page.p50), "p99_ms": millis(page.p99)});
        let pages: Vec<Value> = self.pages.iter().map(page).collect();
        let held = |bar| {
            let told = |memory: Memory| json!({"rss_bytes": memory.now, "peak_rss_bytes": memory.peak, "bar_bytes": bar, "met": memory.peak < bar});
            self.memory(bar).map(told)
        };
        println!(
            "{:#}",
            json!({"rows": rows, "pages": pages, "memory": held(MEMORY_BAR), "mail_memory": held(MAIL_MEMORY_BAR),
            "broadcast_memory": held(BROADCAST_MEMORY_BAR)})
        );
    }

    /// Markdown, to be pasted where figures are kept.
    pub fn print_table(&self) {
        println!("\n| What | Requests/s | CPU | p50 | p99 | Against | Its figure | CPU | Ratio | Bar | |");
        println!("|---|--:|--:|--:|--:|---|--:|--:|--:|--:|---|");
        for row in &self.rows {
            println!(
                "| {} | {:.0} | {:.0} µs | {:.1} ms | {:.1} ms | {} | {:.0} | {} | {:.2} | ≥ {:.2} | {} |",
                row.what,
                row.median(|round| round.subject.per_second),
                row.cpu().0,
                row.millis(|seen| seen.outcome.p50),
                row.millis(|seen| seen.outcome.p99),
                row.against,
                row.median(|round| round.base.per_second),
                if row.cpu().1.is_finite() { format!("{:.0} µs", row.cpu().1) } else { "–".into() },
                row.ratio(),
                row.bar,
                verdict(row.ratio() >= row.bar),
            );
        }
        if !self.pages.is_empty() {
            println!("\n| Page | p50 | p99 |\n|---|--:|--:|");
        }
        for PageTime { page, p50, p99 } in &self.pages {
            println!("| `{page}` | {:.1} ms | {:.1} ms |", millis(*p50), millis(*p99));
        }
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        for (what, bar) in [
            ("a run", MEMORY_BAR),
            ("mail went through it", MAIL_MEMORY_BAR),
            ("a broadcast was queued", BROADCAST_MEMORY_BAR),
        ] {
            let Some(memory) = self.memory(bar) else { continue };
            println!(
                "\nMemory of the server after {what}: {:.1} MiB, at most {:.1} MiB; bar for the most < {:.0} MiB: {}",
                mebibytes(memory.now),
                mebibytes(memory.peak),
                mebibytes(bar),
                verdict(memory.peak < bar),
            );
        }
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn most(held: impl IntoIterator<Item = Memory>) -> Memory {
    held.into_iter().fold(Memory::default(), |most, memory| Memory {
        now: most.now.max(memory.now),
        peak: most.peak.max(memory.peak),
    })
}

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "NOT met" }
}
