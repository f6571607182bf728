//! What templates look like in answers.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::diff::line_diff;
use super::store::{Stored, Version};
use super::template::Contents;
use super::variable::{Variable, VariableType};
use crate::clock::{Time, rfc3339};
use crate::db::from_row;
use crate::id::{TemplateId, TemplateVersionId};

/// A template in a list.
#[derive(Serialize, ToSchema)]
#[schema(as = TemplateItem)]
pub struct Item {
    #[schema(value_type = Uuid)]
    id: TemplateId,
    #[schema(example = "Order confirmation")]
    name: String,
    #[schema(required = true)]
    alias: Option<String>,
    status: Status,
    #[schema(format = DateTime, required = true)]
    published_at: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
}

/// Whether it can be sent.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = TemplateStatus)]
pub enum Status {
    Draft,
    Published,
}

impl Status {
    fn of(published_at: Option<i64>) -> Status {
        if published_at.is_some() { Status::Published } else { Status::Draft }
    }
}

/// A row of a list.
pub struct Listed {
    pub id: TemplateId,
    pub name: String,
    pub alias: Option<String>,
    pub published_at: Option<i64>,
    pub created_at: i64,
    pub updated_at: i64,
}

from_row!(Listed { id, name, alias, published_at, created_at, updated_at });

impl From<Listed> for Item {
    fn from(listed: Listed) -> Item {
        Item {
            id: listed.id,
            name: listed.name,
            alias: listed.alias,
            status: Status::of(listed.published_at),
            published_at: listed.published_at.map(rfc3339),
            created_at: rfc3339(listed.created_at),
            updated_at: rfc3339(listed.updated_at),
        }
    }
}

/// What a version holds.
#[derive(Serialize, ToSchema)]
#[schema(as = TemplateContents)]
pub struct Shown {
    #[schema(required = true)]
    subject: Option<String>,
    #[schema(required = true)]
    from: Option<String>,
    #[schema(required = true)]
    reply_to: Option<Vec<String>>,
    html: String,
    #[schema(required = true)]
    text: Option<String>,
    variables: Vec<ShownVariable>,
}

/// A variable of a version.
#[derive(Serialize, ToSchema)]
#[schema(as = ShownTemplateVariable)]
pub struct ShownVariable {
    key: String,
    #[serde(rename = "type")]
    kind: VariableType,
    #[schema(required = true)]
    fallback_value: Option<Value>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    updated_at: String,
}

impl Shown {
    fn new(contents: Contents, created_at: i64, updated_at: i64) -> Shown {
        let variable = |Variable { key, kind, fallback_value }| ShownVariable {
            key,
            kind,
            fallback_value,
            created_at: rfc3339(created_at),
            updated_at: rfc3339(updated_at),
        };
        Shown {
            subject: contents.subject,
            from: contents.from,
            reply_to: Some(contents.reply_to).filter(|addresses| !addresses.is_empty()),
            html: contents.html,
            text: contents.text,
            variables: contents.variables.0.into_iter().map(variable).collect(),
        }
    }
}

/// A template, with the version that is edited.
#[derive(Serialize, ToSchema)]
#[schema(as = Template)]
pub struct Detail {
    #[schema(pattern = "^template$")]
    object: &'static str,
    #[serde(flatten)]
    item: Item,
    #[serde(flatten)]
    contents: Shown,
    /// The version that is shown here.
    #[schema(value_type = Uuid)]
    current_version_id: TemplateVersionId,
    /// The version that is sent.
    #[schema(value_type = Option<Uuid>, required = true)]
    published_version_id: Option<TemplateVersionId>,
    /// Whether what is shown here is not what is sent.
    has_unpublished_versions: bool,
}

impl From<Stored> for Detail {
    fn from(stored: Stored) -> Detail {
        Detail {
            object: "template",
            current_version_id: stored.current_version_id,
            published_version_id: stored.published_version_id,
            has_unpublished_versions: stored.has_unpublished_versions(),
            contents: Shown::new(stored.contents, stored.created_at, stored.updated_at),
            item: Listed {
                id: stored.id,
                name: stored.name,
                alias: stored.alias,
                published_at: stored.published_at,
                created_at: stored.created_at,
                updated_at: stored.updated_at,
            }
            .into(),
        }
    }
}

/// A version of a template in a list.
#[derive(Serialize, ToSchema)]
#[schema(as = TemplateVersionItem)]
pub struct VersionItem {
    #[schema(value_type = Uuid)]
    pub id: TemplateVersionId,
    #[schema(required = true)]
    subject: Option<String>,
    /// Whether it is the one that is sent.
    pub is_published: bool,
    /// Whether it is the one that is edited.
    pub is_current: bool,
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    /// When it was published last.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    pub published_at: Option<Time>,
}

impl VersionItem {
    pub fn new(version: &Version, template: &Stored) -> VersionItem {
        VersionItem {
            id: version.id,
            subject: version.contents.subject.clone(),
            is_published: template.published_version_id == Some(version.id),
            is_current: template.current_version_id == version.id,
            created_at: Time(version.created_at),
            published_at: version.published_at.map(Time),
        }
    }
}

/// A version of a template.
#[derive(Serialize, ToSchema)]
#[schema(as = TemplateVersion)]
pub struct VersionDetail {
    #[schema(pattern = "^template_version$")]
    object: &'static str,
    #[serde(flatten)]
    item: VersionItem,
    #[serde(flatten)]
    contents: Shown,
    /// What differs from the version in `against`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    changes: Option<Vec<FieldChange>>,
}

impl VersionDetail {
    pub fn new(version: Version, against: Option<&Version>, template: &Stored) -> VersionDetail {
        VersionDetail {
            object: "template_version",
            item: VersionItem::new(&version, template),
            changes: against.map(|before| changes(&before.contents, &version.contents)),
            contents: Shown::new(version.contents, version.created_at, version.created_at),
        }
    }
}

/// A field that two versions differ in.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = TemplateChangeOfField)]
pub struct FieldChange {
    #[schema(example = "subject")]
    pub field: &'static str,
    /// The lines that differ: `-` before those of the older, `+` before those of this version, a space before those
    /// around them, and `@@` between places that lie apart.
    pub diff: String,
}

/// What differs between contents, field by field.
pub fn changes(before: &Contents, after: &Contents) -> Vec<FieldChange> {
    let fields = |contents: &Contents| {
        let variables = contents.variables.0.iter().map(|one| serde_json::to_string(one).unwrap_or_default());
        [
            ("subject", contents.subject.clone().unwrap_or_default()),
            ("from", contents.from.clone().unwrap_or_default()),
            ("reply_to", contents.reply_to.join("\n")),
            ("html", contents.html.clone()),
            ("text", contents.text.clone().unwrap_or_default()),
            ("variables", variables.collect::<Vec<_>>().join("\n")),
        ]
    };
    let compared = fields(before).into_iter().zip(fields(after));
    let differing = compared.filter(|((_, before), (_, after))| before != after);
    differing.map(|((field, before), (_, after))| FieldChange { field, diff: line_diff(&before, &after) }).collect()
}
