//! Messages that somebody else has written: their heads, field by field. Nothing in them is
//! changed; fields can be left out.

use mail_parser::{Addr, Address as Addresses, HeaderName, MessageParser};

use super::dkim::{fields, name_of};
use super::header::check_line;
use super::mailbox::Mailbox;

/// In bytes, without its line break.
const LONGEST_LINE: usize = 998;

const MOST_FIELDS: usize = 1_000;

/// What a message has once or not at all. Of two of them each reader could believe another one.
const ONCE: &[&str] = &["From", "Sender", "Reply-To", "To", "Cc", "Subject", "Date", "Message-ID"];

/// How many addresses of a field are shown, and how much of a subject, in characters.
const MOST_SHOWN: usize = 100;
const SUBJECT_SHOWN: usize = 2_000;

/// The header fields of a message, each with its line break.
pub struct WrittenHead<'a> {
    bytes: &'a [u8],
    fields: Vec<&'a [u8]>,
}

/// What a head tells people, as far as it can be read.
#[derive(Debug)]
pub struct Shown {
    pub from: Mailbox,
    pub to: Vec<Mailbox>,
    pub cc: Vec<Mailbox>,
    pub reply_to: Vec<Mailbox>,
    pub subject: String,
}

impl<'a> WrittenHead<'a> {
    /// What is wrong with it is told in words that go behind "the message".
    pub fn read(bytes: &'a [u8]) -> Result<WrittenHead<'a>, String> {
        if bytes.split(|byte| *byte == b'\n').any(|line| line.strip_suffix(b"\r").unwrap_or(line).len() > LONGEST_LINE)
        {
            return Err(format!("must have lines of at most {LONGEST_LINE} bytes in its head; fold long fields"));
        }
        let head = WrittenHead { bytes, fields: fields(bytes) };
        if head.fields.len() > MOST_FIELDS {
            return Err(format!("must have at most {MOST_FIELDS} header fields"));
        }
        if !head.fields.iter().all(|field| is_field(field)) {
            return Err(
                "must begin with header fields such as `Subject: Hello`, and have an empty line behind them".to_owned()
            );
        }
        match ONCE.iter().find(|name| head.all(name).nth(1).is_some()) {
            Some(name) => Err(format!("must have the header `{name}` once, not several times")),
            None => Ok(head),
        }
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.fields.iter().copied().filter(move |field| name_of(field).eq_ignore_ascii_case(name.as_bytes()))
    }

    /// The values of all fields of a name, each on one line.
    pub fn values(&self, name: &str) -> impl Iterator<Item = String> {
        self.all(name).map(|field| {
            let value = memchr::memchr(b':', field).map_or(&[][..], |colon| &field[colon + 1..]);
            String::from_utf8_lossy(value).replace("\r\n", "").trim().to_owned()
        })
    }

    /// All but the fields of these names.
    pub fn without(&self, names: &[&str]) -> Vec<u8> {
        let is_left_out = |field: &[u8]| names.iter().any(|name| name_of(field).eq_ignore_ascii_case(name.as_bytes()));
        self.fields.iter().filter(|field| !is_left_out(field)).flat_map(|field| field.iter().copied()).collect()
    }

    /// What it tells people. It has to say whom it is from.
    pub fn shown(&self) -> Result<Shown, String> {
        let head = [self.bytes, b"\r\n"].concat();
        let parser = [HeaderName::From, HeaderName::To, HeaderName::Cc, HeaderName::ReplyTo]
            .into_iter()
            .fold(MessageParser::new().default_header_ignore(), MessageParser::header_address)
            .header_text(HeaderName::Subject);
        let read = parser.parse_headers(&head).ok_or("must have header fields")?;
        let subject: String = read.subject().unwrap_or_default().chars().take(SUBJECT_SHOWN).collect();
        Ok(Shown {
            from: sender(read.from())?,
            to: mailboxes(read.to()),
            cc: mailboxes(read.cc()),
            reply_to: mailboxes(read.reply_to()),
            subject: subject.replace(char::is_control, " "),
        })
    }
}

/// Whether it has a name, a colon, and a value on lines that belong to it.
fn is_field(field: &[u8]) -> bool {
    let name = name_of(field);
    field.contains(&b':') && field.ends_with(b"\r\n") && !name.is_empty() && name.iter().all(u8::is_ascii_graphic)
}

pub(super) fn sender(from: Option<&Addresses<'_>>) -> Result<Mailbox, String> {
    let mut all = from.into_iter().flat_map(Addresses::iter);
    let (first, second) = (all.next(), all.next());
    let one = first.filter(|_| second.is_none()).ok_or("must have the header `From` with one address")?;
    let address = one.address().unwrap_or_default().parse();
    let address = address.map_err(|flaw: String| format!("must have an address in its header `From`, which {flaw}"))?;
    Ok(Mailbox { address, name: name(one) })
}

/// Those that can be read.
pub(super) fn mailboxes(list: Option<&Addresses<'_>>) -> Vec<Mailbox> {
    let one = |one: &Addr<'_>| Some(Mailbox { address: one.address()?.parse().ok()?, name: name(one) });
    list.into_iter().flat_map(Addresses::iter).filter_map(one).take(MOST_SHOWN).collect()
}

/// A name that a mailbox may have.
fn name(one: &Addr<'_>) -> Option<String> {
    let name = one.name()?.trim();
    (!name.is_empty() && name.chars().count() <= 255 && check_line(name).is_ok()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(head: &str) -> Result<Shown, String> {
        WrittenHead::read(head.as_bytes())?.shown()
    }

    #[test]
    fn a_head_is_read_as_people_see_it() {
        let head = "Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n aus Bern\r\n\
                    FROM : =?utf-8?b?QWRhIPCfk68=?= <ada@example.com>\r\n\
                    To: \"Q, N\" <q@example.com>, team: b@example.com;\r\nCc: not an address\r\nX-A: 1\r\n";
        let read = shown(head).expect("a head");
        assert_eq!(
            (read.from.to_string(), read.subject.as_str()),
            ("Ada 📯 <ada@example.com>".into(), "Grüße aus Bern")
        );
        assert_eq!(
            read.to.iter().map(Mailbox::to_string).collect::<Vec<_>>(),
            ["\"Q, N\" <q@example.com>", "b@example.com"]
        );
        assert!(read.cc.is_empty());
    }

    #[test]
    fn a_head_that_two_readers_could_read_differently_is_refused() {
        for (head, word) in [
            ("From: a@b.example\r\nFrom: c@d.example\r\n", "once"),
            ("From: a@b.example\r\nSubject: 1\r\nsubject : 2\r\n", "once"),
            ("From: a@b.example, c@d.example\r\n", "one address"),
            ("From: nobody\r\n", "`From`"),
            ("Subject: x\r\n", "`From`"),
            (" begins with a continuation\r\nFrom: a@b.example\r\n", "header fields"),
            ("From a@b.example Mon Jan 1\r\nFrom: a@b.example\r\n", "header fields"),
            ("Fr\0om: a@b.example\r\n", "header fields"),
            ("From: a@b.example", "header fields"),
        ] {
            let flaw = shown(head).expect_err(head);
            assert!(flaw.contains(word), "{head:?}: {flaw}");
        }
        let long = |length: usize| format!("From: a@b.example\r\nX-A: {}\r\n", "x".repeat(length - 5));
        assert!(shown(&long(998)).is_ok() && shown(&long(999)).is_err());
        assert!(shown(&format!("From: a@b.example\r\n{}", "A: b\r\n".repeat(1000))).is_err());
    }

    #[test]
    fn fields_are_left_out_with_all_their_lines() {
        let bytes = b"Bcc: a@b.example,\r\n c@d.example\r\nA: 1\r\n\t2\r\nbCC:\r\n";
        let head = WrittenHead::read(bytes).expect("a head");
        assert_eq!(head.without(&["Bcc"]), b"A: 1\r\n\t2\r\n");
        assert_eq!(head.values("a").collect::<Vec<_>>(), ["1\t2"]);
    }
}
