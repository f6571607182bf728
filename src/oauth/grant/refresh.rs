//! The rules of a refresh family, apart from time and store: what a token is,
//! and what to do with one that somebody shows.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use uuid::Uuid;

use super::store::Family;
use crate::clock::HOUR;
use crate::id::{GrantId, Id};
use crate::secret;

/// A refresh token that is not used for so long is dead.
pub const LIFETIME: i64 = 60 * 24 * HOUR;

/// A token as it is handed out: it names its grant, carries the mark that all
/// tokens of the family carry, and is itself by 256 random bits. Who has only
/// seen the grant's id cannot pass for the holder of an old token.
#[derive(Clone)]
pub struct Token {
    grant: GrantId,
    mark: [u8; 16],
    own: [u8; 32],
}

impl Token {
    /// The first of a new family.
    pub fn first(grant: GrantId) -> Token {
        Token { grant, mark: secret::random(), own: secret::random() }
    }

    pub fn parse(text: &str) -> Option<Token> {
        let bytes: [u8; 64] = URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()?;
        let grant = Uuid::from_bytes(std::array::from_fn(|at| bytes[at])).into();
        Some(Token {
            grant,
            mark: std::array::from_fn(|at| bytes[16 + at]),
            own: std::array::from_fn(|at| bytes[32 + at]),
        })
    }

    /// The one that takes its place.
    pub fn next(&self) -> Token {
        Token { own: secret::random(), ..self.clone() }
    }

    pub fn text(&self) -> String {
        URL_SAFE_NO_PAD.encode([self.grant.uuid().as_bytes(), &self.mark[..], &self.own[..]].concat())
    }

    pub fn grant_id(&self) -> GrantId {
        self.grant
    }

    /// What the store knows the family by.
    pub fn family_hash(&self) -> [u8; 32] {
        secret::hash_bytes(&self.mark)
    }
}

/// What to do with a token that belongs to the client who shows it.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is the newest of its family: rotate it.
    Rotate,
    /// It was rotated a moment ago and nobody has used the successor: give the
    /// same successor again.
    Repeat,
    /// Two hold what only one should: end the grant.
    Reuse,
    /// Expired, or of a grant that ended.
    Dead,
}

/// Judges a token of the family by its hash. For as long as `grace` an old one still
/// gives its successor, for answers that got lost and for clients that race with
/// themselves. Which token came before the newest
/// is kept, and none further back: once a successor is used, its predecessor is
/// just old.
pub fn judge(family: &Family, shown: &[u8; 32], now: i64, grace: i64) -> Verdict {
    if family.revoked || !family.granter_stands || family.expires_at <= now {
        return Verdict::Dead;
    }
    if secret::equal(&family.newest, shown) {
        return Verdict::Rotate;
    }
    let previous = family.previous.as_ref().filter(|previous| secret::equal(&previous.hash, shown));
    match previous {
        // A clock that was set back makes the rotation lie ahead: still a moment ago.
        Some(previous) if grace > 0 && now - previous.rotated_at <= grace => Verdict::Repeat,
        _ => Verdict::Reuse,
    }
}

/// Hides a token so that only who shows its predecessor can read it: the
/// predecessor holds 256 random bits, and its hash under this label is used for
/// nothing else. What the two have in common is left out.
pub fn seal(predecessor: &str, token: &Token) -> Vec<u8> {
    match Token::parse(predecessor) {
        Some(_) => masked(predecessor, &token.own),
        None => masked(predecessor, &[&token.mark[..], &token.own[..]].concat()),
    }
}

/// Undoes [`seal`].
pub fn unseal(predecessor: &str, grant: GrantId, sealed: &[u8]) -> Option<String> {
    let bytes = masked(predecessor, sealed);
    let own = |bytes: &[u8]| bytes.try_into().ok();
    match (Token::parse(predecessor), bytes.len()) {
        (Some(before), 32) => Some(Token { own: own(&bytes)?, ..before }.text()),
        // Two from a time when tokens were 256 bits and no more.
        (None, 32) => Some(URL_SAFE_NO_PAD.encode(bytes)),
        (None, 48) => Some(Token { grant, mark: bytes[..16].try_into().ok()?, own: own(&bytes[16..])? }.text()),
        _ => None,
    }
}

fn masked(predecessor: &str, bytes: &[u8]) -> Vec<u8> {
    let pad = |block: usize| match block {
        0 => secret::hash(&format!("successor {predecessor}")),
        _ => secret::hash(&format!("successor {block} {predecessor}")),
    };
    let blocks = bytes.chunks(32).enumerate();
    blocks.flat_map(|(block, bytes)| bytes.iter().zip(pad(block)).map(|(byte, pad)| byte ^ pad)).collect()
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{Engine, Family, LIFETIME, Token, URL_SAFE_NO_PAD, Verdict, masked, seal, secret, unseal};
    use crate::clock::SECOND;
    use crate::credentials::ScopeSet;
    use crate::oauth::grant::store::Previous;

    const NEWEST: [u8; 32] = [1; 32];
    const BEFORE: [u8; 32] = [2; 32];
    const GRACE: i64 = 60 * SECOND;

    fn judge(family: &Family, shown: &[u8; 32], now: i64) -> Verdict {
        super::judge(family, shown, now, GRACE)
    }

    fn family() -> Family {
        Family {
            grant_id: Uuid::nil().into(),
            workspace_id: Uuid::nil().into(),
            client_id: "c".into(),
            user_id: Uuid::nil().into(),
            scopes: ScopeSet::EMPTY,
            granted_at: 0,
            revoked: false,
            granter_stands: true,
            mark: None,
            newest: NEWEST.into(),
            expires_at: LIFETIME,
            previous: Some(Previous { hash: BEFORE.into(), rotated_at: 0, sealed: Vec::new() }),
        }
    }

    #[test]
    fn decisions_4_the_newest_rotates_and_the_one_before_repeats_for_60_seconds() {
        assert_eq!(judge(&family(), &NEWEST, 1), Verdict::Rotate);
        assert_eq!(judge(&family(), &BEFORE, GRACE), Verdict::Repeat);
        assert_eq!(judge(&family(), &BEFORE, GRACE + 1), Verdict::Reuse);
        assert_eq!(judge(&family(), &BEFORE, -10 * SECOND), Verdict::Repeat);
        assert_eq!(judge(&family(), &[3; 32], 1), Verdict::Reuse);
        assert_eq!(judge(&Family { previous: None, ..family() }, &BEFORE, 1), Verdict::Reuse);
    }

    #[test]
    fn without_grace_an_old_token_never_gives_its_successor() {
        assert_eq!(super::judge(&family(), &BEFORE, 0, 0), Verdict::Reuse);
        assert_eq!(super::judge(&family(), &BEFORE, -10 * SECOND, 0), Verdict::Reuse);
        assert_eq!(super::judge(&family(), &NEWEST, 0, 0), Verdict::Rotate);
    }

    #[test]
    fn what_is_expired_or_ended_stays_dead() {
        for shown in [NEWEST, BEFORE, [3; 32]] {
            assert_eq!(judge(&family(), &shown, LIFETIME), Verdict::Dead);
            assert_eq!(judge(&Family { revoked: true, ..family() }, &shown, 1), Verdict::Dead);
            assert_eq!(judge(&Family { granter_stands: false, ..family() }, &shown, 1), Verdict::Dead);
        }
    }

    #[test]
    fn a_token_says_what_it_belongs_to() {
        let id = "0190f5fe-7c00-7a00-8000-000000000001".parse().expect("an id");
        let first = Token::first(id);
        let read = Token::parse(&first.text()).expect("the same token");
        assert_eq!((read.grant_id(), read.text()), (id, first.text()));
        assert_eq!((first.text().len(), first.next().family_hash()), (86, first.family_hash()));
        assert_ne!(first.next().text(), first.text());
        for odd in ["", "x", &secret::token(), &format!("{}A", first.text()), &first.text()[1..]] {
            assert!(Token::parse(odd).is_none(), "{odd}");
        }
    }

    #[test]
    fn a_successor_is_read_with_its_predecessor_only() {
        let id = "0190f5fe-7c00-7a00-8000-000000000001".parse().expect("an id");
        let first = Token::first(id);
        let next = first.next();
        // A token before, and one from before tokens named their grant.
        for before in [first.text(), secret::token()] {
            let sealed = seal(&before, &next);
            assert_eq!(unseal(&before, id, &sealed), Some(next.text()));
            assert_ne!(unseal(&first.next().text(), id, &sealed), Some(next.text()));
        }
        let short = masked("old", &[7; 32]);
        assert_eq!(unseal("old", id, &short), Some(URL_SAFE_NO_PAD.encode([7; 32])));
        assert_eq!(unseal("old", id, &[1, 2, 3]), None);
    }
}
