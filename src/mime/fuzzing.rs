//! Entry points for fuzzers: each takes any bytes and panics when a promise is broken. The
//! rules are written from the standards, not from the code that they judge.

use super::{
    AttachmentInfo, BodyHash, Content, Encoder, Header, Letter, Mailbox, Outline, Piece, ReceivedHead, Signature,
    WrittenHead, bodies, compose, split_head, text_in, text_of_html,
};

/// Any bytes as an address with or without a name. Tells whether it was one.
pub fn mailbox_text(data: &[u8]) -> bool {
    let text = String::from_utf8_lossy(data);
    let mailbox: Mailbox = match text.parse() {
        Ok(mailbox) => mailbox,
        Err(message) => return refused(&message),
    };
    let address = &mailbox.address;
    assert!(address.local().len() <= 64 && address.as_str().len() <= 254 && address.on_the_wire().len() <= 254);
    assert!(!address.on_the_wire().contains(|c: char| c.is_control() || c.is_whitespace() || "<>,;\"".contains(c)));
    assert!(address.ascii_domain().split('.').all(|label| (1..=63).contains(&label.len()) && label.is_ascii()));
    assert!(mailbox.name.iter().all(|name| !name.is_empty() && !name.contains(is_break)));
    assert_eq!(mailbox.to_string().parse(), Ok(mailbox), "it is written as it is read");
    true
}

fn refused(message: &str) -> bool {
    assert!(message.starts_with("must ") && message.chars().count() < 300, "{message:?}");
    assert!(!message.contains(char::is_control), "{message:?}");
    false
}

fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\0')
}

/// Any bytes as a message that somebody else has written. Tells whether its head could be read.
pub fn written_message(data: &[u8]) -> bool {
    for is_whole in [true, false] {
        let found = bodies(data, is_whole);
        let is_bounded = |text: &String| text.len() <= 256 << 10 && !text.contains('\0');
        assert!(found.text.iter().chain(&found.html).all(is_bounded));
    }
    let (head, _) = split_head(data);
    let read = match WrittenHead::read(head) {
        Ok(read) => read,
        Err(message) => return refused(&message),
    };
    assert_eq!(read.without(&[]), head, "nothing is lost or moved");
    assert!(read.without(&["From"]).len() <= head.len());
    let shown = match read.shown() {
        Ok(shown) => shown,
        Err(message) => return refused(&message),
    };
    assert!(shown.subject.chars().count() <= 2_000 && !shown.subject.contains(is_break));
    for mailbox in shown.to.iter().chain(&shown.cc).chain(&shown.reply_to).chain([&shown.from]) {
        assert_eq!(mailbox.to_string().parse().as_ref(), Ok(mailbox), "it is written as it is read");
    }
    true
}

/// Any bytes as a message that came in. Tells whether its head could be read.
pub fn received_message(data: &[u8]) -> bool {
    let outline = |size: usize| {
        let mut outline = Outline::default();
        data.chunks(size).for_each(|piece| outline.push(piece));
        outline.finish()
    };
    let leaves = outline(usize::MAX);
    assert_eq!(outline(7), leaves, "it is read alike however it is cut");
    assert!(leaves.len() <= 256);
    let mut before = 0;
    for leaf in &leaves {
        assert!(before <= leaf.start && leaf.start <= leaf.end && leaf.end <= data.len() as u64, "{leaf:?}");
        before = leaf.end;
        let (mut decoder, mut out) = (leaf.transfer.decoder(), Vec::new());
        let content = &data[leaf.start as usize..leaf.end as usize];
        decoder.push(content, &mut out);
        decoder.finish(&mut out);
        assert!(out.len() <= content.len() && !text_in(leaf.charset.as_deref(), &out).contains('\0'));
        let words = [Some(&leaf.content_type), leaf.charset.as_ref(), leaf.content_id.as_ref()];
        assert!(words.into_iter().flatten().all(|word| word.bytes().all(|byte| byte.is_ascii_graphic())), "{leaf:?}");
        assert!(leaf.filename.iter().all(|name| !name.contains(|c: char| c.is_control() || c == '/')), "{leaf:?}");
    }
    let (head, _) = split_head(data);
    let read = match ReceivedHead::read(head) {
        Ok(read) => read,
        Err(message) => return refused(&message),
    };
    let shown = read.shown();
    assert!(!shown.subject.contains(is_break) && !shown.from.contains(is_break), "{shown:?}");
    assert!(read.references().len() <= 20 && read.values().values().all(|value| !value.contains(is_break)));
    for field in read.fields() {
        let _ = Signature::read(field, read.fields());
    }
    true
}

/// Any bytes as what a message is made of, separated by 0xFF. Tells whether a custom header
/// was among it.
pub fn composed_message(data: &[u8]) -> bool {
    let mut given = data.split(|byte| *byte == 0xff).map(String::from_utf8_lossy);
    let mut next = || given.next().unwrap_or_default().into_owned();
    let (name, subject, text, html) = (next(), next(), next(), next());
    let headers = Header::new(&next(), &next());
    let headers: Vec<Header> = headers.map_err(|message| refused(&message)).ok().into_iter().collect();
    let (filename, content_type, content_id) = (next(), next(), next());
    let attachments = [AttachmentInfo {
        filename: Some(filename),
        content_type,
        content_id: (!content_id.is_empty()).then_some(content_id),
        part: 16,
        size: data.len() as u64,
    }];
    let address = "ada@example.com".parse().expect("an address");
    // A name that nobody checked.
    let from = Mailbox { name: Some(name), address };
    let letter = Letter {
        message_id: "1@example.com",
        date_micros: data.len() as i64,
        from: &from,
        to: std::slice::from_ref(&from),
        cc: &[],
        reply_to: &[],
        subject: &subject,
        headers: &headers,
        text: (!text.is_empty()).then_some(Content::Inline(&text)),
        html: (!html.is_empty()).then_some(Content::Inline(&html)),
        attachments: &attachments[..data.len() % 2],
        boundary_seed: &data[..data.len().min(16)],
    };
    let pieces = compose(&letter);
    assert_eq!(pieces, compose(&letter), "the same to the byte");
    let message = whole(&pieces, data);
    let (head, body) = split_head(&message);
    assert_eq!(names(head), expected_names(&letter), "nothing begins a field of its own");
    assert!(body.len() < message.len() && is_clean(&message));
    is_hashed_alike(body);
    assert!(text_of_html(&html).len() <= 20 * html.len() + 20);
    !headers.is_empty()
}

/// With the data as the content of every part.
fn whole(pieces: &[Piece], data: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Bytes(bytes) => message.extend_from_slice(bytes),
            Piece::Part { encoding, .. } => {
                let mut encoder = Encoder::new(*encoding);
                encoder.push(data, &mut message);
                encoder.finish(&mut message);
            }
        }
    }
    message
}

fn expected_names(letter: &Letter<'_>) -> Vec<String> {
    let mut names = vec!["Date", "From", "To", "Subject", "Message-ID"];
    names.extend(letter.headers.iter().map(Header::name));
    names.extend(["MIME-Version", "Content-Type"]);
    let said = usize::from(letter.text.is_some()) + usize::from(letter.html.is_some());
    if letter.attachments.is_empty() && said < 2 {
        names.push("Content-Transfer-Encoding");
    }
    names.into_iter().map(str::to_owned).collect()
}

fn names(head: &[u8]) -> Vec<String> {
    let head = std::str::from_utf8(head).expect("ASCII");
    let lines = head.split_terminator("\r\n").filter(|line| !line.starts_with([' ', '\t']));
    lines.map(|line| line.split(':').next().unwrap_or_default().to_owned()).collect()
}

/// ASCII, in lines that every server takes.
fn is_clean(message: &[u8]) -> bool {
    let text = std::str::from_utf8(message).expect("ASCII");
    let is_line = |line: &str| line.len() <= 998 && !line.contains(is_break);
    text.is_ascii() && text.strip_suffix("\r\n").is_some_and(|text| text.split("\r\n").all(is_line))
}

fn is_hashed_alike(body: &[u8]) {
    let (mut at_once, mut by_bytes) = (BodyHash::new(), BodyHash::new());
    at_once.push(body);
    body.chunks(1).for_each(|byte| by_bytes.push(byte));
    assert_eq!(at_once.finish(), by_bytes.finish());
}
