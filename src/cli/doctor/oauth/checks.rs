//! The checks, in the order in which a client and its user go through them.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::visit::{Endpoints, Tokens, Visit};
use crate::cli::{
    doctor::browser::Browser, doctor::browser::Reading, doctor::browser::Sent, doctor::report::Expectation,
    doctor::report::Report,
};

/// Who is examined, and as whom.
pub struct Patient {
    /// Where the instance says it is reached.
    pub issuer: String,
    pub email: String,
    pub password: String,
    pub registration_token: Option<String>,
}

/// The client that exists in every store, for instances that register none.
const BUILT_IN: (&str, &str) = ("7136aa0b-625c-4c9c-8820-e9784c8eb141", "http://127.0.0.1:49152/oauth/callback");

/// How many refreshes race.
const RACERS: usize = 20;

macro_rules! expectations {
    ($($check:ident: $name:literal, $expected:literal else $next:literal;)+) => {
        $(const $check: Expectation = Expectation { name: $name, expected: $expected, next: $next };)+
    };
}

expectations! {
    METADATA: "discovery",
        "the metadata document names as issuer the address asked, and offers S256"
        else "run the doctor with --url set to the server's --base-url, or set --base-url to the address clients use";
    RESOURCE: "resource",
        "the protected-resource document points to this issuer"
        else "let the proxy pass everything below /.well-known/ on";
    REGISTRATION: "registration",
        "a throwaway client is registered, or registration is off and not offered"
        else "set --registration-token to the server's, or wait: an address may register 20 clients an hour";
    AUTHORIZE: "authorize",
        "302 to the consent page"
        else "look for the request in the server's log; its id is in the header x-request-id";
    LOGIN: "log-in",
        "e-mail and password lead back to the consent page"
        else "check --email and the password (`posthorn users passwd` sets a new one) and that --dashboard-url is reached";
    CONSENT: "consent",
        "Approve leads to the redirect URI with a code and the state that was sent"
        else "use an account that is owner or admin of a workspace";
    TOKEN: "token",
        "the code and its verifier buy an access token and a refresh token"
        else "look at the server's log for the request to /oauth/token";
    KEYS: "signing keys",
        "the key that signed the access token is published, without its private half"
        else "let the proxy pass /.well-known/jwks.json on, uncached";
    API: "API call",
        "GET /events answers 200 to the access token"
        else "check that the proxy hands the Authorization header on and that the clocks of all servers agree";
    RACE: "refresh race",
        "20 refreshes of one token at once all answer 200 with one and the same successor"
        else "check that all processes use the same store";
    NARROWING: "narrowing",
        "a refresh with scope=emails:send gives a token that may not read events"
        else "report this as a defect of Posthorn";
    REVOCATION: "revocation",
        "once its refresh token is given back, the access token answers 401 at once"
        else "check that all processes use the same store";
    REUSE: "refresh reuse",
        "an old refresh token is refused and takes its whole family with it"
        else "report this as a defect of Posthorn";
    REPLAY: "code replay",
        "a code that is used twice is refused and what came of it is revoked"
        else "report this as a defect of Posthorn";
    CLEAN_UP: "clean-up",
        "every grant of this visit is revoked and the session has ended"
        else "revoke what is left under Connected apps in the dashboard";
}

/// Makes all checks and leaves no access behind. Tells the client that it
/// registered, which cannot be undone over HTTP.
pub async fn examine(patient: &Patient, report: &mut Report) -> Option<String> {
    let browser = Browser::new();
    let endpoints = discovery(&browser, &patient.issuer, report).await?;
    let (client, registered) = match register(&browser, patient, &endpoints).await {
        Ok(Some(id)) => ((id.clone(), BUILT_IN.1.to_owned()), Some(id)),
        Ok(None) => ((BUILT_IN.0.to_owned(), BUILT_IN.1.to_owned()), None),
        Err(came) => return report.note(&REGISTRATION, Err(came)),
    };
    report.note(&REGISTRATION, Ok(()));
    let visit = Visit::new(browser, endpoints, &patient.issuer, client);
    walk(&visit, patient, report).await;
    report.note(&CLEAN_UP, visit.clean_up().await);
    registered
}

/// What anybody can ask.
pub async fn discovery(browser: &Browser, issuer: &str, report: &mut Report) -> Option<Endpoints> {
    let endpoints = report.note(&METADATA, discover(browser, issuer).await)?;
    report.note(&RESOURCE, check_resource(browser, issuer).await);
    Some(endpoints)
}

/// The part of the examination that leaves grants behind. `None`: a check
/// failed that the rest builds on.
async fn walk(visit: &Visit, patient: &Patient, report: &mut Report) -> Option<()> {
    let page = report.note(&AUTHORIZE, visit.authorize().await)?;
    report.note(&LOGIN, visit.log_in(&page.url, &patient.email, &patient.password).await)?;
    let code = report.note(&CONSENT, visit.approve(&page).await)?;
    let tokens = report.note(&TOKEN, visit.redeem(&code).await)?;
    report.note(&KEYS, check_keys(visit, &tokens).await);
    report.note(&API, visit.expect_call(&tokens.access, 200).await);
    let next = report.note(&RACE, race(visit, &tokens).await);
    if let Some(next) = next {
        report.note(&NARROWING, check_narrowing(visit, &next).await);
    }
    report.note(&REVOCATION, check_revocation(visit, &tokens).await);
    report.note(&REUSE, check_reuse(visit).await);
    report.note(&REPLAY, check_replay(visit).await);
    Some(())
}

/// Where a well-known document about an address stands: between its host and
/// its path.
fn well_known(issuer: &str, name: &str) -> String {
    let behind = issuer.find("://").map_or(0, |at| at + 3);
    let end = issuer[behind..].find('/').map_or(issuer.len(), |at| behind + at);
    format!("{}/.well-known/{name}{}", &issuer[..end], &issuer[end..])
}

async fn discover(browser: &Browser, issuer: &str) -> Result<Endpoints, String> {
    let answer = browser.get(&well_known(issuer, "oauth-authorization-server")).await?;
    let document = answer.json()?;
    if document["issuer"] != issuer {
        return Err(format!("the issuer {} for the address {issuer}", document["issuer"]));
    }
    if !document["code_challenge_methods_supported"].as_array().is_some_and(|all| all.contains(&json!("S256"))) {
        return Err("a document without S256 among code_challenge_methods_supported".into());
    }
    let endpoint = |name: &str| {
        let found = document[name].as_str().map(str::to_owned);
        found.ok_or_else(|| format!("a document without {name}"))
    };
    Ok(Endpoints {
        authorization: endpoint("authorization_endpoint")?,
        token: endpoint("token_endpoint")?,
        revocation: endpoint("revocation_endpoint")?,
        jwks: endpoint("jwks_uri")?,
        registration: endpoint("registration_endpoint").ok(),
    })
}

async fn check_resource(browser: &Browser, issuer: &str) -> Result<(), String> {
    let answer = browser.get(&well_known(issuer, "oauth-protected-resource")).await?;
    let document = answer.json()?;
    if document["resource"] == issuer && document["authorization_servers"] == json!([issuer]) {
        return Ok(());
    }
    Err(format!("resource {} with authorization_servers {}", document["resource"], document["authorization_servers"]))
}

/// The id of a new client; `None` where none can be registered.
async fn register(browser: &Browser, patient: &Patient, endpoints: &Endpoints) -> Result<Option<String>, String> {
    let Some(url) = &endpoints.registration else { return Ok(None) };
    let metadata = json!({
        "client_name": "posthorn oauth doctor",
        "redirect_uris": [BUILT_IN.1],
        "token_endpoint_auth_method": "none",
    });
    let bearer = patient.registration_token.as_deref();
    let answer = browser.send(url, Sent { json: Some(&metadata), bearer, ..Sent::default() }).await?;
    match answer.json()?["client_id"].as_str() {
        Some(id) if answer.status == 201 => Ok(Some(id.to_owned())),
        _ => Err(answer.in_short()),
    }
}

async fn check_keys(visit: &Visit, tokens: &Tokens) -> Result<(), String> {
    let header = tokens.access.split('.').next().unwrap_or_default();
    let header = URL_SAFE_NO_PAD.decode(header).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let key_id =
        header.as_ref().and_then(|header| header["kid"].as_str()).ok_or("a token that is no JWT with a kid")?;
    let document = visit.browser.get(&visit.endpoints.jwks).await?.json()?;
    let keys = document["keys"].as_array().ok_or("a document without keys")?;
    if keys.iter().any(|key| key.get("d").is_some()) {
        return Err("a private key, for everybody to read".into());
    }
    match keys.iter().any(|key| key["kid"] == key_id) {
        true => Ok(()),
        false => Err(format!("{} keys, and not {key_id} among them", keys.len())),
    }
}

/// Refreshes one token many times at once, and gives the one that followed.
async fn race(visit: &Visit, tokens: &Tokens) -> Result<Tokens, String> {
    let answers = join_all((0..RACERS).map(|_| visit.refresh(&tokens.refresh, None))).await;
    let mut successors: Vec<Tokens> = Vec::new();
    let mut refusals: Vec<String> = Vec::new();
    for answer in answers {
        match answer.and_then(|answer| visit.read_tokens(&answer)) {
            Ok(next) => successors.push(next),
            Err(came) => refusals.push(came),
        }
    }
    if let Some(first) = refusals.first() {
        return Err(format!("{} of {RACERS} refused, the first with {first}", refusals.len()));
    }
    let next = successors.pop().ok_or("no answer")?;
    match successors.iter().all(|other| other.refresh == next.refresh) {
        true => Ok(next),
        false => Err("several successors of one token".into()),
    }
}

async fn check_narrowing(visit: &Visit, tokens: &Tokens) -> Result<(), String> {
    let narrow = visit.read_tokens(&visit.refresh(&tokens.refresh, Some("emails:send")).await?)?;
    if narrow.scope != "emails:send" {
        return Err(format!("a token with the scope {}", narrow.scope));
    }
    visit.expect_call(&narrow.access, 403).await
}

async fn check_revocation(visit: &Visit, tokens: &Tokens) -> Result<(), String> {
    visit.revoke(&tokens.refresh).await?;
    visit.expect_call(&tokens.access, 401).await?;
    visit.expect_refused(&tokens.refresh).await
}

async fn check_reuse(visit: &Visit) -> Result<(), String> {
    let first = visit.connect().await?;
    let second = visit.read_tokens(&visit.refresh(&first.refresh, None).await?)?;
    let third = visit.read_tokens(&visit.refresh(&second.refresh, None).await?)?;
    visit.expect_refused(&first.refresh).await?;
    visit.expect_refused(&third.refresh).await.map_err(|came| format!("for the newest of the family: {came}"))?;
    visit.expect_call(&third.access, 401).await
}

async fn check_replay(visit: &Visit) -> Result<(), String> {
    let page = visit.authorize().await?;
    let code = visit.approve(&page).await?;
    let tokens = visit.redeem(&code).await?;
    match visit.redeem(&code).await {
        Ok(_) => return Err("tokens, twice".into()),
        Err(came) if came.contains("invalid_grant") => {}
        Err(came) => return Err(came),
    }
    visit.expect_call(&tokens.access, 401).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_8414_a_well_known_document_stands_before_the_path() {
        assert_eq!(well_known("https://a.example", "x"), "https://a.example/.well-known/x");
        assert_eq!(well_known("http://a:1/b/c", "x"), "http://a:1/.well-known/x/b/c");
    }
}
