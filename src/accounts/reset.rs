//! A forgotten password: a link by mail leads to a new one. Whoever asks hears the same whether there is an account.

use std::net::IpAddr;

use askama::Template;
use axum::Router;
use axum::extract::{Extension, Path, RawQuery, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use http::StatusCode;

use super::store::set_password;
use super::{Accounts, EmailAddress, Password};
use crate::audit::{self, DoneBy, Entry};
use crate::auth::Asker;
use crate::clock::MINUTE;
use crate::db::{Batch, DbError, Sql, from_row, statements};
use crate::error::Error;
use crate::id::{Id, UserId};
use crate::limits::counted;
use crate::secret;
use crate::web::{self, Field, Form, Layout, PageResult, Sender};

/// How long a link can be used.
const LIFETIME: i64 = 30 * MINUTE;

/// Why somebody who asks too often has to wait, in seconds.
const PAUSE: u64 = 600;

statements! {
    functions {
        fn insert_link(hash: &[u8; 32], user_id: UserId, expires_at: i64) = Sql::both(
            "INSERT INTO reset_links (hash, user_id, expires_at) VALUES ($1, $2, $3)");
        /// Uses up a link.
        fn use_link(hash: &[u8; 32], now: i64) expects 1 = Sql::both(
            "DELETE FROM reset_links WHERE hash = $1 AND expires_at > $2");
        pub(super) fn delete_links_of(user_id: UserId) = Sql::both("DELETE FROM reset_links WHERE user_id = $1");
        pub(super) fn delete_expired(now: i64) = Sql::both("DELETE FROM reset_links WHERE expires_at < $1");
    }
    reads {
        /// Whom a link is for, who may log in.
        fn find_link(hash: &[u8; 32], now: i64) -> Option<Owner> = Sql::both(
            "SELECT u.id, u.email, u.email_key FROM reset_links l JOIN users u ON u.id = l.user_id
             WHERE l.hash = $1 AND l.expires_at > $2 AND u.disabled_at IS NULL");
        fn find_owner(email_key: &str) -> Option<Owner> = Sql::both(
            "SELECT id, email, email_key FROM users WHERE email_key = $1 AND disabled_at IS NULL");
    }
}

struct Owner {
    id: UserId,
    email: String,
    email_key: String,
}

from_row!(Owner { id, email, email_key });

pub fn router() -> Router<Accounts> {
    Router::new().route("/forgot", get(show).post(ask)).route("/reset/{token}", get(open).post(reset))
}

#[derive(Template)]
#[template(path = "accounts/forgot.html")]
struct ForgotPage {
    layout: Layout,
    action: String,
    /// Where mail leaves this machine: else the link would reach nobody.
    sends_mail: bool,
    is_done: bool,
    email: Field,
}

#[derive(Template)]
#[template(path = "accounts/reset.html")]
struct ResetPage {
    layout: Layout,
    action: String,
    email: String,
    password: Field,
    password_again: Field,
}

fn forgot_page(app: &Accounts, status: StatusCode, is_done: bool, email: Field) -> Response {
    let content = ForgotPage {
        layout: Layout::dashboard(app),
        action: format!("{}/forgot", app.addresses.dashboard.path()),
        sends_mail: app.sends_mail(),
        is_done,
        email,
    };
    web::page(status, &content)
}

async fn show(State(app): State<Accounts>, RawQuery(query): RawQuery) -> Response {
    forgot_page(&app, StatusCode::OK, query.as_deref() == Some("sent"), Field::default())
}

async fn ask(State(app): State<Accounts>, Extension(Sender(sender)): Extension<Sender>, form: Form) -> PageResult {
    let typed = form.text("email").trim().to_owned();
    let Ok(email) = typed.parse::<EmailAddress>() else {
        let error = Some("This is not a whole e-mail address, such as name@example.com.".into());
        return Ok(forgot_page(&app, StatusCode::UNPROCESSABLE_ENTITY, false, Field { value: typed, error }));
    };
    let resets = &app.attempts.resets;
    let from = counted(sender, !app.config.limit_loopback).map(|from| format!("from {from}"));
    if from.is_some_and(|from| !resets.has_room(&from)) {
        return Err(Error::RateLimited { retry_after: PAUSE }.into());
    }
    let done = Redirect::to(&format!("{}/forgot?sent", app.addresses.dashboard.path())).into_response();
    // Strangers may ask for anybody's; whose mailbox it is hears of a few of them.
    if !resets.has_room(&format!("to {}", email.key())) {
        return Ok(done);
    }
    // Answered before anything is looked up: the time tells nobody whether an account exists.
    tokio::spawn(async move {
        if let Err(error) = send_link(&app, &email).await {
            tracing::warn!(%error, "a link to a new password could not be sent");
        }
    });
    Ok(done)
}

async fn send_link(app: &Accounts, email: &EmailAddress) -> Result<(), DbError> {
    let Some(owner) = find_owner(&app.db, &email.key()).await? else { return Ok(()) };
    let Ok(address) = owner.email.parse::<EmailAddress>() else { return Ok(()) };
    let token = secret::token();
    let link = app.link(&format!("/reset/{token}"));
    let text = format!(
        "Somebody, probably you, asked for a new password for {email} at Posthorn.\n\nOpen this link to choose one. It \
         works once, for 30 minutes, and signs out every browser:\n\n{link}\n\nIf it was not you, ignore this mail: \
         your password stays as it is.\n",
        email = owner.email,
    );
    let mut batch: Batch = insert_link(&secret::hash(&token), owner.id, app.clock.now() + LIFETIME).into();
    batch.append(app.letters.write(&address, "A new password for Posthorn", &text));
    app.db.commit(batch).await?;
    app.wake_mail();
    Ok(())
}

fn over() -> Error {
    Error::not_found("This link was used already, or its 30 minutes are over. Ask for a new one at the log-in.")
}

async fn find(app: &Accounts, token: &str) -> Result<Owner, Error> {
    find_link(&app.db, &secret::hash(token), app.clock.now()).await?.ok_or_else(over)
}

async fn open(State(app): State<Accounts>, Path(token): Path<String>) -> PageResult {
    let owner = find(&app, &token).await?;
    Ok(reset_page(&app, StatusCode::OK, &token, owner, [None, None]))
}

fn reset_page(
    app: &Accounts,
    status: StatusCode,
    token: &str,
    owner: Owner,
    [password, password_again]: [Option<String>; 2],
) -> Response {
    let field = |error| Field { value: String::new(), error };
    let content = ResetPage {
        layout: Layout::dashboard(app),
        action: format!("{}/reset/{token}", app.addresses.dashboard.path()),
        email: owner.email,
        password: field(password),
        password_again: field(password_again),
    };
    web::page(status, &content)
}

async fn reset(
    State(app): State<Accounts>,
    Extension(Sender(sender)): Extension<Sender>,
    Path(token): Path<String>,
    form: Form,
) -> PageResult {
    let owner = find(&app, &token).await?;
    let typed: Result<Password, _> = form.text("password").parse();
    let faults = match &typed {
        Err(error) => Some([Some(format!("This does not do: {error}.")), None]),
        Ok(_) if form.text("password") != form.text("password_again") => {
            Some([None, Some("The two passwords differ.".into())])
        }
        Ok(_) => None,
    };
    let password = match (typed, faults) {
        (Ok(password), None) => password,
        (_, faults) => {
            let faults = faults.unwrap_or_default();
            return Ok(reset_page(&app, StatusCode::UNPROCESSABLE_ENTITY, &token, owner, faults));
        }
    };
    let hash = app.hasher.hash(Asker::Known(token.clone()), password.as_str().to_owned()).await?;
    match app.db.commit(set(&app, &owner, &token, &hash, sender)).await {
        Ok(_) => Ok(Redirect::to(&format!("{}/login?reset", app.addresses.dashboard.path())).into_response()),
        Err(DbError::Unexpected { .. }) => Err(over().into()),
        Err(error) => Err(error.into()),
    }
}

/// The new password. Every session and every other link ends; who has a second factor still needs it.
fn set(app: &Accounts, owner: &Owner, token: &str, hash: &str, sender: IpAddr) -> Batch {
    let actor = DoneBy::LinkHolder(owner.id);
    let entry =
        Entry { target_id: Some(owner.id.uuid()), address: Some(sender), ..Entry::new("password.reset", actor) };
    let mut batch = Batch::from(use_link(&secret::hash(token), app.clock.now()));
    batch.append(set_password(&owner.email_key, hash));
    batch.and(audit::note_of_user(owner.id, &app.clock, &entry))
}
