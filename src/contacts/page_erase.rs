//! Exporting and erasing one person, in the dashboard.

use askama::Template;
use axum::extract::State;
use http::StatusCode;

use super::page_one::purpose;
use super::path::Named;
use super::traces::{self, Dossier};
use crate::accounts::{Manage, Member};
use crate::occurrences::Occurrences;
use crate::web::{self, Form, Layout, PageResult, Shell};

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

pub async fn export(member: Member<Manage>, named: Named) -> PageResult {
    let contact = named.find(&member).await?;
    Ok(traces::document(Dossier::of(&member.app, member.workspace_id(), contact)).await?)
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
    Ok(member.see_other("/contacts?erased"))
}
