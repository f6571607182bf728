//! Amazon SES, as it tells SNS: notifications of an identity (`notificationType`) and of a
//! configuration set (`eventType`), which say the same.

use serde::Deserialize;

use super::{Fate, MARK_FIELD, MOST, Relayed, complaint, marks};
use crate::reports::Action;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Notification {
    #[serde(alias = "eventType")]
    notification_type: String,
    mail: Mail,
    bounce: Option<Bounced>,
    complaint: Option<Complained>,
    delivery: Option<Delivered>,
    delivery_delay: Option<Delayed>,
}

#[derive(Deserialize)]
struct Mail {
    /// Where bounces go.
    source: Option<String>,
    #[serde(default)]
    headers: Vec<Field>,
}

#[derive(Deserialize)]
struct Field {
    name: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bounced {
    bounce_type: String,
    bounce_sub_type: Option<String>,
    #[serde(default)]
    bounced_recipients: Vec<Recipient>,
    #[serde(rename = "reportingMTA")]
    reporting_mta: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recipient {
    email_address: String,
    status: Option<String>,
    diagnostic_code: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Complained {
    #[serde(default)]
    complained_recipients: Vec<Recipient>,
    complaint_feedback_type: Option<String>,
    user_agent: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Delivered {
    #[serde(default)]
    recipients: Vec<String>,
    smtp_response: Option<String>,
    #[serde(rename = "reportingMTA")]
    reporting_mta: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Delayed {
    #[serde(default)]
    delayed_recipients: Vec<Recipient>,
    #[serde(rename = "reportingMTA")]
    reporting_mta: Option<String>,
}

/// Reads the message of a notification; nothing where it reports nothing of a mail.
pub fn read(message: &str) -> Vec<Relayed> {
    let Ok(notification) = serde_json::from_str::<Notification>(message) else { return Vec::new() };
    let Notification { notification_type, mail, bounce, complaint, delivery, delivery_delay } = &notification;
    let written = mail.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(MARK_FIELD));
    let written = written.map(|field| Some(field.value.as_str()));
    let marks = marks([mail.source.as_deref()].into_iter().chain(written));
    let found = match notification_type.as_str() {
        "Bounce" => bounce.as_ref().map(Bounced::reports),
        "Complaint" => complaint.as_ref().map(Complained::reports),
        "Delivery" => delivery.as_ref().map(Delivered::reports),
        "DeliveryDelay" => delivery_delay.as_ref().map(Delayed::reports),
        _ => None,
    };
    let found = found.unwrap_or_default().into_iter();
    found.map(|(recipient, report)| Relayed { marks: marks.clone(), recipient: Some(recipient), report }).collect()
}

type Found = Vec<(String, crate::reports::Report)>;

impl Bounced {
    fn reports(&self) -> Found {
        let class = match self.bounce_type.as_str() {
            "Permanent" => Some(5),
            "Transient" => Some(4),
            // Nobody says whether there is hope.
            _ => Some(0),
        };
        let assumed = match self.bounce_sub_type.as_deref() {
            // Who bounced before, too: Amazon keeps a list of its own.
            Some("NoEmail" | "Suppressed" | "OnAccountSuppressionList") => Some([1, 1]),
            Some("MailboxFull") => Some([2, 2]),
            Some("MessageTooLarge") => Some([3, 4]),
            Some("ContentRejected" | "AttachmentRejected") => Some([6, 0]),
            _ => None,
        };
        of_each(&self.bounced_recipients, |recipient| Fate {
            action: Action::Failed,
            class,
            assumed,
            status: recipient.status.as_deref(),
            diagnostic: recipient.diagnostic_code.as_deref(),
            host: host(self.reporting_mta.as_deref()),
        })
    }
}

impl Delayed {
    fn reports(&self) -> Found {
        of_each(&self.delayed_recipients, |recipient| Fate {
            action: Action::Delayed,
            class: Some(4),
            assumed: None,
            status: recipient.status.as_deref(),
            diagnostic: recipient.diagnostic_code.as_deref(),
            host: host(self.reporting_mta.as_deref()),
        })
    }
}

impl Complained {
    fn reports(&self) -> Found {
        let of = |recipient: &Recipient| {
            let address = recipient.email_address.as_str();
            let kind = self.complaint_feedback_type.as_deref();
            (address.to_owned(), complaint(kind, Some(address), self.user_agent.as_deref()))
        };
        self.complained_recipients.iter().take(MOST).map(of).collect()
    }
}

impl Delivered {
    fn reports(&self) -> Found {
        let of = |address: &String| {
            let diagnostic = self.smtp_response.as_deref();
            let host = host(self.reporting_mta.as_deref());
            let fate =
                Fate { action: Action::Delivered, class: Some(2), assumed: None, status: None, diagnostic, host };
            (address.clone(), fate.report(Some(address)))
        };
        self.recipients.iter().take(MOST).map(of).collect()
    }
}

fn of_each<'a>(recipients: &'a [Recipient], fate: impl Fn(&'a Recipient) -> Fate<'a>) -> Found {
    let of = |recipient: &'a Recipient| {
        let address = recipient.email_address.as_str();
        (address.to_owned(), fate(recipient).report(Some(address)))
    };
    recipients.iter().take(MOST).map(of).collect()
}

/// A host, which may have its type before it.
fn host(given: Option<&str>) -> Option<&str> {
    let given = given?;
    Some(given.split_once(';').map_or(given, |(_, host)| host).trim())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::ends;
    use super::*;
    use crate::reports::Report;

    fn bounced(kind: &str, sub_type: &str, status: Option<&str>) -> Relayed {
        let message = json!({"notificationType": "Bounce", "mail": {"source": "token@send.x.example", "messageId": "1",
            "headers": [{"name": "From", "value": "a"}, {"name": "x-posthorn-mail", "value": "mark"}]},
            "bounce": {"bounceType": kind, "bounceSubType": sub_type, "reportingMTA": "dsn; a8.amazonses.com",
                "bouncedRecipients": [{"emailAddress": "ada@example.org", "status": status,
                    "diagnosticCode": status.map(|status| format!("smtp; 550 {status} no"))}]}});
        read(&message.to_string()).pop().expect("a report")
    }

    #[test]
    fn a_bounce_says_whom_what_and_why() {
        let found = bounced("Permanent", "General", Some("5.1.1"));
        assert_eq!(
            (found.marks.as_slice(), found.recipient.as_deref()),
            (&["token@send.x.example".to_owned(), "mark".to_owned()][..], Some("ada@example.org"))
        );
        let Report::Delivery(delivery) = &found.report else { panic!("{found:?}") };
        assert_eq!(
            (delivery.told().as_str(), delivery.reporting_mta.as_deref()),
            ("550 5.1.1 no", Some("a8.amazonses.com"))
        );
    }

    #[test]
    fn amazon_says_whether_there_is_hope() {
        for (kind, sub_type, status, expected) in [
            ("Permanent", "General", Some("5.1.1"), (Some([5, 1, 1]), true)),
            ("Transient", "General", Some("5.1.1"), (Some([4, 1, 1]), false)),
            ("Permanent", "General", None, (Some([5, 0, 0]), false)),
            ("Permanent", "NoEmail", None, (Some([5, 1, 1]), true)),
            ("Permanent", "OnAccountSuppressionList", None, (Some([5, 1, 1]), true)),
            ("Transient", "MailboxFull", None, (Some([4, 2, 2]), false)),
            ("Transient", "ContentRejected", None, (Some([4, 6, 0]), false)),
            ("Undetermined", "Undetermined", None, (Some([0, 0, 0]), false)),
        ] {
            let (action, status, ends) = ends(&bounced(kind, sub_type, status).report);
            assert_eq!((action, (status, ends)), (Action::Failed, expected), "{kind} {sub_type}");
        }
    }

    #[test]
    fn complaints_deliveries_and_delays_are_read_of_both_kinds_of_notification() {
        let complained = json!({"eventType": "Complaint", "mail": {"source": "t@x.example"}, "complaint":
            {"complainedRecipients": [{"emailAddress": "a@b.example"}], "userAgent": "Loop", "complaintFeedbackType": "abuse"}});
        let found = read(&complained.to_string()).pop().expect("a report");
        let Report::Complaint(complaint) = found.report else { panic!("{found:?}") };
        assert!(complaint.is_complaint() && complaint.user_agent.as_deref() == Some("Loop"));
        let delivered = json!({"notificationType": "Delivery", "mail": {"source": "t@x.example"},
            "delivery": {"recipients": ["a@b.example", "c@d.example"], "smtpResponse": "250 ok"}});
        assert_eq!(read(&delivered.to_string()).len(), 2);
        let delayed = json!({"eventType": "DeliveryDelay", "mail": {}, "deliveryDelay":
            {"delayType": "MailboxFull", "delayedRecipients": [{"emailAddress": "a@b.example", "status": "4.2.2"}]}});
        let found = read(&delayed.to_string()).pop().expect("a report");
        assert_eq!(ends(&found.report), (Action::Delayed, Some([4, 2, 2]), false));
        for nothing in [
            "Successfully validated SNS topic for Amazon SES event publishing.",
            r#"{"eventType": "Send", "mail": {}, "send": {}}"#,
            r#"{"eventType": "Bounce", "mail": {}}"#,
            r#"{"mail": {}}"#,
        ] {
            assert_eq!(read(nothing), [], "{nothing}");
        }
    }
}
