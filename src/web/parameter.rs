//! How extractors describe the parameters that they read.

use serde_json::Value;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{KnownFormat, Required, SchemaFormat};

/// Describes a type under a name of its own.
macro_rules! schema {
    ($type:ty as $name:literal = $schema:expr) => {
        impl utoipa::PartialSchema for $type {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                $schema.into()
            }
        }

        impl utoipa::ToSchema for $type {
            fn name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }
        }
    };
}
pub(crate) use schema;

fn in_path(name: &str, description: &str, schema: ObjectBuilder) -> ParameterBuilder {
    described(name, description, schema).parameter_in(ParameterIn::Path).required(Required::True)
}

/// A parameter that may be left out.
pub fn optional(place: ParameterIn, name: &str, description: &str, schema: ObjectBuilder) -> Parameter {
    described(name, description, schema).parameter_in(place).required(Required::False).build()
}

fn described(name: &str, description: &str, schema: ObjectBuilder) -> ParameterBuilder {
    ParameterBuilder::new().name(name).description(Some(description)).schema(Some(schema))
}

/// An id in a path.
pub fn id_in_path(name: &str, description: &str) -> Parameter {
    in_path(name, description, id()).build()
}

pub fn id() -> ObjectBuilder {
    text().format(Some(SchemaFormat::KnownFormat(KnownFormat::Uuid)))
}

pub fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

/// Something that people call by a name or by its id.
pub fn name_in_path(name: &str, description: &str, example: &str) -> Parameter {
    in_path(name, description, text().min_length(Some(1))).example(Some(Value::from(example))).build()
}
