//! The settings of what is taken by SMTP: submission, and reports on mail that has left.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;

use super::parse;
use crate::tls;

/// Where programs hand in mail by SMTP, and by which certificate they know us.
#[derive(Args, Debug, Clone)]
pub struct SubmissionSettings {
    /// Address on which mail is taken by SMTP, encrypted by STARTTLS [default: none]
    #[arg(long, global = true, env = "POSTHORN_SUBMISSION_LISTEN", value_name = "ADDRESS:PORT")]
    #[arg(value_parser = parse::listen)]
    pub submission_listen: Option<SocketAddr>,

    /// Address on which mail is taken by SMTP, encrypted from the first byte [default: none]
    #[arg(long, global = true, env = "POSTHORN_SUBMISSION_TLS_LISTEN", value_name = "ADDRESS:PORT")]
    #[arg(value_parser = parse::listen)]
    pub submission_tls_listen: Option<SocketAddr>,

    /// Address on which mail of other servers is taken by SMTP: for domains that receive, bounces, complaints
    /// [default: none]
    #[arg(long, global = true, env = "POSTHORN_INBOUND_LISTEN", value_name = "ADDRESS:PORT")]
    #[arg(value_parser = parse::listen)]
    pub inbound_listen: Option<SocketAddr>,

    /// Size of the largest mail that is received, in mebibytes
    #[arg(long, global = true, env = "POSTHORN_INBOUND_LARGEST", default_value = "40", value_name = "MIB")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_024))]
    pub inbound_largest: u32,

    /// Mails a minute that one address may bring
    #[arg(long, global = true, env = "POSTHORN_INBOUND_RATE", default_value = "600", value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub inbound_rate: u32,

    /// Mails a minute that one workspace may receive
    #[arg(long, global = true, env = "POSTHORN_RECEIVED_RATE", default_value = "3000", value_name = "COUNT")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub received_rate: u32,

    /// Certificate for SMTP submission with those that vouch for it, a file in PEM; read again when it changes
    #[arg(long, global = true, env = "POSTHORN_SUBMISSION_CERT", value_name = "FILE")]
    pub submission_cert: Option<PathBuf>,

    /// Private key of that certificate, a file in PEM
    #[arg(long, global = true, env = "POSTHORN_SUBMISSION_KEY", value_name = "FILE")]
    pub submission_key: Option<PathBuf>,
}

impl SubmissionSettings {
    /// Whether mail is taken by SMTP at all.
    pub fn is_on(&self) -> bool {
        self.submission_listen.is_some() || self.submission_tls_listen.is_some()
    }

    /// In bytes.
    pub fn largest_received(&self) -> u64 {
        u64::from(self.inbound_largest) << 20
    }

    /// The files of the certificate and of its key, if there are any.
    pub fn certificate(&self) -> Option<(&Path, &Path)> {
        self.submission_cert.as_deref().zip(self.submission_key.as_deref())
    }

    pub(super) fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.submission_cert.is_some() == self.submission_key.is_some(),
            "--submission-cert and --submission-key belong together: give both, or none",
        );
        if let Some((certificate, key)) = self.certificate() {
            tls::server(certificate, key).context("--submission-cert, --submission-key")?;
            return Ok(());
        }
        anyhow::ensure!(
            self.submission_tls_listen.is_none(),
            "--submission-tls-listen needs --submission-cert and --submission-key",
        );
        let open = self.submission_listen.filter(|address| !address.ip().to_canonical().is_loopback());
        if let Some(address) = open {
            anyhow::bail!(
                "--submission-listen {address}: API keys would be sent in clear; give --submission-cert and \
                 --submission-key, or listen on a loopback address such as 127.0.0.1:{}",
                address.port(),
            );
        }
        Ok(())
    }
}
