//! Who a client is: an API key as the password of a name that everybody has.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::Server;
use crate::auth::{Caller, SendOnly};
use crate::error::Error;
use crate::limits::{Attempt, counted};
use crate::smtp_server::Reply;

/// The names that a client may have.
const USERS: [&str; 2] = ["posthorn", "resend"];

const WRONG: Reply =
    Reply::new(535, "5.7.8 Log in as `posthorn`, with an API key as the password that has not been deleted.");

/// What a client says of itself.
#[derive(Debug, PartialEq, Eq)]
pub struct Proof {
    pub user: String,
    pub key: String,
}

/// A text in base64; `=` stands for an empty one.
pub fn decoded(response: &str) -> Result<String, Reply> {
    let response = if response == "=" { "" } else { response };
    let text = STANDARD.decode(response).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or(Reply::new(501, "5.5.2 The answer must be text in base64."))
}

impl Proof {
    /// The three parts of `PLAIN` (RFC 4616); nobody acts for somebody else.
    pub fn plain(text: &str) -> Result<Proof, Reply> {
        let parts: Vec<&str> = text.split('\0').collect();
        match parts[..] {
            [acts_for, user, key] if acts_for.is_empty() || acts_for == user => {
                Ok(Proof { user: user.to_owned(), key: key.to_owned() })
            }
            _ => Err(Reply::new(501, "5.5.2 `PLAIN` is a NUL, the user, a NUL and the password, in base64.")),
        }
    }
}

impl Server {
    /// Counts an attempt before it is judged, as everywhere.
    pub async fn log_in(&self, sender: IpAddr, proof: &Proof) -> Result<Arc<Caller<SendOnly>>, Reply> {
        let later = |error: Error| Reply::told(454, format!("4.7.0 {}", error.message()));
        let attempt: Option<Attempt<'_>> = match counted(sender, !self.emails.config.limit_loopback) {
            Some(address) => Some(self.attempts.begin(&address, self.emails.clock.steady()).await.map_err(later)?),
            None => None,
        };
        let is_user = USERS.iter().any(|user| proof.user.eq_ignore_ascii_case(user));
        let found = match is_user {
            true => Caller::with_key(&self.emails, &proof.key).await,
            false => Err(Error::InvalidKey),
        };
        match found {
            Ok(caller) => Ok(Arc::new(caller)),
            Err(error @ (Error::Unavailable | Error::Internal)) => Err(later(error)),
            Err(_) => {
                attempt.into_iter().for_each(Attempt::failed);
                Err(WRONG)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_has_its_parts() {
        let proof = Proof { user: "resend".into(), key: "re_x".into() };
        assert_eq!(decoded("AHJlc2VuZAByZV94").and_then(|text| Proof::plain(&text)), Ok(proof));
        for odd in ["", "user", "\0user", "other\0user\0key", "\0user\0key\0more"] {
            assert!(Proof::plain(odd).is_err(), "{odd:?}");
        }
        assert_eq!(decoded("="), Ok(String::new()));
        for odd in ["*", "A", "/w==", "A A="] {
            assert_eq!(decoded(odd).map_err(|reply| reply.code), Err(501), "{odd:?}");
        }
    }
}
