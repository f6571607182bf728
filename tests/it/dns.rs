//! A DNS server of a test's own, which says what the test wants it to say.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

const A: u16 = 1;
const MX: u16 = 15;
const TXT: u16 = 16;
const CNAME: u16 = 5;
const PTR: u16 = 12;

const NO_ERROR: u16 = 0;
const SERVER_FAILURE: u16 = 2;
const NO_SUCH_NAME: u16 = 3;

#[derive(Default)]
struct Zone {
    /// What is said of a name, in lower case and without its last dot, and of a kind of record.
    records: HashMap<(String, u16), Vec<Vec<u8>>>,
    is_failing: bool,
    questions: usize,
}

pub struct Dns {
    pub address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
    answering: JoinHandle<()>,
}

impl Drop for Dns {
    fn drop(&mut self) {
        self.answering.abort();
    }
}

impl Dns {
    pub async fn start() -> Dns {
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
        let (address, zone) = (socket.local_addr().expect("an address"), Arc::<Mutex<Zone>>::default());
        let known = zone.clone();
        let answering = tokio::spawn(async move {
            let mut question = [0; 2048];
            while let Ok((length, from)) = socket.recv_from(&mut question).await {
                let answer = answer(&question[..length], &mut known.lock().expect("no panic"));
                let _ = socket.send_to(&answer, from).await;
            }
        });
        Dns { address, zone, answering }
    }

    /// The setting that has this one asked.
    pub fn setting(&self) -> String {
        format!("--dns-server={}", self.address)
    }

    pub fn txt(&self, name: &str, text: &str) {
        // A string of DNS has at most 255 bytes.
        let pieces = text.as_bytes().chunks(255).flat_map(|piece| [&[piece.len() as u8], piece].concat());
        self.add(name, TXT, pieces.collect());
    }

    pub fn a(&self, name: &str, address: [u8; 4]) {
        self.add(name, A, address.to_vec());
    }

    pub fn mx(&self, name: &str, priority: u16, host: &str) {
        self.add(name, MX, [&priority.to_be_bytes()[..], &wire_name(host)].concat());
    }

    pub fn cname(&self, name: &str, target: &str) {
        self.add(name, CNAME, wire_name(target));
    }

    /// The name that an address leads back to.
    pub fn ptr(&self, [a, b, c, d]: [u8; 4], host: &str) {
        self.add(&format!("{d}.{c}.{b}.{a}.in-addr.arpa"), PTR, wire_name(host));
    }

    pub fn forget(&self, name: &str) {
        self.zone().records.retain(|(known, _), _| known != name);
    }

    /// Whether every question is answered by a failure.
    pub fn fail(&self, is_failing: bool) {
        self.zone().is_failing = is_failing;
    }

    pub fn questions(&self) -> usize {
        self.zone().questions
    }

    fn add(&self, name: &str, kind: u16, data: Vec<u8>) {
        self.zone().records.entry((name.to_owned(), kind)).or_default().push(data);
    }

    fn zone(&self) -> std::sync::MutexGuard<'_, Zone> {
        self.zone.lock().expect("no panic")
    }
}

fn wire_name(name: &str) -> Vec<u8> {
    let labels = name
        .split('.')
        .filter(|label| !label.is_empty())
        .flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat());
    labels.chain([0]).collect()
}

/// The answer to a message with one question.
fn answer(message: &[u8], zone: &mut Zone) -> Vec<u8> {
    zone.questions += 1;
    let (mut at, mut labels) = (12, Vec::new());
    while message[at] > 0 {
        let end = at + 1 + usize::from(message[at]);
        labels.push(String::from_utf8_lossy(&message[at + 1..end]).to_ascii_lowercase());
        at = end;
    }
    let kind = u16::from_be_bytes([message[at + 1], message[at + 2]]);
    let question = &message[12..at + 5];
    let name = labels.join(".");
    let found = zone.records.get(&(name.clone(), kind)).cloned().unwrap_or_default();
    let code = match () {
        () if zone.is_failing => SERVER_FAILURE,
        () if zone.records.keys().any(|(known, _)| *known == name) => NO_ERROR,
        () => NO_SUCH_NAME,
    };
    let found = if zone.is_failing { vec![] } else { found };
    let mut answer = message[..2].to_vec();
    for number in [0x8180 | code, 1, found.len() as u16, 0, 0] {
        answer.extend(number.to_be_bytes());
    }
    answer.extend(question);
    for data in found {
        // The name of the question, the kind, the Internet, a minute, and the data.
        answer.extend([0xc0, 12]);
        answer.extend(kind.to_be_bytes());
        answer.extend([0, 1, 0, 0, 0, 60]);
        answer.extend((data.len() as u16).to_be_bytes());
        answer.extend(data);
    }
    answer
}
