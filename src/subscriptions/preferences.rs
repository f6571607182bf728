//! What a person sees and does behind the link of a mail: the page, and what its forms ask for.
//! Nothing here knows HTTP or the store.

use askama::Template;

use super::branding::Frame;
use super::links::Subscriber;
use crate::contacts::{SubscriptionChanges, Subscriptions};
use crate::id::TopicId;
use crate::text::words;
use crate::topics::{Choice, Standing, Subscription, Visibility};
use crate::web::Params;

/// What a form of the page asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// To get nothing more about what the mail was about.
    Unsubscribe,
    UnsubscribeAll,
    Subscribe,
    Save,
    Undo,
}

words!(Action: ALL, parse {
    Unsubscribe = "unsubscribe",
    UnsubscribeAll = "unsubscribe_all",
    Subscribe = "subscribe",
    Save = "save",
    Undo = "undo",
});

/// A form that was sent.
pub struct Sent<'a> {
    pub action: Action,
    params: Params<'a>,
}

impl<'a> Sent<'a> {
    /// `None`: it is none of the page's.
    pub fn read(body: &'a [u8]) -> Option<Sent<'a>> {
        let params = Params::parse(body);
        let action = Action::parse(&params.text("action").ok()?)?;
        Some(Sent { action, params })
    }

    /// What is wanted, by how it is now.
    pub fn changes(&self, subscriber: &Subscriber, now: &Subscriptions) -> SubscriptionChanges {
        let choice = |topic_id, subscription| Choice { topic_id, subscription };
        let visible = || now.topics.iter().filter(|topic| is_visible(topic, subscriber));
        let named = |field: &str| {
            let ids: Vec<TopicId> = self.params.all(field).iter().filter_map(|id| id.parse().ok()).collect();
            move |topic: &TopicId| ids.contains(topic)
        };
        match self.action {
            Action::Unsubscribe => unsubscribe(subscriber, now),
            Action::UnsubscribeAll => {
                SubscriptionChanges { unsubscribed: Some(true), ..SubscriptionChanges::default() }
            }
            Action::Subscribe => SubscriptionChanges { unsubscribed: Some(false), ..SubscriptionChanges::default() },
            Action::Save => {
                let (is_shown, is_ticked) = (named("shown"), named("topic"));
                let shown = visible().map(|topic| topic.topic_id).filter(is_shown);
                let choices = shown.map(|id| match is_ticked(&id) {
                    true => choice(id, Subscription::OptIn),
                    false => choice(id, Subscription::OptOut),
                });
                SubscriptionChanges { unsubscribed: None, choices: choices.collect() }
            }
            Action::Undo => {
                let (was_in, was_out) = (named(Subscription::OptIn.as_str()), named(Subscription::OptOut.as_str()));
                let choices = visible().filter_map(|topic| match topic.topic_id {
                    id if was_in(&id) => Some(choice(id, Subscription::OptIn)),
                    id if was_out(&id) => Some(choice(id, Subscription::OptOut)),
                    _ => None,
                });
                let unsubscribed = match self.params.text(UNSUBSCRIBED).as_deref() {
                    Ok("yes") => Some(true),
                    Ok("no") => Some(false),
                    _ => None,
                };
                SubscriptionChanges { unsubscribed, choices: choices.collect() }
            }
        }
    }
}

/// The field of an undo that says what held for all mail.
const UNSUBSCRIBED: &str = "unsubscribed";

/// No more mail like the one that had the link: about its topic, or any where it had none. Where
/// its topic is gone nobody knows what it was about, and silence is what was asked for.
pub fn unsubscribe(subscriber: &Subscriber, now: &Subscriptions) -> SubscriptionChanges {
    match subscriber.topic_id.filter(|id| now.of_topic(*id).is_some()) {
        Some(topic_id) => {
            let choices = vec![Choice { topic_id, subscription: Subscription::OptOut }];
            SubscriptionChanges { unsubscribed: None, choices }
        }
        None => SubscriptionChanges { unsubscribed: Some(true), ..SubscriptionChanges::default() },
    }
}

/// Who sees a topic: everybody a public one, and a private one those who have chosen, or who got
/// mail about it.
fn is_visible(topic: &Standing, subscriber: &Subscriber) -> bool {
    topic.visibility == Visibility::Public || topic.is_chosen || subscriber.topic_id == Some(topic.topic_id)
}

#[derive(Template)]
#[template(path = "subscriptions/preferences.html")]
pub struct PreferencesPage {
    frame: Frame,
    address: String,
    is_unsubscribed: bool,
    /// The topic that the mail was about, where its mail still comes.
    about: Option<String>,
    topics: Vec<TopicRow>,
    /// What was just done.
    done: Option<String>,
    /// The fields of the form that takes it back.
    undo: Vec<(&'static str, String)>,
}

struct TopicRow {
    id: TopicId,
    name: String,
    description: Option<String>,
    is_wanted: bool,
}

impl PreferencesPage {
    pub fn new(frame: Frame, subscriber: &Subscriber, now: &Subscriptions) -> PreferencesPage {
        let row = |topic: &Standing| TopicRow {
            id: topic.topic_id,
            name: topic.name.clone(),
            description: topic.description.clone(),
            is_wanted: topic.subscription == Subscription::OptIn,
        };
        let about = subscriber.topic_id.and_then(|id| now.of_topic(id));
        PreferencesPage {
            frame,
            address: masked(&now.contact.email),
            is_unsubscribed: now.contact.unsubscribed,
            about: about.filter(|topic| topic.subscription == Subscription::OptIn).map(|topic| topic.name.clone()),
            topics: now.topics.iter().filter(|topic| is_visible(topic, subscriber)).map(row).collect(),
            done: None,
            undo: Vec::new(),
        }
    }

    /// The same, after something was done.
    pub fn after(
        frame: Frame,
        subscriber: &Subscriber,
        action: Action,
        (before, after): &(Subscriptions, Subscriptions),
    ) -> PreferencesPage {
        let topic = subscriber.topic_id.and_then(|id| after.of_topic(id));
        let done = match (action, topic) {
            (Action::Unsubscribe, Some(topic)) => format!("You are unsubscribed from {}.", topic.name),
            (Action::Unsubscribe | Action::UnsubscribeAll, _) => "You are unsubscribed from everything.".into(),
            (Action::Subscribe, _) => "You get e-mail again.".into(),
            (Action::Save, _) => "Your choice is saved.".into(),
            (Action::Undo, _) => "It is as it was before.".into(),
        };
        let mut undo = Vec::new();
        if before.contact.unsubscribed != after.contact.unsubscribed {
            let was = if before.contact.unsubscribed { "yes" } else { "no" };
            undo.push((UNSUBSCRIBED, was.to_owned()));
        }
        for (was, is) in before.topics.iter().zip(&after.topics) {
            if was.subscription != is.subscription {
                undo.push((was.subscription.as_str(), was.topic_id.to_string()));
            }
        }
        PreferencesPage { done: Some(done), undo, ..PreferencesPage::new(frame, subscriber, after) }
    }
}

/// An address that its owner knows again: whoever got the mail passed on learns no more than that.
fn masked(address: &str) -> String {
    let (local, domain) = address.rsplit_once('@').unwrap_or((address, ""));
    let first: String = local.chars().take(1).collect();
    format!("{first}•••@{domain}")
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::contacts::{Contact, Email};

    fn topic(number: u128, visibility: Visibility, is_chosen: bool, subscription: Subscription) -> Standing {
        let (name, description) = (format!("Topic {number}"), None);
        Standing { topic_id: Uuid::from_u128(number).into(), name, description, visibility, subscription, is_chosen }
    }

    fn now() -> Subscriptions {
        let email = Email::read("ada@example.com").expect("an address");
        let (opt_in, opt_out) = (Subscription::OptIn, Subscription::OptOut);
        Subscriptions {
            contact: Contact::new(Uuid::from_u128(9).into(), &email, 0),
            topics: vec![
                topic(1, Visibility::Public, false, opt_in),
                topic(2, Visibility::Private, false, opt_in),
                topic(3, Visibility::Private, true, opt_out),
            ],
        }
    }

    fn subscriber(topic: Option<u128>) -> Subscriber {
        let topic_id = topic.map(|id| Uuid::from_u128(id).into());
        let (workspace_id, contact_id) = (Uuid::from_u128(8).into(), Uuid::from_u128(9).into());
        Subscriber { workspace_id, contact_id, topic_id, mail: None }
    }

    fn chosen(changes: &SubscriptionChanges) -> Vec<(u128, bool)> {
        let read = |choice: &Choice| {
            (crate::id::Id::uuid(choice.topic_id).as_u128(), choice.subscription == Subscription::OptIn)
        };
        changes.choices.iter().map(read).collect()
    }

    #[test]
    fn saving_chooses_what_was_shown_and_nothing_that_is_hidden() {
        let id = |number: u128| Uuid::from_u128(number);
        let body =
            format!("action=save&shown={}&shown={}&shown={}&topic={}&topic={}", id(1), id(2), id(3), id(2), id(3));
        let sent = Sent::read(body.as_bytes()).expect("a form");
        assert_eq!(chosen(&sent.changes(&subscriber(None), &now())), [(1, false), (3, true)]);
        assert_eq!(chosen(&sent.changes(&subscriber(Some(2)), &now())), [(1, false), (2, true), (3, true)]);
        let unseen = format!("action=save&shown={}", id(3));
        assert_eq!(
            chosen(&Sent::read(unseen.as_bytes()).expect("a form").changes(&subscriber(None), &now())),
            [(3, false)]
        );
    }

    #[test]
    fn a_link_without_a_topic_or_with_one_that_is_gone_ends_all_mail() {
        assert_eq!(chosen(&unsubscribe(&subscriber(Some(2)), &now())), [(2, false)]);
        for topic in [None, Some(7)] {
            assert_eq!(unsubscribe(&subscriber(topic), &now()).unsubscribed, Some(true));
        }
    }

    #[test]
    fn what_is_no_form_of_ours_asks_for_nothing() {
        for body in ["", "action=", "action=delete", "action=save&action=undo", "%00", "topic=1"] {
            assert!(Sent::read(body.as_bytes()).is_none(), "{body}");
        }
    }

    #[test]
    fn an_undo_names_what_was() {
        let before = now();
        let mut after = now();
        after.contact.unsubscribed = true;
        after.topics[0].subscription = Subscription::OptOut;
        let frame = Frame { name: "A".into(), css: String::new(), colors: None };
        let page = PreferencesPage::after(frame, &subscriber(None), Action::Save, &(before, after.clone()));
        let fields: Vec<String> = page.undo.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let body = format!("action=undo&{}", fields.join("&"));
        let changes = Sent::read(body.as_bytes()).expect("a form").changes(&subscriber(None), &after);
        assert_eq!((changes.unsubscribed, chosen(&changes)), (Some(false), vec![(1, true)]));
    }

    #[test]
    fn an_address_is_shown_in_part() {
        assert_eq!(masked("ada@example.com"), "a•••@example.com");
        assert_eq!(masked("ünï@x"), "ü•••@x");
    }
}
