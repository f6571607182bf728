//! SMTP towards other servers: one connection, on it one transaction a message and
//! recipient, and an outcome that says whether the message may have been taken.

mod client;
mod connection;
mod dane;
mod dots;
mod envelope;
mod extensions;
mod fuzzing;
mod mta_sts;
mod outcome;
mod reply;
mod stream;
#[cfg(test)]
pub(crate) mod testing {
    pub(crate) use super::tests::sts::web_server;
}
#[cfg(test)]
mod tests;
mod timeouts;
mod xtext;

pub use client::{Client, Hop, MX_PORT, Settings, TlsPolicy};
pub use connection::Connection;
pub use dane::Dane;
pub use envelope::{Envelope, MessageSource};
pub use fuzzing::smtp_reply;
pub use mta_sts::{StsMode, StsPolicy, mta_sts};
pub use outcome::{Failure, Outcome, Phase, Security};
pub use reply::Reply;
pub use timeouts::Timeouts;
