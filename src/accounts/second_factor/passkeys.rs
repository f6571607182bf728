//! Passkeys of a user: added and removed on the page of the second factor, shown at the log-in.

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use uuid::Uuid;

use super::super::member::{Look, Member};
use super::super::{Accounts, password};
use super::page::{Draft, page, wrong};
use super::webauthn::{self, Assertion, Introduction, Refused, Site};
use super::{fresh_codes, in_force};
use crate::app::App;
use crate::audit;
use crate::auth;
use crate::config::PublicUrl;
use crate::db::{Batch, DbError, Sql, Stmt, from_row, statements};
use crate::error::Error;
use crate::id::{Id, UserId};
use crate::secret;
use crate::web::{Field, Form, PageResult, Stamp};

const ADD: &str = "add a passkey";

/// How many a user may have.
const MOST: i64 = 20;

const LONGEST_NAME: usize = 100;

statements! {
    functions {
        fn insert(user_id: UserId, id: Uuid, new: &webauthn::Introduced, name: &str, now: i64)
            with [user_id, id, new.id.as_slice(), new.key.as_slice(), new.counter, name, now, MOST] expects 1
            = Sql::both(
            "INSERT INTO passkeys (user_id, id, credential_id, public_key, counter, name, created_at)
             SELECT $1, $2, $3, $4, CAST($5 AS BIGINT), $6, CAST($7 AS BIGINT)
             WHERE (SELECT COUNT(*) FROM passkeys WHERE user_id = $1) < $8
             ON CONFLICT DO NOTHING");
        /// Of two who show the same answer one finds the counter as it was.
        fn count_use(user_id: UserId, id: Uuid, before: i64, counter: i64, now: i64) expects 1 = Sql::both(
            "UPDATE passkeys SET counter = $4, used_at = $5 WHERE user_id = $1 AND id = $2 AND counter = $3");
        fn delete_one(user_id: UserId, id: Uuid) expects 1 = Sql::both(
            "DELETE FROM passkeys WHERE user_id = $1 AND id = $2");
        pub(super) fn delete_all(user_id: UserId) = Sql::both("DELETE FROM passkeys WHERE user_id = $1");
    }
    reads {
        pub(super) fn of_user(user_id: UserId) -> Vec<Passkey> = Sql::both(
            "SELECT id, credential_id, public_key, counter, name, created_at, used_at
             FROM passkeys WHERE user_id = $1 ORDER BY id");
    }
}

pub(in super::super) struct Passkey {
    id: Uuid,
    credential_id: Vec<u8>,
    public_key: Vec<u8>,
    counter: i64,
    name: String,
    created_at: i64,
    used_at: Option<i64>,
}

from_row!(Passkey { id, credential_id, public_key, counter, name, created_at, used_at });

/// The site whose passkeys these are; `None` where browsers make none: they want a host with a name, over https.
fn site(dashboard: &PublicUrl) -> Option<Site<'_>> {
    let (host, origin) = (dashboard.host(), dashboard.origin());
    let is_local = host == "localhost" || host.ends_with(".localhost");
    let is_named = host.bytes().any(|byte| byte.is_ascii_alphabetic()) && !host.starts_with('[');
    // Browsers leave out the port that the scheme has anyway.
    let usual = if dashboard.is_https() { ":443" } else { ":80" };
    let origin = origin.strip_suffix(usual).unwrap_or(origin);
    (is_named && (is_local || dashboard.is_https())).then_some(Site { host, origin })
}

/// What a browser is asked, as a form carries it to the script.
pub(in super::super) struct Asked {
    pub question: String,
    pub host: String,
    /// The passkeys that are meant, or that are there already.
    pub ids: String,
}

impl Asked {
    fn new(app: &App, token: &str, passkeys: &[Passkey]) -> Option<Asked> {
        let Site { host, .. } = site(&app.addresses.dashboard)?;
        let ids: Vec<String> = passkeys.iter().map(|one| URL_SAFE_NO_PAD.encode(&one.credential_id)).collect();
        Some(Asked { question: webauthn::question(token), host: host.to_owned(), ids: ids.join(" ") })
    }

    /// Asks for one of these, if there are any.
    pub(super) fn for_one_of(app: &App, token: &str, passkeys: &[Passkey]) -> Option<Asked> {
        Asked::new(app, token, passkeys).filter(|_| !passkeys.is_empty())
    }
}

/// What the page shows of passkeys.
pub(super) struct Section {
    pub rows: Vec<PasskeyRow>,
    pub add: Option<AddForm>,
    /// Why none can be added.
    pub why_not: &'static str,
    pub action: String,
    pub remove: String,
}

pub(super) struct PasskeyRow {
    pub name: String,
    pub added: Stamp,
    pub used: Option<Stamp>,
    pub hidden: Vec<(String, String)>,
}

pub(super) struct AddForm {
    pub asked: Asked,
    /// What the authenticator calls the user.
    pub user: String,
    pub hidden: Vec<(String, String)>,
}

pub(super) fn section(member: &Member<Look>, passkeys: &[Passkey]) -> Section {
    let (now, user_id) = (member.app.clock.now(), member.session.user_id);
    let row = |one: &Passkey| {
        let mut hidden = member.hidden(&removal(one.id));
        hidden.push(("id".into(), one.id.to_string()));
        let used = one.used_at.map(|at| Stamp::ago(at, now));
        PasskeyRow { name: one.name.clone(), added: Stamp::ago(one.created_at, now), used, hidden }
    };
    let nonce = secret::token();
    let add = Asked::new(&member.app, &introduction_token(member, &nonce), passkeys).map(|asked| {
        let mut hidden = member.hidden(ADD);
        hidden.push(("nonce".into(), nonce));
        AddForm { asked, user: URL_SAFE_NO_PAD.encode(user_id.uuid().as_bytes()), hidden }
    });
    let is_full = passkeys.len() as i64 >= MOST;
    Section {
        rows: passkeys.iter().map(row).collect(),
        why_not: if is_full {
            "You have as many passkeys as there may be. Remove one first."
        } else {
            "Browsers make passkeys for a dashboard with a name and over https only; this one has neither, or one of \
             both. Its address is set by --dashboard-url."
        },
        add: add.filter(|_| !is_full),
        action: member.address("/account/second-factor/passkeys"),
        remove: member.address("/account/second-factor/passkeys/remove"),
    }
}

/// What makes a question that only this session can have been asked.
fn introduction_token(member: &Member<Look>, nonce: &str) -> String {
    format!("{} {nonce}", member.session.form_token(ADD))
}

fn removal(id: Uuid) -> String {
    format!("remove passkey {id}")
}

pub(super) fn router() -> Router<Accounts> {
    Router::new()
        .route("/account/second-factor/passkeys", post(add))
        .route("/account/second-factor/passkeys/remove", post(remove))
}

/// Whoever finds a browser open must not be able to add a way in: the password is asked for, too.
async fn add(State(app): State<Accounts>, member: Member<Look>, form: Form) -> PageResult {
    let user_id = member.session.user_id;
    member.check_form(ADD, &form)?;
    let name = form.text("name").trim().to_owned();
    let mut draft = Draft { passkey_name: Field::of(name.clone()), ..Draft::default() };
    if name.is_empty() || name.chars().count() > LONGEST_NAME || name.contains('\0') {
        draft.passkey_name.error = Some(format!("Give it a name of at most {LONGEST_NAME} characters."));
        return wrong(&app, &member, draft).await;
    }
    if password::prove(&app, user_id, form.text("passkey-password")).await?.is_none() {
        draft.passkey_password.error = Some("This is not your password.".into());
        return wrong(&app, &member, draft).await;
    }
    let (client_data, data, key) = (form.text("client_data"), form.text("authenticator_data"), form.text("public_key"));
    let said = Introduction { client_data: &client_data, authenticator_data: &data, public_key: &key };
    let question = webauthn::question(&introduction_token(&member, &form.text("nonce")));
    let site = site(&app.addresses.dashboard).ok_or_else(|| Error::Conflict { message: NOWHERE.into() })?;
    let new = match webauthn::introduced(&site, &question, &said) {
        Ok(new) => new,
        Err(refused) => {
            draft.passkey_name.error = Some(format!("The passkey was not added: {refused}. Try again."));
            return wrong(&app, &member, draft).await;
        }
    };
    let id = app.clock.ordered_id();
    let entry = member.entry("passkey.added", Some(id), &name);
    let mut batch = Batch::from(insert(user_id, id, &new, &name, app.clock.now()))
        .and(audit::note_of_user(user_id, &app.clock, &entry));
    let mut fresh = Vec::new();
    if in_force(&app.db, user_id).await?.is_none() {
        // Browsers that were let in by the password alone show the passkey, too.
        batch.push(auth::delete_other_sessions(user_id, &member.session.hash));
        fresh = fresh_codes(user_id, &mut batch);
    }
    match member.commit_own(ADD, &form, batch).await? {
        Ok(_) => page(&app, &member, StatusCode::OK, Draft::default(), fresh).await,
        Err(DbError::Unexpected { .. }) => {
            draft.passkey_name.error =
                Some("The passkey was not added: it is here already, or there are too many.".into());
            wrong(&app, &member, draft).await
        }
        Err(error) => Err(error.into()),
    }
}

const NOWHERE: &str = "Passkeys cannot be used at this address of the dashboard.";

async fn remove(State(app): State<Accounts>, member: Member<Look>, form: Form) -> PageResult {
    let user_id = member.session.user_id;
    let gone = || Error::not_found("There is no such passkey among yours.");
    let id: Uuid = form.text("id").parse().map_err(|_| gone())?;
    member.check_form(&removal(id), &form)?;
    if password::prove(&app, user_id, form.text("password")).await?.is_none() {
        let mut draft = Draft::default();
        draft.removal.error = Some("This is not your password. Nothing was removed.".into());
        return wrong(&app, &member, draft).await;
    }
    let entry = member.entry("passkey.removed", Some(id), "");
    let batch = Batch::from(delete_one(user_id, id))
        .and(super::delete_idle_codes(user_id))
        .and(audit::note_of_user(user_id, &app.clock, &entry));
    match member.commit_own(&removal(id), &form, batch).await? {
        Ok(_) => Ok(member.see_other("/account/second-factor")),
        Err(DbError::Unexpected { .. }) => Err(gone().into()),
        Err(error) => Err(error.into()),
    }
}

/// What uses an answer that one of these passkeys gave at the log-in, if it is right.
pub(super) fn accept(
    app: &Accounts,
    user_id: UserId,
    passkeys: &[Passkey],
    token: &str,
    form: &Form,
) -> Result<Stmt, Refused> {
    let site = site(&app.addresses.dashboard).ok_or(Refused::OtherSite)?;
    let credential = URL_SAFE_NO_PAD.decode(form.text("credential")).map_err(|_| Refused::Unreadable)?;
    let used = passkeys.iter().find(|one| one.credential_id == credential).ok_or(Refused::Signature)?;
    let (client_data, data, signature) =
        (form.text("client_data"), form.text("authenticator_data"), form.text("signature"));
    let said = Assertion { client_data: &client_data, authenticator_data: &data, signature: &signature };
    let known = (used.public_key.as_slice(), used.counter);
    let counter = webauthn::asserted(&site, &webauthn::question(token), &said, known)?;
    Ok(count_use(user_id, used.id, used.counter, counter, app.clock.now()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passkeys_belong_to_a_host_with_a_name_over_https() {
        for (dashboard, wanted) in [
            ("https://mail.example.com/dashboard", Some(("mail.example.com", "https://mail.example.com"))),
            ("https://mail.example.com:443", Some(("mail.example.com", "https://mail.example.com"))),
            ("https://mail.example.com:8443", Some(("mail.example.com", "https://mail.example.com:8443"))),
            ("http://localhost:3000", Some(("localhost", "http://localhost:3000"))),
            ("http://mail.example.com", None),
            ("https://127.0.0.1", None),
            ("https://[::1]:3000", None),
        ] {
            let url: PublicUrl = dashboard.parse().expect("an address");
            assert_eq!(site(&url).map(|site| (site.host, site.origin)), wanted, "{dashboard}");
        }
    }
}
