//! The product's own messages to the people who run it. They go the way of all mail.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use uuid::Uuid;

use crate::accounts::{self, EmailAddress, Letters};
use crate::app::App;
use crate::db::{Batch, DbError};
use crate::emails::{self, Content, NewEmail, Origin};
use crate::id::WorkspaceId;
use crate::mime::{Header, Mailbox};
use crate::webhooks::Notices;

/// Statements that tell the owners of a workspace something, to be committed with what they are
/// told about.
pub async fn tell_owners(app: &App, workspace_id: WorkspaceId, subject: &str, body: &str) -> Result<Batch, DbError> {
    let mut batch = Batch::new();
    for owner in accounts::owners(&app.db, workspace_id).await? {
        // What is none is nobody's address.
        let Ok(to) = owner.parse::<Mailbox>() else { continue };
        batch.append(queue(app, workspace_id, to, subject, body));
    }
    Ok(batch)
}

fn queue(app: &App, workspace_id: WorkspaceId, to: Mailbox, subject: &str, body: &str) -> Batch {
    let generated = Header::new("Auto-Submitted", "auto-generated");
    let new = NewEmail {
        subject: subject.to_owned(),
        text: Some(Content::Here(body.to_owned())),
        headers: generated.into_iter().collect(),
        ..NewEmail::new(workspace_id, Origin::System, sender(app), vec![to])
    };
    let line = |address: &_| emails::line(app.config.transport(), None, address);
    emails::insert(&new, app.clock.ordered_id(), &app.clock, line)
}

/// Writes to owners for those who know nothing of mail.
pub struct OwnMail(pub App);

impl Notices for OwnMail {
    fn to_owners<'a>(
        &'a self,
        workspace_id: WorkspaceId,
        subject: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<Batch, DbError>> {
        tell_owners(&self.0, workspace_id, subject, text).boxed()
    }
}

impl Letters for OwnMail {
    /// Of no workspace: what such a letter holds lets its reader in, and members read the mail of theirs.
    fn write(&self, to: &EmailAddress, subject: &str, text: &str) -> Batch {
        let nobodys = WorkspaceId::from(Uuid::nil());
        let to = to.as_str().parse::<Mailbox>();
        to.map_or_else(|_| Batch::new(), |to| queue(&self.0, nobodys, to, subject, text))
    }
}

/// Who the product's own messages are from.
pub(super) fn sender(app: &App) -> Mailbox {
    if let Some(from) = &app.config.mail_from {
        return from.clone();
    }
    let address = format!("posthorn@{}", app.addresses.mail_host()).parse();
    let address = address.unwrap_or_else(|_| "posthorn@localhost".parse().expect("an address"));
    Mailbox { name: Some("Posthorn".into()), address }
}
