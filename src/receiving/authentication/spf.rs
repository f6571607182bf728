//! Whether a server may send for a domain (RFC 7208): the terms of its record, one after the other,
//! within the number of questions that the standard allows.

use std::net::IpAddr;
use std::pin::Pin;

use super::{Checked, Evidence, Verdict};
use crate::dns::{DnsError, Resolver};

/// How many terms that ask name servers all records together may have, and how many of a domain's
/// servers are looked at (4.6.4).
const MOST_LOOKUPS: u32 = 10;
const MOST_SERVERS: usize = 10;

/// In bytes.
const LONGEST_RECORD: usize = 8 << 10;

pub async fn check(dns: &Resolver, evidence: &Evidence<'_>) -> Checked {
    let helo = evidence.helo.to_ascii_lowercase();
    let (local, domain) = match evidence.sender.rsplit_once('@') {
        Some((local, domain)) => (local, domain.to_ascii_lowercase()),
        // From nobody: whoever brings it vouches for itself (2.4).
        None => ("postmaster", helo),
    };
    if domain.is_empty() || !domain.contains('.') || !domain.is_ascii() {
        return Checked::new(Verdict::None, &domain);
    }
    let mut check = Check { dns, peer: evidence.peer.to_canonical(), local, sender: &domain, lookups: 0 };
    let result = check.host(&domain).await;
    Checked::new(result, &domain)
}

struct Check<'a> {
    dns: &'a Resolver,
    peer: IpAddr,
    local: &'a str,
    sender: &'a str,
    lookups: u32,
}

/// A term of a record.
#[derive(Debug, PartialEq, Eq)]
enum Term<'a> {
    Mechanism {
        verdict: Verdict,
        name: String,
        value: Option<&'a str>,
        prefix: [Option<u8>; 2],
    },
    Redirect(&'a str),
    /// Something that decides nothing.
    Other,
}

impl<'a> Term<'a> {
    fn read(text: &'a str) -> Option<Term<'a>> {
        let is_name = |name: &str| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        let ends = text.find([':', '/', '=']);
        if let Some(at) = ends.filter(|at| text[*at..].starts_with('='))
            && is_name(&text[..at])
        {
            let value = &text[at + 1..];
            return Some(if text[..at].eq_ignore_ascii_case("redirect") { Term::Redirect(value) } else { Term::Other });
        }
        let (verdict, text) = match text.as_bytes().first()? {
            b'+' => (Verdict::Pass, &text[1..]),
            b'-' => (Verdict::Fail, &text[1..]),
            b'~' => (Verdict::SoftFail, &text[1..]),
            b'?' => (Verdict::Neutral, &text[1..]),
            _ => (Verdict::Pass, text),
        };
        let name_end = text.find([':', '/']).unwrap_or(text.len());
        let (name, rest) = (text[..name_end].to_ascii_lowercase(), &text[name_end..]);
        if matches!(name.as_str(), "ip4" | "ip6") {
            return Some(Term::Mechanism { verdict, name, value: Some(rest.strip_prefix(':')?), prefix: [None; 2] });
        }
        let (value, prefix) = match rest.find('/') {
            Some(at) => (&rest[..at], prefixes(&rest[at..])?),
            None => (rest, [None; 2]),
        };
        let value = match value.strip_prefix(':') {
            Some("") => return None,
            value => value,
        };
        Some(Term::Mechanism { verdict, name, value, prefix })
    }
}

/// `/24`, `//64` or both.
fn prefixes(text: &str) -> Option<[Option<u8>; 2]> {
    let number = |text: &str, most: u8| text.parse().ok().filter(|length| *length <= most);
    let (v4, v6) = match text.split_once("//") {
        Some((v4, v6)) => (v4, Some(number(v6, 128)?)),
        None => (text, None),
    };
    let v4 = match v4.strip_prefix('/') {
        Some(length) => Some(number(length, 32)?),
        None => None,
    };
    Some([v4, v6])
}

/// Whether an address lies in a network.
fn lies_in(peer: IpAddr, network: IpAddr, prefix: [Option<u8>; 2]) -> bool {
    let shift = |length: Option<u8>, bits: u8| u32::from(bits - length.unwrap_or(bits).min(bits));
    match (peer, network) {
        (IpAddr::V4(peer), IpAddr::V4(network)) => {
            let differing = u32::from(peer) ^ u32::from(network);
            differing.checked_shr(shift(prefix[0], 32)).unwrap_or(0) == 0
        }
        (IpAddr::V6(peer), IpAddr::V6(network)) => {
            let differing = u128::from(peer) ^ u128::from(network);
            differing.checked_shr(shift(prefix[1], 128)).unwrap_or(0) == 0
        }
        _ => false,
    }
}

/// Why a check ends without a verdict of its own.
type Ended = Verdict;

impl Check<'_> {
    fn host<'b>(&'b mut self, domain: &'b str) -> Pin<Box<dyn Future<Output = Verdict> + Send + 'b>> {
        Box::pin(async move { self.evaluate(domain).await.unwrap_or_else(|ended| ended) })
    }

    async fn evaluate(&mut self, domain: &str) -> Result<Verdict, Ended> {
        let records = match self.dns.txt(domain).await {
            Ok(records) => records,
            Err(DnsError::Later(_)) => return Err(Verdict::TempError),
            Err(DnsError::NoName | DnsError::Missing) => return Ok(Verdict::None),
        };
        let is_ours = |record: &&String| {
            record.get(..6).is_some_and(|begin| begin.eq_ignore_ascii_case("v=spf1"))
                && matches!(record.as_bytes().get(6), None | Some(b' '))
        };
        let mut records = records.iter().filter(is_ours);
        let record = match (records.next(), records.next()) {
            (None, _) => return Ok(Verdict::None),
            (Some(record), None) if record.len() <= LONGEST_RECORD => record,
            _ => return Err(Verdict::PermError),
        };
        let terms: Option<Vec<Term<'_>>> = record[6..].split_ascii_whitespace().map(Term::read).collect();
        let terms = terms.ok_or(Verdict::PermError)?;
        for term in &terms {
            if let Term::Mechanism { verdict, name, value, prefix } = term
                && self.matches(name, *value, *prefix, domain).await?
            {
                return Ok(*verdict);
            }
        }
        let redirect = terms.iter().find_map(|term| if let Term::Redirect(to) = term { Some(*to) } else { None });
        let Some(to) = redirect else { return Ok(Verdict::Neutral) };
        self.count()?;
        let to = self.expand(to, domain)?;
        match self.host(&to).await {
            Verdict::None => Err(Verdict::PermError),
            verdict => Ok(verdict),
        }
    }

    fn count(&mut self) -> Result<(), Ended> {
        self.lookups += 1;
        if self.lookups > MOST_LOOKUPS { Err(Verdict::PermError) } else { Ok(()) }
    }

    async fn matches(
        &mut self,
        name: &str,
        value: Option<&str>,
        prefix: [Option<u8>; 2],
        domain: &str,
    ) -> Result<bool, Ended> {
        match name {
            "all" => return Ok(true),
            "ip4" | "ip6" => return in_network(self.peer, name, value.unwrap_or_default()).ok_or(Verdict::PermError),
            "include" | "a" | "mx" | "ptr" | "exists" => self.count()?,
            _ => return Err(Verdict::PermError),
        }
        let target = match value {
            Some(value) => self.expand(value, domain)?,
            None if matches!(name, "a" | "mx" | "ptr") => domain.to_owned(),
            None => return Err(Verdict::PermError),
        };
        match name {
            "include" => match self.host(&target).await {
                Verdict::Pass => Ok(true),
                Verdict::TempError => Err(Verdict::TempError),
                Verdict::None | Verdict::PermError => Err(Verdict::PermError),
                Verdict::Fail | Verdict::SoftFail | Verdict::Neutral => Ok(false),
            },
            "a" => self.has_address(&target, prefix).await,
            "exists" => Ok(!known(self.dns.addresses(&target).await)?.is_empty()),
            "mx" => {
                let servers = known(self.dns.mx(&target).await)?;
                if servers.len() > MOST_SERVERS {
                    return Err(Verdict::PermError);
                }
                for server in servers {
                    if self.has_address(&server.host, prefix).await? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            // Slow, and nobody should use it (5.5): it never matches.
            _ => Ok(false),
        }
    }

    async fn has_address(&self, host: &str, prefix: [Option<u8>; 2]) -> Result<bool, Ended> {
        let addresses = known(self.dns.addresses(host).await)?;
        Ok(addresses.into_iter().any(|address| lies_in(self.peer, address, prefix)))
    }

    /// A name with what its macros stand for (7.4).
    fn expand(&self, text: &str, domain: &str) -> Result<String, Ended> {
        let (mut out, mut rest) = (String::new(), text);
        while let Some(at) = rest.find('%') {
            out += &rest[..at];
            let (kind, behind) = rest[at + 1..].split_at_checked(1).ok_or(Verdict::PermError)?;
            rest = behind;
            match kind {
                "%" => out.push('%'),
                "_" => out.push(' '),
                "-" => out += "%20",
                "{" => {
                    let (inner, behind) = rest.split_once('}').ok_or(Verdict::PermError)?;
                    out += &self.macro_value(inner, domain).ok_or(Verdict::PermError)?;
                    rest = behind;
                }
                _ => return Err(Verdict::PermError),
            }
        }
        out += rest;
        // The end of a name that is too long says which it is.
        while out.len() > 253 {
            out = out.split_once('.').map(|(_, behind)| behind.to_owned()).ok_or(Verdict::PermError)?;
        }
        Ok(out.trim_end_matches('.').to_ascii_lowercase())
    }

    fn macro_value(&self, inner: &str, domain: &str) -> Option<String> {
        let letter = inner.chars().next()?;
        let value = match letter.to_ascii_lowercase() {
            's' => format!("{}@{}", self.local, self.sender),
            'l' => self.local.to_owned(),
            'o' | 'h' => self.sender.to_owned(),
            'd' => domain.to_owned(),
            'i' => dotted(self.peer),
            'v' => if self.peer.is_ipv4() { "in-addr" } else { "ip6" }.to_owned(),
            _ => return None,
        };
        let rest = &inner[letter.len_utf8()..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let count: Option<usize> =
            if digits == 0 { None } else { rest[..digits].parse().ok().filter(|count| *count > 0) };
        let rest = &rest[digits..];
        let (is_reversed, separators) = match rest.strip_prefix(['r', 'R']) {
            Some(separators) => (true, separators),
            None => (false, rest),
        };
        let separators = if separators.is_empty() { "." } else { separators };
        let mut parts: Vec<&str> = value.split(|char| separators.contains(char)).collect();
        if is_reversed {
            parts.reverse();
        }
        let skipped = count.map_or(0, |count| parts.len().saturating_sub(count));
        Some(parts[skipped..].join("."))
    }
}

/// An address as macros write it.
fn dotted(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let digits: Vec<String> = address
                .octets()
                .iter()
                .flat_map(|byte| [byte >> 4, byte & 15])
                .map(|half| format!("{half:x}"))
                .collect();
            digits.join(".")
        }
    }
}

/// What is not there is none; what nobody knows is asked for again.
fn known<T>(answer: Result<Vec<T>, DnsError>) -> Result<Vec<T>, Ended> {
    match answer {
        Ok(found) => Ok(found),
        Err(DnsError::NoName | DnsError::Missing) => Ok(Vec::new()),
        Err(DnsError::Later(_)) => Err(Verdict::TempError),
    }
}

/// Whether an address lies in a network that is written down; `None` where that cannot be read.
fn in_network(peer: IpAddr, kind: &str, value: &str) -> Option<bool> {
    let (address, length) = value.split_once('/').map_or((value, None), |(address, length)| (address, Some(length)));
    let network: IpAddr = address.parse().ok().filter(|address: &IpAddr| address.is_ipv4() == (kind == "ip4"))?;
    let most = if network.is_ipv4() { 32 } else { 128 };
    let length = match length {
        Some(text) => Some(text.parse().ok().filter(|length| *length <= most)?),
        None => None,
    };
    Some(lies_in(peer, network, [length; 2]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn networks_hold_their_addresses_and_no_others() {
        for (kind, value, peer, expected) in [
            ("ip4", "192.0.2.0/24", "192.0.2.77", Some(true)),
            ("ip4", "192.0.2.0/24", "192.0.3.1", Some(false)),
            ("ip4", "192.0.2.1", "192.0.2.1", Some(true)),
            ("ip4", "192.0.2.1", "192.0.2.2", Some(false)),
            ("ip4", "0.0.0.0/0", "203.0.113.9", Some(true)),
            ("ip6", "2001:db8::/32", "2001:db8:1::1", Some(true)),
            ("ip6", "2001:db8::/32", "2001:db9::1", Some(false)),
            ("ip6", "::/0", "2001:db9::1", Some(true)),
            ("ip4", "192.0.2.0/24", "2001:db8::1", Some(false)),
            ("ip4", "192.0.2.0/33", "192.0.2.1", None),
            ("ip4", "2001:db8::1", "192.0.2.1", None),
            ("ip4", "", "192.0.2.1", None),
        ] {
            assert_eq!(in_network(ip(peer), kind, value), expected, "{kind}:{value} {peer}");
        }
    }

    #[test]
    fn terms_are_read_with_what_they_decide() {
        let mechanism =
            |verdict, name: &str, value, prefix| Some(Term::Mechanism { verdict, name: name.into(), value, prefix });
        for (text, expected) in [
            ("-all", mechanism(Verdict::Fail, "all", None, [None; 2])),
            ("~ALL", mechanism(Verdict::SoftFail, "all", None, [None; 2])),
            ("include:a.example", mechanism(Verdict::Pass, "include", Some("a.example"), [None; 2])),
            ("?a/24//64", mechanism(Verdict::Neutral, "a", None, [Some(24), Some(64)])),
            ("mx:b.example//48", mechanism(Verdict::Pass, "mx", Some("b.example"), [None, Some(48)])),
            ("ip6:2001:db8::/32", mechanism(Verdict::Pass, "ip6", Some("2001:db8::/32"), [None; 2])),
            ("redirect=c.example", Some(Term::Redirect("c.example"))),
            ("exp=x:y.example", Some(Term::Other)),
            ("a:", None),
            ("a/33", None),
            ("ip4", None),
        ] {
            assert_eq!(Term::read(text), expected, "{text}");
        }
    }

    #[tokio::test]
    async fn macros_stand_for_what_the_standard_says() {
        let dns = Resolver::new(&[]);
        let check =
            |peer| Check { dns: &dns, peer: ip(peer), local: "strong-bad", sender: "email.example.com", lookups: 0 };
        for (text, expected) in [
            ("%{s}", "strong-bad@email.example.com"),
            ("%{d2}.x", "example.com.x"),
            ("%{dr}", "com.example.email"),
            ("%{d1r}", "email"),
            ("%{lr-}", "bad.strong"),
            ("%{ir}.%{v}._spf.%{d2}", "3.2.0.192.in-addr._spf.example.com"),
            ("a%%b%_c%-", "a%b c%20"),
        ] {
            assert_eq!(check("192.0.2.3").expand(text, "email.example.com").as_deref(), Ok(expected), "{text}");
        }
        for odd in ["%", "%{", "%{q}", "%x", "%{}"] {
            assert_eq!(check("::1").expand(odd, "example.com"), Err(Verdict::PermError), "{odd}");
        }
    }
}
