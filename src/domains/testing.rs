//! Domains and keys for tests.

use uuid::Uuid;

use super::keys::Algorithm;
use super::keys_store::StoredKey;
use super::status::{Findings, Status};
use super::store::Stored;

pub fn domain() -> Stored {
    Stored {
        workspace_id: Uuid::nil().into(),
        id: Uuid::nil().into(),
        name: "example.com".into(),
        region: "us-east-1".into(),
        status: Status::NotStarted,
        is_owned: false,
        may_send: false,
        return_path: "send".into(),
        open_tracking: false,
        click_tracking: false,
        tracking_subdomain: None,
        tls: "opportunistic".into(),
        sending: true,
        receiving: false,
        transport: None,
        relays: None,
        warm_up: None,
        findings: Findings::new(),
        created_at: 0,
        checked_at: None,
        awaited_since: 0,
        attempt: 0,
    }
}

pub fn key(selector: &str, algorithm: Algorithm) -> StoredKey {
    StoredKey {
        selector: selector.into(),
        algorithm,
        public_value: format!("value of {selector}"),
        seen_at: None,
        retired_at: None,
        private_key: vec![],
    }
}
