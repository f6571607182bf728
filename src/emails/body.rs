//! What a request hands in, field by field.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};
use serde_json::Value;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::templated::TemplateToSend;
use crate::id::TopicId;
use crate::mime::{AttachmentInfo, Header, Mailbox};
use crate::web::{LONG_MARK, LongFields, is_longer};

/// How many addresses one field may name.
pub const MOST_ADDRESSES: usize = 50;
const MOST_HEADERS: usize = 100;
const MOST_TAGS: usize = 100;
const LONGEST_SUBJECT: usize = 2000;
const LONGEST_TAG: usize = 256;

/// How much a mail may hold: its bodies, and its attachments in base64.
pub const LARGEST: u64 = 40 << 20;

/// A mail to send.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = EmailToSend, example = json!({
    "from": "Acme <hello@acme.example>", "to": ["ada@example.com"], "subject": "Hello", "html": "<p>It works.</p>",
}))]
pub struct EmailToSend {
    /// Whom it goes to: an address or up to 50.
    #[schema(value_type = AddressList)]
    pub to: Mailboxes<1>,
    /// A template that was published, instead of `html` and `text`. What the mail says of `from`, `subject` and
    /// `reply_to` goes before what the template says.
    #[serde(rename = "template")]
    #[schema(value_type = Option<TemplateToSend>)]
    pub _template: Option<TemplateToSend>,
    /// The body as HTML. Where there is no `text`, one is made of it.
    #[schema(value_type = Option<String>)]
    pub html: Option<Text>,
    /// The body as plain text. An empty one says that none is wanted beside the HTML.
    #[schema(value_type = Option<String>)]
    pub text: Option<Text>,
    /// Whom it comes from: `name@example.com`, or `Name <name@example.com>`. A template may say so, too.
    #[schema(value_type = String, required = false)]
    pub from: OneMailbox,
    /// A template may have one, too.
    #[schema(value_type = String, max_length = 2000, required = false)]
    pub subject: Subject,
    /// Further recipients that everybody sees.
    #[schema(value_type = Option<AddressList>)]
    pub cc: Option<Mailboxes<0>>,
    /// Further recipients that nobody sees.
    #[schema(value_type = Option<AddressList>)]
    pub bcc: Option<Mailboxes<0>>,
    /// Where answers are to go.
    #[schema(value_type = Option<AddressList>)]
    pub reply_to: Option<Mailboxes<0>>,
    /// Headers of your own, by name.
    #[schema(value_type = Option<std::collections::HashMap<String, String>>)]
    pub headers: Option<Headers>,
    /// Words of your own by which you find the mail again.
    #[schema(value_type = Option<Vec<Tag>>)]
    pub tags: Option<Vec<Tag>>,
    /// The topic that it is about.
    #[schema(value_type = Option<Uuid>)]
    pub topic_id: Option<TopicId>,
    /// When to send it, up to 30 days ahead: a time in ISO 8601 with its zone, or words such as `in 1 hour`,
    /// `tomorrow at 9am` or `Friday at 3pm ET`.
    #[schema(example = "in 1 hour")]
    pub scheduled_at: Option<String>,
    pub attachments: Option<Vec<AttachmentToSend>>,
}

impl LongFields for EmailToSend {
    const NAMES: &'static [&'static str] = &["html", "text", "content", "data"];
    /// The largest mail, with room for the rest of it and for what JSON writes longer.
    const LIMIT: usize = LARGEST as usize / 3 * 4 + (2 << 20);
}

/// A file that goes with the mail.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = AttachmentToSend)]
pub struct AttachmentToSend {
    /// The file in base64. Either this or `path`.
    #[schema(value_type = Option<String>, format = Byte)]
    pub content: Option<Bytes>,
    /// An `https://` or `http://` address from which the file is fetched.
    pub path: Option<String>,
    /// What the file is called.
    #[schema(value_type = Option<String>, max_length = 255)]
    pub filename: Option<FileName>,
    /// What kind of file it is. Without it, the name's ending tells.
    #[schema(value_type = Option<String>, example = "application/pdf")]
    pub content_type: Option<ContentType>,
    /// By which the HTML shows it as a picture: `<img src="cid:…">`.
    #[schema(value_type = Option<String>, max_length = 257)]
    pub content_id: Option<ContentId>,
}

/// A word by which mail is found again: letters, digits, `_` and `-`.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = EmailTag)]
pub struct Tag {
    #[schema(value_type = String, max_length = 256, pattern = "^[A-Za-z0-9_-]+$")]
    pub name: TagWord,
    #[schema(value_type = String, max_length = 256, pattern = "^[A-Za-z0-9_-]*$")]
    pub value: TagWord,
}

/// How [`Mailboxes`] are described.
pub struct AddressList;

impl PartialSchema for AddressList {
    fn schema() -> RefOr<Schema> {
        let one = || ObjectBuilder::new().schema_type(Type::String).examples(["Ada <ada@example.com>"]);
        let many = ArrayBuilder::new().items(one()).max_items(Some(MOST_ADDRESSES));
        let description =
            "One address, such as `name@example.com` or `Name <name@example.com>`, or an array of up to 50.";
        OneOfBuilder::new().item(one()).item(many).description(Some(description)).into()
    }
}

impl ToSchema for AddressList {}

macro_rules! words {
    ($($name:ident: $rule:expr;)+) => {$(
        #[derive(Debug, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(pub String);

        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<$name, String> {
                let rule: fn(&str) -> Result<(), String> = $rule;
                rule(&text).map(|()| $name(text))
            }
        }
    )+};
}

words! {
    Subject: check_subject;
    TagWord: |text| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        match text.len() <= LONGEST_TAG && text.bytes().all(fits) {
            true => Ok(()),
            false => Err(format!("must be at most {LONGEST_TAG} ASCII letters, digits, `_` and `-`")),
        }
    };
    FileName: |text| match text.contains(['/', '\\']) {
        true => Err("must be a name without a path".into()),
        false => AttachmentInfo::check_filename(text),
    };
    ContentType: AttachmentInfo::check_content_type;
    ContentId: AttachmentInfo::check_content_id;
}

/// What holds for every subject; the error says what it must be.
pub fn check_subject(text: &str) -> Result<(), String> {
    match is_longer(text, LONGEST_SUBJECT) || text.chars().any(char::is_control) {
        true => Err(format!("must be one line of at most {LONGEST_SUBJECT} characters")),
        false => Ok(()),
    }
}

/// An address, perhaps with a name.
#[derive(Debug)]
pub struct OneMailbox(pub Mailbox);

impl<'de> Deserialize<'de> for OneMailbox {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OneMailbox, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(OneMailbox).map_err(D::Error::custom)
    }
}

/// An address or an array of addresses: no fewer than `LEAST`.
#[derive(Debug)]
pub struct Mailboxes<const LEAST: usize>(pub Vec<Mailbox>);

impl<'de, const LEAST: usize> Deserialize<'de> for Mailboxes<LEAST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Mailboxes<LEAST>, D::Error> {
        let found = deserializer.deserialize_any(MailboxesVisitor)?;
        match found.len() {
            count if count < LEAST => Err(D::Error::custom("must name at least one address")),
            _ => Ok(Mailboxes(found)),
        }
    }
}

struct MailboxesVisitor;

impl<'de> Visitor<'de> for MailboxesVisitor {
    type Value = Vec<Mailbox>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an address or an array of addresses")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Vec<Mailbox>, E> {
        text.parse().map(|mailbox| vec![mailbox]).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<Mailbox>, A::Error> {
        if items.size_hint().is_some_and(|count| count > MOST_ADDRESSES) {
            return Err(A::Error::custom(format!("must name at most {MOST_ADDRESSES} addresses")));
        }
        let mut found = Vec::with_capacity(items.size_hint().unwrap_or(1));
        while let Some(OneMailbox(mailbox)) = items.next_element()? {
            found.push(mailbox);
        }
        Ok(found)
    }
}

/// Headers by name.
#[derive(Debug)]
pub struct Headers(pub Vec<Header>);

impl<'de> Deserialize<'de> for Headers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Headers, D::Error> {
        deserializer.deserialize_map(HeadersVisitor)
    }
}

struct HeadersVisitor;

impl<'de> Visitor<'de> for HeadersVisitor {
    type Value = Headers;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Headers, A::Error> {
        let mut found: Vec<Header> = Vec::new();
        while let Some((name, value)) = entries.next_entry::<String, Value>()? {
            let Value::String(value) = value else {
                return Err(A::Error::custom("must be an object of strings"));
            };
            let header = Header::new(&name, &value).map_err(A::Error::custom)?;
            if found.iter().any(|other| other.name().eq_ignore_ascii_case(&name)) {
                return Err(A::Error::custom(format!(
                    "names `{name}` twice: capital letters make no other header of it"
                )));
            }
            if found.len() == MOST_HEADERS {
                return Err(A::Error::custom(format!("must hold at most {MOST_HEADERS} headers")));
            }
            found.push(header);
        }
        Ok(Headers(found))
    }
}

/// A body, which may be long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Text {
    Short(String),
    /// By its number among the long values of the request.
    Long(usize),
}

/// Bytes in base64 or as numbers, which may be many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bytes {
    Base64(Text),
    Numbers(Vec<u8>),
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
        self.visit_string(text.to_owned())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Text, E> {
        // PostgreSQL cannot keep it.
        match text.contains('\0') {
            true => Err(E::custom("must not hold the character U+0000")),
            false => Ok(Text::Short(text)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Text, A::Error> {
        let first = items.next_element()?;
        reference(first.as_ref(), &mut items)?.ok_or_else(|| A::Error::invalid_type(Unexpected::Seq, &self))
    }
}

/// The long value that an array stands for, if it is one of ours.
fn reference<'de, A: SeqAccess<'de>>(first: Option<&Value>, items: &mut A) -> Result<Option<Text>, A::Error> {
    if first.and_then(Value::as_str) != Some(LONG_MARK) {
        return Ok(None);
    }
    let number: Option<usize> = items.next_element()?;
    while items.next_element::<IgnoredAny>()?.is_some() {}
    Ok(number.map(Text::Long))
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        deserializer.deserialize_any(BytesVisitor)
    }
}

struct BytesVisitor;

impl<'de> Visitor<'de> for BytesVisitor {
    type Value = Bytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string in base64")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Bytes, E> {
        Ok(Bytes::Base64(Text::Short(text.to_owned())))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Bytes, E> {
        Ok(Bytes::Base64(Text::Short(text)))
    }

    /// Some programs send an array of numbers.
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Bytes, A::Error> {
        let first: Option<Value> = items.next_element()?;
        if let Some(long) = reference(first.as_ref(), &mut items)? {
            return Ok(Bytes::Base64(long));
        }
        let byte = |value: &Value| value.as_u64().and_then(|number| u8::try_from(number).ok());
        let wrong = || A::Error::custom("must be a string in base64, or an array of numbers from 0 to 255");
        let mut bytes = Vec::new();
        let mut next = first;
        while let Some(value) = next {
            bytes.push(byte(&value).ok_or_else(wrong)?);
            next = items.next_element()?;
        }
        Ok(Bytes::Numbers(bytes))
    }

    /// A `Buffer` as JavaScript writes it.
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Bytes, A::Error> {
        let mut data = None;
        while let Some(name) = entries.next_key::<String>()? {
            match name == "data" {
                true => data = Some(entries.next_value()?),
                false => drop(entries.next_value::<IgnoredAny>()?),
            }
        }
        data.ok_or_else(|| A::Error::invalid_type(Unexpected::Map, &self))
    }
}

impl EmailToSend {
    /// What holds for the number of tags.
    pub fn check_tags(&self) -> Result<(), String> {
        let tags = self.tags.as_deref().unwrap_or_default();
        if tags.iter().any(|tag| tag.name.0.is_empty()) {
            return Err("The `tags` field holds a tag without a name.".into());
        }
        match tags.len() > MOST_TAGS {
            true => Err(format!("The `tags` field must hold at most {MOST_TAGS} tags.")),
            false => Ok(()),
        }
    }
}
