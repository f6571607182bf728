//! The rules of the authorization endpoint, in two stages.
//!
//! Stage one proves who asks and where answers go; it fails with a refusal that is answered
//! directly. Only its result, a [`Callback`], can write a redirect, so no request can be redirected
//! to a place that was not proved (spec 7.1).

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::credentials::ScopeSet;
use crate::oauth::clients::{Client, Grant};
use crate::oauth::redirect_uri;
use crate::oauth::refusal::{ErrorCode, Refusal};
use crate::web::{Flaw, Params, echo};

const MAX_STATE_CHARS: usize = 1024;
const CHALLENGE_CHARS: usize = 43;

/// Everything but RFC 3986's unreserved characters is encoded, so a space is `%20`.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// What a request says about itself, nothing of it proved. The verdict on `redirect_uri` is kept
/// back until the client is known, because an unknown client is reported first (decisions §3).
#[derive(Clone, Debug)]
pub struct Claim {
    client_id: String,
    redirect_uri: Result<String, Refusal>,
    state: Option<String>,
}

impl Claim {
    pub fn read(params: &Params<'_>) -> Result<Claim, Refusal> {
        let client_id = required(params, "client_id")?;
        // RFC 6749 appendix A.1. It also keeps U+0000 away from stores that cannot hold it.
        if !client_id.bytes().all(|byte| matches!(byte, 0x20..=0x7e)) {
            return Err(Refusal::invalid_request("client_id holds characters that no client_id has"));
        }
        Ok(Claim {
            client_id: client_id.into_owned(),
            redirect_uri: required(params, "redirect_uri").map(Cow::into_owned),
            state: params.sent("state").first().map(|state| state.echo().into_owned()),
        })
    }

    /// The client to look up before the claim can be proved.
    pub fn client_id(&self) -> &str {
        &self.client_id
    }
}

/// A proved way back to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callback {
    client_id: String,
    redirect_uri: String,
    state: Option<String>,
    issuer: Option<String>,
}

impl Callback {
    pub fn prove(claim: Claim, client: &Client) -> Result<Callback, Refusal> {
        if client.id != claim.client_id || client.disabled_at.is_some() {
            return Err(Refusal::unknown_client());
        }
        Callback::to(client, claim.redirect_uri?, claim.state)
    }

    /// The way back of a stored request. The client is the one in force now: one that was disabled
    /// or that lost the redirect meanwhile gets no redirect.
    pub fn restore(pending: &PendingRequest, client: &Client) -> Result<Callback, Refusal> {
        if client.id != pending.client_id || client.disabled_at.is_some() {
            return Err(Refusal::unknown_client());
        }
        let state = pending.state.as_ref().map(|state| echo(state.as_bytes()).into_owned());
        Callback::to(client, pending.redirect_uri.clone(), state)
    }

    /// The check of single bytes repeats what registration promises: whatever is on the list, no
    /// line break reaches a header and no fragment swallows the answer.
    fn to(client: &Client, redirect_uri: String, state: Option<String>) -> Result<Callback, Refusal> {
        let is_plain = redirect_uri.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if !is_plain || !client.may_redirect_to(&redirect_uri) {
            return Err(Refusal::invalid_request(
                "redirect_uri is not registered for this client; it must match a registered one \
                 exactly, only the port of a loopback host may differ",
            ));
        }
        Ok(Callback { client_id: client.id.clone(), redirect_uri, state, issuer: None })
    }

    /// Adds RFC 9207's `iss` to every answer when the setting gives an issuer.
    pub fn naming_issuer(mut self, issuer: Option<&str>) -> Callback {
        self.issuer = issuer.map(encoded);
        self
    }

    /// The `Location` that carries an authorization code.
    pub fn code(&self, code: &str) -> String {
        self.location(&[("code", &encoded(code))])
    }

    /// The `Location` that carries a refusal.
    pub fn error(&self, refusal: &Refusal) -> String {
        self.location(&[("error", refusal.error().as_str()), ("error_description", &encoded(refusal.description()))])
    }

    fn location(&self, answer: &[(&str, &str)]) -> String {
        let mut pairs = answer.to_vec();
        pairs.extend(self.state.as_deref().map(|state| ("state", state)));
        pairs.extend(self.issuer.as_deref().map(|issuer| ("iss", issuer)));
        redirect_uri::append(&self.redirect_uri, &pairs)
    }

    /// Stage two, in the order of decisions §3. A refusal goes back through [`Callback::error`].
    pub fn check(&self, params: &Params<'_>, client: &Client) -> Result<PendingRequest, Refusal> {
        refuse_repeated(params)?;
        check_state(params)?;
        check_exactly(params, "response_type", "code")?;
        check_exactly(params, "code_challenge_method", "S256")?;
        let code_challenge = code_challenge(params)?;
        check_grant(client)?;
        Ok(PendingRequest {
            scopes: requested_scopes(params, client)?,
            client_id: self.client_id.clone(),
            redirect_uri: self.redirect_uri.clone(),
            state: self.state.clone(),
            code_challenge,
        })
    }
}

/// An authorization request that passed every check and waits for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingRequest {
    pub client_id: String,
    /// As requested, port included: the code is bound to this string.
    pub redirect_uri: String,
    pub scopes: ScopeSet,
    /// In the encoding in which it goes back; ASCII, never decoded.
    pub state: Option<String>,
    pub code_challenge: String,
}

impl PendingRequest {
    /// What may have changed since the request was stored and is told to the client: its grant
    /// and its scopes.
    pub fn recheck(&self, client: &Client) -> Result<(), Refusal> {
        check_grant(client)?;
        check_registered(self.scopes, client)
    }

    /// The scopes the user left ticked. `None`, nothing left, means Deny.
    pub fn narrowed(&self, chosen: ScopeSet) -> Option<ScopeSet> {
        let scopes = self.scopes.intersection(chosen);
        (!scopes.is_empty()).then_some(scopes)
    }
}

fn required<'a>(params: &Params<'a>, name: &'static str) -> Result<Cow<'a, str>, Refusal> {
    params.text(name).map_err(|flaw| Refusal::invalid_request(format!("{name} {flaw}")))
}

fn refuse_repeated(params: &Params<'_>) -> Result<(), Refusal> {
    let once = ["response_type", "scope", "state", "code_challenge", "code_challenge_method"];
    match once.into_iter().find(|name| params.sent(name).is_repeated()) {
        Some(name) => Err(Refusal::invalid_request(format!("{name} {}", Flaw::Repeated))),
        None => Ok(()),
    }
}

fn check_state(params: &Params<'_>) -> Result<(), Refusal> {
    match params.sent("state").first() {
        Some(state) if state.is_longer_than(MAX_STATE_CHARS) => {
            Err(Refusal::invalid_request("state is too long; at most 1024 characters are allowed"))
        }
        _ => Ok(()),
    }
}

fn check_exactly(params: &Params<'_>, name: &'static str, only: &'static str) -> Result<(), Refusal> {
    match params.text(name) {
        Ok(value) if value == only => Ok(()),
        Err(Flaw::Missing) => Err(Refusal::invalid_request(format!("{name} is missing; it must be {only}"))),
        _ => Err(Refusal::invalid_request(format!("{name} must be {only}"))),
    }
}

fn code_challenge(params: &Params<'_>) -> Result<String, Refusal> {
    let challenge = required(params, "code_challenge")?;
    let is_base64url = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if challenge.len() != CHALLENGE_CHARS || !challenge.bytes().all(is_base64url) {
        return Err(Refusal::invalid_request(
            "code_challenge must be the base64url encoding of a SHA-256 hash: 43 characters \
             without padding",
        ));
    }
    Ok(challenge.into_owned())
}

fn check_grant(client: &Client) -> Result<(), Refusal> {
    if client.grants.contains(Grant::AuthorizationCode) {
        return Ok(());
    }
    Err(Refusal::new(ErrorCode::UnauthorizedClient, "The client is not registered for the authorization_code grant"))
}

fn requested_scopes(params: &Params<'_>, client: &Client) -> Result<ScopeSet, Refusal> {
    let scopes = match params.sent("scope").first() {
        None => client.scopes,
        Some(value) => value
            .text()
            .ok()
            .and_then(|text| ScopeSet::parse(&text).ok())
            .ok_or_else(|| invalid_scope(crate::credentials::UnsupportedScope.to_string()))?,
    };
    if scopes.is_empty() {
        return Err(invalid_scope("No scope was requested"));
    }
    check_registered(scopes, client)?;
    Ok(scopes)
}

fn check_registered(scopes: ScopeSet, client: &Client) -> Result<(), Refusal> {
    if scopes.is_subset_of(client.scopes) {
        Ok(())
    } else {
        Err(invalid_scope("A requested scope is not registered for this client"))
    }
}

fn invalid_scope(description: impl Into<Cow<'static, str>>) -> Refusal {
    Refusal::new(ErrorCode::InvalidScope, description)
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}
