//! A DNS server of a test's own, which says what the test wants it to say.

use std::collections::HashMap;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

const A: u16 = 1;
const AAAA: u16 = 28;
const MX: u16 = 15;
const TXT: u16 = 16;
const CNAME: u16 = 5;
const PTR: u16 = 12;
const DNSKEY: u16 = 48;
const TLSA: u16 = 52;

/// The flag by which somebody who looks at signatures says that they are valid.
const AUTHENTIC: u16 = 0x20;

const NO_ERROR: u16 = 0;
const SERVER_FAILURE: u16 = 2;
const NO_SUCH_NAME: u16 = 3;

#[derive(Default)]
struct Zone {
    /// What is said of a name, in lower case and without its last dot, and of a kind of record.
    records: HashMap<(String, u16), Vec<Vec<u8>>>,
    is_failing: bool,
    /// Names of which every question is answered by a failure.
    bogus: Vec<String>,
    /// What names end in of which it is said that their signatures are valid.
    signed: Option<String>,
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

    pub fn aaaa(&self, name: &str, address: Ipv6Addr) {
        self.add(name, AAAA, address.octets().to_vec());
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

    /// What a certificate has to match.
    pub fn tlsa(&self, name: &str, [usage, selector, matching]: [u8; 3], data: &[u8]) {
        self.add(name, TLSA, [&[usage, selector, matching], data].concat());
    }

    /// Says of names that end so that their signatures are valid, and of the root.
    pub fn sign(&self, ending: &str) {
        self.zone().signed = Some(ending.to_owned());
        self.add("", DNSKEY, vec![1, 1, 3, 13, 0]);
    }

    /// Answers every question for a name by a failure, as one whose signatures are wrong.
    pub fn spoil(&self, name: &str) {
        self.zone().bogus.push(name.to_owned());
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
    let is_failing = zone.is_failing || zone.bogus.contains(&name);
    let code = match () {
        () if is_failing => SERVER_FAILURE,
        () if zone.records.keys().any(|(known, _)| *known == name) => NO_ERROR,
        () => NO_SUCH_NAME,
    };
    let found = if is_failing { vec![] } else { found };
    let is_signed = zone.signed.as_ref().is_some_and(|ending| name.is_empty() || name.ends_with(ending));
    let authentic = if is_signed && !is_failing { AUTHENTIC } else { 0 };
    let mut answer = message[..2].to_vec();
    for number in [0x8180 | authentic | code, 1, found.len() as u16, 0, 0] {
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
