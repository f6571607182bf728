//! Whom a broadcast was sent to, as the histories of its recipients' own mails tell: each of them has the broadcast's id
//! with the recipient's number in its last 32 bits.

use std::collections::HashMap;

use serde_json::{Value, json};
use uuid::Uuid;

use super::store;
use crate::db::{Db, DbError};
use crate::id::{BroadcastId, ContactId, Id, WorkspaceId};

const NUMBER: u128 = 0xffff_ffff;

/// A mail of a broadcast that has left.
pub struct SentMail {
    id: Uuid,
    pub contact_id: ContactId,
    /// In wall time.
    pub at: i64,
}

/// The next mails of a broadcast that have left, behind one, and the last that was looked at; `None`: there are no
/// more. An id that is none of the broadcast's stands for its beginning.
pub async fn sent_after(
    db: &Db,
    (workspace_id, broadcast_id): (WorkspaceId, BroadcastId),
    after: Uuid,
    most: i64,
) -> Result<(Vec<SentMail>, Option<Uuid>), DbError> {
    let first = broadcast_id.uuid().as_u128();
    let last = Uuid::from_u128(first | NUMBER);
    let after = if (broadcast_id.uuid()..=last).contains(&after) { after } else { broadcast_id.uuid() };
    let rows = db.read(store::sent_between(workspace_id, after, last, most)).await?;
    let mails: Vec<(Uuid, i64)> =
        rows.iter().map(|row| Ok((row.id(0)?, row.int(1)?))).collect::<Result<_, DbError>>()?;
    let (Some((from, _)), Some((to, _))) = (mails.first(), mails.last()) else { return Ok((Vec::new(), None)) };
    let mut contacts: HashMap<i64, ContactId> = HashMap::new();
    for row in db.read(store::recipients_between(broadcast_id, number(*from), number(*to))).await? {
        contacts.insert(row.int(0)?, row.id(1)?);
    }
    let found = |(id, at): &(Uuid, i64)| Some(SentMail { id: *id, contact_id: *contacts.get(&number(*id))?, at: *at });
    Ok((mails.iter().filter_map(found).collect(), (mails.len() as i64 == most).then_some(*to)))
}

fn number(id: Uuid) -> i64 {
    (id.as_u128() & NUMBER) as i64
}

/// For the statements that take a list of them.
pub fn list(mails: &[SentMail]) -> String {
    let item = |mail: &SentMail| json!({"id": mail.contact_id, "mail": mail.id, "at": mail.at});
    Value::Array(mails.iter().map(item).collect()).to_string()
}
