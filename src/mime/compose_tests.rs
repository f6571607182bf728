use proptest::prelude::*;

use super::reading::{Read, unencoded, with_crlf};
use super::*;

/// What a letter is made of, by itself.
#[derive(Debug, Default, Clone)]
struct Given {
    names: Vec<String>,
    subject: String,
    headers: Vec<(String, String)>,
    text: Option<String>,
    html: Option<String>,
    files: Vec<File>,
}

#[derive(Debug, Default, Clone)]
struct File {
    name: String,
    content_type: String,
    id: Option<String>,
    content: Vec<u8>,
}

impl Given {
    fn message(&self) -> String {
        let mailboxes: Vec<Mailbox> = self.names.iter().enumerate().map(|(at, name)| mailbox(name, at)).collect();
        let headers: Vec<Header> = self.headers.iter().map(|(name, value)| header(name, value)).collect();
        let attachments: Vec<AttachmentInfo> = self.files.iter().enumerate().map(|(at, file)| info(file, at)).collect();
        let letter = Letter {
            message_id: "0190f5fe-7c00-7a00-8000-000000000001@example.com",
            date_micros: 1_794_794_845_123_456,
            from: &mailbox("Ada", 0),
            to: &mailboxes,
            cc: &[],
            reply_to: &mailboxes[..mailboxes.len().min(1)],
            subject: &self.subject,
            headers: &headers,
            text: self.text.as_deref().map(Content::Inline),
            html: self.html.as_deref().map(Content::Inline),
            attachments: &attachments,
            boundary_seed: b"seed",
        };
        assert_eq!(compose(&letter), compose(&letter), "the same to the byte");
        let mut out = Vec::new();
        for piece in compose(&letter) {
            match piece {
                Piece::Bytes(bytes) => out.extend(bytes),
                Piece::Part { part, encoding } => {
                    let mut encoder = Encoder::new(encoding);
                    encoder.push(&self.files[part as usize - 16].content, &mut out);
                    encoder.finish(&mut out);
                }
            }
        }
        let message = String::from_utf8(out).expect("ASCII");
        assert!(message.is_ascii() && message.ends_with("\r\n"), "{message}");
        assert!(
            message.split("\r\n").all(|line| line.len() <= 998 && !line.contains(['\r', '\n', '\0'])),
            "{message:?}"
        );
        let (head, _) = message.split_once("\r\n\r\n").expect("an empty line");
        for line in head.split("\r\n").filter(|line| line.len() > 78) {
            let words = line.split_once(": ").map_or(line, |(_, words)| words);
            assert!(!words.trim().contains(' '), "could be folded: {line:?}");
        }
        message
    }
}

fn mailbox(name: &str, at: usize) -> Mailbox {
    let name = (!name.is_empty()).then(|| name.to_owned());
    Mailbox { name, address: format!("person-{at}@bücher.example").parse().expect("an address") }
}

fn header(name: &str, value: &str) -> Header {
    Header::new(name, value).expect("a header")
}

fn info(file: &File, at: usize) -> AttachmentInfo {
    AttachmentInfo {
        filename: Some(file.name.clone()),
        content_type: file.content_type.clone(),
        content_id: file.id.clone(),
        part: at as i64 + 16,
        size: file.content.len() as u64,
    }
}

fn file(content_type: &str, id: Option<&str>) -> File {
    let (content_type, id) = (content_type.to_owned(), id.map(str::to_owned));
    File { name: "a.png".to_owned(), content_type, id, content: vec![0, 159, 146, 150] }
}

#[test]
fn a_plain_text_stays_plain() {
    let given = Given {
        names: vec!["Bob".into()],
        subject: "Hello".into(),
        text: Some("Hi,\nBob\n".into()),
        ..Given::default()
    };
    let expected = "Date: Mon, 16 Nov 2026 02:07:25 +0000\r\n\
        From: Ada <person-0@xn--bcher-kva.example>\r\n\
        To: Bob <person-0@xn--bcher-kva.example>\r\n\
        Reply-To: Bob <person-0@xn--bcher-kva.example>\r\n\
        Subject: Hello\r\n\
        Message-ID: <0190f5fe-7c00-7a00-8000-000000000001@example.com>\r\n\
        MIME-Version: 1.0\r\n\
        Content-Type: text/plain; charset=utf-8\r\n\
        Content-Transfer-Encoding: 7bit\r\n\
        \r\n\
        Hi,\r\nBob\r\n";
    assert_eq!(given.message(), expected);
}

#[test]
fn parts_stand_in_each_other_as_readers_expect() {
    let structure = |text: bool, html: bool, files: &[(&str, Option<&str>)]| {
        let given = Given {
            text: text.then(|| "text".to_owned()),
            html: html.then(|| "<p>html</p>".to_owned()),
            files: files.iter().map(|(content_type, id)| file(content_type, *id)).collect(),
            ..Given::default()
        };
        Read::of(&given.message()).structure()
    };
    let image = ("image/png", Some("logo"));
    let pdf = ("application/pdf", None);
    assert_eq!(structure(false, false, &[]), "plain");
    assert_eq!(structure(true, false, &[]), "plain");
    assert_eq!(structure(false, true, &[]), "html");
    assert_eq!(structure(true, true, &[]), "alternative(plain html)");
    assert_eq!(structure(true, true, &[image]), "alternative(plain related(html png))");
    assert_eq!(structure(true, true, &[image, pdf]), "mixed(alternative(plain related(html png)) pdf)");
    assert_eq!(structure(false, true, &[image]), "related(html png)");
    assert_eq!(structure(true, false, &[image]), "mixed(plain png)");
    assert_eq!(structure(false, false, &[pdf]), "mixed(pdf)");
    assert_eq!(structure(true, false, &[pdf, ("message/rfc822", None)]), "mixed(plain pdf octet-stream)");
}

#[test]
fn an_image_is_named_by_its_id() {
    let files = vec![file("image/png", Some("<logo@x>")), file("image/png", None)];
    let given = Given { html: Some("<img src='cid:logo@x'>".into()), files, ..Given::default() };
    let read = Read::of(&given.message());
    let image = &read.parts[0].parts[1];
    assert_eq!(image.field("Content-ID"), "<logo@x>");
    assert!(image.field("Content-Disposition").starts_with("inline;"));
    assert!(read.parts[1].field("Content-Disposition").starts_with("attachment;"));
    assert_eq!(read.parts[1].content, [0, 159, 146, 150]);
}

#[test]
fn a_text_that_holds_the_boundary_gets_another() {
    let boundary_of = |given: &Given| {
        let message = given.message();
        let start = message.find("=_").expect("a boundary");
        message[start..start + 26].to_owned()
    };
    let mut given = Given { text: Some("a".into()), html: Some("b".into()), ..Given::default() };
    let first = boundary_of(&given);
    given.text = Some(format!("--{first}.alternative--\r\n"));
    assert_ne!(boundary_of(&given), first);
    let read = Read::of(&given.message());
    assert_eq!(read.parts.len(), 2);
    assert_eq!(read.parts[0].content, given.text.as_deref().expect("given").as_bytes());
}

#[test]
fn what_nobody_checked_still_begins_no_field() {
    let names = vec!["Eve\r\nBcc: x@example.com".to_owned(), "\0\n\n".to_owned()];
    let bad = "a\r\nBcc: x@example.com\r\n\r\nbody".to_owned();
    let files = vec![File { name: bad.clone(), content_type: bad.clone(), id: Some(bad.clone()), content: vec![] }];
    let given = Given { names, subject: bad, files, text: Some("t".into()), ..Given::default() };
    let read = Read::of(&given.message());
    assert_eq!(
        read.names(),
        ["Date", "From", "To", "Reply-To", "Subject", "Message-ID", "MIME-Version", "Content-Type"]
    );
    assert_eq!(read.field("Subject"), "a  Bcc: x@example.com    body");
    assert_eq!(
        read.parts[1].names(),
        ["Content-Type", "Content-Transfer-Encoding", "Content-Disposition", "Content-ID"]
    );
}

#[test]
fn long_fields_are_folded() {
    let names = (0..50).map(|at| format!("Person, {at}")).collect();
    let headers = vec![("X-Words".to_owned(), "word  and\tword ".repeat(100)), ("X-Word".to_owned(), "w".repeat(997))];
    let given = Given { names, subject: "long ".repeat(100), headers, ..Given::default() };
    let read = Read::of(&given.message());
    assert_eq!(read.field("X-Words"), "word  and\tword ".repeat(100).trim());
    assert_eq!(read.field("X-Word"), "w".repeat(997));
    assert_eq!(read.field("To").matches("\"Person, ").count(), 50);
    assert_eq!(unencoded(&read.field("Subject")), "long ".repeat(100));
}

#[test]
fn head_and_body_are_told_apart() {
    assert_eq!(split_head(b"A: b\r\nC: d\r\n\r\nbody\r\n\r\n"), (&b"A: b\r\nC: d\r\n"[..], &b"body\r\n\r\n"[..]));
    assert_eq!(split_head(b"\r\nbody"), (&b""[..], &b"body"[..]));
    assert_eq!(split_head(b"A: b\r\n"), (&b"A: b\r\n"[..], &b""[..]));
}

#[test]
fn only_a_name_in_another_script_asks_for_smtputf8() {
    let letter = |from: &str| {
        let from: Mailbox = from.parse().expect("a mailbox");
        let letter = Letter {
            message_id: "1@example.com",
            date_micros: 0,
            from: &from,
            to: &[],
            cc: &[],
            reply_to: &[],
            subject: "ä",
            headers: &[],
            text: None,
            html: None,
            attachments: &[],
            boundary_seed: b"",
        };
        let Some(Piece::Bytes(bytes)) = compose(&letter).pop() else { panic!("no bytes") };
        (letter.needs_smtputf8(), String::from_utf8(bytes).expect("UTF-8"))
    };
    let (needs, message) = letter("Ä <a@bücher.example>");
    assert!(!needs && message.is_ascii() && message.contains("\r\nTo: undisclosed-recipients:;\r\n"), "{message}");
    let (needs, message) = letter("ä@bücher.example");
    assert!(needs && message.contains("From: ä@xn--bcher-kva.example\r\n"), "{message}");
}

/// Any script, and what syntax is made of.
fn line() -> impl Strategy<Value = String> {
    "(\\PC|[ -~]|[äöß ]|=\\?utf-8\\?q\\?a\\?=|  ){0,120}".prop_map(|text| text.replace(['\u{2028}', '\u{2029}'], " "))
}

fn text() -> impl Strategy<Value = String> {
    "(\\PC|[ -~]|[ \t\r\n.=]|--=_|x{100}){0,100}"
}

proptest! {
    #[test]
    fn whatever_is_composed_is_read_back(
        names in prop::collection::vec("[\\PC\"\\\\,]{0,60}", 1..4),
        subject in line(),
        values in prop::collection::vec(line(), 0..3),
        text in prop::option::of(text()),
        html in prop::option::of(text()),
        files in prop::collection::vec((line(), any::<bool>(), prop::collection::vec(any::<u8>(), 0..200)), 0..3),
    ) {
        let headers: Vec<_> = values.iter().map(|value| ("X-Any".to_owned(), value.trim().to_owned())).collect();
        let files = files.into_iter().map(|(name, is_inline, content)| {
            File { name, content, ..file("image/png", is_inline.then_some("id")) }
        });
        let files: Vec<File> = files.collect();
        let given = Given { names, subject, headers, text, html, files };
        let read = Read::of(&given.message());
        prop_assert_eq!(unencoded(&read.field("Subject")), given.subject.clone());
        let values = read.fields.iter().filter(|(name, _)| name == "X-Any").map(|(_, value)| value.clone());
        for (value, (_, sent)) in values.zip(&given.headers) {
            // ASCII goes as it is: what looks like an encoded word is one.
            prop_assert_eq!(if sent.is_ascii() { value } else { unencoded(&value) }, sent.clone());
        }
        let leaves = leaves(&read);
        let mut texts = leaves.iter().filter(|part| part.field("Content-Type").starts_with("text/"));
        for sent in [&given.text, &given.html].into_iter().flatten() {
            let got = String::from_utf8(texts.next().expect("a text").content.clone()).expect("UTF-8");
            let wanted = with_crlf(sent);
            // A message that is one text ends with a line break.
            prop_assert!(got == wanted || read.parts.is_empty() && got == format!("{wanted}\r\n"), "{:?} {:?}", got, wanted);
        }
        let mut got: Vec<_> = leaves.iter().filter(|part| part.field("Content-Type") == "image/png").map(|part| (part.filename(), part.content.clone())).collect();
        let mut sent: Vec<_> = given.files.iter().map(|file| (Some(file.name.clone()), file.content.clone())).collect();
        got.sort();
        sent.sort();
        prop_assert_eq!(got, sent);
    }

    #[test]
    fn names_are_read_back(names in prop::collection::vec("[\\PC\"\\\\,]{0,60}", 1..4)) {
        let given = Given { names: names.clone(), ..Given::default() };
        let to = Read::of(&given.message()).field("To");
        let read: Vec<String> = to.split("@xn--bcher-kva.example").filter(|part| part.contains("person-")).map(|part| {
            let part = part.trim_start_matches(['>', ',', ' ']);
            let name = part.rsplit_once("person-").expect("an address").0;
            let name = name.strip_suffix('<').unwrap_or(name);
            let name = name.strip_suffix(' ').unwrap_or(name);
            match name.strip_prefix('"') {
                Some(quoted) => quoted.strip_suffix('"').expect("a quote").replace("\\\\", "\0").replace("\\\"", "\"").replace('\0', "\\"),
                None => unencoded(name),
            }
        }).collect();
        prop_assert_eq!(read, names);
    }
}

/// What has no parts, from the first to the last.
fn leaves(read: &Read) -> Vec<&Read> {
    if read.parts.is_empty() { vec![read] } else { read.parts.iter().flat_map(leaves).collect() }
}
