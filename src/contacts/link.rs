//! A contact as other pages show it: its address, and the way to its page.

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

    /// Looks up its address.
    pub async fn find<D: Duty>(member: &Member<D>, id: ContactId) -> Result<ContactLink, Error> {
        let email: Option<String> = member.query(store::email_of(member.workspace_id(), id)).await?;
        Ok(ContactLink::new(member, id, email))
    }
}
