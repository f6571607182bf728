//! The one-time link that gives a new instance its owner.

use std::net::IpAddr;

use askama::Template;
use axum::Router;
use axum::extract::{Extension, Path, Request, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use http::header::SET_COOKIE;
use http::{HeaderValue, StatusCode};

use super::Accounts;
use super::device::Device;
use super::workspaces::read_name;
use super::{AccountError, EmailAddress, Password, Role, Workspace, store};
use crate::audit::{self, DoneBy, Entry};
use crate::auth::{self, Asker, Origin};
use crate::clock::{Clock, HOUR};
use crate::db::{Batch, Db, DbError, Stmt};
use crate::error::Error;
use crate::id::Id;
use crate::secret;
use crate::web::{self, Field, Layout, PageResult, Params, Sender};

/// Links that nobody followed are forgotten after this long.
const LIFETIME: i64 = 30 * 24 * HOUR;

/// Makes a link where there is no user yet, and tells its secret part.
pub async fn new_link(db: &Db, clock: &Clock) -> anyhow::Result<Option<String>> {
    if store::any_user(db).await? {
        return Ok(None);
    }
    let token = secret::token();
    let now = clock.now();
    let batch = Batch::new()
        .and(store::delete_setup_links(now - LIFETIME))
        .and(store::insert_setup_link(&secret::hash(&token), now));
    db.commit(batch).await?;
    Ok(Some(token))
}

pub fn router() -> Router<Accounts> {
    Router::new().route("/setup/{token}", get(show).post(submit))
}

#[derive(Template)]
#[template(path = "accounts/setup.html")]
struct SetupPage {
    layout: Layout,
    action: String,
    hidden: Vec<(String, String)>,
    form: Form,
}

/// What was typed, and what is wrong with it.
#[derive(Default)]
struct Form {
    workspace: Field,
    email: Field,
    password: Field,
    password_again: Field,
    error: Option<String>,
}

async fn show(State(app): State<Accounts>, Path(token): Path<String>) -> PageResult {
    open(&app, &token).await?;
    Ok(page(&app, &token, StatusCode::OK, Form::default()))
}

async fn submit(
    State(app): State<Accounts>,
    Extension(Sender(sender)): Extension<Sender>,
    Path(token): Path<String>,
    request: Request,
) -> PageResult {
    Ok(match try_submit(&app, sender, &token, request).await? {
        Ok(cookies) => {
            let mut response = Redirect::to(&format!("{}/", app.addresses.dashboard.path())).into_response();
            response.headers_mut().extend(cookies.map(|cookie| (SET_COOKIE, cookie)));
            response
        }
        Err(form) => page(&app, &token, StatusCode::UNPROCESSABLE_ENTITY, form),
    })
}

async fn open(app: &Accounts, token: &str) -> Result<(), Error> {
    let known = store::setup_link_is_open(&app.db, &secret::hash(token)).await?;
    known.then_some(()).ok_or_else(used_up)
}

fn used_up() -> Error {
    Error::not_found(
        "This set-up link was used already, or was never given out. If the server has no owner yet, restart it: it \
         prints a new link.",
    )
}

async fn try_submit(
    app: &Accounts,
    sender: IpAddr,
    token: &str,
    request: Request,
) -> Result<Result<[HeaderValue; 2], Form>, Error> {
    open(app, token).await?;
    let (parts, body) = request.into_parts();
    let body = web::read_body(&parts.headers, body, 16 << 10).await?;
    let params = Params::parse(&body);
    let typed = |name| params.text(name).map(|text| text.into_owned()).unwrap_or_default();
    match Owner::read(&typed) {
        Err(form) => Ok(Err(*form)),
        Ok(owner) => owner.create(app, Origin::of(sender, &parts.headers), token).await,
    }
}

/// The first person and the first workspace.
struct Owner {
    workspace: String,
    email: EmailAddress,
    password: Password,
}

impl Owner {
    fn read(typed: &impl Fn(&'static str) -> String) -> Result<Owner, Box<Form>> {
        let mut form = Form::default();
        form.workspace.value = typed("workspace").trim().to_owned();
        form.email.value = typed("email").trim().to_owned();
        let workspace = &form.workspace.value;
        form.workspace.error = read_name(workspace).err();
        let email: Result<EmailAddress, _> = form.email.value.parse();
        let password: Result<Password, _> = typed("password").parse();
        if email.is_err() {
            form.email.error = Some("This is not a whole e-mail address.".into());
        }
        if let Err(error) = &password {
            form.password.error = Some(format!("This does not do: {error}."));
        } else if typed("password") != typed("password_again") {
            form.password_again.error = Some("The two passwords differ.".into());
        }
        let faulty = form.workspace.error.is_some() || form.password_again.error.is_some();
        match (email, password) {
            (Ok(email), Ok(password)) if !faulty => Ok(Owner { workspace: form.workspace.value, email, password }),
            _ => Err(Box::new(form)),
        }
    }

    async fn create(
        self,
        app: &Accounts,
        origin: Origin,
        token: &str,
    ) -> Result<Result<[HeaderValue; 2], Form>, Error> {
        let (workspace, named, (action, told)) = self.workspace(app).await?;
        let password = self.password.as_str().to_owned();
        let hash = app.hasher.hash(Asker::Known(token.to_owned()), password).await?;
        let (user, account) = super::new_user(&app.clock, &self.email, &hash, &workspace, Role::Owner);
        let by_link = Entry { address: origin.address, ..Entry::new(action, DoneBy::LinkHolder(user.id)) };
        let entry = Entry { target_id: Some(workspace.id.uuid()), target: &told, ..by_link };
        let note = audit::note(workspace.id, &app.clock, &entry);
        let (session, cookie) = auth::start_session_from(app, user.id, origin);
        let mut batch = store::use_setup_link(&secret::hash(token)).and(named);
        batch.append(account);
        batch.push(note);
        batch.push(session);
        let (remembered, device) = Device::default().remember(app, user.id);
        batch.append(remembered);
        match super::create_user(&app.db, batch).await {
            Ok(()) => Ok(Ok([cookie, device])),
            Err(AccountError::Taken) => Ok(Err(Form {
                error: Some("There is an account with this address already.".into()),
                ..Form::default()
            })),
            // Somebody else was faster, with this link or another or by a command.
            Err(AccountError::Store(DbError::Unexpected { .. })) => Err(used_up()),
            Err(AccountError::Store(error)) => Err(error.into()),
        }
    }

    /// The workspace, what makes it or gives it its name, and what the log is told of that. One that a command made
    /// before anybody came is taken over.
    async fn workspace(&self, app: &Accounts) -> Result<(Workspace, Stmt, (&'static str, String)), Error> {
        let name = &self.workspace;
        Ok(match store::workspaces(&app.db).await?.into_iter().next() {
            Some(workspace) => {
                let renamed = store::rename_workspace(workspace.id, name);
                let told = format!("{} → {name}", workspace.name);
                (workspace, renamed, ("workspace.renamed", told))
            }
            None => {
                let workspace = Workspace { id: app.clock.ordered_id(), name: name.clone() };
                let inserted = store::insert_first_workspace(&workspace, app.clock.now()).expect(1);
                (workspace, inserted, ("workspace.created", name.clone()))
            }
        })
    }
}

fn page(app: &Accounts, token: &str, status: StatusCode, form: Form) -> Response {
    let content = SetupPage {
        layout: Layout::dashboard(app),
        action: format!("{}/setup/{token}", app.addresses.dashboard.path()),
        hidden: Vec::new(),
        form,
    };
    web::page(status, &content)
}
