//! OAuth through the crate `oauth2`, from the first click to the revocation.
//! Started by ../run, which sets RESEND_BASE_URL and who the PERSON is.

use std::env;
use std::process::Command;

use oauth2::basic::{BasicClient, BasicErrorResponseType, BasicTokenResponse};
use oauth2::http::Response;
use oauth2::url::Url;
use oauth2::{
    AuthType, AuthUrl, AuthorizationCode, ClientId, ClientSecret, CsrfToken, EndpointNotSet, EndpointSet, HttpRequest,
    HttpResponse, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RequestTokenError, RevocationUrl, Scope,
    StandardRevocableToken, TokenResponse, TokenUrl,
};

const REDIRECT: &str = "http://[::1]:49152/oauth/callback";

type Client = BasicClient<EndpointSet, EndpointNotSet, EndpointNotSet, EndpointSet, EndpointSet>;

fn main() {
    for method in ["none", "client_secret_basic", "client_secret_post"] {
        all_the_way(&register(method));
        println!("ok - a client that authenticates by {method} goes all the way");
    }
    let client = register("none");
    a_denial_comes_back(&client);
    println!("ok - a denial comes back");
    a_code_without_its_verifier_is_worth_nothing(&client);
    println!("ok - a code without its verifier is worth nothing");
}

fn all_the_way(client: &Client) {
    let (callback, verifier) = authorize(client, &[]);
    let tokens = redeem(client, &callback, verifier).expect("the code is redeemed");
    assert_eq!(tokens.expires_in().map(|time| time.as_secs()), Some(900));
    assert_eq!(tokens.scopes(), Some(&vec![Scope::new("full_access".into())]));
    assert_eq!(events(&tokens), 200);

    let before = tokens.refresh_token().expect("a refresh token");
    let tokens = client.exchange_refresh_token(before).request(&send).expect("the token is refreshed");
    let after = tokens.refresh_token().expect("a refresh token");
    assert_ne!(before.secret(), after.secret());
    assert_eq!(events(&tokens), 200);

    let revocable = StandardRevocableToken::RefreshToken(after.clone());
    client.revoke_token(revocable).expect("an address to revoke at").request(&send).expect("the grant is revoked");
    assert_eq!(events(&tokens), 401);
    let refused = client.exchange_refresh_token(after).request(&send).expect_err("the family is dead");
    assert_eq!(code_of(refused), BasicErrorResponseType::InvalidGrant);
}

fn a_denial_comes_back(client: &Client) {
    let (callback, _) = authorize(client, &["--deny"]);
    assert_eq!(parameter(&callback, "error"), "access_denied");
}

fn a_code_without_its_verifier_is_worth_nothing(client: &Client) {
    let (callback, _) = authorize(client, &[]);
    let (_, stranger) = PkceCodeChallenge::new_random_sha256();
    let refused = redeem(client, &callback, stranger).expect_err("the verifier is another's");
    assert_eq!(code_of(refused), BasicErrorResponseType::InvalidGrant);
}

fn base() -> String {
    env::var("RESEND_BASE_URL").expect("RESEND_BASE_URL is set")
}

/// A new client that authenticates in this way.
fn register(method: &str) -> Client {
    let metadata = serde_json::json!({
        "client_name": "The oauth2 crate",
        "redirect_uris": ["http://[::1]/oauth/callback"],
        "token_endpoint_auth_method": method,
    });
    let answer = minreq::post(format!("{}/oauth/register", base()))
        .with_header("content-type", "application/json")
        .with_body(metadata.to_string())
        .send()
        .expect("an answer");
    assert_eq!(answer.status_code, 201);
    let client: serde_json::Value = serde_json::from_slice(answer.as_bytes()).expect("JSON");
    let text = |name: &str| client[name].as_str().map(str::to_owned);

    let at = |path: &str| format!("{}{path}", base());
    let built = BasicClient::new(ClientId::new(text("client_id").expect("an id")))
        .set_auth_uri(AuthUrl::new(at("/oauth/authorize")).expect("a URL"))
        .set_token_uri(TokenUrl::new(at("/oauth/token")).expect("a URL"))
        // The crate revokes over https only; `send` puts the scheme right again.
        .set_revocation_url(RevocationUrl::new(at("/oauth/revoke").replacen("http:", "https:", 1)).expect("a URL"))
        .set_redirect_uri(RedirectUrl::new(REDIRECT.into()).expect("a URL"));
    let auth = if method == "client_secret_basic" { AuthType::BasicAuth } else { AuthType::RequestBody };
    match text("client_secret") {
        Some(secret) => built.set_auth_type(auth).set_client_secret(ClientSecret::new(secret)),
        None => built.set_auth_type(auth),
    }
}

/// Sends the person to the server; returns where the browser came back to.
fn authorize(client: &Client, options: &[&str]) -> (Url, PkceCodeVerifier) {
    let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
    let (url, state) = client
        .authorize_url(CsrfToken::new_random)
        .add_scope(Scope::new("full_access".into()))
        .set_pkce_challenge(challenge)
        .url();
    let person = env::var("PERSON").expect("PERSON is set");
    let run = Command::new(person).args(options).arg(url.as_str()).output().expect("the person runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let location = String::from_utf8(run.stdout).expect("text");
    assert!(location.starts_with(REDIRECT), "{location}");
    let callback = Url::parse(location.trim()).expect("a URL");
    assert_eq!(&parameter(&callback, "state"), state.secret());
    (callback, verifier)
}

fn parameter(callback: &Url, name: &str) -> String {
    let found = callback.query_pairs().find(|(key, _)| key == name);
    found.unwrap_or_else(|| panic!("{name} in {callback}")).1.into_owned()
}

type TokenError = oauth2::basic::BasicRequestTokenError<minreq::Error>;

fn redeem(client: &Client, callback: &Url, verifier: PkceCodeVerifier) -> Result<BasicTokenResponse, TokenError> {
    let code = AuthorizationCode::new(parameter(callback, "code"));
    client.exchange_code(code).set_pkce_verifier(verifier).request(&send)
}

fn code_of(error: TokenError) -> BasicErrorResponseType {
    match error {
        RequestTokenError::ServerResponse(answer) => answer.error().clone(),
        other => panic!("not an OAuth error: {other}"),
    }
}

/// The status of the list of events, asked for with the access token.
fn events(tokens: &BasicTokenResponse) -> i32 {
    let bearer = format!("Bearer {}", tokens.access_token().secret());
    let request = minreq::get(format!("{}/events", base())).with_header("authorization", bearer);
    request.send().expect("an answer").status_code
}

/// The HTTP client that the crate is given.
fn send(request: HttpRequest) -> Result<HttpResponse, minreq::Error> {
    let (parts, body) = request.into_parts();
    let url = parts.uri.to_string().replacen("https:", "http:", 1);
    let mut sent = minreq::Request::new(minreq::Method::Custom(parts.method.to_string()), url).with_body(body);
    for (name, value) in &parts.headers {
        sent = sent.with_header(name.as_str(), value.to_str().unwrap_or_default());
    }
    let answer = sent.send()?;
    let mut response = Response::builder().status(answer.status_code as u16);
    for (name, value) in &answer.headers {
        response = response.header(name, value);
    }
    Ok(response.body(answer.into_bytes()).expect("a response"))
}
