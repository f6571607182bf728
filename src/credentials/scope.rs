//! What a token may do: two scopes, and sets of them.

use crate::db::{Columns, DbError, FromRow};
use crate::text::{word_set, words};

words! {
    /// A scope of spec section 5. Widest first: in this order scopes are listed and printed everywhere.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Scope: ALL, parse {
        FullAccess = "full_access",
        EmailsSend = "emails:send",
    }
}

word_set!(
    /// A set of scopes, possibly empty. It prints as the `scope` text of RFC 6749.
    ScopeSet of Scope
);

/// A token was none of the scopes. It does not say which: the token is the sender's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("scope holds an unsupported value; supported are full_access and emails:send")]
pub struct UnsupportedScope;

impl ScopeSet {
    pub const EMPTY: ScopeSet = ScopeSet(0);

    /// Reads tokens separated by U+0020 and nothing else. No token at all is the empty set; what
    /// that means is the caller's rule.
    pub fn parse(text: &str) -> Result<ScopeSet, UnsupportedScope> {
        text.split(' ')
            .filter(|token| !token.is_empty())
            .map(|token| Scope::parse(token).ok_or(UnsupportedScope))
            .collect()
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether a check that requires `required` passes: `full_access` satisfies every one.
    pub fn allows(self, required: Scope) -> bool {
        self.contains(required) || self.contains(Scope::FullAccess)
    }

    /// Plain membership. That `full_access` satisfies other checks plays no part here: a client
    /// registered for it alone may not ask for `emails:send` (spec 7.1).
    pub fn is_subset_of(self, other: ScopeSet) -> bool {
        self.0 & !other.0 == 0
    }

    pub fn intersection(self, other: ScopeSet) -> ScopeSet {
        ScopeSet(self.0 & other.0)
    }
}

impl FromRow for ScopeSet {
    fn take(columns: &mut Columns<'_>) -> Result<ScopeSet, DbError> {
        columns.parsed("scopes", |text| ScopeSet::parse(text).ok())
    }
}

impl From<Scope> for ScopeSet {
    fn from(scope: Scope) -> ScopeSet {
        [scope].into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spec_4_1_scope_is_space_delimited_and_duplicates_collapse() {
        for (text, canonical) in [
            ("emails:send", "emails:send"),
            ("emails:send full_access", "full_access emails:send"),
            ("full_access full_access", "full_access"),
            ("  emails:send   ", "emails:send"),
            ("", ""),
            ("   ", ""),
        ] {
            let set = ScopeSet::parse(text).map(|set| set.to_string());
            assert_eq!(set.as_deref(), Ok(canonical), "{text:?}");
        }
    }

    #[test]
    fn only_the_exact_tokens_are_scopes() {
        for text in [
            "full_access\temails:send",
            "full_access,emails:send",
            "full_access\u{a0}emails:send",
            "FULL_ACCESS",
            "emails:read",
            "full_access\n",
            "full_access openid",
            "full_access\0",
        ] {
            assert_eq!(ScopeSet::parse(text), Err(UnsupportedScope), "{text:?}");
        }
    }

    #[test]
    fn spec_5_full_access_satisfies_emails_send_but_not_the_reverse() {
        let full = ScopeSet::from(Scope::FullAccess);
        let send = ScopeSet::from(Scope::EmailsSend);
        assert!(full.allows(Scope::EmailsSend) && full.allows(Scope::FullAccess));
        assert!(send.allows(Scope::EmailsSend) && !send.allows(Scope::FullAccess));
        assert!(!ScopeSet::EMPTY.allows(Scope::EmailsSend));
    }

    #[test]
    fn subset_and_intersection_are_plain_membership() {
        let full = ScopeSet::from(Scope::FullAccess);
        let send = ScopeSet::from(Scope::EmailsSend);
        assert!(!send.is_subset_of(full) && !full.is_subset_of(send));
        assert!(send.is_subset_of(ScopeSet::all()) && ScopeSet::EMPTY.is_subset_of(send));
        assert!(full.intersection(send).is_empty());
        assert_eq!(ScopeSet::all().intersection(send), send);
    }
}
