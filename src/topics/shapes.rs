//! What topics look like in requests and answers, for the API's description and
//! for those who read it.

use std::borrow::Cow;

use serde::Serialize;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder};
use utoipa::openapi::{self, RefOr};
use utoipa::{PartialSchema, ToSchema};

use super::store::Stored;
use super::topic::MOST_NAMED;
use crate::clock::rfc3339;
use crate::db::{DbError, Row};
use crate::id::TopicId;

/// What to make.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the body to readers of the API's description")]
pub struct NewTopic {
    /// One line, and not only spaces.
    #[schema(
        min_length = 1,
        max_length = 50,
        pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f][^\\x00-\\x1f\\x7f-\\x9f]*$"
    )]
    #[schema(example = "Product news")]
    name: String,
    /// What holds for a contact that never chose. It cannot be changed later.
    #[schema(pattern = "^opt_(in|out)$", example = "opt_in")]
    default_subscription: String,
    #[schema(nullable = true, max_length = 200, pattern = "^[^\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f]*$")]
    #[schema(example = "What is new, about once a month.")]
    description: Option<String>,
    /// Whether every contact may see that there is this topic, or only those who have opted in.
    #[schema(nullable = true, default = "private", pattern = "^(public|private)$")]
    visibility: Option<String>,
}

/// What to change. What is left out stays as it is.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the body to readers of the API's description")]
pub struct TopicChange {
    /// One line, and not only spaces.
    #[schema(
        nullable = true,
        min_length = 1,
        max_length = 50,
        pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f][^\\x00-\\x1f\\x7f-\\x9f]*$"
    )]
    #[schema(example = "Product news")]
    name: Option<String>,
    /// Null empties it.
    #[schema(nullable = true, max_length = 200, pattern = "^[^\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f]*$")]
    description: Option<String>,
    #[schema(nullable = true, pattern = "^(public|private)$")]
    visibility: Option<String>,
}

/// The answer to a change: which topic it was.
#[derive(Serialize, ToSchema)]
#[schema(as = TopicReference)]
pub struct Reference {
    #[schema(pattern = "^topic$")]
    object: &'static str,
    #[schema(value_type = Uuid)]
    id: TopicId,
}

impl Reference {
    pub fn to(id: TopicId) -> Reference {
        Reference { object: "topic", id }
    }
}

/// The answer to a deletion.
#[derive(Serialize, ToSchema)]
#[schema(as = DeletedTopic)]
pub struct Deleted {
    #[schema(pattern = "^topic$")]
    object: &'static str,
    #[schema(value_type = Uuid)]
    id: TopicId,
    #[schema(example = true)]
    deleted: bool,
}

impl Deleted {
    pub fn of(id: TopicId) -> Deleted {
        Deleted { object: "topic", id, deleted: true }
    }
}

/// Something that mail can be about.
#[derive(Serialize, ToSchema)]
#[schema(as = Topic)]
pub struct Item {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^topic$", nullable = false)]
    object: Option<&'static str>,
    #[schema(value_type = Uuid)]
    id: TopicId,
    #[schema(example = "Product news")]
    name: String,
    /// Left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "What is new, about once a month.")]
    description: Option<String>,
    #[schema(pattern = "^opt_(in|out)$", example = "opt_in")]
    default_subscription: String,
    #[schema(pattern = "^(public|private)$", example = "private")]
    visibility: String,
    #[schema(format = DateTime)]
    created_at: String,
}

impl From<Stored> for Item {
    fn from(topic: Stored) -> Item {
        Item {
            object: None,
            id: topic.id,
            name: topic.name,
            description: topic.description,
            default_subscription: topic.default_subscription,
            visibility: topic.visibility,
            created_at: rfc3339(topic.created_at),
        }
    }
}

impl Item {
    /// As an answer of its own, which says what it is.
    pub fn alone(self) -> Item {
        Item { object: Some("topic"), ..self }
    }
}

/// A topic, and what holds for one contact: what it chose, or else the default.
#[derive(Serialize, ToSchema)]
#[schema(as = ContactTopic)]
pub struct Chosen {
    #[schema(value_type = Uuid)]
    id: TopicId,
    #[schema(example = "Product news")]
    name: String,
    /// Left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "What is new, about once a month.")]
    description: Option<String>,
    #[schema(pattern = "^opt_(in|out)$", example = "opt_out")]
    subscription: String,
    /// Since when there is the topic.
    #[schema(format = DateTime)]
    created_at: String,
}

impl Chosen {
    pub fn read(row: &Row) -> Result<Chosen, DbError> {
        Ok(Chosen {
            id: row.id(0)?,
            name: row.text(1)?,
            description: row.maybe(2, Row::text)?,
            subscription: row.text(3)?,
            created_at: rfc3339(row.int(4)?),
        })
    }
}

/// Whether a contact wants mail about a topic.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the body to readers of the API's description")]
pub struct TopicChoice {
    /// The id of the topic.
    #[schema(value_type = Uuid)]
    id: TopicId,
    #[schema(pattern = "^opt_(in|out)$", example = "opt_out")]
    subscription: String,
}

/// Choices, alone or in an object.
pub struct TopicChoices;

impl PartialSchema for TopicChoices {
    fn schema() -> RefOr<openapi::Schema> {
        let list = ArrayBuilder::new().items(TopicChoice::schema()).max_items(Some(MOST_NAMED)).build();
        let named = ObjectBuilder::new().property("topics", list.clone()).required("topics");
        OneOfBuilder::new().description(Some("Choices, alone or in an object.")).item(named).item(list).into()
    }
}

impl ToSchema for TopicChoices {
    fn name() -> Cow<'static, str> {
        "TopicChoices".into()
    }
}
