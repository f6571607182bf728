//! How many a broadcast would go to, counted as it would be sent: the same contacts in the same order by the same
//! rules. Large segments are counted a moment at a time, while somebody looks on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use quick_cache::sync::Cache;
use tokio::sync::Mutex;
use uuid::Uuid;

use super::Broadcasts;
use super::audience::{Audience, PAGE};
use super::broadcast::{Broadcast, LeftOut};
use super::store;
use crate::clock::MINUTE;
use crate::db::DbError;
use crate::id::{BroadcastId, ContactId};

/// For how long one look counts.
const BUDGET: Duration = Duration::from_millis(30);

/// More are not counted: of each address something is kept in memory.
const MOST: i64 = 200_000;

/// How many are counted at the same time.
const AT_ONCE: usize = 8;

/// What is being counted.
pub struct Counts(Cache<BroadcastId, Arc<Mutex<Counting>>>);

impl Default for Counts {
    fn default() -> Counts {
        Counts(Cache::new(AT_ONCE))
    }
}

struct Counting {
    /// What it is counted for: another segment or topic is another count.
    version: i64,
    begun_at: i64,
    audience: Audience,
    behind: ContactId,
}

/// How many, as far as is known by now.
pub struct Counted {
    pub recipients: i64,
    pub left_out: LeftOut,
    pub progress: Reach,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    Complete,
    /// It is still being counted.
    Going,
    /// There are more than are counted.
    TooMany,
}

impl Broadcasts {
    /// Counts on for a moment.
    pub(super) async fn count_audience(&self, broadcast: &Broadcast, version: i64) -> Result<Counted, DbError> {
        let now = self.clock.steady();
        let fresh = || Counting { version, begun_at: now, audience: Audience::default(), behind: Uuid::nil().into() };
        let known = self.counts.0.get(&broadcast.id);
        let counting = known.unwrap_or_else(|| Arc::new(Mutex::new(fresh())));
        let mut held = counting.lock().await;
        if held.version != version || now - held.begun_at > 10 * MINUTE {
            *held = fresh();
        }
        let progress = self.count_on(broadcast, &mut held).await?;
        let counted =
            Counted { recipients: held.audience.recipients, left_out: held.audience.left_out.clone(), progress };
        drop(held);
        match progress {
            // Contacts come and go: who looks again sees them counted anew.
            Reach::Complete => drop(self.counts.0.remove(&broadcast.id)),
            Reach::Going | Reach::TooMany => self.counts.0.insert(broadcast.id, counting),
        }
        Ok(counted)
    }

    async fn count_on(&self, broadcast: &Broadcast, counting: &mut Counting) -> Result<Reach, DbError> {
        let (content, begun) = (&broadcast.content, Instant::now());
        while begun.elapsed() < BUDGET {
            if counting.audience.recipients >= MOST {
                return Ok(Reach::TooMany);
            }
            let (segment, behind) = (content.segment_id, counting.behind);
            let next = store::members(broadcast.workspace_id, segment, behind, content.topic_id, PAGE as i64);
            let rows = self.db.read(next).await?;
            for row in &rows {
                counting.behind = row.id(0)?;
                counting.audience.judge(row, content.topic_id.is_some())?;
            }
            if rows.len() < PAGE {
                return Ok(Reach::Complete);
            }
        }
        Ok(Reach::Going)
    }
}
