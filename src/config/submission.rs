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

    /// Address on which reports on mail that has left are taken by SMTP: bounces, complaints [default: none]
    #[arg(long, global = true, env = "POSTHORN_INBOUND_LISTEN", value_name = "ADDRESS:PORT")]
    #[arg(value_parser = parse::listen)]
    pub inbound_listen: Option<SocketAddr>,

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
