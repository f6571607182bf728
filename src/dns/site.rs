//! From the MX records of a domain to the servers that are asked, in order.

use super::Exchange;

/// How many servers of a domain are tried.
const MOST_HOSTS: usize = 5;

/// The servers of a domain. Domains with the same ones are one site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The set of servers, the same in whatever order they are tried:
    /// `mx1.a.example+mx2.a.example`.
    pub name: String,
    /// By preference; those of equal preference in any order.
    pub hosts: Vec<String>,
    /// Whether somebody who looks at signatures (DNSSEC) says that these are its servers.
    pub is_secure: bool,
}

impl Site {
    /// A domain that is its own server: its name is certain, and what its address is worth shows when that is asked for.
    pub(super) fn of(host: &str) -> Site {
        let host = host.to_ascii_lowercase();
        Site { name: host.clone(), hosts: vec![host], is_secure: true }
    }
}

/// Why mail for a domain can go nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoSite {
    /// For good, with the code of RFC 3463.
    Never {
        code: &'static str,
        reason: String,
    },
    Later(String),
}

impl NoSite {
    pub(super) fn never(code: &'static str, reason: String) -> NoSite {
        NoSite::Never { code, reason }
    }
}

pub(super) fn later(domain: &str, reason: &str) -> NoSite {
    NoSite::Later(format!("the mail servers of {domain} cannot be looked up: {reason}"))
}

/// The servers to try. Where we are one of them, mail has come to us on its way to
/// those that are preferred to us; sending it to others would send it in circles.
pub(super) fn choose(domain: &str, mut exchanges: Vec<Exchange>, own: &str) -> Result<Site, NoSite> {
    exchanges.retain(|exchange| !exchange.host.is_empty());
    if exchanges.is_empty() {
        return Err(NoSite::never("5.1.10", format!("{domain} says that it takes no mail (null MX)")));
    }
    let is_us = |exchange: &&Exchange| exchange.host.eq_ignore_ascii_case(own);
    if let Some(ours) = exchanges.iter().filter(is_us).map(|exchange| exchange.preference).min() {
        exchanges.retain(|exchange| exchange.preference < ours);
    }
    if exchanges.is_empty() {
        let reason = format!("mail for {domain} leads back to this server ({own} is its mail server)");
        return Err(NoSite::never("5.4.6", reason));
    }
    let mut names: Vec<&str> = exchanges.iter().map(|exchange| exchange.host.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    // All of them, so that nobody joins a site by naming its servers behind his own.
    let name = names.join("+");
    // Chance decides among equals. Without any, the order of the answer has to do.
    exchanges.sort_by_cached_key(|exchange| (exchange.preference, getrandom::u32().unwrap_or_default()));
    let mut hosts: Vec<String> = Vec::new();
    for exchange in exchanges {
        if hosts.len() < MOST_HOSTS && !hosts.contains(&exchange.host) {
            hosts.push(exchange.host);
        }
    }
    Ok(Site { name, hosts, is_secure: false })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn chosen(exchanges: &[(u16, &str)], own: &str) -> Result<Site, NoSite> {
        let exchange = |(preference, host): &(u16, &str)| Exchange { preference: *preference, host: host.to_string() };
        choose("a.example", exchanges.iter().map(exchange).collect(), own)
    }

    fn code(result: Result<Site, NoSite>) -> &'static str {
        match result.expect_err("no site") {
            NoSite::Never { code, .. } => code,
            NoSite::Later(reason) => panic!("later: {reason}"),
        }
    }

    #[test]
    fn servers_are_tried_by_preference_and_equals_in_any_order() {
        let mut seen = BTreeSet::new();
        for _ in 0..64 {
            let site = chosen(&[(20, "c"), (10, "b"), (5, "x"), (10, "a")], "us").expect("a site");
            assert_eq!((site.name.as_str(), &site.hosts[0][..], &site.hosts[3][..]), ("a+b+c+x", "x", "c"));
            seen.insert(site.hosts);
        }
        assert_eq!(seen.len(), 2, "both orders: {seen:?}");
    }

    #[test]
    fn a_site_is_one_name_and_five_servers_at_most() {
        let many: Vec<(u16, String)> = (0..9).map(|n| (n, format!("mx{n}"))).collect();
        let many: Vec<(u16, &str)> = many.iter().rev().map(|(n, host)| (*n, host.as_str())).collect();
        let site = chosen(&many, "us").expect("a site");
        assert_eq!(site.hosts, ["mx0", "mx1", "mx2", "mx3", "mx4"]);
        assert_eq!(site.name, "mx0+mx1+mx2+mx3+mx4+mx5+mx6+mx7+mx8");
        let twice = chosen(&[(1, "a"), (2, "a")], "us").expect("a site");
        assert_eq!((twice.name.as_str(), twice.hosts.len()), ("a", 1));
    }

    #[test]
    fn a_domain_that_takes_no_mail_says_so_for_good() {
        assert_eq!(code(chosen(&[(0, "")], "us")), "5.1.10");
        // One that has servers as well has made a mistake.
        assert_eq!(chosen(&[(0, ""), (10, "a")], "us").expect("a site").hosts, ["a"]);
    }

    #[test]
    fn mail_never_goes_in_circles() {
        assert_eq!(chosen(&[(10, "a"), (20, "US"), (20, "b"), (30, "c")], "us").expect("a site").hosts, ["a"]);
        assert_eq!(code(chosen(&[(10, "us"), (20, "b")], "us")), "5.4.6");
        assert_eq!(code(chosen(&[(10, "us"), (10, "b")], "us")), "5.4.6");
    }
}
