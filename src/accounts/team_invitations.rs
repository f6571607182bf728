//! Who is asked to join a workspace.

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use http::StatusCode;

use super::member::{Manage, Member};
use super::team::{Draft, Fresh, INVITE, givable, invitation_purpose, only_owners, page};
use super::team_store::{self as store, Invitation, ListedInvitation};
use super::{Accounts, EmailAddress, Role};
use crate::clock::DAY;
use crate::db::{Batch, DbError, Stmt};
use crate::error::{Error, OrMissing};
use crate::id::{Id, InvitationId, UserId};
use crate::secret;
use crate::web::{self, ConfirmPage, Field, Form, PageResult, PathId};

/// How long an invitation can be accepted.
const LIFETIME: i64 = 7 * DAY;

pub fn router() -> Router<Accounts> {
    Router::new()
        .route("/team", post(invite))
        .route("/team/invitations/{id}/renew", post(renew))
        .route("/team/invitations/{id}/withdraw", get(ask_to_withdraw).post(withdraw))
}

async fn invite(State(app): State<Accounts>, member: Member<Manage>, form: Form) -> PageResult {
    let (id, accepted): (InvitationId, _) = member.accept_making(INVITE, &form)?;
    let typed = form.text("email");
    let role = Role::parse(&form.text("role")).unwrap_or(Role::Member);
    let again = async |error: &str| {
        let email = Field { value: typed.trim().to_owned(), error: Some(error.to_owned()) };
        page(&member, StatusCode::UNPROCESSABLE_ENTITY, Draft { email, role, fresh: None }).await
    };
    let Ok(email) = typed.parse::<EmailAddress>() else {
        return again("This is not a whole e-mail address, such as name@example.com.").await;
    };
    if !givable(&member).contains(&role) {
        return Err(only_owners().into());
    }
    let members = store::members(&app.db, member.workspace_id()).await?;
    if members.iter().any(|one| one.email.to_lowercase() == email.key()) {
        return again("This person is a member already.").await;
    }
    has_room(&app, &member)?;
    let (batch, fresh) = prepare(&app, &member, store::invite, (id, &email), role);
    match accepted.noting("member.invited", id.uuid(), email.as_str()).commit(batch).await? {
        Err(DbError::Unexpected { statement: 0 }) => return Ok(member.see_other("/team?repeated")),
        Err(DbError::Duplicate(_)) => {
            return again("This form has invited somebody else already. Send it once more for this person.").await;
        }
        settled => drop(settled?),
    }
    app.wake_mail();
    page(&member, StatusCode::OK, Draft { fresh: Some(fresh), ..Draft::default() }).await
}

/// Invitations are letters to anybody at all, in the name of the server.
fn has_room(app: &Accounts, member: &Member<Manage>) -> Result<(), Error> {
    let has_room = app.attempts.invitations.has_room(&member.session.user_id);
    if has_room { Ok(()) } else { Err(Error::RateLimited { retry_after: 60 }) }
}

/// An invitation with its letter, and what to show of it.
fn prepare(
    app: &Accounts,
    member: &Member<Manage>,
    statement: fn(&Invitation, &[u8; 32], &str, UserId, i64) -> Stmt,
    (id, email): (InvitationId, &EmailAddress),
    role: Role,
) -> (Batch, Fresh) {
    let (token, now) = (secret::token(), app.clock.now());
    let workspace = &member.membership.workspace;
    let new =
        Invitation { id, workspace_id: workspace.id, email: email.as_str().into(), role, expires_at: now + LIFETIME };
    let link = app.link(&format!("/invitation/{token}"));
    let text = format!(
        "{from} invites you to join the workspace \"{name}\" at Posthorn, as {role}.\n\nOpen this link to accept. It \
         works once, for seven days:\n\n{link}\n\nIf you did not expect this, ignore it: nothing happens without you.\n",
        from = member.session.email,
        name = workspace.name,
        role = role.as_str(),
    );
    let mut batch = Batch::from(statement(&new, &secret::hash(&token), &email.key(), member.session.user_id, now));
    if role == Role::Owner {
        batch.guard(store::owns(workspace.id, member.session.user_id));
    }
    let letter = app.letters.write(email, &format!("Join {} at Posthorn", workspace.name), &text);
    let is_sent = app.sends_mail() && !letter.is_empty();
    batch.append(letter);
    (batch, Fresh { email: email.as_str().into(), link: (!is_sent).then_some(link) })
}

async fn find_invitation(member: &Member<Manage>, id: InvitationId) -> Result<ListedInvitation, Error> {
    let all = store::invitations(&member.app.db, member.workspace_id()).await?;
    all.into_iter().find(|one| one.invitation.id == id).ok_or_else(no_invitation)
}

fn no_invitation() -> Error {
    Error::not_found("There is no such invitation here. It may have been accepted or withdrawn.")
}

/// The link is kept as a hash: whoever needs it once more gets another, and the earlier one ends.
async fn renew(
    State(app): State<Accounts>,
    member: Member<Manage>,
    id: Result<PathId<InvitationId>, Error>,
    form: Form,
) -> PageResult {
    let PathId(id) = id.map_err(|_| no_invitation())?;
    let accepted = member.accept(&invitation_purpose("renew", id), &form)?;
    let Invitation { email, role, .. } = find_invitation(&member, id).await?.invitation;
    if !givable(&member).contains(&role) {
        return Err(only_owners().into());
    }
    let address: EmailAddress = email.parse().map_err(|_| no_invitation())?;
    has_room(&app, &member)?;
    let (batch, fresh) = prepare(&app, &member, store::renew, (id, &address), role);
    accepted.noting("invitation.renewed", id.uuid(), &email).commit(batch).await?.or_missing(no_invitation)?;
    app.wake_mail();
    page(&member, StatusCode::OK, Draft { fresh: Some(fresh), ..Draft::default() }).await
}

async fn ask_to_withdraw(member: Member<Manage>, id: Result<PathId<InvitationId>, Error>) -> PageResult {
    let PathId(id) = id.map_err(|_| no_invitation())?;
    let Invitation { email, .. } = find_invitation(&member, id).await?.invitation;
    let content = ConfirmPage {
        layout: member.layout(),
        shell: member.shell("/team"),
        title: "Withdraw this invitation?".into(),
        subject: email,
        sentence: "Its link works no more, at once. Whoever should still join needs another invitation.".into(),
        action: member.address(&format!("/team/invitations/{id}/withdraw")),
        hidden: member.hidden(&invitation_purpose("withdraw", id)),
        button: "Withdraw".into(),
        cancel: member.address("/team"),
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn withdraw(member: Member<Manage>, id: Result<PathId<InvitationId>, Error>, form: Form) -> PageResult {
    let PathId(id) = id.map_err(|_| no_invitation())?;
    let accepted = member.accept(&invitation_purpose("withdraw", id), &form)?;
    match accepted.commit(store::withdraw(member.workspace_id(), id).into()).await? {
        Err(DbError::Unexpected { .. }) => Err(no_invitation().into()),
        settled => settled.map(|_| member.see_other("/team?withdrawn")).map_err(Into::into),
    }
}
