//! Links with which somebody unsubscribes. They name a contact, and what the mail was about, by
//! ids; they are signed, and good for ever: mail is opened years later.

use uuid::Uuid;

use crate::app::App;
use crate::config::PublicUrl;
use crate::credentials::LinkKeys;
use crate::error::Error;
use crate::id::{ContactId, Id, TopicId, WorkspaceId};
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
}

impl Subscriber {
    fn payload(&self) -> Vec<u8> {
        let ids = [Some(self.workspace_id.uuid()), Some(self.contact_id.uuid()), self.topic_id.map(Id::uuid)];
        ids.iter().flatten().flat_map(|id| *id.as_bytes()).collect()
    }

    fn of(payload: &[u8]) -> Option<Subscriber> {
        let (ids, []) = payload.as_chunks::<ID>() else { return None };
        let mut ids = ids.iter().map(|id| Uuid::from_bytes(*id));
        let subscriber = Subscriber {
            workspace_id: ids.next()?.into(),
            contact_id: ids.next()?.into(),
            topic_id: ids.next().map(TopicId::from),
        };
        ids.next().is_none().then_some(subscriber)
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
    pub fn unsubscribe_url(
        &self,
        workspace_id: WorkspaceId,
        contact_id: ContactId,
        topic_id: Option<TopicId>,
    ) -> String {
        let token = self.token(&Subscriber { workspace_id, contact_id, topic_id });
        format!("{}/unsubscribe/{token}", self.base.as_str())
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

    fn subscriber(topic_id: Option<u128>) -> Subscriber {
        let topic_id = topic_id.map(|id| Uuid::from_u128(id).into());
        Subscriber { workspace_id: Uuid::from_u128(1).into(), contact_id: Uuid::from_u128(2).into(), topic_id }
    }

    #[test]
    fn a_link_is_read_as_it_was_written_and_by_nobody_else() {
        let ours = links("https://mail.example", &[1]);
        for (whom, length) in [(subscriber(None), 59), (subscriber(Some(3)), 80)] {
            let url = ours.unsubscribe_url(whom.workspace_id, whom.contact_id, whom.topic_id);
            let token = url.strip_prefix("https://mail.example/unsubscribe/").expect("ours");
            assert_eq!((token.len(), ours.open(token)), (length, Some(whom)));
            assert_eq!(links("https://mail.example", &[2]).open(token), None);
            assert_eq!(links("https://mail.example", &[2, 1]).open(token), Some(whom));
        }
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
            let token = Links::of(&app).await.expect("links").token(&subscriber(None));
            for _ in 0..3 {
                clock.advance(3_650 * DAY);
                app.credentials.signing.rotate(&app.db, &clock).await.expect("a key");
            }
            let later = Links::of(&app).await.expect("links");
            assert_eq!(later.open(&token), Some(subscriber(None)));
            assert_eq!(later.token(&subscriber(None)), token);
            drop(app);
            store.discard().await;
        }
    }

    proptest! {
        #[test]
        fn whatever_is_changed_of_a_link_makes_it_none(
            at in 0_usize..80, change in 1_u8..64, cut in 0_usize..80, topic in proptest::option::of(any::<u128>()),
        ) {
            let ours = links("https://a", &[1, 2]);
            let token = ours.token(&subscriber(topic));
            prop_assert_eq!(ours.open(&token), Some(subscriber(topic)));
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
