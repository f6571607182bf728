//! Browsers that are known: somebody has logged in there before. They give no
//! access; attempts made in them are counted apart from those of strangers, who
//! could otherwise lock everybody out by guessing.

use http::{HeaderMap, HeaderValue};

use crate::app::App;
use crate::auth;
use crate::clock::HOUR;
use crate::db::{Batch, Db, DbError, Sql, statements};
use crate::id::UserId;
use crate::secret;

const DEVICE: &str = "posthorn-device";

/// A browser in which nobody logs in for so long is forgotten.
const LIFETIME: i64 = 365 * 24 * HOUR;

statements! {
    functions {
        fn see(hash: &[u8; 32], user_id: UserId, now: i64) = Sql::both(
            "INSERT INTO known_devices (hash, user_id, seen_at) VALUES ($1, $2, $3)
             ON CONFLICT (hash, user_id) DO UPDATE SET seen_at = excluded.seen_at");
        /// A user's latest browsers are enough: programs that log in without keeping
        /// cookies would leave a row behind each time.
        fn trim(user_id: UserId) = Sql::both(
            "DELETE FROM known_devices WHERE user_id = $1 AND seen_at < (
                 SELECT d.seen_at FROM known_devices d WHERE d.user_id = $1
                 ORDER BY d.seen_at DESC LIMIT 1 OFFSET 49)");
        fn delete_unseen(since: i64) = Sql::both("DELETE FROM known_devices WHERE seen_at < $1");
    }
    reads {
        fn accounts_of(hash: &[u8; 32]) -> Vec<String> = Sql::both(
            "SELECT u.email_key FROM known_devices d JOIN users u ON u.id = d.user_id WHERE d.hash = $1 LIMIT 100");
    }
}

/// The secret of a browser, and who has logged in there.
#[derive(Default)]
pub struct Device {
    secret: Option<String>,
    accounts: Vec<String>,
}

impl Device {
    /// The browser that a request comes from. One that nobody has logged in with
    /// has no secret: what it shows may be anybody's invention.
    pub async fn find(app: &App, headers: &HeaderMap) -> Result<Device, DbError> {
        let Some(shown) = auth::read_cookie(app, headers, DEVICE) else { return Ok(Device::default()) };
        let accounts = accounts_of(&app.db, &secret::hash(shown)).await?;
        Ok(Device { secret: (!accounts.is_empty()).then(|| shown.to_owned()), accounts })
    }

    /// What names this browser, if it is one of this account's.
    pub fn name_for(&self, account: &str) -> Option<String> {
        let secret = self.secret.as_ref().filter(|_| self.accounts.iter().any(|known| known == account))?;
        Some(format!("device {secret} {account}"))
    }

    /// Makes this browser one of a user's: what is to be stored, and the cookie.
    pub fn remember(self, app: &App, user_id: UserId) -> (Batch, HeaderValue) {
        let secret = self.secret.unwrap_or_else(secret::token);
        let batch = Batch::from(see(&secret::hash(&secret), user_id, app.clock.now())).and(trim(user_id));
        (batch, auth::cookie(app, DEVICE, &secret, LIFETIME / 1_000_000))
    }
}

pub async fn sweep(db: &Db, now: i64) -> Result<(), DbError> {
    db.commit(delete_unseen(now - LIFETIME)).await.map(drop)
}
