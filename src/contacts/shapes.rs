//! What contacts look like in requests and answers, for the API's description
//! and for those who read it.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, SchemaType, Type};

use super::change::Ties;
use super::contact::{Changes, Contact, Email, Name};
use super::properties::{Kind, LONGEST_FALLBACK, Properties, PropertyKey};
use crate::clock::Time;
use crate::db::from_row;
use crate::id::{ContactId, SegmentId};
use crate::segments::SegmentList;
use crate::topics::ChoiceList;
use crate::web::{self, Change, schema, text_schema};

pub type Reference = web::Reference<ContactId>;

/// Whom to add.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({
    "email": "ada@example.com",
    "first_name": "Ada",
    "last_name": "Lovelace",
    "properties": {"company": "Analytical Engines", "seats": 3},
}))]
pub struct NewContact {
    email: Email,
    first_name: Option<Name>,
    last_name: Option<Name>,
    /// Whether the contact wants no mail.
    #[schema(default = false)]
    unsubscribed: Option<bool>,
    properties: Option<Properties>,
    /// The segments that the contact belongs to, by id.
    segments: Option<SegmentList>,
    /// An older way to name one segment.
    #[schema(value_type = Option<Uuid>)]
    audience_id: Option<SegmentId>,
    /// What the contact wants to hear of. For topics that are not named their default holds.
    topics: Option<ChoiceList>,
}

/// Whom to add to an audience.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({
    "email": "ada@example.com",
    "first_name": "Ada",
    "last_name": "Lovelace",
    "properties": {"company": "Analytical Engines", "seats": 3},
}))]
pub struct NewAudienceContact {
    email: Email,
    first_name: Option<Name>,
    last_name: Option<Name>,
    /// Whether the contact wants no mail.
    #[schema(default = false)]
    unsubscribed: Option<bool>,
    properties: Option<Properties>,
}

impl NewAudienceContact {
    /// The address, and what else is known.
    pub fn split(self) -> (Email, Changes) {
        let NewAudienceContact { email, first_name, last_name, unsubscribed, properties } = self;
        let name = |name: Option<Name>| Change(name.map(Some));
        let (first_name, last_name) = (name(first_name), name(last_name));
        (email, Changes { email: None, first_name, last_name, unsubscribed, properties })
    }
}

impl NewContact {
    /// The address, what else is known, and what the contact is tied to.
    pub fn split(self) -> (Email, Changes, Ties) {
        let NewContact { email, first_name, last_name, unsubscribed, properties, .. } = self;
        let SegmentList(mut segment_ids) = self.segments.unwrap_or_default();
        segment_ids.extend(self.audience_id.filter(|id| !segment_ids.contains(id)));
        let ChoiceList(choices) = self.topics.unwrap_or_default();
        let known = NewAudienceContact { email, first_name, last_name, unsubscribed, properties };
        let (email, changes) = known.split();
        (email, changes, Ties { segment_ids, choices })
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
    pub(super) id: ContactId,
    #[schema(example = "ada@example.com")]
    pub(super) email: String,
    #[schema(required = true, example = "Ada")]
    pub(super) first_name: Option<String>,
    #[schema(required = true, example = "Lovelace")]
    pub(super) last_name: Option<String>,
    pub(super) unsubscribed: bool,
    #[schema(value_type = String, format = DateTime)]
    pub(super) created_at: Time,
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    pub(super) updated_at: Option<Time>,
}

from_row!(Item { id, email, first_name, last_name, unsubscribed, created_at, updated_at });

impl From<Contact> for Item {
    fn from(contact: Contact) -> Item {
        let Contact { id, email, first_name, last_name, unsubscribed, .. } = contact;
        let (created_at, updated_at) = (Time(contact.created_at), contact.updated_at.map(Time));
        Item { id, email, first_name, last_name, unsubscribed, created_at, updated_at }
    }
}

/// A contact.
#[derive(Serialize, ToSchema)]
#[schema(as = Contact)]
pub struct ContactDetail {
    #[schema(pattern = "^contact$")]
    object: &'static str,
    #[serde(flatten)]
    item: Item,
    /// Each property with the type of its value.
    #[serde(serialize_with = "as_object")]
    #[schema(value_type = std::collections::HashMap<String, TypedValue>)]
    properties: Vec<(String, TypedValue)>,
}

impl From<Contact> for ContactDetail {
    fn from(mut contact: Contact) -> ContactDetail {
        let properties = std::mem::take(&mut contact.properties).into_iter().map(|(key, value)| {
            let kind = match value {
                Value::Number(_) => "number",
                Value::Bool(_) => "boolean",
                _ => "string",
            };
            (key, TypedValue { kind, value })
        });
        ContactDetail { object: "contact", properties: properties.collect(), item: contact.into() }
    }
}

fn as_object<S: Serializer>(properties: &[(String, TypedValue)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(properties.iter().map(|(key, value)| (key, value)))
}

/// The value of a property with its type.
#[derive(Serialize, ToSchema)]
#[schema(as = PropertyValue)]
pub struct TypedValue {
    #[serde(rename = "type")]
    #[schema(pattern = "^(string|number|boolean)$")]
    kind: &'static str,
    #[schema(value_type = PlainValue)]
    value: Value,
}

/// A string, a number or a boolean.
pub struct PlainValue;

schema!(
    PlainValue as "PlainValue" = ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::String, Type::Number, Type::Boolean]))
        .description(Some("A string, a number or a boolean."))
        .examples([json!("Analytical Engines")])
);

/// What stands in for a value.
pub struct Fallback;

schema!(
    Fallback as "FallbackValue" = ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::String, Type::Number]))
        .max_length(Some(LONGEST_FALLBACK))
        .description(Some("A string or a number."))
        .examples([json!("a company")])
);

/// What to declare.
#[derive(Deserialize)]
pub struct NewProperty {
    pub key: PropertyKey,
    #[serde(rename = "type")]
    pub kind: Kind,
    pub fallback_value: Option<Value>,
}

schema!(NewProperty as "NewContactProperty" = {
    let seats = new_property(Type::Number, json!({"key": "seats", "type": "number", "fallback_value": 1}));
    let company =
        new_property(Type::String, json!({"key": "company", "type": "string", "fallback_value": "a company"}));
    OneOfBuilder::new().description(Some("What to declare.")).item(company).item(seats)
});

/// A property to be declared, of one type.
fn new_property(kind: Type, example: Value) -> ObjectBuilder {
    let key = text_schema()
        .description(Some("What contacts call it: letters, digits and underscores."))
        .min_length(Some(1))
        .max_length(Some(PropertyKey::LONGEST))
        .pattern(Some("^[A-Za-z0-9_]+$"));
    let fallback = ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([kind, Type::Null]))
        .description(Some("What stands in where a contact has no value, of the type that `type` says."))
        .max_length(Some(LONGEST_FALLBACK));
    let kind = text_schema().description(Some("`string` or `number`.")).enum_values(Some([example["type"].clone()]));
    ObjectBuilder::new()
        .property("key", key)
        .property("type", kind)
        .property("fallback_value", fallback)
        .required("key")
        .required("type")
        .examples([example])
}
