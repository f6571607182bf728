//! A contact as other pages show it: its address, and the way to its page.

use std::collections::HashMap;

use super::store;
use crate::accounts::{Duty, Member};
use crate::error::Error;
use crate::id::ContactId;

pub struct ContactLink {
    pub label: String,
    /// Where its page is, unless it is gone.
    pub href: Option<String>,
}

impl ContactLink {
    pub fn new<D: Duty>(member: &Member<D>, id: ContactId, email: Option<String>) -> ContactLink {
        match email {
            Some(label) => ContactLink { label, href: Some(member.address(&format!("/contacts/{id}"))) },
            None => ContactLink { label: "a contact that is gone".into(), href: None },
        }
    }

    /// Looks up the address of one.
    pub async fn find<D: Duty>(member: &Member<D>, id: ContactId) -> Result<ContactLink, Error> {
        let found: Option<(ContactId, String)> = member.query(store::emails_of(member.workspace_id(), &[id])).await?;
        Ok(ContactLink::new(member, id, found.map(|(_, email)| email)))
    }

    /// Looks up the addresses of many at once, in the order of the ids.
    pub async fn find_all<D: Duty>(member: &Member<D>, ids: &[ContactId]) -> Result<Vec<ContactLink>, Error> {
        let found: Vec<(ContactId, String)> = member.query(store::emails_of(member.workspace_id(), ids)).await?;
        let emails: HashMap<ContactId, String> = found.into_iter().collect();
        Ok(ids.iter().map(|id| ContactLink::new(member, *id, emails.get(id).cloned())).collect())
    }
}
