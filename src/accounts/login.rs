//! Logging in and out.

use std::net::IpAddr;

use askama::Template;
use axum::Router;
use axum::extract::{Extension, OriginalUri, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use http::header::SET_COOKIE;
use http::{HeaderMap, HeaderValue, StatusCode};

use super::Accounts;
use super::device::Device;
use super::second_factor::{self, CodePage, Factors};
use super::store;
use crate::audit::{self, DoneBy, Entry};
use crate::auth::{self, Asker, Origin, SESSION, Session, VISIT};
use crate::db::{Batch, DbError, Stmt};
use crate::error::Error;
use crate::id::{AuthorizationRequestId, UserId};
use crate::limits::{Attempt, counted, neighbourhood};
use crate::secret;
use crate::web::{self, Field, Form, Layout, PageResult, Params, Sender, Sent};

/// An address that is longer is not gone back to.
const LONGEST_NEXT: usize = 2000;

pub fn router() -> Router<Accounts> {
    Router::new()
        .route("/login", get(show).post(submit))
        .route("/login/code", post(submit_code))
        .route("/logout", post(leave))
}

#[derive(Template)]
#[template(path = "accounts/login.html")]
struct LoginPage {
    layout: Layout,
    action: String,
    hidden: Vec<(String, String)>,
    /// Why the visitor was sent here, if not of their own will.
    reason: Option<String>,
    error: Option<String>,
    email: Field,
    password: Field,
}

/// Where to go after logging in.
#[derive(Clone, Default)]
struct Destination {
    /// An authorization request, which asks for an answer.
    request: Option<AuthorizationRequestId>,
    /// A page of the dashboard.
    next: Option<String>,
    /// The password was just set anew.
    is_reset: bool,
}

impl Destination {
    fn of(app: &Accounts, request: &str, next: &str) -> Destination {
        let next = is_page(app.addresses.dashboard.path(), next).then(|| next.to_owned());
        Destination { request: request.parse().ok(), next, is_reset: false }
    }

    fn address(&self, app: &Accounts) -> String {
        let dashboard = app.addresses.dashboard.path();
        match (&self.request, &self.next) {
            (Some(id), _) => format!("{dashboard}/oauth/authorize/{id}"),
            (None, Some(next)) => next.clone(),
            (None, None) => format!("{dashboard}/"),
        }
    }
}

/// Whether an address that came from outside is a path below the dashboard, and cannot be
/// understood as anything else.
fn is_page(dashboard: &str, address: &str) -> bool {
    let Some(rest) = address.strip_prefix(dashboard).and_then(|rest| rest.strip_prefix('/')) else { return false };
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~?&=%+,:@".contains(&byte);
    address.len() <= LONGEST_NEXT && !rest.starts_with('/') && !rest.contains("..") && rest.bytes().all(allowed)
}

async fn show(State(app): State<Accounts>, headers: HeaderMap, OriginalUri(uri): OriginalUri) -> PageResult {
    let params = Params::parse(uri.query().unwrap_or_default());
    let given = |name| params.text(name).unwrap_or_default();
    let is_reset = params.sent("reset") != Sent::Absent;
    let to = Destination { is_reset, ..Destination::of(&app, &given("request"), &given("next")) };
    Ok(match auth::find_session(&app, &headers).await? {
        Some(_) => Redirect::to(&to.address(&app)).into_response(),
        None => page(&app, &headers, StatusCode::OK, &to, "", None),
    })
}

fn page(
    app: &Accounts,
    headers: &HeaderMap,
    status: StatusCode,
    to: &Destination,
    email: &str,
    error: Option<String>,
) -> Response {
    // The form's token is tied to this browser, so that nobody can log others
    // into a foreign account from afar.
    let known = auth::read_cookie(app, headers, VISIT).map(str::to_owned);
    let visit = known.clone().unwrap_or_else(secret::token);
    let mut hidden = vec![("token".to_owned(), auth::form_token(&visit, "login"))];
    hidden.extend(to.request.map(|id| ("request".to_owned(), id.to_string())));
    hidden.extend(to.next.clone().map(|next| ("next".to_owned(), next)));
    let content = LoginPage {
        layout: Layout::dashboard(app),
        action: format!("{}/login", app.addresses.dashboard.path()),
        hidden,
        reason: match (to.request, to.is_reset) {
            (Some(_), _) => Some("Log in to answer the request of an app. Nothing is granted by it.".into()),
            (None, true) => Some("Your password is changed, and every browser is signed out. Log in with it.".into()),
            (None, false) => None,
        },
        error,
        email: Field::of(email.to_owned()),
        password: Field::default(),
    };
    let mut response = web::page(status, &content);
    if known.is_none() {
        response.headers_mut().append(SET_COOKIE, auth::cookie(app, VISIT, &visit, 86_400));
    }
    response
}

async fn submit(
    State(app): State<Accounts>,
    Extension(Sender(sender)): Extension<Sender>,
    headers: HeaderMap,
    form: Form,
) -> PageResult {
    let to = Destination::of(&app, &form.text("request"), &form.text("next"));
    let email = form.text("email");
    let again = |status, error: String| page(&app, &headers, status, &to, &email, Some(error));
    let visit = auth::read_cookie(&app, &headers, VISIT).unwrap_or_default();
    if auth::check_form(visit, "login", &form.text("token")).is_err() {
        let text = "The form had grown old, or the browser keeps no cookies. Try once more.";
        return Ok(again(StatusCode::FORBIDDEN, text.into()));
    }
    match log_in(&app, &headers, sender, &email, form.text("password")).await {
        Ok(Some(LoggedIn::Wholly(cookies))) => Ok(welcome(&app, &to, cookies)),
        Ok(Some(LoggedIn::Halfway(challenge, factors))) => {
            Ok(code_page(&app, &headers, &to, (&challenge, &factors), None))
        }
        Ok(None) => Ok(again(StatusCode::UNPROCESSABLE_ENTITY, "E-mail or password is not right.".into())),
        Err(error @ Error::RateLimited { .. }) => Ok(again(error.status(), error.message().into_owned())),
        Err(error) => Err(error.into()),
    }
}

/// How far somebody is who has shown the right password.
enum LoggedIn {
    /// With the cookies of a new session and of a browser that is known from now on.
    Wholly([HeaderValue; 2]),
    /// The second factor is to be shown as well; what the form carries that asks for it, and what there is to show.
    Halfway(String, Factors),
}

fn welcome(app: &Accounts, to: &Destination, cookies: [HeaderValue; 2]) -> Response {
    let mut response = Redirect::to(&to.address(app)).into_response();
    response.headers_mut().extend(cookies.map(|cookie| (SET_COOKIE, cookie)));
    response
}

/// Lets somebody in, if address and password belong together.
async fn log_in(
    app: &Accounts,
    headers: &HeaderMap,
    sender: IpAddr,
    email: &str,
    password: String,
) -> Result<Option<LoggedIn>, Error> {
    let account = email.trim().to_lowercase();
    let device = Device::find(app, headers).await?;
    let (asker, attempts) = begin_attempts(app, sender, &account, &device).await?;
    // The store's text holds no NUL; nor does any address.
    let account_key = if account.contains('\0') { "" } else { &account };
    let found = store::find_login(&app.db, account_key).await?;
    let right = app.hasher.verify(asker, password, found.as_ref().map(|(_, kept)| kept.clone())).await?;
    let Some((user_id, kept)) = found.filter(|_| right) else {
        attempts.into_iter().for_each(Attempt::failed);
        return Ok(None);
    };
    if let Some(factors) = second_factor::in_force(&app.db, user_id).await? {
        let challenge = second_factor::challenge(&app.db, &app.clock, user_id, &kept).await?;
        return Ok(Some(LoggedIn::Halfway(challenge, factors)));
    }
    let (batch, cookies) = session(app, headers, sender, device, (user_id, &kept)).await?;
    match app.db.commit(batch).await {
        Ok(_) => Ok(Some(LoggedIn::Wholly(cookies))),
        Err(DbError::Stale) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A new session and its cookies. One that the browser had before ends: none survives a log-in.
async fn session(
    app: &Accounts,
    headers: &HeaderMap,
    sender: IpAddr,
    device: Device,
    (user_id, kept): (UserId, &str),
) -> Result<(Batch, [HeaderValue; 2]), Error> {
    let (stored, cookie) = auth::start_session_from(app, user_id, Origin::of(sender, headers));
    let (remembered, device_cookie) = device.remember(app, user_id);
    let mut batch = begin(user_id, kept, stored);
    batch.append(remembered);
    let entry = Entry { address: Some(sender), ..Entry::new("session.started", DoneBy::Person(user_id)) };
    batch.push(audit::note_of_user(user_id, &app.clock, &entry));
    if let Some(before) = auth::find_session(app, headers).await? {
        batch.push(before.end());
    }
    Ok((batch, [cookie, device_cookie]))
}

fn code_page(
    app: &Accounts,
    headers: &HeaderMap,
    to: &Destination,
    (challenge, factors): (&str, &Factors),
    error: Option<String>,
) -> Response {
    let status = if error.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    let visit = auth::read_cookie(app, headers, VISIT).unwrap_or_default();
    let mut hidden =
        vec![("token".to_owned(), auth::form_token(visit, "login")), ("challenge".to_owned(), challenge.to_owned())];
    hidden.extend(to.request.map(|id| ("request".to_owned(), id.to_string())));
    hidden.extend(to.next.clone().map(|next| ("next".to_owned(), next)));
    let action = format!("{}/login/code", app.addresses.dashboard.path());
    let (has_app, passkey) = (factors.has_app(), factors.asked(app, challenge));
    let code = Field { value: String::new(), error };
    CodePage { layout: Layout::dashboard(app), action, hidden, code, has_app, passkey }.respond(status)
}

/// The second step: a code of the app, a recovery code, or what a passkey answers.
async fn submit_code(
    State(app): State<Accounts>,
    Extension(Sender(sender)): Extension<Sender>,
    headers: HeaderMap,
    form: Form,
) -> PageResult {
    let to = Destination::of(&app, &form.text("request"), &form.text("next"));
    let visit = auth::read_cookie(&app, &headers, VISIT).unwrap_or_default();
    auth::check_form(visit, "login", &form.text("token"))?;
    let token = form.text("challenge");
    let too_late = || {
        let error = Some("That took too long, or was done already. Log in once more.".to_owned());
        page(&app, &headers, StatusCode::FORBIDDEN, &to, "", error)
    };
    let Some(shown) = second_factor::challenged(&app.db, &app.clock, &token).await? else { return Ok(too_late()) };
    let Some(factors) = second_factor::in_force(&app.db, shown.user_id).await? else { return Ok(too_late()) };
    let attempt = app.attempts.by_account.begin(&second_factor::name(shown.user_id), app.clock.steady()).await?;
    let wrong = |why: String| code_page(&app, &headers, &to, (&token, &factors), Some(why));
    let used = match factors.accept(&app, &token, &form).await? {
        Ok(used) => used,
        Err(why) => {
            attempt.failed();
            return Ok(wrong(why));
        }
    };
    let device = Device::find(&app, &headers).await?;
    let of = (shown.user_id, shown.password_hash.as_str());
    let (batch, cookies) = session(&app, &headers, sender, device, of).await?;
    match app.db.commit(batch.and(used).and(second_factor::answered(&token))).await {
        Ok(_) => Ok(welcome(&app, &to, cookies)),
        Err(DbError::Unexpected { .. }) => Ok(wrong(second_factor::WRONG_CODE.to_owned())),
        Err(DbError::Stale) => Ok(too_late()),
        Err(error) => Err(error.into()),
    }
}

/// Begins a session. A password that is changed in this moment, or a user who is
/// shut out, ends all sessions: this one, too.
fn begin(user_id: UserId, kept: &str, stored: Stmt) -> Batch {
    Batch::new().fence(store::login_stands(user_id, kept)).and(stored)
}

/// Counts an attempt before it is judged: in a browser that is known it counts
/// there alone; a stranger's counts for the account and for the address.
async fn begin_attempts<'a>(
    app: &'a Accounts,
    sender: IpAddr,
    account: &str,
    device: &Device,
) -> Result<(Asker, Vec<Attempt<'a>>), Error> {
    let (limits, now) = (&app.attempts, app.clock.steady());
    if let Some(name) = device.name_for(account) {
        let attempt = limits.by_account.begin(&name, now).await?;
        return Ok((Asker::Known(name), vec![attempt]));
    }
    let mut attempts = Vec::new();
    if let Some(address) = counted(sender, !app.config.limit_loopback) {
        attempts.push(limits.by_address.begin(&address, now).await?);
    }
    attempts.push(limits.by_account.begin(&format!("account {account}"), now).await?);
    Ok((Asker::Stranger(neighbourhood(sender)), attempts))
}

async fn leave(State(app): State<Accounts>, session: Session, form: Form) -> PageResult {
    session.check_form("logout", &form.text("token"))?;
    app.db.commit(session.end()).await?;
    let request: Option<AuthorizationRequestId> = form.text("request").parse().ok();
    let suffix = request.map_or(String::new(), |id| format!("?request={id}"));
    let mut response = Redirect::to(&format!("{}/login{suffix}", app.addresses.dashboard.path())).into_response();
    response.headers_mut().append(SET_COOKIE, auth::cookie(&app, SESSION, "", 0));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts;
    use crate::clock::Clock;
    use crate::db::Db;
    use crate::product::Product;
    use crate::testing::{EMAIL, NOW, Store, owner};

    #[test]
    fn only_pages_of_the_dashboard_are_gone_back_to() {
        for good in ["/dashboard/", "/dashboard/w/1/contacts?limit=2&after=a%20b", "/dashboard/oauth/authorize/x"] {
            assert!(is_page("/dashboard", good), "{good}");
        }
        for bad in [
            "",
            "/",
            "/dashboard",
            "/dashboards/x",
            "//evil.example/dashboard/",
            "/dashboard//evil.example",
            "/dashboard/../api",
            "/dashboard/\\evil.example",
            "https://evil.example/dashboard/",
            "/dashboard/x\r\nSet-Cookie: a=b",
            "/dashboard/x#y",
            "/dashboard/ü",
            &format!("/dashboard/{}", "x".repeat(LONGEST_NEXT)),
        ] {
            assert!(!is_page("/dashboard", bad), "{bad:?}");
        }
        assert!(is_page("", "/w/1") && !is_page("", "//evil.example") && !is_page("", "evil.example"));
    }

    async fn sessions(db: &Db, user_id: UserId) -> usize {
        // Each that is there is deleted, and counted.
        let swept = db.commit(crate::auth::delete_sessions_of(user_id)).await.expect("a look");
        swept[0].changed as usize
    }

    /// In one group the log-ins come before and behind the change; in two processes
    /// nobody knows. However it goes, no session of the old password is left.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_session_of_an_old_password_survives_its_change() {
        for store in Store::each().await {
            let app = store.open(&[], Clock::fixed(NOW)).await;
            let other = store.open(&[], Clock::fixed(NOW)).await;
            let (user_id, _) = owner(&app).await;
            for round in 0..60 {
                let (kept, new) = (format!("password {round}"), format!("password {}", round + 1));
                app.db.commit(store::set_password(EMAIL, &kept)).await.expect("a password");
                let log_in = async |app: &Product| {
                    app.db.commit(begin(user_id, &kept, auth::start_session(app, user_id).0)).await
                };
                let change = app.db.commit(store::set_password(EMAIL, &new));
                let (first, changed, second, elsewhere) =
                    tokio::join!(log_in(&app), change, log_in(&app), log_in(&other));
                changed.expect("changed");
                for log_in in [first, second, elsewhere] {
                    assert!(matches!(log_in, Ok(_) | Err(DbError::Stale)), "{log_in:?}");
                }
                assert_eq!(sessions(&app.db, user_id).await, 0, "round {round} on {}", app.db.engine_name());
            }
            drop((app, other));
            store.discard().await;
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_session_begins_while_its_user_is_shut_out() {
        for store in Store::each().await {
            let app = store.open(&[], Clock::fixed(NOW)).await;
            let other = store.open(&[], Clock::fixed(NOW)).await;
            let (user_id, _) = owner(&app).await;
            app.db.commit(store::set_password(EMAIL, "kept")).await.expect("a password");
            for round in 0..40 {
                let log_in = async |app: &Product| {
                    app.db.commit(begin(user_id, "kept", auth::start_session(app, user_id).0)).await
                };
                let shut_out = app.db.commit(accounts::disable_user(user_id, &app.clock));
                let (_, shut_out, _, _) = tokio::join!(log_in(&app), shut_out, log_in(&app), log_in(&other));
                shut_out.expect("shut out");
                assert_eq!(sessions(&app.db, user_id).await, 0, "round {round} on {}", app.db.engine_name());
                app.db.commit(store::enable_user(user_id)).await.expect("let in");
                log_in(&app).await.expect("a session, once he may");
            }
            drop((app, other));
            store.discard().await;
        }
    }
}
