//! What filters ask about contacts, read for some contacts at once. The contacts are read first: whatever changes
//! what else is read here counts up their sequence, and whoever judges them holds on to that.

use std::collections::HashMap;

use uuid::Uuid;

use super::store;
use crate::contacts::Contact;
use crate::db::{Db, DbError};
use crate::id::{ContactId, TopicId, WorkspaceId};
use crate::segments::{Facts, Filter};

/// What is asked beside the contact itself.
#[derive(Default)]
pub struct Questions {
    topics: bool,
    /// The keys of events, and how many make no more difference.
    events: HashMap<Uuid, usize>,
}

impl Questions {
    pub fn of<'a>(filters: impl Iterator<Item = &'a Filter>) -> Questions {
        let mut questions = Questions::default();
        for filter in filters {
            questions.topics |= !filter.topics().is_empty();
            for count in filter.events() {
                let enough = questions.events.entry(count.key).or_default();
                *enough = count.enough.max(*enough);
            }
        }
        questions
    }

    /// The same but for events that are only counted where a segment asks for them.
    pub fn always_answered(mut self, filter: &Filter) -> Questions {
        let always: Vec<Uuid> =
            filter.events().into_iter().filter(|count| count.is_always_counted()).map(|count| count.key).collect();
        self.events.retain(|key, _| always.contains(key));
        self
    }
}

/// What is known of contacts, in their order, which is that of their ids.
pub async fn read(
    db: &Db,
    workspace_id: WorkspaceId,
    contacts: &[Contact],
    questions: &Questions,
    now: i64,
) -> Result<Vec<Facts>, DbError> {
    let known = |contact: &Contact| Facts { now, ..Facts::of_contact(contact.json()) };
    let mut facts: Vec<Facts> = contacts.iter().map(known).collect();
    let ids = || contacts.iter().map(|contact| contact.id);
    let (Some(first), Some(last)) = (ids().min(), ids().max()) else { return Ok(facts) };
    let places: HashMap<ContactId, usize> = ids().enumerate().map(|(at, id)| (id, at)).collect();
    if questions.topics {
        let rows = db.read(store::topic_defaults(workspace_id)).await?;
        let defaults = rows.iter().map(|row| Ok((row.id(0)?, row.text(1)?)));
        let defaults: HashMap<TopicId, String> = defaults.collect::<Result<_, DbError>>()?;
        facts.iter_mut().for_each(|facts| facts.topics.clone_from(&defaults));
        for row in db.read(store::choices(workspace_id, first, last)).await? {
            let topic_id: TopicId = row.id(1)?;
            if let Some(at) = places.get(&row.id(0)?)
                && let Some(chosen) = facts[*at].topics.get_mut(&topic_id)
            {
                *chosen = row.text(2)?;
            }
        }
    }
    for (key, enough) in &questions.events {
        for row in db.read(store::times(workspace_id, first, last, *key, *enough as i64)).await? {
            if let Some(at) = places.get(&row.id(0)?) {
                facts[*at].events.entry(*key).or_default().push(row.int(1)?);
            }
        }
    }
    Ok(facts)
}
