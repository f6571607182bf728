//! The one way in which contacts are written, whoever asks for it: a request, an
//! event, a run or an import. Each function adds to a commit what changes the
//! contact and what is told of it, so that it can join whatever else the commit
//! does.

use super::contact::{Contact, Email, FIRST_VERSION};
use super::store;
use crate::db::{Batch, Stmt};
use crate::occurrences::{Happenings, Moment, SystemEvent, Whom};
use crate::topics::Choice;
use crate::{segments, topics};

pub use super::store::hold_version;

/// The making of a contact; nothing for one that was there before.
const CREATION: Moment = Moment::first(FIRST_VERSION);

/// Adds a contact, and what it is tied to from the start: see [`ties`].
pub fn create(happenings: &mut Happenings<'_>, contact: &Contact, ties: impl Iterator<Item = Stmt>) {
    happenings.batch.push(store::insert(happenings.workspace_id(), contact));
    ties.for_each(|tie| happenings.batch.push(tie));
    tell(happenings, SystemEvent::CONTACT_CREATED, contact, CREATION);
}

/// Something happens to whoever has this address; a contact is made where nobody
/// has it. Its version counts what happens to it, and its row is locked until the
/// commit, so what happens to one contact has an order. Returns the address's key.
pub fn upsert_by_email(happenings: &mut Happenings<'_>, email: &Email, new_id: &str) -> String {
    let (key, now) = (email.key(), happenings.now());
    happenings.batch.lock(&key);
    happenings.batch.push(store::upsert_by_email(happenings.workspace_id(), (email, &key), new_id, now));
    if happenings.starts_runs(SystemEvent::CONTACT_CREATED) {
        let contact = Contact::new(new_id.to_owned(), email, now);
        happenings.tell(SystemEvent::CONTACT_CREATED, Whom::EmailKey(&key), &contact.json(), CREATION);
    }
    key
}

/// Something happens to a contact that must be there.
pub fn bump_version(happenings: &mut Happenings<'_>, id: &str) {
    happenings.batch.lock(id);
    happenings.look_up(store::bump_version(happenings.workspace_id(), id));
}

/// Writes a contact over the one that it was read as, unless that has changed since.
pub fn update(happenings: &mut Happenings<'_>, contact: &Contact) {
    let now = happenings.now();
    happenings.batch.push(store::replace(happenings.workspace_id(), contact, now));
    if happenings.is_told() {
        let contact = Contact { updated_at: Some(now), ..contact.clone() };
        tell(happenings, SystemEvent::CONTACT_UPDATED, &contact, Moment::NOW);
    }
}

/// Deletes a contact. What is told of it is told first: nothing can happen to whom
/// is not there.
pub fn delete(happenings: &mut Happenings<'_>, contact: &Contact) {
    bump_version(happenings, &contact.id);
    tell(happenings, SystemEvent::CONTACT_DELETED, contact, Moment::NOW);
    happenings.part_with(&contact.id);
    happenings.batch.append(store::delete(happenings.workspace_id(), &contact.id));
}

fn tell(happenings: &mut Happenings<'_>, name: &str, contact: &Contact, moment: Moment) {
    if happenings.is_told() {
        happenings.tell(name, Whom::Id(&contact.id), &contact.json(), moment);
    }
}

/// Puts a contact into segments and notes what it chose of topics, a statement for
/// each; one that finds no segment or topic changes nothing.
pub fn ties<'a>(
    workspace_id: &'a str,
    contact: &'a Contact,
    (segment_ids, choices): (&'a [String], &'a [Choice]),
    now: i64,
) -> impl Iterator<Item = Stmt> + 'a {
    let join = move |id: &String| add_to_segment(workspace_id, &contact.id, id, now);
    let choose = |choice: &Choice| topics::choose(workspace_id, &contact.id, choice);
    segment_ids.iter().map(join).chain(choices.iter().map(choose))
}

pub fn add_to_segment(workspace_id: &str, contact_id: &str, segment_id: &str, now: i64) -> Stmt {
    segments::add(workspace_id, segment_id, contact_id, now)
}

/// Puts a contact into a segment. The first statement fails where the contact is
/// gone, the second where the segment is.
pub fn join_segment(workspace_id: &str, contact: &Contact, segment_id: &str, now: i64) -> Batch {
    Batch::new()
        .and(store::by_id(workspace_id, &contact.id).expect(1))
        .and(segments::exists(workspace_id, segment_id).expect(1))
        .and(add_to_segment(workspace_id, &contact.id, segment_id, now))
}

/// Takes a contact out of a segment; fails where it is not in it.
pub fn leave_segment(workspace_id: &str, contact: &Contact, segment_id: &str) -> Batch {
    segments::remove(workspace_id, segment_id, &contact.id).into()
}

/// Notes what a contact chose. The first statement fails where the contact is gone,
/// another where a topic is.
pub fn choose_topics(workspace_id: &str, contact: &Contact, choices: &[Choice]) -> Batch {
    let choose = |choice: &Choice| topics::choose(workspace_id, &contact.id, choice).expect(1);
    std::iter::once(store::by_id(workspace_id, &contact.id).expect(1)).chain(choices.iter().map(choose)).collect()
}
