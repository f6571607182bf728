//! What topics look like in answers.

use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::topic::{NewTopic, Subscription, TopicChange, Visibility};
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
    pub(super) id: TopicId,
    #[schema(example = "Product news")]
    pub(super) name: String,
    /// Left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "What is new, about once a month.")]
    pub(super) description: Option<String>,
    #[schema(value_type = Subscription)]
    pub(super) default_subscription: String,
    #[schema(value_type = Visibility)]
    pub(super) visibility: String,
    #[schema(value_type = String, format = DateTime)]
    pub(super) created_at: Time,
}

from_row!(Item { object = None, id, name, description, default_subscription, visibility, created_at });

impl Item {
    /// As an answer of its own, which says what it is.
    pub fn alone(self) -> Item {
        Item { object: Some("topic"), ..self }
    }

    /// One that is about to be made.
    pub fn of_new(id: TopicId, new: &NewTopic, now: i64) -> Item {
        Item {
            object: None,
            id,
            name: new.name.as_str().to_owned(),
            description: new.description.as_ref().map(|words| words.as_str().to_owned()),
            default_subscription: new.default_subscription.as_str().to_owned(),
            visibility: new.visibility.unwrap_or(Visibility::Private).as_str().to_owned(),
            created_at: Time(now),
        }
    }

    /// The same after a change.
    pub fn changed(mut self, changes: &TopicChange) -> Item {
        if let Some(name) = &changes.name {
            self.name = name.as_str().to_owned();
        }
        if let Some(description) = &changes.description.0 {
            self.description = description.as_ref().map(|words| words.as_str().to_owned());
        }
        if let Some(visibility) = changes.visibility {
            self.visibility = visibility.as_str().to_owned();
        }
        self
    }

    /// What webhooks are told of it.
    pub fn published(&self, updated_at: Option<i64>, deleted: bool) -> Value {
        json!({
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "default_subscription": self.default_subscription,
            "visibility": self.visibility,
            "deleted": deleted,
            "created_at": self.created_at,
            "updated_at": updated_at.map_or(self.created_at, Time),
        })
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
