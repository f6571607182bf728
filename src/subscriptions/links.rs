//! Links with which somebody unsubscribes. They name a contact, what the mail was about, and the mail
//! itself, by ids; they are signed, and good for ever: mail is opened years later.

use uuid::Uuid;

use crate::app::App;
use crate::config::PublicUrl;
use crate::credentials::LinkKeys;
use crate::error::Error;
use crate::id::{ContactId, EmailId, Id, TopicId, WorkspaceId};
use crate::mime::Header;

const PURPOSE: &str = "links to unsubscribe";

const ID: usize = 16;

/// Whom a link is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subscriber {
    pub workspace_id: WorkspaceId,
    pub contact_id: ContactId,
    /// What the mail was about that had the link.
    pub topic_id: Option<TopicId>,
    /// That mail, and which of its recipients the contact is. Links of older mail do not say it.
    pub mail: Option<(EmailId, i64)>,
}

impl Subscriber {
    fn payload(&self) -> Vec<u8> {
        let topic = match self.mail {
            None => self.topic_id.map(Id::uuid),
            Some(_) => Some(self.topic_id.map_or(Uuid::nil(), Id::uuid)),
        };
        let ids =
            [Some(self.workspace_id.uuid()), Some(self.contact_id.uuid()), topic, self.mail.map(|of| of.0.uuid())];
        let mut payload: Vec<u8> = ids.iter().flatten().flat_map(|id| *id.as_bytes()).collect();
        payload.extend(self.mail.iter().flat_map(|(_, number)| (*number as u32).to_be_bytes()));
        payload
    }

    fn of(payload: &[u8]) -> Option<Subscriber> {
        let (ids, rest) = payload.as_chunks::<ID>();
        let id = |at: usize| ids.get(at).map(|id| Uuid::from_bytes(*id));
        let topic_id = id(2).filter(|id| !id.is_nil()).map(TopicId::from);
        let mail = match (ids.len(), rest) {
            (2 | 3, []) => None,
            (4, rest) => Some((id(3)?.into(), u32::from_be_bytes(rest.try_into().ok()?).into())),
            _ => return None,
        };
        Some(Subscriber { workspace_id: id(0)?.into(), contact_id: id(1)?.into(), topic_id, mail })
    }
}

/// Makes the links of an instance, and reads them. Clones share it.
#[derive(Clone)]
pub struct Links {
    base: PublicUrl,
    keys: LinkKeys,
}

impl Links {
    pub async fn of(app: &App) -> Result<Links, Error> {
        let keys = LinkKeys::load(&app.credentials.signing, (&app.db, &app.clock), PURPOSE).await?;
        Ok(Links { base: app.addresses.base.clone(), keys })
    }

    /// Where a contact unsubscribes from a topic, or from everything.
    pub fn unsubscribe_url(&self, subscriber: &Subscriber) -> String {
        format!("{}/unsubscribe/{}", self.base.as_str(), self.token(subscriber))
    }

    /// What tells mail programs of a link, as RFC 2369 and RFC 8058 want it. The one click is for
    /// HTTPS alone.
    pub fn headers(&self, url: &str) -> Vec<Header> {
        let one_click = self.base.is_https().then_some(("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"));
        let link = format!("<{url}>");
        let fields = [("List-Unsubscribe", link.as_str())].into_iter().chain(one_click);
        fields.filter_map(|(name, value)| Header::new(name, value).ok()).collect()
    }

    fn token(&self, subscriber: &Subscriber) -> String {
        self.keys.token(&subscriber.payload())
    }

    /// Whom the end of a link is about, if we made it.
    pub fn open(&self, token: &str) -> Option<Subscriber> {
        Subscriber::of(&self.keys.open(token)?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clock::{Clock, DAY};
    use crate::testing::{NOW, Store};

    fn links(base: &str, secrets: &[u8]) -> Links {
        let secrets: Vec<_> = secrets.iter().map(|byte| [*byte; 32]).collect();
        Links { base: base.parse().expect("an address"), keys: LinkKeys::of(&secrets) }
    }

    fn subscriber(topic_id: Option<u128>, mail: Option<(u128, u32)>) -> Subscriber {
        let topic_id = topic_id.map(|id| Uuid::from_u128(id).into());
        let mail = mail.map(|(id, number)| (Uuid::from_u128(id).into(), number.into()));
        Subscriber { workspace_id: Uuid::from_u128(1).into(), contact_id: Uuid::from_u128(2).into(), topic_id, mail }
    }

    #[test]
    fn a_link_is_read_as_it_was_written_and_by_nobody_else() {
        let ours = links("https://mail.example", &[1]);
        let mail = Some((4, 5));
        for (whom, length) in [
            (subscriber(None, None), 59),
            (subscriber(Some(3), None), 80),
            (subscriber(None, mail), 107),
            (subscriber(Some(3), mail), 107),
        ] {
            let url = ours.unsubscribe_url(&whom);
            let token = url.strip_prefix("https://mail.example/unsubscribe/").expect("ours");
            assert_eq!((token.len(), ours.open(token)), (length, Some(whom)));
            assert_eq!(links("https://mail.example", &[2]).open(token), None);
            assert_eq!(links("https://mail.example", &[2, 1]).open(token), Some(whom));
        }
    }

    /// As they stand in mail that was sent before links named it.
    #[test]
    fn links_of_older_mail_work_for_ever() {
        let ours = links("https://mail.example", &[1]);
        let about_nothing = "AAAAAAAAAAAAAAAAAAAAAQAAAAAAAAAAAAAAAAAAAAIpoNBqGkBcpn2Gjdg";
        let about_topic = "AAAAAAAAAAAAAAAAAAAAAQAAAAAAAAAAAAAAAAAAAAIAAAAAAAAAAAAAAAAAAAADaXEabI7vXdfhyKvK";
        assert_eq!(ours.open(about_nothing), Some(subscriber(None, None)));
        assert_eq!(ours.open(about_topic), Some(subscriber(Some(3), None)));
    }

    #[test]
    fn one_click_is_offered_over_https_alone() {
        let names = |base: &str| {
            let headers = links(base, &[1]).headers("https://mail.example/unsubscribe/x");
            headers.iter().map(|header| format!("{}: {}", header.name(), header.value())).collect::<Vec<_>>()
        };
        let link = "List-Unsubscribe: <https://mail.example/unsubscribe/x>";
        assert_eq!(names("https://a"), [link, "List-Unsubscribe-Post: List-Unsubscribe=One-Click"]);
        assert_eq!(names("http://a"), [link]);
    }

    #[tokio::test]
    async fn a_contacts_link_stays_the_same_and_good_for_ever() {
        for store in Store::each().await {
            let clock = Clock::fixed(NOW);
            let app = store.open(&[], clock.clone()).await;
            let whom = subscriber(None, Some((4, 5)));
            let token = Links::of(&app).await.expect("links").token(&whom);
            for _ in 0..3 {
                clock.advance(3_650 * DAY);
                app.credentials.signing.rotate(&app.db, &clock).await.expect("a key");
            }
            let later = Links::of(&app).await.expect("links");
            assert_eq!(later.open(&token), Some(whom));
            assert_eq!(later.token(&whom), token);
            drop(app);
            store.discard().await;
        }
    }

    proptest! {
        #[test]
        fn whatever_is_changed_of_a_link_makes_it_none(
            at in 0_usize..107, change in 1_u8..64, cut in 0_usize..107, topic in proptest::option::of(1_u128..),
            mail in proptest::option::of(any::<(u128, u32)>()),
        ) {
            let ours = links("https://a", &[1, 2]);
            let token = ours.token(&subscriber(topic, mail));
            prop_assert_eq!(ours.open(&token), Some(subscriber(topic, mail)));
            let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
            let mut bytes = token.clone().into_bytes();
            let at = at % bytes.len();
            let place = alphabet.iter().position(|byte| *byte == bytes[at]).unwrap_or_default();
            bytes[at] = alphabet[(place + usize::from(change)) % 64];
            prop_assert_eq!(ours.open(&String::from_utf8_lossy(&bytes)), None);
            prop_assert_eq!(ours.open(&token[..cut % token.len()]), None);
            prop_assert_eq!(ours.open(&format!("{token}A")), None);
        }

        #[test]
        fn no_text_is_a_link_by_chance(token in "[A-Za-z0-9_=-]{0,120}|\\PC{0,40}") {
            prop_assert_eq!(links("https://a", &[1]).open(&token), None);
        }
    }
}
