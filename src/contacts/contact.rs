//! What a contact is: an address, perhaps a name, and properties. Valid by
//! construction.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::properties::{Declared, Properties};
use crate::clock::rfc3339;
use crate::error::Error;
use crate::id::ContactId;
use crate::text::{checked_text, is_longer};
use crate::web::{Change, schema, text_schema};

const LONGEST_EMAIL: usize = 254;
const LONGEST_NAME: usize = 255;

/// Somebody to write to.
#[derive(Debug, Clone, PartialEq)]
pub struct Contact {
    pub id: ContactId,
    /// The address as it was typed.
    pub email: String,
    pub first_name: Option<String>,
    pub last_name: Option<String>,
    pub unsubscribed: bool,
    pub properties: Map<String, Value>,
    /// Counts the changes; what is written under an old one is refused.
    pub sequence: i64,
    pub created_at: i64,
    pub updated_at: Option<i64>,
}

impl Contact {
    /// Somebody of whom nothing is known but the address.
    pub fn new(id: ContactId, email: &Email, now: i64) -> Contact {
        Contact {
            id,
            email: email.0.clone(),
            first_name: None,
            last_name: None,
            unsubscribed: false,
            properties: Map::new(),
            sequence: FIRST_SEQUENCE,
            created_at: now,
            updated_at: None,
        }
    }

    /// What rules and variables see.
    pub fn json(&self) -> Value {
        json!({
            "id": self.id,
            "email": self.email,
            "first_name": self.first_name,
            "last_name": self.last_name,
            "unsubscribed": self.unsubscribed,
            "properties": self.properties,
            "created_at": rfc3339(self.created_at),
            "updated_at": self.updated_at.map(rfc3339),
        })
    }
}

/// An address that mail can go to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Email(String);

checked_text!(
    Email(text) if Email::fits(text),
    else format!(
        "must be one address such as `name@example.com`, without spaces and of at most {LONGEST_EMAIL} characters"
    )
);

schema!(
    Email as "EmailAddress" = text_schema()
        .description(Some("One address. Upper and lower case make no difference."))
        .max_length(Some(LONGEST_EMAIL))
        .pattern(Some(EMAIL_PATTERN))
        .examples(["ada@example.com"])
);

impl Email {
    pub fn read(text: &str) -> Option<Email> {
        Email::fits(text).then(|| Email(text.to_owned()))
    }

    fn fits(text: &str) -> bool {
        let Some((local, domain)) = text.split_once('@') else { return false };
        !is_longer(text, LONGEST_EMAIL)
            && local.split('.').all(|atom| !atom.is_empty() && !atom.chars().any(breaks_local))
            && domain.split('.').all(is_label)
    }

    pub fn key(&self) -> String {
        email_key(&self.0)
    }
}

/// What all spellings of an address have in common.
pub fn email_key(address: &str) -> String {
    address.to_lowercase()
}

/// The rules of [`Email::fits`] as a pattern, for the API's description.
const EMAIL_PATTERN: &str = concat!(
    r#"^[^@.<>()\[\],;:"\\\x00-\x20\x7f-\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]+"#,
    r#"(\.[^@.<>()\[\],;:"\\\x00-\x20\x7f-\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]+)*"#,
    r"@[^\x00-/:-@\[-`{-\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]",
    r"([^\x00-,./:-@\[-`{-\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]*",
    r"[^\x00-/:-@\[-`{-\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff])?",
    r"(\.[^\x00-/:-@\[-`{-\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]",
    r"([^\x00-,./:-@\[-`{-\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]*",
    r"[^\x00-/:-@\[-`{-\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff])?)*$",
);

fn breaks_local(char: char) -> bool {
    unseen(char) || "@<>()[],;:\"\\".contains(char)
}

/// A part of a domain between dots. Letters of every script are fine.
fn is_label(label: &str) -> bool {
    let fits = |char: char| char.is_ascii_alphanumeric() || char == '-' || (!char.is_ascii() && !unseen(char));
    !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && label.chars().all(fits)
}

/// Controls, spaces, and what steers text without being seen: two addresses that
/// look the same must not differ by such a character.
fn unseen(char: char) -> bool {
    matches!(char,
        '\0'..=' ' | '\u{7f}'..='\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}'
        | '\u{205f}'..='\u{206f}' | '\u{3000}' | '\u{feff}')
}

/// A first or last name: one line.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(as = ContactName, max_length = 255, pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*$")]
pub struct Name(String);

checked_text!(
    Name(name) if !is_longer(name, LONGEST_NAME) && !name.chars().any(char::is_control),
    else format!("must be one line of at most {LONGEST_NAME} characters")
);

/// What to change. What is left out stays as it is.
#[derive(Debug, PartialEq, Deserialize, ToSchema)]
#[schema(as = ContactChange, example = json!({"first_name": "Ada", "last_name": "Lovelace"}))]
pub struct Changes {
    /// Another address of the same contact.
    pub(super) email: Option<Email>,
    /// Null empties it.
    #[schema(value_type = Option<Name>)]
    pub(super) first_name: Change<Name>,
    /// Null empties it.
    #[schema(value_type = Option<Name>)]
    pub(super) last_name: Change<Name>,
    /// Whether the contact wants no mail.
    pub(super) unsubscribed: Option<bool>,
    /// Those named here are set, or removed where they are null; the others stay.
    pub(super) properties: Option<Properties>,
}

impl Changes {
    /// Holds what is to be set to the types that were declared for it.
    pub fn check_types(&self, declared: &[Declared]) -> Result<(), Error> {
        self.properties.iter().try_for_each(|properties| properties.check(declared))
    }

    /// Whether they give properties.
    pub fn sets_properties(&self) -> bool {
        self.properties.as_ref().is_some_and(|properties| !properties.is_empty())
    }

    /// The contact as it is after the changes. A property that was declared is only
    /// given values of its type.
    pub fn apply(&self, contact: &Contact, declared: &[Declared]) -> Result<Contact, Error> {
        self.check_types(declared)?;
        let name = |Change(change): &Change<Name>, name: &Option<String>| match change {
            None => name.clone(),
            Some(new) => new.as_ref().map(|name| name.as_str().to_owned()),
        };
        Ok(Contact {
            email: self.email.as_ref().map_or(contact.email.clone(), |email| email.0.clone()),
            first_name: name(&self.first_name, &contact.first_name),
            last_name: name(&self.last_name, &contact.last_name),
            unsubscribed: self.unsubscribed.unwrap_or(contact.unsubscribed),
            properties: match &self.properties {
                Some(properties) => properties.merged_into(&contact.properties)?,
                None => contact.properties.clone(),
            },
            ..contact.clone()
        })
    }
}

/// What a new contact is stored with: 1 is the number of its creation.
pub const FIRST_SEQUENCE: i64 = 2;

/// How a path names a contact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Key {
    Id(ContactId),
    /// The address in lower case.
    Email(String),
}

impl Key {
    /// `None`: no contact can have this name.
    pub fn read(text: &str) -> Option<Key> {
        if let Ok(id) = text.parse() {
            return Some(Key::Id(id));
        }
        Email::read(text).map(|email| Key::Email(email.key()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::string::string_regex;

    use super::*;
    use crate::web;

    fn changes(json: Value) -> Result<Changes, Error> {
        web::read_fields(json.as_object().expect("an object").clone())
    }

    fn contact(properties: Value) -> Contact {
        let email = Email::read("Ada@Example.com").expect("an address");
        let changes = changes(json!({"first_name": "Ada", "properties": properties})).expect("valid");
        changes.apply(&Contact::new(uuid::Uuid::nil().into(), &email, 7), &[]).expect("a contact")
    }

    #[test]
    fn an_address_has_a_name_and_a_domain() {
        let longest = format!("{}@b.example", "a".repeat(254 - 10));
        for good in [
            "a@b",
            "first.last+tag@example.com",
            "o'hara/x=y!#$%&*?^_`{|}~@sub.example-one.com",
            "ünï@exämple.com",
            "用户@例え.テスト",
            "a@हिन्दी.भारत",
            "a@127.0.0.1",
            &longest,
        ] {
            assert_eq!(Email::read(good).expect(good).as_str(), good);
        }
        let too_long = format!("a{longest}");
        for bad in [
            "",
            "a",
            "@",
            "@b",
            "a@",
            "a@@b",
            "a@b@c",
            "a b@c",
            "a@b c",
            " a@b",
            "a@b ",
            "a@.b",
            "a@b.",
            "a@b..c",
            ".a@b",
            "a.@b",
            "a..b@c",
            "a@-b",
            "a@b-",
            "a@b_c",
            "<a@b>",
            "A <a@b>",
            "a@[127.0.0.1]",
            "a,b@c",
            "a;b@c",
            "\"a b\"@c",
            "a\0@b",
            "a\n@b",
            "a@b\r\n",
            "a\u{200b}@b",
            "a@b\u{202e}",
            "a\u{a0}@b",
            &too_long,
        ] {
            assert_eq!(Email::read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn spellings_of_one_address_have_one_key() {
        let key = |text: &str| Email::read(text).expect(text).key();
        assert_eq!(key("ADA@Example.COM"), key("ada@example.com"));
        assert_eq!(key("ÄRGER@EXÄMPLE.com"), "ärger@exämple.com");
        assert_ne!(key("ada@example.com"), key("ada+x@example.com"));
    }

    #[test]
    fn what_is_not_said_stays_and_null_empties_a_name() {
        let before = contact(json!({"a": 1, "b": "x"}));
        assert_eq!(changes(json!({})).expect("valid").apply(&before, &[]).expect("applied"), before);
        let absent = json!({"email": null, "unsubscribed": null, "properties": null});
        assert_eq!(changes(absent).expect("valid").apply(&before, &[]).expect("applied"), before);
        let change =
            json!({"first_name": null, "last_name": "L", "unsubscribed": true, "properties": {"a": null, "c": false}});
        let after = changes(change).expect("valid").apply(&before, &[]).expect("applied");
        assert_eq!((after.first_name, after.last_name.as_deref(), after.unsubscribed), (None, Some("L"), true));
        assert_eq!(Value::Object(after.properties).to_string(), r#"{"b":"x","c":false}"#);
        assert_eq!((after.sequence, &after.email), (before.sequence, &before.email));
    }

    #[test]
    fn what_rules_see_are_plain_values() {
        let seen = contact(json!({"plan": "pro", "gone": null})).json();
        assert_eq!(seen["properties"], json!({"plan": "pro"}));
        let keys: Vec<&String> = seen.as_object().expect("an object").keys().collect();
        assert_eq!(
            keys,
            ["id", "email", "first_name", "last_name", "unsubscribed", "properties", "created_at", "updated_at"]
        );
        assert_eq!(seen["created_at"], "1970-01-01T00:00:00.000007Z");
    }

    #[test]
    fn a_field_of_the_wrong_kind_is_named() {
        for (body, field) in [
            (json!({"email": 1}), "email"),
            (json!({"email": "a"}), "email"),
            (json!({"first_name": 1}), "first_name"),
            (json!({"last_name": "x".repeat(256)}), "last_name"),
            (json!({"last_name": "a\nb"}), "last_name"),
            (json!({"unsubscribed": "yes"}), "unsubscribed"),
            (json!({"properties": []}), "properties"),
        ] {
            let error = changes(body).expect_err("refused");
            assert!(error.message().contains(&format!("`{field}`")), "{}", error.message());
        }
    }

    proptest! {
        /// The description promises that what fits its pattern is taken.
        #[test]
        fn whatever_the_description_allows_is_an_address(
            text in string_regex(EMAIL_PATTERN.trim_matches(['^', '$'])).expect("a pattern"),
        ) {
            let fits = text.chars().count() <= LONGEST_EMAIL;
            prop_assert_eq!(Email::read(&text).is_some(), fits);
        }

        #[test]
        fn an_address_names_the_same_contact_however_it_is_written(text in "[a-zA-Zäß+.@-]{0,12}@[a-zA-Zö.-]{1,9}") {
            if let Some(email) = Email::read(&text) {
                prop_assert_eq!(Key::read(&text), Some(Key::Email(email.key())));
                prop_assert_eq!(email_key(&email.key()), email.key());
            }
        }

        #[test]
        fn a_path_names_an_id_an_address_or_nobody(text in "\\PC{0,40}", id in any::<u128>()) {
            let id = uuid::Uuid::from_u128(id);
            for spelling in [id.as_hyphenated().to_string(), id.simple().to_string().to_uppercase()] {
                prop_assert_eq!(Key::read(&spelling), Some(Key::Id(id.into())));
            }
            let id = uuid::Uuid::try_parse(&text).is_ok();
            prop_assert_eq!(Key::read(&text).is_some(), id || Email::read(&text).is_some());
        }

        #[test]
        fn no_control_ever_stands_in_an_address(text in any::<String>()) {
            if let Some(email) = Email::read(&text) {
                prop_assert!(!email.as_str().chars().any(|char| char.is_control() || char.is_whitespace()));
            }
        }
    }
}
