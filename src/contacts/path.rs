//! How a path names a contact (by its id or its address) and a segment.

use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterIn};

use super::contact::{Contact, Key};
use super::store;
use crate::auth::Actor;
use crate::error::Error;
use crate::id::SegmentId;
use crate::web;

/// The `{contact}` of a path. What can be no contact's name is not found, like
/// any other that nobody has.
pub struct Named(Option<Key>);

/// The `{segment_id}` or `{audience_id}` of a path that names a contact, too.
pub struct PathSegment(pub SegmentId);

impl IntoParams for Named {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let description = "The id or the address of the contact. Addresses are found however they are written: \
                           `A@b.example` is `a@b.example`.";
        vec![web::name_in_path("contact", description, "ada@example.com")]
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Named, Error> {
        Ok(Named(param(parts, state, &["contact"]).await.and_then(|text| Key::read(&text))))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathSegment {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<PathSegment, Error> {
        let given = param(parts, state, &["segment_id", "audience_id"]).await;
        given.and_then(|text| text.parse().ok()).map(PathSegment).ok_or_else(|| Error::InvalidParameter {
            message: "The id of the segment in the path must be a UUID.".into(),
        })
    }
}

/// A parameter of the path, decoded; `None` where it is not text.
async fn param<S: Send + Sync>(parts: &mut Parts, state: &S, names: &[&str]) -> Option<String> {
    let params = RawPathParams::from_request_parts(parts, state).await.ok()?;
    params.iter().find(|(name, _)| names.contains(name)).map(|(_, value)| value.to_owned())
}

impl From<&Contact> for Named {
    fn from(contact: &Contact) -> Named {
        Named(Some(Key::Id(contact.id)))
    }
}

impl Named {
    pub async fn find(&self, actor: &dyn Actor) -> Result<Contact, Error> {
        let workspace = actor.workspace_id();
        let rows = match &self.0 {
            None => Vec::new(),
            Some(Key::Id(id)) => actor.read(|| store::by_id(workspace, *id)).await?,
            Some(Key::Email(key)) => actor.read(|| store::by_email_key(workspace, key)).await?,
        };
        Ok(Contact::read(rows.first().ok_or_else(not_found)?)?)
    }
}

/// The contact that somebody names by its id or its address, in a command.
pub async fn find_named(actor: &dyn Actor, text: &str) -> Result<Contact, Error> {
    Named(Key::read(text)).find(actor).await
}

pub fn not_found() -> Error {
    Error::not_found("Contact not found. Check the id or the address.")
}
