//! The settings of mail.

use clap::{Args, ValueEnum};

/// What mail is sent by, and what is kept of it.
#[derive(Args, Debug, Clone)]
pub struct MailSettings {
    /// How mail leaves; each domain may have another way [default: relay with --smtp-url, else capture]
    #[arg(long, global = true, env = "POSTHORN_TRANSPORT")]
    pub transport: Option<TransportKind>,

    /// Whom mail may come from where it is really sent
    #[arg(long, global = true, env = "POSTHORN_SENDERS", default_value = "verified")]
    pub senders: Senders,

    /// What to do with mail of which nobody knows whether it arrived [default: retry, and hold what went to many]
    #[arg(long, global = true, env = "POSTHORN_UNCERTAIN")]
    pub uncertain: Option<WhenUncertain>,

    /// Days for which the contents of mail are kept; what happened to it is kept for good
    #[arg(long, global = true, env = "POSTHORN_MAIL_RETENTION", default_value = "30", value_name = "DAYS")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub mail_retention: u32,
}

/// How mail leaves.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportKind {
    /// It is kept and can be read here; nothing leaves the machine
    Capture,
    /// By the servers that --smtp-url names
    Relay,
    /// To the servers of its recipients
    Direct,
}

/// Whom mail may come from.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Senders {
    /// Addresses of domains that were verified
    Verified,
    /// Any address: the relay checks by itself
    Any,
}

/// What is done with mail whose last words got no reply.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenUncertain {
    /// Send it again; it may then arrive twice
    Retry,
    /// Let it wait for a person's decision
    Hold,
}

impl WhenUncertain {
    /// As the store keeps it.
    pub fn as_str(self) -> &'static str {
        match self {
            WhenUncertain::Retry => "retry",
            WhenUncertain::Hold => "hold",
        }
    }
}

impl MailSettings {
    /// What is done with mail of which nobody knows whether it arrived: what goes to many had
    /// better be missed by one than reach him twice.
    pub fn when_uncertain(&self, is_bulk: bool) -> WhenUncertain {
        self.uncertain.unwrap_or(if is_bulk { WhenUncertain::Hold } else { WhenUncertain::Retry })
    }
}
