//! What the audit log tells of a call of the API.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::MatchedPath;
use http::Method;
use http::request::Parts;
use uuid::Uuid;

use crate::app::App;
use crate::audit::{Act, DoneBy, Entry};

/// Who sent a request, as far as the configured proxies can be believed.
#[derive(Debug, Clone, Copy)]
pub struct Sender(pub IpAddr);

/// What a call does that changes how its workspace is set up: the commit that does it tells the log. Clones share it.
#[derive(Clone)]
pub struct AuditedCall(Arc<Call>);

struct Call {
    action: String,
    address: Option<IpAddr>,
    is_deletion: bool,
    known: Mutex<Known>,
}

/// What is known of the call so far.
#[derive(Clone, Copy)]
struct Known {
    /// What it is done to.
    target_id: Option<Uuid>,
    made_id: Option<Uuid>,
    changes: bool,
}

impl AuditedCall {
    /// `None` where the log tells nothing of such calls.
    pub(super) fn of(parts: &mut Parts, app: &App) -> Option<AuditedCall> {
        let route = parts.extensions.get::<MatchedPath>()?.as_str();
        let route = route.strip_prefix(app.addresses.base.path()).unwrap_or(route);
        let Act { action, target_id } = Act::of_call(parts.method.as_str(), route, parts.uri.path())?;
        let audited = AuditedCall(Arc::new(Call {
            action,
            address: parts.extensions.get::<Sender>().map(|Sender(address)| *address),
            is_deletion: parts.method == Method::DELETE,
            known: Mutex::new(Known { target_id, made_id: None, changes: true }),
        }));
        // For whoever reads the body: an empty one changes nothing.
        if parts.method == Method::PATCH {
            parts.extensions.insert(audited.clone());
        }
        Some(audited)
    }

    pub(super) fn acts_on(&self, id: Uuid) {
        self.known().target_id = Some(id);
    }

    pub(super) fn makes(&self, id: Option<Uuid>) {
        self.known().made_id = id;
    }

    /// Says whether the call changes anything: if not, there is nothing to tell.
    pub fn changes(&self, whether: bool) {
        self.known().changes = whether;
    }

    pub(super) fn is_deletion(&self) -> bool {
        self.0.is_deletion
    }

    /// What is told, if there is anything.
    pub(super) fn entry(&self, actor: DoneBy) -> Option<Entry<'_>> {
        let Known { target_id, made_id, changes } = *self.known();
        let entry = Entry { address: self.0.address, ..Entry::new(&self.0.action, actor) };
        changes.then_some(Entry { target_id: target_id.or(made_id), ..entry })
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
