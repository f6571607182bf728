//! What follows from a report for the recipient whom it is about.

use serde_json::{Value, json};

use crate::emails::State;
use crate::reports::{Action, Complaint, Delivery, Report};
use crate::suppressions;

/// What follows from a report.
pub struct News {
    pub state: State,
    /// Who is meant: those who have come this far, and not as far as that.
    pub least: State,
    pub until: State,
    pub detail: Value,
    pub reason: Option<String>,
    pub suppresses: Option<suppressions::Origin>,
}

impl News {
    /// What a report says of a recipient; `None` where that changes nothing.
    pub fn told_by(report: &Report, to: &str) -> Option<News> {
        match report {
            Report::Delivery(delivery) => of_delivery(delivery, to),
            Report::Complaint(complaint) => of_complaint(complaint, to),
        }
    }

    /// Whether the recipient wants no more mail at all.
    pub fn unsubscribes(&self) -> bool {
        self.state == State::Complained
    }

    /// For whoever has not come as far as that already.
    fn of(state: State, detail: Value) -> News {
        News { state, least: State::Queued, until: state, detail, reason: None, suppresses: None }
    }
}

fn of_delivery(delivery: &Delivery, to: &str) -> Option<News> {
    let (told, host) = (delivery.told(), delivery.reporting_mta.as_deref().unwrap_or("a mail server"));
    match delivery.action {
        Action::Failed => {
            let bounce = delivery.bounce();
            let detail = json!({"to": to, "host": host, "bounce": {
                "type": bounce.kind.as_str(),
                "subType": bounce.sub_type,
                "message": format!("{host} reports that the mail was not delivered."),
                "diagnosticCode": [format!("smtp; {told}")],
            }});
            let suppresses = bounce.is_about_recipient.then_some(suppressions::Origin::Bounce);
            Some(News { reason: Some(told), suppresses, ..News::of(State::Bounced, detail) })
        }
        Action::Delivered => {
            let detail = json!({"to": to, "via": "report", "host": host, "reply": told});
            Some(News::of(State::Delivered, detail))
        }
        // What waits here is our own business, and so is what nobody knows of.
        Action::Delayed => {
            let detail = json!({"to": to, "host": host, "reason": told});
            let (least, until) = (State::Sent, State::Uncertain);
            Some(News { least, until, reason: Some(told), ..News::of(State::Delayed, detail) })
        }
        // What it was handed on to reports nothing: nobody will know more.
        Action::Relayed => {
            Some(News::of(State::Delivered, json!({"to": to, "via": "relay", "host": host, "reply": told})))
        }
    }
}

fn of_complaint(complaint: &Complaint, to: &str) -> Option<News> {
    let Complaint { feedback_type, user_agent, .. } = complaint;
    let detail = json!({"to": to, "complaint": {"type": feedback_type, "userAgent": user_agent}});
    complaint.is_complaint().then(|| News {
        reason: Some(format!("complained of: {feedback_type}")),
        suppresses: Some(suppressions::Origin::Complaint),
        ..News::of(State::Complained, detail)
    })
}
