//! Dynamic client registration (RFC 7591): metadata in, a client out.

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::client::{AuthMethod, Client, Grant, GrantSet};
use crate::credentials::ScopeSet;
use crate::oauth::redirect_uri::RedirectUri;
use crate::oauth::refusal::{ErrorCode, Refusal};

const MAX_REDIRECT_URIS: usize = 10;
const MAX_NAME_CHARS: usize = 200;
const MAX_URL_CHARS: usize = 2048;

/// Who registers: only an administrator may leave out the `authorization_code` grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Open,
    Administrator,
}

/// Metadata that was checked, with every default filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    pub name: String,
    pub redirect_uris: Vec<String>,
    pub scopes: ScopeSet,
    pub grants: GrantSet,
    pub auth_method: AuthMethod,
    pub client_uri: Option<String>,
    pub logo_uri: Option<String>,
}

impl Registration {
    pub fn parse(metadata: &Value, origin: Origin) -> Result<Registration, Refusal> {
        let fields = metadata
            .as_object()
            .map(Metadata)
            .ok_or_else(|| invalid("the body must be a JSON object of client metadata"))?;
        let redirect_uris = redirect_uris(&fields)?;
        let name = name(&fields)?;
        let grants = grants(&fields, origin)?;
        check_response_types(&fields)?;
        // Neither page is shown, yet a client that asks for a `javascript:` one is refused.
        url(&fields, "policy_uri")?;
        url(&fields, "tos_uri")?;
        Ok(Registration {
            name,
            redirect_uris,
            scopes: scopes(&fields)?,
            grants,
            auth_method: auth_method(&fields)?,
            client_uri: url(&fields, "client_uri")?,
            logo_uri: url(&fields, "logo_uri")?,
        })
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
            disabled: false,
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

struct Metadata<'a>(&'a Map<String, Value>);

impl<'a> Metadata<'a> {
    /// An explicit `null` is an absent field.
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn string(&self, name: &str) -> Result<Option<&'a str>, Refusal> {
        self.get(name)
            .map(|value| value.as_str().ok_or_else(|| invalid(format!("{name} must be a string"))))
            .transpose()
    }

    fn strings(&self, name: &str) -> Result<Option<Vec<&'a str>>, Refusal> {
        self.get(name)
            .map(|value| strings(value).ok_or_else(|| invalid(format!("{name} must be an array of strings"))))
            .transpose()
    }

    /// Says that a required field is missing, and whether another looks like a misspelling of it.
    /// The other is not quoted: it is the sender's text.
    fn missing(&self, required: &str, allowed: &str) -> String {
        let wanted = folded(required);
        let similar = |name: &String| {
            let name = folded(name);
            wanted.ends_with(&name) && name.len() >= 4 || strsim::levenshtein(&wanted, &name) <= 2
        };
        let hint = if self.0.keys().any(|name| name != required && similar(name)) {
            "; a field with a similar name was sent, check its spelling"
        } else {
            ""
        };
        format!("{required} is missing: {allowed}{hint}")
    }
}

/// `clientName`, `client-name` and `ClientName` are one spelling. Cut off, so that a hostile name
/// cannot make the comparison slow.
fn folded(name: &str) -> String {
    name.chars().filter(|character| character.is_alphanumeric()).take(32).flat_map(char::to_lowercase).collect()
}

fn invalid(description: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::InvalidClientMetadata, description.into())
}

fn strings(value: &Value) -> Option<Vec<&str>> {
    value.as_array()?.iter().map(Value::as_str).collect()
}

fn redirect_uris(fields: &Metadata<'_>) -> Result<Vec<String>, Refusal> {
    let refuse = |text: String| Refusal::new(ErrorCode::InvalidRedirectUri, text);
    let allowed = "give an array of 1 to 10 redirect URIs";
    let sent = fields.get("redirect_uris").ok_or_else(|| refuse(fields.missing("redirect_uris", allowed)))?;
    let sent = strings(sent).ok_or_else(|| refuse("redirect_uris must be an array of strings".to_owned()))?;
    if sent.is_empty() || sent.len() > MAX_REDIRECT_URIS {
        return Err(refuse(format!("redirect_uris has {} entries: {allowed}", sent.len())));
    }
    let mut kept: Vec<String> = Vec::with_capacity(sent.len());
    for (index, text) in sent.into_iter().enumerate() {
        let uri = RedirectUri::parse(text)
            .map_err(|reason| refuse(format!("redirect_uris[{index}] {reason}")))?
            .into_string();
        if !kept.contains(&uri) {
            kept.push(uri);
        }
    }
    Ok(kept)
}

fn name(fields: &Metadata<'_>) -> Result<String, Refusal> {
    let allowed = "give the name that users will see, 1 to 200 characters";
    let name = fields.string("client_name")?.ok_or_else(|| invalid(fields.missing("client_name", allowed)))?;
    if name.chars().any(char::is_control) {
        return Err(invalid("client_name must not hold control characters"));
    }
    if name.chars().count() > MAX_NAME_CHARS {
        return Err(invalid("client_name is too long; at most 200 characters are allowed"));
    }
    if name.chars().all(is_invisible) {
        return Err(invalid("client_name shows no visible character; give 1 to 200 characters"));
    }
    Ok(name.to_owned())
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

fn grants(fields: &Metadata<'_>, origin: Origin) -> Result<GrantSet, Refusal> {
    let Some(names) = fields.strings("grant_types")? else {
        return Ok(GrantSet::all());
    };
    let grants = names
        .into_iter()
        .map(Grant::parse)
        .collect::<Option<GrantSet>>()
        .ok_or_else(|| invalid("grant_types may hold only authorization_code and refresh_token"))?;
    if origin == Origin::Open && !grants.contains(Grant::AuthorizationCode) {
        return Err(invalid("grant_types must hold authorization_code"));
    }
    Ok(grants)
}

fn check_response_types(fields: &Metadata<'_>) -> Result<(), Refusal> {
    match fields.strings("response_types")? {
        Some(types) if types.is_empty() || types.iter().any(|&name| name != "code") => {
            Err(invalid("response_types may hold only code"))
        }
        _ => Ok(()),
    }
}

fn scopes(fields: &Metadata<'_>) -> Result<ScopeSet, Refusal> {
    let text = fields.string("scope")?.unwrap_or_default();
    let scopes = ScopeSet::parse(text).map_err(|unsupported| invalid(unsupported.to_string()))?;
    Ok(if scopes.is_empty() { ScopeSet::all() } else { scopes })
}

fn auth_method(fields: &Metadata<'_>) -> Result<AuthMethod, Refusal> {
    match fields.string("token_endpoint_auth_method")? {
        None => Ok(AuthMethod::None),
        Some(name) => AuthMethod::parse(name).ok_or_else(|| {
            invalid(
                "token_endpoint_auth_method must be none, client_secret_basic or \
                 client_secret_post",
            )
        }),
    }
}

/// A page or picture of the client's own. Userinfo is refused because these links are shown, and
/// `https://vendor.example@evil.example` reads like the vendor's.
fn url(fields: &Metadata<'_>, name: &str) -> Result<Option<String>, Refusal> {
    let Some(text) = fields.string(name)? else {
        return Ok(None);
    };
    let behind = text.split_once("://").and_then(|(scheme, behind)| {
        let is_web = ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web));
        is_web.then_some(behind)
    });
    let authority = behind.and_then(|behind| behind.split(['/', '?', '#']).next());
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    match authority {
        Some(host)
            if is_plain
                && !host.is_empty()
                && !host.starts_with(':')
                && !host.contains('@')
                && text.len() <= MAX_URL_CHARS =>
        {
            Ok(Some(text.to_owned()))
        }
        _ => Err(invalid(format!(
            "{name} must be an absolute http or https URL in printable ASCII, without user name, \
             at most 2048 characters"
        ))),
    }
}
