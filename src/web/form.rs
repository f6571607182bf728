//! Forms that people send from our own pages.

use axum::extract::{FromRef, FromRequest, Request};
use axum::response::Response;
use bytes::Bytes;

use super::query::Params;
use super::{input, layout};
use crate::app::App;
use crate::auth;

/// Nothing that people type into our forms is larger.
const LIMIT: usize = 64 << 10;

/// A form of ours: read whole, and not sent by another site's page.
pub struct Form(Bytes);

impl<S: Send + Sync> FromRequest<S> for Form
where
    App: FromRef<S>,
{
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Form, Response> {
        let app = &App::from_ref(state);
        let (parts, body) = request.into_parts();
        let read = async {
            auth::refuse_foreign(app, &parts.headers)?;
            input::read(&parts.headers, body, LIMIT).await
        };
        read.await.map(Form).map_err(|error| layout::error_page(app, &error))
    }
}

impl Form {
    /// What was typed into a field; empty when it is missing.
    pub fn text(&self, name: &str) -> String {
        Params::parse(&self.0).text(name).map(|text| text.into_owned()).unwrap_or_default()
    }

    /// The values of a field that may be sent several times, such as boxes that
    /// were ticked.
    pub fn all(&self, name: &str) -> Vec<String> {
        Params::parse(&self.0).all(name)
    }
}
