//! Exporting and erasing one person, in the dashboard.

use askama::Template;
use axum::extract::State;
use http::StatusCode;

use super::page_one::purpose;
use super::path::Named;
use super::traces::{self, ContactExport, Erased};
use crate::accounts::{Look, Manage, Member};
use crate::error::Error;
use crate::id::ContactId;
use crate::occurrences::Occurrences;
use crate::web::{self, Form, Layout, PageResult, PathId, Shell, Stamp};

#[derive(Template)]
#[template(path = "contacts/erase.html")]
struct ErasePage {
    layout: Layout,
    shell: Shell,
    email: String,
    is_unsubscribed: bool,
    hidden: Vec<(String, String)>,
    cancel: String,
}

#[derive(Template)]
#[template(path = "contacts/erasure.html")]
struct ErasurePage {
    layout: Layout,
    shell: Shell,
    id: ContactId,
    begun: Stamp,
    completed: Option<Stamp>,
    /// This page's own.
    address: String,
}

pub async fn export(member: Member<Manage>, named: Named) -> PageResult {
    let contact = named.find(&member).await?;
    Ok(traces::document(ContactExport::of(&member.app, member.workspace_id(), contact)).await?)
}

pub async fn ask(member: Member<Manage>, named: Named) -> PageResult {
    let contact = named.find(&member).await?;
    let content = ErasePage {
        layout: member.layout(),
        shell: member.shell("/contacts"),
        is_unsubscribed: contact.unsubscribed,
        hidden: member.hidden(&purpose("erase", &contact)),
        cancel: member.address(&format!("/contacts/{}", contact.id)),
        email: contact.email,
    };
    Ok(web::page(StatusCode::OK, &content))
}

pub async fn erase(State(app): State<Occurrences>, member: Member<Manage>, named: Named, form: Form) -> PageResult {
    let contact = named.find(&member).await?;
    let accepted = member.accept(&purpose("erase", &contact), &form)?;
    traces::begin(&accepted, &app, &contact, form.text("suppress") == "yes").await?;
    Ok(member.see_other(&format!("/erasures/{}", contact.id)))
}

/// How far an erasure is.
pub async fn show(member: Member<Look>, id: Result<PathId<ContactId>, Error>) -> PageResult {
    let gone = || Error::not_found("There is no such erasure here. Its id is the one that the contact had.");
    let PathId(id) = id.map_err(|_| gone())?;
    let Erased { created_at, completed_at, .. } = traces::find(&member, id).await?.ok_or_else(gone)?;
    let content = ErasurePage {
        layout: member.layout(),
        shell: member.shell("/contacts"),
        id,
        begun: Stamp::exact(created_at.0),
        completed: completed_at.map(|at| Stamp::exact(at.0)),
        address: member.address(&format!("/erasures/{id}")),
    };
    Ok(web::page(StatusCode::OK, &content))
}
