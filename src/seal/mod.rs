//! Hides what the store has to keep but a copy of the store must not give away:
//! the keys that sign access tokens, the secrets that sign webhooks, and answers
//! that hold a secret, which only the credential that got them can open.
//!
//! The instance's key comes from the operator's `--secret`, or else from a file beside the
//! embedded store that no backup contains. Where there is neither (PostgreSQL
//! without a secret), things are kept as they are.

mod key_file;

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use crate::config::Config;
use crate::db::Location;
use crate::secret;

pub use key_file::{old_path as old_key_file, path as key_file};

/// How a kept thing begins: as it is, sealed before keys had names, sealed with
/// the key whose name follows.
const PLAIN: u8 = 0;
const NAMELESS: u8 = 1;
const NAMED: u8 = 2;

const NONCE: usize = 12;
const NAME: usize = 4;

/// How a sealed text begins.
const SEALED_TEXT: &str = "sealed:";

/// What seals and opens. The first key seals; all of them open.
#[derive(Default)]
pub struct Seal {
    keys: Vec<Key>,
}

struct Key {
    name: [u8; NAME],
    key: LessSafeKey,
}

impl Key {
    fn new(bytes: [u8; 32]) -> Option<Key> {
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &bytes).ok()?);
        let [a, b, c, d, ..] = secret::hash_bytes(&[&b"name of "[..], &bytes].concat());
        Some(Key { name: [a, b, c, d], key })
    }
}

impl Seal {
    /// The keys that these settings name. A new key file is made beside an
    /// embedded store where there is neither a file nor a secret.
    pub fn of(config: &Config) -> anyhow::Result<Seal> {
        let secret = config.secret.as_deref();
        let files = match &config.store().location {
            Location::Sqlite(store) if secret.is_none() => {
                [Some(key_file::read_or_make(store)?), key_file::read_old(store)?]
            }
            Location::Sqlite(store) => [key_file::read(store)?, key_file::read_old(store)?],
            Location::Postgres(_) => [None, None],
        };
        Ok(Seal::new(secret, files))
    }

    /// As [`Seal::of`], for whoever only looks: nothing is made.
    pub fn existing(config: &Config) -> anyhow::Result<Seal> {
        let files = match &config.store().location {
            Location::Sqlite(store) => [key_file::read(store)?, key_file::read_old(store)?],
            Location::Postgres(_) => [None, None],
        };
        Ok(Seal::new(config.secret.as_deref(), files))
    }

    pub fn new(secret: Option<&str>, files: [Option<[u8; 32]>; 2]) -> Seal {
        let secret = secret.map(|secret| derive("signing keys", secret));
        Seal { keys: [secret].into_iter().chain(files).flatten().filter_map(Key::new).collect() }
    }

    /// From a secret that the store does not hold, for one purpose: what was sealed
    /// for another cannot be opened with it.
    pub fn derived(purpose: &str, secret: &str) -> Seal {
        Seal { keys: Key::new(derive(purpose, secret)).into_iter().collect() }
    }

    /// Whether there is a key to seal with.
    pub fn has_key(&self) -> bool {
        !self.keys.is_empty()
    }

    /// As the store keeps it: one byte that says how, then the rest.
    pub fn close(&self, content: &[u8]) -> Vec<u8> {
        let Some(Key { name, key }) = self.keys.first() else { return [&[PLAIN], content].concat() };
        let nonce = secret::random::<NONCE>();
        let mut hidden = content.to_vec();
        let sealed = key.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut hidden);
        sealed.expect("what is sealed is short enough for it");
        [&[NAMED], &name[..], &nonce[..], &hidden].concat()
    }

    /// `None` when it was sealed with another key, or was damaged.
    pub fn open(&self, kept: &[u8]) -> Option<Vec<u8>> {
        match kept.split_first()? {
            (&PLAIN, content) => Some(content.to_vec()),
            (&NAMELESS, rest) => self.keys.iter().find_map(|key| key.open(rest)),
            (&NAMED, rest) => {
                let (name, rest) = rest.split_first_chunk::<NAME>()?;
                self.keys.iter().find(|key| key.name == *name)?.open(rest)
            }
            _ => None,
        }
    }

    /// Whether something is kept as it would be kept today.
    pub fn is_current(&self, kept: &[u8]) -> bool {
        match (self.keys.first(), kept.split_first()) {
            (Some(key), Some((&NAMED, rest))) => rest.starts_with(&key.name),
            (None, Some((&PLAIN, _))) => true,
            _ => false,
        }
    }

    /// A text as the store keeps it.
    pub fn close_text(&self, text: &str) -> String {
        match self.has_key() {
            true => self.text_prefix() + &STANDARD_NO_PAD.encode(&self.close(text.as_bytes())[1 + NAME..]),
            false => text.to_owned(),
        }
    }

    /// `None` when it was sealed with another key, or was damaged.
    pub fn open_text(&self, kept: &str) -> Option<String> {
        let Some(sealed) = kept.strip_prefix(SEALED_TEXT) else { return Some(kept.to_owned()) };
        let (name, rest) = sealed.split_once(':')?;
        let key = self.keys.iter().find(|key| hex(&key.name) == name)?;
        String::from_utf8(key.open(&STANDARD_NO_PAD.decode(rest).ok()?)?).ok()
    }

    /// What every text begins with that is sealed with today's key; where there is
    /// no key, none does.
    pub fn text_prefix(&self) -> String {
        let name = self.keys.first().map_or("none".into(), |key| hex(&key.name));
        format!("{SEALED_TEXT}{name}:")
    }
}

impl Key {
    fn open(&self, rest: &[u8]) -> Option<Vec<u8>> {
        let (nonce, hidden) = rest.split_first_chunk::<NONCE>()?;
        let mut hidden = hidden.to_vec();
        let opened = self.key.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::empty(), &mut hidden).ok()?;
        Some(opened.to_vec())
    }
}

fn derive(purpose: &str, secret: &str) -> [u8; 32] {
    secret::hash(&format!("{purpose} {secret}"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [Option<[u8; 32]>; 2] = [None, None];
    const FILE: [Option<[u8; 32]>; 2] = [Some([7; 32]), None];

    #[test]
    fn what_is_sealed_opens_with_the_same_key_only() {
        let (ours, other, none) = (Seal::new(Some("ours"), NONE), Seal::new(Some("other"), FILE), Seal::default());
        let kept = ours.close(b"key");
        assert!(!kept.windows(3).any(|part| part == b"key"));
        assert_eq!(ours.open(&kept).as_deref(), Some(&b"key"[..]));
        assert_eq!((other.open(&kept), none.open(&kept)), (None, None));
        assert_eq!(ours.open(&kept[..kept.len() - 1]), None);
        let text = ours.close_text("whsec_x");
        assert!(text.starts_with(&ours.text_prefix()) && !text.contains("whsec"), "{text}");
        assert_eq!(ours.open_text(&text).as_deref(), Some("whsec_x"));
        assert_eq!((other.open_text(&text), none.open_text(&text)), (None, None));
    }

    #[test]
    fn without_a_key_it_is_kept_as_it_is_and_can_be_sealed_later() {
        let (none, new) = (Seal::default(), Seal::new(Some("new"), NONE));
        let (kept, text) = (none.close(b"key"), none.close_text("whsec_x"));
        assert_eq!(new.open(&kept).as_deref(), Some(&b"key"[..]));
        assert_eq!(new.open_text(&text).as_deref(), Some("whsec_x"));
        assert!(none.is_current(&kept) && !new.is_current(&kept) && new.is_current(&new.close(b"key")));
        assert_eq!(none.open(&[]), None);
    }

    #[test]
    fn a_secret_takes_over_from_the_key_file_and_opens_what_that_has_sealed() {
        let (file, both) = (Seal::new(None, FILE), Seal::new(Some("ours"), FILE));
        let kept = file.close(b"key");
        assert!(file.is_current(&kept) && !both.is_current(&kept));
        assert_eq!(both.open(&kept).as_deref(), Some(&b"key"[..]));
        assert_eq!(file.open(&both.close(b"key")), None);
    }

    #[test]
    fn what_was_sealed_before_keys_had_names_still_opens() {
        let seal = Seal::new(Some("ours"), NONE);
        let named = seal.close(b"key");
        let nameless = [&[NAMELESS], &named[1 + NAME..]].concat();
        assert_eq!(seal.open(&nameless).as_deref(), Some(&b"key"[..]));
        assert!(!seal.is_current(&nameless));
    }
}
