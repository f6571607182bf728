//! The consent page: who asks, and what for.

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;
use http::StatusCode;

use super::authorize::{Callback, PendingRequest};
use super::client::Client;
use super::destination::Destination;
use super::pages::{ClientFacts, ConsentPage, ProblemPage, RedirectFacts, ScopeWords, Visitor};
use super::store;
use crate::app::App;
use crate::clock::SECOND;
use crate::error::Error;
use crate::web::layout::{self, Layout, Stamp};

pub fn router() -> Router<App> {
    Router::new().route("/oauth/authorize/{id}", get(show))
}

async fn show(State(app): State<App>, Path(id): Path<String>) -> Response {
    match find(&app, &id).await {
        Ok(Some((request, client, expires_at))) => consent(&app, &request, &client, expires_at),
        Ok(None) => problem(
            &app,
            StatusCode::NOT_FOUND,
            "GONE",
            "There is no such request",
            "The link is incomplete, or the request it led to is long over.",
        ),
        Err(error) => layout::error_page(&app, &error),
    }
}

/// The request, the client as it is now, and when the request expires. A
/// request whose client may no longer be sent back to is as good as none.
async fn find(app: &App, id: &str) -> Result<Option<(PendingRequest, Client, i64)>, Error> {
    // An id that is not one of ours cannot be in the store.
    if uuid::Uuid::try_parse(id).is_err() {
        return Ok(None);
    }
    let Some((request, expires_at)) = store::find_request(&app.db, id).await? else { return Ok(None) };
    let client = app.clients.load(&app.db, &request.client_id).await?;
    let client = client.map(|known| known.client.clone());
    let proved = client.filter(|client| Callback::restore(&request, client).is_ok());
    Ok(proved.map(|client| (request, client, expires_at)))
}

fn consent(app: &App, request: &PendingRequest, client: &Client, expires_at: i64) -> Response {
    let left = expires_at - app.clock.now();
    if left <= 0 {
        return problem(
            app,
            StatusCode::GONE,
            "LATE",
            "This request has expired",
            "It waited ten minutes for an answer and was then thrown away.",
        );
    }
    let destination = Destination::of(&request.redirect_uri);
    let page = ConsentPage {
        layout: Layout::dashboard(app),
        client: ClientFacts {
            name: client.name.clone(),
            id: client.id.clone(),
            verified: client.verified,
            registered: Stamp::new(client.created_at),
        },
        redirect: RedirectFacts { host: destination.shown.to_owned(), kind: destination.kind.into() },
        scopes: request.scopes.iter().map(ScopeWords::from).collect(),
        visitor: Visitor::SignedOut { login_url: None },
        expires: Stamp::new(expires_at),
        seconds_left: (left / SECOND) as u64,
    };
    layout::page_leading_away(StatusCode::OK, &page)
}

fn problem(app: &App, status: StatusCode, postmark: &str, title: &str, sentence: &str) -> Response {
    let page = ProblemPage {
        layout: Layout::dashboard(app),
        postmark: postmark.into(),
        title: title.into(),
        sentence: sentence.into(),
        next: "Go back to the app and start again there.".into(),
        link: None,
    };
    layout::page(status, &page)
}
