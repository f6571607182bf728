//! A second factor beside the password: an app that makes codes, passkeys, and recovery codes for when both are lost.

mod page;
mod passkeys;
mod sealed;
mod totp;
mod webauthn;

use super::Accounts;
use crate::app::App;
use crate::audit::{self, Entry};
use crate::clock::{Clock, MINUTE};
use crate::db::{Batch, Db, DbError, Sql, Stmt, from_row, statements};
use crate::error::Error;
use crate::id::{Id, UserId};
use crate::seal::Seal;
use crate::secret;
use crate::web::Form;
pub(super) use page::{CodePage, router};
pub(super) use passkeys::Asked;
use passkeys::Passkey;
pub use sealed::{reseal, secrets};
use totp::Secret;

pub(super) const PASSKEYS: &[Sql] = passkeys::ALL;

const RECOVERY_CODES: usize = 10;

pub(super) const WRONG_CODE: &str =
    "This is not the code of this moment, or it was used already. Wait for the next one.";

/// How long somebody who has shown the password may look for the code.
const CHALLENGE: i64 = 10 * MINUTE;

statements! {
    functions {
        /// One that is in force stays.
        fn begin_factor(user_id: UserId, secret: &str) expects 1 = Sql::both(
            "INSERT INTO second_factors (user_id, secret, last_step) VALUES ($1, $2, 0)
             ON CONFLICT (user_id) DO UPDATE SET secret = excluded.secret, last_step = 0
             WHERE second_factors.confirmed_at IS NULL");
        /// The secret is still the one whose code was shown.
        fn confirm_factor(user_id: UserId, now: i64, step: i64, secret: &str) expects 1 = Sql::both(
            "UPDATE second_factors SET confirmed_at = $2, last_step = $3
             WHERE user_id = $1 AND confirmed_at IS NULL AND secret = $4");
        /// A code is used once: of two that show it, one finds its row.
        fn use_step(user_id: UserId, step: i64) expects 1 = Sql::both(
            "UPDATE second_factors SET last_step = $2
             WHERE user_id = $1 AND confirmed_at IS NOT NULL AND last_step < $2");
        fn delete_factor(user_id: UserId) = Sql::both("DELETE FROM second_factors WHERE user_id = $1");
        /// Secrets of users behind one: user, and what is kept.
        fn all_secrets(after: UserId) = Sql::both(
            "SELECT user_id, secret FROM second_factors WHERE user_id > $1 ORDER BY user_id LIMIT 100");
        /// Keeps a secret otherwise, unless somebody did so meanwhile.
        fn reseal_one(user_id: UserId, kept: &str, now_kept: &str) = Sql::both(
            "UPDATE second_factors SET secret = $3 WHERE user_id = $1 AND secret = $2");
        fn insert_code(user_id: UserId, hash: &[u8; 32]) = Sql::both(
            "INSERT INTO recovery_codes (user_id, hash) VALUES ($1, $2)");
        fn use_code(user_id: UserId, hash: &[u8; 32]) expects 1 = Sql::both(
            "DELETE FROM recovery_codes WHERE user_id = $1 AND hash = $2");
        fn delete_codes(user_id: UserId) = Sql::both("DELETE FROM recovery_codes WHERE user_id = $1");
        /// Where no factor is left, they are for nothing.
        fn delete_idle_codes(user_id: UserId) = Sql::both(
            "DELETE FROM recovery_codes WHERE user_id = $1
                 AND NOT EXISTS (SELECT 1 FROM passkeys p WHERE p.user_id = $1)
                 AND NOT EXISTS (SELECT 1 FROM second_factors f WHERE f.user_id = $1 AND f.confirmed_at IS NOT NULL)");
        fn insert_challenge(hash: &[u8; 32], user_id: UserId, password_hash: &str, expires_at: i64) = Sql::both(
            "INSERT INTO login_challenges (hash, user_id, password_hash, expires_at) VALUES ($1, $2, $3, $4)");
        fn use_challenge(hash: &[u8; 32]) expects 1 = Sql::both("DELETE FROM login_challenges WHERE hash = $1");
        pub(super) fn delete_old_challenges(now: i64) = Sql::both("DELETE FROM login_challenges WHERE expires_at < $1");
    }
    reads {
        fn find_factor(user_id: UserId) -> Option<Factor> = Sql::both(
            "SELECT user_id, secret, confirmed_at, last_step FROM second_factors WHERE user_id = $1");
        fn find_challenge(hash: &[u8; 32], now: i64) -> Option<Challenge> = Sql::both(
            "SELECT user_id, password_hash FROM login_challenges WHERE hash = $1 AND expires_at > $2");
        fn has_code(user_id: UserId, hash: &[u8; 32]) -> bool = Sql::both(
            "SELECT 1 FROM recovery_codes WHERE user_id = $1 AND hash = $2");
        fn codes_left(user_id: UserId) -> Vec<i64> = Sql::both(
            "SELECT 1 FROM recovery_codes WHERE user_id = $1 LIMIT 100");
    }
}

/// An app that makes codes.
struct Factor {
    user_id: UserId,
    secret: String,
    confirmed_at: Option<i64>,
    last_step: i64,
}

from_row!(Factor { user_id, secret, confirmed_at, last_step });

/// Somebody who has shown the password.
pub(super) struct Challenge {
    pub user_id: UserId,
    pub password_hash: String,
}

from_row!(Challenge { user_id, password_hash });

impl Factor {
    fn secret(&self, seal: &Seal) -> Result<Secret, Error> {
        let opened = seal.open_text(&self.secret).and_then(|text| Secret::parse(&text));
        opened.ok_or_else(|| {
            tracing::error!(
                "a second factor was sealed with another key; `posthorn users reset-second-factor` ends it"
            );
            Error::Internal
        })
    }

    /// What uses up the app's code of this moment, if it is that.
    fn accept(&self, app: &Accounts, code: &str) -> Result<Option<Stmt>, Error> {
        let step = self.secret(&app.seal)?.step_of(code, app.clock.now(), self.last_step);
        Ok(step.map(|step| use_step(self.user_id, step)))
    }
}

/// What a user has beside the password.
pub(super) struct Factors {
    user_id: UserId,
    app: Option<Factor>,
    passkeys: Vec<Passkey>,
}

impl Factors {
    /// What uses up a code that is right: one of the app, or a recovery code.
    async fn accept_code(&self, app: &Accounts, code: &str) -> Result<Option<Stmt>, Error> {
        if let Some(factor) = &self.app
            && let Some(used) = factor.accept(app, code)?
        {
            return Ok(Some(used));
        }
        let hash = secret::hash(&plain(code));
        Ok(has_code(&app.db, self.user_id, &hash).await?.then(|| use_code(self.user_id, &hash)))
    }

    /// What uses up what was shown at the log-in, if it is right: a code, or the answer of a passkey. The error is
    /// for whoever shows it.
    pub(super) async fn accept(&self, app: &Accounts, token: &str, form: &Form) -> Result<Result<Stmt, String>, Error> {
        if form.text("signature").is_empty() {
            return Ok(self.accept_code(app, &form.text("code")).await?.ok_or_else(|| WRONG_CODE.to_owned()));
        }
        let accepted = passkeys::accept(app, self.user_id, &self.passkeys, token, form);
        Ok(accepted.map_err(|refused| format!("The passkey was not accepted: {refused}. Try again, or type a code.")))
    }

    /// What a browser is asked that may have a passkey.
    pub(super) fn asked(&self, app: &App, token: &str) -> Option<Asked> {
        Asked::for_one_of(app, token, &self.passkeys)
    }

    pub(super) fn has_app(&self) -> bool {
        self.app.is_some()
    }
}

/// What a user has to show, if there is anything.
pub(super) async fn in_force(db: &Db, user_id: UserId) -> Result<Option<Factors>, DbError> {
    let app = find_factor(db, user_id).await?.filter(|factor| factor.confirmed_at.is_some());
    let passkeys = passkeys::of_user(db, user_id).await?;
    let is_any = app.is_some() || !passkeys.is_empty();
    Ok(is_any.then_some(Factors { user_id, app, passkeys }))
}

/// Asks somebody who has shown the password for the code: what the form carries.
pub(super) async fn challenge(db: &Db, clock: &Clock, user_id: UserId, kept: &str) -> Result<String, DbError> {
    let token = secret::token();
    db.commit(insert_challenge(&secret::hash(&token), user_id, kept, clock.now() + CHALLENGE)).await?;
    Ok(token)
}

pub(super) async fn challenged(db: &Db, clock: &Clock, token: &str) -> Result<Option<Challenge>, DbError> {
    find_challenge(db, &secret::hash(token), clock.now()).await
}

/// Ends the question, with the answer.
pub(super) fn answered(token: &str) -> Stmt {
    use_challenge(&secret::hash(token))
}

/// Takes the second factor from a user, for whoever runs the server.
pub fn reset(user_id: UserId, clock: &Clock) -> Batch {
    let entry = Entry { target_id: Some(user_id.uuid()), ..Entry::new("second_factor.reset", audit::DoneBy::Command) };
    Batch::from(audit::note_of_user(user_id, clock, &entry))
        .and(delete_factor(user_id))
        .and(passkeys::delete_all(user_id))
        .and(delete_codes(user_id))
}

/// Under what name wrong codes of a user are counted.
pub(super) fn name(user_id: UserId) -> String {
    format!("second factor of {user_id}")
}

/// Recovery codes as people type them: case and dashes count for nothing.
fn plain(code: &str) -> String {
    code.chars().filter(char::is_ascii_alphanumeric).map(|char| char.to_ascii_lowercase()).collect()
}

fn recovery_code() -> String {
    let letters = secret::letters(12).to_lowercase();
    let parts: Vec<&str> = [0, 4, 8].map(|at| &letters[at..at + 4]).into();
    parts.join("-")
}

/// New recovery codes, in place of those that there were.
fn fresh_codes(user_id: UserId, batch: &mut Batch) -> Vec<String> {
    let fresh: Vec<String> = (0..RECOVERY_CODES).map(|_| recovery_code()).collect();
    batch.push(delete_codes(user_id));
    fresh.iter().for_each(|code| batch.push(insert_code(user_id, &secret::hash(&plain(code)))));
    fresh
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_code_is_typed_as_people_type() {
        let code = recovery_code();
        assert_eq!((code.len(), code.matches('-').count()), (14, 2));
        assert_eq!(plain(&code.to_uppercase()), plain(&code.replace('-', " ")));
    }
}
