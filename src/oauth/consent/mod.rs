//! The consent page: who asks and what for, and the decision of whoever is
//! logged in. A request is decided once, by the session that opened it first.

mod pages;

use std::net::IpAddr;

use axum::Router;
use axum::extract::{Extension, Path, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use http::{HeaderMap, StatusCode};

use crate::accounts::{Membership, may_grant, memberships};
use crate::audit::{self, DoneBy, Entry};
use crate::auth::{self, Session};
use crate::clock::SECOND;
use crate::credentials::{Scope, ScopeSet};
use crate::db::DbError;
use crate::error::Error;
use crate::id::AuthorizationRequestId;
use crate::oauth::authorize::{self, Callback, PendingRequest};
use crate::oauth::clients::Client;
use crate::oauth::grant::{self, CODE_LIFETIME, Code};
use crate::oauth::redirect_uri::{Destination, DestinationKind};
use crate::oauth::refusal::Refusal;
use crate::oauth::{OAuth, answer};
use crate::secret;
use crate::web::{self, Form, Layout, Link, Sender, Stamp};
use pages::{ClientFacts, ConsentPage, ProblemPage, RedirectFacts, ReturnPage, ScopeWords, Visitor, WorkspaceChoice};

pub fn router() -> Router<OAuth> {
    Router::new().route("/oauth/authorize/{id}", get(show).post(decide))
}

/// A request that can be decided, with the client as it is now.
struct Open {
    id: AuthorizationRequestId,
    request: PendingRequest,
    client: Client,
    expires_at: i64,
}

/// Why a request cannot be shown or decided.
enum Closed {
    Unknown,
    Expired,
    Decided,
    /// Another browser of the same person has it.
    Elsewhere,
    /// Nobody is logged in, or no longer; the request's id.
    SignedOut(AuthorizationRequestId),
    Failed(Error),
}

impl From<DbError> for Closed {
    fn from(error: DbError) -> Closed {
        Closed::Failed(error.into())
    }
}

impl From<Error> for Closed {
    fn from(error: Error) -> Closed {
        Closed::Failed(error)
    }
}

async fn show(
    State(app): State<OAuth>,
    Extension(Sender(sender)): Extension<Sender>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    let shown = async {
        // Whoever guesses ids does not get far.
        app.limits.authorize.check(sender)?;
        let visitor = auth::find_session(&app, &headers).await?;
        let open = find(&app, &id, visitor.as_ref()).await?;
        let visitor = match &visitor {
            Some(session) => signed_in(&app, &open, session).await?,
            None => {
                let login_url = format!("{}/login?request={}", app.addresses.dashboard.path(), open.id);
                Visitor::SignedOut { login_url: Some(login_url) }
            }
        };
        Ok(page(&app, &open, visitor))
    };
    shown.await.unwrap_or_else(|closed| explain(&app, closed))
}

/// Finds a request and, for somebody logged in, binds it to the session.
async fn find(app: &OAuth, id: &str, visitor: Option<&Session>) -> Result<Open, Closed> {
    // An id that is not one of ours cannot be in the store.
    let id: AuthorizationRequestId = id.parse().map_err(|_| Closed::Unknown)?;
    let mut stored = authorize::find_request(&app.db, id).await?.ok_or(Closed::Unknown)?;
    if let Some(session) = visitor
        && stored.bound_to.is_none()
    {
        app.db.commit(authorize::bind_request(id, &session.hash, session.user_id, None)).await?;
        stored = authorize::find_request(&app.db, id).await?.ok_or(Closed::Unknown)?;
    }
    if let (Some(session), Some(bound)) = (visitor, &stored.bound_to) {
        claim(app, id, session, bound).await?;
    }
    if stored.decided {
        return Err(Closed::Decided);
    }
    if stored.expires_at <= app.clock.steady() {
        return Err(Closed::Expired);
    }
    let known = app.clients.load(&app.db, &stored.request.client_id).await?.ok_or(Closed::Unknown)?;
    let client = known.client.clone();
    // A client that may no longer be sent back to has nothing to ask for.
    Callback::restore(&stored.request, &client).map_err(|_| Closed::Unknown)?;
    Ok(Open { id, request: stored.request, client, expires_at: stored.expires_at })
}

/// Refuses a request that belongs to another session, unless that was the same
/// person's and has ended.
async fn claim(
    app: &OAuth,
    id: AuthorizationRequestId,
    session: &Session,
    bound: &authorize::Bound,
) -> Result<(), Closed> {
    if secret::equal(&bound.session_hash, &session.hash) && bound.user_id == session.user_id {
        return Ok(());
    }
    if bound.user_id != session.user_id {
        return Err(Closed::Unknown);
    }
    let before: [u8; 32] = bound.session_hash.as_slice().try_into().map_err(|_| Closed::Unknown)?;
    if auth::session_is_alive(app, &before).await? {
        return Err(Closed::Elsewhere);
    }
    let rebind = authorize::bind_request(id, &session.hash, session.user_id, Some(&before));
    app.db.commit(rebind).await.map(drop).map_err(Closed::from)
}

async fn signed_in(app: &OAuth, open: &Open, session: &Session) -> Result<Visitor, Closed> {
    let dashboard = app.addresses.dashboard.path();
    let choices = grantable(app, session).await?;
    let workspaces = choices.into_iter().enumerate().map(|(index, one)| WorkspaceChoice {
        id: one.workspace.id,
        name: one.workspace.name,
        role: one.role.to_string(),
        selected: index == 0,
    });
    Ok(Visitor::SignedIn {
        email: session.email.clone(),
        sign_out_url: format!("{dashboard}/logout"),
        sign_out_hidden: vec![("token".into(), session.form_token("logout")), ("request".into(), open.id.to_string())],
        workspaces: workspaces.collect(),
        decision_url: format!("{dashboard}/oauth/authorize/{}", open.id),
        hidden: vec![("token".into(), session.form_token(&purpose(open, session)))],
    })
}

/// A form is good for this request and this user only.
fn purpose(open: &Open, session: &Session) -> String {
    format!("decide {} {}", open.id, session.user_id)
}

async fn grantable(app: &OAuth, session: &Session) -> Result<Vec<Membership>, DbError> {
    let all = memberships(&app.db, session.user_id).await?;
    Ok(all.into_iter().filter(|one| one.role.may_grant()).collect())
}

fn page(app: &OAuth, open: &Open, visitor: Visitor) -> Response {
    let destination = Destination::of(&open.request.redirect_uri);
    let left = open.expires_at - app.clock.steady();
    let page = ConsentPage {
        layout: Layout::dashboard(app),
        client: ClientFacts {
            name: open.client.name.clone(),
            host: open.client.document_host().map(str::to_owned),
            id: open.client.id.clone(),
            verified: open.client.is_verified_for(&open.request.redirect_uri),
            registered: (open.client.created_at > 0).then(|| Stamp::new(open.client.created_at)),
        },
        redirect: RedirectFacts { host: destination.shown.to_owned(), kind: destination.kind },
        scopes: open.request.scopes.iter().map(ScopeWords::from).collect(),
        visitor,
        expires: Stamp::new(app.clock.now() + left),
        seconds_left: (left / SECOND).max(0) as u64,
    };
    web::page_leading_away(StatusCode::OK, &page)
}

async fn decide(
    State(app): State<OAuth>,
    Extension(Sender(sender)): Extension<Sender>,
    Path(id): Path<String>,
    headers: HeaderMap,
    form: Form,
) -> Response {
    let decided = async {
        let Some(session) = auth::find_session(&app, &headers).await? else {
            let request = id.parse().map_err(|_| Closed::Unknown)?;
            return Err(Closed::SignedOut(request));
        };
        let open = find(&app, &id, Some(&session)).await?;
        session.check_form(&purpose(&open, &session), &form.text("token"))?;
        let outcome = settle(&app, &open, (&session, sender), &form).await?;
        Ok(lead_back(&app, &open, outcome))
    };
    decided.await.unwrap_or_else(|closed| explain(&app, closed))
}

/// What a decision came to: the callback, and the code in it if there is one.
struct Outcome {
    location: String,
    code: Option<String>,
}

impl Outcome {
    fn refused(location: String) -> Outcome {
        Outcome { location, code: None }
    }
}

/// Sends the browser to the app. One that hands an app's own scheme over to the
/// app is left with an empty page, so it gets one that can be read, with a link.
fn lead_back(app: &OAuth, open: &Open, outcome: Outcome) -> Response {
    let destination = Destination::of(&open.request.redirect_uri);
    if destination.kind != DestinationKind::CustomScheme {
        return answer::see_other(&outcome.location);
    }
    let approved = outcome.code.is_some();
    let page = ReturnPage {
        layout: Layout::dashboard(app),
        postmark: if approved { "SENT" } else { "DENIED" },
        approved,
        client_name: open.client.name.clone(),
        host: destination.shown.to_owned(),
        href: outcome.location,
        code: outcome.code,
        automatic: true,
    };
    web::page(StatusCode::OK, &page)
}

/// Where the browser goes after the decision. What the form says of client,
/// redirect and scopes beyond those asked for is not looked at.
async fn settle(
    app: &OAuth,
    open: &Open,
    (session, sender): (&Session, IpAddr),
    form: &Form,
) -> Result<Outcome, Closed> {
    let callback = Callback::restore(&open.request, &open.client).map_err(|_| Closed::Unknown)?;
    let callback = callback.naming_issuer(app.config.oauth_iss.then_some(app.addresses.base.as_str()));
    let decision = grant::decide(open.id, &session.hash, app.clock.steady());

    let approved = match form.text("decision").as_str() {
        "approve" => chosen(app, open, session, form).await?,
        "deny" => None,
        _ => {
            let message = "The form says neither Approve nor Deny. Load the page again.".into();
            return Err(Error::BadRequest { message }.into());
        }
    };
    let refusal = open.request.recheck(&open.client).err();
    let refused = |refusal: &Refusal| Outcome::refused(callback.error(refusal));
    let (batch, outcome) = match (approved, refusal) {
        (Some(_), Some(refusal)) => (decision, refused(&refusal)),
        (None, _) => (decision, refused(&Refusal::access_denied())),
        (Some(code), None) => {
            let secret = secret::token();
            let actor = DoneBy::Person(session.user_id);
            let entry = Entry { address: Some(sender), ..Entry::new("app.approved", actor) };
            let approval = Entry { target: &open.client.name, ..entry };
            // No fence: the right is asked for once more when the code is redeemed.
            let batch = decision
                .and(grant::insert_code(&secret::hash(&secret), &code))
                .and(audit::note(code.workspace_id, &app.clock, &approval))
                .when(may_grant(code.workspace_id, code.user_id));
            (batch, Outcome { location: callback.code(&secret), code: Some(secret) })
        }
    };
    match app.db.commit(batch).await {
        Ok(_) => Ok(outcome),
        Err(DbError::Unexpected { .. }) => Err(Closed::Decided),
        Err(DbError::Stale) if !auth::session_is_alive(app, &session.hash).await? => Err(Closed::SignedOut(open.id)),
        Err(DbError::Stale) => Err(not_allowed().into()),
        Err(error) => {
            tracing::error!(%error, "a decision could not be stored");
            Ok(refused(&Refusal::server_error()))
        }
    }
}

fn not_allowed() -> Error {
    let message = "You may not let apps into this workspace. Ask an owner or admin of it.".into();
    Error::Forbidden { message }
}

/// What is approved: the scopes left ticked, in the workspace chosen. `None`
/// when nothing was left, which is a denial.
async fn chosen(app: &OAuth, open: &Open, session: &Session, form: &Form) -> Result<Option<Code>, Closed> {
    let ticked: ScopeSet = form.all("scope").iter().filter_map(|text| Scope::parse(text)).collect();
    let Some(scopes) = open.request.narrowed(ticked) else { return Ok(None) };
    let mut choices = grantable(app, session).await?;
    let wanted = form.text("workspace");
    let workspace = match choices.iter().position(|one| Some(one.workspace.id) == wanted.parse().ok()) {
        Some(index) => choices.swap_remove(index).workspace,
        None if wanted.is_empty() && choices.len() == 1 => choices.swap_remove(0).workspace,
        None => return Err(not_allowed().into()),
    };
    Ok(Some(Code {
        client_id: open.request.client_id.clone(),
        redirect_uri: open.request.redirect_uri.clone(),
        code_challenge: open.request.code_challenge.clone(),
        scopes,
        user_id: session.user_id,
        workspace_id: workspace.id,
        expires_at: app.clock.steady() + CODE_LIFETIME,
    }))
}

fn explain(app: &OAuth, closed: Closed) -> Response {
    let again = "Go back to the app and start again there.";
    let (status, postmark, title, sentence, next) = match closed {
        Closed::Failed(error) => return web::error_page(app, &error),
        // Log in, and see the page again: nothing is decided on the way.
        Closed::SignedOut(id) => {
            let login = format!("{}/login?request={id}", app.addresses.dashboard.path());
            return Redirect::to(&login).into_response();
        }
        Closed::Unknown => (
            StatusCode::NOT_FOUND,
            "GONE",
            "There is no such request",
            "The link is incomplete, or the request it led to is long over.",
            again,
        ),
        Closed::Expired => (
            StatusCode::GONE,
            "LATE",
            "This request has expired",
            "It waited ten minutes for an answer and was then thrown away.",
            again,
        ),
        Closed::Decided => (
            StatusCode::CONFLICT,
            "USED",
            "This request was already answered",
            "A request can be approved or denied once, and this one has been.",
            "If the app is still waiting, start again from there.",
        ),
        Closed::Elsewhere => (
            StatusCode::CONFLICT,
            "AWAY",
            "This request is open elsewhere",
            "You opened it in another browser, and only there it can be answered.",
            "Answer it there, or go back to the app and start again.",
        ),
    };
    let dashboard = app.addresses.dashboard.path();
    let page = ProblemPage {
        layout: Layout::dashboard(app),
        postmark: postmark.into(),
        title: title.into(),
        sentence: sentence.into(),
        next: next.into(),
        link: Some(Link { href: format!("{dashboard}/apps"), label: "See connected apps".into() }),
    };
    web::page(status, &page)
}
