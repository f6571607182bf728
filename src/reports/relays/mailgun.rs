//! Mailgun's webhooks.

use serde::Deserialize;

use super::{Fate, Relayed, complaint, filled, marks};
use crate::reports::Action;

/// What Mailgun posts: an event, and what proves that it comes from there.
#[derive(Deserialize)]
pub struct Posted {
    pub signature: Signature,
    #[serde(rename = "event-data")]
    event: Event,
}

/// Over the moment and the token alone, not over the event.
#[derive(Deserialize)]
pub struct Signature {
    /// In seconds since 1970.
    pub timestamp: String,
    pub token: String,
    /// In hexadecimal digits.
    pub signature: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Event {
    event: String,
    severity: Option<String>,
    reason: Option<String>,
    recipient: Option<String>,
    delivery_status: Option<DeliveryStatus>,
    envelope: Option<Envelope>,
    user_variables: Option<Variables>,
    client_info: Option<ClientInfo>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct DeliveryStatus {
    message: Option<String>,
    description: Option<String>,
    enhanced_code: Option<String>,
    mx_host: Option<String>,
}

#[derive(Deserialize)]
struct Envelope {
    sender: Option<String>,
}

#[derive(Deserialize)]
struct Variables {
    posthorn: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct ClientInfo {
    user_agent: Option<String>,
}

impl Posted {
    pub fn read(body: &[u8]) -> Result<Posted, serde_json::Error> {
        serde_json::from_slice(body)
    }

    /// What it reports, if that is anything about a delivery.
    pub fn report(&self) -> Option<Relayed> {
        let event = &self.event;
        let recipient = event.recipient.as_deref();
        let report = match event.event.as_str() {
            "delivered" => event.fate(Action::Delivered, 2).report(recipient),
            "failed" if event.severity.as_deref() == Some("temporary") => {
                event.fate(Action::Delayed, 4).report(recipient)
            }
            "failed" => event.fate(Action::Failed, 5).report(recipient),
            "complained" => {
                let agent = event.client_info.as_ref().and_then(|info| info.user_agent.as_deref());
                complaint(None, recipient, agent)
            }
            _ => return None,
        };
        let sender = event.envelope.as_ref().and_then(|envelope| envelope.sender.as_deref());
        let variable = event.user_variables.as_ref().and_then(|variables| variables.posthorn.as_deref());
        Some(Relayed { marks: marks([sender, variable]), recipient: recipient.map(str::to_owned), report })
    }
}

impl Event {
    fn fate(&self, action: Action, class: u16) -> Fate<'_> {
        let assumed = match self.reason.as_deref() {
            // Who bounced before: Mailgun keeps a list of its own.
            Some("suppress-bounce") => Some([1, 1]),
            Some("suppress-complaint" | "suppress-unsubscribe") => Some([7, 1]),
            _ => None,
        };
        let status = self.delivery_status.as_ref();
        Fate {
            action,
            class: Some(class),
            assumed,
            status: status.and_then(|status| status.enhanced_code.as_deref()),
            diagnostic: status.and_then(|status| filled(status.message.as_ref()).or(status.description.as_deref())),
            host: status.and_then(|status| status.mx_host.as_deref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::ends;
    use super::*;
    use crate::reports::Report;

    fn posted(event: Value) -> Posted {
        let body = json!({"signature": {"timestamp": "1", "token": "t", "signature": "00"}, "event-data": event});
        Posted::read(body.to_string().as_bytes()).expect("JSON")
    }

    #[test]
    fn an_event_says_whom_what_and_why() {
        let found = posted(json!({"event": "failed", "severity": "permanent", "reason": "bounce",
            "recipient": "ada@example.org", "envelope": {"sender": "token@send.x.example", "targets": "ada@example.org"},
            "user-variables": {"posthorn": "mark", "other": 1},
            "delivery-status": {"code": 550, "message": "5.1.1 no such user", "mx-host": "mx.example.org"}}));
        let found = found.report().expect("a report");
        assert_eq!(found.marks, ["token@send.x.example", "mark"]);
        assert_eq!(ends(&found.report), (Action::Failed, Some([5, 1, 1]), true));
        let Report::Delivery(delivery) = &found.report else { panic!("{found:?}") };
        assert_eq!(
            (delivery.told().as_str(), delivery.reporting_mta.as_deref()),
            ("5.1.1 no such user", Some("mx.example.org"))
        );
    }

    #[test]
    fn what_is_not_for_good_or_not_about_the_mailbox_ends_nothing() {
        for (event, expected) in [
            (
                json!({"event": "failed", "severity": "permanent", "reason": "suppress-bounce"}),
                (Action::Failed, Some([5, 1, 1]), true),
            ),
            (
                json!({"event": "failed", "severity": "permanent", "reason": "suppress-complaint"}),
                (Action::Failed, Some([5, 7, 1]), false),
            ),
            (
                json!({"event": "failed", "severity": "permanent", "delivery-status": {"message": " ", "description": "5.7.1 no"}}),
                (Action::Failed, Some([5, 7, 1]), false),
            ),
            (
                json!({"event": "failed", "severity": "temporary", "delivery-status": {"enhanced-code": "5.1.1"}}),
                (Action::Delayed, Some([4, 1, 1]), false),
            ),
            (json!({"event": "delivered"}), (Action::Delivered, Some([2, 0, 0]), false)),
        ] {
            let found = posted(event.clone()).report().expect("a report");
            assert_eq!(ends(&found.report), expected, "{event}");
        }
        assert!(posted(json!({"event": "opened", "recipient": "a@b.example"})).report().is_none());
        let complained = posted(json!({"event": "complained", "recipient": "a@b.example"})).report().expect("a report");
        assert!(matches!(complained.report, Report::Complaint(complaint) if complaint.is_complaint()));
    }
}
