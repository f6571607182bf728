//! What routes answer, and the answers that say which thing was changed, and no more.

use std::borrow::Cow;

use axum::Json;
use serde::Serialize;
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::parameter::{id, text};
use crate::error::Error;
use crate::id::Id;

/// What a route of the API answers.
pub type JsonResult<T> = Result<Json<T>, Error>;

/// The answer to a change: which thing it was.
#[derive(Serialize)]
pub struct Reference<I> {
    object: &'static str,
    id: I,
}

/// The answer to a deletion.
#[derive(Serialize)]
pub struct Deleted<I> {
    #[serde(flatten)]
    reference: Reference<I>,
    deleted: bool,
}

impl<I: Id> Reference<I> {
    pub fn to(id: I) -> Reference<I> {
        Reference { object: I::OBJECT, id }
    }
}

impl<I: Id> Deleted<I> {
    pub fn of(id: I) -> Deleted<I> {
        Deleted { reference: Reference::to(id), deleted: true }
    }
}

impl<I: Id> PartialSchema for Reference<I> {
    fn schema() -> RefOr<Schema> {
        let word = I::OBJECT.rsplit('_').next().unwrap_or_default();
        described::<I>().description(Some(format!("The answer to a change: which {word} it was."))).into()
    }
}

impl<I: Id> PartialSchema for Deleted<I> {
    #[expect(deprecated, reason = "the example stands where those of derived schemas stand")]
    fn schema() -> RefOr<Schema> {
        let deleted = ObjectBuilder::new().schema_type(Type::Boolean).example(Some(true.into()));
        let answer = described::<I>().property("deleted", deleted).required("deleted");
        answer.description(Some("The answer to a deletion.")).into()
    }
}

fn described<I: Id>() -> ObjectBuilder {
    let object = text().pattern(Some(format!("^{}$", I::OBJECT)));
    ObjectBuilder::new().property("object", object).required("object").property("id", id()).required("id")
}

impl<I: Id> ToSchema for Reference<I> {
    fn name() -> Cow<'static, str> {
        format!("{}Reference", title::<I>()).into()
    }
}

impl<I: Id> ToSchema for Deleted<I> {
    fn name() -> Cow<'static, str> {
        format!("Deleted{}", title::<I>()).into()
    }
}

/// `contact_property` as `ContactProperty`.
fn title<I: Id>() -> String {
    I::OBJECT.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}
