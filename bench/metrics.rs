//! The numbers of ten million things that happened to mail: counted as commits count them, added up by
//! the server itself, and then asked for. Mails one by one are asked for beside them.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use posthorn::clock::{Clock, DAY, MINUTE, rfc3339};
use posthorn::id::{EmailId, Id, own_id, shared_id};
use rusqlite::{Connection, Transaction};
use uuid::Uuid;

use crate::Plan;
use crate::report::Report;
use crate::rows::{Side, compare, measure};
use crate::server::Server;
use crate::store::Store;
use crate::workload::Workload;

/// Commits that counted, and what each of them counted: a hundred recipients that were sent to and
/// of whom most got their mail.
const COMMITS: i64 = 50_000;
const EACH: [(&str, i64); 4] = [("sent", 100), ("delivered", 95), ("bounced_permanent", 3), ("bounced_transient", 2)];

/// Over how many days, and by how many domains and broadcasts.
const DAYS: i64 = 30;
const DOMAINS: i64 = 4;
const BROADCASTS: i64 = 20;

/// How long adding up may take before the measurement is given up.
const PATIENCE: Duration = Duration::from_secs(300);

/// Mails one by one, whose numbers are found in their histories: as many of a broadcast as by themselves, and how many
/// of the latter came after it, so that the newest are of both.
const MAILS: i64 = 20_000;
const AFTER: i64 = 500;

/// How many are named in one question, half of them the broadcast's.
const NAMED: i64 = 100;

/// What is asked for, one after the other.
const QUERIES: [&str; 6] = [
    "",
    "&dimensions=period",
    "&dimensions=period,domain",
    "&dimensions=domain,broadcast&metrics=sent,delivery_rate",
    "&dimensions=email",
    "&dimensions=period,email&granularity=hourly",
];

/// Counts past the server, in rows as commits make them.
fn count(store: &Store) -> anyhow::Result<()> {
    let mut connection = Connection::open(store.file().context("only an SQLite store is prepared so")?)?;
    let workspace: Vec<u8> = connection.query_row("SELECT id FROM workspaces", [], |row| row.get(0))?;
    let clock = Clock::system();
    let begins = clock.now() - DAYS * DAY;
    let filling = connection.transaction()?;
    for n in 0..COMMITS {
        let at = begins + DAYS * DAY / COMMITS * n;
        let (id, period): (Uuid, i64) = (clock.ordered_id(), at - at.rem_euclid(15 * MINUTE));
        let broadcast = if n % 2 == 0 { 0 } else { 1 + n % BROADCASTS };
        let [sent, delivered, permanent, transient] = EACH.map(|(_, count)| count);
        filling
            .prepare_cached(
                "INSERT INTO email_count_deltas (workspace_id, id, period, domain, broadcast_id, sent, delivered,
                     delivery_delayed, bounced_permanent, bounced_transient, bounced_undetermined, complained,
                     suppressed, failed, opened, unique_opened, clicked, unique_clicked, unsubscribed, received)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 0, ?8, ?9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)",
            )?
            .execute((
                &workspace,
                id.uuid().into_bytes(),
                period,
                format!("d{}.example", n % DOMAINS),
                Uuid::from_u128(broadcast as u128).into_bytes(),
                sent,
                delivered,
                permanent,
                transient,
            ))?;
    }
    filling.commit()?;
    Ok(())
}

/// Mails that were delivered, each with its history; tells the ids of some.
fn add_mails(store: &Store) -> anyhow::Result<Vec<EmailId>> {
    let mut connection = Connection::open(store.file().context("only an SQLite store is prepared so")?)?;
    let workspace: Vec<u8> = connection.query_row("SELECT id FROM workspaces", [], |row| row.get(0))?;
    let clock = Clock::system();
    let filling = connection.transaction()?;
    let mut named = Vec::new();
    for n in 0..MAILS {
        if n == MAILS - AFTER {
            let shared = add_broadcast(&filling, &workspace, &clock)?;
            named.extend((1..=NAMED / 2).map(|number| own_id(shared, number * (MAILS / NAMED))));
        }
        let id: EmailId = clock.ordered_id();
        add_mail(&filling, &workspace, (id, "api"), clock.now())?;
        add_history(&filling, &workspace, (id, 0), &clock)?;
        if n % (MAILS / NAMED * 2) == 0 {
            named.push(id);
        }
    }
    filling.commit()?;
    Ok(named)
}

fn add_broadcast(filling: &Transaction<'_>, workspace: &[u8], clock: &Clock) -> anyhow::Result<EmailId> {
    let (id, now): (EmailId, i64) = (shared_id(clock.ordered_id()), clock.now());
    add_mail(filling, workspace, (id, "broadcast"), now)?;
    filling.execute(
        "INSERT INTO broadcasts (id, workspace_id, name, segment_id, sender, subject, reply_to, state, created_at,
             started_at, ended_at, lane, is_audience_whole, recipients, left_out, attempt)
         VALUES (?1, ?2, 'News', ?1, 'a@d0.example', 'News', '[]', 'sent', ?3, ?3, ?3, 100, TRUE, ?4, '{}', 0)",
        (id.uuid().into_bytes(), workspace, now, MAILS),
    )?;
    for number in 1..=MAILS {
        add_history(filling, workspace, (own_id(id, number), number), clock)?;
    }
    Ok(id)
}

fn add_mail(
    filling: &Transaction<'_>,
    workspace: &[u8],
    (id, origin): (EmailId, &str),
    now: i64,
) -> anyhow::Result<()> {
    filling
        .prepare_cached(
            "INSERT INTO emails (id, workspace_id, created_at, origin, lane, sender, sender_domain, subject, envelope,
                 message_id, state, updated_at, when_uncertain)
             VALUES (?1, ?2, ?3, ?4, 0, 'a@d0.example', 'd0.example', 'Hi', '{}', '<a@d0.example>', 40, ?3, 'retry')",
        )?
        .execute((id.uuid().into_bytes(), workspace, now, origin))?;
    Ok(())
}

fn add_history(
    filling: &Transaction<'_>,
    workspace: &[u8],
    (id, number): (EmailId, i64),
    clock: &Clock,
) -> anyhow::Result<()> {
    for kind in ["sent", "delivered"] {
        let event: Uuid = clock.ordered_id();
        filling
            .prepare_cached(
                "INSERT INTO email_events (workspace_id, email_id, id, number, type, detail, created_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, '{}', ?6)",
            )?
            .execute((workspace, id.uuid().into_bytes(), event.into_bytes(), number, kind, clock.now()))?;
    }
    Ok(())
}

/// Waits until the server has added up everything.
fn wait_until_added_up(store: &Store) -> anyhow::Result<()> {
    let connection = Connection::open(store.file().context("an SQLite store")?)?;
    let patience = Instant::now() + PATIENCE;
    let is_there = || connection.query_row("SELECT EXISTS (SELECT 1 FROM email_count_deltas)", [], |row| row.get(0));
    while is_there()? {
        ensure!(Instant::now() < patience, "the counters are not added up after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    let sum = "SELECT SUM(sent + delivered + bounced_permanent + bounced_transient) FROM email_counts";
    let sum: i64 = connection.query_row(sum, [], |row| row.get(0))?;
    let expected = COMMITS * EACH.iter().map(|(_, count)| count).sum::<i64>();
    ensure!(sum == expected, "{sum} things are counted, not {expected}");
    Ok(())
}

/// Ten million things that happened, as the server has added them up.
pub fn count_and_add_up(store: &Store) -> anyhow::Result<()> {
    count(store)?;
    let server = Server::real(store)?;
    wait_until_added_up(store)?;
    drop(server);
    store.settle()
}

/// The slowest of a hundred times that the numbers of 30 days are asked for in the slowest way, as 1/p99 against 50 ms.
pub fn metrics(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let store = Store::sqlite()?;
    let key = store.key()?;
    count_and_add_up(&store)?;
    let named: Vec<String> = add_mails(&store)?.iter().map(EmailId::to_string).collect();
    let named = format!("&dimensions=email&email_id={}", named.join(","));
    store.settle()?;
    compare(
        plan,
        report,
        ("GET /emails/metrics over 10,000,000 events, 1/p99, SQLite", "50 ms", 1.0),
        || Ok(Side { per_second: 20.0, server: None }),
        || {
            let server = Server::real(&store)?;
            let begins = rfc3339(Clock::system().now() - DAYS * DAY);
            let (mut slowest, mut seen) = (0.0_f64, None);
            for query in QUERIES.into_iter().chain([named.as_str()]) {
                let path = format!("/emails/metrics?start_date={begins}{query}");
                let side = measure(plan, &server, 1, &mut Workload::get(&path, &key))?;
                slowest = slowest.max(side.server.context("a server")?.outcome.p99.as_secs_f64());
                seen = side.server;
            }
            Ok(Side { per_second: 1.0 / slowest, server: seen })
        },
    )
}
