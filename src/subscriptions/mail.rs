//! The mail by whose link somebody unsubscribes: it is counted for its domain and its broadcast, and stands in its
//! history, once for each recipient.

use serde_json::json;

use super::links::Subscriber;
use crate::app::App;
use crate::contacts::UnsubscribedBy;
use crate::db::{Batch, DbError, Sql, from_row, statements};
use crate::email_metrics::{Counted, Tally};
use crate::id::{ContactId, EmailEventId, EmailId, Id, WorkspaceId, own_id};

statements! {
    functions {
        fn find(workspace_id: WorkspaceId, email_id: EmailId, number: i64)
            with [workspace_id, email_id, number, own_id(email_id, number)] = Sql::both(
            "SELECT e.sender_domain, r.contact_id, r.address, EXISTS
                 (SELECT 1 FROM email_events v
                  WHERE v.email_id IN ($2, $4) AND v.number = $3 AND v.type = 'unsubscribed')
             FROM emails e JOIN email_recipients r ON r.email_id = e.id AND r.number = $3
             WHERE e.workspace_id = $1 AND e.id = $2");
        fn tell(workspace_id: WorkspaceId, email_id: EmailId, id: EmailEventId, number: i64, detail: String, now: i64)
            = Sql::both(
            "INSERT INTO email_events (workspace_id, email_id, id, number, type, detail, created_at)
             VALUES ($1, $2, $3, $4, 'unsubscribed', $5, $6)");
    }
}

/// What is known of one recipient's mail.
struct Mail {
    sender_domain: String,
    /// Of a broadcast's recipient.
    contact_id: Option<ContactId>,
    address: String,
    is_told: bool,
}

from_row!(Mail { sender_domain, contact_id, address, is_told });

/// What is written down where somebody unsubscribes by a link.
pub struct Unsubscribing<'a> {
    app: &'a App,
    subscriber: &'a Subscriber,
    mail: Option<((EmailId, i64), Mail)>,
    by: UnsubscribedBy,
}

impl<'a> Unsubscribing<'a> {
    pub async fn of(
        app: &'a App,
        subscriber: &'a Subscriber,
        by: UnsubscribedBy,
    ) -> Result<Unsubscribing<'a>, DbError> {
        let mail = match subscriber.mail {
            None => None,
            Some((email_id, number)) => {
                let rows = app.db.read(find(subscriber.workspace_id, email_id, number)).await?;
                rows.first().map(Mail::read).transpose()?.map(|mail| ((email_id, number), mail))
            }
        };
        Ok(Unsubscribing { app, subscriber, mail, by })
    }

    /// Adds it to the commit.
    pub fn add_to(&self, batch: &mut Batch) {
        let (workspace_id, clock) = (self.subscriber.workspace_id, &self.app.clock);
        let mut tally = Tally::default();
        match &self.mail {
            // A link of older mail, or its mail is gone.
            None => tally.count("", None, Counted::Unsubscribed),
            Some((_, mail)) if mail.is_told => {}
            Some(((email_id, number), mail)) => {
                let broadcast_id = mail.contact_id.map(|_| email_id.uuid().into());
                let told_as = if broadcast_id.is_some() { own_id(*email_id, *number) } else { *email_id };
                let detail = json!({"to": mail.address, "by": self.by.as_str()}).to_string();
                batch.push(tell(workspace_id, told_as, clock.ordered_id(), *number, detail, clock.now()));
                tally.count(&mail.sender_domain, broadcast_id, Counted::Unsubscribed);
            }
        }
        tally.add_to(batch, workspace_id, clock);
    }
}
