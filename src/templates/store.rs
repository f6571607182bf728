//! Templates and their versions in the store.

use uuid::Uuid;

use super::template::{Alias, Contents, TemplateName};
use super::variable::Variables;
use crate::db::{Batch, DbError, Row, Sql, Stmt, from_row, statements};
use crate::id::{TemplateId, TemplateVersionId, WorkspaceId};
use crate::web::Page;

/// What names a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    Id(TemplateId),
    Alias(String),
}

impl From<&str> for Key {
    fn from(text: &str) -> Key {
        // The store's text holds no NUL; nor does any alias.
        text.parse().map_or_else(|_| Key::Alias(text.replace('\0', "\u{fffd}")), Key::Id)
    }
}

statements! {
    lists {
        OLDER, NEWER =
            "SELECT id, name, alias, published_at, created_at, updated_at FROM templates WHERE workspace_id = $1" by "id";
        OLDER_VERSIONS, NEWER_VERSIONS =
            "SELECT id, subject, sender, reply_to, html, text, variables, created_at, published_at
             FROM template_versions WHERE workspace_id = $1 AND template_id = $4" by "id";
    }
    functions {
        fn insert_row(workspace_id: WorkspaceId, new: &New<'_>)
            with [workspace_id, new.id, new.name.as_str(), new.alias.map(Alias::as_str), new.version_id, new.now]
            = Sql::both(
            "INSERT INTO templates
                 (workspace_id, id, name, alias, current_version_id, created_at, updated_at, revision)
             VALUES ($1, $2, $3, $4, $5, $6, $6, 0)");
        fn insert_version(workspace_id: WorkspaceId, of: VersionOf, contents: &Contents, now: i64)
            with [workspace_id, of.0, of.1, contents.subject.as_deref(), contents.from.as_deref(),
                json(&contents.reply_to), &contents.html, contents.text.as_deref(), json(&contents.variables), now]
            = Sql::both(
            "INSERT INTO template_versions
                 (workspace_id, template_id, id, subject, sender, reply_to, html, text, variables, created_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)");
        /// Only what was never published is changed.
        fn set_version(workspace_id: WorkspaceId, of: VersionOf, contents: &Contents)
            with [workspace_id, of.0, of.1, contents.subject.as_deref(), contents.from.as_deref(),
                json(&contents.reply_to), &contents.html, contents.text.as_deref(), json(&contents.variables)]
            expects 1 = Sql::both(
            "UPDATE template_versions
             SET subject = $4, sender = $5, reply_to = $6, html = $7, text = $8, variables = $9
             WHERE workspace_id = $1 AND template_id = $2 AND id = $3 AND published_at IS NULL");
        /// Only whoever has seen the last change makes the next.
        fn set_row(workspace_id: WorkspaceId, seen: &Stored, name: &str, alias: Option<&str>, current: TemplateVersionId, now: i64)
            with [workspace_id, seen.id, seen.revision, name, alias, current, now] expects 1 = Sql::both(
            "UPDATE templates SET name = $4, alias = $5, current_version_id = $6, updated_at = $7, revision = revision + 1
             WHERE workspace_id = $1 AND id = $2 AND revision = $3");
        fn set_published(workspace_id: WorkspaceId, seen: &Stored, version_id: TemplateVersionId, current: TemplateVersionId, now: i64)
            with [workspace_id, seen.id, seen.revision, version_id, current, now] expects 1 = Sql::both(
            "UPDATE templates SET published_version_id = $4, current_version_id = $5, published_at = $6, updated_at = $6,
                 revision = revision + 1
             WHERE workspace_id = $1 AND id = $2 AND revision = $3");
        fn stamp_version(workspace_id: WorkspaceId, of: VersionOf, now: i64) with [workspace_id, of.0, of.1, now]
            expects 1 = Sql::both(
            "UPDATE template_versions SET published_at = $4 WHERE workspace_id = $1 AND template_id = $2 AND id = $3");
        fn delete_row(workspace_id: WorkspaceId, id: TemplateId) expects 1 = Sql::both(
            "DELETE FROM templates WHERE workspace_id = $1 AND id = $2");
        fn delete_versions(workspace_id: WorkspaceId, id: TemplateId) = Sql::both(
            "DELETE FROM template_versions WHERE workspace_id = $1 AND template_id = $2");
        /// Some of them, behind an id, each with the version that is edited.
        pub fn all(workspace_id: WorkspaceId, after: TemplateId) = Sql::both(
            "SELECT t.id, t.name, t.alias, t.current_version_id, t.published_version_id, t.published_at, t.created_at,
                    t.updated_at, t.revision, v.subject, v.sender, v.reply_to, v.html, v.text, v.variables, v.published_at
             FROM templates t JOIN template_versions v
                 ON v.workspace_id = t.workspace_id AND v.template_id = t.id AND v.id = t.current_version_id
             WHERE t.workspace_id = $1 AND t.id > $2 ORDER BY t.id LIMIT 20");
        pub fn version(workspace_id: WorkspaceId, of: VersionOf) with [workspace_id, of.0, of.1] = Sql::both(
            "SELECT id, subject, sender, reply_to, html, text, variables, created_at, published_at
             FROM template_versions WHERE workspace_id = $1 AND template_id = $2 AND id = $3");
        /// Enabled automations, with the steps in which one of two words stands.
        pub fn enabled_automations(workspace_id: WorkspaceId, one: String, other: String) = Sql::both(
            "SELECT a.name, v.steps FROM automations a
             JOIN automation_versions v ON v.automation_id = a.id AND v.version = a.version
             WHERE a.workspace_id = $1 AND a.status = 'enabled' AND a.deleted_at IS NULL
               AND (v.steps LIKE $2 OR v.steps LIKE $3)
             ORDER BY a.id");
    }
    BY_ID = Sql::both(
        "SELECT t.id, t.name, t.alias, t.current_version_id, t.published_version_id, t.published_at, t.created_at,
                t.updated_at, t.revision, v.subject, v.sender, v.reply_to, v.html, v.text, v.variables, v.published_at
         FROM templates t JOIN template_versions v
             ON v.workspace_id = t.workspace_id AND v.template_id = t.id AND v.id = t.current_version_id
         WHERE t.workspace_id = $1 AND t.id = $2");
    BY_ALIAS = Sql::both(
        "SELECT t.id, t.name, t.alias, t.current_version_id, t.published_version_id, t.published_at, t.created_at,
                t.updated_at, t.revision, v.subject, v.sender, v.reply_to, v.html, v.text, v.variables, v.published_at
         FROM templates t JOIN template_versions v
             ON v.workspace_id = t.workspace_id AND v.template_id = t.id AND v.id = t.current_version_id
         WHERE t.workspace_id = $1 AND t.alias = $2");
    PUBLISHED_BY_ID = Sql::both(
        "SELECT id, published_version_id FROM templates WHERE workspace_id = $1 AND id = $2");
    PUBLISHED_BY_ALIAS = Sql::both(
        "SELECT id, published_version_id FROM templates WHERE workspace_id = $1 AND alias = $2");
}

/// Of which template a version is, and which one.
pub type VersionOf = (TemplateId, TemplateVersionId);

/// A template with the version that is edited.
#[derive(Debug)]
pub struct Stored {
    pub id: TemplateId,
    pub name: String,
    pub alias: Option<String>,
    pub current_version_id: TemplateVersionId,
    pub published_version_id: Option<TemplateVersionId>,
    pub published_at: Option<i64>,
    pub created_at: i64,
    pub updated_at: i64,
    pub revision: i64,
    pub contents: Contents,
    /// Whether the version that is edited was published, so that it stays as it is.
    pub is_fixed: bool,
}

impl Stored {
    pub fn read(row: &Row) -> Result<Stored, DbError> {
        Ok(Stored {
            id: row.id(0)?,
            name: row.text(1)?,
            alias: row.maybe(2, Row::text)?,
            current_version_id: row.id(3)?,
            published_version_id: row.maybe(4, Row::id)?,
            published_at: row.maybe(5, Row::int)?,
            created_at: row.int(6)?,
            updated_at: row.int(7)?,
            revision: row.int(8)?,
            contents: contents(row, 9)?,
            is_fixed: row.maybe(15, Row::int)?.is_some(),
        })
    }

    /// One that is nowhere yet.
    pub fn sketch(name: &str, alias: Option<&str>, contents: Contents) -> Stored {
        Stored {
            id: Uuid::nil().into(),
            name: name.to_owned(),
            alias: alias.map(str::to_owned),
            current_version_id: Uuid::nil().into(),
            published_version_id: None,
            published_at: None,
            created_at: 0,
            updated_at: 0,
            revision: 0,
            contents,
            is_fixed: false,
        }
    }

    /// Whether something is edited that is not what is sent.
    pub fn has_unpublished_versions(&self) -> bool {
        self.published_version_id != Some(self.current_version_id)
    }
}

/// A version of a template.
#[derive(Debug, Clone)]
pub struct Version {
    pub id: TemplateVersionId,
    pub contents: Contents,
    pub created_at: i64,
    pub published_at: Option<i64>,
}

impl Version {
    pub fn read(row: &Row) -> Result<Version, DbError> {
        Ok(Version {
            id: row.id(0)?,
            contents: contents(row, 1)?,
            created_at: row.int(7)?,
            published_at: row.maybe(8, Row::int)?,
        })
    }
}

/// Which version of a template is sent, if one is.
pub struct Published {
    pub id: TemplateId,
    pub version_id: Option<TemplateVersionId>,
}

from_row!(Published { id, version_id });

fn contents(row: &Row, first: usize) -> Result<Contents, DbError> {
    let broken = |error: serde_json::Error| DbError::Broken(format!("contents of a template: {error}"));
    Ok(Contents {
        subject: row.maybe(first, Row::text)?,
        from: row.maybe(first + 1, Row::text)?,
        reply_to: serde_json::from_str(&row.text(first + 2)?).map_err(broken)?,
        html: row.text(first + 3)?,
        text: row.maybe(first + 4, Row::text)?,
        variables: serde_json::from_str::<Variables>(&row.text(first + 5)?).map_err(broken)?,
    })
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// A template to be made, with its first version.
pub struct New<'a> {
    pub id: TemplateId,
    pub version_id: TemplateVersionId,
    pub name: &'a TemplateName,
    pub alias: Option<&'a Alias>,
    pub contents: &'a Contents,
    pub now: i64,
}

pub fn insert(workspace_id: WorkspaceId, new: &New<'_>) -> Batch {
    let version = insert_version(workspace_id, (new.id, new.version_id), new.contents, new.now);
    Batch::new().and(insert_row(workspace_id, new)).and(version)
}

pub fn page(workspace_id: WorkspaceId, page: &Page) -> Stmt {
    page.statement(OLDER, NEWER, workspace_id, [])
}

pub fn find(workspace_id: WorkspaceId, key: &Key) -> Stmt {
    match key {
        Key::Id(id) => BY_ID.with([workspace_id.into(), (*id).into()]),
        Key::Alias(alias) => BY_ALIAS.with([workspace_id.into(), alias.into()]),
    }
}

pub fn published(workspace_id: WorkspaceId, key: &Key) -> Stmt {
    match key {
        Key::Id(id) => PUBLISHED_BY_ID.with([workspace_id.into(), (*id).into()]),
        Key::Alias(alias) => PUBLISHED_BY_ALIAS.with([workspace_id.into(), alias.into()]),
    }
}

pub fn versions(workspace_id: WorkspaceId, id: TemplateId, page: &Page) -> Stmt {
    page.statement(OLDER_VERSIONS, NEWER_VERSIONS, workspace_id, [id.into()])
}

/// What becomes of a template.
pub struct Changed<'a> {
    pub name: &'a str,
    pub alias: Option<&'a str>,
    /// `None`: as they are.
    pub contents: Option<&'a Contents>,
    /// The id of a new version, if one is needed.
    pub version_id: TemplateVersionId,
    pub now: i64,
}

/// Changes the version that is edited; one that was published is followed by another.
pub fn change(workspace_id: WorkspaceId, seen: &Stored, changed: &Changed<'_>) -> Batch {
    let (mut current, mut batch) = (seen.current_version_id, Batch::new());
    let mut versions = Batch::new();
    match changed.contents {
        Some(contents) if seen.is_fixed => {
            current = changed.version_id;
            versions.push(insert_version(workspace_id, (seen.id, current), contents, changed.now));
        }
        Some(contents) => versions.push(set_version(workspace_id, (seen.id, current), contents)),
        None => {}
    }
    batch.push(set_row(workspace_id, seen, changed.name, changed.alias, current, changed.now));
    batch.append(versions);
    batch
}

/// Publishes a version. What is edited stays, unless it was published before: then it is this version.
pub fn publish(workspace_id: WorkspaceId, seen: &Stored, version_id: TemplateVersionId, now: i64) -> Batch {
    let current = if seen.is_fixed { version_id } else { seen.current_version_id };
    Batch::new().and(set_published(workspace_id, seen, version_id, current, now)).and(stamp_version(
        workspace_id,
        (seen.id, version_id),
        now,
    ))
}

pub fn delete(workspace_id: WorkspaceId, id: TemplateId) -> Batch {
    Batch::new().and(delete_row(workspace_id, id)).and(delete_versions(workspace_id, id))
}
