//! Clients that nobody registered: their id is the https address of a document
//! in which they describe themselves. An opt-in setting.
//!
//! The document is fetched when such a client asks for authorization, and what
//! it says is kept as a row like any other client's, so that the rest of the
//! flow need not know. The host of the address is the client's identity.

mod document;
#[cfg(test)]
mod flow_tests;
mod outside;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod tests;
mod url;

use std::sync::Arc;

use quick_cache::sync::Cache;
use tokio::sync::Semaphore;

use crate::error::Error;
use crate::http_client::{HttpClient, Reach};
use crate::oauth::OAuth;
use crate::oauth::clients::{Known, Registration, keep_document};
use crate::oauth::refusal::{ErrorCode, Refusal};

use outside::{PATIENCE, Unreachable};
use url::DocumentUrl;

pub use url::is_document;

/// How many documents are remembered, and how many are fetched at once.
const REMEMBERED: usize = 1000;
const AT_ONCE: usize = 8;

/// The documents that this process has read lately.
pub struct Documents {
    client: HttpClient,
    read: Cache<String, Arc<Kept>>,
    fetching: Semaphore,
}

struct Kept {
    registration: Registration,
    good_until: i64,
}

/// Why a document does not make a client.
pub enum Failure {
    /// Its address or its content breaks a rule.
    Refused(Refusal),
    /// Too many are being fetched, or the store is out.
    Failed(Error),
}

impl From<crate::db::DbError> for Failure {
    fn from(error: crate::db::DbError) -> Failure {
        Failure::Failed(error.into())
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        Failure::Refused(refusal)
    }
}

impl Default for Documents {
    fn default() -> Documents {
        Documents::reaching(HttpClient::new(Reach::Public))
    }
}

/// The client whose id is the address of a document, as the document describes
/// it now or did a while ago; and as the store will give it to the rest of the
/// flow.
pub async fn find(app: &OAuth, id: &str) -> Result<Arc<Known>, Failure> {
    // The store comes first: while it is out, nothing is fetched.
    let before = app.clients.load(&app.db, id).await?;
    if before.is_some_and(|known| known.client.disabled_at.is_some()) {
        return Err(Refusal::unknown_client().into());
    }
    let registration = app.documents.get(id, app.clock.now()).await?;
    let client = registration.into_client(id.to_owned(), app.clock.now());
    app.db.commit(keep_document(&client, app.clock.now())).await?;
    // Deleted in this very moment: then it is unknown.
    app.clients.load(&app.db, id).await?.ok_or_else(|| Refusal::unknown_client().into())
}

impl Documents {
    fn reaching(client: HttpClient) -> Documents {
        Documents { client, read: Cache::new(REMEMBERED), fetching: Semaphore::new(AT_ONCE) }
    }

    /// What the document at this address says, if it was read lately or can be
    /// read now. Failures are not remembered: the next request tries again.
    async fn get(&self, id: &str, now: i64) -> Result<Registration, Failure> {
        let url = DocumentUrl::parse(id)
            .map_err(|flaw| Refusal::new(ErrorCode::InvalidClient, format!("client_id {flaw}")))?;
        self.read.remove_if(id, |kept| kept.good_until <= now);
        // Requests for one address wait for one fetch; the limit is on the
        // waiting, so that those behind a slow server do not queue up.
        let read = self.read.get_or_insert_async(id, self.fetch(&url, now));
        match tokio::time::timeout(PATIENCE, read).await {
            Ok(kept) => kept.map(|kept| kept.registration.clone()),
            Err(_) => Err(unreachable(&url, "it took longer than 5 seconds")),
        }
    }

    async fn fetch(&self, url: &DocumentUrl, now: i64) -> Result<Arc<Kept>, Failure> {
        let Ok(_turn) = self.fetching.try_acquire() else {
            tracing::warn!(client_id = url.as_str(), "too many client metadata documents are being fetched");
            return Err(Failure::Failed(Error::Unavailable));
        };
        let fetched = outside::fetch(&self.client, url).await.map_err(|error: Unreachable| unreachable(url, error))?;
        let registration = document::parse(url, &fetched.bytes).inspect_err(|refusal| {
            let reason = refusal.description();
            tracing::warn!(client_id = url.as_str(), reason, "a client metadata document was refused");
        })?;
        Ok(Arc::new(Kept { registration, good_until: now.saturating_add(fetched.good_for) }))
    }
}

/// One text whatever the reason, which only the log tells.
fn unreachable(url: &DocumentUrl, reason: impl std::fmt::Display) -> Failure {
    tracing::warn!(client_id = url.as_str(), %reason, "a client metadata document could not be fetched");
    let text = "The client metadata document could not be fetched. It must be served at the client_id itself, without \
                redirects, by a public https server, as application/json of at most 5 KB, within 5 seconds";
    Refusal::new(ErrorCode::InvalidClient, text).into()
}
