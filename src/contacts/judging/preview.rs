//! Who would be in a segment, before there is one.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::facts::{self, Questions};
use super::{sent, store};
use crate::auth::{Actor, Caller};
use crate::clock::{HOUR, first_id_at};
use crate::contacts::{Contact, shapes::Item};
use crate::error::Error;
use crate::id::{ContactId, Id};
use crate::occurrences::Occurrences;
use crate::segments::{self, Counted, Filter, GivenFilter};
use crate::web::{Body, JsonResult};

/// How many contacts are read at once.
const PAGE: i64 = 500;

/// How long contacts are gone through.
const PATIENCE: Duration = Duration::from_secs(1);

/// How many occurrences of an event are looked at.
const MOST_OCCURRENCES: i64 = 100_000;

/// How many contacts are shown.
const SHOWN: usize = 10;

pub fn router() -> OpenApiRouter<Occurrences> {
    OpenApiRouter::new().routes(routes!(preview))
}

/// A filter to be tried.
#[derive(Deserialize, ToSchema)]
#[schema(as = SegmentPreviewRequest)]
pub struct PreviewBody {
    filter: GivenFilter,
}

/// Who would be in a segment.
#[derive(Serialize, ToSchema)]
#[schema(as = SegmentPreview)]
pub struct Preview {
    #[schema(pattern = "^segment_preview$")]
    object: &'static str,
    /// How many contacts fit the filter.
    #[schema(minimum = 0)]
    pub contacts_count: i64,
    /// Whether all contacts were looked at. Else the number is an estimate by the newest of them.
    pub exact: bool,
    /// The newest contacts that fit, at most ten.
    pub contacts: Vec<Item>,
}

/// Preview a segment
///
/// How many contacts a filter fits, and the newest of them, without making a segment.
#[utoipa::path(
    post, path = "/segments/preview", tag = "Segments", operation_id = "preview_segment",
    request_body = PreviewBody,
    responses((status = 200, description = "Who would be in the segment.", body = Preview)),
)]
async fn preview(caller: Caller, State(app): State<Occurrences>, body: Body<PreviewBody>) -> JsonResult<Preview> {
    let GivenFilter(filter) = body.read()?.filter;
    let filter = filter.ok_or_else(|| Error::invalid("The `filter` field is empty: there is nothing to try."))?;
    Ok(Json(preview_filter(&caller, &app, &filter).await?))
}

/// Who would be in a segment with this filter.
pub async fn preview_filter(actor: &dyn Actor, app: &Occurrences, filter: &Filter) -> Result<Preview, Error> {
    segments::check_filter(actor, filter).await?;
    let (times, mut is_exact) = times(actor, app, filter).await?;
    let questions = Questions::of(std::iter::once(filter)).always_answered(filter);
    let (workspace_id, now, began) = (actor.workspace_id(), app.clock.now(), Instant::now());
    let (mut before, mut seen, mut count, mut shown) = (Uuid::max(), 0, 0, Vec::new());
    loop {
        let rows = actor.read(|| store::contacts_before(workspace_id, before, PAGE)).await?;
        let contacts: Vec<Contact> = rows.iter().map(Contact::read).collect::<Result<_, _>>()?;
        let facts = facts::read(&app.db, workspace_id, &contacts, &questions, now).await?;
        for (contact, mut facts) in contacts.iter().zip(facts) {
            (before, seen) = (contact.id.uuid(), seen + 1);
            for (key, times) in &times {
                facts.events.extend(times.get(&contact.id).map(|times| (*key, times.clone())));
            }
            if filter.is_met(&facts) {
                count += 1;
                shown.extend((shown.len() < SHOWN).then(|| Item::from(contact.clone())));
            }
        }
        if (rows.len() as i64) < PAGE {
            break;
        }
        if began.elapsed() > PATIENCE {
            let all = actor.read(|| store::count_contacts(workspace_id)).await?.first().map(|row| row.int(0));
            count =
                (i128::from(count) * i128::from(all.transpose()?.unwrap_or(seen).max(seen)) / i128::from(seen)) as i64;
            is_exact = false;
            break;
        }
    }
    Ok(Preview { object: "segment_preview", contacts_count: count, exact: is_exact, contacts: shown })
}

/// When events happened, by event and contact, the newest first.
type Times = HashMap<Uuid, HashMap<ContactId, Vec<i64>>>;

/// When the events happened that a filter counts, and whether that is all of them. Who is in a segment is judged by
/// what is kept for that; this is what happened before anybody asked.
async fn times(actor: &dyn Actor, app: &Occurrences, filter: &Filter) -> Result<(Times, bool), Error> {
    let (mut times, mut is_all) = (Times::new(), true);
    for event in filter.events() {
        let mut of_event: HashMap<ContactId, Vec<i64>> = HashMap::new();
        match &event.what {
            Counted::Event(name) => {
                // Clocks may have been set since.
                let after =
                    event.within().map_or(Uuid::nil(), |within| first_id_at(app.clock.steady() - within - HOUR));
                let latest = || store::latest(actor.workspace_id(), name, after, MOST_OCCURRENCES);
                let rows = actor.read(latest).await?;
                is_all &= (rows.len() as i64) < MOST_OCCURRENCES;
                for row in rows {
                    of_event.entry(row.id(0)?).or_default().push(row.int(1)?);
                }
            }
            // Everything that was done is counted already.
            Counted::Engagement(..) => continue,
            Counted::Broadcast(id) => {
                let whose = (actor.workspace_id(), *id);
                let (mails, more) = sent::sent_after(&app.db, whose, id.uuid(), MOST_OCCURRENCES).await?;
                is_all &= more.is_none();
                mails.iter().for_each(|mail| of_event.entry(mail.contact_id).or_default().push(mail.at));
            }
        }
        // The longest window of an event sees all that a shorter one does.
        let known = times.entry(event.key).or_default();
        if of_event.values().map(Vec::len).sum::<usize>() >= known.values().map(Vec::len).sum::<usize>() {
            *known = of_event;
        }
    }
    Ok((times, is_all))
}
