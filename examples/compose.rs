//! Composes and signs messages for programs that read them: `tests/mail`.
//!
//! A line on standard input is a letter as JSON, with `attachments` in base64 and, where it is
//! `stored`, text and HTML as parts of the store; or `{"raw": …}` with a message in base64
//! that is only to be signed. A line on standard output is the message in base64, or the
//! error. The first line holds the DNS records of the keys that sign.

use std::collections::HashMap;
use std::io::{self, BufRead, Write};

use anyhow::{Context, anyhow};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use posthorn::mime::{
    AttachmentInfo, BodyHash, Content, DkimKey, Encoder, Header, Letter, Mailbox, Piece, compose, dkim_signature,
    split_head,
};
use serde_json::{Value, json};

const DATE: i64 = 1_794_794_845;

fn main() -> anyhow::Result<()> {
    let keys = [("rsa", DkimKey::generate_rsa()), ("ed25519", DkimKey::generate_ed25519())];
    let records: HashMap<_, _> = keys.iter().map(|(selector, key)| (*selector, key.dns_value())).collect();
    let mut out = io::stdout().lock();
    writeln!(out, "{}", json!({ "records": records }))?;
    for line in io::stdin().lock().lines() {
        let letter: Value = serde_json::from_str(&line?)?;
        let answer = match message(&letter) {
            Ok(message) => json!({ "message": STANDARD.encode(signed(&message, &keys)) }),
            Err(error) => json!({ "error": format!("{error:#}") }),
        };
        writeln!(out, "{answer}")?;
    }
    Ok(())
}

fn message(given: &Value) -> anyhow::Result<Vec<u8>> {
    if let Some(raw) = given["raw"].as_str() {
        return Ok(STANDARD.decode(raw)?);
    }
    let files = items(&given["attachments"]).iter().enumerate().map(file).collect::<Result<Vec<_>, _>>()?;
    let mut parts: HashMap<i64, Vec<u8>> = files.iter().map(|(info, content)| (info.part, content.clone())).collect();
    let infos: Vec<AttachmentInfo> = files.into_iter().map(|(info, _)| info).collect();
    let mut content = |name: &str, part: i64| {
        let text = given[name].as_str()?;
        parts.insert(part, text.as_bytes().to_vec());
        Some(if given["stored"] == true { Content::Part(part) } else { Content::Inline(text) })
    };
    let (html, text) = (content("html", 0), content("text", 1));
    let headers = items(&given["headers"]).iter().map(|pair| Header::new(str(&pair[0]), str(&pair[1])));
    let letter = Letter {
        message_id: "<1@example.com>",
        date_micros: DATE * 1_000_000,
        from: &mailboxes(&json!([given["from"]]))?[0],
        to: &mailboxes(&given["to"])?,
        cc: &mailboxes(&given["cc"])?,
        reply_to: &mailboxes(&given["reply_to"])?,
        subject: str(&given["subject"]),
        headers: &headers.collect::<Result<Vec<_>, _>>().map_err(|error| anyhow!(error))?,
        text,
        html,
        attachments: &infos,
        boundary_seed: b"seed",
    };
    let mut message = Vec::new();
    for piece in compose(&letter) {
        match piece {
            Piece::Bytes(bytes) => message.extend(bytes),
            Piece::Part { part, encoding } => {
                let mut encoder = Encoder::new(encoding);
                let content = parts.get(&part).context("a part that nobody gave")?;
                content.chunks(1000).for_each(|chunk| encoder.push(chunk, &mut message));
                encoder.finish(&mut message);
            }
        }
    }
    Ok(message)
}

fn file((at, given): (usize, &Value)) -> anyhow::Result<(AttachmentInfo, Vec<u8>)> {
    let content = STANDARD.decode(str(&given["content"]))?;
    let info = AttachmentInfo {
        filename: given["filename"].as_str().map(str::to_owned),
        content_type: str(&given["content_type"]).to_owned(),
        content_id: given["content_id"].as_str().map(str::to_owned),
        part: i64::try_from(at)? + 16,
        size: content.len() as u64,
    };
    Ok((info, content))
}

fn mailboxes(given: &Value) -> anyhow::Result<Vec<Mailbox>> {
    items(given).iter().map(|mailbox| str(mailbox).parse().map_err(|error: String| anyhow!(error))).collect()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn str(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// With a signature of each key before it.
fn signed(message: &[u8], keys: &[(&str, DkimKey)]) -> Vec<u8> {
    let (head, body) = split_head(message);
    let mut hash = BodyHash::new();
    body.chunks(1000).for_each(|chunk| hash.push(chunk));
    let hash = hash.finish();
    let signatures = keys.iter().map(|(selector, key)| dkim_signature(key, "example.com", selector, head, &hash, DATE));
    signatures.chain([message.to_vec()]).collect::<Vec<_>>().concat()
}
