//! The people of a workspace: who is in it, and what each may do.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use http::StatusCode;

use super::member::{Duty, Look, Manage, Member, Own};
use super::team_store::{self as store, Invitation, LAST_OWNER, Listed, ListedInvitation, REACH};
use super::{Accounts, Role};
use crate::audit;
use crate::db::{DbError, Effect};
use crate::error::Error;
use crate::id::{Id, InvitationId, UserId};
use crate::web::{self, ConfirmPage, Field, Form, Layout, PageResult, PathId, Shell, Stamp};

pub(super) const INVITE: &str = "make invitation";
const LEAVE: &str = "leave the team";

pub fn router() -> Router<Accounts> {
    Router::new()
        .route("/team", get(show))
        .route("/team/leave", get(ask_to_leave).post(leave))
        .route("/team/{id}/role", post(change_role))
        .route("/team/{id}/remove", get(ask_to_remove).post(remove))
        .route("/team/{id}/transfer", get(ask_to_transfer).post(transfer))
}

#[derive(Template)]
#[template(path = "accounts/team.html")]
struct TeamPage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    fresh: Option<Fresh>,
    may_manage: bool,
    action: String,
    hidden: Vec<(String, String)>,
    email: Field,
    role: Role,
    /// What a newcomer can be made.
    roles: Vec<Role>,
    members: Vec<MemberRow>,
    invitations: Vec<InvitationRow>,
    leave_url: String,
}

/// An invitation just made.
pub(super) struct Fresh {
    pub email: String,
    /// Shown this once where no letter carries it: whoever holds it is let in, and that is the one who is invited.
    pub link: Option<String>,
}

struct MemberRow {
    email: String,
    role: Role,
    is_self: bool,
    is_disabled: bool,
    joined: Stamp,
    seen: Option<Stamp>,
    /// Where its role can be changed, what to, and what the form carries.
    change: Option<Change>,
    remove_url: Option<String>,
    transfer_url: Option<String>,
}

struct Change {
    action: String,
    field: String,
    hidden: Vec<(String, String)>,
    roles: Vec<Role>,
}

struct InvitationRow {
    email: String,
    role: Role,
    invited_by: String,
    expires: Stamp,
    is_expired: bool,
    renew: String,
    renew_hidden: Vec<(String, String)>,
    withdraw_url: String,
}

/// What the form for an invitation shows.
pub(super) struct Draft {
    pub email: Field,
    pub role: Role,
    pub fresh: Option<Fresh>,
}

impl Default for Draft {
    fn default() -> Draft {
        Draft { email: Field::default(), role: Role::Member, fresh: None }
    }
}

fn is_owner<D: Duty>(member: &Member<D>) -> bool {
    member.membership.role == Role::Owner
}

/// Nobody gives more than they have.
pub(super) fn givable<D: Duty>(member: &Member<D>) -> Vec<Role> {
    Role::ALL.into_iter().filter(|role| *role <= member.membership.role).collect()
}

async fn show(member: Member<Look>) -> PageResult {
    page(&member, StatusCode::OK, Draft::default()).await
}

pub(super) async fn page<D: Duty>(member: &Member<D>, status: StatusCode, draft: Draft) -> PageResult {
    let members = store::members(&member.app.db, member.workspace_id()).await?;
    let invitations = match member.may_manage() {
        true => store::invitations(&member.app.db, member.workspace_id()).await?,
        false => Vec::new(),
    };
    let notices = [
        ("changed", "The role is changed. It counts from the next request on."),
        ("removed", "The member is taken out of this workspace."),
        ("repeated", "That invitation had been made already. It is in the list below."),
        ("withdrawn", "The invitation is withdrawn. Its link works no more."),
        ("transferred", "The workspace has a new owner. You are an admin of it now."),
        ("joined", "Welcome. You are a member of this workspace now."),
    ];
    let notice = notices.into_iter().find_map(|(done, sentence)| member.notice(done, sentence));
    let content = TeamPage {
        layout: member.layout(),
        shell: member.shell("/team"),
        notice: notice.filter(|_| draft.fresh.is_none() && status.is_success()),
        fresh: draft.fresh,
        may_manage: member.may_manage(),
        action: member.address("/team"),
        hidden: member.hidden_making(INVITE, member.app.clock.ordered_id::<InvitationId>()),
        email: draft.email,
        role: draft.role,
        roles: givable(member),
        members: members.into_iter().map(|one| member_row(member, one)).collect(),
        invitations: invitations.into_iter().map(|one| invitation_row(member, one)).collect(),
        leave_url: member.address("/team/leave"),
    };
    Ok(web::page(status, &content))
}

fn member_row<D: Duty>(member: &Member<D>, listed: Listed) -> MemberRow {
    let now = member.app.clock.now();
    let is_self = listed.id == member.session.user_id;
    let in_reach = member.may_manage() && (is_owner(member) || listed.role != Role::Owner);
    let address = |act: &str| member.address(&format!("/team/{}/{act}", listed.id));
    let change = || Change {
        action: address("role"),
        field: format!("role-{}", listed.id),
        hidden: member.hidden(&purpose("role", listed.id)),
        roles: givable(member),
    };
    let hands_over = is_owner(member) && !is_self && listed.role != Role::Owner && listed.disabled_at.is_none();
    MemberRow {
        change: (in_reach && !is_self).then(change),
        remove_url: (in_reach && !is_self).then(|| address("remove")),
        transfer_url: hands_over.then(|| address("transfer")),
        email: listed.email,
        role: listed.role,
        is_self,
        is_disabled: listed.disabled_at.is_some(),
        joined: Stamp::ago(listed.joined_at, now),
        seen: listed.seen_at.map(|at| Stamp::ago(at, now)),
    }
}

fn invitation_row<D: Duty>(member: &Member<D>, listed: ListedInvitation) -> InvitationRow {
    let Invitation { id, email, role, expires_at, .. } = listed.invitation;
    let address = |act: &str| member.address(&format!("/team/invitations/{id}/{act}"));
    InvitationRow {
        email,
        role,
        invited_by: listed.invited_by.unwrap_or_else(|| "somebody who is gone".into()),
        expires: Stamp::new(expires_at),
        is_expired: expires_at <= member.app.clock.now(),
        renew: address("renew"),
        renew_hidden: member.hidden(&invitation_purpose("renew", id)),
        withdraw_url: address("withdraw"),
    }
}

fn purpose(act: &str, id: UserId) -> String {
    format!("{act} of member {id}")
}

pub(super) fn invitation_purpose(act: &str, id: InvitationId) -> String {
    format!("{act} invitation {id}")
}

fn gone() -> Error {
    Error::not_found("There is no such member here. They may have left, or were taken out already.")
}

pub(super) fn only_owners() -> Error {
    Own::refusal()
}

fn last_owner() -> Error {
    let message = "A workspace needs an owner. Make somebody else the owner first.".into();
    Error::Conflict { message }
}

/// Whoever changes their own role could be left without the right to.
fn not_oneself(member: &Member<Manage>, one: &Listed) -> Result<(), Error> {
    if one.id != member.session.user_id {
        return Ok(());
    }
    let message = "Your own role is changed by somebody else. To go, leave the workspace; to hand it over, make \
                   somebody else the owner.";
    Err(Error::Conflict { message: message.into() })
}

/// What a change of a member came to.
fn settled(outcome: Result<Vec<Effect>, DbError>) -> Result<(), Error> {
    match outcome {
        Ok(_) => Ok(()),
        Err(DbError::Unexpected { statement: REACH }) => Err(only_owners()),
        Err(DbError::Unexpected { statement: LAST_OWNER }) => Err(last_owner()),
        Err(DbError::Unexpected { .. }) => Err(gone()),
        Err(error) => Err(error.into()),
    }
}

async fn find<D: Duty>(member: &Member<D>, id: Result<PathId<UserId>, Error>) -> Result<Listed, Error> {
    let PathId(id) = id.map_err(|_| gone())?;
    store::member(&member.app.db, member.workspace_id(), id).await?.ok_or_else(gone)
}

async fn change_role(member: Member<Manage>, id: Result<PathId<UserId>, Error>, form: Form) -> PageResult {
    let one = find(&member, id).await?;
    let accepted = member.accept(&purpose("role", one.id), &form)?;
    not_oneself(&member, &one)?;
    let role =
        Role::parse(&form.text("role")).filter(|role| givable(&member).contains(role)).ok_or_else(only_owners)?;
    if role == one.role {
        return Ok(member.see_other("/team"));
    }
    let mut batch = store::change_role(member.workspace_id(), one.id, role, is_owner(&member), &member.app.clock);
    if is_owner(&member) {
        batch = batch.fence(store::owns(member.workspace_id(), member.session.user_id));
    }
    let told = format!("{}: {} → {}", one.email, one.role.as_str(), role.as_str());
    settled(accepted.noting("member.role_changed", one.id.uuid(), &told).commit(batch).await?)?;
    Ok(member.see_other("/team?changed"))
}

async fn ask_to_remove(member: Member<Manage>, id: Result<PathId<UserId>, Error>) -> PageResult {
    let one = find(&member, id).await?;
    let sentence = "They lose access at once, and apps that they let in here end. What they made stays. Their account \
                    and their other workspaces are not touched.";
    Ok(confirm(&member, "Remove this member?", &one, sentence, "remove", "Remove"))
}

async fn remove(member: Member<Manage>, id: Result<PathId<UserId>, Error>, form: Form) -> PageResult {
    let one = find(&member, id).await?;
    let accepted = member.accept(&purpose("remove", one.id), &form)?;
    not_oneself(&member, &one)?;
    let mut batch = store::remove(member.workspace_id(), one.id, is_owner(&member), &member.app.clock);
    // Who owns it no more, as of this moment, decides about no owner.
    if is_owner(&member) {
        batch = batch.fence(store::owns(member.workspace_id(), member.session.user_id));
    }
    settled(accepted.noting("member.removed", one.id.uuid(), &one.email).commit(batch).await?)?;
    Ok(member.see_other("/team?removed"))
}

async fn ask_to_transfer(member: Member<Own>, id: Result<PathId<UserId>, Error>) -> PageResult {
    let one = find(&member, id).await?;
    let sentence = "They become owner of this workspace, and you become admin. Only an owner can undo this.";
    Ok(confirm(&member, "Transfer ownership?", &one, sentence, "transfer", "Transfer"))
}

async fn transfer(member: Member<Own>, id: Result<PathId<UserId>, Error>, form: Form) -> PageResult {
    let member = member.managing();
    let one = find(&member, id).await?;
    let accepted = member.accept(&purpose("transfer", one.id), &form)?;
    if one.id == member.session.user_id || one.disabled_at.is_some() {
        let refusal = "Ownership goes to another member, whose account is not disabled. Choose one of them.";
        return Err(Error::Conflict { message: refusal.into() }.into());
    }
    let batch = store::transfer(member.workspace_id(), member.session.user_id, one.id);
    match accepted.noting("workspace.transferred", one.id.uuid(), &one.email).commit(batch).await? {
        Err(DbError::Unexpected { .. }) => Err(gone().into()),
        outcome => outcome.map(|_| member.see_other("/team?transferred")).map_err(Into::into),
    }
}

fn confirm<D: Duty>(
    member: &Member<D>,
    title: &str,
    one: &Listed,
    sentence: &str,
    act: &str,
    button: &str,
) -> Response {
    let content = ConfirmPage {
        layout: member.layout(),
        shell: member.shell("/team"),
        title: title.into(),
        subject: one.email.clone(),
        sentence: sentence.into(),
        action: member.address(&format!("/team/{}/{act}", one.id)),
        hidden: member.hidden(&purpose(act, one.id)),
        button: button.into(),
        cancel: member.address("/team"),
    };
    web::page(StatusCode::OK, &content)
}

async fn ask_to_leave(member: Member<Look>) -> PageResult {
    let content = ConfirmPage {
        layout: member.layout(),
        shell: member.shell("/team"),
        title: "Leave this workspace?".into(),
        subject: member.membership.workspace.name.clone(),
        sentence: "You lose access at once, and apps that you let in here end. To come back you need an invitation."
            .into(),
        action: member.address("/team/leave"),
        hidden: member.hidden(LEAVE),
        button: "Leave".into(),
        cancel: member.address("/team"),
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn leave(State(app): State<Accounts>, member: Member<Look>, form: Form) -> PageResult {
    let (workspace_id, user_id) = (member.workspace_id(), member.session.user_id);
    let mut batch = store::remove(workspace_id, user_id, true, &app.clock);
    batch.push(audit::note(
        workspace_id,
        &app.clock,
        &member.entry("member.left", Some(user_id.uuid()), &member.session.email),
    ));
    settled(member.commit_own(LEAVE, &form, batch).await?)?;
    Ok(Redirect::to(&format!("{}/", app.addresses.dashboard.path())).into_response())
}
