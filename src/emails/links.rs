//! Links that need no credential and end: to an attachment, and to a mail that is shared.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use uuid::Uuid;

use super::schedule;
use crate::app::App;
use crate::clock::HOUR;
use crate::db::DbError;
use crate::error::Error;
use crate::id::{EmailId, Id};

/// How long a link can be good for at most.
pub const LONGEST: i64 = 48 * HOUR;

const PURPOSE: &str = "links to mail";
const PAYLOAD: usize = 32;

/// What a link leads to, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    pub email_id: EmailId,
    /// An attachment's; `None` for the whole mail.
    pub part: Option<i64>,
    pub expires_at: i64,
}

impl Link {
    fn payload(&self) -> [u8; PAYLOAD] {
        let mut payload = [0; PAYLOAD];
        payload[..16].copy_from_slice(self.email_id.uuid().as_bytes());
        payload[16..24].copy_from_slice(&self.part.unwrap_or(-1).to_be_bytes());
        payload[24..].copy_from_slice(&self.expires_at.to_be_bytes());
        payload
    }

    fn of(payload: &[u8]) -> Option<Link> {
        let (id, rest) = payload.split_first_chunk::<16>()?;
        let (part, rest) = rest.split_first_chunk::<8>()?;
        let part = i64::from_be_bytes(*part);
        Some(Link {
            email_id: Uuid::from_bytes(*id).into(),
            part: (part >= 0).then_some(part),
            expires_at: i64::from_be_bytes(rest.try_into().ok()?),
        })
    }
}

/// Makes links.
pub struct Signer(hmac::Key);

impl Signer {
    pub async fn new(app: &App) -> Result<Signer, Error> {
        let newest = secrets(app).await?.into_iter().next().ok_or(Error::Internal)?;
        Ok(Signer(newest))
    }

    /// The end of a link's address.
    pub fn token(&self, link: &Link) -> String {
        let payload = link.payload();
        URL_SAFE_NO_PAD.encode([&payload[..], hmac::sign(&self.0, &payload).as_ref()].concat())
    }
}

/// How long a link is to be good for, as the API and the page say it; as long as can be where nothing is said.
pub fn span(expires_in: Option<&str>) -> Result<i64, Error> {
    let wrong = || {
        Error::invalid("The `expires_in` field must be a time of up to 48 hours, such as `10m`, `2 hours` or `1h 30m`.")
    };
    match expires_in {
        None => Ok(LONGEST),
        Some(text) => schedule::parse_span(text).filter(|span| (1..=LONGEST).contains(span)).ok_or_else(wrong),
    }
}

/// The address at which a mail can be read without a credential, for so long.
pub async fn share(app: &App, email_id: EmailId, span: i64) -> Result<String, Error> {
    let link = Link { email_id, part: None, expires_at: app.clock.now() + span };
    let token = Signer::new(app).await?.token(&link);
    Ok(format!("{}/shared/emails/{token}", app.addresses.base.as_str()))
}

/// What a link leads to, if we made it and it has not ended.
pub async fn open(app: &App, token: &str) -> Result<Link, Error> {
    let gone = || Error::not_found("This link has ended, or was not copied whole.");
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| gone())?;
    let (payload, tag) = bytes.split_at_checked(PAYLOAD).ok_or_else(gone)?;
    let keys = secrets(app).await?;
    let is_ours = keys.iter().any(|key| hmac::verify(key, payload, tag).is_ok());
    let link = Link::of(payload).filter(|link| is_ours && app.clock.now() < link.expires_at);
    link.ok_or_else(gone)
}

async fn secrets(app: &App) -> Result<Vec<hmac::Key>, DbError> {
    let secrets = app.credentials.signing.secrets_for((&app.db, &app.clock), PURPOSE, LONGEST).await?;
    Ok(secrets.iter().map(|secret| hmac::Key::new(hmac::HMAC_SHA256, secret)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_read_as_it_was_written() {
        for part in [None, Some(0), Some(16)] {
            let link = Link { email_id: Uuid::from_u128(7).into(), part, expires_at: 5 };
            assert_eq!(Link::of(&link.payload()), Some(link));
        }
    }
}
