//! The addresses that tracked mail leads to. What comes in is committed before it is answered, as one row; what follows
//! from it is a worker's business.

use axum::Router;
use axum::extract::{Extension, Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, LOCATION, REFERRER_POLICY, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::Tracker;
use super::links::{Place, location};
use super::machine::is_machine;
use super::store::{self, NewHit};
use crate::clock::SECOND;
use crate::db::DbError;
use crate::error::Error;
use crate::subscriptions;
use crate::web::Sender;

/// A picture of one transparent point.
const PICTURE: &[u8] = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff\x21\xf9\x04\x01\x00\x00\x00\x00\
    \x2c\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02\x44\x01\x00\x3b";

/// What is longer is cut.
const LONGEST_USER_AGENT: usize = 256;

/// How long hits are left lying: what a scanner does to all links of a mail is looked at together.
const SETTLING: i64 = 2 * SECOND;

pub fn router() -> Router<Tracker> {
    Router::new().route("/t/image/{token}", get(image)).route("/t/link/{token}", get(link))
}

async fn image(
    State(tracker): State<Tracker>,
    Extension(sender): Extension<Sender>,
    Path(token): Path<String>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    let shown = async {
        let place = match tracker.keys.open(&tracker, &token).await? {
            Some((place, target)) if target.is_empty() => place,
            _ => return Err(tracker.forged(sender)),
        };
        tracker.note((place, None), sender, is_machine(&method, &headers), &headers).await?;
        Ok(([(CONTENT_TYPE, "image/gif"), (CACHE_CONTROL, "no-store")], PICTURE).into_response())
    };
    shown.await.unwrap_or_else(|error| subscriptions::problem(&tracker, &error))
}

async fn link(
    State(tracker): State<Tracker>,
    Extension(sender): Extension<Sender>,
    Path(token): Path<String>,
    method: Method,
    headers: HeaderMap,
) -> Response {
    let led = async {
        let (place, target) = match tracker.keys.open(&tracker, &token).await? {
            Some((place, target)) if !target.is_empty() => (place, target),
            _ => return Err(tracker.forged(sender)),
        };
        let noted = tracker.note((place, Some(&target)), sender, is_machine(&method, &headers), &headers).await;
        if let Err(error) = noted {
            // Whoever clicked wants to read, whether we can count or not.
            tracing::warn!(%error, "a click could not be written down");
            metrics::counter!("posthorn_tracking_lost_total").increment(1);
        }
        let location = HeaderValue::from_str(&location(&target)).map_err(|_| Error::Internal)?;
        let mut response = StatusCode::FOUND.into_response();
        response.headers_mut().insert(LOCATION, location);
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        Ok(response)
    };
    led.await.unwrap_or_else(|error| subscriptions::problem(&tracker, &error))
}

impl Tracker {
    /// Writes down that somebody opened or clicked; too often in a while for one recipient, and it is not.
    async fn note(
        &self,
        (place, link): (Place, Option<&str>),
        Sender(address): Sender,
        is_machine: bool,
        headers: &HeaderMap,
    ) -> Result<(), DbError> {
        if !self.limits.recipient.has_room(&place) {
            metrics::counter!("posthorn_tracking_ignored_total").increment(1);
            return Ok(());
        }
        let said = headers.get(USER_AGENT).map(|value| String::from_utf8_lossy(value.as_bytes())).unwrap_or_default();
        let end = said.char_indices().nth(LONGEST_USER_AGENT).map_or(said.len(), |(at, _)| at);
        let hit = NewHit {
            id: self.clock.ordered_id(),
            place,
            link,
            is_machine,
            ip_address: &address.to_canonical().to_string(),
            user_agent: &said[..end],
            now: self.clock.now(),
            due_at: self.clock.steady() + SETTLING,
        };
        self.db.commit(store::add(&hit)).await.map(drop)
    }

    /// A link that nobody made. Who tries many has to wait.
    fn forged(&self, Sender(address): Sender) -> Error {
        let gone = "It may not have been copied whole. Open it from the e-mail once more.";
        self.limits.forged.check(address).err().unwrap_or_else(|| Error::not_found(gone))
    }
}
