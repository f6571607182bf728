//! Tells webhooks of grants that end. What ends is told by the store itself, from the rows that are about to change:
//! so many may end in one commit, and who listens differs between their workspaces.

use super::{Reason, Which};
use crate::clock::{Clock, rfc3339};
use crate::db::{Batch, Sql, Value, statements};
use crate::id::WebhookEventId;

/// The type of the event, and its bit among those that webhooks listen to; `webhooks` holds both to its own list.
pub const REVOKED: (&str, i64) = ("oauth.grant.revoked", 1 << 28);

/// Of each grant that is about to end the id of its event: the first ten bytes of one that was made for this commit,
/// which say when it was, and the last six of the grant's.
macro_rules! event_id {
    (sqlite) => {
        "unhex(substr(hex($3), 1, 20) || substr(hex(g.id), 21))"
    };
    (postgres) => {
        "CAST(substr(CAST(CAST($3 AS UUID) AS TEXT), 1, 23) || substr(CAST(g.id AS TEXT), 24) AS UUID)"
    };
}

/// The id of a grant as text.
macro_rules! grant_id {
    (sqlite) => {
        "lower(substr(hex(g.id), 1, 8) || '-' || substr(hex(g.id), 9, 4) || '-' || substr(hex(g.id), 13, 4) || '-'
             || substr(hex(g.id), 17, 4) || '-' || substr(hex(g.id), 21))"
    };
    (postgres) => {
        "CAST(g.id AS TEXT)"
    };
}

/// Those that stand, in one workspace or in all.
macro_rules! standing {
    ($which:literal) => {
        concat!("g.", $which, " = $1 AND g.workspace_id = COALESCE($2, g.workspace_id) AND g.revoked_at IS NULL")
    };
}

macro_rules! events {
    ($engine:ident, $which:literal) => {
        concat!(
            "INSERT INTO webhook_events (id, workspace_id, type, payload, created_at)
             SELECT ",
            event_id!($engine),
            ", g.workspace_id, $4, $5 || ",
            grant_id!($engine),
            " || $6, CAST($7 AS BIGINT) FROM oauth_grants g WHERE ",
            standing!($which),
            " AND EXISTS (SELECT 1 FROM webhooks w
                          WHERE w.workspace_id = g.workspace_id AND w.status = 'enabled' AND w.events & $8 <> 0)"
        )
    };
    ($which:literal) => {
        Sql::each(events!(sqlite, $which), events!(postgres, $which))
    };
}

macro_rules! deliveries {
    ($engine:ident, $which:literal) => {
        concat!(
            "INSERT INTO webhook_deliveries (webhook_id, event_id, workspace_id, destination, due_at)
             SELECT w.id, ",
            event_id!($engine),
            ", w.workspace_id, w.destination, CAST($4 AS BIGINT)
             FROM oauth_grants g JOIN webhooks w ON w.workspace_id = g.workspace_id
             WHERE w.status = 'enabled' AND w.events & $5 <> 0 AND ",
            standing!($which)
        )
    };
    ($which:literal) => {
        Sql::each(deliveries!(sqlite, $which), deliveries!(postgres, $which))
    };
}

statements! {
    EVENT_OF_GRANT = events!("id");
    EVENTS_OF_USER = events!("user_id");
    EVENTS_OF_CLIENT = events!("client_id");
    DELIVERIES_OF_GRANT = deliveries!("id");
    DELIVERIES_OF_USER = deliveries!("user_id");
    DELIVERIES_OF_CLIENT = deliveries!("client_id");
}

/// Belongs into the commit that ends the grants, when they are locked and stand still, and behind what disables the
/// webhooks of their apps: these are told nothing any more.
pub(super) fn tell(which: &Which<'_>, reason: Reason, clock: &Clock, now: i64) -> Batch {
    let (events, deliveries) = match which {
        Which::One(..) => (EVENT_OF_GRANT, DELIVERIES_OF_GRANT),
        Which::OfUser(..) => (EVENTS_OF_USER, DELIVERIES_OF_USER),
        Which::OfClient(_) => (EVENTS_OF_CLIENT, DELIVERIES_OF_CLIENT),
    };
    let [named, within] = which.params();
    let ((kind, bit), at) = (REVOKED, rfc3339(now));
    let (before, behind) = (
        format!(r#"{{"type":"{kind}","created_at":"{at}","data":{{"id":""#),
        format!(r#"","revoked_at":"{at}","revoked_reason":"{}"}}}}"#, reason.as_str()),
    );
    let id: Value = clock.ordered_id::<WebhookEventId>().into();
    let (one, of) = (named.clone(), within.clone());
    let told = [one, of, id.clone(), kind.into(), before.into(), behind.into(), now.into(), bit.into()];
    Batch::from(events.with(told)).and(deliveries.with([named, within, id, clock.steady().into(), bit.into()]))
}
