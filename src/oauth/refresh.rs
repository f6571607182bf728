//! The rules of a refresh family, apart from time and store: what to do with a
//! token that somebody shows.

use super::grant::StoredRefresh;
use crate::clock::{HOUR, SECOND};
use crate::secret;

/// A refresh token that is not used for so long is dead.
pub const LIFETIME: i64 = 60 * 24 * HOUR;

/// How long an old token still gives its successor, for answers that got lost
/// and for clients that race with themselves.
pub const GRACE: i64 = 60 * SECOND;

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

pub fn judge(token: &StoredRefresh, now: i64) -> Verdict {
    if token.revoked || !token.granter_stands || token.expires_at <= now {
        return Verdict::Dead;
    }
    match token.rotated_at {
        None => Verdict::Rotate,
        // A clock that was set back makes the rotation lie ahead: still a moment ago.
        Some(rotated) if now - rotated <= GRACE && !token.successor_used => Verdict::Repeat,
        Some(_) => Verdict::Reuse,
    }
}

/// Hides a token so that only who shows its predecessor can read it: the
/// predecessor is 256 random bits, and its hash under this label is used for
/// nothing else.
pub fn seal(predecessor: &str, token: &[u8; 32]) -> [u8; 32] {
    let pad = secret::hash(&format!("successor {predecessor}"));
    std::array::from_fn(|index| token[index] ^ pad[index])
}

/// Undoes [`seal`].
pub fn unseal(predecessor: &str, sealed: &[u8]) -> Option<[u8; 32]> {
    Some(seal(predecessor, sealed.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::scope::ScopeSet;
    use super::*;

    fn token() -> StoredRefresh {
        StoredRefresh {
            grant_id: "g".into(),
            expires_at: LIFETIME,
            rotated_at: None,
            successor_sealed: None,
            successor_used: false,
            workspace_id: "w".into(),
            client_id: "c".into(),
            user_id: "u".into(),
            scopes: ScopeSet::all(),
            granted_at: 0,
            revoked: false,
            granter_stands: true,
        }
    }

    #[test]
    fn decisions_4_a_rotated_token_repeats_for_60_seconds_until_its_successor_is_used() {
        let rotated = |at, used| StoredRefresh { rotated_at: Some(at), successor_used: used, ..token() };
        assert_eq!(judge(&token(), 1), Verdict::Rotate);
        assert_eq!(judge(&rotated(0, false), GRACE), Verdict::Repeat);
        assert_eq!(judge(&rotated(0, false), GRACE + 1), Verdict::Reuse);
        assert_eq!(judge(&rotated(0, true), 1), Verdict::Reuse);
        assert_eq!(judge(&rotated(10 * SECOND, false), 0), Verdict::Repeat);
    }

    #[test]
    fn what_is_expired_or_ended_stays_dead() {
        assert_eq!(judge(&token(), LIFETIME), Verdict::Dead);
        assert_eq!(judge(&StoredRefresh { revoked: true, rotated_at: Some(0), ..token() }, 1), Verdict::Dead);
        assert_eq!(judge(&StoredRefresh { granter_stands: false, ..token() }, 1), Verdict::Dead);
    }

    #[test]
    fn a_successor_is_read_with_its_predecessor_only() {
        let next = [7; 32];
        let sealed = seal("old", &next);
        assert_ne!(sealed, next);
        assert_eq!(unseal("old", &sealed), Some(next));
        assert_ne!(unseal("other", &sealed), Some(next));
        assert_eq!(unseal("old", &[1, 2, 3]), None);
    }
}
