//! How far a broadcast is, for somebody who watches it.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use quick_cache::sync::Cache;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::Broadcasts;
use super::broadcast::{Broadcast, LeftOut, State};
use super::routes::not_found;
use super::shapes::state_word;
use super::store;
use crate::clock::{MINUTE, SECOND, Time};
use crate::db::{DbError, Row};
use crate::emails::{self, State as MailState};
use crate::error::Error;
use crate::id::BroadcastId;
use crate::tracking::{self, LinkCount, Totals};

/// For how long counts are shown again: to count many takes long.
const SHOWN_FOR: i64 = SECOND;

/// Counts that are older than this say nothing of how fast it goes.
const OUTDATED: i64 = MINUTE;

const MOST_KNOWN: usize = 1_000;

/// So many recipients are counted at once, and a page waits until they are. More are counted piece by piece, so that
/// others come in between, and beside the page, for the next look.
const COUNTED_AT_ONCE: i64 = 20_000;

/// How many links are shown with it.
const SHOWN_LINKS: i64 = 10;

/// How many recipients are how far.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
#[schema(as = BroadcastCounts)]
pub struct Counts {
    pub queued: i64,
    /// They are tried again.
    pub delivery_delayed: i64,
    /// Nobody knows whether they got the mail.
    pub uncertain: i64,
    pub sent: i64,
    pub delivered: i64,
    pub opened: i64,
    pub clicked: i64,
    /// They got none, because they want none or are not to get any.
    pub suppressed: i64,
    pub failed: i64,
    pub bounced: i64,
    pub complained: i64,
    pub canceled: i64,
}

impl Counts {
    fn of(&mut self, state: MailState) -> &mut i64 {
        match state {
            MailState::Scheduled | MailState::Queued => &mut self.queued,
            MailState::Sent => &mut self.sent,
            MailState::Uncertain => &mut self.uncertain,
            MailState::Delayed => &mut self.delivery_delayed,
            MailState::Delivered => &mut self.delivered,
            MailState::Opened => &mut self.opened,
            MailState::Clicked => &mut self.clicked,
            MailState::Suppressed => &mut self.suppressed,
            MailState::Failed => &mut self.failed,
            MailState::Bounced => &mut self.bounced,
            MailState::Complained => &mut self.complained,
            MailState::Canceled => &mut self.canceled,
        }
    }

    /// How many wait for their first attempt, or another.
    pub fn waiting(&self) -> i64 {
        self.queued + self.delivery_delayed
    }
}

/// How far a broadcast is.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = BroadcastProgress)]
pub struct Progress {
    /// How many get it, as far as is known by now.
    pub recipients: i64,
    /// Whether all contacts of the segment were looked at.
    pub is_audience_complete: bool,
    pub counts: Counts,
    /// How many contacts of the segment were left out, by reason: `unsubscribed`, `opted_out`, `suppressed`,
    /// `duplicate`, `invalid`.
    #[schema(value_type = std::collections::HashMap<String, i64>)]
    pub left_out: LeftOut,
    /// How many mails a second end at this moment.
    pub rate: f64,
    /// At this rate, but for those who are put off.
    #[schema(required = true)]
    pub seconds_left: Option<i64>,
    /// How many may not get it yet.
    pub put_off: i64,
    /// When the first of them may.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    pub next_at: Option<Time>,
    /// Why somebody waits, where somebody does.
    #[schema(required = true)]
    pub waits_for: Option<String>,
    pub engagement: Engagement,
}

/// What recipients did with the mail, where its domain tracks that. All opens and clicks are counted, and apart from them
/// those that a machine did: without these they are what people did.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
#[schema(as = BroadcastEngagement)]
pub struct Engagement {
    pub opens: i64,
    pub machine_opens: i64,
    pub clicks: i64,
    pub machine_clicks: i64,
    /// Those that people clicked most.
    pub links: Vec<ClickedLink>,
}

/// A link that somebody clicked.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = BroadcastClickedLink)]
pub struct ClickedLink {
    pub id: Uuid,
    pub url: String,
    /// How often, by people and machines.
    pub clicks: i64,
    /// How often by machines.
    pub machine_clicks: i64,
}

impl From<LinkCount> for ClickedLink {
    fn from(link: LinkCount) -> ClickedLink {
        ClickedLink { id: link.id, url: link.url, clicks: link.clicks, machine_clicks: link.machine_clicks }
    }
}

/// What was counted of a broadcast, as it was then.
#[derive(Debug, Clone)]
struct Sample {
    at: i64,
    state: State,
    recipients: i64,
    is_audience_whole: bool,
    counts: Counts,
    /// How many may not get it yet, and when the first of them may, in steady time.
    put_off: (i64, Option<i64>),
    /// When it was counted before that, and how many mails had ended.
    before: Option<(i64, i64)>,
    engagement: Engagement,
}

impl Sample {
    fn ended(&self) -> i64 {
        self.recipients - self.counts.waiting()
    }
}

/// How far a broadcast is, as a page tells it.
pub struct ProgressByNow {
    /// `None` before it is sent, and where it is still to be counted.
    pub progress: Option<Progress>,
    /// Whether a look in a moment tells more.
    pub is_being_counted: bool,
}

/// What was counted lately.
pub struct Samples {
    known: Cache<BroadcastId, Sample>,
    /// What is being counted beside a page.
    counting: Mutex<HashSet<BroadcastId>>,
}

impl Default for Samples {
    fn default() -> Samples {
        Samples { known: Cache::new(MOST_KNOWN), counting: Mutex::default() }
    }
}

impl Samples {
    fn counting(&self) -> std::sync::MutexGuard<'_, HashSet<BroadcastId>> {
        self.counting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Broadcasts {
    /// How far it is; `None` before it is sent.
    pub(super) async fn progress(&self, broadcast: &Broadcast) -> Result<Option<Progress>, DbError> {
        if matches!(broadcast.state, State::Draft | State::Scheduled) {
            return Ok(None);
        }
        let now = self.clock.steady();
        let sample = match self.progress.known.get(&broadcast.id).filter(|known| now - known.at < SHOWN_FOR) {
            Some(known) => known,
            None => self.count(broadcast, now).await?,
        };
        self.told(broadcast, sample).await.map(Some)
    }

    /// The same for a page, which does not wait until many are counted: it tells what was counted for the last look,
    /// if that was lately, and has them counted for the next one.
    pub(super) async fn progress_by_now(&self, broadcast: &Broadcast) -> Result<ProgressByNow, DbError> {
        if broadcast.recipients <= COUNTED_AT_ONCE {
            let progress = self.progress(broadcast).await?;
            return Ok(ProgressByNow { progress, is_being_counted: false });
        }
        let now = self.clock.steady();
        let known = self.progress.known.get(&broadcast.id);
        let is_old = |known: &Sample| now - known.at >= SHOWN_FOR || known.state != broadcast.state;
        if known.as_ref().is_none_or(is_old) {
            self.count_beside(broadcast, now);
        }
        let Some(sample) = known.filter(|known| now - known.at < OUTDATED) else {
            return Ok(ProgressByNow { progress: None, is_being_counted: true });
        };
        let is_being_counted = sample.state != broadcast.state;
        Ok(ProgressByNow { progress: Some(self.told(broadcast, sample).await?), is_being_counted })
    }

    /// Counts for whoever looks next, once at a time.
    fn count_beside(&self, broadcast: &Broadcast, now: i64) {
        if !self.progress.counting().insert(broadcast.id) {
            return;
        }
        let (broadcasts, broadcast) = (self.clone(), broadcast.clone());
        tokio::spawn(async move {
            if let Err(error) = broadcasts.count(&broadcast, now).await {
                tracing::warn!(broadcast = %broadcast.id, %error, "the recipients of a broadcast were not counted");
            }
            broadcasts.progress.counting().remove(&broadcast.id);
        });
    }

    async fn told(&self, broadcast: &Broadcast, sample: Sample) -> Result<Progress, DbError> {
        let (now, ended) = (sample.at, sample.ended());
        let mut counts = sample.counts;
        if broadcast.state == State::Canceled {
            // They are not sent, whether somebody has come to writing that down or not.
            counts.canceled += std::mem::take(&mut counts.queued);
        }
        let waiting = counts.waiting();
        let rate = match (broadcast.state, sample.before) {
            (State::Sending, Some((at, before))) if now - at < OUTDATED => per_second(ended - before, now - at),
            (State::Sending, _) => per_second(ended, self.clock.now() - broadcast.started_at.unwrap_or_default()),
            _ => 0.0,
        };
        let is_going = broadcast.state == State::Sending && sample.is_audience_whole && rate > 0.0;
        let waits = match broadcast.state {
            State::Sending => self.db.read(emails::why_lane_waits(broadcast.lane)).await?,
            _ => Vec::new(),
        };
        let (put_off, next_at) = sample.put_off;
        Ok(Progress {
            recipients: sample.recipients,
            is_audience_complete: sample.is_audience_whole,
            counts,
            left_out: broadcast.left_out.clone(),
            rate,
            // Those who are put off take as long as they have to.
            seconds_left: is_going.then(|| ((waiting - put_off).max(0) as f64 / rate).ceil() as i64),
            put_off,
            next_at: next_at.map(|due| Time(self.clock.shown_at(due))),
            waits_for: waits.first().map(|row| row.text(1)).transpose()?,
            engagement: sample.engagement,
        })
    }

    async fn count(&self, broadcast: &Broadcast, now: i64) -> Result<Sample, DbError> {
        let (mut counts, mut put_off, mut next_at) = (Counts::default(), 0, None::<i64>);
        let mut behind = i64::MIN;
        while behind < i64::MAX {
            let next = behind.max(0) + COUNTED_AT_ONCE;
            let until = if next < broadcast.recipients { next } else { i64::MAX };
            for row in self.db.read(emails::count_by_state(broadcast.email_id(), behind, until, now)).await? {
                let state = MailState::of(row.int(0)?).ok_or_else(|| DbError::Broken("state of a recipient".into()))?;
                *counts.of(state) += row.int(1)?;
                put_off += row.int(2)?;
                next_at = next_at.into_iter().chain(row.maybe(3, Row::int)?).min();
            }
            behind = until;
            tokio::task::yield_now().await;
        }
        let before = self.progress.known.get(&broadcast.id).map(|known| (known.at, known.ended()));
        let engagement = self.engagement(broadcast).await?;
        let sample = Sample {
            at: now,
            state: broadcast.state,
            recipients: broadcast.recipients,
            is_audience_whole: broadcast.is_audience_whole,
            counts,
            put_off: (put_off, next_at),
            before,
            engagement,
        };
        self.progress.known.insert(broadcast.id, sample.clone());
        Ok(sample)
    }
}

impl Broadcasts {
    async fn engagement(&self, broadcast: &Broadcast) -> Result<Engagement, DbError> {
        let Totals { opens, machine_opens, clicks, machine_clicks } =
            tracking::totals(&self.db, broadcast.email_id()).await?.unwrap_or_default();
        let links = match clicks {
            0 => Vec::new(),
            _ => tracking::clicked_links(&self.db, broadcast.email_id(), SHOWN_LINKS).await?,
        };
        let links = links.into_iter().map(ClickedLink::from).collect();
        Ok(Engagement { opens, machine_opens, clicks, machine_clicks, links })
    }
}

/// A broadcast, as an operator sees it.
pub struct Watched {
    /// How far it is, in a word.
    pub state: &'static str,
    pub reason: Option<String>,
    pub progress: Option<Progress>,
}

pub async fn watch(broadcasts: &Broadcasts, id: BroadcastId) -> Result<Watched, Error> {
    let rows = broadcasts.db.read(store::load(id)).await?;
    let broadcast = Broadcast::read(rows.first().ok_or_else(not_found)?)?;
    let progress = broadcasts.progress(&broadcast).await?;
    Ok(Watched { state: state_word(&broadcast), reason: broadcast.reason, progress })
}

fn per_second(count: i64, micros: i64) -> f64 {
    let rate = count.max(0) as f64 * SECOND as f64 / micros.max(1) as f64;
    (rate * 10.0).round() / 10.0
}
