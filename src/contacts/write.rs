//! The one way in which contacts are written, whoever asks for it: a request, an
//! event, a run or an import. Each function adds to a commit what changes the
//! contact and what is told of it, so that it can join whatever else the commit
//! does.

use serde_json::{Value, json};

use super::contact::{Contact, Email, FIRST_SEQUENCE};
use super::store;
use crate::db::{Batch, Stmt};
use crate::id::{BroadcastId, ContactId, EmailId, SegmentId, TopicId, WorkspaceId};
use crate::occurrences::{Moment, OccurrenceBatch, SystemEvent, Whom};
use crate::segments::Facts;
use crate::text::words;
use crate::topics::{Choice, Subscription};
use crate::webhooks::{EventType, When};
use crate::{segments, topics};

pub use super::store::hold_sequence;

/// The making of a contact; nothing for one that was there before.
const CREATION: Moment = Moment::first(FIRST_SEQUENCE);

/// How somebody came to be unsubscribed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnsubscribedBy {
    /// A mail program, which was told to.
    OneClick,
    /// The person, on the page that a mail's link leads to.
    Page,
    Api,
    /// A member of the workspace, in the dashboard.
    Dashboard,
    Import,
    Automation,
    /// The person, to whoever keeps the mailbox.
    Complaint,
}

words!(UnsubscribedBy {
    OneClick = "one_click",
    Page = "page",
    Api = "api",
    Dashboard = "dashboard",
    Import = "import",
    Automation = "automation",
    Complaint = "complaint",
});

/// Adds a contact, and what it is tied to from the start: see [`ties`].
pub fn create(occurrences: &mut OccurrenceBatch<'_>, contact: &Contact, ties: impl Iterator<Item = Stmt>) {
    occurrences.batch.push(store::insert(occurrences.workspace_id(), contact));
    ties.for_each(|tie| occurrences.batch.push(tie));
    place_new(occurrences, contact);
    tell(occurrences, SystemEvent::CONTACT_CREATED, contact, CREATION);
    occurrences.publish(EventType::ContactCreated, || published(contact));
}

/// Something happens to whoever has this address; a contact is made where nobody
/// has it. Its sequence counts what happens to it, and its row is locked until the
/// commit, so what happens to one contact has an order. Returns the address's key.
pub fn upsert_by_email(occurrences: &mut OccurrenceBatch<'_>, email: &Email, new_id: ContactId) -> String {
    let (key, now) = (email.key(), occurrences.now());
    occurrences.batch.lock(&key);
    occurrences.batch.push(store::upsert_by_email(occurrences.workspace_id(), (email, &key), new_id, now));
    place_if_new(occurrences, &key, email, new_id);
    if occurrences.starts_runs(SystemEvent::CONTACT_CREATED) {
        let contact = Contact::new(new_id, email, now);
        occurrences.tell(SystemEvent::CONTACT_CREATED, Whom::EmailKey(&key), &contact.json(), CREATION);
    }
    let when = When::NewContact { email_key: &key, sequence: FIRST_SEQUENCE };
    occurrences.publish_when(EventType::ContactCreated, when, || published(&Contact::new(new_id, email, now)));
    key
}

/// Something happens to a contact that must be there.
pub fn next_sequence(occurrences: &mut OccurrenceBatch<'_>, id: ContactId) {
    occurrences.batch.lock(id);
    occurrences.look_up(store::next_sequence(occurrences.workspace_id(), id));
}

/// The product tells what it did for whoever has this address, if that is a contact: for nobody
/// else can anything happen.
pub fn tell_by_email(occurrences: &mut OccurrenceBatch<'_>, name: &str, email_key: &str, payload: &Value) {
    next_sequence_by_email(occurrences, email_key);
    occurrences.tell(name, Whom::EmailKey(email_key), payload, Moment::NOW);
}

/// The same, only to those who wait for it: it starts no runs.
pub fn tell_waiting_by_email(occurrences: &mut OccurrenceBatch<'_>, name: &str, email_key: &str, payload: &Value) {
    next_sequence_by_email(occurrences, email_key);
    occurrences.tell_waiting(name, Whom::EmailKey(email_key), payload, Moment::NOW);
}

/// The mail of a broadcast has left for a contact, if that is still there: filters may ask for it.
pub fn note_sent(occurrences: &mut OccurrenceBatch<'_>, contact_id: ContactId, id: BroadcastId, email_id: EmailId) {
    if occurrences.asks_for_broadcast(id) {
        occurrences.batch.lock(contact_id);
        occurrences.batch.push(store::next_sequence_if_there(occurrences.workspace_id(), contact_id));
        occurrences.count_broadcast(contact_id, id, email_id);
    }
}

/// What whoever has this address did with a mail counts for the segments that ask for it.
pub fn count_engagement(occurrences: &mut OccurrenceBatch<'_>, email_key: &str, names: &[String], email_id: EmailId) {
    next_sequence_by_email(occurrences, email_key);
    occurrences.count_engagement(email_key, names, email_id);
}

fn next_sequence_by_email(occurrences: &mut OccurrenceBatch<'_>, email_key: &str) {
    occurrences.batch.lock(email_key);
    occurrences.batch.push(store::next_sequence_by_email(occurrences.workspace_id(), email_key));
}

/// Writes a contact over `before`, as which it was read, unless that has changed since; `by` is who
/// unsubscribed it, if it comes to that.
pub fn update(occurrences: &mut OccurrenceBatch<'_>, before: &Contact, contact: &Contact, by: UnsubscribedBy) {
    let now = occurrences.now();
    occurrences.batch.push(store::replace(occurrences.workspace_id(), contact, now));
    move_between_segments(occurrences, before, contact);
    occurrences.publish(EventType::ContactUpdated, || published(&Contact { updated_at: Some(now), ..contact.clone() }));
    if occurrences.is_told() {
        let contact = Contact { updated_at: Some(now), ..contact.clone() };
        tell(occurrences, SystemEvent::CONTACT_UPDATED, &contact, Moment::NOW);
        if contact.unsubscribed && !before.unsubscribed {
            tell_unsubscribed(occurrences, &contact, None, by);
        }
    }
}

/// A contact wants no more mail, or none about a topic. It is an occurrence of its own, behind the
/// change that brought it about.
fn tell_unsubscribed(
    occurrences: &mut OccurrenceBatch<'_>,
    contact: &Contact,
    topic_id: Option<TopicId>,
    by: UnsubscribedBy,
) {
    occurrences.batch.lock(contact.id);
    occurrences.batch.push(store::next_sequence(occurrences.workspace_id(), contact.id));
    let mut payload = contact.json();
    payload["by"] = by.as_str().into();
    if let Some(topic_id) = topic_id {
        payload["topic_id"] = topic_id.to_string().into();
    }
    occurrences.tell(SystemEvent::CONTACT_UNSUBSCRIBED, Whom::Id(contact.id), &payload, Moment::NOW);
}

/// Deletes a contact. What is told of it is told first: nothing can happen to whom
/// is not there.
pub fn delete(occurrences: &mut OccurrenceBatch<'_>, contact: &Contact) {
    next_sequence(occurrences, contact.id);
    tell(occurrences, SystemEvent::CONTACT_DELETED, contact, Moment::NOW);
    occurrences.publish(EventType::ContactDeleted, || published(contact));
    occurrences.part_with(contact.id);
    occurrences.batch.append(store::delete(occurrences.workspace_id(), contact.id));
}

fn tell(occurrences: &mut OccurrenceBatch<'_>, name: &str, contact: &Contact, moment: Moment) {
    if occurrences.is_told() {
        occurrences.tell(name, Whom::Id(contact.id), &contact.json(), moment);
    }
}

/// What webhooks are told of a contact. Its properties may be many, and are read where they are wanted.
fn published(contact: &Contact) -> Value {
    let mut data = contact.json();
    data.as_object_mut().into_iter().for_each(|fields| drop(fields.remove("properties")));
    data
}

/// Puts a contact into segments and notes what it chose of topics, a statement for
/// each; one that finds no segment or topic changes nothing.
pub fn ties<'a>(
    workspace_id: WorkspaceId,
    contact: &'a Contact,
    (segment_ids, choices): (&'a [SegmentId], &'a [Choice]),
    now: i64,
) -> impl Iterator<Item = Stmt> + 'a {
    let join = move |id: &SegmentId| add_to_segment(workspace_id, contact.id, *id, now);
    let choose = move |choice: &Choice| topics::choose(workspace_id, contact.id, choice);
    segment_ids.iter().map(join).chain(choices.iter().map(choose))
}

pub fn add_to_segment(workspace_id: WorkspaceId, contact_id: ContactId, segment_id: SegmentId, now: i64) -> Stmt {
    segments::add(workspace_id, segment_id, contact_id, now)
}

/// The segments that fill themselves which a new contact comes into, and whether that is not all: where a filter asks
/// for more than the contact itself, the contact is judged right after. `None`: there are no such segments.
fn places_of_new(occurrences: &OccurrenceBatch<'_>, contact: &Contact) -> Option<(Vec<SegmentId>, bool)> {
    let filters = occurrences.filters()?;
    let facts = Facts::of_contact(contact.json());
    let met = filters.iter().filter(|(_, filter)| filter.is_of_contact_alone() && filter.is_met(&facts));
    let places = met.map(|(id, _)| id).collect();
    let is_open = filters.iter().any(|(_, filter)| !filter.is_of_contact_alone());
    Some((places, is_open || occurrences.is_unsure_of_filters()))
}

/// A new contact comes into the segments that fill themselves, in the commit that makes it.
fn place_new(occurrences: &mut OccurrenceBatch<'_>, contact: &Contact) {
    let Some((places, is_open)) = places_of_new(occurrences, contact) else { return };
    let (workspace_id, now) = (occurrences.workspace_id(), occurrences.now());
    for segment_id in places {
        occurrences.batch.push(segments::fill_in_made(workspace_id, segment_id, contact.id, now));
    }
    if is_open {
        occurrences.judge_anew(contact.id);
    }
}

/// The same for whoever has an address, if the commit makes it.
fn place_if_new(occurrences: &mut OccurrenceBatch<'_>, key: &str, email: &Email, new_id: ContactId) {
    let (workspace_id, now) = (occurrences.workspace_id(), occurrences.now());
    if occurrences.filters().is_none() {
        return;
    }
    let new = Contact::new(new_id, email, now);
    let Some((places, is_open)) = places_of_new(occurrences, &new) else { return };
    for segment_id in places {
        occurrences.batch.push(segments::fill_in_new(workspace_id, segment_id, key, FIRST_SEQUENCE, now));
    }
    if is_open {
        occurrences.judge_new(key, FIRST_SEQUENCE);
    }
}

/// A contact that changes moves between the segments that fill themselves, in the same commit. Where a filter asks
/// for more than the contact itself and an answer of the contact is another now, that is judged right after.
fn move_between_segments(occurrences: &mut OccurrenceBatch<'_>, before: &Contact, contact: &Contact) {
    let Some(filters) = occurrences.filters() else { return };
    let (workspace_id, now) = (occurrences.workspace_id(), occurrences.now());
    let (before, after) = (Facts::of_contact(before.json()), Facts::of_contact(contact.json()));
    let mut is_open = occurrences.is_unsure_of_filters();
    for (segment_id, filter) in filters.iter() {
        if !filter.is_of_contact_alone() {
            is_open |= filter.is_touched(&before, &after);
            continue;
        }
        match (filter.is_met(&before), filter.is_met(&after)) {
            (false, true) => occurrences.batch.push(segments::fill_in(workspace_id, segment_id, contact.id, now)),
            (true, false) => occurrences.batch.push(segments::take_out(workspace_id, segment_id, contact.id)),
            _ => {}
        }
    }
    if is_open {
        occurrences.judge_anew(contact.id);
    }
}

/// Has a contact judged anew whose choices filters ask for. Its sequence has to count them: whoever judges it holds on
/// to that.
fn judge_choices(occurrences: &mut OccurrenceBatch<'_>, contact_id: ContactId, choices: &[Choice]) {
    let Some(filters) = occurrences.filters() else { return };
    let is_asked = |choice: &Choice| filters.name_topic(choice.topic_id);
    if choices.iter().any(is_asked) || occurrences.is_unsure_of_filters() {
        occurrences.judge_anew(contact_id);
    }
}

/// What a contact that was there before is tied to: see [`ties`]. `opted_out` are the topics that it wanted mail about
/// until now; `by` is who ended that.
pub fn tie(
    occurrences: &mut OccurrenceBatch<'_>,
    contact: &Contact,
    (segment_ids, choices): (&[SegmentId], &[Choice]),
    opted_out: &[TopicId],
    by: UnsubscribedBy,
) {
    let (workspace_id, now) = (occurrences.workspace_id(), occurrences.now());
    if !choices.is_empty() {
        occurrences.batch.lock(contact.id);
        occurrences.batch.push(store::next_sequence(workspace_id, contact.id));
    }
    ties(workspace_id, contact, (segment_ids, choices), now).for_each(|tie| occurrences.batch.push(tie));
    judge_choices(occurrences, contact.id, choices);
    for topic_id in opted_out {
        tell_unsubscribed(occurrences, contact, Some(*topic_id), by);
    }
}

/// Puts a contact into a segment. The first statement fails where the contact is
/// gone, the second where the segment is, or fills itself.
pub fn join_segment(workspace_id: WorkspaceId, contact: &Contact, segment_id: SegmentId, now: i64) -> Batch {
    Batch::new()
        .and(store::by_id(workspace_id, contact.id).expect(1))
        .and(segments::takes_members(workspace_id, segment_id).expect(1))
        .and(add_to_segment(workspace_id, contact.id, segment_id, now))
}

/// Takes a contact out of a segment; fails where it is not in it.
pub fn leave_segment(workspace_id: WorkspaceId, contact: &Contact, segment_id: SegmentId) -> Batch {
    segments::remove(workspace_id, segment_id, contact.id).into()
}

/// Notes what a contact chose, and tells of what it wants no more; `is_news` says of which choices
/// another held before. Whoever calls this has seen to it that the contact is as it was read: the
/// statements that fail are those of topics that are gone.
pub fn choose_topics(
    occurrences: &mut OccurrenceBatch<'_>,
    contact: &Contact,
    choices: &[Choice],
    is_news: impl Fn(&Choice) -> bool,
    by: UnsubscribedBy,
) {
    let workspace_id = occurrences.workspace_id();
    choices.iter().for_each(|choice| {
        occurrences.batch.push(topics::choose(workspace_id, contact.id, choice).expect(1));
    });
    let news: Vec<&Choice> = choices.iter().filter(|choice| is_news(choice)).collect();
    if news.is_empty() {
        return;
    }
    // Who has read what held before must not commit on it.
    occurrences.batch.push(store::next_sequence(workspace_id, contact.id));
    judge_choices(occurrences, contact.id, choices);
    occurrences.publish(EventType::ContactTopicsUpdated, || {
        let topic = |choice: &&Choice| json!({"id": choice.topic_id, "subscription": choice.subscription});
        json!({"id": contact.id, "email": contact.email, "topics": news.iter().map(topic).collect::<Vec<_>>()})
    });
    for choice in news.iter().filter(|choice| choice.subscription == Subscription::OptOut) {
        tell_unsubscribed(occurrences, contact, Some(choice.topic_id), by);
    }
}
