//! Where a recipient waits: mail for one destination stands in one line, so that a destination
//! that does not answer holds up nobody else's.

use crate::config::TransportKind;
use crate::id::DomainId;
use crate::mime::Address;

/// The line of recipients that only play their part, and that nothing is sent to.
pub const TEST: &str = "test";

/// The line of a recipient. `domain_id` is the sender's domain where it has a transport of its own.
pub fn line(transport: TransportKind, domain_id: Option<DomainId>, recipient: &Address) -> String {
    if is_test(recipient) {
        return TEST.into();
    }
    let own = domain_id.map(|id| format!("domain:{id} ")).unwrap_or_default();
    match transport {
        TransportKind::Capture => own + "capture",
        TransportKind::Relay => own + "relay",
        TransportKind::Direct => own + "direct " + recipient.ascii_domain(),
    }
}

/// Whether it is one of the addresses that tests write to, perhaps with a label.
fn is_test(recipient: &Address) -> bool {
    let local = recipient.local();
    let part = local.split_once('+').map_or(local, |(part, _)| part);
    matches!(recipient.ascii_domain(), "resend.dev" | "posthorn.test")
        && ["delivered", "bounced", "complained", "suppressed"].iter().any(|known| part.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(transport: TransportKind, domain: Option<DomainId>, recipient: &str) -> String {
        line(transport, domain, &recipient.parse().expect("an address"))
    }

    #[test]
    fn a_line_is_a_transport_and_for_direct_mail_a_domain() {
        let id = uuid::Uuid::nil().into();
        assert_eq!(at(TransportKind::Capture, None, "a@Example.com"), "capture");
        assert_eq!(at(TransportKind::Relay, None, "a@example.com"), "relay");
        assert_eq!(at(TransportKind::Direct, None, "a@Example.com"), "direct example.com");
        let own = at(TransportKind::Direct, Some(id), "a@b.example");
        assert_eq!(own, "domain:00000000-0000-0000-0000-000000000000 direct b.example");
    }

    #[test]
    fn decisions_7_test_recipients_have_a_line_of_their_own_on_every_transport() {
        for recipient in ["delivered@resend.dev", "Bounced+user1@resend.dev", "suppressed+@posthorn.test"] {
            for transport in [TransportKind::Capture, TransportKind::Relay, TransportKind::Direct] {
                assert_eq!(at(transport, None, recipient), TEST, "{recipient}");
            }
        }
        for recipient in ["delivered@example.com", "someone@resend.dev", "delivered@mail.resend.dev"] {
            assert_eq!(at(TransportKind::Relay, None, recipient), "relay", "{recipient}");
        }
    }
}
