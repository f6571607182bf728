//! People behind pages: who is logged in, or the way to the log-in.

use axum::extract::{FromRef, FromRequestParts};
use axum::response::{IntoResponse, Redirect, Response};
use http::request::Parts;

use super::layout;
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
            Ok(None) => Err(Redirect::to(&format!("{}/login", app.addresses.dashboard.path())).into_response()),
            Err(error) => Err(layout::error_page(&app, &error)),
        }
    }
}
