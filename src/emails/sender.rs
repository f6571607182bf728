//! Whom mail may come from, and where it waits then.

use std::sync::Arc;

use super::{Emails, NewEmail};
use crate::auth::Actor;
use crate::domains::Sender;
use crate::error::Error;
use crate::mime::Address;

/// What holds for a mail of this caller; the error says what to do.
pub async fn may_send(emails: &Emails, caller: &dyn Actor, email: &NewEmail) -> Result<Arc<Sender>, Error> {
    let domain = email.from.address.ascii_domain();
    emails.domains.may_send(caller.workspace_id(), caller.domain_id(), domain).await
}

/// Where a recipient of such mail waits.
pub fn line(sender: &Sender, recipient: &Address) -> String {
    super::line(sender.transport, sender.domain_id.filter(|_| sender.has_own_transport), recipient)
}
