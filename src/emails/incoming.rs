//! A message on its way in as somebody else has written it: its head is read and completed, and
//! the whole is queued as it then is, by the same rules as what comes over HTTP.

use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::body::LARGEST;
use super::email::{Content, NewEmail, Origin, WrittenMessage};
use super::envelope::CHUNK;
use super::queue::{self, Ready};
use super::sender::may_send;
use super::shapes::Sent;
use super::{Emails, contents, message_id};
use crate::auth::{Caller, SendOnly};
use crate::error::Error;
use crate::id::EmailId;
use crate::limits;
use crate::mime::{self, Address, Bodies, Lines, Mailbox, Shown, WrittenHead};
use crate::web::{Answer, Arriving, Idempotency, IdempotentRequest, Spool};

/// In bytes: as much as a piece of the store holds with what is added to it.
const LONGEST_HEAD: usize = 128 << 10;

/// How much of a message is looked at for its text and its HTML.
const READ_OUT: usize = 1 << 20;

/// Up to this size that is done where it is wanted.
const QUICKLY_READ: usize = 64 << 10;

/// A message that has passed so many servers goes in circles.
const MOST_HOPS: usize = 100;

/// Fields by which a message may carry its key of idempotency.
const KEYS: &[&str] = &["Idempotency-Key", "Resend-Idempotency-Key"];

/// What is nobody's business, or somebody else's to write.
const LEFT_OUT: &[&str] =
    &["Bcc", "Resent-Bcc", "Return-Path", "X-Posthorn-Mail", "X-PM-Metadata-posthorn", KEYS[0], KEYS[1]];

/// What differs where a program writes the same message once more.
const OF_THE_MOMENT: &[&str] = &["Date", "Message-ID", "Received"];

/// For whom a message is, and how it comes.
pub struct Handover {
    pub recipients: Vec<Address>,
    /// What the other side calls itself.
    pub helo: String,
    pub is_encrypted: bool,
    /// It may hold addresses and fields in any script.
    pub smtputf8: bool,
}

/// A message that is being handed in.
pub struct Incoming {
    emails: Emails,
    caller: Arc<Caller<SendOnly>>,
    handover: Handover,
    id: EmailId,
    lines: Lines,
    received: u64,
    stage: Stage,
}

enum Stage {
    Head(Vec<u8>),
    Body(Box<Begun>),
}

/// A message whose head was read.
struct Begun {
    shown: Shown,
    message_id: String,
    key: Idempotency,
    digest: Option<Sha256>,
    arriving: Arriving,
    head_is_ascii: bool,
    eightbit: bool,
}

impl Incoming {
    pub fn new(emails: &Emails, caller: Arc<Caller<SendOnly>>, handover: Handover) -> Incoming {
        Incoming {
            emails: emails.clone(),
            caller,
            handover,
            id: emails.clock.ordered_id(),
            lines: Lines::default(),
            received: 0,
            stage: Stage::Head(Vec::new()),
        }
    }

    /// Takes some more of it. After an error there is nothing more to be done with it.
    pub async fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.received += bytes.len() as u64;
        if self.received > LARGEST {
            return Err(Error::TooLarge { limit: LARGEST as usize });
        }
        self.lines.check(bytes).map_err(wrong)?;
        let head = match &mut self.stage {
            Stage::Body(begun) => return begun.push(bytes).await,
            Stage::Head(head) => head,
        };
        // The empty line may begin in what was there before.
        let from = head.len().saturating_sub(3);
        head.extend_from_slice(bytes);
        let end = match head.starts_with(b"\r\n") {
            true => Some(0),
            false => memchr::memmem::find(&head[from..], b"\r\n\r\n").map(|at| from + at + 2),
        };
        if end.unwrap_or(head.len()) > LONGEST_HEAD {
            return Err(wrong(format!("must have a head of at most {LONGEST_HEAD} bytes")));
        }
        match end {
            None => Ok(()),
            Some(end) => {
                let whole = std::mem::take(head);
                self.begin(&whole[..end], &whole[end + 2..]).await.map(drop)
            }
        }
    }

    async fn begin(&mut self, head: &[u8], body: &[u8]) -> Result<&mut Begun, Error> {
        let (mut begun, travels) = self.read_head(head)?;
        begun.arriving.push(&travels).await?;
        begun.push(body).await?;
        self.stage = Stage::Body(Box::new(begun));
        match &mut self.stage {
            Stage::Body(begun) => Ok(begun),
            Stage::Head(_) => Err(Error::Internal),
        }
    }

    /// What a head says, and the head as it travels, with the empty line.
    fn read_head(&self, given: &[u8]) -> Result<(Begun, Vec<u8>), Error> {
        let head = WrittenHead::read(given).map_err(wrong)?;
        let shown = head.shown().map_err(wrong)?;
        if head.values("Received").count() > MOST_HOPS {
            return Err(wrong("has passed so many servers that it must be going in circles"));
        }
        let key = key_of(&head)?;
        let digest = key.digest().map(|digest| self.fingerprint(digest, &head));
        let has = |name: &str| head.values(name).next().filter(|value| !value.is_empty());
        let (date, id) = (has("Date"), has("Message-ID"));
        let mut left_out = LEFT_OUT.to_vec();
        left_out.extend(date.is_none().then_some("Date"));
        left_out.extend(id.is_none().then_some("Message-ID"));
        let mut travels = self.trace().into_bytes();
        travels.extend(head.without(&left_out));
        if date.is_none() {
            travels.extend_from_slice(format!("Date: {}\r\n", mime::date(self.emails.clock.now())).as_bytes());
        }
        let message_id = id.clone().unwrap_or_else(|| message_id(self.id, &shown.from.address));
        if id.is_none() {
            travels.extend_from_slice(format!("Message-ID: {message_id}\r\n").as_bytes());
        }
        travels.extend_from_slice(b"\r\n");
        let arriving = Arriving::new(&self.emails);
        let head_is_ascii = given.is_ascii();
        Ok((Begun { shown, message_id, key, digest, arriving, head_is_ascii, eightbit: !head_is_ascii }, travels))
    }

    /// Where it came in. Neither who nor from where: that is in the log, and nobody else's business.
    fn trace(&self) -> String {
        let Handover { helo, is_encrypted, smtputf8, .. } = &self.handover;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_[]:".contains(&byte);
        let from = Some(helo).filter(|name| (1..=255).contains(&name.len()) && name.bytes().all(is_name));
        let protocol = if *smtputf8 { "UTF8SMTP" } else { "ESMTP" };
        let secured = if *is_encrypted { "S" } else { "" };
        format!(
            "Received: from {}\r\n\tby {} (Posthorn) with {protocol}{secured}A id {};\r\n\t{}\r\n",
            from.map_or("unknown", String::as_str),
            self.emails.helo(),
            self.id,
            mime::date(self.emails.clock.now()),
        )
    }

    /// What tells one message from another under one key.
    fn fingerprint(&self, mut digest: Sha256, head: &WrittenHead<'_>) -> Sha256 {
        let mut recipients: Vec<String> = self.handover.recipients.iter().map(Address::key).collect();
        recipients.sort_unstable();
        digest.update(recipients.join("\n"));
        // Nothing in a message holds this byte: one thing cannot be taken for two.
        digest.update([0]);
        digest.update(head.without(&[LEFT_OUT, OF_THE_MOMENT].concat()));
        digest.update([0]);
        digest
    }

    /// Queues it: when the id is there, it is in the store.
    pub async fn finish(mut self) -> Result<EmailId, Error> {
        let line_end = self.lines.line_end();
        self.push(line_end).await?;
        if let Stage::Head(head) = &mut self.stage {
            let head = std::mem::take(head);
            self.begin(&head, b"").await?;
        }
        let Incoming { emails, caller, handover, id, stage: Stage::Body(begun), .. } = self else {
            return Err(Error::Internal);
        };
        let Begun { shown, message_id, key, digest, arriving, head_is_ascii, eightbit } = *begun;
        let spool = Arc::new(arriving.finish().await?);
        let bodies = read_out(&emails, &spool).await?;
        let smtputf8 = handover.smtputf8 && !head_is_ascii
            || handover.recipients.iter().chain([&shown.from.address]).any(Address::needs_smtputf8);
        let request = key.digested(&caller, &emails, digest);
        let recipients = handover.recipients.into_iter().map(Mailbox::from).collect();
        let content = Content::Stored { size: spool.len() as u64 };
        let written = WrittenMessage { message_id, recipients, content, smtputf8, eightbit };
        let email = new_email(&emails, &caller, (shown, bodies), written);
        let handing = Handing { emails: &emails, caller: &caller, request: &request, id };
        let answer = match spool.len() <= CHUNK {
            true => request.run(Box::pin(handing.accept(email, &spool))).await?,
            false => limits::serving(Box::pin(handing.accept_large(email, spool))).await?,
        };
        id_of(answer).await
    }
}

impl Begun {
    async fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.eightbit = self.eightbit || !bytes.is_ascii();
        self.digest.iter_mut().for_each(|digest| digest.update(bytes));
        self.arriving.push(bytes).await.map(drop)
    }
}

/// A message that is there whole, on its way into the store.
struct Handing<'a> {
    emails: &'a Emails,
    caller: &'a Caller<SendOnly>,
    request: &'a IdempotentRequest<'a>,
    id: EmailId,
}

impl Handing<'_> {
    async fn accept(&self, mut email: NewEmail, message: &Spool) -> Result<Response, Error> {
        let message: Bytes = message.part(0..message.len())?;
        email.written.iter_mut().for_each(|written| written.content = Content::Here(message.clone()));
        let sender = may_send(self.emails, self.caller, &email).await?;
        self.commit(Ready { id: self.id, email, sender }).await
    }

    /// The same, of a message that goes into the store before its mail does.
    async fn accept_large(&self, email: NewEmail, message: Arc<Spool>) -> Result<Response, Error> {
        self.emails.admission.admit().await?;
        if let Some(answer) = self.request.find().await? {
            return Ok(answer);
        }
        let store = async {
            let sender = may_send(self.emails, self.caller, &email).await?;
            contents::store_message(self.emails, self.caller, self.id, message).await?;
            let _turn = self.emails.admission.write().await?;
            self.commit(Ready { id: self.id, email, sender }).await
        };
        self.request.run(store).await
    }

    async fn commit(&self, mut ready: Ready) -> Result<Response, Error> {
        let answer = Answer::json(StatusCode::OK, &Sent { id: self.id })?;
        queue::commit(self.emails, self.caller, self.request, answer, std::slice::from_mut(&mut ready)).await
    }
}

fn new_email(
    emails: &Emails,
    caller: &Caller<SendOnly>,
    (shown, bodies): (Shown, Bodies),
    written: WrittenMessage,
) -> NewEmail {
    let named: Vec<String> = shown.to.iter().chain(&shown.cc).map(|mailbox| mailbox.address.key()).collect();
    let is_named = |mailbox: &&Mailbox| named.contains(&mailbox.address.key());
    NewEmail {
        when_uncertain: emails.config.mail.when_uncertain(false),
        cc: shown.cc,
        bcc: written.recipients.iter().filter(|mailbox| !is_named(mailbox)).cloned().collect(),
        reply_to: shown.reply_to,
        subject: shown.subject,
        html: bodies.html.map(Content::Here),
        text: bodies.text.map(Content::Here),
        written: Some(written),
        ..NewEmail::new(caller.workspace_id(), Origin::Submission, shown.from, shown.to)
    }
}

/// The text and the HTML of a message, as far as they can be read out of it.
async fn read_out(emails: &Emails, spool: &Arc<Spool>) -> Result<Bodies, Error> {
    let end = spool.len().min(READ_OUT);
    let (spool, is_whole) = (spool.clone(), spool.len() <= READ_OUT);
    let read = move || Ok(mime::bodies(&spool.part(0..end)?, is_whole));
    if end <= QUICKLY_READ { read() } else { emails.admission.build(read).await? }
}

fn wrong(flaw: impl AsRef<str>) -> Error {
    Error::invalid(format!("The message {}.", flaw.as_ref()))
}

/// The key that a message carries. Two that differ are none.
fn key_of(head: &WrittenHead<'_>) -> Result<Idempotency, Error> {
    let mut keys: Vec<String> = KEYS.iter().flat_map(|name| head.values(name)).collect();
    keys.dedup();
    match &keys[..] {
        [] => Idempotency::of("SMTP", None),
        [key] => Idempotency::of("SMTP", Some(key)),
        _ => Err(Error::InvalidIdempotencyKey),
    }
}

/// The id that an answer names, be it of this time or of before.
async fn id_of(answer: Response) -> Result<EmailId, Error> {
    let body = answer.into_body().collect().await.map_err(|_| Error::Internal)?.to_bytes();
    let answer: Value = serde_json::from_slice(&body).map_err(|_| Error::Internal)?;
    answer["id"].as_str().and_then(|id| id.parse().ok()).ok_or(Error::Internal)
}
