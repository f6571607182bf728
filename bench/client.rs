//! The load generator: one thread, connections that are kept alive, each
//! sending its next request when it has the answer to the last. It does as
//! little as it can, because the server shares the machine with it.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::workload::Workload;

/// A server that says nothing for so long has failed the run.
const PATIENCE: Duration = Duration::from_secs(15);

/// What a run found.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// All requests answered, before and while it was measured.
    pub answered: u64,
    pub per_second: f64,
    pub p50: Duration,
    pub p99: Duration,
}

pub struct Connection {
    stream: TcpStream,
    pub received: Vec<u8>,
    pub asked: Instant,
}

/// Loads a server for `warm_up`, then measures for `measured`. Any answer but
/// the expected one fails the run.
pub fn run(
    server: SocketAddr,
    connections: usize,
    workload: &mut Workload,
    warm_up: Duration,
    measured: Duration,
) -> anyhow::Result<Outcome> {
    let mut poll = Poll::new()?;
    let mut open = connect(&poll, server, connections)?;
    let mut events = Events::with_capacity(connections);
    let mut answered = 0;
    let mut latencies: Vec<u32> = Vec::with_capacity(1 << 20);

    for (number, connection) in open.iter_mut().enumerate() {
        connection.ask(workload.request(number))?;
    }
    let from = Instant::now() + warm_up;
    let until = from + measured;
    loop {
        poll.poll(&mut events, Some(PATIENCE))?;
        ensure!(!events.is_empty(), "the server did not answer within {PATIENCE:?}");
        let now = Instant::now();
        if now >= until {
            break;
        }
        for event in &events {
            let number = event.token().0;
            let connection = &mut open[number];
            if connection.answered(workload.expected)? {
                answered += 1;
                if now >= from {
                    latencies.push((now - connection.asked).as_micros() as u32);
                }
                workload.learn(number, &connection.received)?;
                connection.received.clear();
                connection.ask(workload.request(number))?;
            }
        }
    }
    outcome(answered, latencies, measured)
}

/// One who asks one thing after the other, by a connection that is kept.
pub struct Visitor {
    poll: Poll,
    events: Events,
    connection: Connection,
}

impl Visitor {
    pub fn new(server: SocketAddr) -> anyhow::Result<Visitor> {
        let poll = Poll::new()?;
        let connection = connect(&poll, server, 1)?.pop().context("a connection")?;
        Ok(Visitor { poll, events: Events::with_capacity(1), connection })
    }

    /// Sends one request, and tells how many microseconds its answer took.
    pub fn ask(&mut self, workload: &mut Workload) -> anyhow::Result<u32> {
        self.connection.ask(workload.request(0))?;
        while !self.connection.answered(workload.expected)? {
            self.poll.poll(&mut self.events, Some(PATIENCE))?;
            ensure!(!self.events.is_empty(), "the server did not answer within {PATIENCE:?}");
        }
        let took = self.connection.asked.elapsed();
        self.connection.received.clear();
        Ok(took.as_micros() as u32)
    }
}

/// What these microseconds, of all requests in the time measured, amount to.
pub fn outcome(answered: u64, mut latencies: Vec<u32>, measured: Duration) -> anyhow::Result<Outcome> {
    ensure!(!latencies.is_empty(), "no request was answered in the time measured");
    latencies.sort_unstable();
    let at = |share: f64| Duration::from_micros(latencies[((latencies.len() - 1) as f64 * share) as usize].into());
    let per_second = latencies.len() as f64 / measured.as_secs_f64();
    Ok(Outcome { answered, per_second, p50: at(0.5), p99: at(0.99) })
}

pub fn connect(poll: &Poll, server: SocketAddr, count: usize) -> anyhow::Result<Vec<Connection>> {
    let mut open = Vec::with_capacity(count);
    for number in 0..count {
        let stream = std::net::TcpStream::connect(server).context("the server cannot be reached")?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        poll.registry().register(&mut stream, Token(number), Interest::READABLE)?;
        open.push(Connection { stream, received: Vec::with_capacity(2048), asked: Instant::now() });
    }
    Ok(open)
}

impl Connection {
    pub fn ask(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.asked = Instant::now();
        // A small request fits the empty buffer of its socket many times; of a large one the
        // server takes the rest at once.
        let mut left = request;
        while !left.is_empty() {
            match self.stream.write(left) {
                Ok(count) => left = &left[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Takes what has arrived; true when it is a whole answer.
    pub fn answered(&mut self, expected: u16) -> anyhow::Result<bool> {
        let mut buffer = [0; 2048];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => bail!("the server closed a connection"),
                Ok(count) => self.received.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.into()),
            }
            let Some((status, length)) = measure(&self.received)? else { continue };
            if status != expected {
                bail!("expected {expected}, got:\n{}", String::from_utf8_lossy(&self.received));
            }
            if self.received.len() >= length {
                ensure!(self.received.len() == length, "the server sent more than one answer");
                return Ok(true);
            }
        }
    }
}

/// The status of an answer and its length in bytes, once its head is complete.
fn measure(received: &[u8]) -> anyhow::Result<Option<(u16, usize)>> {
    let Some(head) = received.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let text = std::str::from_utf8(&received[..head])?;
    let status = text.get(9..12).and_then(|digits| digits.parse().ok()).context("an answer without a status")?;
    let length = text.find("\r\ncontent-length: ").map(|at| text[at + 18..].split('\r').next().unwrap_or_default());
    let body: usize = length.context("an answer without a length")?.parse()?;
    Ok(Some((status, head + 4 + body)))
}
