//! The link with which somebody says that an address is his. It ends after a week.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use uuid::Uuid;

use crate::app::App;
use crate::clock::DAY;
use crate::db::DbError;
use crate::error::Error;

pub const LIFETIME: i64 = 7 * DAY;

const PURPOSE: &str = "links to confirm";

const TAG: usize = 16;
const PAYLOAD: usize = 24;

/// The address of the page on which a sign-up is confirmed.
pub async fn url(app: &App, signup_id: Uuid) -> Result<String, Error> {
    let mut bytes = signup_id.as_bytes().to_vec();
    bytes.extend((app.clock.now() + LIFETIME).to_be_bytes());
    let newest = keys(app).await?.into_iter().next().ok_or(Error::Internal)?;
    let tag = hmac::sign(&newest, &bytes);
    bytes.extend(&tag.as_ref()[..TAG]);
    Ok(format!("{}/subscribe/confirm/{}", app.addresses.base.as_str(), URL_SAFE_NO_PAD.encode(bytes)))
}

/// Which sign-up a link is about, if we made it and it has not ended.
pub async fn open(app: &App, token: &str) -> Result<Option<Uuid>, Error> {
    let Ok(bytes) = URL_SAFE_NO_PAD.decode(token) else { return Ok(None) };
    let Some((payload, tag)) = bytes.split_first_chunk::<PAYLOAD>() else { return Ok(None) };
    let signs = |key: &hmac::Key| crate::secret::equal(&hmac::sign(key, payload).as_ref()[..TAG], tag);
    if !keys(app).await?.iter().any(signs) {
        return Ok(None);
    }
    let (id, ends_at) = payload.split_at(16);
    let ends_at = ends_at.try_into().map_or(0, i64::from_be_bytes);
    Ok(Uuid::from_slice(id).ok().filter(|_| app.clock.now() < ends_at))
}

async fn keys(app: &App) -> Result<Vec<hmac::Key>, DbError> {
    let secrets = app.credentials.signing.secrets_for((&app.db, &app.clock), PURPOSE, LIFETIME).await?;
    Ok(secrets.iter().map(|secret| hmac::Key::new(hmac::HMAC_SHA256, secret)).collect())
}
