//! Entry points for fuzzers: each takes any bytes and panics when a promise is broken.
//!
//! The judge of redirects here is written from the sentence in the decisions, not from the code
//! it judges.

use super::authorize::{Callback, Claim, PendingRequest};
use super::clients::{AuthMethod, Client, GrantSet};
use super::redirect_uri::{RedirectUri, append, matches};
use super::refusal::{ErrorCode, Refusal};
use crate::credentials::{Scope, ScopeSet};
use crate::web::{Params, echo};

pub const CLIENT_ID: &str = "0198c5a0-0000-7000-8000-000000000001";

/// The client that the fuzzed queries talk to.
pub fn sample_client() -> Client {
    Client {
        id: CLIENT_ID.to_owned(),
        name: "Sample".to_owned(),
        redirect_uris: vec![
            "http://127.0.0.1/cb".to_owned(),
            "https://app.example/cb?tenant=7".to_owned(),
            "http://[::1]:9000".to_owned(),
            "com.example.app:/oauth".to_owned(),
        ],
        scopes: ScopeSet::from(Scope::EmailsSend),
        grants: GrantSet::all(),
        auth_method: AuthMethod::None,
        client_uri: None,
        logo_uri: None,
        verified_host: None,
        disabled_at: None,
        created_at: 0,
    }
}

/// What the endpoint would do, short of storing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Refused(Refusal),
    Returned { location: String, error: ErrorCode },
    Pending(PendingRequest),
}

pub fn authorize(raw: &[u8], client: &Client) -> Outcome {
    let params = Params::parse(raw);
    let proved = Claim::read(&params).and_then(|claim| {
        if claim.client_id() == client.id { Callback::prove(claim, client) } else { Err(Refusal::unknown_client()) }
    });
    let callback = match proved {
        Ok(callback) => callback,
        Err(refusal) => return Outcome::Refused(refusal),
    };
    match callback.check(&params, client) {
        Ok(pending) => Outcome::Pending(pending),
        Err(refusal) => Outcome::Returned { location: callback.error(&refusal), error: refusal.error() },
    }
}

/// Any bytes as the query of the authorization endpoint.
pub fn raw_query(data: &[u8]) {
    let client = sample_client();
    let params = Params::parse(data);
    let outcome = authorize(data, &client);
    match &outcome {
        Outcome::Refused(refusal) => assert_describable(refusal),
        Outcome::Returned { location, .. } => assert_location(location, &params, &client),
        Outcome::Pending(pending) => assert_pending(pending, &params, &client),
    }
    let with_unknown = [data, b"&x-unknown=%ff&resource=a&resource=b"].concat();
    assert_eq!(authorize(&with_unknown, &client), outcome, "unknown parameters change nothing");
    assert_echo(data);
}

/// Two texts separated by a line feed: a registered and a requested redirect URI.
pub fn redirect_match(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (registered, requested) = text.split_once('\n').unwrap_or((&text, ""));
    let accepted = matches(registered, requested);
    assert_eq!(accepted, may_match(registered, requested), "{registered:?} {requested:?}");
    assert_eq!(accepted, matches(requested, registered), "matching is symmetric");
    assert!(matches(registered, registered));
    if let Ok(uri) = RedirectUri::parse(registered) {
        assert_eq!(uri.as_str(), registered, "stored as sent");
        let location = append(registered, &[("code", "x")]);
        assert!(location.starts_with(registered) && location.ends_with("code=x"));
        assert!(location.bytes().all(|byte| byte.is_ascii_graphic()));
        if accepted {
            assert!(RedirectUri::parse(requested).is_ok_and(|uri| uri.as_str() == requested) || requested.len() > 2048);
        }
    }
}

/// The judge: two strings match when some spelling of one is a spelling of the other, where a
/// spelling is the string itself or the string with one loopback port taken out.
pub fn may_match(registered: &str, requested: &str) -> bool {
    spellings(registered).iter().any(|spelling| spellings(requested).contains(spelling))
}

fn spellings(uri: &str) -> Vec<String> {
    let mut all = vec![uri.to_owned()];
    for scheme in ["http", "https"] {
        for host in ["127.0.0.1", "localhost", "[::1]"] {
            let origin = format!("{scheme}://{host}");
            let Some(behind) = uri.strip_prefix(&format!("{origin}:")) else {
                continue;
            };
            let end = behind.find(['/', '?']).unwrap_or(behind.len());
            let is_plain_port = (1..=65_535_u32).contains(&behind[..end].parse().unwrap_or(0))
                && behind[..end].parse::<u32>().map(|port| port.to_string()).as_deref() == Ok(&behind[..end]);
            if is_plain_port {
                all.push(format!("{origin}{}", &behind[end..]));
            }
        }
    }
    all
}

fn assert_describable(refusal: &Refusal) {
    let allowed = |byte: u8| (0x20..0x7f).contains(&byte) && byte != b'"' && byte != b'\\';
    assert!(refusal.description().bytes().all(allowed));
}

/// Properties 400 and 402 of a redirect back to the client.
fn assert_location(location: &str, params: &Params<'_>, client: &Client) {
    assert!(location.bytes().all(|byte| byte.is_ascii_graphic()), "{location:?}");
    let requested = params.text("redirect_uri").unwrap_or_default();
    let behind = location.strip_prefix(requested.as_ref());
    assert!(behind.is_some(), "{location:?} does not start with {requested:?}");
    assert!(client.redirect_uris.iter().any(|registered| may_match(registered, &requested)));
    assert!(!location.contains('#'));

    let query = location.split_once('?').map_or("", |(_, query)| query);
    let answer = Params::parse(query);
    assert!(!answer.sent("error").is_repeated() && !answer.sent("state").is_repeated());
    let sent = params.sent("state").first().map(|state| state.decoded());
    let returned = answer.sent("state").first().map(|state| state.decoded());
    assert_eq!(returned, sent, "state comes back unchanged");
}

fn assert_pending(pending: &PendingRequest, params: &Params<'_>, client: &Client) {
    assert!(!pending.scopes.is_empty() && pending.scopes.is_subset_of(client.scopes));
    assert!(params.sent("state").first().is_none_or(|state| state.chars() <= 1024));
    let restored = Callback::restore(pending, client);
    assert!(restored.is_ok(), "a stored request keeps its way back");
    if let Ok(callback) = restored {
        assert_location(&callback.code("c0de"), params, client);
        assert_location(&callback.error(&Refusal::access_denied()), params, client);
    }
}

fn assert_echo(raw: &[u8]) {
    let once = echo(raw);
    assert!(once.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'&' && byte != b'#'));
    assert_eq!(echo(once.as_bytes()), once, "echoing twice changes nothing");
}
