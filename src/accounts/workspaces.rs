//! The workspaces of a person: a new one, and another name for this one.

use askama::Template;
use axum::Router;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use http::StatusCode;

use super::member::{Duty, Look, Manage, Member};
use super::{Accounts, Role, store, team_store};
use crate::audit;
use crate::db::{Batch, DbError};
use crate::error::Error;
use crate::id::{Id, WorkspaceId};
use crate::web::{self, Field, Form, Layout, PageResult, Shell};

const CREATE: &str = "create workspace";
const RENAME: &str = "rename the workspace";

/// How many workspaces somebody can be in who makes another.
const MOST: usize = 100;

pub fn router() -> Router<Accounts> {
    Router::new().route("/workspaces", get(show).post(create)).route("/workspaces/rename", post(rename))
}

/// What a workspace may be called.
pub(super) fn read_name(typed: &str) -> Result<String, String> {
    let name = typed.trim();
    if name.is_empty() || name.chars().count() > 200 || name.contains(char::is_control) {
        return Err("A workspace needs a name of at most 200 characters, no control characters among them.".into());
    }
    Ok(name.to_owned())
}

#[derive(Template)]
#[template(path = "accounts/workspaces.html")]
struct WorkspacesPage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    may_manage: bool,
    workspaces: Vec<WorkspaceRow>,
    rename: String,
    rename_hidden: Vec<(String, String)>,
    new_name: Field,
    create: String,
    create_hidden: Vec<(String, String)>,
    created_name: Field,
}

struct WorkspaceRow {
    href: String,
    name: String,
    role: Role,
    is_this: bool,
}

async fn show(member: Member<Look>) -> Response {
    let new_name = Field::of(member.membership.workspace.name.clone());
    page(&member, StatusCode::OK, new_name, Field::default())
}

fn page<D: Duty>(member: &Member<D>, status: StatusCode, new_name: Field, created_name: Field) -> Response {
    let dashboard = member.app.addresses.dashboard.path();
    let rows = member.memberships().iter().map(|one| WorkspaceRow {
        href: format!("{}/", web::below_workspace(dashboard, one.workspace.id)),
        name: one.workspace.name.clone(),
        role: one.role,
        is_this: one.workspace.id == member.workspace_id(),
    });
    let content = WorkspacesPage {
        layout: member.layout(),
        shell: member.shell("/workspaces"),
        notice: member.notice("renamed", "The workspace has its new name.").filter(|_| status.is_success()),
        may_manage: member.may_manage(),
        workspaces: rows.collect(),
        rename: member.address("/workspaces/rename"),
        rename_hidden: member.hidden(RENAME),
        new_name,
        create: member.address("/workspaces"),
        create_hidden: member.hidden_making(CREATE, member.app.clock.ordered_id::<WorkspaceId>()),
        created_name,
    };
    web::page(status, &content)
}

fn refused(value: String, error: String) -> Field {
    Field { value, error: Some(error) }
}

async fn create(member: Member<Manage>, form: Form) -> PageResult {
    // Whoever holds a session can make its form tokens, so this may be any id. That of nobody's workspace is kept for
    // letters, which only their addressees may read.
    let (id, accepted): (WorkspaceId, _) = member.accept_making(CREATE, &form)?;
    if id.uuid().is_nil() {
        return Err(
            Error::BadRequest { message: "A workspace cannot have this id. Load the page again.".into() }.into()
        );
    }
    let full = || format!("You are in {MOST} workspaces, which is as many as one person can be in.");
    let room = if member.workspaces() < MOST { Ok(()) } else { Err(full()) };
    let name = match room.and_then(|()| read_name(&form.text("name"))) {
        Ok(name) => name,
        Err(error) => {
            let new_name = Field::of(member.membership.workspace.name.clone());
            let name = refused(form.text("name"), error);
            return Ok(page(&member, StatusCode::UNPROCESSABLE_ENTITY, new_name, name));
        }
    };
    let now = member.app.clock.now();
    let batch = Batch::from(team_store::insert_workspace(id, &name, now))
        .and(store::insert_membership(id, member.session.user_id, Some(Role::Owner), now))
        // Its own log begins with who made it.
        .and(audit::note(id, &member.app.clock, &member.entry("workspace.created", Some(id.uuid()), &name)));
    match accepted.noting("workspace.created", id.uuid(), &name).commit(batch).await? {
        Ok(_) | Err(DbError::Duplicate(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let place = web::below_workspace(member.app.addresses.dashboard.path(), id);
    Ok(Redirect::to(&format!("{place}/")).into_response())
}

async fn rename(member: Member<Manage>, form: Form) -> PageResult {
    let accepted = member.accept(RENAME, &form)?;
    let name = match read_name(&form.text("new_name")) {
        Ok(name) => name,
        Err(error) => {
            let new_name = refused(form.text("new_name"), error);
            return Ok(page(&member, StatusCode::UNPROCESSABLE_ENTITY, new_name, Field::default()));
        }
    };
    let workspace = &member.membership.workspace;
    let told = format!("{} → {name}", workspace.name);
    let renamed = store::rename_workspace(workspace.id, &name);
    accepted.noting("workspace.renamed", workspace.id.uuid(), &told).commit(renamed.into()).await??;
    Ok(member.see_other("/workspaces?renamed"))
}
