//! Recipients of broadcasts: whether they still want the mail is asked when it leaves, and what is
//! known of them at that moment is what it is made of.

use std::collections::HashMap;
use std::sync::Arc;

use super::Engine;
use super::message::{Message, NoMessage};
use super::settlement::Outcome;
use super::store::{Claimed, Values};
use super::times::Times;
use super::wanted::NotSent;
use crate::app::App;
use crate::broadcasts::{Mailing, Person, Standing};
use crate::db::DbError;
use crate::emails;
use crate::id::{ContactId, EmailId};

const NO_CONTENT: &str = "its contents are not kept any more";

impl Engine {
    /// Gives the recipients of broadcasts what their mails are made of, and tells what becomes of those who do not want
    /// one any more or may not get it yet. Those of one broadcast are looked up together.
    pub(super) async fn look_up_people(&self, claimed: Vec<&mut Claimed>) -> Result<NotSent, DbError> {
        let mut by_broadcast: HashMap<EmailId, Vec<(ContactId, &mut Claimed)>> = HashMap::new();
        for row in claimed {
            if let Some(contact_id) = row.contact_id {
                by_broadcast.entry(row.email_id).or_default().push((contact_id, row));
            }
        }
        let mut not_sent = NotSent::new();
        for (email_id, rows) in by_broadcast {
            let mailing = match self.mailing(email_id).await {
                Ok(Some(mailing)) => mailing,
                // What is wrong with one broadcast holds up its own mail alone: it is told when that is to leave.
                Ok(None) | Err(DbError::Broken(_)) => continue,
                Err(error) => return Err(error),
            };
            let ids: Vec<ContactId> = rows.iter().map(|(id, _)| *id).collect();
            let numbered: Vec<(ContactId, i64)> = rows.iter().map(|(id, row)| (*id, row.number)).collect();
            let mut people = mailing.setting().look_up(&self.app.db, &numbered).await?;
            let times = Times::find(&self.app, &mailing, &ids).await?;
            let tried: Vec<i64> = rows.iter().filter(|(_, row)| row.tries > 0).map(|(_, row)| row.number).collect();
            let mut kept = self.kept_values(email_id, &tried).await?;
            for (contact_id, row) in rows {
                match people.remove(&contact_id) {
                    Some(Person::Gone(reason)) => {
                        row.values = kept.remove(&row.number).map(Arc::new);
                        not_sent.insert(row.place_in_mail(), Outcome::Unwanted(reason.into()));
                    }
                    Some(Person::Here(values)) => {
                        match times.of((email_id, contact_id), &values) {
                            Ok(place) => row.place = place,
                            Err(outcome) => {
                                not_sent.insert(row.place_in_mail(), outcome);
                                continue;
                            }
                        }
                        let fresh = Values { values, are_kept: false };
                        row.values = Some(Arc::new(kept.remove(&row.number).unwrap_or(fresh)));
                    }
                    None => {}
                }
            }
        }
        Ok(not_sent)
    }

    /// What the mails of these recipients were made of, who were tried before.
    pub(super) async fn kept_values(&self, email_id: EmailId, tried: &[i64]) -> Result<HashMap<i64, Values>, DbError> {
        let mut kept = HashMap::new();
        if tried.is_empty() {
            return Ok(kept);
        }
        for row in self.app.db.read(emails::kept_values(email_id, tried)).await? {
            let values = serde_json::from_str(&row.text(1)?);
            let values = values.map_err(|_| DbError::Broken("what a mail was made of".into()))?;
            kept.insert(row.int(0)?, Values { values, are_kept: true });
        }
        Ok(kept)
    }

    /// The mail of a broadcast. Those who want the same one at the same time wait for one of them.
    async fn mailing(&self, id: EmailId) -> Result<Option<Arc<Mailing>>, DbError> {
        let load = async {
            match Mailing::load(&App::clone(&self.app), id).await {
                Ok(Some(mailing)) => Ok(Arc::new(mailing)),
                Ok(None) => Err(None),
                Err(error) => Err(Some(error)),
            }
        };
        match self.mailings.get_or_insert_async(&id, load).await {
            Ok(mailing) => Ok(Some(mailing)),
            Err(None) => Ok(None),
            Err(Some(error)) => Err(error),
        }
    }

    /// The mail of one recipient of a broadcast.
    pub(super) async fn own_message(&self, claimed: &Claimed) -> Result<Message, NoMessage> {
        let mailing = self.mailing(claimed.email_id).await?.ok_or_else(|| NoMessage::Never(NO_CONTENT.into()))?;
        let made_of = claimed.values.as_ref().ok_or_else(|| NoMessage::Never(NO_CONTENT.into()))?;
        let written = mailing.write(claimed.number, &claimed.address, &made_of.values);
        let email = written.map_err(|reason| NoMessage::Never(format!("the mail cannot be written: {reason}")))?;
        self.writer.write(email, Some(claimed.place_in_mail())).await
    }

    /// What becomes of a mail whose broadcast was stopped while it was in hand.
    pub(super) async fn stopped(&self, claimed: &Claimed) -> Result<Option<Outcome>, DbError> {
        if claimed.contact_id.is_none() {
            return Ok(None);
        }
        Ok(match self.standings.of((&self.app.db, &self.app.clock), claimed.lane).await? {
            Standing::GoesOn => None,
            Standing::Paused => Some(Outcome::Paused),
            Standing::Canceled => Some(Outcome::Canceled),
        })
    }
}
