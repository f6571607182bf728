//! All open connections: how many there may be, how much memory they may hold
//! together, and which of them have to go when there are too many.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

use super::spool::IN_MEMORY;
use crate::config::{Config, Network};
use crate::limits::neighbourhood;

/// What every connection holds: its task, and buffers to read and write.
const BASE_COST: usize = 14 << 10;

/// What a request holds while its body is awaited: its headers and its handler.
const WAITING_COST: usize = 12 << 10;

/// A buffer that grows has room for twice what it holds.
const ROOM: usize = 2;

/// Request bytes up to here are within the buffer that every connection has.
const FREE: usize = 8 << 10;

/// More of one request is not held in memory, whoever reads it: it is spooled.
const MOST_OF_REQUEST: usize = IN_MEMORY;

/// Answers from this size on are counted while they are being sent.
const LARGE_ANSWER: usize = 64 << 10;

/// Whoever moves so many bytes is not standing still.
const PROGRESS: usize = 16 << 10;

/// Milliseconds, at least, between two times that memory is taken back.
const RELIEF_INTERVAL_MS: u64 = 10;

/// Nor does it take more of the time than one part in so many.
const RELIEF_BACKOFF: u64 = 16;

/// How many connections there may be, and how much they may hold.
#[derive(Debug, Clone)]
pub struct Bounds {
    pub connections: usize,
    pub per_address: usize,
    /// Bytes that all connections may hold together.
    pub memory: usize,
    /// How long a peer may take to send a whole head.
    pub head: Duration,
    /// How long a peer may take for the next piece of a body or an answer.
    pub stall: Duration,
    pub exempt_loopback: bool,
    pub proxies: Vec<Network>,
}

impl Bounds {
    pub fn of(config: &Config) -> Bounds {
        Bounds {
            connections: config.max_connections as usize,
            per_address: config.max_connections_per_address as usize,
            memory: (config.connection_memory as usize) << 20,
            head: Duration::from_secs(30),
            stall: Duration::from_secs(30),
            exempt_loopback: !config.limit_loopback,
            proxies: config.trusted_proxies.clone(),
        }
    }

    /// Under which address a connection is counted, if it is: behind a proxy are
    /// many, and loopback is ourselves.
    fn counted(&self, peer: SocketAddr) -> Option<IpAddr> {
        let address = peer.ip().to_canonical();
        let exempt = (self.exempt_loopback && address.is_loopback())
            || self.proxies.iter().any(|network| network.contains(address));
        (!exempt).then(|| neighbourhood(address))
    }
}

pub struct Connections {
    pub bounds: Bounds,
    began: Instant,
    open: Mutex<Open>,
    /// Bytes that all of them hold, as far as they are counted.
    held: AtomicUsize,
    /// Of these: what those hold that have to go, and will give back any moment.
    closing: AtomicUsize,
    /// When memory may be taken back again.
    relief_at: AtomicU64,
}

#[derive(Default)]
struct Open {
    all: HashMap<u64, Entry>,
    by_address: HashMap<IpAddr, usize>,
    next: u64,
}

struct Entry {
    connection: Arc<Connection>,
    task: Option<AbortHandle>,
}

/// One connection, as its stream, its requests and all the others see it.
pub struct Connection {
    number: u64,
    counted: Option<IpAddr>,
    connections: Arc<Connections>,
    /// Since when it is the peer's turn, in milliseconds; 0 while it is ours.
    waits_since: AtomicU64,
    /// Even while a head is expected, odd from then to the end of the request.
    phase: AtomicU32,
    body_ended: AtomicBool,
    received: AtomicUsize,
    held: AtomicUsize,
    /// What it held when it was told to go.
    closing: AtomicUsize,
    moved: AtomicUsize,
}

/// A connection that was let in. It is counted until this is dropped.
pub struct Admitted(pub Arc<Connection>);

impl Connections {
    pub fn new(bounds: Bounds) -> Arc<Connections> {
        Arc::new(Connections {
            bounds,
            began: Instant::now(),
            open: Mutex::default(),
            held: AtomicUsize::new(0),
            closing: AtomicUsize::new(0),
            relief_at: AtomicU64::new(0),
        })
    }

    /// Lets a connection in, or says that there is no place for it. Where all
    /// places are taken, those go that keep us waiting the longest.
    pub fn admit(self: &Arc<Self>, peer: SocketAddr) -> Option<Admitted> {
        let counted = self.bounds.counted(peer);
        let mut open = self.lock();
        if counted.is_some_and(|address| open.by_address.get(&address).is_some_and(|n| *n >= self.bounds.per_address)) {
            return None;
        }
        if open.all.len() >= self.bounds.connections {
            open.close_idlest(self.bounds.connections / 64 + 1);
        }
        if open.all.len() >= self.bounds.connections {
            return None;
        }
        open.next += 1;
        let connection = Arc::new(Connection {
            number: open.next,
            counted,
            connections: self.clone(),
            waits_since: AtomicU64::new(self.now()),
            phase: AtomicU32::new(0),
            body_ended: AtomicBool::new(true),
            received: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            closing: AtomicUsize::new(0),
            moved: AtomicUsize::new(0),
        });
        open.all.insert(connection.number, Entry { connection: connection.clone(), task: None });
        counted.into_iter().for_each(|address| *open.by_address.entry(address).or_default() += 1);
        drop(open);
        connection.hold(BASE_COST);
        Some(Admitted(connection))
    }

    /// Says which task serves a connection: the one to end when it has to go.
    pub fn served_by(&self, number: u64, task: AbortHandle) {
        if let Some(entry) = self.lock().all.get_mut(&number) {
            entry.task = Some(task);
        }
    }

    /// How many are open.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.lock().all.len()
    }

    /// Closes those that keep us waiting the longest until there is memory again,
    /// beginning with those that hold more than everybody does.
    fn relieve(&self) {
        let (began, due) = (self.now(), self.relief_at.load(Relaxed));
        // Whoever comes first does it; nobody else does meanwhile.
        if began < due || self.relief_at.compare_exchange(due, u64::MAX, Relaxed, Relaxed).is_err() {
            return;
        }
        let mut open = self.lock();
        let staying = self.held.load(Relaxed).saturating_sub(self.closing.load(Relaxed));
        let mut excess = staying.saturating_sub(self.bounds.memory / 8 * 7);
        let waiting = open.waiting(|one| one.held.load(Relaxed) <= BASE_COST);
        let mut waiting: BinaryHeap<_> = waiting.into_iter().map(Reverse).collect();
        while excess > 0
            && let Some(Reverse((.., number))) = waiting.pop()
        {
            excess = excess.saturating_sub(open.close(number));
        }
        drop(open);
        let took = self.now() - began;
        self.relief_at.store(began + took + RELIEF_INTERVAL_MS.max(RELIEF_BACKOFF * took), Relaxed);
    }

    /// Milliseconds, never 0.
    fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64 + 1
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Those whose peers have the turn: first by a key, then by how long ago.
    fn waiting<K>(&self, key: impl Fn(&Connection) -> K) -> Vec<(K, u64, u64)> {
        let all = self.all.values().filter(|entry| entry.task.is_some()).map(|entry| &*entry.connection);
        let since = |one: &Connection| Some(one.waits_since.load(Relaxed)).filter(|since| *since > 0);
        all.filter_map(|one| Some((key(one), since(one)?, one.number))).collect()
    }

    fn close_idlest(&mut self, count: usize) {
        let mut waiting = self.waiting(|_| ());
        if waiting.len() > count {
            waiting.select_nth_unstable(count);
            waiting.truncate(count);
        }
        for (.., number) in waiting {
            self.close(number);
        }
    }

    /// Ends a connection's task, and tells how much it held.
    fn close(&mut self, number: u64) -> usize {
        let Some(entry) = self.remove(number) else { return 0 };
        let held = entry.connection.held.load(Relaxed);
        entry.connection.closing.store(held, Relaxed);
        entry.connection.connections.closing.fetch_add(held, Relaxed);
        entry.task.iter().for_each(AbortHandle::abort);
        held
    }

    fn remove(&mut self, number: u64) -> Option<Entry> {
        let entry = self.all.remove(&number)?;
        if let Some(address) = entry.connection.counted
            && let Some(count) = self.by_address.get_mut(&address)
        {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&address);
            }
        }
        Some(entry)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.0.connections.lock().remove(self.0.number);
        self.0.connections.closing.fetch_sub(self.0.closing.load(Relaxed), Relaxed);
        self.0.release(usize::MAX);
    }
}

impl Connection {
    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn bounds(&self) -> &Bounds {
        &self.connections.bounds
    }

    pub fn phase(&self) -> u32 {
        self.phase.load(Relaxed)
    }

    /// Whether something of a request was left behind unread.
    pub fn is_mid_request(&self) -> bool {
        !self.body_ended.load(Relaxed) || (self.phase().is_multiple_of(2) && self.received.load(Relaxed) > 0)
    }

    /// A head has arrived; a body may follow.
    pub fn head_arrived(&self, has_body: bool) {
        let phase = self.phase();
        // After a body that nobody read, the phase before is not over.
        self.phase.store(phase + if phase.is_multiple_of(2) { 1 } else { 2 }, Relaxed);
        self.body_ended.store(!has_body, Relaxed);
        self.waits_since.store(0, Relaxed);
    }

    /// The next piece of the body is not there yet.
    pub fn awaits_body(&self) {
        if self.waits_since.load(Relaxed) == 0 {
            self.waits_since.store(self.connections.now(), Relaxed);
            self.hold(WAITING_COST);
        }
    }

    pub fn body_arrived(&self) {
        self.body_ended.store(true, Relaxed);
        self.waits_since.store(0, Relaxed);
    }

    /// The answer is ready; from now on the peer has the turn.
    pub fn answered(&self, length: u64) {
        self.release(self.held.load(Relaxed).saturating_sub(BASE_COST));
        self.received.store(0, Relaxed);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length >= LARGE_ANSWER {
            self.hold(length);
        }
        self.waits_since.store(self.connections.now(), Relaxed);
        if self.body_ended.load(Relaxed) {
            self.phase.fetch_add(1, Relaxed);
        }
    }

    /// Bytes of a request have come. False if there is no memory for them: those
    /// that have to go could not give theirs back as fast as more comes in.
    pub fn received(&self, count: usize) -> bool {
        let received = self.received.fetch_add(count, Relaxed) + count;
        self.moved(count);
        if received <= FREE || received > MOST_OF_REQUEST {
            return true;
        }
        self.hold(ROOM * count);
        self.connections.held.load(Relaxed) <= self.connections.bounds.memory / 8 * 9
    }

    pub fn sent(&self, count: usize) {
        let extra = self.held.load(Relaxed).saturating_sub(BASE_COST);
        if extra > 0 {
            self.release(extra.min(count));
        }
        self.moved(count);
    }

    fn moved(&self, count: usize) {
        if self.moved.fetch_add(count, Relaxed) + count >= PROGRESS {
            self.moved.store(0, Relaxed);
            if self.waits_since.load(Relaxed) > 0 {
                self.waits_since.store(self.connections.now(), Relaxed);
            }
        }
    }

    fn hold(&self, count: usize) {
        self.held.fetch_add(count, Relaxed);
        if self.connections.held.fetch_add(count, Relaxed) + count > self.connections.bounds.memory {
            self.connections.relieve();
        }
    }

    /// Gives back what is held, at most `count`.
    fn release(&self, count: usize) {
        let before = self.held.fetch_update(Relaxed, Relaxed, |held| Some(held.saturating_sub(count)));
        self.connections.held.fetch_sub(before.unwrap_or_default().min(count), Relaxed);
    }
}

#[cfg(test)]
#[path = "connections_tests.rs"]
mod tests;
