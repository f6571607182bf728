//! OAuth clients in the dashboard: apps that the people of a workspace write themselves.

use askama::Template;
use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use http::StatusCode;
use serde_json::json;
use uuid::Uuid;

use super::client::{AuthMethod, Client};
use super::refused::{self, Refused};
use super::registration::{Origin, Registration};
use super::{page_store, store};
use crate::accounts::{Duty, Look, Manage, Member};
use crate::db::{Batch, DbError};
use crate::error::{Error, OrMissing};
use crate::oauth::OAuth;
use crate::oauth::redirect_uri::{Destination, Difference};
use crate::oauth::refusal::ErrorCode;
use crate::secret;
use crate::web::{self, ConfirmPage, Field, Form, Layout, PageResult, Shell, Stamp};

const REGISTER: &str = "register client";

pub fn router() -> Router<OAuth> {
    Router::new()
        .route("/clients", get(list).post(register))
        .route("/clients/{id}", get(show))
        .route("/clients/{id}/verify", post(verify))
        .route("/clients/{id}/delete", get(ask).post(delete))
}

#[derive(Template)]
#[template(path = "oauth/clients.html")]
struct ClientsPage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    /// The client just registered; its secret is shown this once.
    fresh: Option<Fresh>,
    may_manage: bool,
    action: String,
    hidden: Vec<(String, String)>,
    draft: Draft,
    clients: Vec<ClientRow>,
}

struct Fresh {
    name: String,
    id: String,
    secret: Option<String>,
}

/// What was typed, and what is wrong with it.
#[derive(Default)]
struct Draft {
    name: Field,
    redirect_uris: Field,
    keeps_secret: bool,
    sending_only: bool,
}

struct ClientRow {
    name: String,
    id: String,
    kind: &'static str,
    redirect_uris: Vec<String>,
    scopes: String,
    is_disabled: bool,
    created: Stamp,
    url: String,
    delete_url: Option<String>,
}

#[derive(Template)]
#[template(path = "oauth/client.html")]
struct ClientPage {
    layout: Layout,
    shell: Shell,
    notice: Option<String>,
    client: ClientRow,
    verified_host: Option<String>,
    verify: Option<Verify>,
    refused: Vec<RefusedRow>,
}

/// Where whoever runs this server vouches for a client.
struct Verify {
    action: String,
    hidden: Vec<(String, String)>,
    hosts: Vec<String>,
}

struct RefusedRow {
    at: Stamp,
    times: i64,
    error: String,
    /// The address that was given: before the place at which it is wrong, that place, and behind it.
    before: String,
    wrong: Option<String>,
    behind: String,
    sentence: String,
    /// The registered address that may have been meant.
    nearest: Option<String>,
}

async fn list(member: Member<Look>) -> PageResult {
    page(&member, StatusCode::OK, Draft::default(), None).await
}

async fn page<D: Duty>(member: &Member<D>, status: StatusCode, draft: Draft, fresh: Option<Fresh>) -> PageResult {
    let clients = page_store::of_workspace(&member.app.db, member.workspace_id()).await?;
    let content = ClientsPage {
        layout: member.layout(),
        shell: member.shell("/clients"),
        notice: member
            .notice("deleted", "The client is deleted. Its tokens work no more.")
            .or(member.notice("repeated", "That client had been registered already. It is in the list below."))
            .filter(|_| fresh.is_none()),
        fresh,
        may_manage: member.may_manage(),
        action: member.address("/clients"),
        hidden: member.hidden_making(REGISTER, member.app.clock.ordered_id::<Uuid>()),
        draft,
        clients: clients.into_iter().map(|client| row(member, client)).collect(),
    };
    Ok(web::page(status, &content))
}

fn row<D: Duty>(member: &Member<D>, client: Client) -> ClientRow {
    ClientRow {
        url: member.address(&format!("/clients/{}", client.id)),
        delete_url: member.may_manage().then(|| member.address(&format!("/clients/{}/delete", client.id))),
        kind: if client.auth_method == AuthMethod::None { "public" } else { "keeps a secret" },
        scopes: client.scopes.to_string(),
        is_disabled: client.disabled_at.is_some(),
        created: Stamp::ago(client.created_at, member.app.clock.now()),
        name: client.name,
        id: client.id,
        redirect_uris: client.redirect_uris,
    }
}

async fn register(member: Member<Manage>, form: Form) -> PageResult {
    let (id, accepted): (Uuid, _) = member.accept_making(REGISTER, &form)?;
    let mut draft = Draft {
        name: form.field("name"),
        redirect_uris: form.field("redirect_uris"),
        keeps_secret: !form.text("keeps_secret").is_empty(),
        sending_only: form.text("scope") == "emails:send",
    };
    let lines: Vec<&str> = draft.redirect_uris.value.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut metadata = json!({
        "client_name": draft.name.value.trim(),
        "redirect_uris": lines,
        "token_endpoint_auth_method": if draft.keeps_secret { "client_secret_basic" } else { "none" },
    });
    if draft.sending_only {
        metadata["scope"] = json!("emails:send");
    }
    let registration = match Registration::parse(&metadata, Origin::Administrator) {
        Ok(registration) => registration,
        Err(refusal) => {
            let error = Some(format!("{}.", refusal.description()));
            match refusal.error() {
                ErrorCode::InvalidRedirectUri => draft.redirect_uris.error = error,
                _ => draft.name.error = error,
            }
            return page(&member, StatusCode::UNPROCESSABLE_ENTITY, draft, None).await;
        }
    };
    let client = registration.into_client(id.to_string(), member.app.clock.now());
    let secret = client.auth_method.has_secret().then(secret::token);
    let hash = secret.as_deref().map(secret::hash);
    let batch = Batch::from(store::insert_client(&client, "operator", hash.as_ref()))
        .and(page_store::claim(&client.id, member.workspace_id()));
    match accepted.noting("client.registered", id, &client.name).commit(batch).await? {
        Ok(_) => {}
        Err(DbError::Duplicate(_)) => return Ok(member.see_other("/clients?repeated")),
        Err(error) => return Err(error.into()),
    }
    let fresh = Fresh { name: client.name, id: client.id, secret };
    page(&member, StatusCode::OK, Draft::default(), Some(fresh)).await
}

fn gone() -> Error {
    Error::not_found("There is no such client here. It may have been deleted already.")
}

async fn find<D: Duty>(member: &Member<D>, id: &str) -> Result<Client, Error> {
    let all = page_store::of_workspace(&member.app.db, member.workspace_id()).await?;
    all.into_iter().find(|client| client.id == id).ok_or_else(gone)
}

async fn show(State(app): State<OAuth>, member: Member<Look>, Path(id): Path<String>) -> PageResult {
    let client = find(&member, &id).await?;
    // Whoever has just been refused, and looks here for the reason, finds it.
    app.refusals.write(&app.db).await;
    let refused = refused::refused_of(&app.db, &id).await?;
    let now = app.clock.now();
    let verify = runs_server(&member).await?.then(|| Verify {
        action: member.address(&format!("/clients/{id}/verify")),
        hidden: member.hidden(&verifying(&id)),
        hosts: hosts(&client),
    });
    let content = ClientPage {
        layout: member.layout(),
        shell: member.shell("/clients"),
        notice: member.notice("saved", "It is saved. Consent pages show it at once."),
        verified_host: client.verified_host.clone(),
        verify,
        refused: refused.into_iter().map(|one| refused_row(&client, one, now)).collect(),
        client: row(&member, client),
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn runs_server<D: Duty>(member: &Member<D>) -> Result<bool, Error> {
    let found = member.read(page_store::runs_server(member.workspace_id(), member.session.user_id)).await?;
    Ok(!found.is_empty())
}

/// Where it may send people, as consent pages show it; and the host that it is verified for, which a command may have
/// named before it sends people there.
fn hosts(client: &Client) -> Vec<String> {
    let shown = client.redirect_uris.iter().map(|uri| Destination::of(uri).shown.to_owned());
    let mut hosts: Vec<String> = shown.chain(client.verified_host.clone()).collect();
    hosts.sort();
    hosts.dedup();
    hosts
}

fn verifying(id: &str) -> String {
    format!("verify client {id}")
}

async fn verify(member: Member<Manage>, Path(id): Path<String>, form: Form) -> PageResult {
    if !runs_server(&member).await? {
        let message = "Only whoever runs this server vouches for clients: an owner of its first workspace, or the \
                       command `posthorn clients verify`.";
        return Err(Error::Forbidden { message: message.into() }.into());
    }
    let accepted = member.accept(&verifying(&id), &form)?;
    let client = find(&member, &id).await?;
    let host = form.text("host");
    let host = Some(host.as_str()).filter(|host| !host.is_empty());
    if host.is_some_and(|host| hosts(&client).iter().all(|known| known != host)) {
        let message = "This client does not send people to that host. Load the page again.";
        return Err(Error::BadRequest { message: message.into() }.into());
    }
    let action = if host.is_some() { "client.verified" } else { "client.unverified" };
    let batch = page_store::verify((member.workspace_id(), member.session.user_id), &id, host);
    let accepted = accepted.noting(action, Uuid::try_parse(&id).ok(), &client.name);
    accepted.commit(batch).await?.or_missing(gone)?;
    Ok(member.see_other(&format!("/clients/{id}?saved")))
}

fn refused_row(client: &Client, refused: Refused, now: i64) -> RefusedRow {
    let given = refused.redirect_uri;
    let is_right = given.is_empty() || client.may_redirect_to(&given);
    let difference = Difference::from_nearest(&client.redirect_uris, &given).filter(|_| !is_right);
    let place = difference.as_ref().map(|difference| difference.at);
    let mut rest = given.chars().skip(place.unwrap_or_default());
    let sentence = match &difference {
        None if given.is_empty() => "No redirect address was given, or several.".into(),
        None if is_right => "This address is registered. The app was told there what else is wrong.".into(),
        None => "This client has no redirect address.".into(),
        Some(Difference { at, given: None, .. }) if *at == refused::LONGEST => {
            format!("The first {at} characters, of which more are not kept, are registered.")
        }
        Some(Difference { at, expected, given, .. }) => {
            format!("Differs at character {}: {} was expected, {} was given.", at + 1, named(*expected), named(*given))
        }
    };
    RefusedRow {
        at: Stamp::ago(refused.refused_at, now),
        times: refused.times,
        error: refused.error,
        before: given.chars().take(place.unwrap_or(usize::MAX)).collect(),
        wrong: place.map(|_| rest.next().map(String::from).unwrap_or_default()),
        behind: place.map(|_| rest.collect()).unwrap_or_default(),
        sentence,
        nearest: difference.map(|difference| difference.nearest.to_owned()),
    }
}

/// A character as it can be read in a sentence, also where it cannot be seen.
fn named(char: Option<char>) -> String {
    match char {
        None => "the end".into(),
        Some(char) if char.is_ascii_graphic() => format!("`{char}`"),
        Some(char) => format!("U+{:04X}", u32::from(char)),
    }
}

async fn ask(member: Member<Manage>, Path(id): Path<String>) -> PageResult {
    let client = find(&member, &id).await?;
    let content = ConfirmPage {
        layout: member.layout(),
        shell: member.shell("/clients"),
        title: "Delete this client?".into(),
        subject: client.name,
        sentence: "Everybody who approved it is disconnected, in every workspace, at once. This cannot be undone."
            .into(),
        action: member.address(&format!("/clients/{id}/delete")),
        hidden: member.hidden(&format!("delete client {id}")),
        button: "Delete".into(),
        cancel: member.address("/clients"),
    };
    Ok(web::page(StatusCode::OK, &content))
}

async fn delete(member: Member<Manage>, Path(id): Path<String>, form: Form) -> PageResult {
    let accepted = member.accept(&format!("delete client {id}"), &form)?;
    let client = find(&member, &id).await?;
    let batch = page_store::delete(member.workspace_id(), &id, &member.app.clock);
    let accepted = accepted.noting("client.deleted", Uuid::try_parse(&id).ok(), &client.name);
    accepted.commit(batch).await?.or_missing(gone)?;
    Ok(member.see_other("/clients?deleted"))
}
