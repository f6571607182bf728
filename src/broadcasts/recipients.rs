//! Who gets a broadcast, and what became of that.

use std::collections::HashMap;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::Broadcasts;
use super::progress::ClickedLink;
use super::routes::find;
use crate::auth::Caller;
use crate::clock::rfc3339;
use crate::db::{DbError, Row};
use crate::emails::{self, Listed, State as MailState, Wanted};
use crate::id::{BroadcastId, ContactId, EmailId};
use crate::tracking;
use crate::web::{JsonResult, List, Newest, Page, PathId, Query};

/// How many links are listed.
const MOST_LINKS: i64 = 1_000;

pub fn router() -> OpenApiRouter<Broadcasts> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(clicked_links))
}

/// What became of recipients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = BroadcastRecipientType)]
pub enum Kind {
    Queued,
    DeliveryDelayed,
    Uncertain,
    Sent,
    Delivered,
    Opened,
    Clicked,
    Bounced,
    Complained,
    /// Whose contact has unsubscribed by now.
    Unsubscribed,
    Suppressed,
    Failed,
    Canceled,
}

impl Kind {
    /// By its name, as the API has it.
    pub fn named(word: &str) -> Option<Kind> {
        serde_json::from_value(word.into()).ok()
    }

    /// The states of those it means. Who has opened a mail has got it.
    pub fn states(self) -> &'static [MailState] {
        use MailState as S;
        match self {
            Kind::Queued => &[S::Scheduled, S::Queued],
            Kind::DeliveryDelayed => &[S::Delayed],
            Kind::Uncertain => &[S::Uncertain],
            Kind::Sent => &[S::Sent, S::Delivered, S::Opened, S::Clicked, S::Complained],
            Kind::Delivered => &[S::Delivered, S::Opened, S::Clicked, S::Complained],
            Kind::Opened => &[S::Opened, S::Clicked],
            Kind::Clicked => &[S::Clicked],
            Kind::Bounced => &[S::Bounced],
            Kind::Complained => &[S::Complained],
            Kind::Unsubscribed => &S::ALL,
            Kind::Suppressed => &[S::Suppressed],
            Kind::Failed => &[S::Failed],
            Kind::Canceled => &[S::Canceled],
        }
    }
}

/// How lasting a refusal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = BroadcastBounceType)]
pub enum BounceType {
    Permanent,
    Transient,
    Undetermined,
}

impl BounceType {
    /// By its name, as the API has it.
    pub fn named(word: &str) -> Option<BounceType> {
        serde_json::from_value(word.into()).ok()
    }
}

/// The states of those who are wanted; `None` where nobody can be, for whom all recipients would be gone through in
/// vain. What a server refused for a while is tried again: a bounce is for good.
pub fn wanted_states(kind: Option<Kind>, bounce_type: Option<BounceType>) -> Option<&'static [MailState]> {
    match bounce_type {
        Some(BounceType::Transient | BounceType::Undetermined) => None,
        None | Some(BounceType::Permanent) => Some(kind.map_or(&MailState::ALL[..], Kind::states)),
    }
}

/// Which recipients are wanted.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct RecipientFilter {
    /// What became of them; without it, all.
    #[serde(rename = "type")]
    #[param(rename = "type", inline)]
    kind: Option<Kind>,
    /// A part of their addresses.
    email: Option<String>,
    /// With `bounced`: how lasting that is.
    #[param(inline)]
    bounce_type: Option<BounceType>,
}

/// Somebody who gets a broadcast, and what became of that.
#[derive(Serialize, ToSchema)]
#[schema(as = BroadcastRecipient)]
struct Item {
    /// The id of the recipient's own mail: `GET /emails/{id}` shows it.
    #[schema(value_type = Uuid)]
    id: EmailId,
    #[schema(value_type = Option<Uuid>, required = true)]
    contact_id: Option<ContactId>,
    email: String,
    /// What became of it, as `last_event` of a mail says it.
    #[schema(example = "delivered")]
    last_event: &'static str,
    /// Why it waits, or what the last server said.
    #[schema(required = true)]
    reason: Option<String>,
    /// When it is looked at next.
    #[schema(format = DateTime, required = true)]
    waits_until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "permanent")]
    bounce_type: Option<&'static str>,
    /// How often it was opened, of `opened`, and how often a link in it was clicked, of `clicked`; without machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    count: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    clicked_links: Option<Vec<ClickedLink>>,
}

/// List a broadcast's recipients
///
/// Those of the kind that `type` names, from the last on.
#[utoipa::path(
    get, path = "/broadcasts/{id}/recipients", tag = "Broadcasts", operation_id = "list_broadcast_recipients",
    params(PathId, RecipientFilter, Newest),
    responses((status = 200, description = "The recipients.", body = List<Item>)),
)]
async fn list(
    caller: Caller,
    State(broadcasts): State<Broadcasts>,
    PathId(id): PathId<BroadcastId>,
    Query(filter): Query<RecipientFilter>,
    Newest(page): Newest,
) -> JsonResult<List<Item>> {
    let email_id = find(&caller, id).await?.email_id();
    let Some(states) = wanted_states(filter.kind, filter.bounce_type) else {
        return Ok(Json(page.list(Vec::new())));
    };
    let wanted = Wanted {
        states,
        address: filter.email.as_deref().unwrap_or_default(),
        is_unsubscribed: filter.kind == Some(Kind::Unsubscribed),
        until: None,
    };
    let rows = caller.read(|| emails::page_of_recipients(email_id, &wanted, &page)).await?;
    let all: Vec<Listed> = rows.iter().map(|row| Listed::read(email_id, row)).collect::<Result<_, _>>()?;
    let engaged: Vec<i64> = all.iter().filter(|one| is_engaged(one.state)).map(|one| one.number).collect();
    let done = match engaged.is_empty() {
        true => HashMap::new(),
        false => Done::read_all(&caller.read(|| tracking::of_recipients(email_id, &engaged)).await?)?,
    };
    let item = |one: Listed| Item {
        id: one.id,
        contact_id: one.contact_id,
        email: one.address,
        last_event: one.state.as_str(),
        reason: one.reason,
        waits_until: one.due_at.map(|at| rfc3339(broadcasts.clock.shown_at(at))),
        bounce_type: (one.state == MailState::Bounced).then_some("permanent"),
        count: is_engaged(one.state).then(|| done.get(&one.number).map_or(1, |done| done.count(one.state))),
        clicked_links: (one.state == MailState::Clicked)
            .then(|| done.get(&one.number).map(|done| done.links.clone()).unwrap_or_default()),
    };
    page.answer(&rows, |row| Ok(item(Listed::read(email_id, row)?)))
}

fn is_engaged(state: MailState) -> bool {
    matches!(state, MailState::Opened | MailState::Clicked)
}

/// What one recipient did with the mail.
#[derive(Default)]
struct Done {
    opens: i64,
    clicks: i64,
    links: Vec<ClickedLink>,
}

impl Done {
    fn read_all(rows: &[Row]) -> Result<HashMap<i64, Done>, DbError> {
        let mut all: HashMap<i64, Done> = HashMap::new();
        for row in rows {
            let (link, hits, machine_clicks): (Uuid, _, _) = (row.id(1)?, row.int(3)?, row.int(4)?);
            let done = all.entry(row.int(0)?).or_default();
            if link.is_nil() {
                done.opens = hits - machine_clicks;
            } else {
                done.clicks += hits - machine_clicks;
                done.links.push(ClickedLink { id: link, url: row.text(2)?, clicks: hits, machine_clicks });
            }
        }
        Ok(all)
    }

    fn count(&self, state: MailState) -> i64 {
        if state == MailState::Clicked { self.clicks } else { self.opens }
    }
}

/// List a broadcast's clicked links
///
/// Those that people clicked most come first; none where the sender's domain does not track clicks.
#[utoipa::path(
    get, path = "/broadcasts/{id}/clicked-links", tag = "Broadcasts", operation_id = "list_broadcast_clicked_links",
    params(PathId, Page), responses((status = 200, description = "The links.", body = List<ClickedLink>)),
)]
async fn clicked_links(
    caller: Caller,
    State(broadcasts): State<Broadcasts>,
    PathId(id): PathId<BroadcastId>,
    page: Page,
) -> JsonResult<List<ClickedLink>> {
    let broadcast = find(&caller, id).await?;
    let links = tracking::clicked_links(&broadcasts.db, broadcast.email_id(), MOST_LINKS).await?;
    // They are in the order of their counts: a cursor is looked for.
    let (upwards, cursor, _) = page.bounds();
    let at = links.iter().position(|link| link.id == cursor);
    let links = links.into_iter().map(ClickedLink::from);
    Ok(Json(page.list(match (upwards, at) {
        (true, at) => links.take(at.unwrap_or_default()).rev().collect(),
        (false, at) => links.skip(at.map_or(0, |at| at + 1)).collect(),
    })))
}
