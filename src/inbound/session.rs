//! A dialogue with a server that brings a report or mail, command by command.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::Server;
use super::message::LARGEST;
use crate::delivery::ReturnToken;
use crate::id::{DomainId, WorkspaceId};
use crate::mime::Address;
use crate::smtp_server::{Certificate, Command, Dialogue, Lost, Patience, Reply, Session};

const NO_RELAY: Reply = Reply::new(
    550,
    "5.7.1 Only mail for domains that receive here is taken, and reports on mail that was sent from here, at its \
     return path.",
);

const TOO_MANY: Reply = Reply::new(421, "4.7.0 Too many addresses that are not known here. Try again in a minute.");

/// How many recipients a message may have.
const MOST_RECIPIENTS: usize = 100;

/// A server that brings reports, or mail.
pub struct Reporter {
    pub(super) server: Arc<Server>,
    pub(super) dialogue: Dialogue,
    pub(super) peer: IpAddr,
    /// What it calls itself.
    pub(super) helo: Option<String>,
    pub(super) transaction: Option<Transaction>,
}

/// What was said of a message that is to come.
pub struct Transaction {
    /// Empty for nobody. Reports on deliveries come from nobody, so that nobody reports on them.
    pub sender: String,
    pub recipients: Recipients,
}

/// For whom a message is. What is for several workspaces is brought to one after the other.
pub enum Recipients {
    Nobody,
    Report(Target),
    Mailboxes { workspace_id: WorkspaceId, domain_id: DomainId, addresses: Vec<Address> },
}

/// Where a report was sent.
#[derive(Clone, Copy)]
pub enum Target {
    /// To a return path, which says what it is about.
    ReturnPath(ReturnToken),
    /// To the address that is registered with feedback loops.
    Complaints,
}

impl Session for Reporter {
    const EXTENSIONS: &'static str = "8BITMIME\nSMTPUTF8\nPIPELINING\nENHANCEDSTATUSCODES";
    const MOST_COMMANDS: u32 = 200;
    const LARGEST: u64 = LARGEST;

    fn dialogue(&mut self) -> &mut Dialogue {
        &mut self.dialogue
    }

    fn largest(&self) -> u64 {
        LARGEST.max(self.server.feedback.app().config.submission.largest_received())
    }

    fn host(&self) -> &str {
        self.server.feedback.app().helo()
    }

    fn certificate(&self) -> Option<&Certificate> {
        self.server.certificate.as_ref()
    }

    fn patience(&self) -> &Patience {
        &self.server.patience
    }

    fn time_for_command(&self) -> Duration {
        self.server.patience.command
    }

    fn is_receiving(&self) -> bool {
        self.transaction.is_some()
    }

    fn forget(&mut self) {
        (self.helo, self.transaction) = (None, None);
    }

    async fn obey(&mut self, command: Command<'_>) -> Result<Reply, Lost> {
        Ok(match command {
            Command::Hello { name, is_extended } => {
                (self.transaction, self.helo) = (None, Some(name.to_owned()));
                self.greeting(is_extended, "")
            }
            Command::Mail { sender, .. } => self.begin(sender),
            Command::Recipient(address) => return self.add(address).await,
            Command::Data => return self.data().await,
            Command::Reset => {
                self.transaction = None;
                Reply::new(250, "2.0.0 Forgotten.")
            }
            Command::Verify => Reply::new(252, "2.5.0 Nobody is looked up here."),
            Command::Auth { .. } => Reply::new(502, "5.5.1 Nobody logs in here."),
            // Its bytes would be taken for commands.
            Command::Chunk { .. } => {
                return Err(Lost::Refused(Reply::new(502, "5.5.1 BDAT is not offered; use DATA.")));
            }
            _ => Reply::new(214, "2.0.0 EHLO, STARTTLS, MAIL, RCPT, DATA, RSET, NOOP, QUIT. See docs/bounces.md."),
        })
    }
}

impl Reporter {
    pub fn new(server: Arc<Server>, dialogue: Dialogue, peer: IpAddr) -> Reporter {
        Reporter { server, dialogue, peer, helo: None, transaction: None }
    }

    fn begin(&mut self, sender: &str) -> Reply {
        if self.helo.is_none() {
            return Reply::new(503, "5.5.1 Say EHLO first.");
        }
        if self.transaction.is_some() {
            return Reply::new(503, "5.5.1 MAIL was said already; RSET takes it back.");
        }
        self.transaction = Some(Transaction { sender: sender.to_owned(), recipients: Recipients::Nobody });
        Reply::new(250, "2.1.0 For whom is it?")
    }

    async fn add(&mut self, address: Address) -> Result<Reply, Lost> {
        let Some(transaction) = &mut self.transaction else { return Ok(Reply::new(503, "5.5.1 Say MAIL first.")) };
        let later = Reply::new(451, "4.3.0 Nothing can be looked up now. Try again in a moment.");
        let feedback = &self.server.feedback;
        let complaints = feedback.app().config.feedback.complaints_to.as_ref();
        let target = match complaints.is_some_and(|own| own.key() == address.key()) {
            true => Ok(Some(Target::Complaints)),
            false => feedback.open(address.local()).await.map(|token| token.map(Target::ReturnPath)),
        };
        match target {
            Err(_) => return Ok(later),
            Ok(Some(target)) => return Ok(transaction.recipients.set(target)),
            Ok(None) => {}
        }
        match self.server.receiving.receiver(&address).await {
            Err(_) => Ok(later),
            Ok(Some((workspace_id, domain_id))) => Ok(transaction.recipients.add(workspace_id, domain_id, address)),
            Ok(None) if self.server.unknown_recipients.check(self.peer).is_err() => Err(Lost::Refused(TOO_MANY)),
            Ok(None) => Ok(NO_RELAY),
        }
    }
}

impl Recipients {
    /// A report is about one mail to one recipient.
    fn set(&mut self, target: Target) -> Reply {
        match self {
            Recipients::Nobody => {
                *self = Recipients::Report(target);
                Reply::new(250, "2.1.5 Noted.")
            }
            _ => Reply::new(452, "4.5.3 A report has one recipient. Send it to the others anew."),
        }
    }

    fn add(&mut self, owner: WorkspaceId, domain: DomainId, address: Address) -> Reply {
        match self {
            Recipients::Nobody => {
                let addresses = vec![address];
                *self = Recipients::Mailboxes { workspace_id: owner, domain_id: domain, addresses };
            }
            Recipients::Mailboxes { workspace_id, addresses, .. }
                if *workspace_id == owner && addresses.len() < MOST_RECIPIENTS =>
            {
                let key = address.key();
                if addresses.iter().all(|other| other.key() != key) {
                    addresses.push(address);
                }
            }
            _ => return Reply::new(452, "4.5.3 Too many recipients for one message. Send it to the others anew."),
        }
        Reply::new(250, "2.1.5 Noted.")
    }
}
