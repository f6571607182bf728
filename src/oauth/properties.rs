//! Properties that hold for every input, and a random driver for the fuzz entry points that needs
//! no special toolchain.

use proptest::prelude::*;

use super::fuzzing::{CLIENT_ID, Outcome, authorize, may_match, raw_query, redirect_match, sample_client};
use super::redirect_uri::matches;
use crate::web::{Params, echo};

const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

/// Pieces from which near-misses of redirect URIs are made.
fn redirect_like() -> impl Strategy<Value = String> {
    let scheme = prop::sample::select(vec!["http://", "https://", "HTTP://", "ws://", "http:/"]);
    let host = prop::sample::select(vec![
        "127.0.0.1",
        "localhost",
        "[::1]",
        "localhost.",
        "127.1",
        "[::01]",
        "app.example",
        "",
    ]);
    let port = prop_oneof![
        3 => Just(String::new()),
        4 => (0_u32..70_000).prop_map(|port| format!(":{port}")),
        1 => prop::sample::select(vec![":", ":0", ":080", ":80:81", ":+1", ":8a"])
            .prop_map(str::to_owned),
    ];
    let tail = prop::sample::select(vec![
        "",
        "/",
        "/cb",
        "/cb?x=1",
        "?x=1",
        "#f",
        "@evil.test/cb",
        "\\@evil.test",
        ".evil.test",
        ":9",
    ]);
    (scheme, host, port, tail).prop_map(|(scheme, host, port, tail)| format!("{scheme}{host}{port}{tail}"))
}

/// Values of every kind for every parameter, good ones often enough to reach the last check.
fn pairs() -> impl Strategy<Value = Vec<(String, String)>> {
    let value = |good: Vec<&'static str>| {
        prop_oneof![
            8 => prop::sample::select(good).prop_map(|good| Some(good.to_owned())),
            1 => "[ -%'-~]{0,12}".prop_map(Some),
            1 => Just(None),
        ]
    };
    let redirects = vec!["http://127.0.0.1:4711/cb", "http://[::1]", "com.example.app:/oauth"];
    (
        value(vec![CLIENT_ID]),
        value(redirects),
        value(vec!["code"]),
        value(vec![CHALLENGE]),
        value(vec!["S256"]),
        value(vec!["emails:send", "emails:send+emails:send", "full_access"]),
        value(vec!["xyz", "a+b%2f", ""]),
    )
        .prop_map(|(id, redirect, response, challenge, method, scope, state)| {
            [
                ("client_id", id),
                ("redirect_uri", redirect),
                ("response_type", response),
                ("code_challenge", challenge),
                ("code_challenge_method", method),
                ("scope", scope),
                ("state", state),
            ]
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)))
            .collect()
        })
}

fn query(pairs: &[(String, String)]) -> Vec<u8> {
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("&").into_bytes()
}

fn good_with_state(raw_state: &[u8]) -> Vec<u8> {
    let mut query = format!(
        "client_id={CLIENT_ID}&redirect_uri=http://127.0.0.1:4711/cb&response_type=code\
         &code_challenge={CHALLENGE}&code_challenge_method=S256&state="
    )
    .into_bytes();
    query.extend_from_slice(raw_state);
    query
}

/// One of the spellings a client may choose for each byte of its state.
fn spelt(bytes: &[u8], style: u8) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, &byte) in bytes.iter().enumerate() {
        match (style.wrapping_add(index as u8) % 3, byte) {
            (0, b' ') => out.push(b'+'),
            (1, _) => out.extend(format!("%{byte:02x}").bytes()),
            (_, byte) if byte.is_ascii_alphanumeric() => out.push(byte),
            _ => out.extend(format!("%{byte:02X}").bytes()),
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn case_400_accepted_means_equal_or_equal_without_one_loopback_port(
        registered in redirect_like(),
        requested in redirect_like(),
    ) {
        prop_assert_eq!(matches(&registered, &requested), may_match(&registered, &requested));
    }

    #[test]
    fn case_400_one_changed_byte_matches_only_inside_the_port(
        registered in redirect_like(),
        at in any::<prop::sample::Index>(),
        byte in 0_u8..128,
    ) {
        let mut changed = registered.clone().into_bytes();
        let at = at.index(changed.len());
        changed[at] = byte;
        let changed = String::from_utf8(changed).expect("ASCII stays ASCII");
        prop_assert_eq!(matches(&registered, &changed), may_match(&registered, &changed));
    }

    #[test]
    fn case_401_no_byte_string_breaks_a_promise(
        data in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        raw_query(&data);
        redirect_match(&data);
    }

    #[test]
    fn case_402_decoding_the_returned_state_gives_the_sent_one(
        state in "\\PC{0,40}|[\\x00-\\x7f]{0,40}",
        style in any::<u8>(),
    ) {
        let raw = spelt(state.as_bytes(), style);
        let query = good_with_state(&raw);
        raw_query(&query);
        match authorize(&query, &sample_client()) {
            Outcome::Pending(pending) => {
                let kept = pending.state.expect("a state was sent");
                prop_assert_eq!(kept.as_bytes(), raw.as_slice(), "legal spellings stay as sent");
                let text = format!("s={kept}");
                let params = Params::parse(&text);
                prop_assert_eq!(params.sent("s").first().expect("sent").text(), Ok(state.into()));
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn case_402_raw_bytes_of_any_kind_survive_the_echo(
        raw in prop::collection::vec(
            any::<u8>().prop_filter("ends a value", |byte| *byte != b'&'),
            0..80,
        ),
    ) {
        let once = echo(&raw).into_owned();
        let (sent, returned) = ([b"s=", raw.as_slice()].concat(), format!("s={once}"));
        let (sent, returned) = (Params::parse(&sent), Params::parse(&returned));
        let decoded = |params: &Params<'_>| {
            params.sent("s").first().map(|value| value.decoded().into_owned())
        };
        prop_assert_eq!(decoded(&sent), decoded(&returned));
        raw_query(&good_with_state(&raw));
    }

    #[test]
    fn cases_403_404_order_and_unknown_parameters_change_nothing(
        (sent, shuffled) in pairs().prop_flat_map(|sent| {
            let mut more = sent.clone();
            more.extend([("utm_source", "x"), ("resource", "r"), ("resource", "s"), ("%ff", "%")]
                .map(|(name, value)| (name.to_owned(), value.to_owned())));
            (Just(sent), Just(more).prop_shuffle())
        }),
    ) {
        let client = sample_client();
        prop_assert_eq!(
            authorize(&query(&sent), &client),
            authorize(&query(&shuffled), &client)
        );
        raw_query(&query(&shuffled));
    }

    #[test]
    fn case_408_stored_scopes_are_requested_and_registered(sent in pairs()) {
        let client = sample_client();
        if let Outcome::Pending(pending) = authorize(&query(&sent), &client) {
            let requested = sent.iter().find(|(name, _)| name == "scope");
            prop_assert!(pending.scopes.is_subset_of(client.scopes));
            let asked_for =
                |text: &str| pending.scopes.iter().all(|scope| text.contains(scope.as_str()));
            prop_assert!(requested.is_none_or(|(_, text)| asked_for(text)));
        }
    }
}

/// A small generator of its own keeps the driver reproducible on every toolchain.
struct Xorshift(u64);

impl Xorshift {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    /// Copies a seed with a few bytes changed, added or removed.
    fn mutated(&mut self, seed: &[u8]) -> Vec<u8> {
        const TELLING: &[u8] = b"&=%+:/?#@\\[]0189. \n\0\xff\xc3";
        let mut data = seed.to_vec();
        for _ in 0..self.below(5) {
            let at = self.below(data.len() + 1);
            let byte = TELLING[self.below(TELLING.len())];
            match self.below(3) {
                0 => data.insert(at, byte),
                1 if at < data.len() => data[at] = byte,
                _ if at < data.len() => drop(data.remove(at)),
                _ => {}
            }
        }
        data
    }
}

#[test]
fn the_fuzz_entry_points_hold_on_mutated_seeds() {
    let mut random = Xorshift(0x9e37_79b9_7f4a_7c15);
    let query = good_with_state(b"a+b%2f%zz");
    let pairs: [&[u8]; 3] = [
        b"http://127.0.0.1:80/cb\nhttp://127.0.0.1:8080/cb",
        b"http://[::1]\nhttp://[::1]:65535",
        b"https://app.example/cb?x=1\nhttps://app.example/cb?x=1",
    ];
    for round in 0..20_000 {
        raw_query(&random.mutated(&query));
        redirect_match(&random.mutated(pairs[round % pairs.len()]));
    }
}
