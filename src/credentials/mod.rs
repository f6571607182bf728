//! What programs show: API keys and access tokens, what they allow, and the cache
//! of those in use.

mod credential;
mod jwt;
mod key;
mod link_keys;
mod scope;
mod signing;
mod store;

pub use credential::{Credentials, Known, Lookup, Source};
pub use jwt::{Claims, SigningKey};
pub use key::{KeyName, NewKey, Permission};
pub use link_keys::LinkKeys;
pub use scope::{Scope, ScopeSet, UnsupportedScope};
pub use signing::{Signing, TOKEN_LIFETIME, reseal};
pub use store::{
    Listed, access, all_signing_keys, delete_key, delete_keys_of_domain, grant_stands, insert_key, keys,
    new_signing_key, raise_access,
};

use crate::db::Sql;

pub const STATEMENTS: &[&[Sql]] = &[store::ALL];
