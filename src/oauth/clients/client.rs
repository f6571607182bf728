//! A registered OAuth client.

use crate::credentials::ScopeSet;
use crate::oauth::redirect_uri::{self, Destination};
use crate::text::{word_set, words};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    pub id: String,
    pub name: String,
    /// As registered, byte for byte.
    pub redirect_uris: Vec<String>,
    pub scopes: ScopeSet,
    pub grants: GrantSet,
    pub auth_method: AuthMethod,
    pub client_uri: Option<String>,
    pub logo_uri: Option<String>,
    /// The host that an operator vouched for: the client is who it says it is when it sends people there.
    pub verified_host: Option<String>,
    /// Since when an operator shuts it out.
    pub disabled_at: Option<i64>,
    /// Microseconds since the epoch.
    pub created_at: i64,
}

impl Client {
    /// Whether an operator vouched for the redirect in use. Vouching for another says nothing.
    pub fn is_verified_for(&self, redirect_uri: &str) -> bool {
        self.verified_host.as_deref().is_some_and(|host| host == Destination::of(redirect_uri).shown)
    }

    /// The host that a client proved to speak for by its id, the address of its metadata document.
    /// Its name is only what it calls itself.
    pub fn document_host(&self) -> Option<&str> {
        self.id.strip_prefix("https://")?.split('/').next()
    }

    /// Who it is, in a sentence: with the host where there is one, or else the name alone.
    pub fn introduced(&self) -> String {
        self.document_host().map_or_else(|| self.name.clone(), |host| format!("{} ({host})", self.name))
    }

    pub fn may_redirect_to(&self, requested: &str) -> bool {
        self.redirect_uris.iter().any(|registered| redirect_uri::matches(registered, requested))
    }
}

words! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Grant: ALL, parse {
        AuthorizationCode = "authorization_code",
        RefreshToken = "refresh_token",
    }
}

word_set!(
    /// The grants a client is registered for, possibly none.
    GrantSet of Grant
);

impl GrantSet {
    /// `None` when a name is not a grant.
    pub fn parse(text: &str) -> Option<GrantSet> {
        text.split(' ').filter(|name| !name.is_empty()).map(Grant::parse).collect()
    }
}

words! {
    /// How a client proves itself at the token endpoint.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum AuthMethod: ALL, parse {
        /// A public client: it has no secret and proves itself by PKCE alone.
        #[default]
        None = "none",
        ClientSecretBasic = "client_secret_basic",
        ClientSecretPost = "client_secret_post",
    }
}

impl AuthMethod {
    pub fn has_secret(self) -> bool {
        self != AuthMethod::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grant_sets_print_and_read_back() {
        let (code, refresh) = (Grant::AuthorizationCode, Grant::RefreshToken);
        for grants in [vec![], vec![code], vec![refresh], vec![code, refresh]] {
            let set = GrantSet::from_iter(grants);
            assert_eq!(GrantSet::parse(&set.to_string()), Some(set));
        }
        assert_eq!(GrantSet::parse("implicit"), None);
        assert_eq!(GrantSet::all().to_string(), "authorization_code refresh_token");
    }

    #[test]
    fn auth_methods_read_back() {
        for method in AuthMethod::ALL {
            assert_eq!(AuthMethod::parse(method.as_str()), Some(method));
        }
        assert_eq!(AuthMethod::parse("private_key_jwt"), None);
    }
}
