//! People behind pages: who is logged in, or the way to the log-in.

use axum::extract::{FromRef, FromRequestParts};
use axum::response::{IntoResponse, Redirect, Response};
use http::Method;
use http::request::Parts;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::{layout, workspace_path};
use crate::app::App;
use crate::auth::{self, Session};

/// A page that needs somebody logged in sends everybody else to the log-in.
impl<S: Send + Sync> FromRequestParts<S> for Session
where
    App: FromRef<S>,
{
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Session, Response> {
        let app = App::from_ref(state);
        match auth::find_session(&app, &parts.headers).await {
            Ok(Some(session)) => Ok(session),
            Ok(None) => Err(to_login(&app, parts)),
            Err(error) => Err(layout::error_page(&app, &error)),
        }
    }
}

/// The log-in, which leads back to the page that was asked for.
fn to_login(app: &App, parts: &Parts) -> Response {
    let dashboard = app.addresses.dashboard.path();
    let next = workspace_path::asked(parts, dashboard);
    let is_worth_it = parts.method == Method::GET && next.trim_end_matches('/') != dashboard;
    let query =
        if is_worth_it { format!("?next={}", utf8_percent_encode(&next, NON_ALPHANUMERIC)) } else { String::new() };
    Redirect::to(&format!("{dashboard}/login{query}")).into_response()
}
