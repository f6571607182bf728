//! The rows of the table: what is measured, what it is compared with, and the
//! bar it has to clear.

use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;

use crate::Plan;
use crate::client::{self, Outcome};
use crate::postgres::Database;
use crate::report::{Measured, Report};
use crate::server::{Memory, Server};
use crate::store::Store;
use crate::workload::Workload;

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    /// POST /events on SQLite, against the empty handler
    EventsSqlite,
    /// GET /oauth/authorize on SQLite, against the empty handler
    AuthorizeSqlite,
    /// POST /events on PostgreSQL, against pgbench
    EventsPostgres,
    /// POST /events on a full SQLite store, against an empty one
    EventsStored,
}

/// One side of a comparison in one run.
#[derive(Clone, Copy)]
pub struct Side {
    pub per_second: f64,
    pub server: Option<Seen>,
}

/// What was seen of a server under load.
#[derive(Clone, Copy)]
pub struct Seen {
    pub outcome: Outcome,
    pub memory: Memory,
    /// Processor time of the server for one request.
    pub cpu: Duration,
}

impl Row {
    pub fn all() -> Vec<Row> {
        Row::value_variants().to_vec()
    }

    pub fn measure(self, plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
        match self {
            Row::EventsSqlite => compare(
                plan,
                report,
                ("POST /events, SQLite, 256 connections", "empty handler", 0.50),
                || {
                    load(plan, Server::empty, &Store::sqlite()?, 256, |_| {
                        Ok(Workload::define_event("none", plan.names))
                    })
                },
                || load(plan, Server::real, &Store::sqlite()?, 256, define_event(plan)),
            ),
            Row::AuthorizeSqlite => compare(
                plan,
                report,
                ("GET /oauth/authorize, SQLite, 256 connections", "empty handler", 0.40),
                || load(plan, Server::empty, &Store::sqlite()?, 256, |_| Ok(Workload::authorize())),
                || load(plan, Server::real, &Store::sqlite()?, 256, |_| Ok(Workload::authorize())),
            ),
            Row::EventsPostgres => on_postgres(plan, report),
            Row::EventsStored => on_a_full_store(plan, report),
        }
        .with_context(|| format!("{self:?}"))
    }
}

fn on_postgres(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let database = Database::create()?;
    let store = database.store();
    store.key()?;
    database.prepare()?;
    compare(
        plan,
        report,
        ("POST /events, PostgreSQL, 64 connections", "pgbench, one-row inserts, 32 clients", 1.2),
        || {
            database.settle()?;
            Ok(Side { per_second: database.pgbench(plan)?, server: None })
        },
        || {
            database.settle()?;
            load(plan, Server::real, &store, 64, define_event(plan))
        },
    )
}

fn on_a_full_store(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let full = Store::sqlite()?;
    full.key()?;
    full.fill(plan.stored, plan.names)?;
    let what = format!("POST /events, SQLite, {} events stored", plan.stored);
    compare(
        plan,
        report,
        (&what, "the same on an empty table", 0.85),
        || load(plan, Server::real, &Store::sqlite()?, 256, define_event(plan)),
        || load(plan, Server::real, &full, 256, define_event(plan)),
    )
}

fn define_event(plan: &Plan) -> impl Fn(&Store) -> anyhow::Result<Workload> {
    |store| Ok(Workload::define_event(&store.key()?, plan.names))
}

/// Starts a server on a store, loads it, and stops it.
fn load(
    plan: &Plan,
    start: impl Fn(&Store) -> anyhow::Result<Server>,
    store: &Store,
    connections: usize,
    workload: impl Fn(&Store) -> anyhow::Result<Workload>,
) -> anyhow::Result<Side> {
    let mut workload = workload(store)?;
    store.settle()?;
    let server = start(store)?;
    let outcome = client::run(server.address, connections, &mut workload, plan.warm_up(), plan.measured())?;
    let cpu = server.cpu()?.div_f64(outcome.answered as f64);
    let seen = Seen { outcome, memory: server.memory()?, cpu };
    Ok(Side { per_second: outcome.per_second, server: Some(seen) })
}

/// Lets two sides take turns, and puts what they did into the report.
fn compare(
    plan: &Plan,
    report: &mut Report,
    (what, against, bar): (&str, &str, f64),
    mut base: impl FnMut() -> anyhow::Result<Side>,
    mut subject: impl FnMut() -> anyhow::Result<Side>,
) -> anyhow::Result<()> {
    let mut measured = Measured::new(what, against, bar);
    for round in 1..=plan.rounds {
        let (base, subject) = (base()?, subject()?);
        measured.add(base, subject);
        report.tell(&format!(
            "{what}: round {round} of {}: {:.0}/s against {:.0}/s",
            plan.rounds, subject.per_second, base.per_second
        ));
    }
    report.add(measured);
    Ok(())
}
