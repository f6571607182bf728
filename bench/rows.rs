//! The rows of the table: what is measured, what it is compared with, and the
//! bar it has to clear.

use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;

use crate::Plan;
use crate::broadcast;
use crate::client::{self, Outcome};
use crate::delivery;
use crate::login;
use crate::mail;
use crate::metrics;
use crate::paced;
use crate::pages;
use crate::postgres::Database;
use crate::report::{MEMORY_BAR, Measured, Report};
use crate::reports;
use crate::runs;
use crate::segments;
use crate::server::{Memory, Server};
use crate::store::Store;
use crate::submission;
use crate::tracking;
use crate::webhooks;
use crate::workload::{self, Names, Workload};

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
    /// POST /events by a thousand workspaces that take turns, against by one
    EventsWorkspaces,
    /// GET /events with an access token on SQLite, against the empty handler
    TokenSqlite,
    /// Refreshes of access tokens on SQLite, against the empty handler
    RefreshSqlite,
    /// The slowest POST /events while a crowd logs in, against without it
    Logins,
    /// The slowest of 1,000 GET /events/{id} a second beside 10,000 writes, against beside the empty handler
    Reads,
    /// POST /events/send that starts three automations on SQLite, against the empty handler
    SendSqlite,
    /// POST /events/send that starts three automations on PostgreSQL, against pgbench
    SendPostgres,
    /// POST /events/send by two processes on one PostgreSQL, against by one
    TwoProcesses,
    /// What an event with its contact and three runs adds to SQLite's file, against 1,300 bytes
    Growth,
    /// Steps of runs on SQLite, against the empty handler's requests
    StepsSqlite,
    /// POST /events/send with a million runs asleep, against with none
    Sleeping,
    /// The slowest POST /events while 100,000 timers are drained, against 100 ms
    Timers,
    /// POST /emails on SQLite, against the empty handler
    Emails,
    /// POST /emails on PostgreSQL, against pgbench
    EmailsPostgres,
    /// Mails by POST /emails/batch on SQLite, against one by one
    EmailsBatch,
    /// Mails to Postfix's smtp-sink by 16 connections, against Postfix's smtp-source
    Delivery,
    /// The same signed with RSA-2048, against what the signatures alone would leave
    DeliverySigned,
    /// Mails handed in by SMTP and delivered to smtp-sink, against Postfix
    Submission,
    /// Mails of 100 KiB from POST /emails to smtp-sink, against 230 a second
    Large,
    /// Mails to 999 sites beside one that never answers, against without it
    Tarpit,
    /// POST /contacts with segments that fill themselves, against without any
    SegmentChanges,
    /// A segment of a million contacts counted and its first page read, against 200 ms
    SegmentCount,
    /// Recipients of a broadcast that are queued, against 10,000 a second; and the slowest requests meanwhile
    BroadcastQueued,
    /// A broadcast to Postfix's smtp-sink, against single mails
    BroadcastDelivery,
    /// The slowest single mail during a broadcast, against a second
    BroadcastBeside,
    /// GET /emails/metrics over ten million events, against 50 ms
    Metrics,
    /// GET /t/image of tracked mail on SQLite, against the empty handler
    TrackedImage,
    /// GET /t/link of tracked mail on SQLite, against the empty handler
    TrackedLink,
    /// Reports of bounces brought by SMTP, against 1,000 a second
    Reports,
    /// Events delivered to a webhook's endpoint, against a bare client
    Webhooks,
    /// The slowest page of the dashboard with a million contacts, events, runs and mails, against 50 ms
    Pages,
}

/// One side of a comparison in one run.
#[derive(Clone, Copy)]
pub struct Side {
    pub per_second: f64,
    pub server: Option<Seen>,
}

impl Side {
    /// Where one request does so much.
    pub fn times(self, count: usize) -> Side {
        let seen = |seen: Seen| Seen { cpu: seen.cpu / count as u32, ..seen };
        Side { per_second: self.per_second * count as f64, server: self.server.map(seen) }
    }
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

    /// Whether it needs a PostgreSQL server.
    pub fn is_on_postgres(self) -> bool {
        matches!(self, Row::EventsPostgres | Row::SendPostgres | Row::TwoProcesses | Row::EmailsPostgres)
    }

    pub fn measure(self, plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
        match self {
            Row::EventsSqlite => compare(
                plan,
                report,
                events_sqlite(plan.names),
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
                ("GET /oauth/authorize, SQLite, 256 connections", "empty handler", 0.45),
                || load(plan, Server::empty, &Store::sqlite()?, 256, |_| Ok(Workload::authorize())),
                || load(plan, Server::real, &Store::sqlite()?, 256, |_| Ok(Workload::authorize())),
            ),
            Row::TokenSqlite => compare(
                plan,
                report,
                ("GET /events with an access token, SQLite, 256 connections", "empty handler", 0.35),
                || load(plan, Server::empty, &Store::sqlite()?, 256, |_| Ok(Workload::list_events("none"))),
                || with_a_token(plan),
            ),
            Row::RefreshSqlite => compare(
                plan,
                report,
                ("POST /oauth/token, refreshes, SQLite, 256 connections", "empty handler", 0.25),
                || load(plan, Server::empty, &Store::sqlite()?, 256, refresh(256)),
                || load(plan, Server::real, &Store::sqlite()?, 256, refresh(256)),
            ),
            Row::Logins => compare(
                plan,
                report,
                ("POST /events, 1/p99 beside 64 logins at once, SQLite, 16 connections", "without logins", 1.0 / 3.0),
                || beside_logins(plan, 0),
                || beside_logins(plan, 64),
            ),
            Row::Reads => compare(
                plan,
                report,
                (
                    "GET /events/{id}, 1,000/s, 1/p99 beside 10,000 POST /events a second, SQLite",
                    "beside 10,000/s to the empty handler",
                    0.5,
                ),
                || paced::reads_beside_writes(plan, false),
                || paced::reads_beside_writes(plan, true),
            ),
            Row::EventsPostgres => on_postgres(plan, report),
            Row::EventsStored => on_a_full_store(plan, report),
            Row::EventsWorkspaces => compare(
                plan,
                report,
                ("POST /events, 1,000 workspaces and keys taking turns, SQLite, 256 connections", "one of each", 0.90),
                || load(plan, Server::real, &Store::sqlite()?, 256, by_workspaces(plan, 1)),
                || load(plan, Server::real, &Store::sqlite()?, 256, by_workspaces(plan, 1000)),
            ),
            Row::SendSqlite => runs::send_sqlite(plan, report),
            Row::SendPostgres => runs::send_postgres(plan, report),
            Row::TwoProcesses => runs::two_processes(plan, report),
            Row::Growth => runs::growth(plan, report),
            Row::StepsSqlite => runs::steps_sqlite(plan, report),
            Row::Sleeping => runs::sleeping_runs(plan, report),
            Row::Timers => runs::timers(plan, report),
            Row::Emails => mail::emails(plan, report),
            Row::EmailsPostgres => mail::emails_postgres(plan, report),
            Row::EmailsBatch => mail::emails_batch(plan, report),
            Row::Delivery => delivery::plain(plan, report),
            Row::DeliverySigned => delivery::signed(plan, report),
            Row::Submission => submission::submission(plan, report),
            Row::Large => delivery::large(plan, report),
            Row::Tarpit => delivery::tarpit(plan, report),
            Row::SegmentChanges => segments::changes(plan, report),
            Row::SegmentCount => segments::count(plan, report),
            Row::BroadcastQueued => broadcast::queued(plan, report),
            Row::BroadcastDelivery => broadcast::delivered(plan, report),
            Row::BroadcastBeside => broadcast::beside(plan, report),
            Row::Metrics => metrics::metrics(plan, report),
            Row::TrackedImage => tracking::image(plan, report),
            Row::TrackedLink => tracking::link(plan, report),
            Row::Reports => reports::reports(plan, report),
            Row::Webhooks => webhooks::webhooks(plan, report),
            Row::Pages => pages::pages(plan, report),
        }
        .with_context(|| format!("{self:?}"))
    }
}

/// What the row is called, what it is compared with, and its bar: names in no order
/// at all cost the store a page each.
fn events_sqlite(names: Names) -> (&'static str, &'static str, f64) {
    match names {
        Names::Shops => ("POST /events, SQLite, 256 connections", "empty handler", 0.50),
        Names::Random => ("POST /events, names in random order, SQLite, 256 connections", "empty handler", 0.36),
        Names::Ascending => ("POST /events, names in order, SQLite, 256 connections", "empty handler", 0.50),
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

fn refresh(connections: usize) -> impl Fn(&Store) -> anyhow::Result<Workload> {
    move |store| Ok(Workload::refresh(store.refresh_tokens(connections)?))
}

/// `GET /events` with a token that the measured server itself has signed.
fn with_a_token(plan: &Plan) -> anyhow::Result<Side> {
    let store = Store::sqlite()?;
    let token = store.refresh_tokens(1)?.pop().context("a refresh token")?;
    let server = Server::real(&store)?;
    let body = format!("grant_type=refresh_token&client_id={}&refresh_token={token}", workload::CLIENT_ID);
    let answer = login::post(server.address, "/oauth/token", "", &body)?;
    let json: serde_json::Value = serde_json::from_str(&answer.body)?;
    let mut workload = Workload::list_events(json["access_token"].as_str().context("an access token")?);
    measure(plan, &server, 256, &mut workload)
}

/// How fast the slowest of a hundred `POST /events` is, while so many people log
/// in at once, again and again.
fn beside_logins(plan: &Plan, people: usize) -> anyhow::Result<Side> {
    let store = Store::sqlite()?;
    store.owner()?;
    let mut workload = Workload::define_event(&store.key()?, plan.names);
    let server = Server::real(&store)?;
    let crowd = login::Crowd::start(server.address, people)?;
    let side = measure(plan, &server, 16, &mut workload)?;
    let logins = crowd.stop()?;
    anyhow::ensure!(people == 0 || logins > 0, "nobody could log in");
    let p99 = side.server.context("a server")?.outcome.p99;
    Ok(Side { per_second: 1.0 / p99.as_secs_f64(), ..side })
}

fn define_event(plan: &Plan) -> impl Fn(&Store) -> anyhow::Result<Workload> {
    |store| Ok(Workload::define_event(&store.key()?, plan.names))
}

fn by_workspaces(plan: &Plan, count: usize) -> impl Fn(&Store) -> anyhow::Result<Workload> {
    move |store| Ok(Workload::define_event_by(store.keys(count)?, plan.names))
}

/// Starts a server on a store, loads it, and stops it.
pub fn load(
    plan: &Plan,
    start: impl Fn(&Store) -> anyhow::Result<Server>,
    store: &Store,
    connections: usize,
    workload: impl Fn(&Store) -> anyhow::Result<Workload>,
) -> anyhow::Result<Side> {
    let mut workload = workload(store)?;
    store.settle()?;
    measure(plan, &start(store)?, connections, &mut workload)
}

/// Loads a server that runs.
pub fn measure(plan: &Plan, server: &Server, connections: usize, workload: &mut Workload) -> anyhow::Result<Side> {
    let outcome = client::run(server.address, connections, workload, plan.warm_up(), plan.measured())?;
    let cpu = server.cpu()?.div_f64(outcome.answered as f64);
    let seen = Seen { outcome, memory: server.memory()?, cpu };
    Ok(Side { per_second: outcome.per_second, server: Some(seen) })
}

/// Lets two sides take turns, and puts what they did into the report.
pub fn compare(
    plan: &Plan,
    report: &mut Report,
    row: (&str, &str, f64),
    base: impl FnMut() -> anyhow::Result<Side>,
    subject: impl FnMut() -> anyhow::Result<Side>,
) -> anyhow::Result<()> {
    compare_within(MEMORY_BAR, plan, report, row, base, subject)
}

/// The same, with another bar for the most that the server may hold in memory.
pub fn compare_within(
    memory_bar: u64,
    plan: &Plan,
    report: &mut Report,
    (what, against, bar): (&str, &str, f64),
    mut base: impl FnMut() -> anyhow::Result<Side>,
    mut subject: impl FnMut() -> anyhow::Result<Side>,
) -> anyhow::Result<()> {
    let mut measured = Measured::new(what, against, bar).within(memory_bar);
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
