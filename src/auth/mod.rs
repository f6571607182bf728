//! Who is calling: API keys and access tokens for programs, sessions and
//! passwords for people, and extractors that no handler can forget.

mod caller;
mod credential;
mod fair_queue;
mod jwt;
pub mod key;
pub mod password;
pub mod session;
mod signing;
pub mod store;

pub use caller::{Caller, FullAccess, Need, SendOnly, confirm};
pub use credential::Credentials;
pub use fair_queue::Asker;
pub use jwt::{Claims, SigningKey};
pub use signing::{Signing, TOKEN_LIFETIME, reseal};
