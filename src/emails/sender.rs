//! Whom mail may come from, and how it leaves.

use super::Emails;
use crate::config::{Senders, TransportKind};
use crate::error::Error;
use crate::id::DomainId;
use crate::mime::Address;

/// What holds for mail from a domain.
#[derive(Debug, Clone, Copy)]
pub struct Sender {
    /// The sender's domain, if the workspace has it.
    pub domain_id: Option<DomainId>,
    pub transport: TransportKind,
    /// Whether that is the domain's own way, and not the server's.
    pub has_own_transport: bool,
}

impl Sender {
    /// Where a recipient of such mail waits.
    pub fn line(&self, recipient: &Address) -> String {
        super::line(self.transport, self.domain_id.filter(|_| self.has_own_transport), recipient)
    }
}

/// Whether mail may come from an address; the error says what to do.
pub fn may_send(emails: &Emails, from: &Address) -> Result<Sender, Error> {
    let transport = emails.config.transport();
    if transport != TransportKind::Capture && emails.config.mail.senders == Senders::Verified {
        let message = format!(
            "The domain `{}` is not verified. Verify it first, or start the server with `--senders any` where the \
             relay checks senders by itself.",
            from.domain()
        );
        return Err(Error::DomainRefused { message });
    }
    Ok(Sender { domain_id: None, transport, has_own_transport: false })
}
