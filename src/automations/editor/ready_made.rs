//! Automations to begin with. Each can be published as it is.

use serde_json::{Value, json};

use super::contents::{Contents, DraftStep, Link};
use crate::automations::graph::Exit;

pub struct ReadyMade {
    pub word: &'static str,
    pub name: &'static str,
    pub sentence: &'static str,
    make: fn(&str) -> (Value, Value),
    re_entry: &'static str,
    exit_on: Option<&'static str>,
}

pub const ALL: [ReadyMade; 5] = [
    ReadyMade {
        word: "empty",
        name: "Untitled automation",
        sentence: "An event, and nothing behind it yet.",
        make: |_| (json!([trigger("user.created")]), json!([])),
        re_entry: "always",
        exit_on: None,
    },
    ReadyMade {
        word: "welcome",
        name: "Welcome",
        sentence: "Greets whoever signs up, and comes back with a first tip three days later.",
        make: welcome,
        re_entry: "once_per_contact",
        exit_on: None,
    },
    ReadyMade {
        word: "trial",
        name: "Trial ending",
        sentence: "Tells that a trial ends soon, waits three days for a subscription, and reminds once more.",
        make: trial,
        re_entry: "one_at_a_time",
        exit_on: None,
    },
    ReadyMade {
        word: "dunning",
        name: "Failed payment",
        sentence: "Asks for another way to pay, waits for the payment, reminds once, and says thanks when it comes.",
        make: dunning,
        re_entry: "one_at_a_time",
        exit_on: None,
    },
    ReadyMade {
        word: "win_back",
        name: "Win back",
        sentence: "Writes two weeks after somebody has left, and once more if they do not come back; stops when they do.",
        make: win_back,
        re_entry: "one_at_a_time",
        exit_on: Some("subscription.started"),
    },
];

impl ReadyMade {
    pub fn named(word: &str) -> Option<&'static ReadyMade> {
        ALL.iter().find(|one| one.word == word)
    }

    /// A draft of it; its mail comes from this address.
    pub fn contents(&self, from: &str) -> Contents {
        let (steps, connections) = (self.make)(from);
        Contents {
            name: self.name.to_owned(),
            re_entry: self.re_entry.to_owned(),
            exit_on: self.exit_on.map(str::to_owned),
            send_window: None,
            steps: serde_json::from_value::<Vec<DraftStep>>(steps).unwrap_or_default(),
            connections: serde_json::from_value::<Vec<Link>>(connections).unwrap_or_default(),
        }
    }
}

fn trigger(event_name: &str) -> Value {
    json!({"key": "start", "type": "trigger", "config": {"event_name": event_name}})
}

fn mail(key: &str, from: &str, subject: &str, text: &str) -> Value {
    json!({"key": key, "type": "send_email", "config": {"from": from, "subject": subject, "text": text}})
}

fn wait(key: &str, duration: &str) -> Value {
    json!({"key": key, "type": "delay", "config": {"duration": duration}})
}

fn wait_for(key: &str, event_name: &str, timeout: &str) -> Value {
    json!({"key": key, "type": "wait_for_event", "config": {"event_name": event_name, "timeout": timeout}})
}

fn exit() -> Value {
    json!({"key": "exit", "type": "exit", "config": {}})
}

fn link(from: &str, to: &str) -> Value {
    json!(Link { from: from.into(), to: to.into(), exit: Exit::Default })
}

/// Where a wait leads when its event came, and when it did not.
fn either(from: &str, received: &str, timeout: &str) -> [Value; 2] {
    [(received, Exit::EventReceived), (timeout, Exit::Timeout)]
        .map(|(to, exit)| json!(Link { from: from.into(), to: to.into(), exit }))
}

fn welcome(from: &str) -> (Value, Value) {
    let steps = json!([
        trigger("user.created"),
        mail("welcome", from, "Welcome", "Good to have you here. Just answer this mail if you need anything.\n"),
        wait("pause", "3 days"),
        mail("first_tip", from, "A first tip", "Here is what most people try first: …\n"),
    ]);
    (steps, json!([link("start", "welcome"), link("welcome", "pause"), link("pause", "first_tip")]))
}

fn trial(from: &str) -> (Value, Value) {
    let steps = json!([
        trigger("trial.ending"),
        mail("ends_soon", from, "Your trial ends soon", "Your trial ends in a few days. Choose a plan to go on.\n"),
        wait_for("subscribed", "subscription.started", "3 days"),
        exit(),
        mail("last_call", from, "Your trial ends today", "Choose a plan today, and nothing is lost.\n"),
    ]);
    let mut links = vec![link("start", "ends_soon"), link("ends_soon", "subscribed")];
    links.extend(either("subscribed", "exit", "last_call"));
    (steps, json!(links))
}

fn dunning(from: &str) -> (Value, Value) {
    let steps = json!([
        trigger("payment.failed"),
        mail("failed", from, "Your payment did not go through", "Please check how you pay, and try again.\n"),
        wait_for("paid", "payment.recovered", "3 days"),
        mail("reminder", from, "Your payment is still open", "We could not take your payment yet. Please try again.\n"),
        wait_for("paid_later", "payment.recovered", "4 days"),
        mail("thanks", from, "Thank you", "Your payment has arrived. All is well.\n"),
        mail("last_notice", from, "Your account will be paused", "Without a payment we have to pause your account.\n"),
    ]);
    let mut links = vec![link("start", "failed"), link("failed", "paid"), link("reminder", "paid_later")];
    links.extend(either("paid", "thanks", "reminder"));
    links.extend(either("paid_later", "thanks", "last_notice"));
    (steps, json!(links))
}

fn win_back(from: &str) -> (Value, Value) {
    let steps = json!([
        trigger("subscription.cancelled"),
        wait("pause", "14 days"),
        mail("we_miss_you", from, "We would like you back", "Here is what is new since you left: …\n"),
        wait("second_pause", "14 days"),
        mail("last_letter", from, "One last letter", "If you ever want to come back, your account is still there.\n"),
    ]);
    let links = [
        link("start", "pause"),
        link("pause", "we_miss_you"),
        link("we_miss_you", "second_pause"),
        link("second_pause", "last_letter"),
    ];
    (steps, json!(links))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::automations::graph::Graph;

    #[test]
    fn each_can_be_published_as_it_is() {
        for one in &ALL {
            let contents = one.contents("Acme <hello@acme.example>");
            let graph = Graph::parse(&contents.steps_json(), &contents.connections_json());
            assert!(graph.is_ok(), "{}: {graph:?}", one.word);
            assert!(!contents.steps.is_empty());
        }
    }
}
