//! Changing one's password. Every other session of the user ends with it; this
//! one goes on under a new cookie.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use http::header::SET_COOKIE;
use http::{HeaderMap, HeaderValue, StatusCode};

use super::Accounts;
use super::member::{Look, Member, signed_out};
use super::{Password, reset, store};
use crate::audit;
use crate::auth::{self, Asker, Origin};
use crate::db::DbError;
use crate::error::Error;
use crate::grants::{self, Reason};
use crate::id::{Id, UserId};
use crate::web::{self, Field, Form, Layout, PageResult, Shell};

const PURPOSE: &str = "password";

pub fn router() -> Router<Accounts> {
    Router::new().route("/password", get(show).post(submit))
}

#[derive(Template)]
#[template(path = "accounts/password.html")]
struct PasswordPage {
    layout: Layout,
    shell: Shell,
    action: String,
    hidden: Vec<(String, String)>,
    notice: Option<String>,
    current: Field,
    password: Field,
    password_again: Field,
    revoke_apps: bool,
}

/// What is wrong with what was typed.
#[derive(Default)]
struct Faults {
    current: Option<String>,
    password: Option<String>,
    password_again: Option<String>,
}

impl Faults {
    fn any(&self) -> bool {
        self.current.is_some() || self.password.is_some() || self.password_again.is_some()
    }
}

async fn show(member: Member<Look>) -> Response {
    page(&member, StatusCode::OK, Faults::default(), false)
}

async fn submit(State(app): State<Accounts>, member: Member<Look>, headers: HeaderMap, form: Form) -> PageResult {
    match change(&app, &member, &headers, &form).await? {
        Ok(cookie) => {
            let mut response = member.see_other("/password?changed");
            response.headers_mut().append(SET_COOKIE, cookie);
            Ok(response)
        }
        Err(faults) => {
            Ok(page(&member, StatusCode::UNPROCESSABLE_ENTITY, faults, !form.text("revoke_apps").is_empty()))
        }
    }
}

fn page(member: &Member<Look>, status: StatusCode, faults: Faults, revoke_apps: bool) -> Response {
    let field = |error| Field { value: String::new(), error };
    let sentence = "Your password is changed, and every other browser is signed out.";
    let content = PasswordPage {
        layout: member.layout(),
        shell: member.shell("/password"),
        action: member.address("/password"),
        hidden: vec![("token".into(), member.session.form_token(PURPOSE))],
        notice: member.notice("changed", sentence).filter(|_| status.is_success()),
        current: field(faults.current),
        password: field(faults.password),
        password_again: field(faults.password_again),
        revoke_apps,
    };
    web::page(status, &content)
}

/// The cookie of the session that goes on.
async fn change(
    app: &Accounts,
    member: &Member<Look>,
    headers: &HeaderMap,
    form: &Form,
) -> Result<Result<HeaderValue, Faults>, Error> {
    let session = &member.session;
    session.check_form(PURPOSE, &form.text("token"))?;
    let chosen = read(&form.text("current"), &form.text("password"), &form.text("password_again"));
    let kept = prove(app, session.user_id, form.text("current")).await?;
    let wrong = kept.is_none().then(|| "This is not your current password.".to_owned());
    let (password, kept) = match (chosen, kept) {
        (Ok(password), Some(kept)) => (password, kept),
        (Ok(_), None) => return Ok(Err(Faults { current: wrong, ..Faults::default() })),
        (Err(faults), _) => return Ok(Err(Faults { current: wrong, ..faults })),
    };

    let hash = app.hasher.hash(Asker::Known(name(session.user_id)), password.as_str().to_owned()).await?;
    let origin = Origin { address: member.sender(), ..Origin::of_browser(headers) };
    let (started, cookie) = auth::start_session_from(app, session.user_id, origin);
    let mut batch = store::change_password(session.user_id, &kept, &hash)
        .fence(auth::session_stands(&session.hash))
        .and(auth::delete_sessions_of(session.user_id))
        .and(reset::delete_links_of(session.user_id))
        .and(started)
        .and(audit::note_of_user(
            session.user_id,
            &app.clock,
            &member.entry("password.changed", Some(session.user_id.uuid()), ""),
        ));
    if !form.text("revoke_apps").is_empty() {
        batch.append(grants::revoke_of(session.user_id, None, Reason::Dashboard, &app.clock));
    }
    match app.db.commit(batch).await {
        Ok(_) => Ok(Ok(cookie)),
        Err(DbError::Unexpected { .. }) => {
            let current = Some("Your password was changed elsewhere, just now.".to_owned());
            Ok(Err(Faults { current, ..Faults::default() }))
        }
        // Whose session ends in this moment begins no new one.
        Err(DbError::Stale) => Err(signed_out()),
        Err(error) => Err(error.into()),
    }
}

/// The hash that is kept of a user's password, if this is the password. Whoever finds a browser
/// open must not be able to guess here; and whoever guesses at the log-in must not keep the user
/// from it.
pub(super) async fn prove(app: &Accounts, user_id: UserId, typed: String) -> Result<Option<String>, Error> {
    let user = name(user_id);
    let attempt = app.attempts.by_account.begin(&user, app.clock.steady()).await?;
    let kept = store::password_of(&app.db, user_id).await?.ok_or(Error::Internal)?;
    let right = app.hasher.verify(Asker::Known(user), typed, Some(kept.clone())).await?;
    if !right {
        attempt.failed();
    }
    Ok(right.then_some(kept))
}

/// Under what name a user's wrong passwords are counted.
fn name(user_id: UserId) -> String {
    format!("user {user_id}")
}

/// The new password, if it is one and was typed twice.
fn read(current: &str, typed: &str, again: &str) -> Result<Password, Faults> {
    let mut faults = Faults::default();
    let password: Result<Password, String> = typed.parse();
    match &password {
        Err(error) => faults.password = Some(format!("This does not do: {error}.")),
        Ok(_) if typed == current => faults.password = Some("This is the password that you have.".into()),
        Ok(_) if typed != again => faults.password_again = Some("The two passwords differ.".into()),
        Ok(_) => {}
    }
    if faults.any() { Err(faults) } else { password.map_err(|_| faults) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_password_is_long_enough_another_one_and_typed_twice() {
        assert!(read("old password", "new password", "new password").is_ok());
        let faults = |typed, again| read("old password", typed, again).err().expect("refused");
        assert!(faults("short", "short").password.is_some());
        assert!(faults("old password", "old password").password.is_some());
        assert!(faults("new password", "new passwort").password_again.is_some());
    }
}
