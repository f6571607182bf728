//! The segments of a workspace that fill themselves, as whoever changes a contact needs them. They are cached with
//! the automations that listen and under the same revision: a change of a filter raises it.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use super::filter::{Counted, Filter};
use super::store;
use crate::db::{Db, DbError};
use crate::id::{BroadcastId, SegmentId, TopicId, WorkspaceId};

/// The filters of a workspace, and what they depend on.
#[derive(Debug, Default)]
pub struct Filters {
    all: Vec<(SegmentId, Filter)>,
    topics: HashSet<TopicId>,
    events: HashMap<String, Uuid>,
    broadcasts: HashSet<BroadcastId>,
}

impl Filters {
    /// Reads those of a workspace. Whoever keeps them has read the revision before.
    pub async fn load(db: &Db, workspace_id: WorkspaceId) -> Result<Filters, DbError> {
        let mut filters = Filters::default();
        for row in db.read(store::filters(workspace_id)).await? {
            let id: SegmentId = row.id(0)?;
            // One segment that stands still is better than contacts that cannot be changed.
            let Some(filter) = Filter::stored(&row.text(1)?) else {
                tracing::error!(segment = %id, "the filter of a segment cannot be read; it is left as it is");
                continue;
            };
            filters.topics.extend(filter.topics());
            for count in filter.events() {
                match &count.what {
                    Counted::Event(name) | Counted::Engagement(name, _) => {
                        filters.events.insert(name.clone(), count.key);
                    }
                    Counted::Broadcast(id) => {
                        filters.broadcasts.insert(*id);
                    }
                }
            }
            filters.all.push((id, filter));
        }
        Ok(filters)
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (SegmentId, &Filter)> {
        self.all.iter().map(|(id, filter)| (*id, filter))
    }

    pub fn name_topic(&self, id: TopicId) -> bool {
        self.topics.contains(&id)
    }

    pub fn name_broadcast(&self, id: BroadcastId) -> bool {
        self.broadcasts.contains(&id)
    }

    /// The key of an event that filters count.
    pub fn event_key(&self, name: &str) -> Option<Uuid> {
        self.events.get(name).copied()
    }
}
