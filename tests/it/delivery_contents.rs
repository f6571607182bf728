//! What is in a mail when it arrives: the text that is made of its HTML, and messages that are attached to it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mail_parser::{Message, MessageParser, MimeHeaders, PartType};
use serde_json::{Value, json};

use crate::delivery::Post;
use crate::emails::sent;
use crate::harness::on_both;
use crate::sink::Sink;
use crate::store::Store;
use crate::submission::{Door, queued};

/// A message that holds another, which has a file, lines of dots, and what would end its surroundings.
const LETTER: &str = "From: Eve <eve@example.org>\r\nTo: ann@sender.example\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n\
    MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=inner\r\n\r\n--inner\r\n\
    Content-Type: text/plain\r\n\r\n.\r\n..\r\nFrom here on\r\n--inner\r\nContent-Type: message/rfc822\r\n\r\n\
    Subject: The innermost\r\nContent-Type: text/plain\r\n\r\nAs deep as it gets\r\n--inner\r\n\
    Content-Type: application/pdf\r\nContent-Transfer-Encoding: base64\r\n\
    Content-Disposition: attachment; filename=a.pdf\r\n\r\nJVBERi0xLjc=\r\n--inner--\r\n";

/// The first mail that came, without what the dialogue has added.
fn first(sink: &Sink) -> String {
    let text = sink.kept().first().expect("a mail").text.replace("\r\n..", "\r\n.");
    text.strip_suffix(".\r\n").expect("its end").to_owned()
}

fn parsed(text: &str) -> Message<'_> {
    MessageParser::default().parse(text).expect("a message")
}

/// The kinds of the parts of a message, each once for every part.
fn kinds(message: &Message<'_>) -> Vec<String> {
    let kind = |part: &mail_parser::MessagePart<'_>| {
        let kind = part.content_type().expect("a kind");
        format!("{}/{}", kind.ctype(), kind.subtype().unwrap_or_default())
    };
    message.parts.iter().map(kind).collect()
}

/// Sends a mail of the API on its way.
async fn arrived(store: &Store, more: Value) -> String {
    let sink = Sink::open().await;
    let post = Post::relaying(store, &sink).await;
    let key = post.app.full_key().await;
    let mut mail = json!({"from": "ann@sender.example", "to": "bob@example.com", "subject": "S"});
    mail.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    sent(&post.app, &key, mail).await;
    assert_eq!((post.round().await, sink.kept().len()), (1, 1));
    first(&sink)
}

on_both! {
    async fn issue_12_text_is_made_of_html_where_none_is_given(store: Store) {
        let html = "<html><head><style>p { color: red }</style></head><body><h1>Grüße</h1>\
            <p>Read <a href=\"https://example.com/a?b=1&amp;c=2\">this</a> &amp; that.</p><ul><li>one<li>two</ul></body></html>";
        let mail = arrived(&store, json!({"html": html})).await;
        let message = parsed(&mail);
        assert_eq!(kinds(&message), ["multipart/alternative", "text/plain", "text/html"]);
        let text = message.body_text(0).expect("a text").replace("\r\n", "\n");
        for piece in ["Grüße\n", "Read this (https://example.com/a?b=1&c=2) & that.\n", "- one\n- two"] {
            assert!(text.contains(piece), "{piece}: {text}");
        }
        assert!(!text.contains('<') && !text.contains("color"), "{text}");
        assert_eq!(message.body_html(0).expect("HTML").trim_end(), html);

        let mail = arrived(&store, json!({"html": html, "text": "My own words"})).await;
        assert_eq!(parsed(&mail).body_text(0).expect("a text").trim_end(), "My own words");
        // Who wants none says so.
        let mail = arrived(&store, json!({"html": html, "text": ""})).await;
        assert_eq!(kinds(&parsed(&mail)), ["text/html"]);
    }

    async fn issue_12_a_message_that_is_attached_arrives_to_the_byte(store: Store) {
        let content = STANDARD.encode(LETTER);
        let file = json!({"filename": "letter.eml", "content": content, "content_type": "message/rfc822"});
        let mail = arrived(&store, json!({"text": "See below", "attachments": [file]})).await;
        let message = parsed(&mail);
        // In base64, which a message within a message must not be in (RFC 2046), so it goes as a file.
        assert_eq!(kinds(&message), ["multipart/mixed", "text/plain", "application/octet-stream"]);
        let [attached] = &message.attachments().collect::<Vec<_>>()[..] else { panic!("one") };
        assert_eq!(attached.attachment_name(), Some("letter.eml"));
        assert_eq!(str::from_utf8(attached.contents()), Ok(LETTER));
    }

    async fn issue_12_messages_within_a_message_that_is_submitted_stay_as_they_were_written(store: Store) {
        let sink = Sink::open().await;
        let relay = format!("--smtp-url={}", sink.url());
        let door = Door::open(&store, &[&relay, "--senders=any"]).await;
        let body = format!("--outer\r\nContent-Type: text/plain\r\n\r\nSee below\r\n--outer\r\n\
            Content-Type: message/rfc822\r\n\r\n{LETTER}\r\n--outer--\r\n");
        let written = format!("From: ann@sender.example\r\nTo: bob@example.com\r\nSubject: Fwd\r\nMIME-Version: 1.0\r\n\
            Content-Type: multipart/mixed; boundary=outer\r\n\r\n{body}");
        let mut talk = door.log_in(&door.app.full_key().await).await;
        queued(&talk.send(&["bob@example.com"], &written.replace("\r\n.", "\r\n..")).await);
        let post = Post::relaying(&store, &sink).await;
        assert_eq!(post.round().await, 1);
        let mail = first(&sink);
        assert!(mail.ends_with(&body), "{mail}");
        let message = parsed(&mail);
        let [outer] = &message.attachments().collect::<Vec<_>>()[..] else { panic!("one") };
        let PartType::Message(letter) = &outer.body else { panic!("a message") };
        assert_eq!(letter.subject(), Some("Grüße"));
        let [innermost, file] = &letter.attachments().collect::<Vec<_>>()[..] else { panic!("two") };
        assert_eq!((file.attachment_name(), file.contents()), (Some("a.pdf"), &b"%PDF-1.7"[..]));
        let PartType::Message(innermost) = &innermost.body else { panic!("a message") };
        assert_eq!(innermost.body_text(0).as_deref().map(str::trim_end), Some("As deep as it gets"));
    }
}
