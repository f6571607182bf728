//! Accepting an invitation: it makes an account, or takes one that there is into the workspace.

use std::net::IpAddr;

use askama::Template;
use axum::Router;
use axum::extract::{Extension, Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use http::header::SET_COOKIE;
use http::{HeaderMap, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::device::Device;
use super::member::signed_out;
use super::team_store::{self, Invitation, ListedInvitation};
use super::{AccountError, Accounts, EmailAddress, Password, Workspace, store};
use crate::audit::{self, DoneBy, Entry};
use crate::auth::{self, Asker, Origin, Session};
use crate::db::{Batch, DbError};
use crate::error::Error;
use crate::id::Id;
use crate::secret;
use crate::web::{self, Field, Form, Layout, PageResult, Sender};

pub fn router() -> Router<Accounts> {
    Router::new().route("/invitation/{token}", get(show).post(accept))
}

#[derive(Template)]
#[template(path = "accounts/invitation.html")]
struct InvitationPage {
    layout: Layout,
    workspace: String,
    role: String,
    invited_by: Option<String>,
    email: String,
    action: String,
    visitor: Visitor,
    password: Field,
    password_again: Field,
}

/// Who has opened the link.
enum Visitor {
    /// The one who is invited, logged in.
    Invited {
        hidden: Vec<(String, String)>,
    },
    /// Somebody else.
    Other {
        email: String,
        hidden: Vec<(String, String)>,
    },
    /// Nobody who is logged in, and the one who is invited has an account.
    Known {
        login_url: String,
    },
    New,
}

fn over() -> Error {
    Error::not_found(
        "This invitation was accepted or withdrawn, or has ended after its seven days. Ask whoever invited you for a \
         new link.",
    )
}

async fn find(app: &Accounts, token: &str) -> Result<ListedInvitation, Error> {
    let found = team_store::find_invitation(&app.db, &secret::hash(token)).await?;
    found.filter(|one| one.invitation.expires_at > app.clock.now()).ok_or_else(over)
}

fn purpose(invitation: &Invitation) -> String {
    format!("join by invitation {}", invitation.id)
}

async fn show(State(app): State<Accounts>, headers: HeaderMap, Path(token): Path<String>) -> PageResult {
    let found = find(&app, &token).await?;
    let session = auth::find_session(&app, &headers).await?;
    page(&app, StatusCode::OK, &token, found, session.as_ref(), [None, None]).await
}

async fn page(
    app: &Accounts,
    status: StatusCode,
    token: &str,
    found: ListedInvitation,
    session: Option<&Session>,
    [password, password_again]: [Option<String>; 2],
) -> PageResult {
    let invitation = &found.invitation;
    let key = invitation.email.to_lowercase();
    let hidden = |session: &Session, purpose: &str| vec![("token".to_owned(), session.form_token(purpose))];
    let dashboard = app.addresses.dashboard.path();
    let visitor = match session {
        Some(session) if session.email.to_lowercase() == key => {
            Visitor::Invited { hidden: hidden(session, &purpose(invitation)) }
        }
        Some(session) => Visitor::Other { email: session.email.clone(), hidden: hidden(session, "logout") },
        None if store::find_user(&app.db, &key).await?.is_some() => {
            let next = format!("{dashboard}/invitation/{token}");
            let next = utf8_percent_encode(&next, NON_ALPHANUMERIC);
            Visitor::Known { login_url: format!("{dashboard}/login?next={next}") }
        }
        None => Visitor::New,
    };
    let field = |error| Field { value: String::new(), error };
    let content = InvitationPage {
        layout: Layout::dashboard(app),
        workspace: found.workspace,
        role: found.invitation.role.to_string(),
        invited_by: found.invited_by,
        email: found.invitation.email,
        action: format!("{dashboard}/invitation/{token}"),
        visitor,
        password: field(password),
        password_again: field(password_again),
    };
    Ok(web::page(status, &content))
}

async fn accept(
    State(app): State<Accounts>,
    Extension(Sender(sender)): Extension<Sender>,
    headers: HeaderMap,
    Path(token): Path<String>,
    form: Form,
) -> PageResult {
    let found = find(&app, &token).await?;
    match auth::find_session(&app, &headers).await? {
        Some(session) => join(&app, sender, &token, found, &session, &form).await,
        None => make_account(&app, sender, &headers, &token, found, &form).await,
    }
}

/// Takes whoever is logged in into the workspace.
async fn join(
    app: &Accounts,
    sender: IpAddr,
    token: &str,
    found: ListedInvitation,
    session: &Session,
    form: &Form,
) -> PageResult {
    let invitation = &found.invitation;
    session.check_form(&purpose(invitation), &form.text("token"))?;
    if session.email.to_lowercase() != invitation.email.to_lowercase() {
        return Err(Error::Forbidden { message: "This invitation is for somebody else.".into() }.into());
    }
    let now = app.clock.now();
    let actor = DoneBy::Person(session.user_id);
    let entry =
        Entry { target_id: Some(session.user_id.uuid()), address: Some(sender), ..Entry::new("member.joined", actor) };
    let batch = Batch::from(team_store::use_invitation(&secret::hash(token), now))
        .and(store::insert_membership(invitation.workspace_id, session.user_id, Some(invitation.role), now))
        .and(audit::note(invitation.workspace_id, &app.clock, &entry))
        .fence(auth::session_stands(&session.hash));
    match app.db.commit(batch).await {
        Ok(_) | Err(DbError::Duplicate(_)) => Ok(to_team(app, invitation)),
        Err(DbError::Unexpected { .. }) => Err(over().into()),
        Err(DbError::Stale) => Err(signed_out().into()),
        Err(error) => Err(error.into()),
    }
}

fn to_team(app: &Accounts, invitation: &Invitation) -> Response {
    let place = web::below_workspace(app.addresses.dashboard.path(), invitation.workspace_id);
    Redirect::to(&format!("{place}/team?joined")).into_response()
}

async fn make_account(
    app: &Accounts,
    sender: IpAddr,
    headers: &HeaderMap,
    token: &str,
    found: ListedInvitation,
    form: &Form,
) -> PageResult {
    let typed: Result<Password, _> = form.text("password").parse();
    let (password, faults) = match typed {
        Err(error) => (None, [Some(format!("This does not do: {error}.")), None]),
        Ok(_) if form.text("password") != form.text("password_again") => {
            (None, [None, Some("The two passwords differ.".into())])
        }
        Ok(password) => (Some(password), [None, None]),
    };
    let Some(password) = password else {
        return page(app, StatusCode::UNPROCESSABLE_ENTITY, token, found, None, faults).await;
    };
    let invitation = &found.invitation;
    let email: EmailAddress = invitation.email.parse().map_err(|_| over())?;
    let hash = app.hasher.hash(Asker::Known(token.to_owned()), password.as_str().to_owned()).await?;
    let workspace = Workspace { id: invitation.workspace_id, name: found.workspace.clone() };
    let (user, account) = super::new_user(&app.clock, &email, &hash, &workspace, invitation.role);
    let entry = Entry {
        target_id: Some(user.id.uuid()),
        address: Some(sender),
        ..Entry::new("member.joined", DoneBy::LinkHolder(user.id))
    };
    let (session, cookie) = auth::start_session_from(app, user.id, Origin::of(sender, headers));
    let (remembered, device) = Device::default().remember(app, user.id);
    let mut batch = account;
    batch.push(team_store::use_invitation(&secret::hash(token), app.clock.now()));
    batch.push(audit::note(invitation.workspace_id, &app.clock, &entry));
    batch.push(session);
    batch.append(remembered);
    match super::create_user(&app.db, batch).await {
        Ok(()) => {
            let mut response = to_team(app, invitation);
            response.headers_mut().extend([cookie, device].map(|cookie| (SET_COOKIE, cookie)));
            Ok(response)
        }
        // Somebody was faster: the page says what to do now.
        Err(AccountError::Taken) => Ok(Redirect::to(&app.link(&format!("/invitation/{token}"))).into_response()),
        Err(AccountError::Store(DbError::Unexpected { .. })) => Err(over().into()),
        Err(AccountError::Store(error)) => Err(error.into()),
    }
}
