//! Dynamic client registration (RFC 7591): metadata in, a client out.

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::client::{AuthMethod, Client, Grant, GrantSet};
use crate::credentials::ScopeSet;
use crate::oauth::redirect_uri::RedirectUri;
use crate::oauth::refusal::{ErrorCode, Refusal};
use crate::web::{self, Fault};

const MAX_REDIRECT_URIS: usize = 10;
const MAX_NAME_CHARS: usize = 200;
const MAX_URL_CHARS: usize = 2048;

/// Who registers: only an administrator may leave out the `authorization_code` grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Open,
    Administrator,
}

/// What a client says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[schema(as = ClientMetadata, example = json!({
    "client_name": "Acme Mailer",
    "redirect_uris": ["http://127.0.0.1/callback"],
    "scope": "emails:send",
}))]
pub struct Registration {
    /// Where a browser may be sent back to. Only the port of a loopback host may differ later.
    #[serde(deserialize_with = "redirect_uris")]
    #[schema(min_items = 1, max_items = 10)]
    pub redirect_uris: Vec<String>,
    /// What the consent page calls the client. No control characters, and something to see.
    #[serde(rename = "client_name", deserialize_with = "name")]
    #[schema(min_length = 1, max_length = 200)]
    pub name: String,
    /// `authorization_code`, with or without `refresh_token`. Left out: both.
    #[serde(rename = "grant_types", deserialize_with = "grants")]
    #[schema(value_type = Option<Vec<String>>)]
    pub grants: GrantSet,
    /// Only `code`.
    #[serde(rename = "response_types", deserialize_with = "response_types")]
    #[schema(value_type = Option<Vec<String>>)]
    _response_types: (),
    // Neither page is shown, yet a client that asks for a `javascript:` one is refused.
    #[serde(rename = "policy_uri", deserialize_with = "url")]
    #[schema(ignore)]
    _policy_uri: Option<String>,
    #[serde(rename = "tos_uri", deserialize_with = "url")]
    #[schema(ignore)]
    _tos_uri: Option<String>,
    /// Scopes that the client may ask for, separated by spaces. Left out: `full_access emails:send`.
    #[serde(rename = "scope", deserialize_with = "scopes")]
    #[schema(value_type = Option<String>)]
    pub scopes: ScopeSet,
    /// `none` for a public client, `client_secret_basic` or `client_secret_post` for one that keeps a secret. Left
    /// out: `none`.
    #[serde(rename = "token_endpoint_auth_method", deserialize_with = "auth_method")]
    #[schema(value_type = Option<String>)]
    pub auth_method: AuthMethod,
    /// Home page of the client, `http` or `https`.
    #[serde(deserialize_with = "url")]
    #[schema(max_length = 2048)]
    pub client_uri: Option<String>,
    /// Picture of the client, `http` or `https`.
    #[serde(deserialize_with = "url")]
    #[schema(max_length = 2048)]
    pub logo_uri: Option<String>,
}

impl Registration {
    /// Checks metadata, and fills in every default.
    pub fn parse(metadata: &Value, origin: Origin) -> Result<Registration, Refusal> {
        let registration: Registration = web::read_value(metadata.clone()).map_err(|fault| refusal(&fault))?;
        if origin == Origin::Open && !registration.grants.contains(Grant::AuthorizationCode) {
            return Err(Refusal::new(ErrorCode::InvalidClientMetadata, "grant_types must hold authorization_code"));
        }
        Ok(registration)
    }

    pub fn into_client(self, id: String, created_at: i64) -> Client {
        Client {
            id,
            name: self.name,
            redirect_uris: self.redirect_uris,
            scopes: self.scopes,
            grants: self.grants,
            auth_method: self.auth_method,
            client_uri: self.client_uri,
            logo_uri: self.logo_uri,
            verified_host: None,
            disabled_at: None,
            created_at,
        }
    }
}

/// What is in force.
#[derive(Serialize, ToSchema)]
#[schema(example = json!({
    "client_id": "0199c5d2-7e3a-7c41-9d52-3f6f1c0b8a71",
    "client_id_issued_at": 1_768_469_400,
    "client_name": "Acme Mailer",
    "redirect_uris": ["http://127.0.0.1/callback"],
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "scope": "emails:send",
    "token_endpoint_auth_method": "none",
}))]
pub struct RegisteredClient {
    #[schema(format = Uuid)]
    client_id: String,
    /// Seconds since 1970.
    client_id_issued_at: i64,
    /// Shown this once, and only to a client that authenticates with a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    client_secret: Option<String>,
    /// 0: it does not expire.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    client_secret_expires_at: Option<i64>,
    client_name: String,
    redirect_uris: Vec<String>,
    grant_types: Vec<&'static str>,
    response_types: Vec<&'static str>,
    scope: String,
    token_endpoint_auth_method: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    client_uri: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    logo_uri: Option<String>,
}

impl RegisteredClient {
    /// With the secret, for the only time.
    pub fn new(client: &Client, secret: Option<&str>) -> RegisteredClient {
        RegisteredClient {
            client_id: client.id.clone(),
            client_id_issued_at: client.created_at.div_euclid(1_000_000),
            client_secret: secret.map(str::to_owned),
            client_secret_expires_at: secret.map(|_| 0),
            client_name: client.name.clone(),
            redirect_uris: client.redirect_uris.clone(),
            grant_types: client.grants.iter().map(Grant::as_str).collect(),
            response_types: vec!["code"],
            scope: client.scopes.to_string(),
            token_endpoint_auth_method: client.auth_method.as_str(),
            client_uri: client.client_uri.clone(),
            logo_uri: client.logo_uri.clone(),
        }
    }
}

/// A refusal names the field and never quotes what was sent.
fn refusal(fault: &Fault) -> Refusal {
    if fault.path().is_empty() {
        return Refusal::new(ErrorCode::InvalidClientMetadata, "The body must be a JSON object of client metadata");
    }
    if fault.path().starts_with("redirect_uris") {
        return Refusal::new(ErrorCode::InvalidRedirectUri, fault.unquoted("give an array of 1 to 10 redirect URIs"));
    }
    let allowed = "give the name that users will see, 1 to 200 characters";
    Refusal::new(ErrorCode::InvalidClientMetadata, fault.unquoted(allowed))
}

fn redirect_uris<'de, D: Deserializer<'de>>(sent: D) -> Result<Vec<String>, D::Error> {
    let sent = Vec::<RedirectUri>::deserialize(sent)?;
    if sent.is_empty() || sent.len() > MAX_REDIRECT_URIS {
        let count = sent.len();
        return Err(D::Error::custom(format!("has {count} entries: give an array of 1 to 10 redirect URIs")));
    }
    let mut kept: Vec<String> = Vec::with_capacity(sent.len());
    for uri in sent.into_iter().map(RedirectUri::into_string) {
        if !kept.contains(&uri) {
            kept.push(uri);
        }
    }
    Ok(kept)
}

fn name<'de, D: Deserializer<'de>>(sent: D) -> Result<String, D::Error> {
    let name = String::deserialize(sent)?;
    if name.chars().any(char::is_control) {
        return Err(D::Error::custom("must not hold control characters"));
    }
    if name.chars().count() > MAX_NAME_CHARS {
        return Err(D::Error::custom("is too long; at most 200 characters are allowed"));
    }
    if name.chars().all(is_invisible) {
        return Err(D::Error::custom("shows no visible character; give 1 to 200 characters"));
    }
    Ok(name)
}

/// Characters that leave no mark on the consent page. A name made of nothing else would be a
/// blank where the user looks for who asks.
fn is_invisible(character: char) -> bool {
    character.is_whitespace()
        || matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

fn grants<'de, D: Deserializer<'de>>(sent: D) -> Result<GrantSet, D::Error> {
    let Some(names) = Option::<Vec<String>>::deserialize(sent)? else { return Ok(GrantSet::all()) };
    let grants = names.iter().map(|name| Grant::parse(name)).collect::<Option<GrantSet>>();
    grants.ok_or_else(|| D::Error::custom("may hold only authorization_code and refresh_token"))
}

fn response_types<'de, D: Deserializer<'de>>(sent: D) -> Result<(), D::Error> {
    match Option::<Vec<String>>::deserialize(sent)? {
        Some(types) if types.is_empty() || types.iter().any(|name| name != "code") => {
            Err(D::Error::custom("may hold only code"))
        }
        _ => Ok(()),
    }
}

fn scopes<'de, D: Deserializer<'de>>(sent: D) -> Result<ScopeSet, D::Error> {
    let text = Option::<String>::deserialize(sent)?.unwrap_or_default();
    let scopes = ScopeSet::parse(&text)
        .map_err(|_| D::Error::custom("holds an unsupported value; supported are full_access and emails:send"))?;
    Ok(if scopes.is_empty() { ScopeSet::all() } else { scopes })
}

fn auth_method<'de, D: Deserializer<'de>>(sent: D) -> Result<AuthMethod, D::Error> {
    let Some(name) = Option::<String>::deserialize(sent)? else { return Ok(AuthMethod::None) };
    let allowed = "must be none, client_secret_basic or client_secret_post";
    AuthMethod::parse(&name).ok_or_else(|| D::Error::custom(allowed))
}

/// A page or picture of the client's own. Userinfo is refused because these links are shown, and
/// `https://vendor.example@evil.example` reads like the vendor's.
fn url<'de, D: Deserializer<'de>>(sent: D) -> Result<Option<String>, D::Error> {
    let Some(text) = Option::<String>::deserialize(sent)? else { return Ok(None) };
    let behind = text.split_once("://").and_then(|(scheme, behind)| {
        let is_web = ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web));
        is_web.then_some(behind)
    });
    let authority = behind.and_then(|behind| behind.split(['/', '?', '#']).next());
    let is_host = |host: &str| !host.is_empty() && !host.starts_with(':') && !host.contains('@');
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if !authority.is_some_and(is_host) || !is_plain || text.len() > MAX_URL_CHARS {
        return Err(D::Error::custom(
            "must be an absolute http or https URL in printable ASCII, without user name, at most 2048 characters",
        ));
    }
    Ok(Some(text))
}
