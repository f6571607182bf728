//! What is answered: a code, an enhanced code (RFC 3463), and a sentence that says what to do.

use std::borrow::Cow;

use crate::error::Error;

/// In bytes, of one line.
const LONGEST: usize = 480;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub code: u16,
    /// With the enhanced code at its front, where one belongs there.
    text: Cow<'static, str>,
}

impl Reply {
    pub const fn new(code: u16, text: &'static str) -> Reply {
        Reply { code, text: Cow::Borrowed(text) }
    }

    pub fn told(code: u16, text: String) -> Reply {
        Reply { code, text: Cow::Owned(text) }
    }

    pub fn is_refusal(&self) -> bool {
        self.code >= 400
    }

    /// One line for each of the text's.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut lines = self.text.split('\n').peekable();
        while let Some(line) = lines.next() {
            let mark = if lines.peek().is_some() { '-' } else { ' ' };
            out.extend_from_slice(format!("{}{mark}", self.code).as_bytes());
            let shown = |byte: u8| if (b' '..=b'~').contains(&byte) { byte } else { b'?' };
            out.extend(line.bytes().map(shown).take(LONGEST));
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// Why a message was not taken.
impl From<Error> for Reply {
    fn from(error: Error) -> Reply {
        let (code, enhanced) = match &error {
            Error::Unavailable | Error::Internal => (451, "4.3.0"),
            Error::RateLimited { .. } => (452, "4.7.0"),
            Error::TooSlow => (451, "4.4.2"),
            Error::TooLarge { .. } => (552, "5.3.4"),
            Error::InvalidKey | Error::InvalidToken | Error::Unauthenticated { .. } => (535, "5.7.8"),
            Error::RestrictedKey | Error::InsufficientScope | Error::Forbidden { .. } | Error::DomainRefused { .. } => {
                (550, "5.7.1")
            }
            _ => (554, "5.6.0"),
        };
        let message = match &error {
            Error::TooLarge { limit } => format!("The message is too large. At most {limit} bytes are allowed."),
            Error::Internal => "Something went wrong on our side. Nothing was acknowledged; try again.".into(),
            error => error.message().into_owned(),
        };
        Reply::told(code, format!("{enhanced} {message}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(reply: &Reply) -> String {
        let mut out = Vec::new();
        reply.write(&mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn a_reply_is_lines_of_ascii_of_a_bounded_length() {
        assert_eq!(written(&Reply::new(250, "a\nb")), "250-a\r\n250 b\r\n");
        let odd = written(&Reply::told(554, format!("5.6.0 ü\r{}", "x".repeat(1000))));
        assert!(odd.starts_with("554 5.6.0 ???x") && odd.ends_with("x\r\n") && odd.len() <= 512, "{odd:?}");
    }

    #[test]
    fn what_can_pass_is_told_as_such() {
        assert_eq!(Reply::from(Error::Unavailable).code, 451);
        assert_eq!(Reply::from(Error::RateLimited { retry_after: 1 }).code, 452);
        assert_eq!(Reply::from(Error::TooLarge { limit: 1 }).code, 552);
        assert_eq!(Reply::from(Error::InvalidKey).code, 535);
        assert_eq!(Reply::from(Error::DomainRefused { message: String::new() }).code, 550);
        assert_eq!(Reply::from(Error::IdempotencyConflict).code, 554);
    }
}
