//! A dialogue with a server that brings a report, command by command.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::watch;

use super::Server;
use super::message::LARGEST;
use crate::delivery::ReturnToken;
use crate::mime::Address;
use crate::smtp_server::{Command, Lost, Reply, Stream};

/// How much a client may get wrong, and how much it may say, before it hands over a message.
const MOST_FAULTS: u32 = 10;
const MOST_COMMANDS: u32 = 100;

const STOPPING: Reply = Reply::new(421, "4.3.2 This server is stopping. Try again in a moment.");
const NO_RELAY: Reply =
    Reply::new(550, "5.7.1 Only reports on mail that was sent from here are taken, at its return path.");

pub struct Session {
    pub(super) server: Arc<Server>,
    pub(super) stream: Stream,
    is_encrypted: bool,
    has_greeted: bool,
    pub(super) transaction: Option<Transaction>,
    stopping: watch::Receiver<bool>,
    faults: u32,
    commands: u32,
}

/// What was said of a message that is to come.
pub struct Transaction {
    /// Reports on deliveries come from nobody, so that nobody reports on them.
    pub is_from_nobody: bool,
    pub token: Option<ReturnToken>,
}

/// Whether a dialogue goes on.
#[derive(PartialEq, Eq)]
enum Flow {
    On,
    Over,
}

impl Session {
    pub fn new(server: Arc<Server>, stream: Stream, stopping: watch::Receiver<bool>) -> Session {
        Session {
            server,
            stream,
            is_encrypted: false,
            has_greeted: false,
            transaction: None,
            stopping,
            faults: 0,
            commands: 0,
        }
    }

    /// The dialogue, from the first word to the last.
    pub async fn run(mut self) {
        self.stream.say(&Reply::told(220, format!("{} ESMTP Posthorn", self.server.feedback.app().helo())));
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
        match self.faults > MOST_FAULTS {
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
        let limit = self.server.patience.command;
        if !self.stream.has_line() {
            self.stream.flush(limit).await?;
        }
        if self.transaction.is_some() {
            return self.stream.line(limit).await.map(Some);
        }
        let mut stopping = self.stopping.clone();
        tokio::select! {
            biased;
            _ = stopping.wait_for(|stopping| *stopping) => Ok(None),
            line = self.stream.line(limit) => line.map(Some),
        }
    }

    async fn obey(&mut self, command: Command<'_>) -> Result<Reply, Lost> {
        Ok(match command {
            Command::Hello { is_extended, .. } => {
                (self.transaction, self.has_greeted) = (None, true);
                self.greeting(is_extended)
            }
            Command::Mail { is_from_nobody, .. } => self.begin(is_from_nobody),
            Command::Recipient(address) => self.add(&address).await,
            Command::Data => return self.data().await,
            Command::Reset => {
                self.transaction = None;
                Reply::new(250, "2.0.0 Forgotten.")
            }
            Command::Noop => Reply::new(250, "2.0.0 Nothing done."),
            Command::Verify => Reply::new(252, "2.5.0 Nobody is looked up here."),
            Command::Help => {
                Reply::new(214, "2.0.0 EHLO, STARTTLS, MAIL, RCPT, DATA, RSET, NOOP, QUIT. See docs/bounces.md.")
            }
            Command::StartTls => Reply::new(503, "5.5.1 STARTTLS is not offered now."),
            Command::Auth { .. } => Reply::new(502, "5.5.1 Nobody logs in here."),
            // Its bytes would be taken for commands.
            Command::Chunk { .. } => {
                return Err(Lost::Refused(Reply::new(502, "5.5.1 BDAT is not offered; use DATA.")));
            }
            Command::Quit => Reply::new(221, "2.0.0 Goodbye."),
        })
    }

    fn greeting(&self, is_extended: bool) -> Reply {
        let mut text = self.server.feedback.app().helo().to_owned();
        if is_extended {
            text += &format!("\nSIZE {LARGEST}\n8BITMIME\nSMTPUTF8\nPIPELINING\nENHANCEDSTATUSCODES");
            if self.offers_tls() {
                text += "\nSTARTTLS";
            }
        }
        Reply::told(250, text)
    }

    fn offers_tls(&self) -> bool {
        self.server.certificate.is_some() && !self.is_encrypted
    }

    async fn start_tls(&mut self) -> Result<Flow, Lost> {
        let Some(certificate) = &self.server.certificate else { return Err(Lost::Closed) };
        let (acceptor, limit) = (certificate.acceptor(), self.server.patience.handshake);
        self.stream.say(&Reply::new(220, "2.0.0 Go ahead."));
        self.stream.flush(limit).await?;
        self.stream.encrypt(acceptor, limit).await?;
        // What was said in clear may have been said by somebody else.
        (self.is_encrypted, self.has_greeted, self.transaction) = (true, false, None);
        Ok(Flow::On)
    }

    fn begin(&mut self, is_from_nobody: bool) -> Reply {
        if !self.has_greeted {
            return Reply::new(503, "5.5.1 Say EHLO first.");
        }
        if self.transaction.is_some() {
            return Reply::new(503, "5.5.1 MAIL was said already; RSET takes it back.");
        }
        self.transaction = Some(Transaction { is_from_nobody, token: None });
        Reply::new(250, "2.1.0 What is it about?")
    }

    /// A report is about one mail to one recipient.
    async fn add(&mut self, address: &Address) -> Reply {
        let Some(transaction) = &mut self.transaction else { return Reply::new(503, "5.5.1 Say MAIL first.") };
        match self.server.feedback.open(address.local()).await {
            Ok(None) => NO_RELAY,
            Ok(Some(_)) if transaction.token.is_some() => {
                Reply::new(452, "4.5.3 A report has one recipient. Send it to the others anew.")
            }
            Ok(Some(token)) => {
                transaction.token = Some(token);
                Reply::new(250, "2.1.5 Noted.")
            }
            Err(_) => Reply::new(451, "4.3.0 Nothing can be looked up now. Try again in a moment."),
        }
    }

    /// A message was taken: what went wrong before it counts no more.
    pub(super) fn forgive(&mut self) {
        (self.faults, self.commands) = (0, 0);
    }
}
