//! What an entry of the list is, and what a request can say of it. Valid by construction.

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::clock::Time;
use crate::db::from_row;
use crate::error::Error;
use crate::id::{EmailId, SuppressionId};
use crate::mime::Address;
use crate::text::words;

/// How many one request may name.
const MOST_NAMED: usize = 100;

/// Why an address is on the list: mail to it bounced, its owner complained, or somebody put it there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = SuppressionOrigin)]
pub enum Origin {
    Bounce,
    Complaint,
    Manual,
}

words!(Origin: ALL, parse { Bounce = "bounce", Complaint = "complaint", Manual = "manual" });

/// An address that mail can go to. Spaces around it do not count.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct MailAddress(pub Address);

impl TryFrom<String> for MailAddress {
    type Error = String;

    fn try_from(text: String) -> Result<MailAddress, String> {
        text.trim().parse().map(MailAddress)
    }
}

/// Some of them: at least one, and at most so many as a request may name.
#[derive(Debug)]
pub struct UpTo100<T>(pub Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for UpTo100<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UpTo100<T>, D::Error> {
        let given = Vec::<T>::deserialize(deserializer)?;
        match given.len() {
            1..=MOST_NAMED => Ok(UpTo100(given)),
            count => Err(D::Error::custom(format!("must hold 1 to {MOST_NAMED} elements, but has {count}"))),
        }
    }
}

/// What to add.
#[derive(Debug, Deserialize, ToSchema)]
pub struct NewSuppression {
    /// The address that gets no mail any more. How it is written does not matter: `A@b.example` is `a@b.example`.
    #[schema(value_type = String, pattern = "@", example = "ada@example.com")]
    pub email: MailAddress,
}

/// What to add, several at once.
#[derive(Debug, Deserialize, ToSchema)]
pub struct NewSuppressions {
    /// The addresses that get no mail any more.
    #[schema(value_type = Vec<String>, min_items = 1, max_items = 100, example = json!(["ada@example.com"]))]
    pub emails: UpTo100<MailAddress>,
}

/// What to remove: by `emails` or by `ids`, not by both.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = SuppressionRemoval, example = json!({"emails": ["ada@example.com"]}))]
pub struct Removal {
    /// The addresses that may get mail again.
    #[schema(value_type = Option<Vec<String>>, min_items = 1, max_items = 100, example = json!(["ada@example.com"]))]
    emails: Option<UpTo100<MailAddress>>,
    /// The ids of the suppressions to remove.
    #[schema(value_type = Option<Vec<Uuid>>, min_items = 1, max_items = 100)]
    ids: Option<UpTo100<SuppressionId>>,
}

/// Which entries are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Name {
    Id(SuppressionId),
    /// What all spellings of the address have in common.
    Key(String),
}

impl Name {
    /// `None`: no entry can have this name.
    pub fn read(text: &str) -> Option<Name> {
        if let Ok(id) = text.parse() {
            return Some(Name::Id(id));
        }
        text.parse().ok().map(|address: Address| Name::Key(address.key()))
    }
}

impl Removal {
    pub fn names(self) -> Result<Vec<Name>, Error> {
        match (self.emails, self.ids) {
            (Some(emails), None) => Ok(emails.0.iter().map(|MailAddress(address)| Name::Key(address.key())).collect()),
            (None, Some(ids)) => Ok(ids.0.into_iter().map(Name::Id).collect()),
            (None, None) => Err(Error::Missing { message: "Missing `emails` or `ids` field.".into() }),
            (Some(_), Some(_)) => Err(Error::invalid("Send `emails` or `ids`, not both.")),
        }
    }
}

/// An address that gets no mail any more.
#[derive(Serialize, ToSchema)]
#[schema(as = Suppression)]
pub struct Item {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^suppression$", nullable = false)]
    object: Option<&'static str>,
    #[serde(flatten)]
    entry: Entry,
}

/// The same, as it stands in a list.
#[derive(Serialize, ToSchema)]
#[schema(as = SuppressionEntry)]
pub struct Entry {
    #[schema(value_type = Uuid)]
    pub id: SuppressionId,
    #[schema(example = "ada@example.com")]
    pub email: String,
    #[schema(value_type = Origin)]
    pub origin: String,
    /// What the server said that refused mail for it, or what was said when it was added.
    pub reason: Option<String>,
    /// The email that bounced, or that was complained of.
    #[schema(value_type = Option<Uuid>)]
    pub source_id: Option<EmailId>,
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Time,
}

from_row!(Entry { id, email, origin, reason, source_id, created_at });

impl Entry {
    /// As an answer of its own, which says what it is.
    pub fn alone(self) -> Item {
        Item { object: Some("suppression"), entry: self }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::web;

    const ID: &str = "01890000-0000-7000-8000-000000000001";

    fn removal(json: Value) -> Result<Vec<Name>, Error> {
        web::read_fields(json.as_object().expect("an object").clone()).and_then(Removal::names)
    }

    #[test]
    fn an_entry_is_named_by_its_id_or_by_any_spelling_of_its_address() {
        assert_eq!(Name::read(ID), Some(Name::Id(ID.parse().expect("an id"))));
        assert_eq!(Name::read("Ada@München.DE"), Some(Name::Key("ada@xn--mnchen-3ya.de".into())));
        assert_eq!(Name::read("nobody"), None);
    }

    #[test]
    fn what_is_removed_is_named_in_one_way() {
        assert_eq!(removal(json!({"emails": [" A@b.example "]})).ok(), Some(vec![Name::Key("a@b.example".into())]));
        assert_eq!(removal(json!({"ids": [ID], "emails": null})).map(|names| names.len()).ok(), Some(1));
        for (wrong, word) in [
            (json!({}), "`emails` or `ids`"),
            (json!({"ids": [ID], "emails": ["a@b.example"]}), "not both"),
            (json!({"ids": []}), "1 to 100"),
            (json!({"emails": vec!["a@b.example"; 101]}), "has 101"),
            (json!({"emails": ["a@b.example", "x"]}), "`emails[1]`"),
        ] {
            let message = removal(wrong.clone()).expect_err("refused").message().into_owned();
            assert!(message.contains(word), "{wrong}: {message}");
        }
    }
}
