//! Asking for authorization: requests to `GET /oauth/authorize` and what is
//! expected of every answer to one.

use crate::harness::{Answer, BASE, TestApp};

pub const CALLBACK: &str = "https://app.example/cb";
pub const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

pub fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// The query of a good request for [`CALLBACK`], changed: a value replaces a
/// parameter or adds one, `None` takes it away. Values are sent as they stand.
pub fn query(client: &str, changes: &[(&str, Option<&str>)]) -> String {
    let callback = encoded(CALLBACK);
    let mut pairs: Vec<(&str, &str)> = vec![
        ("client_id", client),
        ("response_type", "code"),
        ("redirect_uri", &callback),
        ("code_challenge", CHALLENGE),
        ("code_challenge_method", "S256"),
    ];
    for (name, value) in changes {
        let place = pairs.iter().position(|(known, _)| known == name);
        match (place, value) {
            (Some(place), Some(value)) => pairs[place].1 = value,
            (Some(place), None) => drop(pairs.remove(place)),
            (None, Some(value)) => pairs.push((name, value)),
            (None, None) => {}
        }
    }
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

/// Sends a query and asserts what holds of every answer (spec 7.1).
pub async fn ask(app: &TestApp, query: impl AsRef<str>) -> Answer {
    let answer = app.get(format!("/oauth/authorize?{}", query.as_ref())).send().await;
    assert_eq!(answer.header("set-cookie"), None);
    for (name, value) in [
        ("cache-control", "no-store"),
        ("pragma", "no-cache"),
        ("referrer-policy", "no-referrer"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(answer.header(name), Some(value), "{name}");
    }
    if answer.status == 302 {
        assert!(answer.body.is_empty(), "a redirect has no body");
        assert_eq!(answer.header("content-type"), None);
        assert!(answer.location().bytes().all(|byte| byte.is_ascii_graphic()), "{}", answer.location());
    } else {
        assert_eq!(answer.header("location"), None, "only a 302 leads somewhere");
    }
    answer
}

impl Answer {
    /// Asserts that the browser is sent to the consent page, and gives the id
    /// of the request that waits there.
    pub fn consent(&self) -> &str {
        assert_eq!(self.status, 302, "{}", self.text());
        let id = self.location().strip_prefix(&format!("{BASE}/dashboard/oauth/authorize/"));
        let id = id.unwrap_or_else(|| panic!("not the consent page: {}", self.location()));
        let parsed = uuid::Uuid::parse_str(id).expect("a UUID");
        assert_eq!(parsed.as_hyphenated().to_string(), id);
        id
    }

    /// Asserts that the browser is sent back to `redirect` (with the `?` or `&`
    /// behind it) with this error and, behind everything, `rest`. Gives the
    /// description.
    pub fn returned(&self, redirect: &str, error: &str, rest: &str) -> String {
        assert_eq!(self.status, 302, "{}", self.text());
        let location = self.location();
        let front = format!("{redirect}error={error}&error_description=");
        let behind = location.strip_prefix(&front).unwrap_or_else(|| panic!("{location} does not start with {front}"));
        let description = behind.strip_suffix(rest).unwrap_or_else(|| panic!("{location} does not end in {rest}"));
        let unreserved = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte);
        assert!(!description.is_empty() && description.bytes().all(unreserved), "{description}");
        let text = percent_encoding::percent_decode_str(description).decode_utf8().expect("ASCII").into_owned();
        let allowed = |byte: u8| matches!(byte, 0x20..=0x7e) && byte != b'"' && byte != b'\\';
        assert!(text.bytes().all(allowed), "{text:?}");
        text
    }
}
