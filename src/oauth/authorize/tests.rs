//! The authorization endpoint's rules, row by row.

use super::rules::{Callback, Claim, PendingRequest};
use crate::credentials::{Scope, ScopeSet};
use crate::oauth::clients::{Client, Grant, GrantSet};
use crate::oauth::fuzzing::{CLIENT_ID, Outcome, authorize, sample_client};
use crate::oauth::refusal::ErrorCode::{self, InvalidClient, InvalidRequest, InvalidScope, UnauthorizedClient};
use crate::oauth::refusal::Refusal;
use crate::web::Params;

const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
const REDIRECT: &str = "https://app.example/cb?tenant=7";

/// A good request as pairs, so that a test changes one thing.
fn good() -> Vec<(&'static str, String)> {
    vec![
        ("client_id", CLIENT_ID.to_owned()),
        ("redirect_uri", "https%3A%2F%2Fapp.example%2Fcb%3Ftenant%3D7".to_owned()),
        ("response_type", "code".to_owned()),
        ("code_challenge", CHALLENGE.to_owned()),
        ("code_challenge_method", "S256".to_owned()),
        ("scope", "emails:send".to_owned()),
        ("state", "a+b%2f%2F".to_owned()),
    ]
}

fn query(pairs: &[(&str, String)]) -> String {
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("&")
}

fn without(name: &str) -> String {
    let pairs: Vec<_> = good().into_iter().filter(|(sent, _)| *sent != name).collect();
    query(&pairs)
}

fn replaced(name: &str, value: &str) -> String {
    format!("{}&{name}={value}", without(name))
}

fn pending(query: &str, client: &Client) -> PendingRequest {
    match authorize(query.as_bytes(), client) {
        Outcome::Pending(pending) => pending,
        other => panic!("{query}: {other:?}"),
    }
}

fn returned(query: &str, client: &Client) -> (String, ErrorCode) {
    match authorize(query.as_bytes(), client) {
        Outcome::Returned { location, error } => (location, error),
        other => panic!("{query}: {other:?}"),
    }
}

fn refused(query: &str, client: &Client) -> ErrorCode {
    match authorize(query.as_bytes(), client) {
        Outcome::Refused(refusal) => refusal.error(),
        other => panic!("{query}: {other:?}"),
    }
}

fn callback(query: &str) -> Callback {
    let params = Params::parse(query);
    Claim::read(&params)
        .and_then(|claim| Callback::prove(claim, &sample_client()))
        .expect("client and redirect are good")
}

#[test]
fn spec_4_1_a_good_request_is_kept_as_sent() {
    let request = pending(&query(&good()), &sample_client());
    assert_eq!(
        request,
        PendingRequest {
            client_id: CLIENT_ID.to_owned(),
            redirect_uri: REDIRECT.to_owned(),
            scopes: ScopeSet::from(Scope::EmailsSend),
            state: Some("a+b%2f%2F".to_owned()),
            code_challenge: CHALLENGE.to_owned(),
        }
    );
}

#[test]
fn spec_7_1_rule_1_nothing_is_redirected_before_client_and_redirect_are_proved() {
    let client = sample_client();
    let twice = |name: &str| format!("{}&{name}=x", query(&good()));
    for (sent, error) in [
        (without("client_id"), InvalidRequest),
        (replaced("client_id", ""), InvalidRequest),
        (twice("client_id"), InvalidRequest),
        (twice("client%5Fid"), InvalidRequest),
        (replaced("client_id", "%ff"), InvalidRequest),
        (replaced("client_id", "a%00"), InvalidRequest),
        (replaced("client_id", "unknown"), InvalidClient),
        (replaced("client_id", &CLIENT_ID.to_uppercase().replace('0', "F")), InvalidClient),
        (without("redirect_uri"), InvalidRequest),
        (replaced("redirect_uri", ""), InvalidRequest),
        (twice("redirect_uri"), InvalidRequest),
        (replaced("redirect_uri", "%ff"), InvalidRequest),
        (replaced("redirect_uri", "https://app.example/cb"), InvalidRequest),
        (replaced("redirect_uri", "https://evil.test/cb"), InvalidRequest),
        (replaced("redirect_uri", "javascript:alert(1)"), InvalidRequest),
        (replaced("redirect_uri", "http://127.0.0.1:0/cb"), InvalidRequest),
        (String::new(), InvalidRequest),
    ] {
        assert_eq!(refused(&sent, &client), error, "{sent}");
    }
}

#[test]
fn decisions_3_an_unknown_client_is_reported_before_a_bad_redirect() {
    let sent = "client_id=unknown&redirect_uri=x&redirect_uri=y&scope=x";
    assert_eq!(refused(sent, &sample_client()), InvalidClient);
}

#[test]
fn a_disabled_client_is_an_unknown_one() {
    let client = Client { disabled_at: Some(1), ..sample_client() };
    assert_eq!(refused(&query(&good()), &client), InvalidClient);
}

#[test]
fn spec_7_1_rule_2_every_later_error_is_a_redirect_with_state() {
    let client = sample_client();
    let twice = |name: &str| format!("{}&{name}=x", query(&good()));
    let too_long = "a".repeat(44);
    for (sent, error) in [
        (without("response_type"), InvalidRequest),
        (replaced("response_type", ""), InvalidRequest),
        (replaced("response_type", "token"), InvalidRequest),
        (replaced("response_type", "Code"), InvalidRequest),
        (replaced("response_type", "code+id_token"), InvalidRequest),
        (replaced("response_type", "%ff"), InvalidRequest),
        (without("code_challenge_method"), InvalidRequest),
        (replaced("code_challenge_method", ""), InvalidRequest),
        (replaced("code_challenge_method", "plain"), InvalidRequest),
        (replaced("code_challenge_method", "s256"), InvalidRequest),
        (without("code_challenge"), InvalidRequest),
        (replaced("code_challenge", ""), InvalidRequest),
        (replaced("code_challenge", &too_long[..42]), InvalidRequest),
        (replaced("code_challenge", &too_long), InvalidRequest),
        (replaced("code_challenge", &format!("{}=", &too_long[..42])), InvalidRequest),
        (replaced("code_challenge", &format!("{}%2B", &too_long[..42])), InvalidRequest),
        (replaced("code_challenge", &format!("{}%C3%A9", &too_long[..41])), InvalidRequest),
        (replaced("scope", ""), InvalidScope),
        (replaced("scope", "+%20"), InvalidScope),
        (replaced("scope", "openid"), InvalidScope),
        (replaced("scope", "emails:send+openid"), InvalidScope),
        (replaced("scope", "emails:send%09"), InvalidScope),
        (replaced("scope", "%ff"), InvalidScope),
        (replaced("scope", "full_access"), InvalidScope),
        (replaced("scope", "emails:send+full_access"), InvalidScope),
        (twice("response_type"), InvalidRequest),
        (twice("scope"), InvalidRequest),
        (twice("state"), InvalidRequest),
        (twice("st%61te"), InvalidRequest),
        (twice("code_challenge"), InvalidRequest),
        (twice("code_challenge_method"), InvalidRequest),
    ] {
        let (location, actual) = returned(&sent, &client);
        assert_eq!(actual, error, "{sent}");
        let start = format!("{REDIRECT}&error={error}&error_description=");
        assert!(location.starts_with(&start), "{location}");
        assert!(location.ends_with("&state=a+b%2f%2F"), "{location}");
    }
}

#[test]
fn spec_7_1_unauthorized_client_without_the_authorization_code_grant() {
    let grants = GrantSet::from_iter([Grant::RefreshToken]);
    let client = Client { grants, ..sample_client() };
    assert_eq!(returned(&query(&good()), &client).1, UnauthorizedClient);
}

#[test]
fn spec_7_1_server_error_goes_through_the_callback() {
    let location = callback(&query(&good())).error(&Refusal::server_error());
    assert_eq!(
        location,
        "https://app.example/cb?tenant=7&error=server_error&error_description=The%20authorization\
         %20request%20could%20not%20be%20stored%3B%20try%20again&state=a+b%2f%2F"
    );
}

#[test]
fn spec_7_1_invalid_scope_when_the_registered_set_is_empty() {
    let client = Client { scopes: ScopeSet::EMPTY, ..sample_client() };
    assert_eq!(returned(&without("scope"), &client).1, InvalidScope);
    assert_eq!(returned(&query(&good()), &client).1, InvalidScope);
}

#[test]
fn spec_4_1_scope_omitted_is_the_registered_set() {
    let client = Client { scopes: ScopeSet::all(), ..sample_client() };
    assert_eq!(pending(&without("scope"), &client).scopes, ScopeSet::all());
}

#[test]
fn spec_4_1_resource_and_unknown_parameters_may_be_repeated() {
    let sent = format!("resource=a&resource=b&x&x=%ff&{}&resource=", query(&good()));
    let client = sample_client();
    assert_eq!(pending(&sent, &client), pending(&query(&good()), &client));
}

#[test]
fn spec_8_state_of_1024_characters_passes_and_one_more_is_returned_with_the_error() {
    let client = sample_client();
    for letter in ["a", "%61", "%C3%A9", "%F0%9F%93%AF", "%ff"] {
        let longest = letter.repeat(1024);
        let kept = pending(&replaced("state", &longest), &client).state;
        assert_eq!(kept.as_deref(), Some(longest.as_str()));
        let over = letter.repeat(1025);
        let (location, error) = returned(&replaced("state", &over), &client);
        assert_eq!(error, InvalidRequest);
        assert!(location.ends_with(&format!("&state={over}")));
    }
}

#[test]
fn spec_4_1_state_absent_and_empty_are_told_apart() {
    let client = sample_client();
    assert_eq!(pending(&without("state"), &client).state, None);
    assert!(!callback(&without("state")).code("c").contains("state"));
    for empty in [replaced("state", ""), format!("{}&state", without("state"))] {
        assert_eq!(pending(&empty, &client).state.as_deref(), Some(""));
        assert!(callback(&empty).code("c").ends_with("?tenant=7&code=c&state="));
    }
}

#[test]
fn decisions_3_a_repeated_state_gives_back_the_first() {
    let sent = format!("{}&state=first&state=second", without("state"));
    let (location, _) = returned(&sent, &sample_client());
    assert!(location.ends_with("&state=first"), "{location}");
}

/// Each request breaks the rule of its row and of every later row.
#[test]
fn decisions_3_checks_run_in_the_documented_order() {
    let client = Client { grants: GrantSet::default(), ..sample_client() };
    let base = format!("client_id={CLIENT_ID}&redirect_uri=http://127.0.0.1:5/cb");
    let long = "s".repeat(1025);
    for (rest, start) in [
        (format!("state={long}&scope=&scope="), "scope%20was%20sent%20more%20than%20once"),
        (format!("state={long}&scope="), "state%20is"),
        ("response_type=x&scope=".to_owned(), "response_type%20must"),
        ("response_type=code&code_challenge_method=x".to_owned(), "code_challenge_method%20must"),
        ("response_type=code&code_challenge_method=S256".to_owned(), "code_challenge%20is%20missing"),
        (
            format!("response_type=code&code_challenge_method=S256&code_challenge={CHALLENGE}&scope="),
            "The%20client%20is%20not%20registered",
        ),
    ] {
        let (location, _) = returned(&format!("{base}&{rest}"), &client);
        assert!(location.contains(&format!("error_description={start}")), "{location}");
    }
}

#[test]
fn spec_2_4_a_code_comes_with_the_original_state() {
    let callback = callback(&query(&good()));
    let location = callback.code("abc-_1");
    assert_eq!(location, "https://app.example/cb?tenant=7&code=abc-_1&state=a+b%2f%2F");
}

#[test]
fn case_203_iss_is_added_to_every_answer_only_when_configured() {
    let callback = callback(&query(&good())).naming_issuer(Some("https://mail.example"));
    for location in [callback.code("c"), callback.error(&Refusal::access_denied())] {
        assert!(location.ends_with("&state=a+b%2f%2F&iss=https%3A%2F%2Fmail.example"));
    }
    assert!(!callback.naming_issuer(None).code("c").contains("iss="));
}

#[test]
fn case_232_denial_names_error_description_and_state_in_that_order() {
    let location = callback(&query(&good())).error(&Refusal::access_denied());
    assert_eq!(
        location,
        "https://app.example/cb?tenant=7&error=access_denied\
         &error_description=The%20user%20denied%20the%20request&state=a+b%2f%2F"
    );
}

#[test]
fn a_stored_request_finds_its_way_back() {
    let client = sample_client();
    let sent = query(&good());
    let restored = Callback::restore(&pending(&sent, &client), &client);
    assert_eq!(restored, Ok(callback(&sent)));
}

#[test]
fn case_244_a_removed_redirect_or_client_gets_no_redirect_after_all() {
    let client = sample_client();
    let request = pending(&query(&good()), &client);
    for changed in [
        Client { redirect_uris: Vec::new(), ..client.clone() },
        Client { disabled_at: Some(1), ..client.clone() },
        Client { id: "another".to_owned(), ..client.clone() },
    ] {
        assert!(Callback::restore(&request, &changed).is_err());
    }
}

#[test]
fn case_245_a_grant_or_scope_removed_meanwhile_is_told_to_the_client() {
    let client = sample_client();
    let request = pending(&query(&good()), &client);
    assert_eq!(request.recheck(&client), Ok(()));
    let no_grant = Client { grants: GrantSet::default(), ..client.clone() };
    let no_scope = Client { scopes: ScopeSet::EMPTY, ..client };
    let error = |client| request.recheck(client).map_err(|refusal| refusal.error());
    assert_eq!(error(&no_grant), Err(UnauthorizedClient));
    assert_eq!(error(&no_scope), Err(InvalidScope));
}

#[test]
fn cases_242_and_243_the_user_may_narrow_but_not_widen() {
    let request = pending(&query(&good()), &sample_client());
    let send = ScopeSet::from(Scope::EmailsSend);
    assert_eq!(request.narrowed(ScopeSet::all()), Some(send));
    assert_eq!(request.narrowed(Scope::FullAccess.into()), None);
    assert_eq!(request.narrowed(ScopeSet::EMPTY), None);
}

#[test]
fn case_395_a_listed_redirect_that_breaks_headers_is_still_not_used() {
    let redirect_uris = vec!["https://app.example/\r\nX: y".to_owned(), "https://a/#f".to_owned()];
    let client = Client { redirect_uris, ..sample_client() };
    for sent in ["https://app.example/%0d%0aX:+y", "https://a/%23f"] {
        assert_eq!(refused(&replaced("redirect_uri", sent), &client), InvalidRequest);
    }
}
