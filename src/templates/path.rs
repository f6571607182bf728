//! How a path names a template (by its id or its alias) and one of its versions.

use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};

use super::not_found;
use super::store::{self, Key, Stored, Version};
use crate::auth::Caller;
use crate::error::Error;
use crate::id::TemplateVersionId;
use crate::web;

/// The `{template}` of a path.
pub struct Named(Key);

/// The `{version_id}` of a path that names a template, too.
pub struct PathVersion(pub TemplateVersionId);

impl IntoParams for Named {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![web::name_in_path("id", "The id or the alias of the template.", "order-confirmation")]
    }
}

impl IntoParams for PathVersion {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![web::id_in_path("version_id", "The version's id.")]
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Named, Error> {
        let text = param(parts, state, "id").await.filter(|text| !text.contains('\0'));
        Ok(Named(Key::from(text.as_deref().unwrap_or_default())))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathVersion {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<PathVersion, Error> {
        let given = param(parts, state, "version_id").await;
        given.and_then(|text| text.parse().ok()).map(PathVersion).ok_or_else(|| Error::InvalidParameter {
            message: "The id of the version in the path must be a UUID.".into(),
        })
    }
}

/// A parameter of the path, decoded; `None` where it is not text.
async fn param<S: Send + Sync>(parts: &mut Parts, state: &S, wanted: &str) -> Option<String> {
    let params = RawPathParams::from_request_parts(parts, state).await.ok()?;
    params.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.to_owned())
}

impl Named {
    /// The template, with the version that is edited.
    pub(super) async fn find(&self, caller: &Caller) -> Result<Stored, Error> {
        let rows = caller.read(|| store::find(caller.workspace_id(), &self.0)).await?;
        Ok(Stored::read(rows.first().ok_or_else(not_found)?)?)
    }
}

/// A version of a template.
pub(super) async fn find_version(caller: &Caller, template: &Stored, id: TemplateVersionId) -> Result<Version, Error> {
    let rows = caller.read(|| store::version(caller.workspace_id(), (template.id, id))).await?;
    let missing = || Error::not_found("Version not found. `GET /templates/{id}/versions` lists those there are.");
    Ok(Version::read(rows.first().ok_or_else(missing)?)?)
}
