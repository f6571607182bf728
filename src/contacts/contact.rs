//! What a contact is: an address, perhaps a name, and properties. Valid by
//! construction.

use serde_json::{Map, Value, json};

use super::properties::Properties;
use crate::clock::rfc3339;
use crate::error::Error;
use crate::id::ContactId;
use crate::web::input::{Input, is_longer, kind};

pub const LONGEST_EMAIL: usize = 254;
pub const LONGEST_NAME: usize = 255;

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
    pub version: i64,
    pub created_at: i64,
    pub updated_at: Option<i64>,
}

impl Contact {
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Email(String);

impl Email {
    pub fn parse(value: &Value) -> Result<Email, Error> {
        let Value::String(text) = value else {
            return Err(Error::invalid(format!("The `email` field must be a string, but is {}.", kind(value))));
        };
        Email::read(text).ok_or_else(|| {
            Error::invalid(format!(
                "The `email` field must be one address such as `name@example.com`, without spaces and of at most \
                 {LONGEST_EMAIL} characters."
            ))
        })
    }

    pub fn read(text: &str) -> Option<Email> {
        let (local, domain) = text.split_once('@')?;
        let sound = !is_longer(text, LONGEST_EMAIL)
            && local.split('.').all(|atom| !atom.is_empty() && !atom.chars().any(breaks_local))
            && domain.split('.').all(is_label);
        sound.then(|| Email(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn key(&self) -> String {
        email_key(&self.0)
    }
}

/// What all spellings of an address have in common.
pub fn email_key(address: &str) -> String {
    address.to_lowercase()
}

/// The rules of [`Email::read`] as a pattern, for the API's description.
pub const EMAIL_PATTERN: &str = concat!(
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(String);

impl Name {
    pub fn parse(field: &str, value: &Value) -> Result<Name, Error> {
        let Value::String(name) = value else {
            return Err(Error::invalid(format!("The `{field}` field must be a string, but is {}.", kind(value))));
        };
        if is_longer(name, LONGEST_NAME) || name.chars().any(char::is_control) {
            return Err(Error::invalid(format!(
                "The `{field}` field must be one line of at most {LONGEST_NAME} characters."
            )));
        }
        Ok(Name(name.clone()))
    }
}

/// What a request says of a contact; what it does not say stays as it is.
#[derive(Debug, Default, PartialEq)]
pub struct Changes {
    email: Option<Email>,
    /// `Some(None)` empties it.
    first_name: Option<Option<Name>>,
    last_name: Option<Option<Name>>,
    unsubscribed: Option<bool>,
    pub properties: Properties,
}

impl Changes {
    pub fn parse(input: &Input) -> Result<Changes, Error> {
        let name = |field: &str| match input.0.get(field) {
            None => Ok(None),
            Some(Value::Null) => Ok(Some(None)),
            Some(value) => Name::parse(field, value).map(|name| Some(Some(name))),
        };
        Ok(Changes {
            email: input.get("email").map(Email::parse).transpose()?,
            first_name: name("first_name")?,
            last_name: name("last_name")?,
            unsubscribed: input.get("unsubscribed").map(unsubscribed).transpose()?,
            properties: input.get("properties").map(Properties::parse).transpose()?.unwrap_or_default(),
        })
    }

    /// The contact as it is after the changes.
    pub fn apply(&self, contact: &Contact) -> Result<Contact, Error> {
        let name = |change: &Option<Option<Name>>, name: &Option<String>| match change {
            None => name.clone(),
            Some(new) => new.as_ref().map(|name| name.0.clone()),
        };
        Ok(Contact {
            email: self.email.as_ref().map_or(contact.email.clone(), |email| email.0.clone()),
            first_name: name(&self.first_name, &contact.first_name),
            last_name: name(&self.last_name, &contact.last_name),
            unsubscribed: self.unsubscribed.unwrap_or(contact.unsubscribed),
            properties: self.properties.merged_into(&contact.properties)?,
            ..contact.clone()
        })
    }

    /// A new contact of which this is all that is known.
    pub fn create(&self, id: ContactId, email: &Email, now: i64) -> Result<Contact, Error> {
        self.apply(&Contact {
            id,
            email: email.0.clone(),
            first_name: None,
            last_name: None,
            unsubscribed: false,
            properties: Map::new(),
            version: FIRST_VERSION,
            created_at: now,
            updated_at: None,
        })
    }
}

/// What a new contact is stored with: 1 is the number of its creation.
const FIRST_VERSION: i64 = 2;

fn unsubscribed(value: &Value) -> Result<bool, Error> {
    value.as_bool().ok_or_else(|| {
        Error::invalid(format!("The `unsubscribed` field must be `true` or `false`, but is {}.", kind(value)))
    })
}

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

    fn input(json: Value) -> Input {
        Input(json.as_object().expect("an object").clone())
    }

    fn contact(properties: Value) -> Contact {
        let email = Email::read("Ada@Example.com").expect("an address");
        let changes = Changes::parse(&input(json!({"first_name": "Ada", "properties": properties}))).expect("valid");
        changes.create(uuid::Uuid::nil().into(), &email, 7).expect("a contact")
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
        assert_eq!(Changes::parse(&input(json!({}))).expect("valid").apply(&before).expect("applied"), before);
        let absent = json!({"email": null, "unsubscribed": null, "properties": null});
        assert_eq!(Changes::parse(&input(absent)).expect("valid").apply(&before).expect("applied"), before);
        let change =
            json!({"first_name": null, "last_name": "L", "unsubscribed": true, "properties": {"a": null, "c": false}});
        let after = Changes::parse(&input(change)).expect("valid").apply(&before).expect("applied");
        assert_eq!((after.first_name, after.last_name.as_deref(), after.unsubscribed), (None, Some("L"), true));
        assert_eq!(Value::Object(after.properties).to_string(), r#"{"b":"x","c":false}"#);
        assert_eq!((after.version, &after.email), (before.version, &before.email));
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
            let error = Changes::parse(&input(body)).expect_err("refused");
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
