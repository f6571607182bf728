//! The certificate that clients know us by. Whoever renews it need not start us again.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use tokio_rustls::TlsAcceptor;

use crate::tls;

pub struct Certificate {
    certificate: PathBuf,
    key: PathBuf,
    loaded: Mutex<Loaded>,
}

struct Loaded {
    /// When the files were last changed, as they were read.
    changed: [Option<SystemTime>; 2],
    acceptor: TlsAcceptor,
}

impl Certificate {
    pub fn load(certificate: &Path, key: &Path) -> anyhow::Result<Certificate> {
        let loaded = Loaded::read(certificate, key)?;
        Ok(Certificate { certificate: certificate.into(), key: key.into(), loaded: Mutex::new(loaded) })
    }

    /// What encrypts, with the files as they are now. While they cannot be used, those of before are.
    pub fn acceptor(&self) -> TlsAcceptor {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = changed(&self.certificate, &self.key);
        if changed != loaded.changed {
            match Loaded::read(&self.certificate, &self.key) {
                Ok(anew) => *loaded = anew,
                Err(error) => {
                    tracing::warn!("the new certificate cannot be used: {error:#}");
                    // It is told once for each change.
                    loaded.changed = changed;
                }
            }
        }
        loaded.acceptor.clone()
    }
}

impl Loaded {
    fn read(certificate: &Path, key: &Path) -> anyhow::Result<Loaded> {
        // What is changed while it is read is read again.
        let changed = changed(certificate, key);
        let acceptor = TlsAcceptor::from(Arc::new(tls::server(certificate, key)?));
        Ok(Loaded { changed, acceptor })
    }
}

fn changed(certificate: &Path, key: &Path) -> [Option<SystemTime>; 2] {
    [certificate, key].map(|file| file.metadata().and_then(|about| about.modified()).ok())
}
