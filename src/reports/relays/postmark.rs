//! Postmark's webhooks.

use serde::Deserialize;

use super::{Fate, Relayed, complaint, filled, marks};
use crate::reports::Action;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Posted {
    record_type: String,
    /// Of a bounce.
    r#type: Option<String>,
    #[serde(alias = "Recipient")]
    email: Option<String>,
    details: Option<String>,
    description: Option<String>,
    metadata: Option<Metadata>,
}

#[derive(Deserialize)]
struct Metadata {
    posthorn: Option<String>,
}

/// Reads what Postmark posts; `None` where it reports nothing of a delivery.
pub fn read(body: &[u8]) -> Result<Option<Relayed>, serde_json::Error> {
    let posted: Posted = serde_json::from_slice(body)?;
    let recipient = posted.email.as_deref();
    let report = match (posted.record_type.as_str(), posted.r#type.as_deref()) {
        ("SpamComplaint", _) | ("Bounce", Some("SpamComplaint")) => complaint(None, recipient, None),
        ("Delivery", _) => posted.fate(Action::Delivered, Some(2), None).report(recipient),
        ("Bounce", Some(kind)) => match posted.bounce(kind) {
            Some(fate) => fate.report(recipient),
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    let mark = posted.metadata.as_ref().and_then(|metadata| metadata.posthorn.as_deref());
    Ok(Some(Relayed { marks: marks([mark]), recipient: recipient.map(str::to_owned), report }))
}

impl Posted {
    /// What a kind of bounce means; the other kinds are replies, or about subscriptions.
    fn bounce(&self, kind: &str) -> Option<Fate<'_>> {
        Some(match kind {
            "HardBounce" | "BadEmailAddress" => self.fate(Action::Failed, Some(5), Some([1, 1])),
            "Transient" => self.fate(Action::Delayed, Some(4), None),
            "SoftBounce" | "DnsError" => self.fate(Action::Failed, Some(4), None),
            "Blocked" | "SpamNotification" | "VirusNotification" | "DMARCPolicy" | "ManuallyDeactivated" => {
                self.fate(Action::Failed, Some(5), Some([7, 1]))
            }
            "Unknown" => self.fate(Action::Failed, Some(0), None),
            _ => return None,
        })
    }

    fn fate(&self, action: Action, class: Option<u16>, assumed: Option<[u16; 2]>) -> Fate<'_> {
        let diagnostic = filled(self.details.as_ref()).or(self.description.as_deref());
        Fate { action, class, assumed, status: None, diagnostic, host: None }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::ends;
    use super::*;
    use crate::reports::Report;

    fn posted(body: Value) -> Option<Relayed> {
        read(body.to_string().as_bytes()).expect("JSON")
    }

    fn bounce(kind: &str, details: &str) -> Option<Relayed> {
        posted(json!({"RecordType": "Bounce", "Type": kind, "TypeCode": 1, "ID": 42, "Email": "ada@example.org",
            "MessageID": "883953f4-6105-42a2-a16a-77a8eac79483", "Metadata": {"posthorn": "mark", "a": "b"},
            "Description": "It failed.", "Details": details, "Inactive": true}))
    }

    #[test]
    fn kinds_of_bounces_say_what_follows() {
        for (kind, details, expected) in [
            ("HardBounce", "smtp;550 5.1.1 no such user", (Action::Failed, Some([5, 1, 1]), true)),
            ("HardBounce", "", (Action::Failed, Some([5, 1, 1]), true)),
            ("HardBounce", "550 5.7.1 we do not like it", (Action::Failed, Some([5, 7, 1]), false)),
            ("SoftBounce", "smtp; 552 5.2.2 full", (Action::Failed, Some([4, 2, 2]), false)),
            ("Blocked", "", (Action::Failed, Some([5, 7, 1]), false)),
            ("Transient", "", (Action::Delayed, Some([4, 0, 0]), false)),
            ("Unknown", "", (Action::Failed, Some([0, 0, 0]), false)),
        ] {
            let found = bounce(kind, details).expect("a report");
            assert_eq!(
                (found.marks.as_slice(), found.recipient.as_deref()),
                (&["mark".to_owned()][..], Some("ada@example.org"))
            );
            assert_eq!(ends(&found.report), expected, "{kind} {details}");
        }
        for kind in ["AutoResponder", "Unsubscribe", "Subscribe", "AddressChange", "ChallengeVerification"] {
            assert_eq!(bounce(kind, "550 5.1.1 gone"), None, "{kind}");
        }
    }

    #[test]
    fn complaints_and_deliveries_are_read() {
        let complained =
            posted(json!({"RecordType": "SpamComplaint", "Email": "a@b.example", "Type": "SpamComplaint"}));
        assert!(
            matches!(complained.expect("a report").report, Report::Complaint(complaint) if complaint.is_complaint())
        );
        let delivered = posted(json!({"RecordType": "Delivery", "Recipient": "a@b.example", "Details": "250 ok"}));
        assert_eq!(delivered.expect("a report").recipient.as_deref(), Some("a@b.example"));
        assert_eq!(posted(json!({"RecordType": "Open", "Recipient": "a@b.example"})), None);
    }
}
