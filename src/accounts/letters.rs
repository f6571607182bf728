//! Letters of the product to one person: a link to join, a link to a new password. Whoever holds such a link is let in,
//! so these belong to no workspace, and nobody's list of mail shows them.

use super::{Accounts, EmailAddress};
use crate::config::TransportKind;
use crate::db::Batch;

/// Sends them. Mail is none of the business of accounts.
pub trait Letters: Send + Sync {
    /// The statements that queue one; none where the address cannot be written to.
    fn write(&self, to: &EmailAddress, subject: &str, text: &str) -> Batch;
}

impl Accounts {
    /// Whether letters leave this machine.
    pub(super) fn sends_mail(&self) -> bool {
        self.config.transport() != TransportKind::Capture
    }

    /// An address of the dashboard, as mail names it.
    pub(super) fn link(&self, path: &str) -> String {
        format!("{}{path}", self.addresses.dashboard.as_str())
    }
}
