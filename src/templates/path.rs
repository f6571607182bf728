//! How a path names a template (by its id or its alias) and one of its versions.

use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};

use super::store::{Key, Stored};
use super::work;
use crate::auth::Actor;
use crate::error::Error;
use crate::id::{TemplateId, TemplateVersionId};
use crate::web;

/// The `{template}` of a path.
pub struct Named(pub(super) Key);

/// The `{version_id}` of a path that names a template, too.
pub struct PathVersion(pub TemplateVersionId);

impl From<TemplateId> for Named {
    fn from(id: TemplateId) -> Named {
        Named(Key::Id(id))
    }
}

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
        let text = param(parts, state, "id").await;
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
    pub(super) async fn find(&self, actor: &dyn Actor) -> Result<Stored, Error> {
        work::find(actor, &self.0).await
    }
}
