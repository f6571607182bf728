//! An entry point for fuzzers: it takes any bytes and panics when a promise is broken.

use super::{MailgunPost, Report, read, read_postmark, read_ses};

/// Any bytes as a message, whole and cut off: what is told of it can be shown and is bounded. Tells
/// whether it reports anything.
pub fn report_message(data: &[u8]) -> bool {
    let whole = read(data, true);
    for found in [whole.as_ref(), read(data, false).as_ref()].into_iter().flatten() {
        check(found);
    }
    whole.is_some()
}

/// Any bytes as what each of the relays posts. Tells how many recipients something is reported of.
pub fn relay_report(data: &[u8]) -> usize {
    let of_ses = str::from_utf8(data).map(read_ses).unwrap_or_default();
    let of_mailgun = MailgunPost::read(data).ok().and_then(|posted| posted.report());
    let of_postmark = read_postmark(data).ok().flatten();
    let mut count = 0;
    for found in of_ses.iter().chain(&of_mailgun).chain(&of_postmark) {
        check(&found.report);
        assert!(found.marks.len() <= 100 && found.marks.iter().all(|mark| is_shown(mark)), "{found:?}");
        count += 1;
    }
    count
}

fn check(report: &Report) {
    let texts = match report {
        Report::Delivery(found) => {
            [found.recipient.clone(), found.diagnostic.clone(), found.reporting_mta.clone(), Some(found.told())]
        }
        Report::Complaint(found) => [
            Some(found.feedback_type.clone()),
            found.recipient.clone(),
            found.user_agent.clone(),
            found.return_path.clone(),
        ],
    };
    assert!(texts.iter().flatten().all(|text| is_shown(text)), "{texts:?}");
}

/// Whether a text can be shown, and is bounded.
fn is_shown(text: &str) -> bool {
    !text.contains(char::is_control) && text.len() < 64 << 10
}
