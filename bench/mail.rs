//! Mails that are handed in: how fast they are taken, one by one and many at once. Whoever takes
//! them does not deliver them: that is measured by itself.

use serde_json::{Value, json};

use crate::Plan;
use crate::postgres::Database;
use crate::report::{MAIL_MEMORY_BAR, Report};
use crate::rows::{Side, compare_within, load, measure};
use crate::server::Server;
use crate::store::Store;
use crate::workload::Workload;

pub const SENDER: &str = "hello@acme.example";

/// How many bytes the body of a mail has.
pub const SIZE: usize = 2 << 10;

/// How many mails one request hands in at most.
pub const BATCH: usize = 100;

/// A mail as the API takes it.
pub fn body(to: &str, size: usize) -> Value {
    json!({"from": format!("Acme <{SENDER}>"), "to": to, "subject": "Your order", "text": text(size)})
}

/// So many bytes in lines of 64.
pub fn text(size: usize) -> String {
    let line = "Thank you for your order. We will write again when it leaves us";
    (0..size / 64).flat_map(|_| [line, "\n"]).collect()
}

fn taking(store: &Store) -> anyhow::Result<Server> {
    Server::with_settings(store, &["--role".into(), "api".into()])
}

fn one_by_one(store: &Store) -> anyhow::Result<Workload> {
    Ok(Workload::email(&store.key()?, SIZE))
}

pub fn emails(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    compare_within(
        MAIL_MEMORY_BAR,
        plan,
        report,
        ("POST /emails, 2 KiB, SQLite, 64 connections", "empty handler", 0.20),
        || load(plan, Server::empty, &Store::sqlite()?, 64, |_| Ok(Workload::email("none", SIZE))),
        || load(plan, taking, &Store::sqlite()?, 64, one_by_one),
    )
}

pub fn emails_postgres(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let database = Database::create()?;
    let store = database.store();
    store.key()?;
    database.prepare()?;
    compare_within(
        MAIL_MEMORY_BAR,
        plan,
        report,
        ("POST /emails, 2 KiB, PostgreSQL, 64 connections", "pgbench, one-row inserts, 32 clients", 0.4),
        || {
            database.settle()?;
            Ok(Side { per_second: database.pgbench(plan)?, server: None })
        },
        || {
            database.settle()?;
            load(plan, taking, &store, 64, one_by_one)
        },
    )
}

/// Mails a second, not requests.
pub fn emails_batch(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    compare_within(
        MAIL_MEMORY_BAR,
        plan,
        report,
        ("mails by POST /emails/batch of 100, 2 KiB, SQLite, 16 connections", "POST /emails, 64 connections", 2.0),
        || load(plan, taking, &Store::sqlite()?, 64, one_by_one),
        || {
            let store = Store::sqlite()?;
            let mut workload = Workload::emails(&store.key()?, SIZE, BATCH);
            let side = measure(plan, &taking(&store)?, 16, &mut workload)?;
            Ok(side.times(BATCH))
        },
    )
}
