//! Forms that people send from our own pages.

use axum::extract::{FromRequest, Request};
use axum::response::Response;
use bytes::Bytes;

use super::query::Params;
use super::{input, layout};
use crate::app::App;
use crate::auth::session;

/// Nothing that people type into our forms is larger.
const LIMIT: usize = 64 << 10;

/// A form of ours: read whole, and not sent by another site's page.
pub struct Form(Bytes);

impl FromRequest<App> for Form {
    type Rejection = Response;

    async fn from_request(request: Request, app: &App) -> Result<Form, Response> {
        let (parts, body) = request.into_parts();
        let read = async {
            session::refuse_foreign(app, &parts.headers)?;
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
