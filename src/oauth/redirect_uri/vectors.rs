//! Redirect matching, case by case: registered, requested, whether it matches, why.

use super::matches;
use crate::oauth::fuzzing::may_match;

type Vector = (&'static str, &'static str, bool, &'static str);

#[rustfmt::skip]
const EXACT: &[Vector] = &[
    ("https://app.example/cb", "https://app.example/cb", true, "same string"),
    ("https://app.example/cb", "https://app.example/cb/", false, "trailing slash added"),
    ("https://app.example/cb/", "https://app.example/cb", false, "trailing slash removed"),
    ("https://app.example", "https://app.example/", false, "root slash added"),
    ("https://app.example/", "https://app.example", false, "root slash removed"),
    ("https://app.example/cb", "https://app.example/CB", false, "path case"),
    ("https://app.example/cb", "https://APP.example/cb", false, "host case"),
    ("https://app.example/cb", "HTTPS://app.example/cb", false, "scheme case"),
    ("https://app.example/cb", "http://app.example/cb", false, "scheme downgrade"),
    ("http://127.0.0.1/cb", "https://127.0.0.1/cb", false, "scheme upgrade on loopback"),
    ("https://app.example/cb", "https://app.example:443/cb", false, "default port spelt out"),
    ("https://app.example:443/cb", "https://app.example/cb", false, "default port left out"),
    ("https://app.example:8443/cb", "https://app.example:8444/cb", false, "another port on a site"),
    ("https://app.example/cb", "https://app.example/cb?x=1", false, "query added"),
    ("https://app.example/cb?x=1", "https://app.example/cb", false, "query removed"),
    ("https://app.example/cb?x=1", "https://app.example/cb?x=1", true, "same query"),
    ("https://app.example/cb?x=1", "https://app.example/cb?x=2", false, "query value"),
    ("https://app.example/cb?x=1", "https://app.example/cb?x=1&y=2", false, "query extended"),
    ("https://app.example/cb?x=1&y=2", "https://app.example/cb?y=2&x=1", false, "query order"),
    ("https://app.example/cb?x", "https://app.example/cb?x=", false, "flag is not an empty value"),
    ("https://app.example/cb", "https://app.example/cb?", false, "bare question mark"),
    ("https://app.example/cb?", "https://app.example/cb?", true, "registered with question mark"),
    ("https://app.example/cb", "https://app.example/cb#", false, "empty fragment"),
    ("https://app.example/cb", "https://app.example/cb#x", false, "fragment"),
    ("https://app.example/cb", "https://app.example/c%62", false, "needless escape"),
    ("https://app.example/%7ecb", "https://app.example/%7Ecb", false, "escape case"),
    ("https://app.example/%7ecb", "https://app.example/~cb", false, "escape undone"),
    ("https://app.example/cb", "https://app.example/x/../cb", false, "dot segments"),
    ("https://app.example/cb", "https://app.example/./cb", false, "single dot segment"),
    ("https://app.example/cb", "https://app.example//cb", false, "double slash"),
    ("https://app.example/cb", "https://app.example/cb/../evil", false, "prefix then up"),
    ("https://app.example/cb", "https://app.example/cb.evil.test", false, "path prefix"),
    ("https://app.example/cb", "https://app.example.evil.test/cb", false, "host prefix"),
    ("https://app.example/cb", "https://evilapp.example/cb", false, "host suffix"),
    ("https://app.example/cb", "https://evil.test/app.example/cb", false, "host in path"),
    ("https://app.example/cb", "https://app.example@evil.test/cb", false, "host as user"),
    ("https://app.example/cb", "https://user@app.example/cb", false, "userinfo added"),
    ("https://app.example/cb", "https://app.example\\@evil.test/cb", false, "backslash host"),
    ("https://app.example/cb", "https:\\\\app.example\\cb", false, "backslashes for slashes"),
    ("https://app.example/cb", "https:/app.example/cb", false, "one slash"),
    ("https://app.example/cb", "https:///app.example/cb", false, "three slashes"),
    ("https://app.example/cb", "//app.example/cb", false, "no scheme"),
    ("https://app.example/cb", "app.example/cb", false, "neither scheme nor slashes"),
    ("https://app.example/cb", " https://app.example/cb", false, "leading space"),
    ("https://app.example/cb", "https://app.example/cb ", false, "trailing space"),
    ("https://app.example/cb", "https://app.example/cb\t", false, "trailing tab"),
    ("https://app.example/cb", "https://app.example/\tcb", false, "tab that parsers drop"),
    ("https://app.example/cb", "ht\ntps://app.example/cb", false, "line feed that parsers drop"),
    ("https://app.example/cb", "https://app.example/cb\r\nSet-Cookie: a=b", false, "header injection"),
    ("https://app.example/cb", "https://app.example/cb\0", false, "trailing NUL"),
    ("https://app.example/cb", "https://app.example./cb", false, "root label dot"),
    ("https://app.example/cb", "https://app\u{3002}example/cb", false, "ideographic full stop"),
    ("https://app.example/cb", "https://\u{430}pp.example/cb", false, "Cyrillic look-alike"),
    ("https://app.example/cb", "https://app.example\u{ff0f}cb", false, "full-width slash"),
    ("https://app.example/cb", "https://app.example/cb\u{200b}", false, "zero-width space"),
    ("https://app.example/cb", "https%3A%2F%2Fapp.example%2Fcb", false, "encoded twice"),
    ("https://app.example/cb", "https://*.example/cb", false, "wildcard requested"),
    ("https://*.example/cb", "https://app.example/cb", false, "wildcard registered is no pattern"),
    ("https://app.example/.*", "https://app.example/cb", false, "no regular expressions"),
    ("https://app.example/cb", "javascript:alert(1)//https://app.example/cb", false, "script"),
    ("https://app.example/cb", "data:text/html,https://app.example/cb", false, "data"),
    ("https://app.example/cb", "", false, "empty requested"),
    ("", "https://app.example/cb", false, "empty registered"),
    ("https://app.example/cb", "https://app.example/c", false, "shorter"),
    ("https://app.example/cb", "https://app.example/cbb", false, "longer"),
    ("com.example.app:/oauth", "com.example.app:/oauth", true, "private-use scheme"),
    ("com.example.app:/oauth", "com.example.app://oauth", false, "path became host"),
    ("com.example.app:/oauth", "com.example.APP:/oauth", false, "private-use scheme case"),
    ("com.example.app:/oauth", "com.example.app.evil:/oauth", false, "longer scheme"),
    ("cursor://host/cb", "cursor://host:1/cb", false, "no port rule for other schemes"),
];

#[rustfmt::skip]
const LOOPBACK: &[Vector] = &[
    ("http://127.0.0.1/cb", "http://127.0.0.1/cb", true, "same string"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:49152/cb", true, "port added"),
    ("http://127.0.0.1:3000/cb", "http://127.0.0.1/cb", true, "port removed"),
    ("http://127.0.0.1:3000/cb", "http://127.0.0.1:4000/cb", true, "port changed"),
    ("http://127.0.0.1:3000/cb", "http://127.0.0.1:3000/cb", true, "same port"),
    ("http://localhost/cb", "http://localhost:1/cb", true, "smallest port"),
    ("http://localhost/cb", "http://localhost:65535/cb", true, "largest port"),
    ("http://localhost/cb", "http://localhost:80/cb", true, "default port"),
    ("https://localhost/cb", "https://localhost:8443/cb", true, "https loopback"),
    ("https://127.0.0.1:1/cb", "https://127.0.0.1:2/cb", true, "https address"),
    ("http://[::1]/cb", "http://[::1]:8080/cb", true, "IPv6 port added"),
    ("http://[::1]:8080/cb", "http://[::1]/cb", true, "IPv6 port removed"),
    ("https://[::1]:8080/cb", "https://[::1]:9/cb", true, "IPv6 https port changed"),
    ("http://127.0.0.1:33418", "http://127.0.0.1:5000", true, "no path"),
    ("http://127.0.0.1", "http://127.0.0.1:5000", true, "no path, port added"),
    ("http://127.0.0.1:33418/", "http://127.0.0.1:5000", false, "root slash removed"),
    ("http://127.0.0.1:33418", "http://127.0.0.1:5000/", false, "root slash added"),
    ("http://127.0.0.1?x=1", "http://127.0.0.1:7?x=1", true, "query right behind the port"),
    ("http://127.0.0.1:7?x=1", "http://127.0.0.1?x=2", false, "query differs"),
    ("http://127.0.0.1:7/cb?x=1", "http://127.0.0.1:8/cb?x=1", true, "query kept"),
    ("http://127.0.0.1:7/cb?x=1", "http://127.0.0.1:8/cb", false, "query removed"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:8/cb?x=1", false, "query added"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:8/cb/", false, "trailing slash"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:8/CB", false, "path case"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:8/x/../cb", false, "dot segments"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:8//cb", false, "double slash"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:8/c%62", false, "escape"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:8/cb#x", false, "fragment"),
    ("http://127.0.0.1", "http://127.0.0.1:8#x", false, "fragment behind port"),
    ("http://127.0.0.1#x", "http://127.0.0.1:8#x", false, "a fragment never gets the port rule"),
    ("http://127.0.0.1/cb", "http://localhost/cb", false, "another loopback host"),
    ("http://localhost/cb", "http://127.0.0.1:8/cb", false, "name is not address"),
    ("http://[::1]/cb", "http://localhost:8/cb", false, "IPv6 is not the name"),
    ("http://127.0.0.1/cb", "http://[::1]/cb", false, "IPv4 is not IPv6"),
    ("http://127.0.0.1/cb", "https://127.0.0.1:8/cb", false, "scheme and port"),
    ("http://127.0.0.1/cb", "HTTP://127.0.0.1:8/cb", false, "scheme case"),
    ("http://localhost/cb", "http://LOCALHOST:8/cb", false, "host case"),
    ("http://LOCALHOST/cb", "http://LOCALHOST:8/cb", false, "host case on both sides"),
    ("HTTP://localhost/cb", "HTTP://localhost:8/cb", false, "scheme case on both sides"),
    ("http://localhost/cb", "http://Localhost/cb", false, "one capital"),
    ("ws://localhost/cb", "ws://localhost:8/cb", false, "other scheme"),
    ("cursor://localhost/cb", "cursor://localhost:8/cb", false, "private-use scheme"),
    ("httpx://localhost/cb", "httpx://localhost:8/cb", false, "scheme with a tail"),
];

#[rustfmt::skip]
const PORTS: &[Vector] = &[
    ("http://127.0.0.1/cb", "http://127.0.0.1:/cb", false, "empty port"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:0/cb", false, "port zero"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:00/cb", false, "double zero"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:080/cb", false, "leading zero"),
    ("http://127.0.0.1:80/cb", "http://127.0.0.1:080/cb", false, "leading zero of the same number"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:65536/cb", false, "one too large"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:99999/cb", false, "five digits too large"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:100000/cb", false, "six digits"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:65616/cb", false, "80 after a 16-bit overflow"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:4294967376/cb", false, "80 after a 32-bit overflow"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:18446744073709551696/cb", false, "80 after a 64-bit overflow"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:+80/cb", false, "plus sign"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:-80/cb", false, "minus sign"),
    ("http://127.0.0.1/cb", "http://127.0.0.1: 80/cb", false, "space in front"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:80 /cb", false, "space behind"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:8\t0/cb", false, "tab inside"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:0x50/cb", false, "hexadecimal"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:80a/cb", false, "letter behind"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:http/cb", false, "service name"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:8e1/cb", false, "exponent"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:80.0/cb", false, "decimal point"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:8_0/cb", false, "underscore"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:%38%30/cb", false, "escaped digits"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:\u{ff18}\u{ff10}/cb", false, "full-width digits"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:\u{0668}\u{0660}/cb", false, "Arabic-Indic digits"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:*/cb", false, "wildcard port"),
    ("http://127.0.0.1:*/cb", "http://127.0.0.1:80/cb", false, "wildcard port registered"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:80:80/cb", false, "two ports"),
    ("http://127.0.0.1:80/cb", "http://127.0.0.1:80:81/cb", false, "second port behind the first"),
    ("http://127.0.0.1/cb", "http://127.0.0.1::80/cb", false, "two colons"),
    ("http://127.0.0.1/cb", "http://127.0.0.1%3A80/cb", false, "escaped colon"),
    ("http://127.0.0.1/cb", "http://127.0.0.1;80/cb", false, "semicolon"),
    ("http://127.0.0.1:0/cb", "http://127.0.0.1:80/cb", false, "bad port registered"),
    ("http://127.0.0.1:0/cb", "http://127.0.0.1:0/cb", true, "bad port, but the same string"),
    ("http://127.0.0.1:080/cb", "http://127.0.0.1/cb", false, "leading zero registered"),
    ("http://127.0.0.1:/cb", "http://127.0.0.1/cb", false, "empty port registered"),
    ("http://[::1]/cb", "http://[::1]:0/cb", false, "IPv6 port zero"),
    ("http://[::1]/cb", "http://[::1]:01/cb", false, "IPv6 leading zero"),
    ("http://[::1]/cb", "http://[::1:80]/cb", false, "port inside the brackets"),
    ("http://127.0.0.1/a/:80/cb", "http://127.0.0.1/a/cb", false, "port in the path"),
    ("http://127.0.0.1/a", "http://127.0.0.1/:80/a", false, "port behind the slash"),
    ("http://127.0.0.1/cb?u=http://localhost", "http://127.0.0.1/cb?u=http://localhost:1", false, "port in the query"),
];

#[rustfmt::skip]
const HOSTS: &[Vector] = &[
    ("http://127.0.0.1/cb", "http://127.0.0.1:80@evil.test/cb", false, "loopback as user and password"),
    ("http://127.0.0.1/cb", "http://127.0.0.1@evil.test/cb", false, "loopback as user"),
    ("http://127.0.0.1", "http://127.0.0.1:80@evil.test", false, "no path, user and password"),
    ("http://127.0.0.1@evil.test/cb", "http://127.0.0.1:80@evil.test/cb", false, "registered with userinfo"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:80\\@evil.test/cb", false, "backslash behind port"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:80\\cb", false, "backslash for slash"),
    ("http://127.0.0.1\\cb", "http://127.0.0.1:80\\cb", false, "backslash on both sides"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:80#@evil.test/cb", false, "fragment behind port"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:80?@evil.test/cb", false, "query behind port"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:80;@evil.test/cb", false, "semicolon behind port"),
    ("http://127.0.0.1/cb", "http://127.0.0.1:80.evil.test/cb", false, "dot behind port"),
    ("http://127.0.0.1/cb", "http://127.0.0.1.evil.test/cb", false, "address as a label"),
    ("http://127.0.0.1/cb", "http://127.0.0.1.evil.test:80/cb", false, "address as a label, port"),
    ("http://127.0.0.1.evil.test/cb", "http://127.0.0.1.evil.test:80/cb", false, "registered label host"),
    ("http://localhost/cb", "http://localhost.evil.test:80/cb", false, "name as a label"),
    ("http://localhost/cb", "http://localhost./cb", false, "root dot"),
    ("http://localhost./cb", "http://localhost.:80/cb", false, "root dot on both sides"),
    ("http://localhost/cb", "http://evil.localhost:80/cb", false, "label in front"),
    ("http://localhost/cb", "http://localhostevil:80/cb", false, "longer name"),
    ("http://localhost-evil/cb", "http://localhost-evil:80/cb", false, "hyphenated name"),
    ("http://localhost/cb", "http://user@localhost:80/cb", false, "user in front"),
    ("http://user@localhost/cb", "http://user@localhost:80/cb", false, "user on both sides"),
    ("http://127.0.0.2/cb", "http://127.0.0.2:80/cb", false, "another loopback address"),
    ("http://127.0.0.1/cb", "http://127.1:80/cb", false, "short address"),
    ("http://127.1/cb", "http://127.1:80/cb", false, "short address on both sides"),
    ("http://127.0.0.1/cb", "http://2130706433:80/cb", false, "address as one number"),
    ("http://127.0.0.1/cb", "http://0x7f.0.0.1:80/cb", false, "hexadecimal address"),
    ("http://127.0.0.1/cb", "http://0177.0.0.1:80/cb", false, "octal address"),
    ("http://127.0.0.1/cb", "http://127.0.0.01:80/cb", false, "padded address"),
    ("http://127.0.0.1/cb", "http://127.0.0.10:80/cb", false, "address with one more digit"),
    ("http://0.0.0.0/cb", "http://0.0.0.0:80/cb", false, "any address"),
    ("http://[::1]/cb", "http://[0:0:0:0:0:0:0:1]:80/cb", false, "IPv6 written out"),
    ("http://[0:0:0:0:0:0:0:1]/cb", "http://[0:0:0:0:0:0:0:1]:80/cb", false, "written out on both sides"),
    ("http://[::1]/cb", "http://[::01]:80/cb", false, "IPv6 padded"),
    ("http://[::1]/cb", "http://[::ffff:127.0.0.1]:80/cb", false, "mapped address"),
    ("http://[::1]/cb", "http://[::1%25lo]:80/cb", false, "zone"),
    ("http://[::1]/cb", "http://::1:80/cb", false, "no brackets"),
    ("http://[::1]/cb", "http://[::1].evil.test:80/cb", false, "IPv6 as a label"),
    ("http://[::1]/cb", "http://[::1]evil:80/cb", false, "tail behind the bracket"),
    ("http://[::1]/cb", "http://%5B::1%5D:80/cb", false, "escaped brackets"),
    ("http://localhost/cb", "http://loc%61lhost:80/cb", false, "escaped letter"),
    ("http://localhost/cb", "http://\u{24db}ocalhost:80/cb", false, "circled letter"),
    ("http://localhost/cb", "http://localhost\u{ad}:80/cb", false, "soft hyphen"),
    ("http://localhost/cb", "http://localhost\0:80/cb", false, "NUL behind the host"),
    ("http://localhost/cb", "http://localhost\n:80/cb", false, "line feed behind the host"),
    ("http://localhost/cb", "http:\\\\localhost:80/cb", false, "backslashes"),
    ("http://localhost/cb", "http:/localhost:80/cb", false, "one slash"),
    ("http://localhost/cb", "http:localhost:80/cb", false, "no slash"),
    ("http://localhost/cb", "http:///localhost:80/cb", false, "three slashes"),
    ("http://localhost/cb", "//localhost:80/cb", false, "no scheme"),
    ("http://localhost/cb", "localhost:80/cb", false, "host for scheme"),
    ("http://localhost/cb", "http://evil.test/http://localhost:80/cb", false, "URI in a path"),
    ("http://localhost/cb", "http://evil.test?http://localhost:80/cb", false, "URI in a query"),
    ("http://host.docker.internal/cb", "http://host.docker.internal:80/cb", false, "container host"),
    ("http://ip6-localhost/cb", "http://ip6-localhost:80/cb", false, "other local name"),
    ("http://localhost.localdomain/cb", "http://localhost.localdomain:80/cb", false, "long local name"),
    ("http://192.168.0.1/cb", "http://192.168.0.1:80/cb", false, "private address"),
];

fn all() -> impl Iterator<Item = &'static Vector> {
    [EXACT, LOOPBACK, PORTS, HOSTS].into_iter().flatten()
}

#[test]
fn decisions_3_redirects_match_as_raw_strings_with_one_loopback_port() {
    let failures: Vec<_> =
        all().filter(|(registered, requested, expected, _)| matches(registered, requested) != *expected).collect();
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(all().count() >= 200, "{}", all().count());
}

#[test]
fn the_rule_does_not_care_which_side_is_registered() {
    for (registered, requested, expected, note) in all() {
        assert_eq!(matches(requested, registered), *expected, "{note}");
    }
}

#[test]
fn the_judge_of_the_fuzzers_agrees_with_every_vector() {
    for (registered, requested, expected, note) in all() {
        assert_eq!(may_match(registered, requested), *expected, "{note}");
    }
}

#[test]
fn decisions_3_every_valid_port_and_no_other_number_floats() {
    for port in 0..=70_000_u32 {
        let requested = format!("http://[::1]:{port}/cb");
        assert_eq!(matches("http://[::1]/cb", &requested), (1..=65_535).contains(&port));
    }
}
