//! How fast is Posthorn, as ratios that hold on any machine?
//!
//! `cargo bench` runs everything and prints a table; `cargo bench -- --help`
//! tells what can be chosen. Each figure comes from runs that alternate with
//! runs of something to compare with, so that a machine's mood touches both.

mod broadcast;
mod client;
mod delivery;
mod dns;
mod empty;
mod login;
mod mail;
mod metrics;
mod million;
mod paced;
mod pages;
mod postfix;
mod postgres;
mod report;
mod reports;
mod rows;
mod runs;
mod segments;
mod server;
mod store;
mod submission;
mod tracking;
mod webhooks;
mod workload;

use std::time::Duration;

use clap::Parser;

use report::Report;
use rows::Row;
use workload::Names;

// As in the product itself: the empty handler must not pay for another one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures Posthorn on this machine and prints ratios.
#[derive(Parser, Debug)]
#[command(name = "load")]
pub struct Plan {
    /// The rows to measure [default: all]
    #[arg(value_enum)]
    rows: Vec<Row>,

    /// How often the things to compare take turns
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// Seconds that one measurement lasts
    #[arg(long, default_value_t = 5.0, value_parser = seconds)]
    seconds: f64,

    /// Seconds of load before a measurement
    #[arg(long, default_value_t = 1.0, value_parser = seconds)]
    warm_up: f64,

    /// Events already stored in the row that asks what they cost
    #[arg(long, default_value_t = 5_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    stored: u64,

    /// Events sent in the row that asks how much they make the file grow
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    count: u64,

    /// Mails that wait in the rows that deliver them
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1_000..=10_000_000))]
    mails: u64,

    /// People whom broadcasts go to
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1_000..=10_000_000))]
    people: u64,

    /// In which order the names of events come
    #[arg(long, value_enum, default_value_t = Names::Shops)]
    names: Names,

    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,

    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

impl Plan {
    fn measured(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    fn warm_up(&self) -> Duration {
        Duration::from_secs_f64(self.warm_up)
    }
}

fn seconds(given: &str) -> Result<f64, String> {
    match given.parse() {
        Ok(seconds) if (0.1..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("allowed are 0.1 to 600 seconds".into()),
    }
}

fn main() -> anyhow::Result<()> {
    if std::env::args().nth(1).as_deref() == Some(empty::MODE) {
        return empty::serve();
    }
    let plan = Plan::parse();
    let chosen = if plan.rows.is_empty() { Row::all() } else { plan.rows.clone() };
    if chosen.iter().any(|row| row.is_on_postgres()) && !postgres::in_reach() {
        return postgres::with_a_server();
    }
    let mut report = Report::new(&plan);
    for row in chosen {
        row.measure(&plan, &mut report)?;
    }
    if plan.json {
        report.print_json();
    } else {
        report.print_table();
    }
    Ok(())
}
