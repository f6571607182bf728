//! What contacts look like in requests and answers, for the API's description
//! and for those who read it.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, SchemaType, Type};
use utoipa::openapi::{self, KnownFormat, RefOr, SchemaFormat};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use super::contact::{Contact, EMAIL_PATTERN, LONGEST_EMAIL};
use super::properties::{LONGEST_FALLBACK, LONGEST_KEY, MOST_KEYS, PropertyKey};
use super::store::Listed;
use crate::clock::rfc3339;
use crate::id::ContactId;
use crate::segments;
use crate::topics::TopicChoice;

/// Whom to add.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the body to readers of the API's description")]
pub struct NewContact {
    email: Address,
    #[schema(nullable = true, max_length = 255, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$", example = "Ada")]
    first_name: Option<String>,
    #[schema(nullable = true, max_length = 255, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$", example = "Lovelace")]
    last_name: Option<String>,
    /// Whether the contact wants no mail.
    #[schema(nullable = true, default = false)]
    unsubscribed: Option<bool>,
    #[schema(nullable = true)]
    properties: Option<PropertyFields>,
    /// The segments that the contact belongs to, by id.
    #[schema(nullable = true)]
    segments: Option<SegmentList>,
    /// What the contact wants to hear of. For topics that are not named their default holds.
    #[schema(nullable = true, max_items = 100)]
    topics: Option<Vec<TopicChoice>>,
    /// An older way to name one segment.
    #[schema(nullable = true)]
    audience_id: Option<SegmentId>,
}

/// Whom to add to an audience.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the body to readers of the API's description")]
pub struct NewAudienceContact {
    email: Address,
    #[schema(nullable = true, max_length = 255, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$", example = "Ada")]
    first_name: Option<String>,
    #[schema(nullable = true, max_length = 255, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$", example = "Lovelace")]
    last_name: Option<String>,
    /// Whether the contact wants no mail.
    #[schema(nullable = true, default = false)]
    unsubscribed: Option<bool>,
    #[schema(nullable = true)]
    properties: Option<PropertyFields>,
}

/// What to change. What is left out stays as it is.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the body to readers of the API's description")]
pub struct ContactChange {
    /// Another address of the same contact.
    #[schema(nullable = true)]
    email: Option<Address>,
    /// Null empties it.
    #[schema(nullable = true, max_length = 255, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$", example = "Ada")]
    first_name: Option<String>,
    /// Null empties it.
    #[schema(nullable = true, max_length = 255, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$", example = "Lovelace")]
    last_name: Option<String>,
    /// Whether the contact wants no mail.
    #[schema(nullable = true)]
    unsubscribed: Option<bool>,
    /// Those named here are set, or removed where they are null; the others stay.
    #[schema(nullable = true)]
    properties: Option<PropertyFields>,
}

/// The answer to a change: which contact it was.
#[derive(Serialize, ToSchema)]
#[schema(as = ContactReference)]
pub struct Reference {
    #[schema(pattern = "^contact$")]
    object: &'static str,
    #[schema(value_type = Uuid)]
    id: ContactId,
}

impl Reference {
    pub fn to(contact: &Contact) -> Reference {
        Reference { object: "contact", id: contact.id }
    }
}

/// The answer to a deletion. The id stands under both names that programs look for.
#[derive(Serialize, ToSchema)]
#[schema(as = DeletedContact)]
pub struct Deleted {
    #[schema(pattern = "^contact$")]
    object: &'static str,
    #[schema(value_type = Uuid)]
    id: ContactId,
    #[schema(value_type = Uuid)]
    contact: ContactId,
    #[schema(example = true)]
    deleted: bool,
}

impl Deleted {
    pub fn of(contact: Contact) -> Deleted {
        Deleted { object: "contact", id: contact.id, contact: contact.id, deleted: true }
    }
}

/// A contact as lists show it.
#[derive(Serialize, ToSchema)]
#[schema(as = ListedContact)]
pub struct Item {
    #[schema(value_type = Uuid)]
    id: ContactId,
    #[schema(example = "ada@example.com")]
    email: String,
    #[schema(required = true, example = "Ada")]
    first_name: Option<String>,
    #[schema(required = true, example = "Lovelace")]
    last_name: Option<String>,
    unsubscribed: bool,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime, required = true)]
    updated_at: Option<String>,
}

impl From<Listed> for Item {
    fn from(contact: Listed) -> Item {
        Item {
            id: contact.id,
            email: contact.email,
            first_name: contact.first_name,
            last_name: contact.last_name,
            unsubscribed: contact.unsubscribed,
            created_at: rfc3339(contact.created_at),
            updated_at: contact.updated_at.map(rfc3339),
        }
    }
}

/// A contact.
#[derive(Serialize, ToSchema)]
#[schema(as = Contact)]
pub struct Whole {
    #[schema(pattern = "^contact$")]
    object: &'static str,
    #[serde(flatten)]
    item: Item,
    /// Each property with the type of its value.
    #[schema(value_type = std::collections::HashMap<String, TypedValue>)]
    properties: Map<String, Value>,
}

impl From<Contact> for Whole {
    fn from(mut contact: Contact) -> Whole {
        let properties = std::mem::take(&mut contact.properties).into_iter().map(|(key, value)| {
            let kind = match value {
                Value::Number(_) => "number",
                Value::Bool(_) => "boolean",
                _ => "string",
            };
            (key, json!({"type": kind, "value": value}))
        });
        Whole { object: "contact", properties: properties.collect(), item: Listed::from(contact).into() }
    }
}

/// The value of a property with its type.
#[derive(ToSchema)]
#[schema(as = PropertyValue)]
#[expect(dead_code, reason = "describes the answer to readers of the API's description")]
pub struct TypedValue {
    #[schema(rename = "type", pattern = "^(string|number|boolean)$")]
    kind: String,
    value: PlainValue,
}

/// Which contact.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes the parameter to readers of the API's description")]
pub struct Identifier {
    /// The id or the address of the contact. Addresses are found however they are written: `A@b.example` is
    /// `a@b.example`.
    #[param(min_length = 1, example = "ada@example.com")]
    contact: String,
}

/// Makes a schema that stands under a name of its own.
macro_rules! schema {
    ($(#[$doc:meta])* $name:ident as $shown:literal = $schema:expr) => {
        $(#[$doc])*
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<openapi::Schema> {
                $schema.into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                $shown.into()
            }
        }
    };
}

schema!(
    /// An address.
    Address as "EmailAddress" = ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some("One address. Upper and lower case make no difference."))
        .max_length(Some(LONGEST_EMAIL))
        .pattern(Some(EMAIL_PATTERN))
        .examples(["ada@example.com"])
);

schema!(
    /// A string, a number or a boolean.
    PlainValue as "PlainValue" = ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::String, Type::Number, Type::Boolean]))
        .description(Some("A string, a number or a boolean."))
        .examples([json!("Analytical Engines")])
);

schema!(
    /// What stands in for a value.
    Fallback as "FallbackValue" = ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::String, Type::Number]))
        .max_length(Some(LONGEST_FALLBACK))
        .description(Some("A string or a number."))
        .examples([json!("a company")])
);

schema!(
    /// What to declare.
    NewProperty as "NewContactProperty" = {
        let seats = new_property(Type::Number, json!({"key": "seats", "type": "number", "fallback_value": 1}));
        let company =
            new_property(Type::String, json!({"key": "company", "type": "string", "fallback_value": "a company"}));
        OneOfBuilder::new().description(Some("What to declare.")).item(company).item(seats)
    }
);

/// A property to be declared, of one type.
fn new_property(kind: Type, example: Value) -> ObjectBuilder {
    let key = ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some("What contacts call it: letters, digits and underscores."))
        .min_length(Some(1))
        .max_length(Some(PropertyKey::LONGEST))
        .pattern(Some("^[A-Za-z0-9_]+$"));
    let fallback = ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([kind, Type::Null]))
        .description(Some("What stands in where a contact has no value, of the type that `type` says."))
        .max_length(Some(LONGEST_FALLBACK));
    let kind = ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some("`string` or `number`."))
        .enum_values(Some([example["type"].clone()]));
    ObjectBuilder::new()
        .property("key", key)
        .property("type", kind)
        .property("fallback_value", fallback)
        .required("key")
        .required("type")
        .examples([example])
}

schema!(
    /// A flat object of properties.
    PropertyFields as "ContactProperties" = {
        let key = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(LONGEST_KEY));
        let plain = [Type::String, Type::Number, Type::Boolean, Type::Null];
        ObjectBuilder::new()
            .description(Some(
                "A flat object of properties. A null is no property. Where a property was declared, its value must be \
                 of the declared type.",
            ))
            .property_names(Some(openapi::Schema::from(key)))
            .max_properties(Some(MOST_KEYS))
            .additional_properties(Some(openapi::Schema::from(
                ObjectBuilder::new().schema_type(SchemaType::from_iter(plain)),
            )))
            .examples([json!({"company": "Analytical Engines", "seats": 3})])
    }
);

schema!(
    /// A segment by its id.
    SegmentId as "SegmentId" = ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some("The id of a segment."))
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Uuid)))
);

schema!(
    /// Segments by id, each alone or in an object.
    SegmentList as "SegmentList" = {
        let object = ObjectBuilder::new().property("id", SegmentId::schema()).required("id");
        ArrayBuilder::new()
            .description(Some("Segments by id, each alone or in an object."))
            .items(OneOfBuilder::new().item(object).item(SegmentId::schema()))
            .max_items(Some(segments::MOST_NAMED))
    }
);
