//! The keys that sign a domain's mail: made in pairs, one RSA and one Ed25519, each
//! under a selector of its own.

use crate::db::DbError;
use crate::error::Error;
use crate::limits::Background;
use crate::mime::DkimKey;
use crate::text::words;

/// The algorithms that mail is signed with, side by side: not everybody knows the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    Rsa,
    Ed25519,
}

words!(Algorithm: ALL, parse { Rsa = "rsa", Ed25519 = "ed25519" });

impl Algorithm {
    pub(super) fn from_store(word: &str) -> Result<Algorithm, DbError> {
        Algorithm::parse(word).ok_or_else(|| DbError::Broken(format!("unknown algorithm {word}")))
    }
}

/// A key as it is made.
pub struct NewKey {
    pub selector: String,
    pub algorithm: Algorithm,
    pub key: DkimKey,
}

/// Makes the next pair of a domain that has had `pairs` before. It takes up to a second
/// of a core, on a thread that stands back for those that answer.
pub async fn make_pair(thread: &Background, pairs: usize) -> Result<[NewKey; 2], Error> {
    let [rsa, ed25519] = selectors(pairs);
    let make = move || {
        [
            NewKey { selector: rsa, algorithm: Algorithm::Rsa, key: DkimKey::generate_rsa() },
            NewKey { selector: ed25519, algorithm: Algorithm::Ed25519, key: DkimKey::generate_ed25519() },
        ]
    };
    thread.run(make).await
}

/// `posthorn` and `posthorn-ed`, then `posthorn2` and `posthorn2-ed`: a selector is never used
/// again, because others remember what stood there.
fn selectors(pairs: usize) -> [String; 2] {
    let number = if pairs == 0 { String::new() } else { (pairs + 1).to_string() };
    [format!("posthorn{number}"), format!("posthorn{number}-ed")]
}

/// What signs the mail of a domain.
pub struct SigningKeys {
    pub domain: String,
    pub keys: Vec<SigningKey>,
}

pub struct SigningKey {
    pub selector: String,
    pub key: DkimKey,
    /// It signs what was accepted from then on, in wall time, until the other moment.
    pub from: i64,
    pub until: Option<i64>,
}

impl SigningKeys {
    /// The keys that sign a mail which was accepted at a moment: the same on every attempt.
    pub fn at(&self, accepted_at: i64) -> impl Iterator<Item = &SigningKey> {
        let signs = move |key: &&SigningKey| key.from <= accepted_at && key.until.is_none_or(|end| accepted_at < end);
        self.keys.iter().filter(signs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_selector_is_used_twice() {
        assert_eq!(selectors(0), ["posthorn", "posthorn-ed"]);
        assert_eq!(selectors(1), ["posthorn2", "posthorn2-ed"]);
        assert_eq!(selectors(9), ["posthorn10", "posthorn10-ed"]);
    }

    #[test]
    fn every_attempt_is_signed_with_the_keys_of_the_moment_of_acceptance() {
        let key = |selector: &str, from, until| {
            let key = DkimKey::generate_ed25519();
            SigningKey { selector: selector.into(), key, from, until }
        };
        let keys = vec![key("old", 10, Some(20)), key("new", 20, None)];
        let keys = SigningKeys { domain: "example.com".into(), keys };
        let at = |moment| keys.at(moment).map(|key| key.selector.as_str()).collect::<Vec<_>>();
        assert_eq!((at(9), at(10), at(19)), (vec![], vec!["old"], vec!["old"]));
        assert_eq!((at(20), at(1000)), (vec!["new"], vec!["new"]));
    }
}
