//! A broadcast to many: how fast its audience is queued and what others notice of that, how fast it
//! leaves, and how long a mail waits meanwhile that somebody waits for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::json;

use crate::Plan;
use crate::client::{self, Outcome};
use crate::delivery::{ALL, Outbox, PATIENCE, side, unsigned};
use crate::login::post_json;
use crate::mail::{SENDER, SIZE, body, text};
use crate::paced;
use crate::postfix::Sink;
use crate::report::{BROADCAST_MEMORY_BAR, MAIL_MEMORY_BAR, Measured, Report};
use crate::rows::{Seen, Side, compare_within};
use crate::server::Server;
use crate::workload::Workload;

/// Recipients that have to be queued in a second: 100,000 in ten.
const LEAST_QUEUED: f64 = 10_000.0;

/// Requests a second that others make meanwhile.
const OTHERS: f64 = 100.0;

/// How long the slowest of a hundred of them may take, and a mail from being accepted to having arrived.
const SLOWEST_REQUEST: Duration = Duration::from_millis(100);
const SLOWEST_MAIL: Duration = Duration::from_secs(1);

/// How often a mail is handed in meanwhile.
const EVERY: Duration = Duration::from_millis(50);

impl Outbox {
    /// A draft of a broadcast to so many people.
    fn broadcast(&self, server: &Server, people: u64) -> anyhow::Result<String> {
        let made = |path: &str, body| -> anyhow::Result<String> {
            let made = post_json(server.address, path, self.key(), &body)?;
            Ok(made["id"].as_str().context("an id")?.to_owned())
        };
        let segment = made("/segments", json!({"name": "All"}))?;
        made("/contacts", json!({"email": "first@example.com", "segments": [{"id": segment}]}))?;
        let mut connection = self.connection()?;
        let filling = connection.transaction()?;
        filling.execute(
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1)
             INSERT INTO contacts (workspace_id, id, email, email_key, first_name, unsubscribed, properties, sequence,
                 created_at)
             SELECT c.workspace_id, unhex(printf('%032x', n)), 'customer-' || n || '@example.com',
                 'customer-' || n || '@example.com', 'Ada', FALSE, '{}', 2, 0
             FROM numbers, (SELECT workspace_id FROM contacts LIMIT 1) c",
            [people as i64 - 1],
        )?;
        filling.execute(
            "INSERT INTO segment_members (workspace_id, segment_id, contact_id, added_at)
             SELECT m.workspace_id, m.segment_id, c.id, 0 FROM contacts c, (SELECT * FROM segment_members) m
             WHERE c.created_at = 0",
            [],
        )?;
        filling.commit()?;
        let from = format!("Acme <{SENDER}>");
        let text = format!("Hello {{{{{{FIRST_NAME|there}}}}}},\n{}", text(SIZE));
        made("/broadcasts", json!({"segment_id": segment, "from": from, "subject": "News", "text": text}))
    }

    /// Waits until everybody is queued.
    fn wait_until_queued(&self) -> anyhow::Result<()> {
        let connection = self.connection()?;
        let patience = Instant::now() + PATIENCE;
        while !connection.query_row("SELECT is_audience_whole FROM broadcasts", [], |row| row.get::<_, bool>(0))? {
            ensure!(Instant::now() < patience, "the audience is not queued after {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// How long mails took that were handed in by the API, from being accepted to having been taken.
    fn waits(&self) -> anyhow::Result<Vec<u32>> {
        let connection = self.connection()?;
        let mut waits = connection.prepare(
            "SELECT v.created_at - e.created_at FROM emails e JOIN email_events v ON v.email_id = e.id
             WHERE e.origin = 'api' AND v.type = 'delivered'",
        )?;
        let waits = waits.query_map([], |row| row.get::<_, i64>(0))?;
        waits.map(|wait| Ok(u32::try_from(wait?.max(0))?)).collect()
    }
}

fn send(server: &Server, outbox: &Outbox, id: &str) -> anyhow::Result<()> {
    post_json(server.address, &format!("/broadcasts/{id}/send"), outbox.key(), &json!({})).map(drop)
}

/// How fast the audience is queued, and how long others wait meanwhile.
pub fn queued(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let sink = Sink::start()?;
    let what = format!("recipients of a broadcast to {} queued, SQLite", plan.people);
    let mut rate = Measured::new(&what, "10,000 a second", 1.0).within(BROADCAST_MEMORY_BAR);
    let what = "POST /events, 100 a second, 1/p99 meanwhile";
    let mut others = Measured::new(what, "100 ms", 1.0).within(BROADCAST_MEMORY_BAR);
    for round in 1..=plan.rounds {
        let outbox = Outbox::to_relay(sink.address)?;
        let server = outbox.serve(&[])?;
        let id = outbox.broadcast(&server, plan.people)?;
        let (mut workload, over) = (Workload::define_event(outbox.key(), plan.names), AtomicBool::new(false));
        let (took, outcome) = std::thread::scope(|scope| {
            let asking = scope
                .spawn(|| paced::run(server.address, 16, OTHERS, &mut workload, Duration::ZERO, PATIENCE, Some(&over)));
            let began = Instant::now();
            let queued = send(&server, &outbox, &id).and_then(|()| outbox.wait_until_queued());
            let took = began.elapsed();
            // A few more, so that there is something to take the slowest of.
            std::thread::sleep(Duration::from_secs(1));
            over.store(true, Ordering::Relaxed);
            let outcome = asking.join().map_err(|_| anyhow::anyhow!("whoever asked panicked"))??;
            queued.map(|()| (took, outcome))
        })?;
        let per_second = plan.people as f64 / took.as_secs_f64();
        let seen = Seen { outcome, memory: server.memory()?, cpu: server.cpu()?.div_f64(plan.people as f64) };
        let subject = Side { per_second, server: Some(seen) };
        rate.add(Side { per_second: LEAST_QUEUED, server: None }, subject);
        let base = Side { per_second: 1.0 / SLOWEST_REQUEST.as_secs_f64(), server: None };
        others.add(base, Side { per_second: 1.0 / outcome.p99.as_secs_f64(), server: Some(seen) });
        report.tell(&format!(
            "a broadcast: round {round} of {}: {} queued in {took:?}, p99 of others {:?}",
            plan.rounds, plan.people, outcome.p99
        ));
    }
    report.add(rate);
    report.add(others);
    Ok(())
}

/// How fast a broadcast leaves, against single mails.
pub fn delivered(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let sink = Sink::start()?;
    compare_within(
        MAIL_MEMORY_BAR,
        plan,
        report,
        ("a broadcast delivered to smtp-sink, 2 KiB, SQLite, from sending it on", "single mails that wait", 0.8),
        || unsigned(plan, &sink),
        || {
            let outbox = Outbox::to_relay(sink.address)?;
            let server = outbox.serve(&[])?;
            let id = outbox.broadcast(&server, plan.mails)?;
            let began = Instant::now();
            send(&server, &outbox, &id)?;
            outbox.wait_until_queued()?;
            outbox.wait_until_delivered(ALL)?;
            side(&server, plan.mails, began.elapsed())
        },
    )
}

/// How long a mail waits while a broadcast leaves, the slowest of a hundred.
pub fn beside(plan: &Plan, report: &mut Report) -> anyhow::Result<()> {
    let sink = Sink::start()?;
    compare_within(
        MAIL_MEMORY_BAR,
        plan,
        report,
        ("a single mail during a broadcast, accepted to delivered, 1/p99, SQLite", "1 s", 1.0),
        || Ok(Side { per_second: 1.0 / SLOWEST_MAIL.as_secs_f64(), server: None }),
        || {
            let outbox = Outbox::to_relay(sink.address)?;
            let server = outbox.serve(&[])?;
            let id = outbox.broadcast(&server, plan.people)?;
            send(&server, &outbox, &id)?;
            let until = Instant::now() + plan.measured().max(Duration::from_secs(5));
            while Instant::now() < until {
                post_json(server.address, "/emails", outbox.key(), &body("somebody@example.com", SIZE))?;
                std::thread::sleep(EVERY);
            }
            outbox.wait_until_delivered("lane = 0")?;
            let waits = outbox.waits()?;
            let outcome: Outcome = client::outcome(waits.len() as u64, waits, plan.measured())?;
            let seen = Seen { outcome, memory: server.memory()?, cpu: Duration::ZERO };
            Ok(Side { per_second: 1.0 / outcome.p99.as_secs_f64(), server: Some(seen) })
        },
    )
}
