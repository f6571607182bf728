//! The one way in which contacts are written, whoever asks for it: a request, an
//! event, a run or an import. Each function adds to a commit what changes the
//! contact and what is told of it, so that it can join whatever else the commit
//! does.

use serde_json::Value;

use super::contact::{Contact, Email, FIRST_VERSION};
use super::store;
use crate::db::{Batch, Stmt};
use crate::id::{ContactId, SegmentId, WorkspaceId};
use crate::occurrences::{Moment, OccurrenceBatch, SystemEvent, Whom};
use crate::segments::Facts;
use crate::topics::Choice;
use crate::{segments, topics};

pub use super::store::hold_version;

/// The making of a contact; nothing for one that was there before.
const CREATION: Moment = Moment::first(FIRST_VERSION);

/// Adds a contact, and what it is tied to from the start: see [`ties`].
pub fn create(occurrences: &mut OccurrenceBatch<'_>, contact: &Contact, ties: impl Iterator<Item = Stmt>) {
    occurrences.batch.push(store::insert(occurrences.workspace_id(), contact));
    ties.for_each(|tie| occurrences.batch.push(tie));
    place_new(occurrences, contact);
    tell(occurrences, SystemEvent::CONTACT_CREATED, contact, CREATION);
}

/// Something happens to whoever has this address; a contact is made where nobody
/// has it. Its version counts what happens to it, and its row is locked until the
/// commit, so what happens to one contact has an order. Returns the address's key.
pub fn upsert_by_email(occurrences: &mut OccurrenceBatch<'_>, email: &Email, new_id: ContactId) -> String {
    let (key, now) = (email.key(), occurrences.now());
    occurrences.batch.lock(&key);
    occurrences.batch.push(store::upsert_by_email(occurrences.workspace_id(), (email, &key), new_id, now));
    place_if_new(occurrences, &key, || Contact::new(new_id, email, now));
    if occurrences.starts_runs(SystemEvent::CONTACT_CREATED) {
        let contact = Contact::new(new_id, email, now);
        occurrences.tell(SystemEvent::CONTACT_CREATED, Whom::EmailKey(&key), &contact.json(), CREATION);
    }
    key
}

/// Something happens to a contact that must be there.
pub fn bump_version(occurrences: &mut OccurrenceBatch<'_>, id: ContactId) {
    occurrences.batch.lock(id);
    occurrences.look_up(store::bump_version(occurrences.workspace_id(), id));
}

/// The product tells what it did for whoever has this address, if that is a contact: for nobody
/// else can anything happen.
pub fn tell_by_email(occurrences: &mut OccurrenceBatch<'_>, name: &str, email_key: &str, payload: &Value) {
    bump_version_by_email(occurrences, email_key);
    occurrences.tell(name, Whom::EmailKey(email_key), payload, Moment::NOW);
}

/// The same, only to those who wait for it: it starts no runs.
pub fn tell_waiting_by_email(occurrences: &mut OccurrenceBatch<'_>, name: &str, email_key: &str, payload: &Value) {
    bump_version_by_email(occurrences, email_key);
    occurrences.tell_waiting(name, Whom::EmailKey(email_key), payload, Moment::NOW);
}

fn bump_version_by_email(occurrences: &mut OccurrenceBatch<'_>, email_key: &str) {
    occurrences.batch.lock(email_key);
    occurrences.batch.push(store::bump_version_by_email(occurrences.workspace_id(), email_key));
}

/// Writes a contact over `before`, as which it was read, unless that has changed since.
pub fn update(occurrences: &mut OccurrenceBatch<'_>, before: &Contact, contact: &Contact) {
    let now = occurrences.now();
    occurrences.batch.push(store::replace(occurrences.workspace_id(), contact, now));
    move_between_segments(occurrences, before, contact);
    if occurrences.is_told() {
        let contact = Contact { updated_at: Some(now), ..contact.clone() };
        tell(occurrences, SystemEvent::CONTACT_UPDATED, &contact, Moment::NOW);
    }
}

/// Deletes a contact. What is told of it is told first: nothing can happen to whom
/// is not there.
pub fn delete(occurrences: &mut OccurrenceBatch<'_>, contact: &Contact) {
    bump_version(occurrences, contact.id);
    tell(occurrences, SystemEvent::CONTACT_DELETED, contact, Moment::NOW);
    occurrences.part_with(contact.id);
    occurrences.batch.append(store::delete(occurrences.workspace_id(), contact.id));
}

fn tell(occurrences: &mut OccurrenceBatch<'_>, name: &str, contact: &Contact, moment: Moment) {
    if occurrences.is_told() {
        occurrences.tell(name, Whom::Id(contact.id), &contact.json(), moment);
    }
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

/// A new contact comes into the segments that fill themselves, in the commit that makes it. Where its filter asks for
/// more than the contact itself, that is judged right after.
fn place_new(occurrences: &mut OccurrenceBatch<'_>, contact: &Contact) {
    let Some(filters) = occurrences.filters() else { return };
    let (workspace_id, now) = (occurrences.workspace_id(), occurrences.now());
    let facts = Facts::of_contact(contact.json());
    let mut is_open = occurrences.is_unsure_of_filters();
    for (segment_id, filter) in filters.iter() {
        match filter.is_of_contact_alone() {
            true if filter.is_met(&facts) => {
                occurrences.batch.push(segments::fill_in(workspace_id, segment_id, contact.id, now));
            }
            alone => is_open |= !alone,
        }
    }
    if is_open {
        occurrences.judge_anew(contact.id);
    }
}

/// The same for whoever has an address, if the commit makes it: `new` is what it makes.
fn place_if_new(occurrences: &mut OccurrenceBatch<'_>, key: &str, new: impl FnOnce() -> Contact) {
    let Some(filters) = occurrences.filters() else { return };
    let (workspace_id, now) = (occurrences.workspace_id(), occurrences.now());
    let facts = Facts::of_contact(new().json());
    let mut is_open = occurrences.is_unsure_of_filters();
    for (segment_id, filter) in filters.iter() {
        match filter.is_of_contact_alone() {
            true if filter.is_met(&facts) => {
                occurrences.batch.push(segments::fill_in_new(workspace_id, segment_id, key, FIRST_VERSION, now));
            }
            alone => is_open |= !alone,
        }
    }
    if is_open {
        occurrences.judge_new(key, FIRST_VERSION);
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

/// Has a contact judged anew whose choices filters ask for. Its version has to count them: whoever judges it holds on
/// to that.
fn judge_choices(occurrences: &mut OccurrenceBatch<'_>, contact_id: ContactId, choices: &[Choice]) {
    let Some(filters) = occurrences.filters() else { return };
    let is_asked = |choice: &Choice| filters.name_topic(choice.topic_id);
    if choices.iter().any(is_asked) || occurrences.is_unsure_of_filters() {
        occurrences.judge_anew(contact_id);
    }
}

/// What a contact that was there before is tied to: see [`ties`].
pub fn tie(
    occurrences: &mut OccurrenceBatch<'_>,
    contact: &Contact,
    (segment_ids, choices): (&[SegmentId], &[Choice]),
) {
    let (workspace_id, now) = (occurrences.workspace_id(), occurrences.now());
    if !choices.is_empty() {
        occurrences.batch.lock(contact.id);
        occurrences.batch.push(store::bump_version(workspace_id, contact.id));
    }
    ties(workspace_id, contact, (segment_ids, choices), now).for_each(|tie| occurrences.batch.push(tie));
    judge_choices(occurrences, contact.id, choices);
}

/// Puts a contact into a segment. The first statement fails where the contact is
/// gone, the second where the segment is, the third where it fills itself.
pub fn join_segment(workspace_id: WorkspaceId, contact: &Contact, segment_id: SegmentId, now: i64) -> Batch {
    Batch::new()
        .and(store::by_id(workspace_id, contact.id).expect(1))
        .and(segments::exists(workspace_id, segment_id).expect(1))
        .fence(segments::takes_members(workspace_id, segment_id))
        .and(add_to_segment(workspace_id, contact.id, segment_id, now))
}

/// Takes a contact out of a segment; fails where it is not in it.
pub fn leave_segment(workspace_id: WorkspaceId, contact: &Contact, segment_id: SegmentId) -> Batch {
    segments::remove(workspace_id, segment_id, contact.id).into()
}

/// Notes what a contact chose. The first statement fails where the contact is gone,
/// another where a topic is.
pub fn choose_topics(occurrences: &mut OccurrenceBatch<'_>, contact: &Contact, choices: &[Choice]) {
    let workspace_id = occurrences.workspace_id();
    occurrences.batch.lock(contact.id);
    occurrences.batch.push(store::bump_version(workspace_id, contact.id));
    for choice in choices {
        occurrences.batch.push(topics::choose(workspace_id, contact.id, choice).expect(1));
    }
    judge_choices(occurrences, contact.id, choices);
}
