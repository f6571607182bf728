//! The mail that one recipient of a broadcast gets. How it is written is known to broadcasts, which rest on emails, so
//! it comes from there.

use futures_util::future::BoxFuture;

use super::Emails;
use super::store::{Recipient, Stored};
use crate::app::App;
use crate::db::DbError;
use crate::id::EmailId;

/// Writes the mails of a broadcast's recipients.
pub trait OwnMails: Send + Sync {
    /// The mail of the recipient with this number, as it left or would leave now; `None` where it cannot be written: its
    /// contact is gone, or its contents are not kept any more.
    fn write<'a>(
        &'a self,
        app: &'a App,
        email_id: EmailId,
        number: i64,
    ) -> BoxFuture<'a, Result<Option<Stored>, DbError>>;
}

impl Emails {
    /// The mail of one recipient, of the one that all recipients share. Where it cannot be written, the bodies are those
    /// of all.
    pub(super) async fn own_mail(&self, shared: Stored, recipient: &Recipient) -> Result<Stored, DbError> {
        let (shared_id, id) = (shared.summary.id, recipient.own_id(shared.summary.id));
        let mut email = self.own_mails.write(self, shared_id, recipient.number).await?.unwrap_or(shared);
        email.summary.message_id = format!("<{id}@{}>", email.sender_domain);
        email.summary.envelope.to = vec![recipient.address.clone()];
        email.summary.state = recipient.state;
        email.summary.id = id;
        Ok(email)
    }
}
