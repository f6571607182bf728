//! A dialogue, command by command (RFC 5321, with the extensions that EHLO names).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::Server;
use super::log_in::{Proof, decoded};
use super::message::Transaction;
use crate::auth::{Caller, SendOnly};
use crate::emails::{LARGEST, MOST_ADDRESSES};
use crate::mime::Address;
use crate::smtp_server::{Certificate, Command, Dialogue, Lost, Patience, Reply, Session};

/// How often it may fail to log in.
const MOST_LOG_INS: u32 = 3;

pub const LOG_IN_FIRST: Reply = Reply::new(530, "5.7.0 Authentication required: log in with AUTH first.");

/// A program that hands in mail.
pub struct Submitter {
    pub(super) server: Arc<Server>,
    pub(super) dialogue: Dialogue,
    pub(super) peer: SocketAddr,
    /// What the client calls itself.
    pub(super) helo: Option<String>,
    pub(super) caller: Option<Arc<Caller<SendOnly>>>,
    pub(super) transaction: Option<Transaction>,
    failed_log_ins: u32,
}

impl Session for Submitter {
    const EXTENSIONS: &'static str = "8BITMIME\nSMTPUTF8\nPIPELINING\nCHUNKING\nENHANCEDSTATUSCODES\nXIDEMPOTENCY";
    const MOST_COMMANDS: u32 = 500;
    const LARGEST: u64 = LARGEST;

    fn dialogue(&mut self) -> &mut Dialogue {
        &mut self.dialogue
    }

    fn host(&self) -> &str {
        self.server.emails.helo()
    }

    fn certificate(&self) -> Option<&Certificate> {
        self.server.certificate.as_ref()
    }

    fn patience(&self) -> &Patience {
        &self.server.patience
    }

    fn time_for_command(&self) -> Duration {
        let patience = &self.server.patience;
        if self.caller.is_some() { patience.command } else { patience.stranger }
    }

    fn is_receiving(&self) -> bool {
        self.transaction.is_some()
    }

    fn forget(&mut self) {
        (self.helo, self.caller, self.transaction) = (None, None, None);
    }

    fn is_exhausted(&self) -> bool {
        self.failed_log_ins >= MOST_LOG_INS
    }

    async fn obey(&mut self, command: Command<'_>) -> Result<Reply, Lost> {
        Ok(match command {
            Command::Hello { name, is_extended } => {
                self.transaction = None;
                self.helo = Some(name.to_owned());
                let more = if self.may_log_in() { "\nAUTH PLAIN LOGIN\nHELP" } else { "\nHELP" };
                self.greeting(is_extended, more)
            }
            Command::Auth { mechanism, initial } => return self.log_in(mechanism, initial).await,
            Command::Mail { smtputf8, .. } => self.begin(smtputf8),
            Command::Recipient(address) => self.add(address),
            Command::Data => return self.data().await,
            Command::Chunk { size, is_last } => return self.chunk(size, is_last).await,
            Command::Reset => {
                self.transaction = None;
                Reply::new(250, "2.0.0 Forgotten.")
            }
            Command::Verify => Reply::new(252, "2.5.0 Nobody is looked up here. Send mail, and see."),
            _ => Reply::new(
                214,
                "2.0.0 EHLO, STARTTLS, AUTH, MAIL, RCPT, DATA, BDAT, RSET, NOOP, QUIT. See docs/smtp.md.",
            ),
        })
    }
}

impl Submitter {
    pub fn new(server: Arc<Server>, dialogue: Dialogue, peer: SocketAddr) -> Submitter {
        Submitter { server, dialogue, peer, helo: None, caller: None, transaction: None, failed_log_ins: 0 }
    }

    fn may_log_in(&self) -> bool {
        self.dialogue.is_encrypted || self.peer.ip().to_canonical().is_loopback()
    }

    async fn log_in(&mut self, mechanism: &str, initial: Option<&str>) -> Result<Reply, Lost> {
        if self.caller.is_some() || self.transaction.is_some() {
            return Ok(Reply::new(503, "5.5.1 You have logged in already."));
        }
        if !self.may_log_in() {
            return Ok(Reply::new(530, "5.7.0 Must issue a STARTTLS command first."));
        }
        let proof = match mechanism.to_ascii_uppercase().as_str() {
            "PLAIN" => self.plain(initial).await?,
            "LOGIN" => self.login(initial).await?,
            _ => return Ok(Reply::new(504, "5.5.4 Use AUTH PLAIN or AUTH LOGIN.")),
        };
        let found = match proof {
            Ok(proof) => self.server.log_in(self.peer.ip(), &proof).await,
            Err(refusal) => Err(refusal),
        };
        match found {
            Ok(caller) => {
                self.caller = Some(caller);
                Ok(Reply::new(235, "2.7.0 Welcome."))
            }
            Err(refusal) => {
                self.failed_log_ins += u32::from(refusal.code != 501);
                Ok(refusal)
            }
        }
    }

    async fn plain(&mut self, initial: Option<&str>) -> Result<Result<Proof, Reply>, Lost> {
        Ok(self.answer("", initial).await?.and_then(|text| Proof::plain(&text)))
    }

    async fn login(&mut self, initial: Option<&str>) -> Result<Result<Proof, Reply>, Lost> {
        // "Username:" and "Password:"
        let user = match self.answer("VXNlcm5hbWU6", initial).await? {
            Ok(user) => user,
            Err(refusal) => return Ok(Err(refusal)),
        };
        Ok(self.answer("UGFzc3dvcmQ6", None).await?.map(|key| Proof { user, key }))
    }

    /// What the client answers to a question, unless it has done so before.
    async fn answer(&mut self, question: &str, initial: Option<&str>) -> Result<Result<String, Reply>, Lost> {
        if let Some(initial) = initial {
            return Ok(decoded(initial));
        }
        self.dialogue.stream.say(&Reply::told(334, question.to_owned()));
        let line = self.dialogue.line(self.time_for_command()).await?;
        match str::from_utf8(&line) {
            Ok("*") => Ok(Err(Reply::new(501, "5.7.0 As you like."))),
            Ok(text) => Ok(decoded(text)),
            Err(_) => Ok(decoded("*")),
        }
    }

    fn begin(&mut self, smtputf8: bool) -> Reply {
        if self.caller.is_none() {
            return LOG_IN_FIRST;
        }
        if self.helo.is_none() {
            return Reply::new(503, "5.5.1 Say EHLO first.");
        }
        if self.transaction.is_some() {
            return Reply::new(503, "5.5.1 MAIL was said already; RSET takes it back.");
        }
        self.transaction = Some(Transaction::new(smtputf8));
        Reply::new(250, "2.1.0 Whom is it for?")
    }

    fn add(&mut self, address: Address) -> Reply {
        let Some(transaction) = self.transaction.as_mut().filter(|transaction| !transaction.has_begun()) else {
            return match self.caller {
                None => LOG_IN_FIRST,
                Some(_) => Reply::new(503, "5.5.1 Say MAIL first."),
            };
        };
        if address.needs_smtputf8() && !transaction.smtputf8 {
            return Reply::new(553, "5.6.7 This address needs SMTPUTF8 behind MAIL.");
        }
        let key = address.key();
        if !transaction.recipients.iter().any(|known| known.key() == key) {
            if transaction.recipients.len() >= MOST_ADDRESSES {
                let text = format!("4.5.3 A message may have {MOST_ADDRESSES} recipients. Send it to the others anew.");
                return Reply::told(452, text);
            }
            transaction.recipients.push(address);
        }
        Reply::new(250, "2.1.5 Noted.")
    }
}
