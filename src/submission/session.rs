//! A dialogue, command by command (RFC 5321, with the extensions that EHLO names).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

use super::Server;
use super::log_in::{Proof, decoded};
use super::message::Transaction;
use crate::auth::{Caller, SendOnly};
use crate::emails::{LARGEST, MOST_ADDRESSES};
use crate::mime::Address;
use crate::smtp_server::{Command, Lost, Reply, Stream};

/// How much a client may get wrong, and how much it may say, before it hands in a message.
const MOST_FAULTS: u32 = 10;
const MOST_COMMANDS: u32 = 500;

/// How often it may fail to log in.
const MOST_LOG_INS: u32 = 3;

pub const LOG_IN_FIRST: Reply = Reply::new(530, "5.7.0 Authentication required: log in with AUTH first.");

const STOPPING: Reply = Reply::new(421, "4.3.2 This server is stopping. Try again in a moment.");

pub struct Session {
    pub(super) server: Arc<Server>,
    pub(super) stream: Stream,
    pub(super) peer: SocketAddr,
    pub(super) is_encrypted: bool,
    /// What the client calls itself.
    pub(super) helo: Option<String>,
    pub(super) caller: Option<Arc<Caller<SendOnly>>>,
    pub(super) transaction: Option<Transaction>,
    stopping: watch::Receiver<bool>,
    failed_log_ins: u32,
    faults: u32,
    commands: u32,
}

/// Whether a dialogue goes on.
#[derive(PartialEq, Eq)]
enum Flow {
    On,
    Over,
}

impl Session {
    pub fn new(server: Arc<Server>, stream: Stream, peer: SocketAddr, stopping: watch::Receiver<bool>) -> Session {
        Session {
            server,
            stream,
            peer,
            is_encrypted: false,
            helo: None,
            caller: None,
            transaction: None,
            stopping,
            failed_log_ins: 0,
            faults: 0,
            commands: 0,
        }
    }

    /// The dialogue, from the first word to the last.
    pub async fn run(mut self, is_encrypted: bool) {
        if is_encrypted && self.encrypt().await.is_err() {
            return;
        }
        self.stream.say(&Reply::told(220, format!("{} ESMTP Posthorn", self.server.emails.helo())));
        let ended = loop {
            match self.turn().await {
                Ok(Flow::On) => {}
                Ok(Flow::Over) => break Ok(()),
                Err(lost) => break Err(lost),
            }
        };
        match ended.err().map(Lost::last_words) {
            None => {}
            Some(Some(reply)) => self.stream.say(&reply),
            Some(None) => return,
        }
        self.stream.close().await;
    }

    fn may_log_in(&self) -> bool {
        self.is_encrypted || self.peer.ip().to_canonical().is_loopback()
    }

    pub(super) fn patience(&self) -> Duration {
        let patience = &self.server.patience;
        if self.caller.is_some() { patience.command } else { patience.stranger }
    }

    async fn turn(&mut self) -> Result<Flow, Lost> {
        let Some(line) = self.next_line().await? else { return Ok(self.leave(&STOPPING)) };
        self.commands += 1;
        if self.commands > MOST_COMMANDS {
            return Ok(self.leave(&Reply::new(421, "4.7.0 Too many commands without a message.")));
        }
        let reply = match Command::parse(&line, LARGEST) {
            Ok(Command::StartTls) if self.offers_tls() => return self.start_tls().await,
            Ok(Command::Quit) => return Ok(self.leave(&Reply::new(221, "2.0.0 Goodbye."))),
            Ok(command) => self.obey(command).await?,
            Err(reply) => reply,
        };
        self.faults += u32::from(reply.is_refusal());
        self.stream.say(&reply);
        match self.faults > MOST_FAULTS || self.failed_log_ins >= MOST_LOG_INS {
            true => Ok(self.leave(&Reply::new(421, "4.7.0 Too many errors."))),
            false => Ok(Flow::On),
        }
    }

    fn leave(&mut self, reply: &Reply) -> Flow {
        self.stream.say(reply);
        Flow::Over
    }

    /// The next command; `None` where it is time to stop, and nothing is under way.
    async fn next_line(&mut self) -> Result<Option<Bytes>, Lost> {
        let limit = self.patience();
        if self.transaction.is_some() {
            return self.line(limit).await.map(Some);
        }
        if !self.stream.has_line() {
            self.stream.flush(limit).await?;
        }
        let mut stopping = self.stopping.clone();
        tokio::select! {
            biased;
            _ = stopping.wait_for(|stopping| *stopping) => Ok(None),
            line = self.stream.line(limit) => line.map(Some),
        }
    }

    async fn line(&mut self, limit: Duration) -> Result<Bytes, Lost> {
        if !self.stream.has_line() {
            self.stream.flush(limit).await?;
        }
        self.stream.line(limit).await
    }

    async fn obey(&mut self, command: Command<'_>) -> Result<Reply, Lost> {
        Ok(match command {
            Command::Hello { name, is_extended } => {
                self.transaction = None;
                self.helo = Some(name.to_owned());
                self.greeting(is_extended)
            }
            Command::StartTls => Reply::new(503, "5.5.1 STARTTLS is not offered now."),
            Command::Auth { mechanism, initial } => return self.log_in(mechanism, initial).await,
            Command::Mail { smtputf8, .. } => self.begin(smtputf8),
            Command::Recipient(address) => self.add(address),
            Command::Data => return self.data().await,
            Command::Chunk { size, is_last } => return self.chunk(size, is_last).await,
            Command::Reset => {
                self.transaction = None;
                Reply::new(250, "2.0.0 Forgotten.")
            }
            Command::Noop => Reply::new(250, "2.0.0 Nothing done."),
            Command::Verify => Reply::new(252, "2.5.0 Nobody is looked up here. Send mail, and see."),
            Command::Help => Reply::new(
                214,
                "2.0.0 EHLO, STARTTLS, AUTH, MAIL, RCPT, DATA, BDAT, RSET, NOOP, QUIT. See docs/smtp.md.",
            ),
            Command::Quit => Reply::new(221, "2.0.0 Goodbye."),
        })
    }

    fn greeting(&self, is_extended: bool) -> Reply {
        let mut text = self.server.emails.helo().to_owned();
        if is_extended {
            text += &format!("\nSIZE {LARGEST}\n8BITMIME\nSMTPUTF8\nPIPELINING\nCHUNKING\nENHANCEDSTATUSCODES");
            if self.offers_tls() {
                text += "\nSTARTTLS";
            }
            if self.may_log_in() {
                text += "\nAUTH PLAIN LOGIN";
            }
            text += "\nHELP";
        }
        Reply::told(250, text)
    }

    fn offers_tls(&self) -> bool {
        self.server.certificate.is_some() && !self.is_encrypted
    }

    async fn start_tls(&mut self) -> Result<Flow, Lost> {
        self.stream.say(&Reply::new(220, "2.0.0 Go ahead."));
        self.stream.flush(self.server.patience.handshake).await?;
        self.encrypt().await?;
        // What was said in clear may have been said by somebody else.
        (self.helo, self.caller, self.transaction) = (None, None, None);
        Ok(Flow::On)
    }

    async fn encrypt(&mut self) -> Result<(), Lost> {
        let Some(certificate) = &self.server.certificate else { return Err(Lost::Closed) };
        let acceptor = certificate.acceptor();
        self.stream.encrypt(acceptor, self.server.patience.handshake).await?;
        self.is_encrypted = true;
        Ok(())
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
        self.stream.say(&Reply::told(334, question.to_owned()));
        let line = self.line(self.patience()).await?;
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

    /// A message was taken: what went wrong before it counts no more.
    pub(super) fn forgive(&mut self) {
        (self.faults, self.commands) = (0, 0);
    }
}
