//! What topics look like in answers.

use serde::Serialize;
use utoipa::ToSchema;

use super::topic::{Subscription, Visibility};
use crate::clock::Time;
use crate::db::{from_row, from_word};
use crate::id::TopicId;

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
    #[schema(value_type = Subscription)]
    pub(super) default_subscription: String,
    #[schema(value_type = Visibility)]
    visibility: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
}

from_row!(Item { object = None, id, name, description, default_subscription, visibility, created_at });

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
    #[schema(value_type = Subscription)]
    subscription: String,
    /// Since when there is the topic.
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
}

from_row!(Chosen { id, name, description, subscription, created_at });

/// A topic as its contact sees it.
#[derive(Debug, Clone)]
pub struct Standing {
    pub topic_id: TopicId,
    pub name: String,
    pub description: Option<String>,
    /// Whether everybody may see that there is this topic.
    pub visibility: Visibility,
    pub subscription: Subscription,
    /// Whether that was chosen, and is not what holds for all who did not choose.
    pub is_chosen: bool,
}

from_word!(Subscription, Visibility);
from_row!(Standing { topic_id, name, description, visibility, subscription, is_chosen });
