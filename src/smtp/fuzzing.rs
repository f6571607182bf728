//! Entry point for fuzzers: takes any bytes and panics when a promise about what
//! a server's words may do is broken.

use super::extensions::Extensions;
use super::reply::Partial;

/// Any bytes as what a server says: its answers are bounded and can be shown, and
/// its offers can be read. Tells how many answers there were.
pub fn smtp_reply(data: &[u8]) -> usize {
    let mut answers = 0;
    let mut partial = Partial::default();
    let mut extensions = Extensions::default();
    for line in data.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        extensions.line(line);
        match partial.line(line) {
            Ok(None) => {}
            Err(_) => partial = Partial::default(),
            Ok(Some(reply)) => {
                assert!((200..600).contains(&reply.code), "{reply:?}");
                assert!(reply.text.len() < 1010 && !reply.text.contains(char::is_control), "{reply:?}");
                assert!(reply.enhanced.is_none_or(|[class, ..]| (2..6).contains(&class)), "{reply:?}");
                assert!(reply.is_positive() || reply.is_negative() || reply.code / 100 == 3);
                answers += 1;
                partial = Partial::default();
            }
        }
    }
    answers
}
