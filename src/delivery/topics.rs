//! Mail about a topic that is none of a broadcast's: who wants none gets none, and who is a contact
//! gets it with the link that ends it.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::Engine;
use super::message::{Message, NoMessage};
use super::settlement::Outcome;
use super::store::{Claimed, Values};
use super::wanted::NotSent;
use crate::contacts::{self, TopicRecipient};
use crate::db::DbError;
use crate::error::Error;
use crate::id::{EmailId, TopicId, WorkspaceId};
use crate::subscriptions::{Links, Subscriber, URL_KEYS};

const UNSUBSCRIBED: &str = "the recipient is unsubscribed, and the mail is about a topic";
const OPTED_OUT: &str = "the recipient has not opted in to the topic of the mail, or has opted out of it";

impl Engine {
    /// Adds those who want no mail about the topic of theirs, and gives the others the link that ends it. Most mail is
    /// about none; recipients of broadcasts were asked already.
    pub(super) async fn look_up_topics(
        &self,
        claimed: impl Iterator<Item = &mut Claimed>,
        not_sent: &mut NotSent,
    ) -> Result<(), DbError> {
        let mut by_topic: HashMap<(WorkspaceId, TopicId), Vec<(String, &mut Claimed)>> = HashMap::new();
        for row in claimed {
            if let Some(topic_id) = row.topic_id {
                by_topic.entry((row.workspace_id, topic_id)).or_default().push((row.email_key(), row));
            }
        }
        if by_topic.is_empty() {
            return Ok(());
        }
        let links = self.links().await?;
        for ((workspace_id, topic_id), rows) in by_topic {
            let keys: Vec<String> = rows.iter().map(|(key, _)| key.clone()).collect();
            let found = self.app.db.read(contacts::topic_recipients(workspace_id, topic_id, &keys)).await?;
            let found = found.iter().map(TopicRecipient::read).collect::<Result<Vec<_>, _>>()?;
            let mut kept = self.kept_for(rows.iter().map(|(_, row)| &**row)).await?;
            for (key, row) in rows {
                let whom = found.iter().find(|one| one.email_key == key);
                if let Some(whom) = whom.filter(|whom| whom.unsubscribed || whom.is_opted_out) {
                    let reason = if whom.unsubscribed { UNSUBSCRIBED } else { OPTED_OUT };
                    not_sent.insert(row.place_in_mail(), Outcome::Unwanted(reason.into()));
                }
                let (topic, mail) = (Some(topic_id), Some(row.place_in_mail()));
                let subscriber = |contact_id| Subscriber { workspace_id, contact_id, topic_id: topic, mail };
                let contact_id = whom.and_then(|whom| whom.contact_id);
                let url = contact_id.map(|contact_id| links.unsubscribe_url(&subscriber(contact_id)));
                let fresh = || Values { values: values_of(url), are_kept: false };
                // Who becomes a contact between two attempts gets what was tried first, to the byte.
                row.values = Some(Arc::new(kept.remove(&row.place_in_mail()).unwrap_or_else(fresh)));
            }
        }
        Ok(())
    }

    /// What mails were made of that were tried before.
    async fn kept_for(&self, rows: impl Iterator<Item = &Claimed>) -> Result<HashMap<(EmailId, i64), Values>, DbError> {
        let mut tried: HashMap<EmailId, Vec<i64>> = HashMap::new();
        for row in rows.filter(|row| row.tries > 0) {
            tried.entry(row.email_id).or_default().push(row.number);
        }
        let mut kept = HashMap::new();
        for (email_id, numbers) in tried {
            let values = self.kept_values(email_id, &numbers).await?;
            kept.extend(values.into_iter().map(|(number, values)| ((email_id, number), values)));
        }
        Ok(kept)
    }

    async fn links(&self) -> Result<Links, DbError> {
        Links::of(&self.app).await.map_err(|error: Error| DbError::Unavailable(error.message().into_owned()))
    }

    /// The mail of one recipient, with the link that ends mail about its topic; `None` where it needs none.
    pub(super) async fn message_about_topic(&self, claimed: &Claimed) -> Result<Option<Message>, NoMessage> {
        let made_of = claimed.values.as_ref().map(|values| &values.values);
        let Some(url) = made_of.and_then(|values| values.get(URL_KEYS[0])).and_then(Value::as_str) else {
            return Ok(None);
        };
        let headers = self.links().await?.headers(url);
        self.writer.write_with(claimed, &headers).await.map(Some)
    }
}

fn values_of(url: Option<String>) -> Map<String, Value> {
    url.map(|url| (URL_KEYS[0].to_owned(), Value::String(url))).into_iter().collect()
}
