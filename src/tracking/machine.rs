//! Which opens and clicks are a reader's, and which a machine's: scanners follow every link before anybody reads the
//! mail, and some mail programs fetch every picture. Both are counted; what follows from a click follows from a reader's.

use std::collections::HashSet;

use http::{HeaderMap, Method, header};
use uuid::Uuid;

use crate::clock::SECOND;

/// Who comes so soon after the mail did has not read it.
const TOO_SOON: i64 = 3 * SECOND;

/// Who follows so many links of a mail within so short a time, reads none of them.
const TOO_MANY: usize = 3;
const AT_ONCE: i64 = 5 * SECOND;

/// Proxies that fetch a picture when somebody looks at it.
const READERS: &[&str] = &["googleimageproxy", "yahoomailproxy", "duckduckgo-favicons"];

/// What programs that nobody reads with call themselves, or a part of it.
const PROGRAMS: &[&str] = &[
    "aiohttp",
    "apache-httpclient",
    "axios",
    "barracuda",
    "crawler",
    "curl/",
    "existence discovery",
    "facebookexternalhit",
    "fireeye",
    "forcepoint",
    "go-http-client",
    "guzzle",
    "headlesschrome",
    "java/",
    "libwww",
    "mimecast",
    "node-fetch",
    "okhttp",
    "phantomjs",
    "preview",
    "proofpoint",
    "python-requests",
    "python-urllib",
    "scanner",
    "scrapy",
    "spider",
    "symantec",
    "trendmicro",
    "urlscan",
    "wget/",
];

/// Headers that say that something is fetched before anybody asked for it.
const PURPOSES: &[&str] = &["sec-purpose", "purpose", "x-purpose", "x-moz"];

/// Whether a request says of itself that no reader made it.
pub fn is_machine(method: &Method, headers: &HeaderMap) -> bool {
    let said = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_early = |name: &&str| {
        let purpose = said(name).to_ascii_lowercase();
        purpose.contains("prefetch") || purpose.contains("preview")
    };
    *method == Method::HEAD || PURPOSES.iter().any(is_early) || is_program(said(header::USER_AGENT.as_str()))
}

fn is_program(user_agent: &str) -> bool {
    let name = user_agent.to_ascii_lowercase();
    let has = |part: &&str| name.contains(*part);
    // A brand of telephones ends like that, too.
    let is_bot = |word: &str| word.ends_with("bot") && word != "cubot";
    // Apple's mail programs fetch the pictures of all mail, under no more than this.
    let says_nothing = matches!(name.trim(), "" | "mozilla/5.0");
    !READERS.iter().any(has)
        && (says_nothing || PROGRAMS.iter().any(has) || name.split(|c: char| !c.is_ascii_alphanumeric()).any(is_bot))
}

/// Whether somebody came before the mail can have been read; `arrived_at` is when it was taken, as far as that is known.
pub fn is_too_soon(at: i64, arrived_at: Option<i64>) -> bool {
    arrived_at.is_some_and(|arrived_at| at < arrived_at + TOO_SOON)
}

/// Whether a click at this time is one of too many: `clicks` are all of the recipient, each with its link.
pub fn is_one_of_many(at: i64, clicks: &[(i64, Uuid)]) -> bool {
    let beside = clicks.iter().filter(|(other, _)| (at - other).abs() <= AT_ONCE).map(|(_, link)| link);
    beside.collect::<HashSet<_>>().len() >= TOO_MANY
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(user_agent: &str) -> bool {
        let headers = HeaderMap::from_iter([(header::USER_AGENT, user_agent.parse().expect("a value"))]);
        is_machine(&Method::GET, &headers)
    }

    #[test]
    fn programs_are_told_from_readers_by_what_they_say() {
        for reader in [
            "Mozilla/5.0 (Windows NT 5.1; rv:11.0) Gecko Firefox/11.0 (via ggpht.com GoogleImageProxy)",
            "YahooMailProxy; https://help.yahoo.com/kb/yahoo-mail-proxy-SLN28749.html",
            "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148",
            "Microsoft Office/16.0 (Windows NT 10.0; Microsoft Outlook 16.0.17126; Pro)",
            "Mozilla/5.0 (Linux; Android 12; CUBOT P50) AppleWebKit/537.36",
        ] {
            assert!(!by(reader), "{reader}");
        }
        for program in [
            "",
            "Mozilla/5.0",
            "Googlebot/2.1",
            "Mozilla/5.0 (compatible; bingbot/2.0)",
            "Slackbot-LinkExpanding 1.0",
            "python-requests/2.31",
            "curl/8.5.0",
            "Microsoft Office Existence Discovery",
            "Mozilla/5.0 HeadlessChrome/120",
        ] {
            assert!(by(program), "{program}");
        }
    }

    #[test]
    fn who_asks_for_nothing_or_ahead_is_a_machine() {
        let reader = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0";
        let mut headers = HeaderMap::from_iter([(header::USER_AGENT, reader.parse().expect("a value"))]);
        assert!(!is_machine(&Method::GET, &headers) && is_machine(&Method::HEAD, &headers));
        headers.insert("sec-purpose", "prefetch;prerender".parse().expect("a value"));
        assert!(is_machine(&Method::GET, &headers));
    }

    #[test]
    fn haste_gives_a_machine_away() {
        assert!(is_too_soon(SECOND, Some(0)) && is_too_soon(0, Some(SECOND)));
        assert!(!is_too_soon(4 * SECOND, Some(0)) && !is_too_soon(0, None));
        let link = Uuid::from_u128;
        let (few, many) = ([(0, link(1)), (1, link(2)), (2, link(1))], [(0, link(1)), (1, link(2)), (2, link(3))]);
        assert!(!is_one_of_many(0, &few) && is_one_of_many(0, &many));
        assert!(!is_one_of_many(20 * SECOND, &many));
    }
}
