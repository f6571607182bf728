//! Contacts as occurrences meet them: known by id, or by an address that may be
//! new. Either way the contact's version counts what happens to it, and the row
//! is locked until the commit, so what happens to one contact has an order.

use serde_json::{Value, json};

use super::contact::Email;
use crate::clock::rfc3339;
use crate::db::{Sql, Stmt, statements};
use crate::occurrences::{Happenings, Moment, Occurrence, Whom, system};

statements! {
    MEET = Sql::both(
        "INSERT INTO contacts (workspace_id, id, email, email_key, unsubscribed, properties, version, created_at)
         VALUES ($1, $2, $3, $4, $5, '{}', 2, $6)
         ON CONFLICT (workspace_id, email_key) DO UPDATE SET version = contacts.version + 1");
    TOUCH = Sql::both("UPDATE contacts SET version = version + 1 WHERE workspace_id = $1 AND id = $2");
    HOLD = Sql::both("UPDATE contacts SET version = version WHERE workspace_id = $1 AND id = $2 AND version = $3");
}

/// Something happens to whoever has this address, of which `key` is the key; a
/// contact is made where nobody has it.
pub fn meet(workspace_id: &str, (email, key): (&Email, &str), new_id: &str, now: i64) -> Stmt {
    MEET.with([workspace_id.into(), new_id.into(), email.as_str().into(), key.into(), false.into(), now.into()])
}

/// Something happens to a contact that must be there.
pub fn touch(workspace_id: &str, id: &str) -> Stmt {
    TOUCH.with([workspace_id.into(), id.into()]).expect(1)
}

/// Nothing has happened to a contact since it had this version, and nothing
/// will before the commit.
pub fn hold(workspace_id: &str, id: &str, version: i64) -> Stmt {
    HOLD.with([workspace_id.into(), id.into(), version.into()]).expect(1)
}

/// Whom something happens to.
pub enum Recipient {
    /// A contact that must be there.
    Known(String),
    /// Whoever has the address; where nobody has it, a contact with this id.
    Address { email: Email, new_id: String },
}

/// An event happens to somebody.
pub fn happen_to(happenings: &mut Happenings<'_>, occurrence: &Occurrence<'_>, recipient: &Recipient) {
    let workspace_id = happenings.workspace_id();
    match recipient {
        Recipient::Known(id) => {
            happenings.batch.lock(id);
            happenings.find(touch(workspace_id, id));
            happenings.record(occurrence, Whom::Id(id), Moment::NOW);
        }
        Recipient::Address { email, new_id } => {
            let (key, now) = (email.key(), happenings.now());
            happenings.batch.lock(&key);
            happenings.batch.push(meet(workspace_id, (email, &key), new_id, now));
            if happenings.triggers(system::CONTACT_CREATED) {
                let birth = Occurrence {
                    id: happenings.clock().ordered_id(),
                    name: system::CONTACT_CREATED,
                    payload: newborn(new_id, email, now).to_string(),
                    replay_of: None,
                };
                happenings.record(&birth, Whom::EmailKey(&key), Moment::BIRTH);
            }
            happenings.record(occurrence, Whom::EmailKey(&key), Moment::NOW);
        }
    }
}

/// A contact of which nothing is known but the address.
fn newborn(id: &str, email: &Email, now: i64) -> Value {
    json!({
        "id": id,
        "email": email.as_str(),
        "first_name": null,
        "last_name": null,
        "unsubscribed": false,
        "properties": {},
        "created_at": rfc3339(now),
        "updated_at": null,
    })
}
