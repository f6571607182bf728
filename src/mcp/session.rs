//! Who asks, and in which session. A session is an id that a host gets when it greets and names from then on. No
//! process remembers it, so any of them answers; what a host sets for one is a row in the store.

use std::sync::{Arc, OnceLock};

use http::request::Parts;
use http::{HeaderMap, HeaderName};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use uuid::Uuid;

use super::store;
use crate::auth::Caller;
use crate::error::Error;
use crate::id::AssistantSessionId;

pub const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// Goes with a request to whoever answers it.
#[derive(Clone)]
pub struct Asker(Arc<Asking>);

struct Asking {
    caller: Caller,
    session: Option<AssistantSessionId>,
    begun: OnceLock<AssistantSessionId>,
}

impl Asker {
    pub fn new(caller: Caller, headers: &HeaderMap) -> Asker {
        let named = headers.get(SESSION).and_then(|value| value.to_str().ok());
        Asker(Arc::new(Asking { caller, session: named.and_then(|id| id.parse().ok()), begun: OnceLock::new() }))
    }

    pub fn of(context: &RequestContext<RoleServer>) -> Result<&Asker, ErrorData> {
        let parts = context.extensions.get::<Parts>();
        let asker = parts.and_then(|parts| parts.extensions.get::<Asker>());
        asker.ok_or_else(|| ErrorData::internal_error("The message came without its request.", None))
    }

    /// Begins a session with this request.
    pub fn begin(&self) {
        self.0.begun.get_or_init(|| Uuid::new_v4().into());
    }

    /// The session that began with this request.
    pub fn begun(&self) -> Option<AssistantSessionId> {
        self.0.begun.get().copied()
    }

    /// Keeps what the session wants to be told; `None` where the request names none.
    pub async fn set_level(&self, level: &str, now: i64) -> Result<Option<()>, Error> {
        let Some(session) = self.0.session else { return Ok(None) };
        let caller = &self.0.caller;
        caller.commit(|| store::set_level(caller.workspace_id(), session, level, now)).await?;
        Ok(Some(()))
    }

    /// What the session wants to be told, if it has said so.
    pub async fn level(&self) -> Result<Option<String>, Error> {
        let Some(session) = self.0.session else { return Ok(None) };
        let caller = &self.0.caller;
        caller.query(|| store::level(caller.workspace_id(), session)).await
    }
}
