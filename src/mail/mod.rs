//! Messages that the product itself sends to the people who run it. With a relay
//! they wait in the store until a worker has delivered them; without one they are
//! captured: kept, readable in the dashboard, and never sent.

mod pages;
mod relay;
mod smtp_delivery;
mod store;
mod worker;
#[cfg(test)]
mod worker_tests;

pub use worker::run as run_worker;

use axum::Router;

pub use store::tally;

use crate::accounts;
use crate::app::App;
use crate::db::{DbError, Sql, Stmt};
use crate::id::WorkspaceId;

pub const STATEMENTS: &[&[Sql]] = &[store::ALL];

pub fn pages() -> Router<App> {
    pages::router()
}

/// Statements that tell the owners of a workspace something, to be committed
/// with what they are told about.
pub async fn tell_owners(
    app: &App,
    workspace_id: WorkspaceId,
    subject: &str,
    body: &str,
) -> Result<Vec<Stmt>, DbError> {
    let owners = accounts::owners(&app.db, workspace_id).await?;
    let captured = app.config.smtp_url.is_empty();
    let message = |recipient: &String| {
        let (id, now, due_at) = (app.clock.ordered_id(), app.clock.now(), app.clock.steady());
        store::insert(&store::New { id, workspace_id, recipient, subject, body, captured, now, due_at })
    };
    Ok(owners.iter().map(message).collect())
}
