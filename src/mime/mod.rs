//! Addresses and headers of mail.

use std::fmt;
use std::str::FromStr;

/// An address that mail can go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    text: String,
    at: usize,
    ascii_domain: String,
}

impl Address {
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn local(&self) -> &str {
        &self.text[..self.at]
    }

    pub fn domain(&self) -> &str {
        &self.text[self.at + 1..]
    }

    /// In lower case and ASCII.
    pub fn ascii_domain(&self) -> &str {
        &self.ascii_domain
    }

    /// What all spellings of it have in common.
    pub fn key(&self) -> String {
        self.text.to_lowercase()
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        let wrong = || "must be an address such as `name@example.com`".to_owned();
        let at = text.rfind('@').ok_or_else(wrong)?;
        let is_odd = |char: char| char.is_whitespace() || char.is_control() || "<>()[],;:\"\\@".contains(char);
        let (local, domain) = (&text[..at], &text[at + 1..]);
        if local.is_empty() || domain.is_empty() || local.contains(is_odd) || domain.contains(is_odd) {
            return Err(wrong());
        }
        Ok(Address { at, ascii_domain: domain.to_lowercase(), text: text.to_owned() })
    }
}

/// An address, perhaps with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mailbox {
    pub name: Option<String>,
    pub address: Address,
}

impl FromStr for Mailbox {
    type Err = String;

    fn from_str(text: &str) -> Result<Mailbox, String> {
        match text.trim().strip_suffix('>').and_then(|text| text.rsplit_once('<')) {
            Some((name, address)) => {
                let name = name.trim().trim_matches('"');
                if name.contains(char::is_control) {
                    return Err("must be one line".into());
                }
                let name = (!name.is_empty()).then(|| name.to_owned());
                Ok(Mailbox { name, address: address.parse()? })
            }
            None => Ok(Mailbox { name: None, address: text.trim().parse()? }),
        }
    }
}

impl fmt::Display for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} <{}>", self.address.as_str()),
            None => f.write_str(self.address.as_str()),
        }
    }
}

/// A header of the sender's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    name: String,
    value: String,
}

impl Header {
    pub fn new(name: &str, value: &str) -> Result<Header, String> {
        if name.is_empty() || name.contains(|char: char| !char.is_ascii_graphic() || char == ':') {
            return Err("must have a name of ASCII letters, digits and hyphens".into());
        }
        if value.contains(char::is_control) {
            return Err("must be one line".into());
        }
        Ok(Header { name: name.to_owned(), value: value.to_owned() })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn value(&self) -> &str {
        &self.value
    }
}

/// A key that signs.
pub struct DkimKey {
    bytes: Vec<u8>,
    is_rsa: bool,
}

impl DkimKey {
    pub fn generate_rsa() -> DkimKey {
        let bytes = (0..8).flat_map(|_| crate::secret::random::<32>()).collect();
        DkimKey { bytes, is_rsa: true }
    }

    pub fn generate_ed25519() -> DkimKey {
        DkimKey { bytes: crate::secret::random::<32>().to_vec(), is_rsa: false }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        [&[u8::from(self.is_rsa)], self.bytes.as_slice()].concat()
    }

    pub fn from_bytes(bytes: &[u8]) -> Option<DkimKey> {
        let (first, bytes) = bytes.split_first()?;
        Some(DkimKey { bytes: bytes.to_vec(), is_rsa: *first == 1 })
    }

    pub fn dns_value(&self) -> String {
        use base64::Engine;
        let key = base64::engine::general_purpose::STANDARD.encode(&self.bytes);
        format!("v=DKIM1; k={}; p={key}", self.algorithm())
    }

    pub fn algorithm(&self) -> &'static str {
        if self.is_rsa { "rsa" } else { "ed25519" }
    }
}
