//! Which redirect URIs may be registered, case by case.

use super::{Reason, RedirectUri};
use crate::oauth::refusal::Refusal;

#[rustfmt::skip]
const ACCEPTED: &[(&str, &str)] = &[
    ("https://app.example/cb", "https"),
    ("https://app.example", "no path"),
    ("https://app.example/", "root"),
    ("https://app.example:8443/cb", "port"),
    ("https://app.example:1/cb", "smallest port"),
    ("https://app.example:65535/cb", "largest port"),
    ("https://app.example?x=1", "query without path"),
    ("https://app.example/cb?", "ends with a question mark"),
    ("https://app.example/cb?b;a&%7e&x=", "odd query"),
    ("https://app.example/cb?u=a@b:c", "at sign in the query"),
    ("https://app.example/@me/cb", "at sign in the path"),
    ("https://app.example/*/cb", "star in the path"),
    ("https://app.example/cb?a[]=1", "brackets in the query"),
    ("https://app.example/cb?code_hint=1&states=2&xerror=3", "names that only resemble"),
    ("https://app.example/cb?x=code&y=state", "reserved words as values"),
    ("https://app.example/code/state?x", "reserved words in the path"),
    ("https://app.example/%E2%82%AC", "escapes"),
    ("https://xn--bcher-kva.example/cb", "punycode"),
    ("https://under_score.example/cb", "underscore"),
    ("https://app.example./cb", "root label dot"),
    ("https://192.0.2.1/cb", "IPv4"),
    ("https://[2001:db8::1]:8443/cb", "IPv6"),
    ("https://localhost/cb", "https loopback"),
    ("HTTPS://OAuth.Example/cb", "capitals, stored as sent"),
    ("https://a.example/x/../cb", "dot segments, stored as sent"),
    ("http://127.0.0.1/oauth/callback", "loopback address"),
    ("http://127.0.0.1:33418", "no path, port"),
    ("http://127.0.0.1:33418/", "root, port"),
    ("http://localhost:3000/cb", "loopback name"),
    ("http://localhost?x", "loopback, query"),
    ("http://[::1]/cb", "loopback IPv6"),
    ("http://[::1]:8080/cb", "loopback IPv6, port"),
    ("com.example.app:/oauth", "reverse-DNS scheme"),
    ("com.example.app:/oauth?tenant=7", "reverse-DNS scheme, query"),
    ("com.example.app://oauth/cb", "reverse-DNS scheme, host"),
    ("cursor://anysphere.cursor-mcp/oauth/cb", "scheme without a dot"),
    ("vscode://vscode.auth/did-authenticate", "scheme without a dot"),
    ("vscode-insiders://x/cb", "hyphen"),
    ("msauth.com.example.app://auth", "no path"),
    ("web+app://cb", "plus"),
    ("myapp:///cb", "empty host"),
    ("myapp://", "nothing behind the slashes"),
    ("myapp:callback", "opaque"),
    ("exp://192.168.1.2:19000/--/cb", "address and port"),
];

#[rustfmt::skip]
const REFUSED: &[(&str, Reason)] = &[
    ("", Reason::Empty),
    (" https://app.example/cb", Reason::Character),
    ("https://app.example/cb ", Reason::Character),
    ("https://app.example/c b", Reason::Character),
    ("https://app.example/\tcb", Reason::Character),
    ("https://app.example/cb\r\nX: y", Reason::Character),
    ("https://app.example/\0", Reason::Character),
    ("https://app.example/\u{7f}", Reason::Character),
    ("https://app.example\\cb", Reason::Character),
    ("https://b\u{fc}cher.example/cb", Reason::Character),
    ("https://app.example/\u{20ac}", Reason::Character),
    ("https://app.example/\u{200b}", Reason::Character),
    ("https://app.example/\"", Reason::Character),
    ("https://app.example/<script>", Reason::Character),
    ("https://app.example/{id}", Reason::Character),
    ("https://app.example/a|b", Reason::Character),
    ("https://app.example/^", Reason::Character),
    ("https://app.example/`", Reason::Character),
    ("java\nscript:alert(1)", Reason::Character),
    ("https://app.example/cb#", Reason::Fragment),
    ("https://app.example/cb#x", Reason::Fragment),
    ("com.example.app:/cb#x", Reason::Fragment),
    ("https://app.example#@evil.test/", Reason::Fragment),
    ("https://app.example/%", Reason::PercentEscape),
    ("https://app.example/%4", Reason::PercentEscape),
    ("https://app.example/%zz", Reason::PercentEscape),
    ("https://app.example/?x=100%", Reason::PercentEscape),
    ("myapp:/%%41", Reason::PercentEscape),
    ("app.example/cb", Reason::NoScheme),
    ("/cb", Reason::NoScheme),
    ("//app.example/cb", Reason::NoScheme),
    ("://app.example/cb", Reason::NoScheme),
    ("1app://cb", Reason::NoScheme),
    ("my_app://cb", Reason::NoScheme),
    ("java%0Ascript:alert(1)", Reason::NoScheme),
    ("java%73cript:alert(1)", Reason::NoScheme),
    ("javascript:alert(1)", Reason::RefusedScheme),
    ("JAVASCRIPT:alert(1)", Reason::RefusedScheme),
    ("JavaScript://app.example/%0Aalert(1)", Reason::RefusedScheme),
    ("data:text/html,x", Reason::RefusedScheme),
    ("vbscript:x", Reason::RefusedScheme),
    ("file:///etc/passwd", Reason::RefusedScheme),
    ("blob:https://app.example/x", Reason::RefusedScheme),
    ("about:blank", Reason::RefusedScheme),
    ("ftp://app.example/cb", Reason::RefusedScheme),
    ("ws://app.example/cb", Reason::RefusedScheme),
    ("wss://app.example/cb", Reason::RefusedScheme),
    ("mailto:a@b.example", Reason::RefusedScheme),
    ("filesystem:https://app.example/x", Reason::RefusedScheme),
    ("view-source:https://app.example/x", Reason::RefusedScheme),
    ("intent://cb", Reason::RefusedScheme),
    ("urn:ietf:wg:oauth:2.0:oob", Reason::RefusedScheme),
    ("localhost:3000/cb", Reason::HostForScheme),
    ("localhost:/cb", Reason::HostForScheme),
    ("app.example:8443/cb", Reason::HostForScheme),
    ("app.example:8443", Reason::HostForScheme),
    ("myapp:", Reason::NothingBehindScheme),
    ("https:", Reason::NoHost),
    ("https://", Reason::NoHost),
    ("https:///app.example/cb", Reason::NoHost),
    ("https:/app.example/cb", Reason::NoHost),
    ("https:app.example/cb", Reason::NoHost),
    ("https://?x", Reason::NoHost),
    ("https://:443/cb", Reason::NoHost),
    ("http://:80/cb", Reason::NoHost),
    ("https://user@app.example/cb", Reason::Userinfo),
    ("https://user:pass@app.example/cb", Reason::Userinfo),
    ("https://@app.example/cb", Reason::Userinfo),
    ("http://127.0.0.1:80@evil.test/cb", Reason::Userinfo),
    ("http://localhost@evil.test/cb", Reason::Userinfo),
    ("myapp://user@host/cb", Reason::Userinfo),
    ("https://*.example/cb", Reason::Wildcard),
    ("https://*/cb", Reason::Wildcard),
    ("https://app.*:443/cb", Reason::Wildcard),
    ("http://*/cb", Reason::Wildcard),
    ("myapp://*/cb", Reason::Wildcard),
    ("https://ex%61mple.test/cb", Reason::Host),
    ("https://a,b/cb", Reason::Host),
    ("https://.example/cb", Reason::Host),
    ("https://app..example/cb", Reason::Host),
    ("https://[::1/cb", Reason::Host),
    ("https://::1]/cb", Reason::Port),
    ("https://[zz]/cb", Reason::Host),
    ("https://[::1]x/cb", Reason::Host),
    ("https://[fe80::1%25eth0]/cb", Reason::Host),
    ("http://127.0.0.1:0/cb", Reason::Port),
    ("http://127.0.0.1:080/cb", Reason::Port),
    ("http://127.0.0.1:65536/cb", Reason::Port),
    ("http://127.0.0.1:/cb", Reason::Port),
    ("http://127.0.0.1:abc/cb", Reason::Port),
    ("http://127.0.0.1:80:81/cb", Reason::Port),
    ("http://127.0.0.1:*/cb", Reason::Port),
    ("http://[::1]:0/cb", Reason::Port),
    ("https://app.example:0/cb", Reason::Port),
    ("https://app.example:99999/cb", Reason::Port),
    ("myapp://host:0/cb", Reason::Port),
    ("http://app.example/cb", Reason::PlainHttp),
    ("http://localhost.evil.test/cb", Reason::PlainHttp),
    ("http://127.0.0.1.evil.test/cb", Reason::PlainHttp),
    ("http://LOCALHOST/cb", Reason::PlainHttp),
    ("http://localhost./cb", Reason::PlainHttp),
    ("http://127.1/cb", Reason::PlainHttp),
    ("http://127.0.0.2/cb", Reason::PlainHttp),
    ("http://0.0.0.0/cb", Reason::PlainHttp),
    ("http://[0:0:0:0:0:0:0:1]/cb", Reason::PlainHttp),
    ("http://192.168.0.1/cb", Reason::PlainHttp),
    ("https://app.example/cb?code=1", Reason::ReservedParameter),
    ("https://app.example/cb?x=1&state=2", Reason::ReservedParameter),
    ("https://app.example/cb?error", Reason::ReservedParameter),
    ("https://app.example/cb?error_description=x", Reason::ReservedParameter),
    ("https://app.example/cb?iss=x", Reason::ReservedParameter),
    ("https://app.example/cb?CODE=1", Reason::ReservedParameter),
    ("https://app.example/cb?St%61te=1", Reason::ReservedParameter),
    ("https://app.example/cb?%63%6f%64%65=1", Reason::ReservedParameter),
    ("https://app.example/cb?x;code=1", Reason::ReservedParameter),
    ("com.example.app:/cb?code=1", Reason::ReservedParameter),
    ("http://127.0.0.1?state", Reason::ReservedParameter),
];

#[test]
fn cases_368_and_370_allowed_uris_are_stored_as_sent() {
    for (uri, note) in ACCEPTED {
        let kept = RedirectUri::parse(uri).map(RedirectUri::into_string);
        assert_eq!(kept.as_deref(), Ok(*uri), "{note}");
    }
}

#[test]
fn cases_363_to_369_other_uris_are_refused_with_the_reason() {
    for (uri, reason) in REFUSED {
        assert_eq!(RedirectUri::parse(uri), Err(*reason), "{uri:?}");
    }
    assert!(ACCEPTED.len() + REFUSED.len() >= 150);
}

#[test]
fn case_196_reasons_are_texts_a_description_may_hold() {
    for (_, reason) in REFUSED {
        let text = reason.to_string();
        assert_eq!(Refusal::invalid_request(text.clone()).description(), text);
    }
}

#[test]
fn a_uri_has_at_most_2048_characters() {
    let base = "https://app.example/";
    let longest = format!("{base}{}", "a".repeat(2048 - base.len()));
    assert!(RedirectUri::parse(&longest).is_ok());
    assert_eq!(RedirectUri::parse(&format!("{longest}a")), Err(Reason::TooLong));
}
