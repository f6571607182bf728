//! Events that start automations: how fast they are taken, how fast runs go on,
//! and what many runs cost.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use posthorn::automations::{Graph, Run};
use posthorn::clock::Clock;
use posthorn::id::Id;
use rusqlite::Connection;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::Plan;
use crate::client;
use crate::login::post_json;
use crate::postgres::Database;
use crate::report::{Measured, Report};
use crate::rows::{Side, compare, load, measure};
use crate::server::Server;
use crate::store::Store;
use crate::workload::Workload;

const EVENT: &str = "order.placed";

/// How many automations an event starts.
const AUTOMATIONS: usize = 3;

/// Runs that wait to be brought on where steps are counted.
const READY: u64 = 30_000;

const SLEEPING: u64 = 1_000_000;
const TIMERS: u64 = 100_000;

/// The most that an event, its new contact and its runs may add to SQLite's file.
const MOST_GROWTH: f64 = 1_300.0;
const GIGABYTE: f64 = 1e9;

/// Rows that one transaction of the filling holds.
const PORTION: u64 = 50_000;

/// How long a drain may take before it has failed.
const PATIENCE: Duration = Duration::from_secs(120);

/// A store with automations that listen, and a key to it.
struct Scene {
    store: Store,
    key: String,
    automations: Vec<Uuid>,
    graph: Graph,
}

impl Scene {
    /// So many automations of these steps, one leading to the next.
    fn new(store: Store, count: usize, steps: &[(&str, Value)]) -> anyhow::Result<Scene> {
        let key = store.key()?;
        let server = Server::real(&store)?;
        post_json(server.address, "/events", &key, &json!({ "name": EVENT }))?;
        let step = |(at, (kind, config)): (usize, &(&str, Value))| json!({"key": format!("s{at}"), "type": kind, "config": config});
        let all: Value = steps.iter().enumerate().map(step).collect();
        let exit = |at: usize| if steps[at].0 == "condition" { "condition_met" } else { "default" };
        let link = |at: usize| json!({"from": format!("s{at}"), "to": format!("s{}", at + 1), "type": exit(at)});
        let links: Value = (0..steps.len() - 1).map(link).collect();
        let body = json!({"name": "Load", "status": "enabled", "steps": all, "connections": links});
        let mut automations = Vec::new();
        for _ in 0..count {
            let made = post_json(server.address, "/automations", &key, &body)?;
            automations.push(made["id"].as_str().context("an automation")?.parse()?);
        }
        let graph = Graph::parse(&all, &links).map_err(|findings| anyhow::anyhow!("{findings:?}"))?;
        Ok(Scene { store, key, automations, graph })
    }

    fn sleepers(store: Store, count: usize) -> anyhow::Result<Scene> {
        Scene::new(store, count, &[trigger(), ("delay", json!({"duration": "1 day"}))])
    }

    fn connection(&self) -> anyhow::Result<Connection> {
        let connection = Connection::open(self.store.file().context("only an SQLite store is filled")?)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        Ok(connection)
    }

    /// Puts runs into the store past the server, each of a contact of its own,
    /// which began a second after the other and are due when `due` says.
    fn fill(&self, runs: u64, due: impl Fn(&Run) -> i64) -> anyhow::Result<()> {
        let connection = self.connection()?;
        connection.pragma_update(None, "synchronous", "OFF")?;
        connection.pragma_update(None, "cache_size", -1_000_000)?;
        let workspace: [u8; 16] = connection.query_row("SELECT id FROM workspaces", [], |row| row.get(0))?;
        let clock = Clock::fixed(Clock::system().now() - runs as i64 * 10_000);
        for start in (0..runs).step_by(PORTION as usize) {
            connection.execute_batch("BEGIN")?;
            for _ in start..runs.min(start + PORTION) {
                self.insert(&connection, workspace, &clock, &due)?;
                clock.advance(10_000);
            }
            connection.execute_batch("COMMIT")?;
        }
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }

    fn insert(
        &self,
        store: &Connection,
        workspace: [u8; 16],
        clock: &Clock,
        due: impl Fn(&Run) -> i64,
    ) -> anyhow::Result<()> {
        let id = || clock.ordered_id::<Uuid>().into_bytes();
        let (contact, occurrence, now) = (id(), id(), clock.now());
        let run = Run::begun(clock.ordered_id(), &self.graph, now, now);
        let email = format!("{}@example.com", run.id);
        store
            .prepare_cached(
                "INSERT INTO contacts (workspace_id, id, email, email_key, unsubscribed, properties, sequence, created_at)
                 VALUES (?1, ?2, ?3, ?3, 0, '{}', 2, ?4)",
            )?
            .execute((workspace, contact, &email, now))?;
        store
            .prepare_cached(
                "INSERT INTO occurrences (workspace_id, id, name, contact_id, seq, heard, payload, created_at)
                 VALUES (?1, ?2, ?3, ?4, 2, 0, '{\"plan\":\"pro\"}', ?5)",
            )?
            .execute((workspace, occurrence, EVENT, contact, now))?;
        store
            .prepare_cached(
                "INSERT INTO runs (automation_id, id, workspace_id, version, contact_id, occurrence_id, since, status,
                                   state, due_at, attempt, settled, created_at)
                 VALUES (?1, ?2, ?3, 1, ?4, ?5, 2, 'running', ?6, ?7, 0, 0, ?8)",
            )?
            .execute((
                self.automations[0].into_bytes(),
                run.id.uuid().into_bytes(),
                workspace,
                contact,
                occurrence,
                run.to_json(),
                due(&run),
                now,
            ))?;
        Ok(())
    }

    /// Waits until no run is due before `until`, and tells how long that took.
    fn drained(&self, until: i64) -> anyhow::Result<Duration> {
        let connection = self.connection()?;
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            let left: i64 = connection.query_row(
                "SELECT COUNT(*) FROM (SELECT 1 FROM runs WHERE due_at <= ?1 LIMIT 1)",
                [until],
                |row| row.get(0),
            )?;
            if left == 0 {
                return Ok(started.elapsed());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        anyhow::bail!("runs that were due are still waiting after {PATIENCE:?}")
    }

    /// The size of the file, with all of the log in it, and how many events it holds.
    fn size(&self) -> anyhow::Result<(u64, u64)> {
        let connection = self.connection()?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        let count: i64 = connection.query_row("SELECT COUNT(*) FROM occurrences", [], |row| row.get(0))?;
        let file = self.store.file().context("only an SQLite store has a file")?;
        Ok((file.metadata()?.len(), count as u64))
    }

    fn completed(&self) -> anyhow::Result<u64> {
        let count = "SELECT COUNT(*) FROM runs WHERE status = 'completed'";
        let count: i64 = self.connection()?.query_row(count, [], |row| row.get(0))?;
        Ok(count as u64)
    }
}

fn trigger() -> (&'static str, Value) {
    ("trigger", json!({ "event_name": EVENT }))
}

fn send_to_nobody(plan: &Plan) -> anyhow::Result<Side> {
    load(plan, Server::empty, &Store::sqlite()?, 64, |_| Ok(Workload::send_event("none", EVENT)))
}

fn send(plan: &Plan, scene: &Scene) -> anyhow::Result<Side> {
    load(plan, Server::real, &scene.store, 64, |_| Ok(Workload::send_event(&scene.key, EVENT)))
}

pub fn send_sqlite(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let what = "POST /events/send starting 3 automations, SQLite, 64 connections";
    compare(
        plan,
        report,
        (what, "empty handler", 0.25),
        || send_to_nobody(plan),
        || send(plan, &Scene::sleepers(Store::sqlite()?, AUTOMATIONS)?),
    )
}

pub fn send_postgres(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let database = Database::create()?;
    let scene = Scene::sleepers(database.store(), AUTOMATIONS)?;
    database.prepare()?;
    compare(
        plan,
        report,
        (
            "POST /events/send starting 3 automations, PostgreSQL, 64 connections",
            "pgbench, one-row inserts, 32 clients",
            0.38,
        ),
        || {
            database.settle()?;
            Ok(Side { per_second: database.pgbench(plan)?, server: None })
        },
        || {
            database.settle()?;
            send(plan, &scene)
        },
    )
}

/// What a second process on the same database brings, where both share the machine
/// with it.
pub fn two_processes(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let database = Database::create()?;
    let scene = Scene::sleepers(database.store(), AUTOMATIONS)?;
    let by = |processes: usize| {
        database.settle()?;
        send_to_processes(plan, &scene, processes)
    };
    compare(
        plan,
        report,
        ("POST /events/send starting 3 automations, PostgreSQL, two processes, 64 connections", "one process", 0.95),
        || by(1),
        || by(2),
    )
}

fn send_to_processes(plan: &Plan, scene: &Scene, processes: usize) -> anyhow::Result<Side> {
    let servers = (0..processes).map(|_| Server::real(&scene.store)).collect::<anyhow::Result<Vec<_>>>()?;
    let load = |(number, server): (usize, &Server)| {
        // Nobody sends what another sends.
        let mut workload = Workload::send_event(&scene.key, EVENT).ahead_by((number as u64) << 40);
        let outcome = client::run(server.address, 64 / processes, &mut workload, plan.warm_up(), plan.measured())?;
        anyhow::Ok(outcome.per_second)
    };
    let per_second = std::thread::scope(|scope| {
        let loads: Vec<_> = servers.iter().enumerate().map(|one| scope.spawn(move || load(one))).collect();
        let joined = loads.into_iter().map(|load| load.join().map_err(|_| anyhow::anyhow!("a load panicked"))?);
        joined.sum::<anyhow::Result<f64>>()
    })?;
    Ok(Side { per_second, server: None })
}

/// How many events, each with a new contact and its runs, a gigabyte of SQLite's
/// file holds. It is the same every time, so there is one round.
pub fn growth(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let scene = Scene::sleepers(Store::sqlite()?, AUTOMATIONS)?;
    let (size_before, count_before) = scene.size()?;
    let server = Server::real(&scene.store)?;
    let mut workload = Workload::send_event(&scene.key, EVENT);
    let mut answered = 0;
    while answered < plan.count {
        answered += client::run(server.address, 64, &mut workload, Duration::ZERO, plan.measured())?.answered;
    }
    drop(server);
    let (size, count) = scene.size()?;
    let bytes = (size - size_before) as f64 / (count - count_before) as f64;
    report.tell(&format!("{bytes:.0} bytes for each of {} events", count - count_before));
    let what = format!("events with a contact and {AUTOMATIONS} runs each in a gigabyte of SQLite's file");
    let mut measured = Measured::new(&what, &format!("{MOST_GROWTH} bytes each"), 1.0);
    let of = |bytes: f64| Side { per_second: GIGABYTE / bytes, server: None };
    measured.add(of(MOST_GROWTH), of(bytes));
    report.add(measured);
    Ok(())
}

/// Steps a second: each run has a condition, an update and a delay of nothing
/// before it.
pub fn steps_sqlite(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let rule = json!({"type": "rule", "field": "event.plan", "operator": "eq", "value": "pro"});
    let steps = [
        trigger(),
        ("condition", rule),
        ("contact_update", json!({"properties": {"plan": {"var": "event.plan"}}})),
        ("delay", json!({"duration": "0 seconds"})),
    ];
    compare(
        plan,
        report,
        ("run steps (condition, update, delay 0), SQLite", "empty handler, requests", 0.2),
        || send_to_nobody(plan),
        || {
            let scene = Scene::new(Store::sqlite()?, 1, &steps)?;
            scene.fill(READY, |_| 0)?;
            scene.store.settle()?;
            let server = Server::real(&scene.store)?;
            let took = scene.drained(i64::MAX)?;
            ensure!(scene.completed()? == READY, "not every run was completed");
            drop(server);
            Ok(Side { per_second: READY as f64 * (steps.len() - 1) as f64 / took.as_secs_f64(), server: None })
        },
    )
}

/// What a million runs that sleep cost those who send events.
pub fn sleeping_runs(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let full = Scene::sleepers(Store::sqlite()?, AUTOMATIONS)?;
    let later = Clock::system().now() + 30 * 86_400_000_000;
    full.fill(SLEEPING, |_| later)?;
    let what = format!("POST /events/send starting 3 automations, SQLite, {SLEEPING} runs asleep");
    compare(
        plan,
        report,
        (&what, "the same with none", 0.9),
        || send(plan, &Scene::sleepers(Store::sqlite()?, AUTOMATIONS)?),
        || send(plan, &full),
    )
}

/// The slowest of a hundred requests while timers that were due in one second
/// are drained; as 1/p99 against a p99 of 100 ms.
pub fn timers(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let what = format!("POST /events, 1/p99 while {TIMERS} timers of one second are drained, SQLite, 16 connections");
    compare(
        plan,
        report,
        (&what, "a p99 of 100 ms", 1.0),
        || Ok(Side { per_second: 10.0, server: None }),
        || {
            let steps = [trigger(), ("delay", json!({"duration": "1 second"})), ("exit", json!({}))];
            let scene = Scene::new(Store::sqlite()?, 1, &steps)?;
            let second = Clock::system().now();
            scene.fill(TIMERS, |run| second + i64::from(run.id.uuid().as_bytes()[15] % 64) * 1000)?;
            scene.store.settle()?;
            let server = Server::real(&scene.store)?;
            let started = Instant::now();
            let mut workload = Workload::define_event(&scene.key, plan.names);
            let side = measure(plan, &server, 16, &mut workload)?;
            let under_load = scene.completed()?;
            scene.drained(i64::MAX)?;
            report_drain(under_load, started.elapsed());
            ensure!(scene.completed()? == TIMERS, "not every run was completed");
            let p99 = side.server.context("a server")?.outcome.p99;
            Ok(Side { per_second: 1.0 / p99.as_secs_f64(), ..side })
        },
    )
}

fn report_drain(under_load: u64, took: Duration) {
    eprintln!("{under_load} timers were drained under load, all {TIMERS} within {:.1} s", took.as_secs_f64());
}
