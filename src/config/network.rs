//! Networks of addresses, for proxies that are trusted.

use std::net::IpAddr;
use std::str::FromStr;

/// An address, or all that share its first bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    base: u128,
    bits: u32,
}

impl Network {
    pub fn contains(&self, address: IpAddr) -> bool {
        let shift = 128 - self.bits;
        shift == 128 || as_bits(address) >> shift == self.base >> shift
    }
}

/// IPv4 as its mapped IPv6 form, so that one comparison serves both.
fn as_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(given: &str) -> Result<Network, String> {
        let allowed = "allowed is an address or a network, such as 10.0.0.1, 10.0.0.0/8 or fd00::/8";
        let (address, bits) = match given.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().map_err(|_| allowed)?)),
            None => (given, None),
        };
        let address: IpAddr = address.trim().parse().map_err(|_| allowed)?;
        let (width, offset) = if address.is_ipv4() { (32, 96) } else { (128, 0) };
        let bits = bits.unwrap_or(width);
        if bits > width {
            return Err(allowed.into());
        }
        Ok(Network { base: as_bits(address), bits: bits + offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_holds_its_addresses_and_no_others() {
        let network: Network = "10.1.0.0/16".parse().expect("valid");
        assert!(network.contains("10.1.255.3".parse().expect("address")));
        assert!(!network.contains("10.2.0.1".parse().expect("address")));
        assert!(network.contains("::ffff:10.1.0.1".parse().expect("address")));
        assert!("0.0.0.0/0".parse::<Network>().expect("valid").contains("1.2.3.4".parse().expect("address")));
        assert!("10.0.0.0/33".parse::<Network>().is_err());
    }
}
