//! What is known of the people that a broadcast goes to, at the moment at which it leaves.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::contacts::{Contact, Declared};
use crate::db::{Db, DbError, Row, among, statements};
use crate::id::{ContactId, EmailId, TopicId, WorkspaceId, json_array};
use crate::subscriptions::{Links, Subscriber, URL_KEYS};

const DELETED: &str = "the contact was deleted";
const UNSUBSCRIBED: &str = "the contact has unsubscribed";
const OPTED_OUT: &str = "the contact wants no mail about this topic";
const NO_TOPIC: &str = "the topic was deleted, and with it what contacts chose of it";

statements! {
    functions {
        fn people(workspace_id: WorkspaceId, topic_id: Option<TopicId>, ids: &[ContactId])
            with [workspace_id, topic_id, json_array(ids.iter().copied())] = among!(
            "SELECT c.id, c.email, c.first_name, c.last_name, c.unsubscribed, c.properties, c.sequence, c.created_at,
                 c.updated_at, COALESCE(s.subscription, t.default_subscription)
             FROM contacts c LEFT JOIN topics t ON t.workspace_id = $1 AND t.id = $2
                 LEFT JOIN topic_subscriptions s
                     ON s.workspace_id = $1 AND s.contact_id = c.id AND s.topic_id = t.id
             WHERE c.workspace_id = $1 AND c.id", ids "$3", "");
    }
}

/// Somebody whom a broadcast goes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Person {
    /// Who wants it, and what the mail is made of.
    Here(Map<String, Value>),
    /// Who does not, and why.
    Gone(&'static str),
}

/// What mail is written with, beside what is known of its recipient.
pub struct Setting<'a> {
    pub workspace_id: WorkspaceId,
    /// The mail that its recipients share; `None` while there is none.
    pub email_id: Option<EmailId>,
    pub topic_id: Option<TopicId>,
    pub declared: &'a [Declared],
    /// What its template is given.
    pub variables: &'a Map<String, Value>,
    pub links: &'a Links,
}

impl Setting<'_> {
    /// Who of these contacts, each with its number among the recipients, is there and wants the mail, in one read.
    pub async fn look_up(&self, db: &Db, of: &[(ContactId, i64)]) -> Result<HashMap<ContactId, Person>, DbError> {
        let ids: Vec<ContactId> = of.iter().map(|(id, _)| *id).collect();
        let numbers: HashMap<ContactId, i64> = of.iter().copied().collect();
        let mut found: HashMap<ContactId, Person> = ids.iter().map(|id| (*id, Person::Gone(DELETED))).collect();
        for row in db.read(people(self.workspace_id, self.topic_id, &ids)).await? {
            let (contact, subscription) = (Contact::read(&row)?, row.maybe(9, Row::text)?);
            let number = numbers.get(&contact.id).copied();
            found.insert(contact.id, self.person(&contact, number, subscription.as_deref()));
        }
        Ok(found)
    }

    /// What is known of a contact, whether it wants the mail or not; `None` where it is gone.
    pub async fn known_of(
        &self,
        db: &Db,
        (id, number): (ContactId, i64),
    ) -> Result<Option<Map<String, Value>>, DbError> {
        let rows = db.read(people(self.workspace_id, self.topic_id, &[id])).await?;
        Ok(rows.first().map(Contact::read).transpose()?.map(|contact| self.values(&contact, Some(number))))
    }

    fn person(&self, contact: &Contact, number: Option<i64>, subscription: Option<&str>) -> Person {
        match (contact.unsubscribed, self.topic_id, subscription) {
            (true, ..) => Person::Gone(UNSUBSCRIBED),
            (_, Some(_), None) => Person::Gone(NO_TOPIC),
            (_, Some(_), Some("opt_out")) => Person::Gone(OPTED_OUT),
            _ => Person::Here(self.values(contact, number)),
        }
    }

    /// What templates can name. What is not known of a contact is null, which is written as nothing.
    pub fn values(&self, contact: &Contact, number: Option<i64>) -> Map<String, Value> {
        let mut seen = contact.json();
        if let Some(fields) = seen.as_object_mut() {
            let mut properties = contact.properties.clone();
            for declared in self.declared {
                let fallback = || declared.fallback.clone().unwrap_or_default();
                properties.entry(declared.key.clone()).or_insert_with(fallback);
            }
            for (key, value) in &properties {
                fields.entry(key.clone()).or_insert_with(|| value.clone());
            }
            fields.insert("properties".into(), Value::Object(properties));
        }
        let mut values = self.variables.clone();
        let name = |name: &Option<String>| name.clone().map_or(Value::Null, Value::String);
        values.insert("FIRST_NAME".into(), name(&contact.first_name));
        values.insert("LAST_NAME".into(), name(&contact.last_name));
        values.insert("EMAIL".into(), Value::String(contact.email.clone()));
        values.insert("contact".into(), seen);
        let Setting { workspace_id, topic_id, .. } = *self;
        let mail = self.email_id.zip(number);
        let url = self.links.unsubscribe_url(&Subscriber { workspace_id, contact_id: contact.id, topic_id, mail });
        for key in URL_KEYS {
            values.insert(key.into(), Value::String(url.clone()));
        }
        values
    }
}
