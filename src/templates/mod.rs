//! Templates: mail with variables, written once and sent often.
//!
//! A template is edited as a draft and sent as it was published last. What was published is never
//! changed, so what was read of it is kept by the id of its version.

mod diff;
mod files;
mod page_acts;
mod page_edit;
mod page_form;
mod pages;
mod path;
mod rendering;
mod routes;
mod shapes;
mod store;
mod template;
mod variable;
mod versions_routes;
mod work;

use std::sync::Arc;

use serde_json::{Map, Value};

pub use diff::line_diff;
pub use files::{Pushed, TemplateFile};
pub use pages::router as pages;
pub use path::Named;
pub use rendering::{Rendered, Rendering, Sources};
pub use routes::router as routes;

use crate::app::{App, holds_app};
use crate::db::{Db, DbError, Sql};
use crate::error::Error;
use crate::id::{TemplateId, TemplateVersionId, WorkspaceId};
use crate::memory::{Room, WeighedCache, weighed_cache};
use crate::text::shown;
use store::{Key, Published, Version};
use variable::Misfit;

pub const STATEMENTS: &[&[Sql]] = &[store::ALL];

/// How many versions are kept as they were read.
const KEPT: Room = Room { values: 1_000, bytes: 32 << 20, largest: 8 << 20 };

/// What templates need: those that were read. Clones share it.
#[derive(Clone)]
pub struct Templates {
    app: App,
    read: Arc<WeighedCache<TemplateVersionId, Rendering>>,
}

holds_app!(Templates { app: App });

/// Why a template cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsendable {
    Missing,
    /// It was never published.
    Draft,
}

impl Unsendable {
    /// As part of a sentence.
    pub fn about(self, named: &str) -> String {
        let named = shown(named);
        match self {
            Unsendable::Missing => format!("there is no template `{named}`"),
            Unsendable::Draft => format!("the template `{named}` is a draft that was never published"),
        }
    }

    /// As the answer to whoever wanted it sent.
    pub fn refusal(self) -> Error {
        match self {
            Unsendable::Missing => not_found(),
            Unsendable::Draft => {
                Error::invalid("The template is a draft. Publish it first, by `POST /templates/{id}/publish`.")
            }
        }
    }
}

/// Whether the template that has this id or this alias can be sent.
pub async fn check_published(
    db: &Db,
    workspace_id: WorkspaceId,
    named: &str,
) -> Result<Result<(), Unsendable>, DbError> {
    Ok(published_version(db, workspace_id, named).await?.map(drop))
}

/// What a template is called.
pub async fn name_of(db: &Db, workspace_id: WorkspaceId, id: TemplateId) -> Result<Option<String>, DbError> {
    let rows = db.read(store::find(workspace_id, &Key::Id(id))).await?;
    Ok(rows.first().map(store::Stored::read).transpose()?.map(|template| template.name))
}

/// What keeps the template that has this id or this alias from being sent with what it is given, as part of a
/// sentence. Of some values it may be known only later what they are.
pub async fn check_use(
    db: &Db,
    workspace_id: WorkspaceId,
    named: &str,
    given: &Map<String, Value>,
    is_known_later: impl Fn(&Value) -> bool,
) -> Result<Option<String>, DbError> {
    let (id, version_id) = match published_version(db, workspace_id, named).await? {
        Ok(found) => found,
        Err(unsendable) => return Ok(Some(unsendable.about(named))),
    };
    let rows = db.read(store::version(workspace_id, (id, version_id))).await?;
    let Some(row) = rows.first() else { return Ok(Some(Unsendable::Missing.about(named))) };
    let misfit = Version::read(row)?.contents.variables.misfit(given, is_known_later);
    Ok(misfit.map(|misfit| match misfit {
        Misfit::Missing(key) => format!("the template `{}` needs a value for `{key}`", shown(named)),
        Misfit::Wrong { key, flaw } => format!("the value of `template.variables.{key}` {flaw}"),
    }))
}

async fn published_version(
    db: &Db,
    workspace_id: WorkspaceId,
    named: &str,
) -> Result<Result<(TemplateId, TemplateVersionId), Unsendable>, DbError> {
    let rows = db.read(store::published(workspace_id, &Key::from(named))).await?;
    let Some(row) = rows.first() else { return Ok(Err(Unsendable::Missing)) };
    let Published { id, version_id } = Published::read(row)?;
    Ok(version_id.map(|version_id| (id, version_id)).ok_or(Unsendable::Draft))
}

impl Templates {
    pub fn new(app: App) -> Templates {
        Templates { app, read: Arc::new(weighed_cache(&KEPT)) }
    }

    /// What is sent of the template that has this id or this alias.
    pub async fn published(
        &self,
        workspace_id: WorkspaceId,
        named: &str,
    ) -> Result<Result<Arc<Rendering>, Unsendable>, DbError> {
        let (id, version_id) = match published_version(&self.app.db, workspace_id, named).await? {
            Ok(found) => found,
            Err(unsendable) => return Ok(Err(unsendable)),
        };
        if let Some(known) = self.read.get(&version_id) {
            return Ok(Ok(known));
        }
        let rows = self.app.db.read(store::version(workspace_id, (id, version_id))).await?;
        // Deleted since.
        let Some(row) = rows.first() else { return Ok(Err(Unsendable::Missing)) };
        let rendering = Arc::new(self.rendering(id, Version::read(row)?).await?);
        self.read.insert(version_id, rendering.clone());
        Ok(Ok(rendering))
    }

    /// What is sent of the template that has this id or this alias, as it was written, and what it is given.
    pub async fn sources(
        &self,
        workspace_id: WorkspaceId,
        named: &str,
        given: &Map<String, Value>,
    ) -> Result<Sources, Error> {
        let found = published_version(&self.app.db, workspace_id, named).await?.map_err(Unsendable::refusal)?;
        let rows = self.app.db.read(store::version(workspace_id, found)).await?;
        let version = Version::read(rows.first().ok_or_else(not_found)?)?;
        Sources::new(found.0, version, given).map_err(Error::invalid)
    }

    /// Reads a version where it keeps nobody waiting.
    async fn rendering(&self, id: TemplateId, version: Version) -> Result<Rendering, DbError> {
        let read = move || Rendering::new(id, version.id, version.contents);
        let read = self.app.admission.build(read).await;
        let read = read.map_err(|error| DbError::Unavailable(error.message().into_owned()))?;
        read.map_err(|flaw| DbError::Broken(format!("a template that was accepted once is not any more: {flaw}")))
    }
}

/// What a program is told that names a template which is not there.
pub fn not_found() -> Error {
    Error::not_found("Template not found. `GET /templates` lists those there are.")
}
