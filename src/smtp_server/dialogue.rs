//! How a dialogue goes on, command by command (RFC 5321), whatever it is about.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

use super::certificate::Certificate;
use super::command::Command;
use super::reply::Reply;
use super::stream::{Lost, Stream};
use crate::config::Config;

/// How much a client may get wrong before it hands over a message.
const MOST_FAULTS: u32 = 10;

const STOPPING: Reply = Reply::new(421, "4.3.2 This server is stopping. Try again in a moment.");

/// How long a client may take.
#[derive(Clone, Copy)]
pub struct Patience {
    /// For the handshake that begins encryption.
    handshake: Duration,
    /// For a command, before it has logged in and after.
    pub stranger: Duration,
    pub command: Duration,
    /// For the next piece of a message, and for all of them.
    pub piece: Duration,
    pub message: Duration,
}

impl Patience {
    /// In seconds: for a command of a stranger and of somebody who is known, and for a message.
    pub fn of(config: &Config, [stranger, command, message]: [u32; 3]) -> Patience {
        let seconds = |count: u32| Duration::from_secs(count.into()).mul_f64(config.mail.smtp_timeout_factor);
        Patience {
            handshake: seconds(30),
            stranger: seconds(stranger),
            command: seconds(command),
            piece: seconds(180),
            message: seconds(message),
        }
    }
}

/// A client that is spoken with, and what was counted of it.
pub struct Dialogue {
    pub stream: Stream,
    pub is_encrypted: bool,
    stopping: watch::Receiver<bool>,
    faults: u32,
    commands: u32,
}

impl Dialogue {
    pub fn new(stream: Stream, stopping: watch::Receiver<bool>) -> Dialogue {
        Dialogue { stream, is_encrypted: false, stopping, faults: 0, commands: 0 }
    }

    /// A message was taken: what went wrong before it counts no more.
    pub fn forgive(&mut self) {
        (self.faults, self.commands) = (0, 0);
    }

    /// The next line; all answers are written before it is waited for.
    pub async fn line(&mut self, limit: Duration) -> Result<Bytes, Lost> {
        if !self.stream.has_line() {
            self.stream.flush(limit).await?;
        }
        self.stream.line(limit).await
    }

    /// The same; `None` where it is time to stop.
    async fn line_unless_stopping(&mut self, limit: Duration) -> Result<Option<Bytes>, Lost> {
        let mut stopping = self.stopping.clone();
        if !self.stream.has_line() {
            self.stream.flush(limit).await?;
        }
        tokio::select! {
            biased;
            _ = stopping.wait_for(|stopping| *stopping) => Ok(None),
            line = self.stream.line(limit) => line.map(Some),
        }
    }

    fn leave(&mut self, reply: &Reply) -> Flow {
        self.stream.say(reply);
        Flow::Over
    }
}

/// Whether a dialogue goes on.
#[derive(PartialEq, Eq)]
enum Flow {
    On,
    Over,
}

/// What one who serves does in a dialogue.
pub trait Session: Send {
    /// What EHLO names besides encryption, a line each.
    const EXTENSIONS: &'static str;
    /// How much a client may say before it hands over a message.
    const MOST_COMMANDS: u32;
    /// The largest message, unless a setting says more.
    const LARGEST: u64;

    fn dialogue(&mut self) -> &mut Dialogue;
    fn largest(&self) -> u64 {
        Self::LARGEST
    }
    /// What this server calls itself.
    fn host(&self) -> &str;
    fn certificate(&self) -> Option<&Certificate>;
    fn patience(&self) -> &Patience;
    /// How long the next command may take.
    fn time_for_command(&self) -> Duration;
    /// Whether a message is under way: the client is not left within one.
    fn is_receiving(&self) -> bool;
    /// Forgets all that was said: somebody else may have said it.
    fn forget(&mut self);
    /// Whether the client has tried more than it may.
    fn is_exhausted(&self) -> bool {
        false
    }
    fn obey(&mut self, command: Command<'_>) -> impl Future<Output = Result<Reply, Lost>> + Send;

    /// The answer to a greeting.
    fn greeting(&mut self, is_extended: bool, more: &str) -> Reply {
        let mut text = self.host().to_owned();
        if is_extended {
            text += &format!("\nSIZE {}\n{}", self.largest(), Self::EXTENSIONS);
            if offers_tls(self) {
                text += "\nSTARTTLS";
            }
            text += more;
        }
        Reply::told(250, text)
    }
}

/// The dialogue, from the first word to the last.
pub async fn run(mut session: impl Session, is_encrypted: bool) {
    if is_encrypted && encrypt(&mut session).await.is_err() {
        return;
    }
    let greeting = Reply::told(220, format!("{} ESMTP Posthorn", session.host()));
    session.dialogue().stream.say(&greeting);
    let ended = loop {
        match turn(&mut session).await {
            Ok(Flow::On) => {}
            Ok(Flow::Over) => break Ok(()),
            Err(lost) => break Err(lost),
        }
    };
    match ended.err().map(Lost::last_words) {
        None => {}
        Some(Some(reply)) => session.dialogue().stream.say(&reply),
        Some(None) => return,
    }
    session.dialogue().stream.close().await;
}

async fn turn<S: Session>(session: &mut S) -> Result<Flow, Lost> {
    let limit = session.time_for_command();
    let line = match session.is_receiving() {
        true => Some(session.dialogue().line(limit).await?),
        false => session.dialogue().line_unless_stopping(limit).await?,
    };
    let dialogue = session.dialogue();
    let Some(line) = line else { return Ok(dialogue.leave(&STOPPING)) };
    dialogue.commands += 1;
    if dialogue.commands > S::MOST_COMMANDS {
        return Ok(dialogue.leave(&Reply::new(421, "4.7.0 Too many commands without a message.")));
    }
    let reply = match Command::parse(&line, session.largest()) {
        Ok(Command::StartTls) if offers_tls(session) => return start_tls(session).await,
        Ok(Command::StartTls) => Reply::new(503, "5.5.1 STARTTLS is not offered now."),
        Ok(Command::Quit) => return Ok(session.dialogue().leave(&Reply::new(221, "2.0.0 Goodbye."))),
        Ok(Command::Noop) => Reply::new(250, "2.0.0 Nothing done."),
        Ok(command) => session.obey(command).await?,
        Err(reply) => reply,
    };
    let is_exhausted = session.is_exhausted();
    let dialogue = session.dialogue();
    dialogue.faults += u32::from(reply.is_refusal());
    dialogue.stream.say(&reply);
    match dialogue.faults > MOST_FAULTS || is_exhausted {
        true => Ok(dialogue.leave(&Reply::new(421, "4.7.0 Too many errors."))),
        false => Ok(Flow::On),
    }
}

fn offers_tls(session: &mut (impl Session + ?Sized)) -> bool {
    session.certificate().is_some() && !session.dialogue().is_encrypted
}

async fn start_tls(session: &mut impl Session) -> Result<Flow, Lost> {
    let limit = session.patience().handshake;
    let stream = &mut session.dialogue().stream;
    stream.say(&Reply::new(220, "2.0.0 Go ahead."));
    stream.flush(limit).await?;
    encrypt(session).await?;
    session.forget();
    Ok(Flow::On)
}

async fn encrypt(session: &mut impl Session) -> Result<(), Lost> {
    let limit = session.patience().handshake;
    let acceptor = session.certificate().map(Certificate::acceptor).ok_or(Lost::Closed)?;
    let dialogue = session.dialogue();
    dialogue.stream.encrypt(acceptor, limit).await?;
    dialogue.is_encrypted = true;
    Ok(())
}
