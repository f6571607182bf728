//! What strangers may take: requests in a span of time, attempts at a secret, and
//! the memory and disk that large requests need.

mod address;
mod admission;
mod allowance;
mod attempts;
mod background;
mod disk;
mod rate;

pub use address::neighbourhood;
pub use admission::{Admission, Turn, serving};
pub use allowance::{Allowance, Allowances};
pub use attempts::{Attempt, Attempts};
pub use background::{Background, aside};
pub use disk::DiskUse;
pub use rate::{KeyedLimit, RateLimit};

use std::net::IpAddr;

/// Under what name failures are held against an address, if they are.
pub fn counted(address: IpAddr, exempt_loopback: bool) -> Option<String> {
    let exempt = exempt_loopback && address.to_canonical().is_loopback();
    (!exempt).then(|| neighbourhood(address).to_string())
}
