//! What segments look like in requests and answers.

use std::borrow::Cow;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::openapi::schema::{AnyOfBuilder, ObjectBuilder, Type};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::filling::Filling;
use super::filter::{Filter, MOST_TIMES};
use super::segment::SegmentName;
use crate::clock::rfc3339;
use crate::db::{DbError, Row};
use crate::error::Error;
use crate::id::SegmentId;
use crate::rules::{NamedSchema, comparison_schemas, group_schema, rule_schema, word_schema};
use crate::web::{Change, text_schema};

/// What to make.
#[derive(Deserialize, ToSchema)]
#[schema(as = NewSegment)]
pub struct SegmentBody {
    pub name: SegmentName,
    /// Who belongs into it. Without one, contacts are put into the segment one by one.
    pub filter: Option<GivenFilter>,
}

/// What to change. What is left out stays as it is.
#[derive(Deserialize, ToSchema)]
pub struct SegmentChange {
    pub name: Option<SegmentName>,
    /// Null takes it away: then who is in the segment stays in it.
    #[schema(value_type = Option<GivenFilter>)]
    pub filter: Change<GivenFilter>,
}

/// A filter as it is given. An empty object is none.
#[derive(Debug)]
pub struct GivenFilter(pub Option<Filter>);

impl<'de> Deserialize<'de> for GivenFilter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GivenFilter, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Object(rules) if rules.is_empty() => Ok(GivenFilter(None)),
            rules => {
                let filter = Filter::parse(&rules);
                filter
                    .map(|filter| GivenFilter(Some(filter)))
                    .map_err(|why| D::Error::custom(format!("is no filter: {why}")))
            }
        }
    }
}

/// The schemas that a filter is one of.
fn parts() -> Vec<NamedSchema> {
    let field = |pattern: &str, words: &str| text_schema().pattern(Some(pattern)).description(Some(words));
    let of_contact = "`contact.email` and the like, or `contact.properties.<key>` of a property that is declared.";
    let mut all = comparison_schemas("SegmentRule", || field("^contact\\.[\\s\\S]", of_contact));
    let topic = field("^topics\\.", "`topics.<id>`: what the contact chose, or else the topic's default.");
    let choice = word_schema(["opt_in", "opt_out"]);
    let topic = rule_schema(["eq", "neq"], topic, Some((choice, true))).description(Some("Looks at a topic."));
    let event = field(
        "^(events\\.[\\s\\S]|emails\\.(opened|clicked)$|broadcasts\\.[0-9a-fA-F-]+\\.(opened|clicked)$)",
        "`events.<name>`: how often the event happened to the contact. `emails.opened`, `emails.clicked`, \
         `broadcasts.<id>.opened` and `broadcasts.<id>.clicked`: in how many mails the contact did so.",
    );
    let times = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).maximum(Some(MOST_TIMES));
    let within = || text_schema().description(Some("Only what is no longer ago counts, such as `30 days`."));
    let event = rule_schema(["eq", "neq", "gt", "gte", "lt", "lte"], event, Some((times, true)))
        .property("within", within())
        .description(Some("Counts what happened."));
    let broadcast = field("^broadcasts\\.[0-9a-fA-F-]+$", "`broadcasts.<id>`: whether its mail left for the contact.");
    let broadcast = rule_schema(["eq", "neq"], broadcast, Some((word_schema(["sent"]), true)))
        .property("within", within())
        .description(Some("Looks at a broadcast."));
    let none = ObjectBuilder::new().max_properties(Some(0)).description(Some("No filter."));
    all.push(("SegmentRuleTopic".into(), topic.into()));
    all.push(("SegmentRuleEvent".into(), event.into()));
    all.push(("SegmentRuleBroadcast".into(), broadcast.into()));
    all.push(group_schema("SegmentRule", &GivenFilter::name()));
    all.push(("NoSegmentFilter".into(), none.into()));
    all
}

impl PartialSchema for GivenFilter {
    fn schema() -> RefOr<Schema> {
        let example = json!({"type": "and", "rules": [
            {"type": "rule", "field": "contact.unsubscribed", "operator": "eq", "value": false},
            {"type": "rule", "field": "events.order.paid", "operator": "gte", "value": 2, "within": "30 days"},
        ]});
        let words = "A rule on the contact, its topics or what happened to it, or a tree of rules.";
        // Never two of them: but only the field tells some from others, which programs cannot compare.
        let choice = parts().iter().fold(AnyOfBuilder::new(), |all, (name, _)| all.item(Ref::from_schema_name(name)));
        choice.description(Some(words)).examples([example]).into()
    }
}

impl ToSchema for GivenFilter {
    fn name() -> Cow<'static, str> {
        "SegmentFilter".into()
    }

    fn schemas(all: &mut Vec<NamedSchema>) {
        all.extend(parts());
    }
}

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
    pub name: String,
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
    #[schema(value_type = Option<GivenFilter>, required = true)]
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
