//! Which addresses count as one caller.

use std::net::IpAddr;

/// What counts as one caller: an address, or in IPv6 a /64, of which every
/// household has at least one.
pub fn neighbourhood(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & !u128::from(u64::MAX)).into()),
        v4 @ IpAddr::V4(_) => v4,
    }
}
