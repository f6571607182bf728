//! Writes mails as they travel: composed, with links that are tracked, signed, and with the path that reports come back
//! by.

use std::sync::Arc;

use bytes::Bytes;

use super::draft::Draft;
use super::{Message, NoMessage, Part};
use crate::app::{App, holds_app};
use crate::clock::SECOND;
use crate::db::{Db, DbError};
use crate::delivery::own_mail;
use crate::delivery::return_path::{self, RETURN_PATHS, ReturnPath};
use crate::delivery::store::Claimed;
use crate::domains::{DeliverySettings, Domains, SigningKey, SigningKeys};
use crate::emails::{self, Origin, Stored, Written};
use crate::error::Error;
use crate::id::{EmailId, WorkspaceId};
use crate::limits::Background;
use crate::mime::{self, BodyHash, Header, Mailbox};
use crate::tracking::{Keys, LinkWriter, Place};

/// Up to this size, contents included, a mail is held in memory.
const SMALL: i64 = 256 << 10;

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
    pub(in crate::delivery) async fn write_for(
        &self,
        workspace_id: WorkspaceId,
        id: EmailId,
    ) -> Result<Message, NoMessage> {
        self.write(self.load(Some(workspace_id), id).await?, None).await
    }

    pub(super) async fn load(&self, whose: Option<WorkspaceId>, id: EmailId) -> Result<Stored, NoMessage> {
        let stored = emails::load(&self.app.db, id).await?.ok_or_else(gone)?;
        if whose.is_some_and(|whose| whose != stored.summary.workspace_id) {
            return Err(gone());
        }
        Ok(stored)
    }

    /// A recipient's mail with some fields more in its head, unless its sender has given one of them.
    pub(in crate::delivery) async fn write_with(
        &self,
        claimed: &Claimed,
        more: &[Header],
    ) -> Result<Message, NoMessage> {
        let mut stored = self.load(None, claimed.email_id).await?;
        let headers = &mut stored.summary.envelope.headers;
        let is_given = |(name, _): &(String, String)| more.iter().any(|one| one.name().eq_ignore_ascii_case(name));
        if !headers.iter().any(is_given) {
            headers.extend(more.iter().map(|one| (one.name().to_owned(), one.value().to_owned())));
        }
        self.write(stored, Some(claimed.place_in_mail())).await
    }

    /// A mail as the store has it, or as it was made for one recipient; `recipient` is who gets it.
    pub(in crate::delivery) async fn write(
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
