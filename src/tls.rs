//! TLS towards other servers: one set-up for whatever connects to one.

use std::sync::Arc;

use rustls::{ClientConfig, RootCertStore};

/// Believes certificates below the public roots.
pub fn client() -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    client_trusting(roots)
}

/// Believes certificates below these roots.
pub fn client_trusting(roots: RootCertStore) -> ClientConfig {
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the ring provider supports the default protocol versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}
