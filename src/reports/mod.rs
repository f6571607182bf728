//! Reports on mail that has left: what a mail server says became of it (RFC 3464), and what its
//! reader thinks of it (RFC 5965). Pure: bytes in, words out.
//!
//! Only what has a part for machines counts. Auto-replies, vacation notes and receipts are neither, whatever their
//! text says.

mod bounce;
mod complaint;
mod delivery;
mod fields;
mod fuzzing;
#[cfg(test)]
mod properties;
mod relays;

pub use bounce::{Bounce, BounceKind};
pub use complaint::Complaint;
pub use delivery::{Action, Delivery};
pub use fuzzing::{relay_report, report_message};
pub use relays::{MARK_FIELD, MARK_NAME, MailgunPost, Relayed, read_postmark, read_ses};

use crate::mime::Part;

/// What a message reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// What became of it on its way to a recipient. Of several, what matters most.
    Delivery(Delivery),
    Complaint(Complaint),
}

/// Reads a message, or its beginning where it is not whole; `None` where it reports nothing.
pub fn read(message: &[u8], is_whole: bool) -> Option<Report> {
    let message = Part::read(message, is_whole);
    // OpenSMTPD writes `mixed`, and what a report consists of in it.
    let is_report = message.is("multipart/report");
    if !is_report && !message.is("multipart/mixed") {
        return None;
    }
    let parts = message.parts();
    parts.iter().find_map(|part| {
        if part.is("message/delivery-status") || part.is("message/global-delivery-status") {
            let delivery = Delivery::read(&part.text()?)?;
            let notice = parts.iter().find(|part| part.is("text/plain")).and_then(Part::text);
            return Some(Report::Delivery(delivery.with_notice(&notice.unwrap_or_default())));
        }
        if is_report && part.is("message/feedback-report") {
            let complaint = Complaint::read(&part.text()?)?;
            return Some(Report::Complaint(complaint.with_mail(&mail_within(&parts).unwrap_or_default())));
        }
        None
    })
}

/// The mail that a report brings back, or its head.
fn mail_within(parts: &[Part<'_>]) -> Option<String> {
    let is_mail =
        |part: &&Part<'_>| ["message/rfc822", "message/global", "text/rfc822-headers"].iter().any(|kind| part.is(kind));
    parts.iter().find(is_mail)?.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample as it travels: lines end with CR and LF.
    fn sample(text: &str) -> Vec<u8> {
        text.replace("\r\n", "\n").replace('\n', "\r\n").into_bytes()
    }

    fn delivery(text: &str) -> Delivery {
        match read(&sample(text), true) {
            Some(Report::Delivery(delivery)) => delivery,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_dialect_says_whom_what_and_why() {
        for (text, action, status, to, by, why) in [
            (
                include_str!("samples/postfix.eml"),
                Action::Failed,
                [5, 1, 1],
                "ada@example.org",
                "mail.relay.example",
                "550 5.1.1 <ada@example.org>: Recipient address rejected",
            ),
            (
                include_str!("samples/exim.eml"),
                Action::Failed,
                [5, 1, 1],
                "ada@example.org",
                "exim.relay.example",
                "550 5.1.1 No mailbox here",
            ),
            (
                include_str!("samples/opensmtpd.eml"),
                Action::Failed,
                [5, 2, 1],
                "ada@example.org",
                "bsd.relay.example",
                "550 5.2.1 Mailbox is closed",
            ),
            (
                include_str!("samples/exchange.eml"),
                Action::Failed,
                [5, 1, 10],
                "ada@example.org",
                "EX01.corp.example",
                "550 5.1.10 RESOLVER.ADR.RecipientNotFound",
            ),
            (
                include_str!("samples/gmail.eml"),
                Action::Failed,
                [5, 1, 1],
                "ada@example.org",
                "googlemail.com",
                "550-5.1.1 There is no such account. Please look at the address 550-5.1.1 once more",
            ),
            (
                include_str!("samples/delayed.eml"),
                Action::Delayed,
                [4, 4, 1],
                "ada@example.org",
                "mail.relay.example",
                "connect to mx.example.org[192.0.2.1]:25: Connection timed out",
            ),
            (
                include_str!("samples/success.eml"),
                Action::Delivered,
                [2, 1, 5],
                "ada@example.org",
                "mail.relay.example",
                "250 2.1.5 Ok",
            ),
        ] {
            let found = delivery(text);
            assert_eq!((found.action, found.status), (action, Some(status)), "{found:?}");
            assert_eq!((found.recipient.as_deref(), found.reporting_mta.as_deref()), (Some(to), Some(by)));
            let told = found.diagnostic.as_deref().unwrap_or_default();
            assert!(told.starts_with(why), "{told}");
        }
    }

    #[test]
    fn a_report_in_utf_8_and_in_base64_is_read() {
        let found = delivery(include_str!("samples/global.eml"));
        assert_eq!((found.recipient.as_deref(), found.status), (Some("用户@例子.example"), Some([5, 1, 1])));
    }

    #[test]
    fn complaints_say_of_what_kind_they_are() {
        let read = |text: &str| match read(&sample(text), true) {
            Some(Report::Complaint(complaint)) => complaint,
            other => panic!("{other:?}"),
        };
        let found = read(include_str!("samples/complaint.eml"));
        assert_eq!((found.feedback_type.as_str(), found.is_complaint()), ("abuse", true));
        assert_eq!(found.recipient.as_deref(), Some("ada@example.org"));
        assert_eq!(found.user_agent.as_deref(), Some("ExampleLoop/1.2"));
        let not_spam = include_str!("samples/complaint.eml").replace("Feedback-Type: abuse", "Feedback-Type: not-spam");
        assert!(!read(&not_spam).is_complaint());
    }

    #[test]
    fn auto_replies_vacation_notes_and_receipts_are_neither() {
        for text in [
            include_str!("samples/vacation.eml"),
            include_str!("samples/receipt.eml"),
            "Subject: Undelivered Mail Returned to Sender\n\nStatus: 5.1.1\nAction: failed\n",
            include_str!("samples/opensmtpd.eml").replace("message/delivery-status", "text/plain").as_str(),
            include_str!("samples/complaint.eml").replace("multipart/report", "multipart/mixed").as_str(),
            "",
        ] {
            assert_eq!(read(&sample(text), true), None, "{text}");
        }
    }

    #[test]
    fn of_a_message_that_is_cut_off_what_stands_before_is_read() {
        let whole = sample(include_str!("samples/postfix.eml"));
        let at = |word: &str| memchr::memmem::find(&whole, word.as_bytes()).expect("there");
        assert!(read(&whole[..at("message/rfc822") + 60], false).is_some());
        assert_eq!(read(&whole[..at("Diagnostic-Code")], false), None, "half of a report is none");
    }
}
