//! A connection on which messages are handed over, one transaction each.

use std::time::{Duration, Instant};

use super::dots::Dots;
use super::envelope::{Envelope, MessageSource};
use super::extensions::{Extensions, Size};
use super::outcome::{Outcome, Phase, Security};
use super::reply::Reply;
use super::stream::{Lost, Stream};
use super::timeouts::Timeouts;
use super::xtext::{original_recipient, xtext};

/// How much of a message is written at once.
const CHUNK: usize = 32 << 10;

/// The server closes the connection with this answer, whatever was asked.
const CLOSING: u16 = 421;

pub struct Connection {
    pub(super) stream: Stream,
    pub(super) extensions: Extensions,
    timeouts: Timeouts,
    host: String,
    security: Security,
    opened: Instant,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Ready,
    /// A transaction was begun and not brought to its end.
    NeedsReset,
    /// Nothing can be sent on it any more. That is also the state while a message
    /// is under way, so that a dialogue which is dropped is never taken up.
    Broken,
}

/// One step of a transaction.
struct Step {
    at: Phase,
    limit: Duration,
    expected: u16,
}

impl Connection {
    pub(super) fn new(
        stream: Stream,
        extensions: Extensions,
        host: &str,
        timeouts: Timeouts,
        security: Security,
    ) -> Connection {
        let (host, opened) = (host.to_owned(), Instant::now());
        Connection { stream, extensions, timeouts, host, security, opened, state: State::Ready }
    }

    /// Who is at the other end.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether the server reports on deliveries as it is asked to.
    pub fn reports_deliveries(&self) -> bool {
        self.extensions.dsn
    }

    /// Whether the server takes a message once, however often it is brought.
    pub fn takes_once(&self) -> bool {
        self.extensions.keys
    }

    pub fn is_secured(&self) -> bool {
        self.security != Security::Clear
    }

    /// Since when it has been open.
    pub fn opened(&self) -> Instant {
        self.opened
    }

    /// Whether another message can be sent. A server that has said something
    /// unasked, or has hung up, does not want one.
    pub fn is_reusable(&mut self) -> bool {
        if self.state != State::Broken && self.stream.has_spoken() {
            self.state = State::Broken;
        }
        self.state != State::Broken
    }

    /// One transaction. `before_dot` is awaited when all of the message is written
    /// but the dot that ends it; where it fails, the dot is never written.
    pub async fn send<M, B>(&mut self, envelope: &Envelope<'_>, message: &mut M, before_dot: B) -> Outcome
    where
        M: MessageSource,
        B: Future<Output = Result<(), String>> + Send,
    {
        if self.state == State::Broken {
            return Outcome::Failed { reason: "the connection was closed before".into(), at: Phase::Mail };
        }
        if let Some(reply) = envelope.refusal(&self.extensions, &self.host) {
            return Outcome::Refused { reply, at: Phase::Mail };
        }
        let needs_reset = std::mem::replace(&mut self.state, State::Broken) == State::NeedsReset;
        let outcome = match self.begin(envelope, needs_reset).await {
            Ok(()) => {
                let key = envelope.key_field(&self.extensions);
                self.stream.output().extend_from_slice(key.as_bytes());
                self.hand_over(message, before_dot).await
            }
            Err(outcome) => outcome,
        };
        self.stream.rest();
        outcome
    }

    /// Takes leave.
    pub async fn quit(mut self) {
        if self.state == State::Broken {
            return;
        }
        self.stream.push(&["QUIT"]);
        let limit = self.timeouts.quit;
        if self.stream.flush(limit).await.is_ok() {
            // Whatever the answer is, it is over.
            let _ = self.stream.reply(limit).await;
        }
    }

    /// MAIL, RCPT and DATA; together where the server takes them together.
    async fn begin(&mut self, envelope: &Envelope<'_>, needs_reset: bool) -> Result<(), Outcome> {
        let Timeouts { mail, rcpt, data, .. } = self.timeouts;
        let steps = [
            Step { at: Phase::Mail, limit: mail, expected: 250 },
            Step { at: Phase::Rcpt, limit: rcpt, expected: 250 },
            Step { at: Phase::Data, limit: data, expected: 354 },
        ];
        let pipelining = self.extensions.pipelining;
        if needs_reset {
            self.stream.push(&["RSET"]);
        }
        if needs_reset && !pipelining {
            self.written(Phase::Mail, mail).await?;
            self.reset_reply().await?;
        }
        if pipelining {
            steps.iter().for_each(|step| self.push(step.at, envelope));
            self.written(Phase::Mail, mail).await?;
            if needs_reset {
                self.reset_reply().await?;
            }
        }
        let mut replies = Replies::default();
        for step in &steps {
            if !pipelining {
                self.push(step.at, envelope);
                self.written(step.at, step.limit).await?;
            }
            let reply = self.stream.reply(step.limit).await;
            replies.add(step, reply)?;
            if !pipelining && replies.refusal.is_some() {
                break;
            }
        }
        self.settle(replies).await
    }

    fn push(&mut self, phase: Phase, envelope: &Envelope<'_>) {
        match phase {
            Phase::Mail => {
                let size = (envelope.size + envelope.key_field(&self.extensions).len() as u64).to_string();
                let envelope_id = self.extensions.dsn.then(|| xtext(envelope.id));
                let announces = self.extensions.size != Size::NotOffered;
                self.stream.push(&[
                    "MAIL FROM:<",
                    envelope.from,
                    ">",
                    if announces { " SIZE=" } else { "" },
                    if announces { &size } else { "" },
                    // Where it is not offered, the message goes as it is: every server in
                    // use takes eight bits, and changing it would break its signatures.
                    if envelope.eightbit && self.extensions.eight_bit { " BODY=8BITMIME" } else { "" },
                    if envelope.needs_utf8() { " SMTPUTF8" } else { "" },
                    if envelope_id.is_some() { " RET=HDRS ENVID=" } else { "" },
                    envelope_id.as_deref().unwrap_or_default(),
                ]);
            }
            Phase::Rcpt => {
                let reports = self.extensions.dsn;
                let original = reports.then(|| original_recipient(envelope.to)).flatten();
                self.stream.push(&[
                    "RCPT TO:<",
                    envelope.to,
                    ">",
                    if reports && envelope.reports_success { " NOTIFY=SUCCESS,FAILURE,DELAY" } else { "" },
                    if original.is_some() { " ORCPT=" } else { "" },
                    original.as_deref().unwrap_or_default(),
                ]);
            }
            _ => self.stream.push(&["DATA"]),
        }
    }

    async fn written(&mut self, at: Phase, limit: Duration) -> Result<(), Outcome> {
        match self.stream.flush(limit).await {
            Ok(()) => Ok(()),
            Err(lost) => Err(self.last_words(lost, at).await),
        }
    }

    async fn reset_reply(&mut self) -> Result<(), Outcome> {
        match self.stream.reply(self.timeouts.mail).await {
            Ok(reply) if reply.is_positive() => Ok(()),
            // That is about the message before.
            Ok(reply) => {
                Err(Outcome::Failed { reason: format!("the server answered {reply} to RSET"), at: Phase::Mail })
            }
            Err(lost) => Err(failed(&lost, Phase::Mail)),
        }
    }

    /// What the answers mean for the message, and for the connection.
    async fn settle(&mut self, replies: Replies) -> Result<(), Outcome> {
        let Some((reply, at)) = replies.refusal else { return Ok(()) };
        let refused = Outcome::Refused { reply, at };
        if !replies.wants_message {
            self.state = State::NeedsReset;
        } else if !replies.has_recipient {
            // The server waits for a message to nobody: it gets an empty one (RFC 2920, 3.1).
            self.stream.push(&["."]);
            let limit = self.timeouts.mail;
            if self.stream.flush(limit).await.is_ok()
                && self.stream.reply(limit).await.is_ok_and(|reply| reply.code != CLOSING)
            {
                self.state = State::NeedsReset;
            }
        }
        Err(refused)
    }

    /// The message, the dot, and the answer to it.
    async fn hand_over<M, B>(&mut self, message: &mut M, before_dot: B) -> Outcome
    where
        M: MessageSource,
        B: Future<Output = Result<(), String>> + Send,
    {
        if let Err(outcome) = self.body(message).await {
            return outcome;
        }
        if let Err(reason) = before_dot.await {
            return Outcome::Failed { reason, at: Phase::Body };
        }
        if self.stream.has_spoken() {
            return self.last_words(Lost::Closed, Phase::Body).await;
        }
        self.stream.push(&["."]);
        let (limit, patience) = (self.timeouts.block, self.timeouts.dot);
        let answer = match self.stream.flush(limit).await {
            Ok(()) => self.stream.reply(patience).await,
            Err(lost) => Err(lost),
        };
        match answer {
            Ok(reply) => self.answered(reply),
            Err(lost) => Outcome::Unknown { reason: lost.to_string() },
        }
    }

    async fn body<M: MessageSource>(&mut self, message: &mut M) -> Result<(), Outcome> {
        let limit = self.timeouts.block;
        let mut dots = Dots::new();
        loop {
            let piece = match message.next().await {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                Err(error) => {
                    let reason = format!("the message could not be read: {error}");
                    return Err(Outcome::Failed { reason, at: Phase::Body });
                }
            };
            for part in piece.chunks(CHUNK) {
                dots.push(part, self.stream.output());
                if self.stream.output().len() >= CHUNK {
                    self.written(Phase::Body, limit).await?;
                }
            }
        }
        self.stream.output().extend_from_slice(dots.line_end());
        self.written(Phase::Body, limit).await
    }

    /// The answer to a message.
    fn answered(&mut self, reply: Reply) -> Outcome {
        if reply.code != CLOSING {
            self.state = State::Ready;
        }
        match reply.code {
            200..300 => Outcome::Accepted { reply, security: self.security },
            400.. => Outcome::Refused { reply, at: Phase::Dot },
            _ => {
                self.state = State::Broken;
                Outcome::Unknown { reason: format!("the server answered {reply} to the end of the message") }
            }
        }
    }

    /// What is told where the server hung up, or does not listen any more, before
    /// the dot: its own words, if it has left any.
    async fn last_words(&mut self, lost: Lost, at: Phase) -> Outcome {
        if !self.stream.has_spoken() {
            return failed(&lost, at);
        }
        match self.stream.reply(self.timeouts.quit).await {
            Ok(reply) if reply.is_negative() => Outcome::Refused { reply, at },
            Ok(reply) => unexpected(&reply, at),
            Err(_) => failed(&lost, at),
        }
    }
}

/// The answers to the steps of a transaction.
#[derive(Default)]
struct Replies {
    /// The first that said no.
    refusal: Option<(Reply, Phase)>,
    has_recipient: bool,
    wants_message: bool,
}

impl Replies {
    /// Takes the answer to a step; an error is the end of the connection.
    fn add(&mut self, step: &Step, reply: Result<Reply, Lost>) -> Result<(), Outcome> {
        let end = match reply {
            Ok(reply) if reply.code / 100 == step.expected / 100 => {
                self.has_recipient |= step.at == Phase::Rcpt;
                self.wants_message |= step.at == Phase::Data;
                return Ok(());
            }
            Ok(reply) if reply.is_negative() && reply.code != CLOSING => {
                self.refusal.get_or_insert((reply, step.at));
                return Ok(());
            }
            Ok(reply) if reply.is_negative() => Outcome::Refused { reply, at: step.at },
            Ok(reply) => unexpected(&reply, step.at),
            Err(lost) => failed(&lost, step.at),
        };
        // Who has refused before is not asked why it ended.
        Err(self.refusal.take().map_or(end, |(reply, at)| Outcome::Refused { reply, at }))
    }
}

fn failed(lost: &Lost, at: Phase) -> Outcome {
    Outcome::Failed { reason: lost.to_string(), at }
}

fn unexpected(reply: &Reply, at: Phase) -> Outcome {
    Outcome::Failed { reason: format!("the server answered {reply} to {at}, which it should not"), at }
}
