//! What the load generator says: one request, in which a number that never
//! repeats is stamped wherever the template leaves room for it.

use base64::Engine;

/// Room for a stamp.
const ROOM: &[u8; 12] = b"~~~~~~~~~~~~";

/// The client that every store has from its beginning.
const CLIENT_ID: &str = "7136aa0b-625c-4c9c-8820-e9784c8eb141";

pub struct Workload {
    template: Vec<u8>,
    rooms: Vec<usize>,
    pub expected: u16,
    next: u64,
    ascending: bool,
}

impl Workload {
    pub fn new(request: String, expected: u16) -> Workload {
        let template = request.into_bytes();
        let rooms = (0..template.len()).filter(|at| template[*at..].starts_with(ROOM)).collect();
        // Where the numbers start differs from run to run, so that a store can be used again.
        let next = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_micros() as u64);
        Workload { template, rooms, expected, next, ascending: false }
    }

    /// `POST /events` with a small schema. The names come in no order, which is
    /// the hardest for the index on them.
    pub fn define_event(key: &str) -> Workload {
        let body = r#"{"name":"shop-~~~~~~~~~~~~.order.paid","schema":{"amount":"number","paid_at":"date"}}"#;
        let request = format!(
            "POST /events HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\nuser-agent: load\r\n\
             accept: application/json\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len(),
        );
        Workload::new(request, 201)
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
        Workload::new(request, 302)
    }

    /// With stamps that ascend.
    pub fn ascending(mut self, ascending: bool) -> Workload {
        self.ascending = ascending;
        self
    }

    /// The next request, until the one after it is asked for.
    pub fn request(&mut self) -> &[u8] {
        self.next += 1;
        let stamp = if self.ascending { hexadecimal(self.next) } else { stamp(self.next) };
        for room in &self.rooms {
            self.template[*room..*room + stamp.len()].copy_from_slice(&stamp);
        }
        &self.template
    }
}

/// Twelve hexadecimal digits that no other number below 2^48 gets, in no order.
pub fn stamp(number: u64) -> [u8; 12] {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) & 0xffff_ffff_ffff;
    let mixed = (mixed ^ (mixed >> 24)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    hexadecimal(mixed)
}

fn hexadecimal(number: u64) -> [u8; 12] {
    std::array::from_fn(|digit| b"0123456789abcdef"[(number >> (44 - 4 * digit)) as usize & 15])
}
