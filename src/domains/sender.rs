//! Who may send as whom. What is allowed is cached; whoever relies on it guards the
//! commit with it. A refusal is always of the moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::in_use::UNSEEN;
use super::status::Status;
use super::tracking::{self, Tracking};
use super::{Domains, store};
use crate::config::{Senders, TransportKind};
use crate::db::{Basis, DbError, Guard, Row};
use crate::error::Error;
use crate::id::{DomainId, WorkspaceId};

/// What holds for mail from a domain.
#[derive(Debug)]
pub struct Sender {
    /// The domain of that name, if the workspace has it.
    pub domain_id: Option<DomainId>,
    /// How the mail leaves.
    pub transport: TransportKind,
    /// Whether that is the domain's own way, and not the server's.
    pub has_own_transport: bool,
    /// What is tracked of it, if anything is.
    pub tracking: Option<Tracking>,
    basis: Arc<Basis>,
    /// When it was last found to hold, in steady time.
    confirmed: AtomicI64,
}

impl Sender {
    /// Holds as long as mail may be sent like this.
    pub fn guard(&self) -> Guard {
        self.basis.guard()
    }
}

/// A workspace's own row of a name.
struct Own {
    id: DomainId,
    may_send: bool,
    sending: bool,
    transport: Option<TransportKind>,
    revision: i64,
    status: Status,
    tracking: Option<Tracking>,
}

/// What the store knows of a name, seen from a workspace.
struct Known {
    revision: i64,
    own: Option<Own>,
    is_anothers: bool,
}

impl Domains {
    /// Whether mail may be sent from a domain, which is in ASCII and lower case: by the
    /// workspace, and by a key that may be held to a domain. The error says what to do.
    pub async fn may_send(
        &self,
        workspace_id: WorkspaceId,
        key_domain: Option<DomainId>,
        ascii_domain: &str,
    ) -> Result<Arc<Sender>, Error> {
        let key = (workspace_id, ascii_domain.to_owned());
        let sender = match self.senders.get(&key) {
            Some(sender) => sender,
            None => {
                let sender = Arc::new(Box::pin(self.load_sender(workspace_id, ascii_domain)).await?);
                self.senders.insert(key, sender.clone());
                sender
            }
        };
        match key_domain {
            Some(held_to) if sender.domain_id != Some(held_to) => {
                Err(Box::pin(self.held_to(workspace_id, held_to, ascii_domain)).await?)
            }
            _ => Ok(sender),
        }
    }

    /// The same for mail that was accepted before, and leaves now: nobody guards a commit with it,
    /// so it is asked whether it still holds.
    pub async fn may_still_send(&self, workspace_id: WorkspaceId, ascii_domain: &str) -> Result<Arc<Sender>, Error> {
        let sender = self.may_send(workspace_id, None, ascii_domain).await?;
        let now = self.app.clock.steady();
        if now - sender.confirmed.load(Ordering::Relaxed) < UNSEEN {
            return Ok(sender);
        }
        if self.app.db.holds(&sender.guard()).await? {
            sender.confirmed.store(now, Ordering::Relaxed);
            return Ok(sender);
        }
        self.forget_sender(workspace_id, ascii_domain);
        self.may_send(workspace_id, None, ascii_domain).await
    }

    /// What is known of a name turned out to be old.
    pub fn forget_sender(&self, workspace_id: WorkspaceId, ascii_domain: &str) {
        self.senders.remove(&(workspace_id, ascii_domain.to_owned()));
    }

    async fn load_sender(&self, workspace_id: WorkspaceId, name: &str) -> Result<Sender, Error> {
        let Known { revision, own, is_anothers } = self.known(workspace_id, name).await?;
        if is_anothers {
            return Err(anothers(name));
        }
        let own_transport = own.as_ref().and_then(|own| own.transport);
        let transport = own_transport.unwrap_or_else(|| self.app.config.transport());
        let needs_proof = transport != TransportKind::Capture && self.app.config.mail.senders == Senders::Verified;
        let basis = match &own {
            Some(own) if !own.sending => return Err(disabled(name, own.id)),
            Some(own) if needs_proof && !own.may_send => return Err(unverified(name, own)),
            None if needs_proof => return Err(unknown(name)),
            Some(own) => store::stands(workspace_id, own.id, own.revision, revision),
            None => store::nobodys(workspace_id, name, revision),
        };
        let has_own_transport = own_transport.is_some();
        let (domain_id, tracking) = own.map_or((None, None), |own| (Some(own.id), own.tracking));
        let confirmed = AtomicI64::new(self.app.clock.steady());
        Ok(Sender { domain_id, transport, has_own_transport, tracking, basis, confirmed })
    }

    async fn known(&self, workspace_id: WorkspaceId, name: &str) -> Result<Known, DbError> {
        let rows = self.app.db.read(store::of_name(workspace_id, name)).await?;
        let revision = rows.first().ok_or_else(|| DbError::Broken("there is no revision of domains".into()))?.int(0)?;
        let mut known = Known { revision, own: None, is_anothers: false };
        for row in &rows {
            match row.maybe(1, Row::id::<WorkspaceId>)? {
                None => {}
                Some(whose) if whose == workspace_id => known.own = Some(Own::read(name, row)?),
                Some(_) => known.is_anothers = true,
            }
        }
        Ok(known)
    }

    /// The refusal of a key that is held to another domain.
    async fn held_to(&self, workspace_id: WorkspaceId, id: DomainId, name: &str) -> Result<Error, Error> {
        let rows = self.app.db.read(store::by_id(workspace_id, id)).await?;
        let held_to = rows.first().map(store::Stored::read).transpose()?;
        let only = held_to.map_or("a domain that was deleted".into(), |domain| format!("`{}`", domain.name));
        Ok(Error::DomainRefused {
            message: format!(
                "This API key may only send from {only}, not from `{name}`. Use an address of that domain in `from`, \
                 or another key."
            ),
        })
    }
}

impl Own {
    fn read(name: &str, row: &Row) -> Result<Own, DbError> {
        let (opens, clicks, label) = (row.bool(9)?, row.bool(10)?, row.maybe(11, Row::text)?);
        let findings = store::findings(&row.text(12)?)?;
        let tracked = || Tracking { opens, clicks, host: tracking::host(name, label.as_deref(), &findings) };
        Ok(Own {
            id: row.id(2)?,
            may_send: row.bool(4)?,
            sending: row.bool(5)?,
            transport: store::kind(row.maybe(6, Row::text)?)?,
            revision: row.int(7)?,
            status: store::status(&row.text(8)?)?,
            tracking: (opens || clicks).then(tracked),
        })
    }
}

pub fn anothers(name: &str) -> Error {
    Error::DomainRefused {
        message: format!(
            "The domain `{name}` belongs to another workspace of this server, which has verified it. Use a domain of \
             your own; `GET /domains` lists them."
        ),
    }
}

fn unknown(name: &str) -> Error {
    Error::DomainRefused {
        message: format!(
            "The domain `{name}` is not verified. Add it with `POST /domains`, set the DNS records that are in the \
             answer, and call `POST /domains/{{id}}/verify`."
        ),
    }
}

fn unverified(name: &str, own: &Own) -> Error {
    let (id, status) = (own.id, own.status.as_str());
    Error::DomainRefused {
        message: format!(
            "The domain `{name}` is not verified: its status is `{status}`. Set the DNS records that \
             `GET /domains/{id}` lists, and call `POST /domains/{id}/verify`."
        ),
    }
}

fn disabled(name: &str, id: DomainId) -> Error {
    Error::DomainRefused {
        message: format!(
            "The domain `{name}` has the capability `sending` disabled. `PATCH /domains/{id}` with \
             `{{\"capabilities\": {{\"sending\": \"enabled\"}}}}` enables it."
        ),
    }
}
