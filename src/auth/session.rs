//! Sessions: a person who has logged in, in one browser.
//!
//! The cookie holds 256 random bits, the store their hash. Tokens in forms are
//! derived from the cookie, so they need no storage of their own and stay the
//! same however often a page is loaded.

use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{COOKIE, USER_AGENT};
use http::{HeaderMap, HeaderValue};

use super::store;
use crate::app::App;
use crate::clock::{HOUR, MINUTE};
use crate::db::{Db, DbError, Stmt};
use crate::error::Error;
use crate::id::UserId;
use crate::secret;

/// A session ends when it was not used for so long,
const IDLE: i64 = 7 * 24 * HOUR;
/// and in any case after so long.
const ABSOLUTE: i64 = 30 * 24 * HOUR;

/// What is kept of what a browser says of itself.
const LONGEST_AGENT: usize = 300;

/// Somebody who is logged in.
#[derive(Clone)]
pub struct Session {
    pub user_id: UserId,
    pub email: String,
    pub hash: [u8; 32],
    secret: String,
}

impl Session {
    /// What a form has to carry to be one that we gave to this session for this
    /// purpose.
    pub fn form_token(&self, purpose: &str) -> String {
        form_token(&self.secret, purpose)
    }

    /// Refuses a form that was not made for this session and purpose.
    pub fn check_form(&self, purpose: &str, given: &str) -> Result<(), Error> {
        check_form(&self.secret, purpose, given)
    }

    pub fn end(&self) -> Stmt {
        store::delete_session(&self.hash)
    }
}

pub fn form_token(secret: &str, purpose: &str) -> String {
    URL_SAFE_NO_PAD.encode(secret::hash(&format!("form {purpose} {secret}")))
}

pub fn check_form(secret: &str, purpose: &str, given: &str) -> Result<(), Error> {
    if secret::equal(form_token(secret, purpose).as_bytes(), given.as_bytes()) {
        return Ok(());
    }
    let message = "This form is out of date. Load the page again and repeat what you did.".into();
    Err(Error::Forbidden { message })
}

/// Where a session begins, for whoever looks at the list of theirs.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    pub address: Option<IpAddr>,
    /// What the browser says it is.
    pub agent: Option<String>,
}

impl Origin {
    pub fn of(address: IpAddr, headers: &HeaderMap) -> Origin {
        Origin { address: Some(address), ..Origin::of_browser(headers) }
    }

    pub fn of_browser(headers: &HeaderMap) -> Origin {
        let agent = headers.get(USER_AGENT).map(|agent| String::from_utf8_lossy(agent.as_bytes()).into_owned());
        let readable = |text: String| text.chars().filter(|char| !char.is_control()).take(LONGEST_AGENT).collect();
        Origin { address: None, agent: agent.map(readable) }
    }
}

/// A new session: the statement that stores it, and its cookie.
pub fn start(app: &App, user_id: UserId) -> (Stmt, HeaderValue) {
    start_from(app, user_id, Origin::default())
}

/// The same, of a browser that is known.
pub fn start_from(app: &App, user_id: UserId, Origin { address, agent }: Origin) -> (Stmt, HeaderValue) {
    let secret = secret::token();
    let address = address.map(|address| address.to_canonical().to_string());
    let stmt = store::insert_session(&secret::hash(&secret), user_id, app.clock.now(), address, agent);
    (stmt, cookie(app, SESSION, &secret, ABSOLUTE / 1_000_000))
}

pub const SESSION: &str = "posthorn";
/// Names a browser before anybody has logged in, for the log-in form's token.
pub const VISIT: &str = "posthorn-visit";

/// A cookie that scripts cannot read and other sites cannot send along with
/// their forms. Over https the browser also holds it to our host.
pub fn cookie(app: &App, name: &str, value: &str, max_age: i64) -> HeaderValue {
    let (prefix, secure) = if app.addresses.dashboard.is_https() { ("__Host-", "; Secure") } else { ("", "") };
    let text = format!("{prefix}{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={max_age}{secure}");
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static(""))
}

pub fn read_cookie<'a>(app: &App, headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let prefix = if app.addresses.dashboard.is_https() { "__Host-" } else { "" };
    let pairs = headers.get_all(COOKIE).iter().filter_map(|header| header.to_str().ok()).flat_map(|all| all.split(';'));
    let mut values = pairs.filter_map(|pair| {
        let (key, value) = pair.trim().split_once('=')?;
        (key.strip_prefix(prefix)? == name).then_some(value)
    });
    values.next().filter(|value| !value.is_empty())
}

/// The session that a request belongs to, if any.
pub async fn find(app: &App, headers: &HeaderMap) -> Result<Option<Session>, Error> {
    let Some(secret) = read_cookie(app, headers, SESSION) else { return Ok(None) };
    let hash = secret::hash(secret);
    let Some(stored) = store::find_session(&app.db, &hash).await? else { return Ok(None) };
    let now = app.clock.now();
    if now - stored.created_at > ABSOLUTE || now - stored.seen_at > IDLE {
        return Ok(None);
    }
    if now - stored.seen_at > MINUTE {
        // That it was seen is worth a write, but not worth an error.
        let _ = app.db.commit(store::see_session(&hash, now)).await;
    }
    Ok(Some(Session { user_id: stored.user_id, email: stored.email, hash, secret: secret.to_owned() }))
}

/// Whether a session, given by its hash, could still be used.
pub async fn is_alive(app: &App, hash: &[u8; 32]) -> Result<bool, Error> {
    let now = app.clock.now();
    let stored = store::find_session(&app.db, hash).await?;
    Ok(stored.is_some_and(|stored| now - stored.created_at <= ABSOLUTE && now - stored.seen_at <= IDLE))
}

pub async fn sweep(db: &Db, now: i64) -> Result<(), DbError> {
    db.commit(store::sweep_sessions(now - ABSOLUTE, now - IDLE)).await.map(drop)
}

/// Refuses a form that another site's page sends. Browsers say where a request
/// comes from; one that says nothing is left to the form's token.
pub fn refuse_foreign(app: &App, headers: &HeaderMap) -> Result<(), Error> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let foreign = match (text("sec-fetch-site"), text("origin")) {
        (Some(site), _) => site != "same-origin" && site != "none",
        // A page that sends no referrer has the origin `null`.
        (None, Some(origin)) => origin != "null" && origin != app.addresses.dashboard.origin(),
        (None, None) => false,
    };
    if foreign {
        let message = "This form was sent from another site. Open the page here and repeat what you did.".into();
        return Err(Error::Forbidden { message });
    }
    Ok(())
}
