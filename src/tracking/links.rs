//! The links and the picture by which a mail tells what became of it. Each names its mail and recipient, and a link where
//! it leads; both are signed, so they lead nowhere that the author of the mail did not write.

use std::sync::{Arc, PoisonError, RwLock};

use uuid::Uuid;

use super::rewrite::Rewriter;
use crate::app::App;
use crate::clock::SECOND;
use crate::config::PublicUrl;
use crate::credentials::LinkKeys;
use crate::db::DbError;
use crate::domains::Tracking;
use crate::id::{EmailId, Id};

const PURPOSE: &str = "links of tracked mail";

/// An address that is longer is left as it is: what it would become is too long for some mail programs.
const LONGEST: usize = 1_500;

/// How long nothing is asked anew because of a link that none of the keys has signed.
const JUST_READ: i64 = SECOND;

/// How many bytes the place of a recipient takes.
const PLACE: usize = 20;

/// Which mail, and which of its recipients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    pub email_id: EmailId,
    pub number: u32,
}

impl Place {
    pub fn new(email_id: EmailId, number: i64) -> Option<Place> {
        Some(Place { email_id, number: u32::try_from(number).ok()? })
    }

    fn bytes(self) -> [u8; PLACE] {
        let mut bytes = [0; PLACE];
        bytes[..16].copy_from_slice(self.email_id.uuid().as_bytes());
        bytes[16..].copy_from_slice(&self.number.to_be_bytes());
        bytes
    }

    fn of(bytes: &[u8; PLACE]) -> Place {
        let number = u32::from_be_bytes([bytes[16], bytes[17], bytes[18], bytes[19]]);
        let id: [u8; 16] = std::array::from_fn(|at| bytes[at]);
        Place { email_id: Uuid::from_bytes(id).into(), number }
    }
}

/// What signs the links, read once; it never changes but for keys that are added. Clones share it.
#[derive(Clone, Default)]
pub struct Keys(Arc<RwLock<Option<(LinkKeys, i64)>>>);

impl Keys {
    pub async fn get(&self, app: &App) -> Result<LinkKeys, DbError> {
        match self.known() {
            Some((keys, _)) => Ok(keys),
            None => self.load(app).await,
        }
    }

    /// What stands in a link of ours. Another process may have signed it with a key that is new.
    pub async fn open(&self, app: &App, token: &str) -> Result<Option<(Place, String)>, DbError> {
        if let Some(found) = read(&self.get(app).await?, token) {
            return Ok(Some(found));
        }
        let now = app.clock.steady();
        match self.known().is_some_and(|(_, read_at)| now - read_at < JUST_READ) {
            true => Ok(None),
            false => Ok(read(&self.load(app).await?, token)),
        }
    }

    fn known(&self) -> Option<(LinkKeys, i64)> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn load(&self, app: &App) -> Result<LinkKeys, DbError> {
        let keys = LinkKeys::load(&app.credentials.signing, (&app.db, &app.clock), PURPOSE).await?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some((keys.clone(), app.clock.steady()));
        Ok(keys)
    }
}

/// The place, and where the link leads: nowhere, for the picture.
fn read(keys: &LinkKeys, token: &str) -> Option<(Place, String)> {
    let payload = keys.open(token)?;
    let (place, target) = payload.split_first_chunk::<PLACE>()?;
    Some((Place::of(place), String::from_utf8(target.to_vec()).ok()?))
}

/// Writes the links of one recipient's mail.
pub struct LinkWriter {
    keys: LinkKeys,
    /// Where they lead: scheme, host and path.
    base: String,
    place: Place,
    opens: bool,
    clicks: bool,
    /// Addresses that stay as they are.
    untouched: Vec<String>,
}

impl LinkWriter {
    /// `headers` are those of the mail: what they say of unsubscribing leads where it says.
    pub fn new(
        keys: LinkKeys,
        base: &PublicUrl,
        tracking: &Tracking,
        place: Place,
        headers: &[(String, String)],
    ) -> LinkWriter {
        let unsubscribing = headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("List-Unsubscribe"));
        let named = unsubscribing.flat_map(|(_, value)| value.split(['<', '>', ',', ' '])).map(str::to_owned);
        LinkWriter {
            keys,
            base: base_of(base, tracking.host.as_deref()),
            place,
            opens: tracking.opens,
            clicks: tracking.clicks,
            untouched: named
                .filter(|address| is_web(address))
                .chain([format!("{}/unsubscribe/", base.as_str())])
                .collect(),
        }
    }

    pub fn rewriter(self: &Arc<LinkWriter>) -> Rewriter {
        let (links, picture) = (self.clone(), if self.opens { self.picture() } else { String::new() });
        Rewriter::new(Box::new(move |target| links.link(target)), picture)
    }

    /// What leads to a target by way of us, if that is to be known.
    fn link(&self, target: &str) -> Option<String> {
        let shown = target.trim_matches(|c: char| c <= ' ');
        let is_untouched = |address: &String| shown.starts_with(address.as_str());
        if !self.clicks || shown.len() > LONGEST || !is_web(shown) || self.untouched.iter().any(is_untouched) {
            return None;
        }
        let payload = [&self.place.bytes()[..], shown.as_bytes()].concat();
        Some(format!("{}/t/link/{}", self.base, self.keys.token(&payload)))
    }

    fn picture(&self) -> String {
        let token = self.keys.token(&self.place.bytes());
        format!("<img src=\"{}/t/image/{token}\" width=\"1\" height=\"1\" alt=\"\" style=\"border:0\">", self.base)
    }
}

/// Where links lead: to the domain's own host, by the scheme, port and path at which we are reached, or to us.
fn base_of(base: &PublicUrl, host: Option<&str>) -> String {
    let Some(host) = host else { return base.as_str().to_owned() };
    let scheme = if base.is_https() { "https" } else { "http" };
    let authority = base.authority();
    let port =
        authority.rfind(':').filter(|colon| !authority[*colon..].contains(']')).map_or("", |at| &authority[at..]);
    format!("{scheme}://{host}{port}{}", base.path())
}

fn is_web(address: &str) -> bool {
    let begins = |scheme: &str| address.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    begins("https://") || begins("http://")
}

/// A target as a header field may carry it: what browsers leave out of an address is left out, and what they encode is
/// encoded.
pub fn location(target: &str) -> String {
    let mut out = String::with_capacity(target.len());
    for byte in target.bytes() {
        match byte {
            b'\t' | b'\n' | b'\r' => {}
            0x21..=0x7e => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn writer(headers: &[(String, String)]) -> Arc<LinkWriter> {
        let (keys, base) = (LinkKeys::of(&[[1; 32]]), "https://mail.example/post".parse().expect("an address"));
        let tracking = Tracking { opens: true, clicks: true, host: None };
        Arc::new(LinkWriter::new(keys, &base, &tracking, place(), headers))
    }

    fn place() -> Place {
        Place { email_id: Uuid::from_u128(7).into(), number: 3 }
    }

    fn opened(url: &str, secret: u8) -> Option<(Place, String)> {
        let token = url.strip_prefix("https://mail.example/post/t/link/").expect("a link of ours");
        read(&LinkKeys::of(&[[secret; 32]]), token)
    }

    #[test]
    fn a_link_leads_where_its_author_wrote_and_nobody_else_can_make_one() {
        let url = writer(&[]).link(" https://a.example/?x=1&y=ü#ä b\n").expect("a link");
        assert_eq!(opened(&url, 1), Some((place(), "https://a.example/?x=1&y=ü#ä b".into())));
        assert_eq!(opened(&url, 2), None);
    }

    #[test]
    fn what_is_no_page_or_ends_what_somebody_gets_is_left_alone() {
        let header = ("list-unsubscribe".to_owned(), "<mailto:u@a.example>, <https://a.example/out?x>".to_owned());
        let links = writer(&[header]);
        for target in [
            "mailto:a@b.example",
            "tel:+49",
            "#top",
            "/path",
            "",
            "javascript:alert(1)",
            "https:/x",
            "https://a.example/out?x",
            "https://mail.example/post/unsubscribe/abc",
            &format!("https://a.example/{}", "x".repeat(LONGEST)),
        ] {
            assert_eq!(links.link(target), None, "{target}");
        }
        assert!(links.link("HTTPS://a.example/").is_some());
    }

    #[test]
    fn a_host_of_its_own_takes_scheme_port_and_path_of_ours() {
        for (base, links) in [
            ("https://mail.example", "https://links.a.example"),
            ("http://mail.example:8080/post", "http://links.a.example:8080/post"),
            ("http://[::1]:80", "http://links.a.example:80"),
        ] {
            assert_eq!(base_of(&base.parse().expect("an address"), Some("links.a.example")), links);
        }
    }

    #[test]
    fn a_location_is_one_line_of_ascii() {
        assert_eq!(
            location("https://a/ü?x=1&y=%20 \"z\"\r\nSet-Cookie: a\t#€"),
            "https://a/%C3%BC?x=1&y=%20%20\"z\"Set-Cookie:%20a#%E2%82%AC"
        );
    }

    proptest! {
        #[test]
        fn whatever_is_changed_of_a_link_makes_it_none(target in "https://[a-z]{1,8}/\\PC{0,20}", at in any::<usize>(), change in 1_u8..64) {
            let url = writer(&[]).link(&target).expect("a link");
            prop_assert_eq!(opened(&url, 1).expect("ours").1, target.trim_matches(|c: char| c <= ' '));
            let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
            let begin = "https://mail.example/post/t/link/".len();
            let mut bytes = url.clone().into_bytes();
            let at = begin + at % (bytes.len() - begin);
            let place = alphabet.iter().position(|byte| *byte == bytes[at]).unwrap_or_default();
            bytes[at] = alphabet[(place + usize::from(change)) % 64];
            prop_assert_eq!(opened(&String::from_utf8(bytes).expect("text"), 1), None);
        }
    }
}
