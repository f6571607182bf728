//! A server's no, and what it means.

use std::fmt;

use serde_json::{Value, json};

use crate::reports::Bounce;
use crate::smtp::{Phase, Reply};

/// Replies by which a server refuses us and not the mail: it wants a log-in, or another one.
/// Somebody will mend the settings.
const ABOUT_US: [u16; 4] = [530, 534, 535, 538];

/// A reply that says no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub reply: Reply,
    pub at: Phase,
}

impl Refusal {
    /// Whether trying again is of no use.
    pub fn is_permanent(&self) -> bool {
        self.reply.is_permanent() && !ABOUT_US.contains(&self.reply.code)
    }

    /// Whether there is no such mailbox: nobody writes to it again.
    pub fn is_about_recipient(&self) -> bool {
        self.bounce().is_about_recipient && self.at == Phase::Rcpt && self.is_permanent()
    }

    fn bounce(&self) -> Bounce {
        Bounce::of(self.reply.code / 100, self.reply.enhanced)
    }

    /// As events tell it.
    pub fn detail(&self, to: &str, host: &str) -> Value {
        let Bounce { kind, sub_type, .. } = self.bounce();
        let bounce = json!({
            "type": kind.as_str(),
            "subType": sub_type,
            "message": format!("{host} refused the mail."),
            "diagnosticCode": [format!("smtp; {self}")],
        });
        json!({"to": to, "host": host, "bounce": bounce})
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reply.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(code: u16, enhanced: Option<[u16; 3]>, at: Phase) -> Refusal {
        Refusal { reply: Reply { code, enhanced, text: "no".into() }, at }
    }

    #[test]
    fn only_a_mailbox_that_is_not_there_is_never_written_to_again() {
        for (code, enhanced, at, expected) in [
            (550, Some([5, 1, 1]), Phase::Rcpt, true),
            (550, Some([5, 1, 10]), Phase::Rcpt, true),
            (550, Some([5, 2, 1]), Phase::Rcpt, true),
            (550, Some([5, 1, 8]), Phase::Rcpt, false),
            (550, Some([5, 7, 1]), Phase::Rcpt, false),
            (552, Some([5, 2, 2]), Phase::Rcpt, false),
            (550, Some([5, 1, 1]), Phase::Dot, false),
            (550, None, Phase::Rcpt, false),
            (450, Some([4, 1, 1]), Phase::Rcpt, false),
        ] {
            let refusal = refusal(code, enhanced, at);
            assert_eq!(refusal.is_about_recipient(), expected, "{refusal}");
        }
    }

    #[test]
    fn a_refused_log_in_says_nothing_of_the_mail() {
        for code in ABOUT_US {
            assert!(!refusal(code, None, Phase::Rcpt).is_permanent(), "{code}");
        }
        assert!(refusal(554, None, Phase::Dot).is_permanent() && !refusal(451, None, Phase::Rcpt).is_permanent());
    }
}
