//! Looking for a domain's records in DNS, and saying what is wrong with what is there.

use super::records::{Expected, Purpose, dmarc_name};
use super::status::Look;
use crate::dns::{DnsError, Exchange, Resolver};

/// Long values are told by their beginning.
const SHOWN: usize = 300;

/// Looks for a record.
pub async fn look(dns: &Resolver, domain: &str, record: &Expected) -> Look {
    let name = &record.name;
    let look = match &record.purpose {
        Purpose::ReturnPath | Purpose::Receiving => present(dns.mx(name).await).map(|found| judge_mx(&found, record)),
        Purpose::Spf(terms) => present(dns.txt(name).await).map(|found| judge_spf(&found, terms, record)),
        Purpose::Dkim => present(dns.txt(name).await).map(|found| judge_dkim(&found, record)),
        Purpose::Tracking => present(dns.cname(name).await).map(|found| judge_cname(&found, record)),
    };
    match look {
        Err(reason) => Look::Unanswered { reason },
        Ok(Look::Missing { advice }) => {
            Look::Missing { advice: misplaced(dns, domain, record).await.unwrap_or(advice) }
        }
        Ok(other) => other,
    }
}

/// What is there, which may be nothing; or why nobody knows.
fn present<T>(answer: Result<Vec<T>, DnsError>) -> Result<Vec<T>, String> {
    match answer {
        Err(DnsError::NoName | DnsError::Missing) => Ok(Vec::new()),
        Err(DnsError::Later(reason)) => Err(reason),
        Ok(found) => Ok(found),
    }
}

/// Many providers add the domain to whatever is typed.
async fn misplaced(dns: &Resolver, domain: &str, record: &Expected) -> Option<String> {
    let doubled = format!("{}.{domain}", record.name);
    let is_there = match record.purpose.kind() {
        "MX" => dns.mx(&doubled).await.is_ok(),
        "TXT" => dns.txt(&doubled).await.is_ok(),
        _ => dns.cname(&doubled).await.is_ok(),
    };
    let typed = record.name.strip_suffix(&format!(".{domain}")).unwrap_or("@");
    is_there.then(|| {
        format!(
            "It stands at `{doubled}`: your DNS provider adds the domain by itself. Enter only `{typed}` as the name."
        )
    })
}

fn missing(record: &Expected) -> Look {
    let (kind, name) = (record.purpose.kind(), &record.name);
    Look::Missing { advice: format!("There is no {kind} record at `{name}` yet. Add it with the value shown.") }
}

fn judge_mx(found: &[Exchange], record: &Expected) -> Look {
    let told = found.iter().map(|one| format!("{} {}", one.preference, one.host)).collect::<Vec<_>>().join(", ");
    match found {
        [] => missing(record),
        _ if found.iter().any(|one| one.host == record.value) => Look::Right { found: shown(&told) },
        _ => Look::Wrong {
            advice: format!("The MX record points elsewhere. Let it point to `{}`.", record.value),
            found: shown(&told),
        },
    }
}

fn judge_spf(found: &[String], terms: &[String], record: &Expected) -> Look {
    let is_spf = |text: &&String| {
        let first = text.split_whitespace().next().unwrap_or_default();
        first.eq_ignore_ascii_case("v=spf1")
    };
    let records: Vec<&String> = found.iter().filter(is_spf).collect();
    let [only] = records[..] else {
        return match records.len() {
            0 => missing(record),
            count => Look::Wrong {
                found: shown(&records.iter().map(|text| text.as_str()).collect::<Vec<_>>().join(" | ")),
                advice: format!("There are {count} SPF records, of which others believe none. Make one of them."),
            },
        };
    };
    let given: Vec<String> =
        only.split_whitespace().skip(1).map(|term| term.trim_start_matches('+').to_ascii_lowercase()).collect();
    let lacking: Vec<&String> = terms.iter().filter(|term| !given.contains(&term.to_ascii_lowercase())).collect();
    if lacking.is_empty() {
        return Look::Right { found: shown(only) };
    }
    let lacking = lacking.into_iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    Look::Wrong {
        found: shown(only),
        advice: format!("The SPF record does not allow this server to send. Add `{lacking}` behind `v=spf1`."),
    }
}

fn judge_dkim(found: &[String], record: &Expected) -> Look {
    let wanted = tag(&record.value, "p").unwrap_or_default();
    let keys: Vec<(&String, String)> = found.iter().filter_map(|text| Some((text, tag(text, "p")?))).collect();
    let wrong = |text: &str, advice: &str| Look::Wrong { found: shown(text), advice: advice.into() };
    match &keys[..] {
        [] => match found.first() {
            None => missing(record),
            Some(other) => wrong(other, "This is no DKIM key. Replace it by the value shown."),
        },
        [(text, key)] if *key == wanted && is_usable(text) => Look::Right { found: shown(text) },
        [(text, key)] if *key == wanted => {
            wrong(text, "The key is right, but the rest of the record is not. Replace all of it by the value shown.")
        }
        [(text, key)] if key.is_empty() => wrong(text, "The record withdraws the key. Replace it by the value shown."),
        [(text, key)] if wanted.starts_with(key.as_str()) => {
            wrong(text, "The key was cut off. Enter the whole value; where that is too long, in several quoted pieces.")
        }
        [(text, _)] => wrong(text, "Another key stands there. Replace it by the value shown."),
        [(text, _), ..] => wrong(text, "Several keys stand there. Leave only the value shown."),
    }
}

/// Whether what stands around a key lets it sign our mail.
fn is_usable(text: &str) -> bool {
    let is = |name: &str, allowed: &[&str]| tag(text, name).is_none_or(|value| allowed.contains(&value.as_str()));
    is("v", &["DKIM1"]) && is("k", &["rsa", "ed25519"]) && is("s", &["*", "email"])
}

/// The value of a tag of a DKIM or DMARC record, without the spaces that were folded into it.
fn tag(text: &str, name: &str) -> Option<String> {
    let mut tags = text.split(';').filter_map(|tag| tag.split_once('='));
    let (_, value) = tags.find(|(found, _)| found.trim().eq_ignore_ascii_case(name))?;
    Some(value.chars().filter(|char| !char.is_whitespace()).collect())
}

fn judge_cname(found: &[String], record: &Expected) -> Look {
    match found.first() {
        None => missing(record),
        Some(target) if *target == record.value => Look::Right { found: shown(target) },
        Some(target) => Look::Wrong {
            advice: format!("The CNAME record points elsewhere. Let it point to `{}`.", record.value),
            found: shown(target),
        },
    }
}

/// What is told of DMARC, which nothing here depends on.
pub async fn look_for_dmarc(dns: &Resolver, domain: &str) -> Look {
    let mut name = domain;
    loop {
        match present(dns.txt(&dmarc_name(name)).await) {
            Err(reason) => return Look::Unanswered { reason },
            Ok(found) => {
                if let Some(policy) = judge_dmarc(&found) {
                    return policy;
                }
            }
        }
        // What a domain does not say is said by the one above it, but for the topmost.
        match name.split_once('.') {
            Some((_, above)) if above.contains('.') => name = above,
            _ => break,
        }
    }
    Look::Missing {
        advice: "Nothing tells others what to do with mail that only claims to be from this domain. Gmail and Yahoo \
                 ask for it of everybody who sends much. Add the record; later, `p=quarantine` or `p=reject` protect \
                 the name."
            .into(),
    }
}

fn judge_dmarc(found: &[String]) -> Option<Look> {
    let text = found.iter().find(|text| tag(text, "v").is_some_and(|version| version == "DMARC1"))?;
    let is_policy = tag(text, "p").is_some_and(|policy| ["none", "quarantine", "reject"].contains(&policy.as_str()));
    Some(match is_policy {
        true => Look::Right { found: shown(text) },
        false => Look::Wrong {
            found: shown(text),
            advice: "The record has no policy. Add `p=none`, `p=quarantine` or `p=reject`.".into(),
        },
    })
}

fn shown(text: &str) -> String {
    let mut short: String =
        text.chars().take(SHOWN).map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect();
    if text.chars().nth(SHOWN).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(purpose: Purpose, value: &str) -> Expected {
        let (key, name) = ("key".into(), "send.example.com".into());
        Expected { key, purpose, name, value: value.into(), is_needed: true }
    }

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(|&text| text.to_owned()).collect()
    }

    /// The first word is what a look came to; the advice is to hold the second.
    fn is(look: Look, word: &str, advised: &str) {
        let (found, advice) = match &look {
            Look::Right { .. } => ("right", ""),
            Look::Wrong { advice, .. } => ("wrong", advice.as_str()),
            Look::Missing { advice } => ("missing", advice.as_str()),
            Look::Unanswered { reason } => ("unanswered", reason.as_str()),
        };
        assert!(found == word && advice.contains(advised), "{look:?}");
    }

    #[test]
    fn an_spf_record_must_allow_this_server_and_be_the_only_one() {
        let terms = texts(&["a:mail.example"]);
        let spf = record(Purpose::Spf(terms.clone()), "v=spf1 a:mail.example ~all");
        let judge = |found: &[&str]| judge_spf(&texts(found), &terms, &spf);
        is(judge(&["v=spf1 a:mail.example ~all"]), "right", "");
        is(judge(&["other", "V=SPF1 include:x.example +A:Mail.Example -all"]), "right", "");
        is(judge(&[]), "missing", "`send.example.com`");
        is(judge(&["other", "v=spf10 a:mail.example"]), "missing", "");
        is(judge(&["v=spf1 include:x.example ~all"]), "wrong", "`a:mail.example`");
        is(judge(&["v=spf1 -a:mail.example ~all"]), "wrong", "");
        is(judge(&["v=spf1 a:mail.example ~all", "v=spf1 mx"]), "wrong", "2 SPF");
    }

    #[test]
    fn a_dkim_record_must_hold_our_key_and_nothing_that_spoils_it() {
        let dkim = record(Purpose::Dkim, "v=DKIM1; k=rsa; p=QUJD/DEF+123=");
        let judge = |found: &[&str]| judge_dkim(&texts(found), &dkim);
        is(judge(&["v=DKIM1; k=rsa; p=QUJD/DEF+123="]), "right", "");
        is(judge(&["k=rsa;t=s; p = QUJD/ DEF+123= ;"]), "right", "");
        is(judge(&[]), "missing", "");
        is(judge(&["hello"]), "wrong", "no DKIM key");
        is(judge(&["v=DKIM1; p="]), "wrong", "withdraws");
        is(judge(&["v=DKIM1; k=rsa; p=QUJD/"]), "wrong", "cut off");
        is(judge(&["v=DKIM1; k=rsa; p=other"]), "wrong", "Another key");
        is(judge(&["v=DKIM2; k=rsa; p=QUJD/DEF+123="]), "wrong", "the rest");
        is(judge(&["p=QUJD/DEF+123=; s=tlsrpt"]), "wrong", "the rest");
        is(judge(&["p=QUJD/DEF+123=", "p=other"]), "wrong", "Several");
    }

    #[test]
    fn mx_and_cname_must_lead_here() {
        let mx = record(Purpose::ReturnPath, "mail.example");
        let to = |host: &str| Exchange { preference: 10, host: host.into() };
        is(judge_mx(&[to("x.example"), to("mail.example")], &mx), "right", "");
        is(judge_mx(&[to("x.example")], &mx), "wrong", "`mail.example`");
        is(judge_mx(&[], &mx), "missing", "MX");
        let cname = record(Purpose::Tracking, "api.example");
        is(judge_cname(&texts(&["api.example"]), &cname), "right", "");
        is(judge_cname(&texts(&["x.example"]), &cname), "wrong", "`api.example`");
        is(judge_cname(&[], &cname), "missing", "CNAME");
    }

    #[test]
    fn a_dmarc_record_has_a_policy() {
        is(judge_dmarc(&texts(&["x", "v=DMARC1; p=reject; rua=mailto:a@b"])).expect("one"), "right", "");
        is(judge_dmarc(&texts(&["v=DMARC1; rua=mailto:a@b"])).expect("one"), "wrong", "`p=none`");
        assert_eq!(judge_dmarc(&texts(&["v=spf1 -all"])), None);
    }
}
