//! What the load generator says: one request, in which numbers and words that
//! do not repeat are put wherever the template leaves room for them.

use anyhow::Context;
use base64::Engine;
use clap::ValueEnum;

use crate::mail;

/// Room for a number, and for a word.
const NUMBER: &[u8; 12] = b"~~~~~~~~~~~~";
const WORD: &[u8; 8] = b"########";
/// Room for a refresh token.
const TOKEN: &[u8; 86] = &[b'?'; 86];
/// Room for an API key.
const KEY: &[u8; 44] = &[b'!'; 44];

const WORDS: [&[u8; 8]; 16] = [
    b"approved",
    b"archived",
    b"assigned",
    b"canceled",
    b"captured",
    b"credited",
    b"disputed",
    b"expected",
    b"exported",
    b"imported",
    b"invoiced",
    b"notified",
    b"received",
    b"refunded",
    b"returned",
    b"reviewed",
];

/// Whom mail goes to.
const WHOM: &str = "~~~~~~~~~~~~@example.com";

/// In which order the names of events come, which is what the index on them
/// feels.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// A shop defines its sixteen events, then comes another, in no order
    Shops,
    /// In no order at all: every row is alone on its page of the index
    Random,
    /// One after the other: all rows go to the end of the index
    Ascending,
}

impl Names {
    /// The number and the word of the n-th name. No two names are alike below
    /// 2^48.
    fn parts(self, n: u64) -> ([u8; 12], &'static [u8; 8]) {
        let number = match self {
            Names::Shops => scattered(n / 16),
            Names::Random => scattered(n),
            Names::Ascending => n,
        };
        (hexadecimal(number), WORDS[(n % 16) as usize])
    }

    pub fn name(self, n: u64) -> String {
        let (number, word) = self.parts(n);
        format!("shop-{}.order.{}", String::from_utf8_lossy(&number), String::from_utf8_lossy(word))
    }
}

/// The client that every store has from its beginning.
pub const CLIENT_ID: &str = "7136aa0b-625c-4c9c-8820-e9784c8eb141";

pub struct Workload {
    template: Vec<u8>,
    numbers: Vec<usize>,
    words: Vec<usize>,
    names: Names,
    next: u64,
    pub expected: u16,
    /// What each connection has to show next, where the last answer tells it.
    tokens: Vec<String>,
    token_at: Option<usize>,
    /// Who sends the next request, one after the other.
    keys: Vec<String>,
    key_at: Option<usize>,
}

impl Workload {
    fn new(request: String, names: Names, expected: u16) -> Workload {
        let template = request.into_bytes();
        let rooms = |room: &[u8]| {
            let mut found = Vec::new();
            let mut at = 0;
            while at < template.len() {
                let is_room = template[at..].starts_with(room);
                found.extend(is_room.then_some(at));
                at += if is_room { room.len() } else { 1 };
            }
            found
        };
        let (numbers, words) = (rooms(NUMBER), rooms(WORD));
        // Where the numbers start differs from run to run, so that a store can be used again.
        let next = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as u64) << 8;
        let (token_at, key_at) = (rooms(TOKEN).first().copied(), rooms(KEY).first().copied());
        let (tokens, keys) = (Vec::new(), Vec::new());
        Workload { template, numbers, words, names, next, expected, tokens, token_at, keys, key_at }
    }

    /// With numbers so far ahead of those of another that the two never meet.
    pub fn ahead_by(self, distance: u64) -> Workload {
        Workload { next: self.next + distance, ..self }
    }

    /// As [`Workload::define_event`], each time with the next of these keys.
    pub fn define_event_by(keys: Vec<String>, names: Names) -> Workload {
        Workload { keys, ..Workload::define_event(&String::from_utf8_lossy(KEY), names) }
    }

    /// `POST /events` with a small schema.
    pub fn define_event(key: &str, names: Names) -> Workload {
        let body = r##"{"name":"shop-~~~~~~~~~~~~.order.########","schema":{"amount":"number","paid_at":"date"}}"##;
        let request = format!(
            "POST /events HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\nuser-agent: load\r\n\
             accept: application/json\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len(),
        );
        Workload::new(request, names, 201)
    }

    /// `POST /events/send` to an address that nobody has had before.
    pub fn send_event(key: &str, event: &str) -> Workload {
        let body =
            format!(r#"{{"event":"{event}","email":"~~~~~~~~~~~~@example.com","payload":{{"plan":"pro","seats":5}}}}"#);
        let request = format!(
            "POST /events/send HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\nuser-agent: load\r\n\
             accept: application/json\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len(),
        );
        Workload::new(request, Names::Random, 202)
    }

    /// `POST /emails`: a mail of so many bytes to an address that nobody has had before.
    pub fn email(key: &str, size: usize) -> Workload {
        Workload::post("/emails", key, &mail::body(WHOM, size).to_string(), 200)
    }

    /// `POST /emails/batch`: so many of them at once.
    pub fn emails(key: &str, size: usize, count: usize) -> Workload {
        let all: serde_json::Value = (0..count).map(|n| mail::body(&format!("{n}-{WHOM}"), size)).collect();
        Workload::post("/emails/batch", key, &all.to_string(), 200)
    }

    pub fn post(path: &str, key: &str, body: &str, expected: u16) -> Workload {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\nuser-agent: load\r\n\
             accept: application/json\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len(),
        );
        Workload::new(request, Names::Random, expected)
    }

    /// `GET /oauth/authorize` as a browser is sent there.
    pub fn authorize() -> Workload {
        let challenge = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode([7; 23]);
        let request = format!(
            "GET /oauth/authorize?response_type=code&client_id={CLIENT_ID}\
             &redirect_uri=http%3A%2F%2F127.0.0.1%3A49152%2Foauth%2Fcallback&scope=full_access%20emails%3Asend\
             &state=~~~~~~~~~~~~~~~~~~~~~~~~&code_challenge=~~~~~~~~~~~~{challenge}&code_challenge_method=S256 HTTP/1.1\r\n\
             host: 127.0.0.1\r\nuser-agent: load\r\naccept: text/html,application/xhtml+xml\r\n\
             accept-language: en\r\n\r\n",
        );
        Workload::new(request, Names::Random, 302)
    }

    /// `GET /events` of an app with an access token.
    pub fn list_events(access_token: &str) -> Workload {
        let request = format!(
            "GET /events HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {access_token}\r\nuser-agent: load\r\n\
             accept: application/json\r\n\r\n",
        );
        Workload::new(request, Names::Random, 200)
    }

    /// `GET /events/{id}` with a key.
    pub fn get_event(key: &str, id: &str) -> Workload {
        Workload::get(&format!("/events/{id}"), key)
    }

    pub fn get(path: &str, key: &str) -> Workload {
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\nuser-agent: load\r\n\
             accept: application/json\r\n\r\n",
        );
        Workload::new(request, Names::Random, 200)
    }

    /// `GET` of a page by somebody who is logged in.
    pub fn page(path: &str, cookie: &str) -> Workload {
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncookie: {cookie}\r\nuser-agent: Mozilla/5.0 (X11; Linux x86_64; \
             rv:130.0) Gecko/20100101 Firefox/130.0\r\naccept: text/html\r\n\r\n",
        );
        Workload::new(request, Names::Random, 200)
    }

    /// `GET` of one of these addresses after the other, all of the same length, by somebody who reads mail.
    pub fn visit(paths: Vec<String>, expected: u16) -> Workload {
        let room = "!".repeat(paths.first().map_or(0, String::len));
        let request = format!(
            "GET {room} HTTP/1.1\r\nhost: 127.0.0.1\r\nuser-agent: Mozilla/5.0 (X11; Linux x86_64; rv:130.0) \
             Gecko/20100101 Firefox/130.0\r\naccept: */*\r\n\r\n",
        );
        Workload { keys: paths, key_at: Some("GET ".len()), ..Workload::new(request, Names::Random, expected) }
    }

    /// `PATCH` of one of these addresses after the other, all of the same length.
    pub fn patch(paths: Vec<String>, key: &str, body: &str) -> Workload {
        let room = "!".repeat(paths.first().map_or(0, String::len));
        let request = format!(
            "PATCH {room} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\nuser-agent: load\r\n\
             accept: application/json\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len(),
        );
        Workload { keys: paths, key_at: Some("PATCH ".len()), ..Workload::new(request, Names::Random, 200) }
    }

    /// `POST /oauth/token`: every connection is an app that refreshes its own
    /// access, each time with the token it got the last time.
    pub fn refresh(tokens: Vec<String>) -> Workload {
        let body =
            format!("grant_type=refresh_token&client_id={CLIENT_ID}&refresh_token={}", String::from_utf8_lossy(TOKEN));
        let request = format!(
            "POST /oauth/token HTTP/1.1\r\nhost: 127.0.0.1\r\nuser-agent: load\r\naccept: application/json\r\n\
             content-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{body}",
            body.len(),
        );
        Workload { tokens, ..Workload::new(request, Names::Random, 200) }
    }

    /// Takes from an answer what the next request of this connection needs. The
    /// empty handler's answers hold nothing.
    pub fn learn(&mut self, connection: usize, answer: &[u8]) -> anyhow::Result<()> {
        const BEFORE: &[u8] = br#""refresh_token":""#;
        let Some(token) = self.tokens.get_mut(connection) else { return Ok(()) };
        if let Some(at) = answer.windows(BEFORE.len()).rposition(|part| part == BEFORE) {
            let start = at + BEFORE.len();
            let next = answer.get(start..start + TOKEN.len()).context("a whole refresh token")?;
            *token = std::str::from_utf8(next)?.to_owned();
        }
        Ok(())
    }

    /// The next request of a connection, until another is asked for.
    pub fn request(&mut self, connection: usize) -> &[u8] {
        if let (Some(at), Some(token)) = (self.token_at, self.tokens.get(connection)) {
            self.template[at..at + TOKEN.len()].copy_from_slice(token.as_bytes());
        }
        self.next += 1;
        if let (Some(at), false) = (self.key_at, self.keys.is_empty()) {
            let key = &self.keys[self.next as usize % self.keys.len()];
            self.template[at..at + key.len()].copy_from_slice(key.as_bytes());
        }
        let (number, word) = self.names.parts(self.next);
        for at in &self.numbers {
            self.template[*at..*at + number.len()].copy_from_slice(&number);
        }
        for at in &self.words {
            self.template[*at..*at + word.len()].copy_from_slice(word);
        }
        &self.template
    }
}

/// Another number for every number below 2^48, in no order.
pub fn scattered(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) & 0xffff_ffff_ffff;
    (mixed ^ (mixed >> 24)).wrapping_mul(0xd6e8_feb8_6659_fd93) & 0xffff_ffff_ffff
}

fn hexadecimal(number: u64) -> [u8; 12] {
    std::array::from_fn(|digit| b"0123456789abcdef"[(number >> (44 - 4 * digit)) as usize & 15])
}
