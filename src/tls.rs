//! TLS: one set-up for whatever connects to another server, and one for what is connected to.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rustls::client::WantsClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, RootCertStore, ServerConfig, SignatureScheme,
    WantsVerifier,
};
use webpki::EndEntityCert;
use x509_cert::der::Decode;

/// Believes certificates below the public roots.
pub fn client() -> ClientConfig {
    client_trusting(public_roots())
}

/// Believes certificates below these roots.
pub fn client_trusting(roots: RootCertStore) -> ClientConfig {
    builder().with_root_certificates(roots).with_no_client_auth()
}

/// Believes any certificate: for those who would otherwise speak in clear.
pub fn client_believing_anybody() -> ClientConfig {
    client_verified_by(Arc::new(BelieveAnybody))
}

/// Believes whom somebody else believes.
pub fn client_verified_by(verifier: Arc<dyn ServerCertVerifier>) -> ClientConfig {
    let builder: ConfigBuilder<ClientConfig, WantsClientCert> =
        builder().dangerous().with_custom_certificate_verifier(verifier);
    builder.with_no_client_auth()
}

pub fn public_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    roots
}

/// The public roots and those of a PEM file.
pub fn roots_with(file: &Path) -> anyhow::Result<RootCertStore> {
    let mut roots = public_roots();
    let said = || format!("{} cannot be read as certificates in PEM", file.display());
    let before = roots.len();
    for certificate in CertificateDer::pem_file_iter(file).with_context(said)? {
        roots.add(certificate.with_context(said)?).with_context(said)?;
    }
    anyhow::ensure!(roots.len() > before, "{} holds no certificate", file.display());
    Ok(roots)
}

/// What a certificate says of itself.
pub struct About {
    der: CertificateDer<'static>,
    /// Since 1970.
    pub from: Duration,
    pub until: Duration,
}

impl About {
    /// Of the first certificate in a PEM file: the others vouch for it.
    pub fn read(file: &Path) -> anyhow::Result<About> {
        let said = || format!("{} cannot be read as a certificate in PEM", file.display());
        let der = CertificateDer::from_pem_file(file).with_context(said)?;
        let valid = x509_cert::Certificate::from_der(&der).with_context(said)?.tbs_certificate.validity;
        Ok(About { from: valid.not_before.to_unix_duration(), until: valid.not_after.to_unix_duration(), der })
    }

    /// Whether it is shown rightly by a host of this name.
    pub fn is_for(&self, host: &str) -> bool {
        let name = ServerName::try_from(host);
        let is_valid = |name| EndEntityCert::try_from(&self.der)?.verify_is_valid_for_subject_name(&name);
        name.is_ok_and(|name| is_valid(name).is_ok())
    }

    /// The names that it has.
    pub fn names(&self) -> Vec<String> {
        let read = EndEntityCert::try_from(&self.der);
        read.map(|read| read.valid_dns_names().map(str::to_owned).collect()).unwrap_or_default()
    }
}

/// Shows the certificate of a PEM file, with those that vouch for it, and proves it with the key of another.
pub fn server(certificate: &Path, key: &Path) -> anyhow::Result<ServerConfig> {
    let said = || format!("{} cannot be read as certificates in PEM", certificate.display());
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(certificate).with_context(said)?.collect();
    let chain = chain.with_context(said)?;
    anyhow::ensure!(!chain.is_empty(), "{} holds no certificate", certificate.display());
    let private = PrivateKeyDer::from_pem_file(key)
        .with_context(|| format!("{} cannot be read as a private key in PEM", key.display()))?;
    let builder = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the ring provider supports the default protocol versions");
    builder
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .with_context(|| format!("{} is not the key of {}", key.display(), certificate.display()))
}

fn builder() -> ConfigBuilder<ClientConfig, WantsVerifier> {
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the ring provider supports the default protocol versions")
}

#[derive(Debug)]
struct BelieveAnybody;

impl ServerCertVerifier for BelieveAnybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    // A signature by a key that nobody vouches for proves nothing, and some
    // certificates are too odd for their keys to be read.
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn roots_of_a_file_are_believed_beside_the_public_ones() {
        let key = rcgen::KeyPair::generate().expect("a key");
        let root = rcgen::CertificateParams::default().self_signed(&key).expect("a certificate");
        let pem = format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", STANDARD.encode(root.der()));
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("ca.pem");
        fs::write(&file, format!("a comment\n{pem}")).expect("written");
        assert_eq!(roots_with(&file).expect("roots").len(), public_roots().len() + 1);

        for wrong in ["", "nonsense", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"] {
            fs::write(&file, wrong).expect("written");
            assert!(roots_with(&file).expect_err(wrong).to_string().contains("ca.pem"), "{wrong}");
        }
        assert!(roots_with(&folder.path().join("none.pem")).is_err());
    }
}
