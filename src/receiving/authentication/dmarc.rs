//! Whether what passed is the author's domain, as that domain demands (DMARC). Which domains belong
//! together is found by asking upwards from a name, not from a list.

use super::{Checked, Verdict};
use crate::dns::{DnsError, Resolver};
use crate::mime::tags_of;

/// How many names are asked for.
const MOST_NAMES: usize = 8;

/// What a domain demands.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Policy {
    is_strict_spf: bool,
    is_strict_dkim: bool,
    /// Names below it are registered by many: it is nobody's.
    is_public: bool,
}

fn policy(record: &str) -> Option<Policy> {
    let mut tags = tags_of(record);
    tags.next().filter(|first| *first == ("v", "DMARC1"))?;
    let is = |name: &str, value: &str| {
        tags_of(record).any(|(found, given)| found == name && given.eq_ignore_ascii_case(value))
    };
    Some(Policy { is_strict_spf: is("aspf", "s"), is_strict_dkim: is("adkim", "s"), is_public: is("psd", "y") })
}

/// The names to ask for: the domain, and those above it.
fn names(domain: &str) -> Vec<&str> {
    let mut names = vec![domain];
    let mut rest = domain;
    while let Some((_, above)) = rest.split_once('.') {
        if above.contains('.') && above.split('.').count() < MOST_NAMES {
            names.push(above);
        }
        rest = above;
    }
    names
}

pub async fn check(dns: &Resolver, from: &str, spf: &Checked, dkim: &[Checked]) -> Checked {
    let (mut found, mut organization) = (None, from);
    for name in names(from) {
        let records = match dns.txt(&format!("_dmarc.{name}")).await {
            Ok(records) => records,
            Err(DnsError::Later(_)) => return Checked::new(Verdict::TempError, from),
            Err(DnsError::NoName | DnsError::Missing) => continue,
        };
        let mut policies = records.iter().filter_map(|record| policy(record));
        // Where there are several, there is none.
        let (Some(policy), None) = (policies.next(), policies.next()) else { continue };
        found.get_or_insert(policy);
        if !policy.is_public {
            organization = name;
        }
    }
    let Some(policy) = found else { return Checked::new(Verdict::None, from) };
    let is_aligned = |checked: &Checked, is_strict: bool| {
        let domain = checked.domain.as_deref().filter(|_| checked.result == Verdict::Pass);
        domain.is_some_and(|domain| domain == from || !is_strict && is_within(domain, organization))
    };
    let passes = is_aligned(spf, policy.is_strict_spf)
        || dkim.iter().any(|signature| is_aligned(signature, policy.is_strict_dkim));
    Checked::new(if passes { Verdict::Pass } else { Verdict::Fail }, from)
}

fn is_within(domain: &str, organization: &str) -> bool {
    domain.strip_suffix(organization).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_read_and_what_is_none_is_left() {
        let strict = Policy { is_strict_spf: true, is_strict_dkim: true, is_public: false };
        assert_eq!(policy("v=DMARC1; p=reject; aspf=S;adkim=s"), Some(strict));
        assert_eq!(policy("v=DMARC1; p=none;"), Some(Policy::default()));
        assert_eq!(policy("v=spf1 -all"), None);
        assert_eq!(policy("p=none; v=DMARC1"), None);
    }

    #[test]
    fn names_are_asked_upwards_and_no_top_level_is() {
        assert_eq!(names("a.b.example.com"), ["a.b.example.com", "b.example.com", "example.com"]);
        assert_eq!(names("com"), ["com"]);
        let long = vec!["a"; 100].join(".");
        assert_eq!(names(&long).len(), 1 + MOST_NAMES - 2);
    }

    #[test]
    fn a_name_is_within_another_by_whole_labels() {
        assert!(is_within("example.com", "example.com") && is_within("a.example.com", "example.com"));
        assert!(!is_within("badexample.com", "example.com") && !is_within("com", "example.com"));
    }
}
