//! What segments look like in requests and answers.

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::schema::ObjectBuilder;

use super::filling::Filling;
use super::filter::Filter;
use super::segment::SegmentName;
use crate::clock::rfc3339;
use crate::db::{DbError, Row};
use crate::error::Error;
use crate::id::SegmentId;
use crate::web::{Change, schema, text_schema};

/// What to make.
#[derive(Deserialize, ToSchema)]
#[schema(as = SegmentWish)]
pub struct SegmentBody {
    pub name: SegmentName,
    /// Who belongs into it. Without one, contacts are put into the segment one by one.
    pub filter: Option<Wish>,
}

/// What to change. What is left out stays as it is.
#[derive(Deserialize, ToSchema)]
pub struct SegmentChange {
    pub name: Option<SegmentName>,
    /// Null takes it away: then who is in the segment stays in it.
    #[schema(value_type = Option<Wish>)]
    pub filter: Change<Wish>,
}

/// A filter as it is given. An empty object is none.
#[derive(Debug)]
pub struct Wish(pub Option<Filter>);

impl<'de> Deserialize<'de> for Wish {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Wish, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Object(rules) if rules.is_empty() => Ok(Wish(None)),
            rules => {
                let filter = Filter::parse(&rules);
                filter.map(|filter| Wish(Some(filter))).map_err(|why| D::Error::custom(format!("is no filter: {why}")))
            }
        }
    }
}

schema!(Wish as "SegmentFilter" = {
    let example = json!({"type": "and", "rules": [
        {"type": "rule", "field": "contact.unsubscribed", "operator": "eq", "value": false},
        {"type": "rule", "field": "events.order.paid", "operator": "gte", "value": 2, "within": "30 days"},
    ]});
    ObjectBuilder::new()
        .description(Some(
            "A rule, or rules joined by `and` and `or`, as conditions of automations have them. A rule asks a `field` \
             of the contact: `contact.email` and the like, `contact.properties.<key>` of a property that is declared, \
             `topics.<id>` (`opt_in` or `opt_out`), or `events.<name>`: how often it happened, `within` some time.",
        ))
        .property("type", text_schema().pattern(Some("^(rule|and|or)$")))
        .property("field", text_schema())
        .property("operator", text_schema())
        .property("within", text_schema())
        .examples([example])
});

/// A new segment.
#[derive(Serialize, ToSchema)]
#[schema(as = CreatedSegment)]
pub struct Created {
    #[schema(pattern = "^segment$")]
    pub object: &'static str,
    #[schema(value_type = Uuid)]
    pub id: SegmentId,
    #[schema(example = "Newsletter")]
    pub name: String,
}

/// A named set of contacts, as lists show it.
#[derive(Serialize, ToSchema)]
#[schema(as = ListedSegment)]
pub struct Item {
    #[schema(value_type = Uuid)]
    pub(super) id: SegmentId,
    #[schema(example = "Newsletter")]
    pub(super) name: String,
    #[schema(format = DateTime)]
    pub(super) created_at: String,
}

impl Item {
    pub fn read(row: &Row) -> Result<Item, Error> {
        Ok(Item { id: row.id(0)?, name: row.text(1)?, created_at: rfc3339(row.int(2)?) })
    }
}

/// A named set of contacts.
#[derive(Serialize, ToSchema)]
#[schema(as = Segment)]
pub struct Detail {
    #[schema(pattern = "^segment$")]
    pub object: &'static str,
    #[serde(flatten)]
    pub item: Item,
    /// Who belongs into it; null where contacts are put into the segment one by one.
    #[schema(value_type = Option<Wish>, required = true)]
    pub filter: Option<Value>,
    /// Whether there are contacts that the filter has not judged yet.
    pub filling: bool,
    /// How many contacts are in it.
    #[schema(minimum = 0)]
    pub contacts_count: i64,
}

impl Detail {
    pub fn read(row: &Row, contacts_count: i64) -> Result<Detail, Error> {
        let broken = |what: &str| DbError::Broken(format!("the {what} of a segment cannot be read"));
        let filter = row.maybe(3, Row::text)?.map(|text| serde_json::from_str(&text).map_err(|_| broken("filter")));
        let filling = row.maybe(4, Row::text)?.map(|text| Filling::stored(&text).ok_or_else(|| broken("filling")));
        let filling = filling.transpose()?.is_some_and(|filling| !filling.is_settling);
        Ok(Detail { object: "segment", item: Item::read(row)?, filter: filter.transpose()?, filling, contacts_count })
    }
}
