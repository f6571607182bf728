//! A mail as it travels, the same to the byte on every attempt. Small ones are kept in memory for
//! their other recipients; of large ones only what is around their contents, which are read from
//! the store and encoded piece by piece, once to be hashed and once for each attempt.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::Engine;
use super::own_mail;
use super::return_path::{self, RETURN_PATHS, ReturnPath};
use super::store::Claimed;
use crate::app::{App, holds_app};
use crate::clock::SECOND;
use crate::db::{Db, DbError};
use crate::domains::{DeliverySettings, Domains, SigningKey, SigningKeys};
use crate::emails::{self, Envelope, Origin, Stored, Written};
use crate::error::Error;
use crate::id::{EmailId, Id, WorkspaceId};
use crate::limits::Background;
use crate::mime::{self, AttachmentInfo, BodyHash, Content, Encoder, Header, Letter, Mailbox, Piece};
use crate::smtp::MessageSource;
use crate::tracking::{Keys, LinkWriter, Place, Rewriter};

/// Up to this size, contents included, a mail is held in memory.
const SMALL: i64 = 256 << 10;

/// Up to this size mails are read together.
const READ_TOGETHER: i64 = 16 << 10;

/// How many bytes of mails are kept for their other recipients.
const MOST_KEPT: u64 = 8 << 20;

/// How many mails that may be, about.
const MAILS_KEPT: usize = 2_000;

/// Why there is nothing to send.
pub enum NoMessage {
    /// And there never will be.
    Never(String),
    Store(DbError),
}

impl From<DbError> for NoMessage {
    fn from(error: DbError) -> NoMessage {
        NoMessage::Store(error)
    }
}

/// A mail as it travels.
pub struct Message {
    email_id: EmailId,
    pieces: Vec<Part>,
    pub size: u64,
    pub smtputf8: bool,
    pub eightbit: bool,
    /// The sender's address, as a dialogue says it.
    sender: String,
    /// Its domain, in ASCII and lower case.
    pub sender_domain: String,
    return_path: Option<ReturnPath>,
    /// What is sent to its return path comes here.
    pub reports_come: bool,
    /// What its links were rewritten by: then it is one recipient's.
    links: Option<Arc<LinkWriter>>,
    number: Option<i64>,
}

enum Part {
    Bytes(Bytes),
    /// Its content stands in the store, so many bytes. Without an encoding it goes as it is.
    Stored {
        part: i64,
        size: u64,
        encoding: Option<mime::Encoding>,
    },
}

impl Message {
    /// Where bounces go.
    pub fn return_path(&self, claimed: &Claimed) -> String {
        self.return_path.as_ref().map_or_else(|| self.sender.clone(), |path| path.of(claimed))
    }

    /// Whether that is an address of ours, and not the sender's own.
    pub fn has_return_path(&self) -> bool {
        self.return_path.is_some()
    }

    pub fn source<'a>(&'a self, db: &'a Db) -> Source<'a> {
        Source { db, email_id: self.email_id, pieces: self.pieces.iter(), reading: None, links: self.links.as_ref() }
    }

    /// Whether it is the one that a recipient gets.
    fn is_for(&self, number: i64) -> bool {
        self.number.is_none_or(|whose| whose == number)
    }

    fn held(&self) -> u64 {
        let bytes = |part: &Part| match part {
            Part::Bytes(bytes) => bytes.len() as u64,
            Part::Stored { .. } => 0,
        };
        self.pieces.iter().map(bytes).sum()
    }
}

/// The bytes of a message, in order.
pub struct Source<'a> {
    db: &'a Db,
    email_id: EmailId,
    pieces: std::slice::Iter<'a, Part>,
    /// What is being read from the store.
    reading: Option<Reading>,
    links: Option<&'a Arc<LinkWriter>>,
}

/// A part that is being read from the store.
struct Reading {
    part: i64,
    /// The next piece of it.
    number: i64,
    /// How many bytes are still to come.
    left: u64,
    /// What changes its links.
    rewriter: Option<Rewriter>,
    encoder: Option<Encoder>,
}

impl Reading {
    /// The next piece of it, as it travels.
    fn push(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        if let Some(rewriter) = &mut self.rewriter {
            let mut rewritten = Vec::with_capacity(bytes.len());
            rewriter.push(&bytes, &mut rewritten);
            bytes = rewritten;
        }
        match &mut self.encoder {
            Some(encoder) => {
                let mut encoded = Vec::new();
                encoder.push(&bytes, &mut encoded);
                encoded
            }
            None => bytes,
        }
    }

    /// What is left of it when all was read.
    fn finish(self) -> Vec<u8> {
        let (mut last, mut encoded) = (Vec::new(), Vec::new());
        self.rewriter.into_iter().for_each(|rewriter| rewriter.finish(&mut last));
        match self.encoder {
            Some(mut encoder) => {
                encoder.push(&last, &mut encoded);
                encoder.finish(&mut encoded);
                encoded
            }
            None => last,
        }
    }
}

impl Source<'_> {
    async fn read(&mut self) -> Result<Option<Bytes>, NoMessage> {
        loop {
            if let Some(mut reading) = self.reading.take() {
                let rows = self.db.read(emails::chunk(self.email_id, reading.part, reading.number)).await?;
                let output = match rows.first() {
                    Some(row) => {
                        let bytes = row.bytes(0)?;
                        reading.left = reading.left.checked_sub(bytes.len() as u64).ok_or_else(cut)?;
                        let output = reading.push(bytes);
                        reading.number += 1;
                        self.reading = Some(reading);
                        output
                    }
                    None if reading.left > 0 => return Err(cut()),
                    None => reading.finish(),
                };
                if output.is_empty() {
                    continue;
                }
                return Ok(Some(output.into()));
            }
            match self.pieces.next() {
                None => return Ok(None),
                Some(Part::Bytes(bytes)) => return Ok(Some(bytes.clone())),
                Some(Part::Stored { part, size, encoding }) => {
                    let (part, left, encoder) = (*part, *size, encoding.map(Encoder::new));
                    let rewriter = self.links.filter(|_| part == emails::HTML_PART).map(LinkWriter::rewriter);
                    self.reading = Some(Reading { part, number: 0, left, rewriter, encoder });
                }
            }
        }
    }
}

/// What is sent is what was handed in, or nothing.
fn cut() -> NoMessage {
    NoMessage::Never("a piece of its contents is missing in the store, or is not as long as it was".into())
}

impl MessageSource for Source<'_> {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        self.read().await.map_err(|why| match why {
            NoMessage::Never(reason) => io::Error::other(reason),
            NoMessage::Store(error) => io::Error::other(error),
        })
    }
}

/// Mails that are on their way.
pub struct Messages(Cache<EmailId, Arc<Message>, Weight>);

#[derive(Clone)]
struct Weight;

impl Weighter<EmailId, Arc<Message>> for Weight {
    fn weight(&self, _: &EmailId, message: &Arc<Message>) -> u64 {
        message.held() + 256
    }
}

impl Default for Messages {
    fn default() -> Messages {
        Messages(Cache::with_weighter(MAILS_KEPT, MOST_KEPT, Weight))
    }
}

impl Engine {
    /// The mail of a recipient. Those who want the same one at the same time wait for one of them.
    pub(super) async fn message(&self, claimed: &Claimed, loaded: Option<Stored>) -> Result<Arc<Message>, NoMessage> {
        if claimed.contact_id.is_some() {
            return self.own_message(claimed).await.map(Arc::new);
        }
        if let Some(message) = self.message_about_topic(claimed).await? {
            return Ok(Arc::new(message));
        }
        let write = |loaded: Option<Stored>| async {
            let stored = match loaded {
                Some(stored) => stored,
                None => self.writer.load(None, claimed.email_id).await?,
            };
            self.writer.write(stored, Some(claimed.place_in_mail())).await.map(Arc::new)
        };
        let kept = self.messages.0.get_or_insert_async(&claimed.email_id, write(loaded)).await?;
        if kept.is_for(claimed.number) { Ok(kept) } else { write(None).await }
    }

    /// The small mails of recipients, read together; the others are read when it is their turn. None of a broadcast's,
    /// which are made one by one.
    pub(super) async fn load_small<'a>(&self, of: impl Iterator<Item = &'a Claimed>) -> HashMap<EmailId, Stored> {
        let ids: HashSet<EmailId> = of.filter(|row| row.contact_id.is_none()).map(|row| row.email_id).collect();
        if ids.len() < 2 {
            return HashMap::new();
        }
        let loaded = emails::load_small(&self.app.db, ids, READ_TOGETHER).await;
        let loaded = loaded.inspect_err(|error| tracing::debug!(%error, "mails could not be read together"));
        loaded.unwrap_or_default().into_iter().map(|stored| (stored.summary.id, stored)).collect()
    }
}

/// Writes mails as they travel. Clones share what signs them.
#[derive(Clone)]
pub struct Writer {
    app: App,
    domains: Domains,
    /// Signs mail, which takes long, on threads of its own.
    signing: Background,
    link_keys: Keys,
}

holds_app!(Writer { app: App });

impl Writer {
    pub fn new(app: App, domains: Domains, threads: usize) -> Writer {
        Writer { app, domains, signing: Background::start("dkim", threads), link_keys: Keys::default() }
    }

    /// A mail of a workspace, as it was before its links were changed for a recipient.
    pub(super) async fn write_for(&self, workspace_id: WorkspaceId, id: EmailId) -> Result<Message, NoMessage> {
        self.write(self.load(Some(workspace_id), id).await?, None).await
    }

    async fn load(&self, whose: Option<WorkspaceId>, id: EmailId) -> Result<Stored, NoMessage> {
        let stored = emails::load(&self.app.db, id).await?.ok_or_else(gone)?;
        if whose.is_some_and(|whose| whose != stored.summary.workspace_id) {
            return Err(gone());
        }
        Ok(stored)
    }

    /// A recipient's mail with some fields more in its head, unless its sender has given one of them.
    pub(super) async fn write_with(&self, claimed: &Claimed, more: &[Header]) -> Result<Message, NoMessage> {
        let mut stored = self.load(None, claimed.email_id).await?;
        let headers = &mut stored.summary.envelope.headers;
        let is_given = |(name, _): &(String, String)| more.iter().any(|one| one.name().eq_ignore_ascii_case(name));
        if !headers.iter().any(is_given) {
            headers.extend(more.iter().map(|one| (one.name().to_owned(), one.value().to_owned())));
        }
        self.write(stored, Some(claimed.place_in_mail())).await
    }

    /// A mail as the store has it, or as it was made for one recipient; `recipient` is who gets it.
    pub(super) async fn write(
        &self,
        mut stored: Stored,
        recipient: Option<(EmailId, i64)>,
    ) -> Result<Message, NoMessage> {
        let (id, size) = (stored.summary.id, stored.size.ok_or_else(gone)?);
        let wrong = |reason| NoMessage::Never(format!("the mail cannot be written: {reason}"));
        let from = sender(&self.app, &stored).map_err(wrong)?;
        let mut message = match &stored.summary.envelope.written {
            Some(written) => Message::written(id, &from, written),
            None => {
                // A text that is made of the HTML is made of what its author wrote.
                let long_html = emails::long_html_alone(&self.app.db, &stored, mime::LONGEST_HTML).await?;
                let draft = Draft::of(&stored, from.clone(), long_html).map_err(wrong)?;
                let links = self.links(&stored, recipient).await?;
                if let Some(links) = &links {
                    stored.html = stored.html.map(|html| links.rewriter().rewrite(&html));
                }
                let number = links.as_ref().and(recipient).map(|(_, number)| number);
                Message { links, number, ..draft.compose(&stored) }
            }
        };
        let domain = from.address.ascii_domain();
        let domain = self.sending_domain(stored.summary.workspace_id, domain).await?;
        let to_sign = message.measure(&self.app.db, size <= SMALL, domain.is_some()).await?;
        let (settings, relays) = (domain.as_ref().map(|domain| domain.settings.clone()), &self.app.config.feedback);
        if let Some((domain, (head, body_hash))) = domain.zip(to_sign) {
            let accepted_at = stored.summary.created_at;
            let sign = move || signatures(&domain.keys, accepted_at, &head, &body_hash);
            let signatures = self.signing.run(sign).await.map_err(unavailable)?;
            message.put_before(signatures.into());
        }
        if settings.is_some() || relays.report_by_http() {
            let secrets = (&self.app.db, &self.app.clock);
            let secrets = self.app.credentials.signing.secrets_for(secrets, RETURN_PATHS, 0).await?;
            let made = settings.as_ref().zip(secrets.first());
            message.reports_come = made.is_some_and(|(settings, _)| settings.reports_come);
            message.return_path = made.map(|(settings, key)| ReturnPath::new(&settings.return_path, key));
            if let Some(key) = secrets.first().filter(|_| relays.report_by_http()) {
                message.put_before(return_path::mark_fields(relays, id, key).into());
            }
        }
        Ok(message)
    }

    /// What rewrites the links of a recipient's mail, if they are tracked.
    async fn links(
        &self,
        stored: &Stored,
        recipient: Option<(EmailId, i64)>,
    ) -> Result<Option<Arc<LinkWriter>>, NoMessage> {
        let envelope = &stored.summary.envelope;
        let place = recipient.and_then(|(email_id, number)| Place::new(email_id, number));
        let Some((tracking, place)) = envelope.tracking.as_ref().zip(place) else { return Ok(None) };
        let keys = self.link_keys.get(&self.app).await?;
        let base = &self.app.addresses.base;
        Ok(Some(Arc::new(LinkWriter::new(keys, base, tracking, place, &envelope.headers))))
    }

    /// The domain that a workspace sends from, if it has one of this name and may use it.
    async fn sending_domain(&self, workspace_id: WorkspaceId, name: &str) -> Result<Option<SendingDomain>, NoMessage> {
        let id = match self.domains.may_send(workspace_id, None, name).await {
            Ok(sender) => sender.domain_id,
            // Whether it still goes is asked where it goes; nobody vouches for it.
            Err(Error::DomainRefused { .. }) => None,
            Err(error) => return Err(unavailable(error)),
        };
        let Some(id) = id else { return Ok(None) };
        let (keys, settings) = (self.domains.signing_keys(id).await?, self.domains.delivery_settings(id).await?);
        Ok(keys.zip(settings).map(|(keys, settings)| SendingDomain { keys, settings }))
    }
}

/// What a domain adds to the mail that comes from it.
struct SendingDomain {
    keys: Arc<SigningKeys>,
    settings: Arc<DeliverySettings>,
}

fn gone() -> NoMessage {
    NoMessage::Never("its contents are not kept any more".into())
}

fn unavailable(error: Error) -> NoMessage {
    NoMessage::Store(DbError::Unavailable(error.message().into_owned()))
}

/// A field for each key that signs; `t` is when the mail was accepted, so it is the same every time.
fn signatures(keys: &SigningKeys, accepted_at: i64, head: &[u8], body_hash: &[u8; 32]) -> Vec<u8> {
    let sign = |key: &SigningKey| {
        mime::dkim_signature(&key.key, &keys.domain, &key.selector, head, body_hash, accepted_at / SECOND)
    };
    keys.at(accepted_at).flat_map(sign).collect()
}

impl Message {
    /// One that goes as it was handed in.
    fn written(id: EmailId, from: &Mailbox, written: &Written) -> Message {
        Message {
            email_id: id,
            pieces: vec![Part::Stored { part: emails::MESSAGE_PART, size: written.size, encoding: None }],
            size: 0,
            smtputf8: written.smtputf8,
            eightbit: written.eightbit,
            sender: from.address.on_the_wire(),
            sender_domain: from.address.ascii_domain().to_owned(),
            return_path: None,
            reports_come: false,
            links: None,
            number: None,
        }
    }

    /// Reads the whole of it once, to know how long it is and, where it is signed, what is to be signed: the head, and
    /// the hash of the body. A small one is kept as it is then.
    async fn measure(
        &mut self,
        db: &Db,
        is_small: bool,
        is_signed: bool,
    ) -> Result<Option<(Vec<u8>, [u8; 32])>, NoMessage> {
        let (mut read, mut size, mut source) = (Vec::new(), 0, self.source(db));
        let (mut head, mut body) = (None, is_signed.then(BodyHash::new));
        while let Some(bytes) = source.read().await? {
            size += bytes.len() as u64;
            if let Some(body) = &mut body {
                let hashed = match head {
                    Some(_) => &bytes,
                    None => {
                        let (first, rest) = mime::split_head(&bytes);
                        head = Some(first.to_vec());
                        rest
                    }
                };
                body.push(hashed);
            }
            if is_small {
                read.push(bytes);
            }
        }
        self.size = size;
        if is_small {
            self.pieces = read.into_iter().map(Part::Bytes).collect();
        }
        Ok(body.map(|body| (head.unwrap_or_default(), body.finish())))
    }

    fn put_before(&mut self, fields: Bytes) {
        self.size += fields.len() as u64;
        self.pieces.insert(0, Part::Bytes(fields));
    }
}

/// Whom a mail is from. Older versions decided as late as this who the product's own are from.
fn sender(app: &App, stored: &Stored) -> Result<Mailbox, String> {
    match stored.origin == Origin::System.as_str() {
        true => Ok(own_mail::sender(app)),
        false => stored.summary.sender.parse(),
    }
}

/// What a message is composed from, read back from the store.
struct Draft {
    message_id: String,
    from: Mailbox,
    to: Vec<Mailbox>,
    cc: Vec<Mailbox>,
    reply_to: Vec<Mailbox>,
    headers: Vec<Header>,
    attachments: Vec<AttachmentInfo>,
    text: Option<String>,
}

impl Draft {
    /// `long_html` is how the HTML begins where it does not stand with its mail, and a text is made of it.
    fn of(stored: &Stored, from: Mailbox, long_html: Option<String>) -> Result<Draft, String> {
        let Envelope { to, cc, reply_to, headers, attachments, text_size, .. } = &stored.summary.envelope;
        let html = stored.html.as_deref().or(long_html.as_deref());
        let attachment = |attachment: &emails::Attachment| AttachmentInfo {
            filename: attachment.filename.clone(),
            content_type: attachment.content_type.clone(),
            content_id: attachment.content_id.clone(),
            part: attachment.part,
            size: attachment.size,
        };
        // Where the sender gave no text, it is made of the HTML; where he gave an empty one, he wants none.
        let text = match (&stored.text, html) {
            (Some(text), _) => Some(text.clone()).filter(|text| !text.is_empty()),
            (None, Some(html)) if text_size.is_none() => Some(mime::text_of_html(html)),
            _ => None,
        };
        let message_id = match stored.summary.message_id.as_str() {
            "" => emails::message_id(stored.summary.id, &from.address),
            given => given.to_owned(),
        };
        Ok(Draft {
            message_id,
            from,
            to: mailboxes(to)?,
            cc: mailboxes(cc)?,
            reply_to: mailboxes(reply_to)?,
            headers: headers.iter().map(|(name, value)| Header::new(name, value)).collect::<Result<_, _>>()?,
            attachments: attachments.iter().map(attachment).collect(),
            text,
        })
    }

    fn compose(&self, stored: &Stored) -> Message {
        let summary = &stored.summary;
        let part = |size: Option<u64>, part| size.map(|_| Content::Part(part));
        let seed = summary.id.uuid();
        let letter = Letter {
            message_id: &self.message_id,
            date_micros: summary.created_at,
            from: &self.from,
            to: &self.to,
            cc: &self.cc,
            reply_to: &self.reply_to,
            subject: &summary.subject,
            headers: &self.headers,
            text: self.text.as_deref().map(Content::Inline).or(part(summary.envelope.text_size, emails::TEXT_PART)),
            html: stored.html.as_deref().map(Content::Inline).or(part(summary.envelope.html_size, emails::HTML_PART)),
            attachments: &self.attachments,
            boundary_seed: seed.as_bytes(),
        };
        let pieces = mime::compose(&letter).into_iter().map(|piece| match piece {
            Piece::Bytes(bytes) => Part::Bytes(bytes.into()),
            Piece::Part { part, encoding } => {
                let size = summary.envelope.size_of(part).unwrap_or_default();
                Part::Stored { part, size, encoding: Some(encoding) }
            }
        });
        Message {
            email_id: summary.id,
            pieces: pieces.collect(),
            size: 0,
            smtputf8: letter.needs_smtputf8(),
            eightbit: false,
            sender: self.from.address.on_the_wire(),
            sender_domain: self.from.address.ascii_domain().to_owned(),
            return_path: None,
            reports_come: false,
            links: None,
            number: None,
        }
    }
}

fn mailboxes(written: &[String]) -> Result<Vec<Mailbox>, String> {
    written.iter().map(|mailbox| mailbox.parse()).collect()
}
