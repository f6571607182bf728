//! What somebody works at: the draft of an automation or, before the first edit, the version in force.

use serde_json::Value;

use super::contents::Contents;
use super::store::{self, Edit, StoredDraft};
use crate::accounts::{Duty, Manage, Member};
use crate::automations::automation;
use crate::automations::graph::Finding;
use crate::automations::store::{self as automations, Stored};
use crate::db::Batch;
use crate::error::Error;
use crate::id::AutomationId;
use crate::web::Form;
use crate::windows::Window;

pub struct Work {
    pub id: AutomationId,
    /// What is in force; nothing, where it was never published.
    pub live: Option<Stored>,
    pub draft: Option<StoredDraft>,
    pub contents: Contents,
}

pub fn gone() -> Error {
    Error::not_found("There is no such automation here. It may have been deleted already.")
}

/// Whether an automation has a draft, and whose.
pub async fn has_draft<D: Duty>(member: &Member<D>, id: AutomationId) -> Result<Option<(String, i64)>, Error> {
    let draft: Option<StoredDraft> = member.query(store::find(member.workspace_id(), id)).await?;
    Ok(draft.map(|draft| (draft.author, draft.updated_at)))
}

impl Work {
    pub async fn find<D: Duty>(member: &Member<D>, id: AutomationId) -> Result<Work, Error> {
        let live: Option<Stored> = member.query(automations::by_id(member.workspace_id(), id)).await?;
        let draft: Option<StoredDraft> = member.query(store::find(member.workspace_id(), id)).await?;
        let contents = match (&live, &draft) {
            // Its automation was deleted while somebody edited it.
            (None, Some(draft)) if draft.base_version > 0 => return Err(gone()),
            (_, Some(draft)) => draft.contents.clone(),
            (Some(live), None) => published(live)?,
            (None, None) => return Err(gone()),
        };
        Ok(Work { id, live, draft, contents })
    }

    pub fn revision(&self) -> i64 {
        self.draft.as_ref().map_or(0, |draft| draft.revision)
    }

    pub fn live_version(&self) -> i64 {
        self.live.as_ref().map_or(0, |live| live.listed.version)
    }

    /// Whether another version was published since the draft began.
    pub fn is_behind(&self) -> bool {
        self.draft.as_ref().is_some_and(|draft| draft.base_version != self.live_version())
    }

    fn purpose(&self) -> String {
        format!("edit automation {}", self.id)
    }

    /// The hidden fields of every form that edits it: also what its sender has seen.
    pub fn hidden<D: Duty>(&self, member: &Member<D>) -> Vec<(String, String)> {
        let mut hidden = member.hidden(&self.purpose());
        hidden.push(("revision".into(), self.revision().to_string()));
        hidden.push(("live".into(), self.live_version().to_string()));
        hidden
    }

    /// A form that edits this automation.
    pub fn accept<'a>(&self, member: &'a Member<Manage>, form: &Form) -> Result<crate::accounts::Accepted<'a>, Error> {
        member.accept(&self.purpose(), form)
    }

    /// Whether the sender of a form has seen the draft as it is, and, where there is none yet, the version in force.
    pub fn is_seen(&self, form: &Form) -> bool {
        form.text("revision") == self.revision().to_string() && (self.draft.is_some() || self.is_live_seen(form))
    }

    pub fn is_live_seen(&self, form: &Form) -> bool {
        form.text("live") == self.live_version().to_string()
    }

    pub fn edit(&self, member: &Member<Manage>) -> Edit {
        let (workspace_id, author_id) = (member.workspace_id(), member.session.user_id);
        Edit { workspace_id, id: self.id, author_id, now: member.app.clock.now() }
    }

    /// What makes the draft hold this from now on.
    pub fn save(&self, member: &Member<Manage>, what: &str, contents: &Contents) -> Batch {
        match &self.draft {
            Some(draft) => store::edit(self.edit(member), draft, what, contents),
            None => store::depart(self.edit(member), self.live_version(), &self.contents, what, contents),
        }
    }

    /// Everything that is wrong with it, as a program that asks would be told.
    pub async fn findings<D: Duty>(&self, member: &Member<D>) -> Result<Vec<Finding>, Error> {
        let graph = (&self.contents.steps_json(), &self.contents.connections_json());
        let window = self.contents.send_window.as_ref();
        Ok(automation::findings(&member.app.db, member.workspace_id(), graph, window).await?)
    }
}

/// What is in force, as a draft would hold it.
pub fn published(live: &Stored) -> Result<Contents, Error> {
    let window = live.send_window.as_deref().and_then(Window::stored);
    Ok(Contents {
        name: live.listed.name.clone(),
        re_entry: live.re_entry.clone(),
        exit_on: live.exit_on.clone(),
        send_window: window.map(|window| serde_json::json!(window)),
        steps: read(&live.steps)?,
        connections: read(&live.connections)?,
    })
}

/// Steps or connections as the store keeps them.
pub fn read<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, Error> {
    let value: Value = serde_json::from_str(text).map_err(|_| Error::Internal)?;
    serde_json::from_value(value).map_err(|_| Error::Internal)
}
