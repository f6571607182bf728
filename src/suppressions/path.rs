//! How a path names an entry of the list: by its id or its address.

use axum::extract::{FromRequestParts, Path};
use http::request::Parts;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};

use super::suppression::Name;
use crate::error::Error;
use crate::web;

/// The `{suppression}` of a path. What can be no entry's name is not found, like any other that
/// is not there.
pub struct Named(pub Name);

impl IntoParams for Named {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let description = "The id of the suppression, or the address, in any spelling.";
        vec![web::name_in_path("suppression", description, "ada@example.com")]
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Named, Error> {
        let given = Path::<String>::from_request_parts(parts, state).await.ok();
        given.and_then(|Path(text)| Name::read(&text)).map(Named).ok_or_else(not_found)
    }
}

pub fn not_found() -> Error {
    Error::not_found("The address is not suppressed. `GET /suppressions` lists those that are.")
}
