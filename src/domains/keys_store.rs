//! The keys that sign a domain's mail, in the store.

use super::keys::{Algorithm, NewKey};
use crate::db::{DbError, Row, Sql, Stmt, statements};
use crate::id::DomainId;
use crate::seal::Seal;

statements! {
    functions {
        /// All keys of a domain, in the order in which they were made.
        pub fn of_domain(domain_id: DomainId) = Sql::both(
            "SELECT selector, algorithm, public_value, seen_at, retired_at, private_key
             FROM dkim_keys WHERE domain_id = $1 ORDER BY created_at, selector");
        /// Keys behind one, by domain and selector: both, and what is kept.
        pub fn all_keys(behind: (DomainId, &str)) with [behind.0, behind.1] = Sql::both(
            "SELECT domain_id, selector, private_key FROM dkim_keys
             WHERE domain_id > $1 OR (domain_id = $1 AND selector > $2) ORDER BY domain_id, selector LIMIT 100");
        /// Keeps a key otherwise, unless somebody did so meanwhile.
        pub fn reseal(domain_id: DomainId, selector: &str, kept: &[u8], now_kept: &[u8]) = Sql::both(
            "UPDATE dkim_keys SET private_key = $4 WHERE domain_id = $1 AND selector = $2 AND private_key = $3");
    }
    INSERT = Sql::both(
        "INSERT INTO dkim_keys (domain_id, selector, algorithm, private_key, public_value, created_at)
         VALUES ($1, $2, $3, $4, $5, $6)");
    SEEN = Sql::both("UPDATE dkim_keys SET seen_at = $3 WHERE domain_id = $1 AND selector = $2 AND seen_at IS NULL");
    RETIRE_OTHERS = Sql::both(
        "UPDATE dkim_keys SET retired_at = $4
         WHERE domain_id = $1 AND selector <> $2 AND algorithm = $3 AND retired_at IS NULL");
    DELETE = Sql::both("DELETE FROM dkim_keys WHERE domain_id = $1");
}

/// A key as the store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredKey {
    pub selector: String,
    pub algorithm: Algorithm,
    pub public_value: String,
    /// Since when its record has been there, in wall time.
    pub seen_at: Option<i64>,
    pub retired_at: Option<i64>,
    /// Sealed.
    pub private_key: Vec<u8>,
}

impl StoredKey {
    pub fn read(row: &Row) -> Result<StoredKey, DbError> {
        Ok(StoredKey {
            selector: row.text(0)?,
            algorithm: Algorithm::from_store(&row.text(1)?)?,
            public_value: row.text(2)?,
            seen_at: row.maybe(3, Row::int)?,
            retired_at: row.maybe(4, Row::int)?,
            private_key: row.bytes(5)?,
        })
    }

    pub fn read_all(rows: &[Row]) -> Result<Vec<StoredKey>, DbError> {
        rows.iter().map(StoredKey::read).collect()
    }

    /// As the store will keep it.
    pub fn of(new: &NewKey, seal: &Seal) -> StoredKey {
        StoredKey {
            selector: new.selector.clone(),
            algorithm: new.algorithm,
            public_value: new.key.dns_value(),
            seen_at: None,
            retired_at: None,
            private_key: seal.close(&new.key.to_bytes()),
        }
    }

    /// Whether this one signs as long as the other is not published.
    pub fn signs_instead_of(&self, other: &StoredKey) -> bool {
        let is_another = self.selector != other.selector && self.algorithm == other.algorithm;
        is_another && self.seen_at.is_some() && self.retired_at.is_none()
    }

    /// Under which name it is kept what DNS said of its record.
    pub fn finding(&self) -> String {
        format!("dkim {}", self.selector)
    }
}

pub fn insert(domain_id: DomainId, key: &StoredKey, now: i64) -> Stmt {
    INSERT.with([
        domain_id.into(),
        (&key.selector).into(),
        key.algorithm.as_str().into(),
        key.private_key.as_slice().into(),
        (&key.public_value).into(),
        now.into(),
    ])
}

/// A key's record was seen for the first time: it signs from now on, and no other of its kind does.
pub fn seen(domain_id: DomainId, key: &StoredKey, now: i64) -> [Stmt; 2] {
    let retire =
        RETIRE_OTHERS.with([domain_id.into(), (&key.selector).into(), key.algorithm.as_str().into(), now.into()]);
    [SEEN.with([domain_id.into(), (&key.selector).into(), now.into()]), retire]
}

pub fn delete(domain_id: DomainId) -> Stmt {
    DELETE.with([domain_id.into()])
}
