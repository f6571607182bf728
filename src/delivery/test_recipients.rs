//! Recipients that play their part on every transport: nothing leaves.

use super::refusal::Refusal;
use super::settlement::{Outcome, Via};
use crate::smtp::{Phase, Reply, Security};

/// What becomes of a mail to a test recipient, from the first word of its address.
pub fn outcome(address: &str) -> Outcome {
    let local = address.split_once('@').map_or(address, |(local, _)| local);
    let part = local.split_once('+').map_or(local, |(part, _)| part).to_ascii_lowercase();
    match part.as_str() {
        "bounced" => Outcome::Refused { refusal: no_such_mailbox(), host: "a test recipient".into() },
        "complained" => Outcome::Complained,
        "suppressed" => Outcome::Suppressed,
        _ => Outcome::Taken { via: Via::Test, host: String::new(), reply: String::new(), security: Security::Clear },
    }
}

/// It bounces every time, so it must not get onto the list of those nobody writes to.
fn no_such_mailbox() -> Refusal {
    let text = "This test recipient bounces.".into();
    Refusal { reply: Reply { code: 550, enhanced: Some([5, 1, 1]), text }, at: Phase::Dot }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_of_the_address_says_what_happens() {
        assert!(matches!(outcome("delivered@resend.dev"), Outcome::Taken { via: Via::Test, .. }));
        assert!(matches!(outcome("Bounced+42@posthorn.test"), Outcome::Refused { .. }));
        assert_eq!(outcome("suppressed+a+b@resend.dev"), Outcome::Suppressed);
        assert_eq!(outcome("complained@resend.dev"), Outcome::Complained);
        let Outcome::Refused { refusal, .. } = outcome("bounced@resend.dev") else { panic!("it bounces") };
        assert!(!refusal.is_about_recipient());
    }
}
