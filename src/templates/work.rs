//! What is done with templates, by programs and by people alike.

use super::store::{self, Changed, Key, New, Stored, Version};
use super::template::{Alias, Contents, TemplateChange, TemplateName};
use super::{Templates, not_found};
use crate::auth::Actor;
use crate::db::{Batch, DbError};
use crate::error::{Error, OrMissing};
use crate::id::{Id, TemplateId, TemplateVersionId};

/// How often a change is tried that another one got ahead of.
const ATTEMPTS: usize = 8;

/// The template, with the version that is edited.
pub async fn find(actor: &dyn Actor, key: &Key) -> Result<Stored, Error> {
    let rows = actor.read(|| store::find(actor.workspace_id(), key)).await?;
    let found = Stored::read(rows.first().ok_or_else(not_found)?)?;
    actor.acts_on(found.id.uuid());
    Ok(found)
}

/// A version of a template.
pub async fn find_version(actor: &dyn Actor, template: &Stored, id: TemplateVersionId) -> Result<Version, Error> {
    let rows = actor.read(|| store::version(actor.workspace_id(), (template.id, id))).await?;
    let missing = || Error::not_found("Version not found. `GET /templates/{id}/versions` lists those there are.");
    Ok(Version::read(rows.first().ok_or_else(missing)?)?)
}

/// A batch that makes a template.
pub fn making(
    actor: &dyn Actor,
    templates: &Templates,
    id: TemplateId,
    (name, alias): (&TemplateName, Option<&Alias>),
    contents: &Contents,
) -> Batch {
    let new = New { id, version_id: templates.clock.ordered_id(), name, alias, contents, now: templates.clock.now() };
    store::insert(actor.workspace_id(), &new)
}

/// What to say where a template could not be written as it was wished.
pub fn taken(error: DbError, alias: Option<&str>) -> Error {
    match (error, alias) {
        (DbError::Duplicate(_), Some(alias)) => {
            Error::Conflict { message: format!("The alias `{alias}` is another template's already.") }
        }
        (other, _) => other.into(),
    }
}

/// Whether somebody changed it, or deleted it, in between.
fn is_overtaken<T>(settled: &Result<T, DbError>) -> bool {
    matches!(settled, Err(DbError::Unexpected { .. }))
}

/// Changes a template as it was seen; `None` where it was changed since.
pub async fn change_once(
    actor: &dyn Actor,
    templates: &Templates,
    seen: &Stored,
    change: &TemplateChange,
) -> Result<Option<TemplateId>, Error> {
    let contents = change.apply(seen.contents.clone());
    let alias = match &change.alias.0 {
        Some(alias) => alias.as_ref().map(Alias::as_str),
        None => seen.alias.as_deref(),
    };
    let changed = Changed {
        name: change.name.as_ref().map_or(seen.name.as_str(), |name| name.as_str()),
        alias,
        contents: (contents != seen.contents).then_some(&contents),
        version_id: templates.clock.ordered_id(),
        now: templates.clock.now(),
    };
    let settled = actor.try_commit(|| store::change(actor.workspace_id(), seen, &changed)).await?;
    if is_overtaken(&settled) {
        return Ok(None);
    }
    settled.map_err(|error| taken(error, alias))?;
    Ok(Some(seen.id))
}

/// Changes a template, whatever others change of it at the same time.
pub async fn change(
    actor: &dyn Actor,
    templates: &Templates,
    key: &Key,
    change: &TemplateChange,
) -> Result<TemplateId, Error> {
    for _ in 0..ATTEMPTS {
        if let Some(id) = change_once(actor, templates, &find(actor, key).await?, change).await? {
            return Ok(id);
        }
    }
    Err(Error::Unavailable)
}

/// Lets a version be sent, or the draft.
pub async fn publish(
    actor: &dyn Actor,
    templates: &Templates,
    key: &Key,
    wanted: Option<TemplateVersionId>,
) -> Result<TemplateId, Error> {
    for _ in 0..ATTEMPTS {
        let seen = find(actor, key).await?;
        let version_id = wanted.unwrap_or(seen.current_version_id);
        find_version(actor, &seen, version_id).await?;
        let now = templates.clock.now();
        let settled = actor.try_commit(|| store::publish(actor.workspace_id(), &seen, version_id, now)).await?;
        if !is_overtaken(&settled) {
            settled?;
            return Ok(seen.id);
        }
    }
    Err(Error::Unavailable)
}

pub async fn delete(actor: &dyn Actor, key: &Key) -> Result<TemplateId, Error> {
    let template = find(actor, key).await?;
    if let Some(automation) = sent_by(actor, &template).await? {
        let message = format!(
            "The automation `{automation}` sends this template. Disable the automation, or let it send another, first."
        );
        return Err(Error::Conflict { message });
    }
    let gone = actor.try_commit(|| store::delete(actor.workspace_id(), template.id)).await?;
    gone.or_missing(not_found)?;
    Ok(template.id)
}

/// The name of an enabled automation that sends a template.
async fn sent_by(actor: &dyn Actor, template: &Stored) -> Result<Option<String>, Error> {
    let named = |name: &str| format!("\"template\":{{\"id\":\"{name}\"");
    let by_id = named(&template.id.to_string());
    let by_alias = template.alias.as_deref().map_or_else(|| by_id.clone(), named);
    let containing = |text: &str| format!("%{text}%");
    let of = || store::enabled_automations(actor.workspace_id(), containing(&by_id), containing(&by_alias));
    for row in actor.read(of).await? {
        // The store does not tell upper from lower case, and takes `_` for any character.
        let steps = row.text(1)?;
        if steps.contains(&by_id) || steps.contains(&by_alias) {
            return Ok(Some(row.text(0)?));
        }
    }
    Ok(None)
}
