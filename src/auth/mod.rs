//! Who is calling: API keys, and the extractor that no handler can forget.

mod caller;
pub mod key;
pub mod password;
pub mod store;

pub use caller::{Caller, FullAccess, Need, SendOnly};
pub use key::Keys;
