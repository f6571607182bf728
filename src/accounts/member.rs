//! The member: somebody who is logged in, at work in a workspace. Every
//! page of a workspace begins with one, so that none can forget to ask whether
//! its visitor belongs there.

use std::fmt::Display;
use std::marker::PhantomData;
use std::net::IpAddr;

use askama::Template;
use axum::Router;
use axum::extract::{FromRef, FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::post;
use futures_util::future::BoxFuture;
use http::StatusCode;
use http::header::SET_COOKIE;
use http::request::Parts;
use uuid::Uuid;

use super::Accounts;
use super::Role;
use super::store::{self, Membership};
use crate::app::App;
use crate::audit::{self, Entry};
use crate::auth::{self, Actor, Session, Settled};
use crate::db::{Batch, DbError, Effect, FromRows, Row, Stmt};
use crate::error::Error;
use crate::hold::Hold;
use crate::id::{DomainId, GrantId, WorkspaceId};
use crate::web::{self, Choice, Form, Layout, NamedWorkspace, Page, PageResult, Params, RECENT, Sender, Sent, Shell};

/// Remembers in which workspace a visitor is. It gives no right to any.
const WORKSPACE: &str = "posthorn-workspace";
const WORKSPACE_AGE: i64 = 365 * 86_400;

/// What a page asks of its visitor's role.
pub trait Duty: Send + Sync + 'static {
    fn falls_to(role: Role) -> bool;

    /// What the others are told.
    fn refusal() -> Error {
        not_yours()
    }
}

/// Seeing what is there: every member.
pub struct Look;

/// Changing who and what has access: owners and admins.
pub struct Manage;

/// Deciding who owns the workspace: owners.
pub(super) struct Own;

impl Duty for Look {
    fn falls_to(_: Role) -> bool {
        true
    }
}

impl Duty for Manage {
    fn falls_to(role: Role) -> bool {
        role.may_grant()
    }
}

impl Duty for Own {
    fn falls_to(role: Role) -> bool {
        role == Role::Owner
    }

    fn refusal() -> Error {
        let message = "Only an owner of this workspace decides who owns it. Ask one of them.".into();
        Error::Forbidden { message }
    }
}

pub struct Member<D> {
    pub app: App,
    pub session: Session,
    pub membership: Membership,
    /// Every workspace of the visitor, this one among them.
    memberships: Vec<Membership>,
    hold: Option<Hold>,
    /// What was asked for within the workspace, and from where.
    pub(super) path: String,
    query: String,
    sender: Option<IpAddr>,
    duty: PhantomData<D>,
}

impl<D: Duty, S: Send + Sync> FromRequestParts<S> for Member<D>
where
    App: FromRef<S>,
{
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Member<D>, Response> {
        let app = &App::from_ref(state);
        let session = Session::from_request_parts(parts, state).await?;
        let refused = |error: DbError| web::error_page(app, &error.into());
        let memberships = store::memberships(&app.db, session.user_id).await.map_err(refused)?;
        let hold = Hold::find(&app.db).await.map_err(refused)?;
        let last = auth::read_cookie(app, &parts.headers, WORKSPACE);
        let Some(usual) = choose(&memberships, last) else { return Err(nowhere(app, &session)) };
        let dashboard = app.addresses.dashboard.path();
        let Some(NamedWorkspace(named)) = parts.extensions.get().copied() else {
            // An address from before they named the workspace, or the dashboard's own.
            let place = web::below_workspace(dashboard, usual.workspace.id);
            return Err(
                Redirect::temporary(&format!("{place}{}", web::rest_of_address(parts, dashboard))).into_response()
            );
        };
        let Some(membership) = memberships.iter().find(|one| one.workspace.id == named).cloned() else {
            return Err(web::error_page(app, &Error::not_found("There is no such workspace among yours.")));
        };
        if !D::falls_to(membership.role) {
            return Err(web::error_page(app, &D::refusal()));
        }
        let query = parts.uri.query().unwrap_or_default().to_owned();
        let path = web::rest_of_address(parts, dashboard);
        let sender = parts.extensions.get::<Sender>().map(|Sender(address)| *address);
        Ok(Member { app: app.clone(), session, membership, memberships, hold, path, query, sender, duty: PhantomData })
    }
}

impl Member<Own> {
    /// An owner manages as well.
    pub(super) fn managing(self) -> Member<Manage> {
        let Member { app, session, membership, memberships, hold, path, query, sender, .. } = self;
        Member { app, session, membership, memberships, hold, path, query, sender, duty: PhantomData }
    }
}

/// The workspace that was asked for, if the visitor is a member of it; else the
/// first that was joined.
fn choose<'a>(memberships: &'a [Membership], wanted: Option<&str>) -> Option<&'a Membership> {
    let wanted = wanted.and_then(|id| id.parse().ok());
    let named = memberships.iter().find(|one| Some(one.workspace.id) == wanted);
    named.or(memberships.first())
}

pub(super) fn not_yours() -> Error {
    let message = "Only owners and admins of this workspace may do this. Ask one of them.".into();
    Error::Forbidden { message }
}

impl<D: Duty> Member<D> {
    pub fn workspace_id(&self) -> WorkspaceId {
        self.membership.workspace.id
    }

    /// Every workspace of the visitor, the first joined first.
    pub fn memberships(&self) -> &[Membership] {
        &self.memberships
    }

    /// Where the request came from, as far as the configured proxies can be believed.
    pub fn sender(&self) -> Option<IpAddr> {
        self.sender
    }

    /// How many workspaces the visitor is in.
    pub fn workspaces(&self) -> usize {
        self.memberships.len()
    }

    /// Whether the visitor may do more than look.
    pub fn may_manage(&self) -> bool {
        Manage::falls_to(self.membership.role)
    }

    pub fn layout(&self) -> Layout {
        Layout::workspace(&self.app, self.workspace_id())
    }

    /// The address of a page of this workspace.
    pub fn address(&self, path: &str) -> String {
        format!("{}{path}", web::below_workspace(self.app.addresses.dashboard.path(), self.workspace_id()))
    }

    /// The frame of the page at `current`.
    pub fn shell(&self, current: &str) -> Shell {
        let choice = |one: &Membership| Choice {
            id: one.workspace.id,
            name: one.workspace.name.clone(),
            current: one.workspace.id == self.membership.workspace.id,
        };
        let several = self.memberships.len() > 1;
        let token = |purpose| vec![("token".to_owned(), self.session.form_token(purpose))];
        Shell {
            workspace: self.membership.workspace.name.clone(),
            workspaces: self.memberships.iter().filter(|_| several).map(choice).collect(),
            email: self.session.email.clone(),
            hold: self.hold.as_ref().map(Hold::sentence),
            docs: format!("{}/docs", self.app.addresses.base.as_str()),
            places: web::places(current, self.may_manage()),
            hidden: token("logout"),
            switch_hidden: token("workspace"),
        }
    }

    /// Which part of a list was asked for.
    pub fn page(&self) -> Result<Page, Error> {
        Page::parse(&self.query, RECENT)
    }

    /// A parameter of the address, if it is there once and can be read.
    pub fn asked(&self, name: &str) -> Option<String> {
        Params::parse(&self.query).text(name).ok().map(std::borrow::Cow::into_owned)
    }

    /// What to say of what was just done, as the address tells it.
    pub fn notice(&self, done: &str, sentence: &str) -> Option<String> {
        let told = Params::parse(&self.query).sent(done) != Sent::Absent;
        told.then(|| sentence.to_owned())
    }

    pub async fn read(&self, stmt: Stmt) -> Result<Vec<Row>, Error> {
        Ok(self.app.db.read(stmt).await?)
    }

    /// Reads what a statement finds, and makes of it what is wanted.
    pub async fn query<R: FromRows>(&self, stmt: Stmt) -> Result<R, Error> {
        Ok(self.app.db.query(stmt).await?)
    }

    /// After a form, the browser gets the next page.
    pub fn see_other(&self, path: &str) -> Response {
        Redirect::to(&self.address(path)).into_response()
    }

    /// A form is good for this session, this purpose and this workspace.
    pub(super) fn purpose(&self, purpose: &str) -> String {
        format!("{purpose} in {}", self.workspace_id())
    }
}

impl<D: Duty> Member<D> {
    /// The hidden fields of a form for this purpose.
    pub fn hidden(&self, purpose: &str) -> Vec<(String, String)> {
        vec![("token".to_owned(), self.session.form_token(&self.purpose(purpose)))]
    }

    /// The hidden fields of a form that makes something. They carry the id of what is made: sent twice, the form makes
    /// one. [`DbError::Duplicate`] then says that it is there.
    pub fn hidden_making(&self, act: &str, id: impl Display) -> Vec<(String, String)> {
        let mut hidden = self.hidden(&format!("{act} {id}"));
        hidden.push(("id".to_owned(), id.to_string()));
        hidden
    }

    /// Refuses a form that was not made here for this purpose.
    pub fn check_form(&self, purpose: &str, form: &Form) -> Result<(), Error> {
        self.session.check_form(&self.purpose(purpose), &form.text("token"))
    }

    /// The same, and commits what every member may do, as of oneself.
    pub async fn commit_own(
        &self,
        purpose: &str,
        form: &Form,
        batch: Batch,
    ) -> Result<Result<Vec<Effect>, DbError>, Error> {
        self.check_form(purpose, form)?;
        match self.app.db.commit(batch.fence(auth::session_stands(&self.session.hash))).await {
            Err(DbError::Stale) => Err(signed_out()),
            settled => Ok(settled),
        }
    }

    /// What the visitor does, for the log.
    pub fn entry<'e>(&self, action: &'e str, target_id: Option<Uuid>, target: &'e str) -> Entry<'e> {
        let actor = audit::DoneBy::Person(self.session.user_id);
        Entry { target_id, target, address: self.sender, ..Entry::new(action, actor) }
    }
}

pub(super) fn signed_out() -> Error {
    Error::Forbidden { message: "You were signed out, just now. Log in and try again.".into() }
}

/// For what pages only read.
impl<D: Duty> Actor for Member<D> {
    fn workspace_id(&self) -> WorkspaceId {
        self.workspace_id()
    }

    fn grant_id(&self) -> Option<GrantId> {
        None
    }

    fn domain_id(&self) -> Option<DomainId> {
        None
    }

    fn read_with<'a>(&'a self, stmt: &'a (dyn Fn() -> Stmt + Sync)) -> BoxFuture<'a, Result<Vec<Row>, Error>> {
        Box::pin(self.read(stmt()))
    }

    fn commit_once(&self, _: Batch) -> BoxFuture<'_, Settled> {
        Box::pin(async { Err(not_yours()) })
    }
}

pub fn router() -> Router<Accounts> {
    Router::new().route("/workspace", post(switch))
}

/// Goes to another workspace of the visitor.
async fn switch(State(app): State<App>, session: Session, form: Form) -> PageResult {
    session.check_form("workspace", &form.text("token"))?;
    let wanted = form.text("workspace").parse().ok();
    let memberships = store::memberships(&app.db, session.user_id).await?;
    let found = memberships.iter().find(|one| Some(one.workspace.id) == wanted);
    let workspace = &found.ok_or(Error::not_found("There is no such workspace among yours."))?.workspace;
    let place = web::below_workspace(app.addresses.dashboard.path(), workspace.id);
    let mut response = Redirect::to(&format!("{place}/")).into_response();
    let cookie = auth::cookie(&app, WORKSPACE, &workspace.id.to_string(), WORKSPACE_AGE);
    response.headers_mut().append(SET_COOKIE, cookie);
    Ok(response)
}

/// The page where nothing is.
pub async fn no_such_page() -> PageResult {
    Err(Error::not_found("There is no page at this address.").into())
}

/// Makes a page of the error that a page ended in. Whoever is in a workspace stays there.
pub async fn show_errors(State(app): State<App>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let mut asked = parts.clone();
    let mut response = next.run(Request::from_parts(parts, body)).await;
    let Some(error) = web::error_of(&mut response) else { return response };
    if error.status().is_client_error()
        && asked.extensions.get::<NamedWorkspace>().is_some()
        && let Ok(member) = Member::<Look>::from_request_parts(&mut asked, &app).await
    {
        return web::error_page_inside(member.layout(), member.shell(""), &error);
    }
    web::error_page(&app, &error)
}

#[derive(Template)]
#[template(path = "accounts/nowhere.html")]
struct NowherePage {
    layout: Layout,
    email: String,
    hidden: Vec<(String, String)>,
}

/// For somebody whom every workspace has let go.
fn nowhere(app: &App, session: &Session) -> Response {
    let content = NowherePage {
        layout: Layout::dashboard(app),
        email: session.email.clone(),
        hidden: vec![("token".into(), session.form_token("logout"))],
    };
    web::page(StatusCode::FORBIDDEN, &content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::Workspace;

    fn member_of(ids: &[WorkspaceId]) -> Vec<Membership> {
        let one = |id: &WorkspaceId| Membership {
            workspace: Workspace { id: *id, name: format!("Workspace {id}") },
            role: Role::Member,
        };
        ids.iter().map(one).collect()
    }

    #[test]
    fn the_workspace_is_always_one_of_the_visitors_own() {
        let [a, b, c] = [1, 2, 3].map(|number| WorkspaceId::from(uuid::Uuid::from_u128(number)));
        let own = member_of(&[a, b]);
        let chosen = |wanted: Option<&str>| choose(&own, wanted).map(|one| one.workspace.id);
        assert_eq!(chosen(Some(&b.to_string())), Some(b));
        assert_eq!(chosen(Some(&c.to_string())), Some(a));
        assert_eq!(chosen(Some("no id")), Some(a));
        assert_eq!(chosen(None), Some(a));
        assert!(choose(&[], Some(&c.to_string())).is_none());
    }

    #[test]
    fn members_look_and_only_owners_and_admins_manage() {
        assert!([Role::Member, Role::Admin, Role::Owner].into_iter().all(Look::falls_to));
        assert!(!Manage::falls_to(Role::Member));
        assert!(Manage::falls_to(Role::Admin) && Manage::falls_to(Role::Owner));
    }
}
