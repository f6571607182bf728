//! The head of a message that came in: strangers write it, so it is read as far as it can be.

use std::collections::BTreeMap;

use mail_parser::{HeaderName, MessageParser};

use super::dkim::{fields, name_of};
use super::mailbox::Mailbox;
use super::written::{mailboxes, sender};

const MOST_FIELDS: usize = 2_000;

/// In characters.
const LONGEST_SUBJECT: usize = 2_000;
const LONGEST_VALUE: usize = 998;

/// How many messages one may refer to.
const MOST_REFERENCES: usize = 20;

/// A head, field by field.
pub struct ReceivedHead<'a> {
    fields: Vec<&'a [u8]>,
}

/// What it tells people.
#[derive(Debug, Clone)]
pub struct ReceivedFrom {
    /// The sender, where that is one address.
    pub sender: Option<Mailbox>,
    /// The same as it is shown, also where it is none.
    pub from: String,
    pub to: Vec<Mailbox>,
    pub cc: Vec<Mailbox>,
    pub reply_to: Vec<Mailbox>,
    pub subject: String,
}

impl<'a> ReceivedHead<'a> {
    /// What is wrong with it is told in words that go behind "the message".
    pub fn read(bytes: &'a [u8]) -> Result<ReceivedHead<'a>, String> {
        let fields: Vec<&[u8]> = fields(bytes).into_iter().filter(|field| field.contains(&b':')).collect();
        if fields.len() > MOST_FIELDS {
            return Err(format!("must have at most {MOST_FIELDS} header fields"));
        }
        let head = ReceivedHead { fields };
        // Of two of them each reader could believe another one.
        match head.all("From").count() {
            1 => Ok(head),
            _ => Err("must have the header `From` once".into()),
        }
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.fields.iter().copied().filter(move |field| name_of(field).eq_ignore_ascii_case(name.as_bytes()))
    }

    /// The value of the first field of a name, on one line.
    pub fn value(&self, name: &str) -> Option<String> {
        self.all(name).next().map(value_of)
    }

    /// How many fields have a name.
    pub fn count(&self, name: &str) -> usize {
        self.all(name).count()
    }

    /// All fields as they stand, for those who look at signatures.
    pub fn fields(&self) -> &[&'a [u8]] {
        &self.fields
    }

    /// The values by the names of their fields, in lower case; of several the first.
    pub fn values(&self) -> BTreeMap<String, String> {
        let mut values = BTreeMap::new();
        for field in &self.fields {
            let name = String::from_utf8_lossy(name_of(field)).to_ascii_lowercase();
            values.entry(name).or_insert_with(|| value_of(field));
        }
        values
    }

    /// Its id with the angle brackets, as far as it has one.
    pub fn message_id(&self) -> Option<String> {
        self.value("Message-ID").and_then(|value| ids(&value).next())
    }

    /// What an answer refers to: what this message did, and this message.
    pub fn references(&self) -> Vec<String> {
        let before = self.value("References").or_else(|| self.value("In-Reply-To")).unwrap_or_default();
        let mut all: Vec<String> = ids(&before).collect();
        all.extend(self.message_id().filter(|id| !all.contains(id)));
        // The first began the conversation; of the others the last matter most.
        let surplus = all.len().saturating_sub(MOST_REFERENCES);
        if surplus > 0 {
            all.drain(1..=surplus);
        }
        all
    }

    /// Whether a program has sent it, to whom nothing is to be answered (RFC 3834).
    pub fn is_automatic(&self) -> bool {
        let is = |name: &str, words: &[&str]| {
            let value = self.value(name).unwrap_or_default().to_ascii_lowercase();
            words.iter().any(|word| value.trim() == *word)
        };
        let submitted = self.value("Auto-Submitted").is_some() && !is("Auto-Submitted", &["no", ""]);
        submitted || is("Precedence", &["bulk", "junk", "list"]) || self.count("List-Id") > 0
    }

    /// What it tells people.
    pub fn shown(&self) -> ReceivedFrom {
        let head = [&self.fields.concat()[..], b"\r\n"].concat();
        let parser = [HeaderName::From, HeaderName::To, HeaderName::Cc, HeaderName::ReplyTo]
            .into_iter()
            .fold(MessageParser::new().default_header_ignore(), MessageParser::header_address)
            .header_text(HeaderName::Subject);
        let read = parser.parse_headers(&head);
        let read = read.as_ref();
        let sender = sender(read.and_then(|read| read.from())).ok();
        let written = || self.value("From").unwrap_or_default().chars().take(LONGEST_VALUE).collect();
        let subject = read.and_then(|read| read.subject()).unwrap_or_default();
        ReceivedFrom {
            from: sender.as_ref().map_or_else(written, Mailbox::to_string),
            sender,
            to: mailboxes(read.and_then(|read| read.to())),
            cc: mailboxes(read.and_then(|read| read.cc())),
            reply_to: mailboxes(read.and_then(|read| read.reply_to())),
            subject: subject.chars().take(LONGEST_SUBJECT).collect::<String>().replace(char::is_control, " "),
        }
    }
}

fn value_of(field: &[u8]) -> String {
    let value = memchr::memchr(b':', field).map_or(&[][..], |colon| &field[colon + 1..]);
    let line = String::from_utf8_lossy(value).replace(['\r', '\n'], "");
    line.trim().replace(|char: char| char.is_control() && char != '\t', " ")
}

/// The ids in a value, with their angle brackets.
fn ids(value: &str) -> impl Iterator<Item = String> {
    value.split('<').skip(1).filter_map(|part| {
        let (id, _) = part.split_once('>')?;
        let fits = (1..=250).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| format!("<{id}>"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> ReceivedHead<'_> {
        ReceivedHead::read(text.as_bytes()).expect("a head")
    }

    #[test]
    fn what_strangers_write_is_read_as_far_as_it_can_be() {
        let read = head(
            "no field\r\nFrom: =?utf-8?q?J=C3=BCrg?= <j@example.com>\r\nSUBJECT:\r\n a\r\n\tb\r\nX-A: 1\r\nx-a: 2\r\n\
             To: a@example.com, nobody, B <b@example.com>\r\n",
        );
        let shown = read.shown();
        assert_eq!((shown.from.as_str(), shown.subject.trim()), ("Jürg <j@example.com>", "a b"));
        assert_eq!(shown.to.iter().map(Mailbox::to_string).collect::<Vec<_>>(), ["a@example.com", "B <b@example.com>"]);
        assert_eq!(read.values()["x-a"], "1");
        assert_eq!(read.message_id(), None);
        assert_eq!(head("From: not an address\r\n").shown().from, "not an address");
        for wrong in ["Subject: x\r\n", "From: a@b.example\r\nfrom: c@d.example\r\n"] {
            assert!(ReceivedHead::read(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let bomb = format!("From: a@b.example\r\n{}", "A: b\r\n".repeat(MOST_FIELDS));
        assert!(ReceivedHead::read(bomb.as_bytes()).is_err());
    }

    #[test]
    fn an_answer_refers_to_the_first_and_the_last_of_a_conversation() {
        let read = head("From: a@b.example\r\nMessage-ID: <3@x>\r\nReferences: <1@x>\r\n <2@x> junk\r\n");
        assert_eq!(read.references(), ["<1@x>", "<2@x>", "<3@x>"]);
        let read = head("From: a@b.example\r\nMessage-ID: <2@x>\r\nIn-Reply-To: <1@x>\r\n");
        assert_eq!(read.references(), ["<1@x>", "<2@x>"]);
        let long: String = (0..100).map(|number| format!(" <{number}@x>")).collect();
        let text = format!("From: a@b.example\r\nMessage-ID: <new@x>\r\nReferences:{long}\r\n");
        let found = head(&text).references();
        assert_eq!((found.len(), found[0].as_str(), found[1].as_str()), (MOST_REFERENCES, "<0@x>", "<82@x>"));
        assert_eq!(found.last().map(String::as_str), Some("<new@x>"));
        assert!(head("From: a@b.example\r\n").references().is_empty());
    }

    #[test]
    fn programs_are_known_by_what_they_say_of_themselves() {
        for (field, expected) in [
            ("Auto-Submitted: auto-replied", true),
            ("Auto-Submitted: no", false),
            ("Precedence: Bulk", true),
            ("List-Id: <a.b>", true),
            ("Subject: Out of office", false),
        ] {
            assert_eq!(head(&format!("From: a@b.example\r\n{field}\r\n")).is_automatic(), expected, "{field}");
        }
    }
}
