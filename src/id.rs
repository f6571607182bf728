//! Ids: UUIDs, one type for each kind of thing, so that none is taken for another.
//! The store keeps their 16 bytes; everybody else sees them as text, hyphenated and
//! in lower case.

use std::fmt;
use std::str::FromStr;

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The id of some kind of thing.
pub trait Id: Copy + fmt::Display + FromStr + From<Uuid> {
    /// What answers call a thing of this kind.
    const OBJECT: &'static str;

    fn uuid(self) -> Uuid;
}

/// One of which it is not known of what kind, or that is nobody's id.
impl Id for Uuid {
    const OBJECT: &'static str = "object";

    fn uuid(self) -> Uuid {
        self
    }
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident of $object:literal;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(#[serde(deserialize_with = "read")] Uuid);

        impl Id for $name {
            const OBJECT: &'static str = $object;

            fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl From<Uuid> for $name {
            fn from(id: Uuid) -> $name {
                $name(id)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<$name, uuid::Error> {
                Uuid::try_parse(text).map($name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.as_hyphenated().fmt(f)
            }
        }
    )+};
}

ids! {
    WorkspaceId of "workspace";
    UserId of "user";
    InvitationId of "invitation";
    ApiKeyId of "api_key";
    GrantId of "oauth_grant";
    AuthorizationRequestId of "authorization_request";
    /// Of an access token, its `jti`.
    TokenId of "access_token";
    ContactId of "contact";
    /// Of a contact property that was declared.
    PropertyId of "contact_property";
    ImportId of "contact_import";
    SegmentId of "segment";
    TopicId of "topic";
    /// The id of its mail, too: [`EmailId`].
    BroadcastId of "broadcast";
    /// Of a form with which strangers subscribe.
    FormId of "form";
    /// Of an event's definition.
    EventId of "event";
    /// Of one time that an event happened.
    OccurrenceId of "occurrence";
    AutomationId of "automation";
    RunId of "automation_run";
    MessageId of "message";
    EmailId of "email";
    /// Of a mail that came in.
    ReceivedEmailId of "email";
    AttachmentId of "attachment";
    /// Of one thing that happened to an email.
    EmailEventId of "email_event";
    DomainId of "domain";
    SuppressionId of "suppression";
    TemplateId of "template";
    TemplateVersionId of "template_version";
    WebhookId of "webhook";
    WebhookEventId of "webhook_event";
    /// Of one attempt to deliver an event to a webhook.
    WebhookAttemptId of "webhook_attempt";
    /// Of what a host of an assistant names from its greeting on.
    AssistantSessionId of "session";
    /// Of a request to the API that was noted.
    LogId of "log";
}

/// Ids as a JSON array that both engines read, as `among!` wants it.
pub fn json_array<T: Id>(ids: impl IntoIterator<Item = T>) -> String {
    ids.into_iter().map(|id| id.uuid().as_simple().to_string()).collect::<serde_json::Value>().to_string()
}

/// Mails of a broadcast share a row: its id ends in these 32 bits, which are zero, and each recipient's own mail has that
/// id with the recipient's number in them.
const NUMBER: u128 = 0xffff_ffff;

/// An id with room for the numbers of recipients.
pub fn shared_id<T: Id>(id: T) -> T {
    T::from(Uuid::from_u128(id.uuid().as_u128() & !NUMBER))
}

/// The id of a recipient's own mail.
pub fn own_id(shared: EmailId, number: i64) -> EmailId {
    EmailId::from(Uuid::from_u128(shared.uuid().as_u128() | number as u128 & NUMBER))
}

/// The shared id and the number that an own id would be made of.
pub fn parts_of(own: EmailId) -> (EmailId, i64) {
    (shared_id(own), (own.uuid().as_u128() & NUMBER) as i64)
}

/// An id from its text; what is none is told in the words of the API's errors.
fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Uuid, D::Error> {
    deserializer.deserialize_str(Text)
}

struct Text;

impl Visitor<'_> for Text {
    type Value = Uuid;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Uuid, E> {
        Uuid::try_parse(text).map_err(|_| E::custom("must be an id, which is a UUID"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "01890000-0000-7000-8000-00000000000a";

    #[test]
    fn an_id_is_shown_in_one_spelling_however_it_is_written() {
        for text in [TEXT, "01890000-0000-7000-8000-00000000000A", "{01890000-0000-7000-8000-00000000000a}"] {
            let id: ContactId = text.parse().expect(text);
            assert_eq!(id.to_string(), TEXT);
            assert_eq!(serde_json::to_string(&id).expect("text"), format!("\"{TEXT}\""));
            assert_eq!(serde_json::from_str::<ContactId>(&format!("\"{text}\"")).expect(text), id);
        }
        assert!("someone".parse::<ContactId>().is_err());
    }

    #[test]
    fn an_own_id_tells_whose_it_is() {
        let shared: EmailId = shared_id(TEXT.parse().expect("an id"));
        for number in [1, 2, 100_000, i64::from(u32::MAX)] {
            let own = own_id(shared, number);
            assert_eq!(parts_of(own), (shared, number));
            assert_eq!(own.uuid().get_version_num(), 7);
        }
        assert_eq!(parts_of(shared), (shared, 0));
    }
}
