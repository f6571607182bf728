//! An entry point for fuzzers: it takes any bytes and panics when a promise is broken.

use super::{Report, read};

/// Any bytes as a message, whole and cut off: what is told of it can be shown and is bounded. Tells
/// whether it reports anything.
pub fn report_message(data: &[u8]) -> bool {
    let whole = read(data, true);
    for found in [whole.as_ref(), read(data, false).as_ref()].into_iter().flatten() {
        let texts = match found {
            Report::Delivery(found) => {
                [found.recipient.clone(), found.diagnostic.clone(), found.reporting_mta.clone(), Some(found.told())]
            }
            Report::Complaint(found) => {
                [Some(found.feedback_type.clone()), found.recipient.clone(), found.user_agent.clone(), None]
            }
        };
        for text in texts.into_iter().flatten() {
            assert!(!text.contains(char::is_control) && text.len() < 64 << 10, "{text:?}");
        }
    }
    whole.is_some()
}
