//! What routes take: the type of a body or of the parameters of a query, which
//! describes itself in the API's description and is read by [`reader`].

use std::fmt;
use std::marker::PhantomData;

use axum::extract::{FromRef, FromRequest, FromRequestParts, Request};
use bytes::Bytes;
use http::request::Parts;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Visitor};

use super::input::{self, LIMIT, kind_of};
use super::object::Object;
use super::reader::{self, CHANGE, OR_NULL};
use crate::app::App;
use crate::auth::AuditedCall;
use crate::error::Error;

/// A JSON object that is to be read as a `T`. No body at all is an empty one:
/// clients send bodiless posts and empty bodies labelled JSON.
pub struct Body<T> {
    fields: Object,
    is_large: bool,
    read_as: PhantomData<fn() -> T>,
}

impl<T> Body<T> {
    pub fn new(fields: impl Into<Object>) -> Body<T> {
        Body { fields: fields.into(), is_large: false, read_as: PhantomData }
    }

    /// Whether what is made of it is to be made where it keeps nobody waiting.
    pub fn is_large(&self) -> bool {
        self.is_large
    }

    /// As it was sent.
    pub fn fields(&self) -> &Object {
        &self.fields
    }

    pub fn into_fields(self) -> Object {
        self.fields
    }
}

impl<T: DeserializeOwned> Body<T> {
    pub fn read(self) -> Result<T, Error> {
        reader::read_body(self.fields)
    }

    /// One of [`super::many::Many`].
    pub(super) fn of_element(text: &Bytes) -> Result<Body<T>, Error> {
        match kind_of(text) {
            "an object" => {
                let fields = input::parse_object(text).map_err(|error| Error::invalid(error.message().into_owned()))?;
                Ok(Body::new(fields))
            }
            kind => Err(Error::invalid(format!("it must be an object, but is {kind}."))),
        }
    }
}

impl<T, S: Send + Sync> FromRequest<S> for Body<T>
where
    App: FromRef<S>,
{
    type Rejection = Error;

    async fn from_request(request: Request, state: &S) -> Result<Body<T>, Error> {
        let app = &App::from_ref(state);
        let audited = request.extensions().get::<AuditedCall>().cloned();
        let (fields, is_large) = input::weighed_json(app, request, LIMIT, input::parse_object).await?;
        let body = Body { is_large, ..Body::new(fields.unwrap_or_default()) };
        audited.iter().for_each(|audited| audited.changes(body.fields.len() > 0));
        Ok(body)
    }
}

/// The parameters of a query, beside those that another extractor reads.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> Query<T> {
    pub fn parse(query: &str) -> Result<Query<T>, Error> {
        reader::read_query(query).map(Query)
    }
}

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Query<T>, Error> {
        Query::parse(parts.uri.query().unwrap_or_default())
    }
}

/// A field that must be there, but may be null.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrNull<T>(pub Option<T>);

/// A field of a change: what is not there stays as it is, null empties it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change<T>(pub Option<Option<T>>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OrNull<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OrNull<T>, D::Error> {
        deserializer.deserialize_newtype_struct(OR_NULL, NullIsValue(PhantomData)).map(|given| OrNull(given.flatten()))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Change<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Change<T>, D::Error> {
        deserializer.deserialize_newtype_struct(CHANGE, NullIsValue(PhantomData)).map(Change)
    }
}

struct NullIsValue<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for NullIsValue<T> {
    type Value = Option<Option<T>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or null")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Some(None))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        T::deserialize(deserializer).map(|value| Some(Some(value)))
    }
}
