//! The numbers of mails one by one, which are not counted but found in their histories: those of a
//! few mails, or of the newest of a span.

use std::collections::HashSet;

use serde_json::Value;

use super::breakdown::Group;
use super::counts::{Counted, Counts};
use super::period;
use super::query::Question;
use super::store::json;
use crate::auth::Caller;
use crate::clock::first_id_at;
use crate::db::{DbError, Row, Sql, Stmt, statements};
use crate::error::Error;
use crate::id::{EmailId, WorkspaceId};

/// How many mails are looked at where none are named, and how many events of all of them.
const MOST_MAILS: i64 = 1000;
const MOST_EVENTS: i64 = 20_000;

macro_rules! events {
    ($which:literal) => {
        concat!(
            "SELECT v.email_id, v.number, v.type, v.created_at, e.sender_domain,
                    CASE WHEN v.type IN ('bounced', 'opened', 'clicked') THEN v.detail ELSE NULL END
             FROM email_events v LEFT JOIN emails e ON e.id = v.email_id
             WHERE v.workspace_id = $1 AND v.created_at >= $2 AND v.created_at < $3 AND v.email_id IN (",
            $which,
            ") ORDER BY v.email_id, v.id LIMIT $4"
        )
    };
}

statements! {
    functions {
        fn of_mails(workspace_id: WorkspaceId, since: i64, until: i64, ids: String)
            with [workspace_id, since, until, MOST_EVENTS + 1, ids] = Sql::each(
            events!("SELECT unhex(value) FROM json_each($5)"),
            events!("SELECT CAST(json_array_elements_text(CAST(CAST($5 AS TEXT) AS JSON)) AS UUID)"));
        /// Of the newest mails that were handed in in the span.
        fn of_newest(workspace_id: WorkspaceId, since: i64, until: i64)
            with [workspace_id, since, until, MOST_EVENTS + 1, first_id_at(since), first_id_at(until),
                MOST_MAILS] = Sql::both(events!(
            "SELECT id FROM (SELECT id FROM emails WHERE workspace_id = $1 AND id >= $5 AND id < $6
             ORDER BY id DESC LIMIT $7) AS newest"));
    }
}

/// What happened to the mails that are asked for.
pub async fn groups(caller: &Caller, question: &Question) -> Result<Vec<Group>, Error> {
    let workspace_id = caller.workspace_id();
    let (since, until) = question.span();
    let events = || -> Stmt {
        match &question.email_ids {
            Some(ids) => of_mails(workspace_id, since, until, json(ids)),
            None => of_newest(workspace_id, since, until),
        }
    };
    let rows = caller.read(events).await?;
    if rows.len() as i64 > MOST_EVENTS {
        let message = "More happened to these mails than can be told at once. Narrow the dates or name fewer mails.";
        return Err(Error::InvalidParameter { message: message.into() });
    }
    Ok(of_events(&rows)?)
}

fn of_events(rows: &[Row]) -> Result<Vec<Group>, DbError> {
    let mut groups: Vec<Group> = Vec::new();
    let mut seen: HashSet<(EmailId, Option<i64>, Counted)> = HashSet::new();
    for row in rows {
        let (email_id, number): (EmailId, _) = (row.id(0)?, row.maybe(1, Row::int)?);
        let detail: Option<Value> = row.maybe(5, Row::text)?.and_then(|detail| serde_json::from_str(&detail).ok());
        // What machines open and click is counted apart, by tracking.
        if detail.as_ref().is_some_and(|detail| detail["machine"] == true) {
            continue;
        }
        let mut counts = Counts::default();
        let mut is_first = |what: Counted| seen.insert((email_id, number, what));
        match row.text(2)?.as_str() {
            "sent" => {}
            "delivered" => counts.add(Counted::Delivered, 1),
            "delivery_delayed" => counts.add(Counted::DeliveryDelayed, 1),
            "bounced" => {
                let kind = detail.as_ref().and_then(|detail| detail["bounce"]["type"].as_str());
                counts.add(Counted::bounce(kind), 1);
            }
            "complained" => counts.add(Counted::Complained, 1),
            "suppressed" => counts.add(Counted::Suppressed, 1),
            "failed" => counts.add(Counted::Failed, 1),
            "opened" => {
                counts.add(Counted::Opened, 1);
                counts.add(Counted::UniqueOpened, i64::from(is_first(Counted::UniqueOpened)));
            }
            "clicked" => {
                counts.add(Counted::Clicked, 1);
                counts.add(Counted::UniqueClicked, i64::from(is_first(Counted::UniqueClicked)));
            }
            _ => continue,
        }
        let has_left = matches!(row.text(2)?.as_str(), "sent" | "delivered" | "bounced" | "complained");
        if has_left && is_first(Counted::Sent) {
            counts.add(Counted::Sent, 1);
        }
        let (period, domain) = (period::quarter_of(row.int(3)?), row.maybe(4, Row::text)?.unwrap_or_default());
        groups.push(Group { period, domain, email_id: Some(email_id), broadcast_id: None, counts });
    }
    Ok(groups)
}
