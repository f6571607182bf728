//! What a contact gets, changed by a request or by the contact itself, in one commit.

use super::change::ATTEMPTS;
use super::contact::{Contact, Email};
use super::path::Named;
use super::store;
use super::write::{self, UnsubscribedBy};
use crate::auth::Actor;
use crate::db::{Batch, DbError, Row, Stmt};
use crate::error::Error;
use crate::id::{ContactId, SegmentId, TopicId, WorkspaceId};
use crate::occurrences::{OccurrenceBatch, Occurrences};
use crate::topics::{self, Choice, Standing, Subscription};

/// A contact and what holds for it of every topic.
#[derive(Debug, Clone)]
pub struct Subscriptions {
    pub contact: Contact,
    pub topics: Vec<Standing>,
}

/// What is to hold from now on. What is not named stays as it is.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct SubscriptionChanges {
    /// Whether the contact wants no mail at all.
    pub unsubscribed: Option<bool>,
    pub choices: Vec<Choice>,
}

impl SubscriptionChanges {
    /// Whether less mail is wanted than before, where that is not so already.
    fn unsubscribe(&self) -> bool {
        let is_out = |choice: &Choice| choice.subscription == Subscription::OptOut;
        self.unsubscribed == Some(true) || self.choices.iter().any(is_out)
    }
}

impl Subscriptions {
    fn new(contact: Contact, topics: &[Row]) -> Result<Subscriptions, DbError> {
        Ok(Subscriptions { contact, topics: topics.iter().map(Standing::read).collect::<Result<_, _>>()? })
    }

    /// `None` where there is no such contact.
    pub async fn find(
        app: &Occurrences,
        workspace_id: WorkspaceId,
        contact_id: ContactId,
    ) -> Result<Option<Subscriptions>, DbError> {
        let rows = app.db.read(store::by_id(workspace_id, contact_id)).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let topics = app.db.read(topics::all_of_contact(workspace_id, contact_id)).await?;
        Subscriptions::new(Contact::read(row)?, &topics).map(Some)
    }

    pub fn of_topic(&self, topic_id: TopicId) -> Option<&Standing> {
        self.topics.iter().find(|topic| topic.topic_id == topic_id)
    }

    /// What of some changes is not so yet: what would change, and what was not chosen in so many words.
    fn open(&self, changes: &SubscriptionChanges) -> SubscriptionChanges {
        let is_open = |choice: &&Choice| {
            self.of_topic(choice.topic_id).is_none_or(|topic| !topic.is_chosen || self.is_news(choice))
        };
        SubscriptionChanges {
            unsubscribed: changes.unsubscribed.filter(|wanted| *wanted != self.contact.unsubscribed),
            choices: changes.choices.iter().filter(is_open).cloned().collect(),
        }
    }

    /// Whether anything is not as it was.
    pub fn differs_from(&self, other: &Subscriptions) -> bool {
        let chosen = |one: &Subscriptions| one.topics.iter().map(|topic| topic.subscription).collect::<Vec<_>>();
        self.contact.unsubscribed != other.contact.unsubscribed || chosen(self) != chosen(other)
    }

    /// Whether another choice held before.
    fn is_news(&self, choice: &Choice) -> bool {
        self.of_topic(choice.topic_id).is_none_or(|topic| topic.subscription != choice.subscription)
    }

    /// Makes changes, if all is still as it was read: else the first statement fails.
    fn fill(&self, occurrences: &mut OccurrenceBatch<'_>, changes: &SubscriptionChanges, by: UnsubscribedBy) {
        occurrences.batch.lock(self.contact.id);
        match changes.unsubscribed {
            Some(unsubscribed) => {
                let contact = Contact { unsubscribed, ..self.contact.clone() };
                write::update(occurrences, &self.contact, &contact, by);
            }
            None => occurrences.batch.push(write::hold_sequence(occurrences.workspace_id(), &self.contact)),
        }
        write::choose_topics(occurrences, &self.contact, &changes.choices, |choice| self.is_news(choice), by);
    }

    /// The same after these changes.
    fn with(mut self, changes: &SubscriptionChanges) -> Subscriptions {
        self.contact.unsubscribed = changes.unsubscribed.unwrap_or(self.contact.unsubscribed);
        for topic in &mut self.topics {
            if let Some(choice) = changes.choices.iter().find(|choice| choice.topic_id == topic.topic_id) {
                (topic.subscription, topic.is_chosen) = (choice.subscription, true);
            }
        }
        self
    }
}

/// A contact chooses for itself; `choose` says what, by how it is. Where it wants less mail than before,
/// `note` adds that to the commit. Returns how it was and how it is, or `None` where there is no such contact.
pub async fn change_own(
    app: &Occurrences,
    (workspace_id, contact_id): (WorkspaceId, ContactId),
    choose: impl Fn(&Subscriptions) -> SubscriptionChanges,
    by: UnsubscribedBy,
    note: impl Fn(&mut Batch),
) -> Result<Option<(Subscriptions, Subscriptions)>, Error> {
    for _ in 0..ATTEMPTS {
        let Some(before) = Subscriptions::find(app, workspace_id, contact_id).await? else { return Ok(None) };
        let changes = before.open(&choose(&before));
        if changes == SubscriptionChanges::default() {
            return Ok(Some((before.clone(), before)));
        }
        let fill = |occurrences: &mut OccurrenceBatch<'_>| {
            before.fill(occurrences, &changes, by);
            if changes.unsubscribe() {
                note(&mut occurrences.batch);
            }
        };
        match app.commit_uncalled(workspace_id, fill).await? {
            Ok(_) => return Ok(Some((before.clone(), before.with(&changes)))),
            // Something came between: the contact has changed, or a topic is gone.
            Err(DbError::Unexpected { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Unavailable)
}

/// Somebody has shown that he wants mail: he becomes a contact, or takes part again. `once` must
/// find what it expects in the same commit; where it does not, nothing is changed, and it is false.
pub async fn subscribe(
    app: &Occurrences,
    workspace_id: WorkspaceId,
    email: &Email,
    ties: (&[SegmentId], &[Choice]),
    once: impl Fn() -> Stmt,
) -> Result<bool, Error> {
    for _ in 0..ATTEMPTS {
        let rows = app.db.read(store::by_email_key(workspace_id, &email.key())).await?;
        let known = rows.first().map(Contact::read).transpose()?;
        let new = Contact::new(app.clock.ordered_id(), email, app.clock.now());
        let fill = |occurrences: &mut OccurrenceBatch<'_>| {
            occurrences.batch.lock(email.key());
            occurrences.batch.push(once());
            let ties = write::ties(workspace_id, known.as_ref().unwrap_or(&new), ties, occurrences.now());
            match &known {
                None => return write::create(occurrences, &new, ties),
                Some(contact) if contact.unsubscribed => {
                    let subscribed = Contact { unsubscribed: false, ..contact.clone() };
                    write::update(occurrences, contact, &subscribed, UnsubscribedBy::Page);
                }
                Some(contact) => {
                    occurrences.batch.push(write::hold_sequence(workspace_id, contact));
                    write::next_sequence(occurrences, contact.id);
                }
            }
            ties.for_each(|tie| occurrences.batch.push(tie));
        };
        match app.commit_uncalled(workspace_id, fill).await? {
            Ok(_) => return Ok(true),
            Err(DbError::Unexpected { statement: 0 }) => return Ok(false),
            Err(DbError::Unexpected { .. } | DbError::Duplicate(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Unavailable)
}

/// A request chooses topics for a contact.
pub async fn choose_topics(
    actor: &dyn Actor,
    app: &Occurrences,
    named: &Named,
    choices: impl FnOnce() -> Result<Vec<Choice>, Error>,
    by: UnsubscribedBy,
) -> Result<Contact, Error> {
    let mut contact = named.find(actor).await?;
    let changes = SubscriptionChanges { unsubscribed: None, choices: choices()? };
    for _ in 0..ATTEMPTS {
        let topics = actor.read(|| topics::all_of_contact(actor.workspace_id(), contact.id)).await?;
        let before = Subscriptions::new(contact, &topics)?;
        let open = before.open(&changes);
        if open == SubscriptionChanges::default() {
            return Ok(before.contact);
        }
        let fill = |occurrences: &mut OccurrenceBatch<'_>| before.fill(occurrences, &open, by);
        match app.commit(actor, fill).await? {
            Ok(_) => return Ok(before.contact),
            Err(DbError::Unexpected { statement: 0 }) => contact = named.find(actor).await?,
            Err(DbError::Unexpected { .. }) => return Err(topics::not_found()),
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::Unavailable)
}
