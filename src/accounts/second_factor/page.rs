//! The page on which somebody sets up a second factor, and the one that asks for it at the log-in.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::{get, post};
use http::StatusCode;
use qrcodegen::{QrCode, QrCodeEcc};

use super::super::member::{Look, Member};
use super::super::{Accounts, password};
use super::passkeys::{self, Asked};
use super::totp::Secret;
use super::{
    Factor, Factors, WRONG_CODE, begin_factor, codes_left, confirm_factor, delete_factor, delete_idle_codes,
    find_factor, fresh_codes, in_force, name,
};
use crate::audit;
use crate::auth;
use crate::db::{Batch, DbError};
use crate::error::Error;
use crate::id::Id;
use crate::web::{self, Field, Form, Layout, PageResult, Shell};

const BEGIN: &str = "begin a second factor";
const CONFIRM: &str = "confirm the second factor";
const REMOVE: &str = "remove the second factor";

pub fn router() -> Router<Accounts> {
    Router::new()
        .route("/account/second-factor", get(show).post(confirm))
        .route("/account/second-factor/begin", post(begin))
        .route("/account/second-factor/remove", post(remove))
        .merge(passkeys::router())
}

#[derive(Template)]
#[template(path = "accounts/second_factor.html")]
struct FactorPage {
    layout: Layout,
    shell: Shell,
    state: Stage,
    /// Recovery codes, shown this once; and how many are left of those that there are.
    fresh: Vec<String>,
    codes_left: usize,
    passkeys: passkeys::Section,
    code: Field,
    password: Field,
    passkey_name: Field,
    passkey_password: Field,
    removal: Field,
    action: String,
    hidden: Vec<(String, String)>,
}

/// What was typed, and what is wrong with it.
#[derive(Default)]
pub(super) struct Draft {
    pub code: Field,
    pub password: Field,
    /// Of a passkey that is added, and the password with which it is.
    pub passkey_name: Field,
    pub passkey_password: Field,
    /// The password with which a passkey is removed.
    pub removal: Field,
}

/// How far somebody is with an app that makes codes.
enum Stage {
    Off,
    Begun { secret: String, qr: Option<Qr> },
    On,
}

struct Qr {
    size: i32,
    path: String,
}

impl Qr {
    fn of(text: &str) -> Option<Qr> {
        let code = QrCode::encode_text(text, QrCodeEcc::Medium).ok()?;
        let size = code.size();
        let dark = (0..size).flat_map(|y| (0..size).map(move |x| (x, y))).filter(|(x, y)| code.get_module(*x, *y));
        let path = dark.map(|(x, y)| format!("M{} {}h1v1h-1z", x + 4, y + 4)).collect();
        Some(Qr { size: size + 8, path })
    }
}

async fn show(State(app): State<Accounts>, member: Member<Look>) -> PageResult {
    page(&app, &member, StatusCode::OK, Draft::default(), Vec::new()).await
}

pub(super) async fn page(
    app: &Accounts,
    member: &Member<Look>,
    status: StatusCode,
    draft: Draft,
    fresh: Vec<String>,
) -> PageResult {
    let user_id = member.session.user_id;
    let factor = find_factor(&app.db, user_id).await?;
    let (state, path, purpose) = match &factor {
        None => (Stage::Off, "/account/second-factor/begin", BEGIN),
        Some(Factor { confirmed_at: Some(_), .. }) => (Stage::On, "/account/second-factor/remove", REMOVE),
        Some(factor) => {
            let secret = factor.secret(&app.seal)?;
            let qr = Qr::of(&secret.address(&member.session.email, app.addresses.dashboard.authority()));
            (Stage::Begun { secret: secret.text(), qr }, "/account/second-factor", CONFIRM)
        }
    };
    let content = FactorPage {
        layout: member.layout(),
        shell: member.shell("/account"),
        state,
        fresh,
        codes_left: codes_left(&app.db, user_id).await?.len(),
        passkeys: passkeys::section(member, &passkeys::of_user(&app.db, user_id).await?),
        code: draft.code,
        password: draft.password,
        passkey_name: draft.passkey_name,
        passkey_password: draft.passkey_password,
        removal: draft.removal,
        action: member.address(path),
        hidden: member.hidden(purpose),
    };
    Ok(web::page(status, &content))
}

async fn begin(State(app): State<Accounts>, member: Member<Look>, form: Form) -> PageResult {
    let kept = app.seal.close_text(&Secret::new().text());
    match member.commit_own(BEGIN, &form, begin_factor(member.session.user_id, &kept).into()).await? {
        Ok(_) | Err(DbError::Unexpected { .. }) => Ok(member.see_other("/account/second-factor")),
        Err(error) => Err(error.into()),
    }
}

fn wrong_code() -> Field {
    Field { value: String::new(), error: Some(WRONG_CODE.into()) }
}

pub(super) async fn wrong(app: &Accounts, member: &Member<Look>, draft: Draft) -> PageResult {
    page(app, member, StatusCode::UNPROCESSABLE_ENTITY, draft, Vec::new()).await
}

/// Whoever finds a browser open must not be able to shut its owner out: the password is asked for, too.
async fn confirm(State(app): State<Accounts>, member: Member<Look>, form: Form) -> PageResult {
    let user_id = member.session.user_id;
    member.check_form(CONFIRM, &form)?;
    let factor = find_factor(&app.db, user_id).await?.ok_or_else(gone)?;
    let proved = password::prove(&app, user_id, form.text("password")).await?.is_some();
    let not_proved = (!proved).then(|| "This is not your password.".to_owned());
    let password = Field { value: String::new(), error: not_proved };
    let attempt = app.attempts.by_account.begin(&name(user_id), app.clock.steady()).await?;
    let typed = form.text("code");
    let Some(step) = factor.secret(&app.seal)?.step_of(&typed, app.clock.now(), factor.last_step) else {
        attempt.failed();
        return wrong(&app, &member, Draft { code: wrong_code(), password, ..Draft::default() }).await;
    };
    if !proved {
        let code = Field::of(typed);
        return wrong(&app, &member, Draft { code, password, ..Draft::default() }).await;
    }
    let entry = member.entry("second_factor.added", Some(user_id.uuid()), "");
    // Browsers that were let in by the password alone show the code, too.
    let mut batch = Batch::from(confirm_factor(user_id, app.clock.now(), step, &factor.secret))
        .and(auth::delete_other_sessions(user_id, &member.session.hash));
    let fresh = fresh_codes(user_id, &mut batch);
    batch.push(audit::note_of_user(user_id, &app.clock, &entry));
    match member.commit_own(CONFIRM, &form, batch).await? {
        Ok(_) => page(&app, &member, StatusCode::OK, Draft::default(), fresh).await,
        Err(DbError::Unexpected { .. }) => Ok(member.see_other("/account/second-factor")),
        Err(error) => Err(error.into()),
    }
}

fn gone() -> Error {
    Error::not_found("There is no second factor to confirm. Begin anew.")
}

async fn remove(State(app): State<Accounts>, member: Member<Look>, form: Form) -> PageResult {
    let user_id = member.session.user_id;
    let factors = in_force(&app.db, user_id).await?.filter(Factors::has_app).ok_or_else(gone)?;
    let attempt = app.attempts.by_account.begin(&name(user_id), app.clock.steady()).await?;
    let Some(used) = factors.accept_code(&app, &form.text("code")).await? else {
        attempt.failed();
        return wrong(&app, &member, Draft { code: wrong_code(), ..Draft::default() }).await;
    };
    let entry = member.entry("second_factor.removed", Some(user_id.uuid()), "");
    let batch = Batch::from(used)
        .and(delete_factor(user_id))
        .and(delete_idle_codes(user_id))
        .and(audit::note_of_user(user_id, &app.clock, &entry));
    match member.commit_own(REMOVE, &form, batch).await? {
        Ok(_) => Ok(member.see_other("/account?second-factor-removed")),
        Err(DbError::Unexpected { .. }) => wrong(&app, &member, Draft { code: wrong_code(), ..Draft::default() }).await,
        Err(error) => Err(error.into()),
    }
}

/// The page that asks for the code at the log-in.
#[derive(Template)]
#[template(path = "accounts/login_code.html")]
pub struct CodePage {
    pub layout: Layout,
    pub action: String,
    pub hidden: Vec<(String, String)>,
    pub code: Field,
    pub has_app: bool,
    pub passkey: Option<Asked>,
}

impl CodePage {
    pub fn respond(self, status: StatusCode) -> Response {
        web::page(status, &self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_qr_code_has_a_quiet_zone() {
        let qr = Qr::of("otpauth://totp/x").expect("a code");
        assert!(qr.size > 28 && qr.path.starts_with("M4 4h1v1h-1z"), "{}", qr.path);
    }
}
