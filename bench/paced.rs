//! Load at a rate: requests are due whether those before them were answered or
//! not, so whoever is slow is found out. What waits for a free connection waits
//! on the server's account.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use mio::{Events, Poll};
use serde_json::json;

use crate::Plan;
use crate::client::{self, Outcome};
use crate::login::post_json;
use crate::rows::{Seen, Side};
use crate::server::Server;
use crate::store::Store;
use crate::workload::Workload;

const READS: f64 = 1_000.0;
const WRITES: f64 = 10_000.0;

/// Less of the wanted rate than this, and the run says nothing.
const KEPT: f64 = 0.9;

/// The slowest of a hundred reads of a server, beside writes to it or, to
/// compare with, as many requests to an empty handler.
pub fn reads_beside_writes(plan: &Plan, writes_are_real: bool) -> anyhow::Result<Side> {
    let (store, other) = (Store::sqlite()?, Store::sqlite()?);
    let key = store.key()?;
    let server = Server::real(&store)?;
    let empty = Server::empty(&other)?;
    let event = post_json(server.address, "/events", &key, &json!({"name": "order.placed"}))?;
    let mut reads = Workload::get_event(&key, event["id"].as_str().context("an id")?);
    let mut writes = Workload::define_event(&key, plan.names);
    let written = if writes_are_real { server.address } else { empty.address };

    let over = AtomicBool::new(false);
    let outcome = std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let length = plan.warm_up() + plan.measured();
            run(written, 64, WRITES, &mut writes, Duration::ZERO, length, Some(&over))
        });
        let outcome = run(server.address, 32, READS, &mut reads, plan.warm_up(), plan.measured(), None);
        over.store(true, Ordering::Relaxed);
        writing.join().map_err(|_| anyhow::anyhow!("the writer panicked"))??;
        outcome
    })?;
    let cpu = server.cpu()?.div_f64(outcome.answered as f64);
    let seen = Seen { outcome, memory: server.memory()?, cpu };
    Ok(Side { per_second: 1.0 / outcome.p99.as_secs_f64(), server: Some(seen) })
}

/// Sends `rate` requests a second for `warm_up`, then measures for `measured`,
/// or until it is told that it is over.
pub fn run(
    server: SocketAddr,
    connections: usize,
    rate: f64,
    workload: &mut Workload,
    warm_up: Duration,
    measured: Duration,
    over: Option<&AtomicBool>,
) -> anyhow::Result<Outcome> {
    let mut poll = Poll::new()?;
    let mut open = client::connect(&poll, server, connections)?;
    let mut events = Events::with_capacity(connections);
    let mut free: Vec<usize> = (0..connections).collect();
    let mut due: VecDeque<Instant> = VecDeque::new();
    let (mut sent, mut answered, mut latencies) = (0_u64, 0_u64, Vec::with_capacity(1 << 16));
    let began = Instant::now();
    let (from, until) = (began + warm_up, began + warm_up + measured);
    loop {
        poll.poll(&mut events, Some(Duration::from_millis(1)))?;
        let now = Instant::now();
        if now >= until || over.is_some_and(|over| over.load(Ordering::Relaxed)) {
            break;
        }
        for event in &events {
            let connection = &mut open[event.token().0];
            if connection.answered(workload.expected)? {
                answered += 1;
                if now >= from {
                    latencies.push((now - connection.asked).as_micros() as u32);
                }
                connection.received.clear();
                free.push(event.token().0);
            }
        }
        // Due since we looked last: how late we look is not the server's fault.
        let wanted = ((now - began).as_secs_f64() * rate) as u64;
        due.extend((sent..wanted).map(|_| now));
        sent = sent.max(wanted);
        while let (Some(asked), Some(number)) = (due.front().copied(), free.last().copied()) {
            open[number].ask(workload.request(number))?;
            open[number].asked = asked;
            due.pop_front();
            free.pop();
        }
    }
    let kept = answered as f64 / began.elapsed().as_secs_f64() / rate;
    ensure!(kept >= KEPT, "only {:.0} % of {rate} requests a second were answered", kept * 100.0);
    client::outcome(answered, latencies, measured)
}
