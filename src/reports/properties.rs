//! What holds of every report, found by chance.

use proptest::prelude::*;

use super::{Action, BounceKind, Report, read, read_ses, relay_report, report_message};

fn address() -> impl Strategy<Value = String> {
    "[a-z0-9.+]{1,20}@[a-z0-9]{1,10}\\.example".prop_filter("an address", |text| !text.contains(".."))
}

/// What servers say: printable, on one line, without what folds or ends a value.
fn said() -> impl Strategy<Value = String> {
    "[A-Za-z<>:,;()\u{e4}\u{4f8b}-]{1,12}( [A-Za-z<>:,;()-]{1,12}){0,20}"
}

fn made(action: &str, status: [u16; 3], to: &str, said: &str, fold: bool) -> String {
    let [class, subject, detail] = status;
    let break_line = if fold { "\r\n " } else { "" };
    format!(
        "From: <>\r\nMIME-Version: 1.0\r\nContent-Type: multipart/report; report-type=delivery-status;\r\n \
         boundary=\"=_b\"\r\n\r\n--=_b\r\n\r\nSorry.\r\n\r\n--=_b\r\nContent-Type: message/delivery-status\r\n\
         Content-Transfer-Encoding: 8bit\r\n\r\nReporting-MTA: dns; mx.example\r\n\r\n\
         Final-Recipient: rfc822;{break_line} {to}\r\nAction: {action}\r\nStatus: {class}.{subject}.{detail}\r\n\
         Diagnostic-Code: smtp;{break_line} {said}\r\n\r\n--=_b--\r\n"
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_report_that_is_made_is_read_as_what_it_says(
        (word, action) in prop_oneof![
            Just(("failed", Action::Failed)), Just(("Delayed", Action::Delayed)),
            Just(("delivered", Action::Delivered)), Just(("relayed", Action::Relayed))],
        class in prop_oneof![Just(2_u16), Just(4), Just(5)], subject in 1..8_u16, detail in 1..400_u16,
        to in address(), said in said(), fold in any::<bool>(),
    ) {
        let message = made(word, [class, subject, detail], &to, &said, fold);
        let Some(Report::Delivery(found)) = read(message.as_bytes(), true) else { panic!("no report: {message}") };
        prop_assert_eq!((found.action, found.status), (action, Some([class, subject, detail])));
        prop_assert_eq!(found.recipient.as_deref(), Some(to.as_str()));
        prop_assert_eq!(found.diagnostic.as_deref(), Some(said.trim()));
        let bounce = found.bounce();
        prop_assert!(!bounce.is_about_recipient || bounce.kind == BounceKind::Permanent && subject <= 2);
    }

    #[test]
    fn whatever_comes_is_bounded_and_can_be_shown(
        mut message in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..2000),
            (address(), said()).prop_map(|(to, said)| made("failed", [5, 1, 1], &to, &said, true).into_bytes())],
        cut in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        report_message(&message);
        relay_report(&message);
        if !message.is_empty() {
            let at = cut.index(message.len());
            message[at] = byte;
            report_message(&message);
            message.truncate(at);
            report_message(&message);
        }
    }

    #[test]
    fn of_what_a_relay_reports_each_recipient_is_told_once(
        recipients in proptest::collection::vec(address(), 0..150), status in "[0-9.]{0,12}", said in ".{0,200}",
    ) {
        let entries: Vec<_> = recipients.iter().map(|to| serde_json::json!(
            {"emailAddress": to, "status": status, "diagnosticCode": said})).collect();
        let message = serde_json::json!({"eventType": "Bounce", "mail": {"source": "t@x.example"},
            "bounce": {"bounceType": "Permanent", "bouncedRecipients": entries}}).to_string();
        let found = read_ses(&message);
        prop_assert_eq!(found.len(), recipients.len().min(100));
        prop_assert!(found.iter().zip(&recipients).all(|(found, to)| found.recipient.as_ref() == Some(to)));
        relay_report(message.as_bytes());
    }
}
