//! What became of a connection, and of a message on it.

use std::fmt;

use super::reply::Reply;
use crate::text::words;

/// How far a dialogue had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    Connect,
    Banner,
    Ehlo,
    StartTls,
    Auth,
    Mail,
    Rcpt,
    Data,
    /// The message itself, before its end.
    Body,
    /// The line with the dot was written; the answer to the message.
    Dot,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Connect => "connecting",
            Phase::Banner => "the greeting",
            Phase::Ehlo => "EHLO",
            Phase::StartTls => "STARTTLS",
            Phase::Auth => "AUTH",
            Phase::Mail => "MAIL",
            Phase::Rcpt => "RCPT",
            Phase::Data => "DATA",
            Phase::Body => "the message",
            Phase::Dot => "the end of the message",
        })
    }
}

/// Why there is no connection that could be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub at: Phase,
    /// One sentence without a full stop.
    pub reason: String,
    /// What the server said, where it was the server who refused.
    pub reply: Option<Reply>,
    /// Encryption was offered and failed, and nobody had insisted on it: a new
    /// connection with [`super::TlsPolicy::None`] may do.
    pub tls_failed: bool,
}

impl Failure {
    pub(super) fn new(at: Phase, reason: impl fmt::Display) -> Failure {
        Failure { at, reason: reason.to_string(), reply: None, tls_failed: false }
    }

    pub(super) fn refused(at: Phase, reply: Reply) -> Failure {
        Failure { at, reason: format!("the server answered {reply}"), reply: Some(reply), tls_failed: false }
    }

    pub fn is_permanent(&self) -> bool {
        self.reply.as_ref().is_some_and(Reply::is_permanent)
    }
}

/// How far a connection keeps others out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Security {
    Clear,
    /// Nobody has looked who is at the other end.
    Encrypted,
    /// By a certificate that an authority vouches for.
    Verified,
    /// By a certificate that DNSSEC names.
    Dane,
}

words!(Security { Clear = "none", Encrypted = "encrypted", Verified = "verified", Dane = "dane" });

/// What became of one message to one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The server has taken it.
    Accepted { reply: Reply, security: Security },
    /// The server has said no, for now or for good. The message was not taken.
    Refused { reply: Reply, at: Phase },
    /// The dialogue ended before the dot. The message was not taken.
    Failed { reason: String, at: Phase },
    /// The dot may have left, and no answer came: nobody knows.
    Unknown { reason: String },
}
