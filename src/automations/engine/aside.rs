//! Turns that look through much. Most cost next to nothing, and are taken where they are
//! claimed; one that does not takes one of a few places, because it may also hold much, and a
//! thread that gives way to those that answer.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::SemaphorePermit;

use super::store::{self, Claimed};
use super::view::View;
use super::{Engine, LEASE, Plan, turn};
use crate::automations::run::{Effect, Run};
use crate::db::DbError;
use crate::limits::Background;
use crate::rules::Budget;
use crate::work;

type Turn = Result<(Run, Vec<Effect>), String>;

/// The run before its turn, and what was answered to its call.
type Given<'a> = (&'a Run, Option<&'a Result<Value, String>>);

/// Half of the cores: the others have requests to answer.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2))
}

impl Engine {
    /// A place for a turn that may hold much; `None` where another has claimed the run while all were taken.
    pub(super) async fn place(&self, claimed: &Claimed) -> Option<SemaphorePermit<'_>> {
        if let Ok(place) = self.large_turns.try_acquire() {
            return Some(place);
        }
        let renew = |lease_until| store::renew(claimed, lease_until);
        let lost = async {
            // At once: a call may have left little of the lease, and must not be made again.
            let renewed = self.app.db.commit(renew(self.app.clock.steady() + LEASE)).await;
            if !matches!(renewed, Err(DbError::Unexpected { .. })) {
                work::until_lost::<Claimed>((&self.app.db, &self.app.clock), renew).await;
            }
        };
        tokio::select! {
            place = self.large_turns.acquire() => place.ok(),
            () = lost => None,
        }
    }
}

/// The run after its turn, as [`turn::advance`] has it; `None` where it costs more than those who
/// wait should bear. A turn changes nothing but its run, so it can be begun anew as if it had not been.
pub fn take_light(claimed: &Claimed, plan: &Plan, view: &View, (before, answer): Given<'_>) -> Option<Turn> {
    let turn = turn::advance(claimed, plan, view, before.clone(), answer);
    Some(turn).filter(|_| !view.budget.is_too_light())
}

/// As [`take_light`], whatever it costs.
pub async fn take(
    heavy: &Background,
    claimed: &Claimed,
    plan: &Arc<Plan>,
    view: View,
    (before, answer): Given<'_>,
) -> Result<(View, Turn), DbError> {
    let (claimed, plan, before, answer) = (claimed.clone(), plan.clone(), before.clone(), answer.cloned());
    let work = move || {
        let view = View { budget: Budget::default(), ..view };
        let turn = turn::advance(&claimed, &plan, &view, before, answer.as_ref());
        (view, turn)
    };
    let taken = heavy.run(work).await;
    taken.map_err(|_| DbError::Unavailable("no thread could be started for a turn that looks through much".into()))
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use serde_json::json;
    use uuid::Uuid;

    use super::*;
    use crate::automations::engine::store::Sight;
    use crate::automations::graph::Graph;
    use crate::automations::run::{HistoryPart, Position};
    use crate::occurrences::Ending;

    /// A condition of so many rules, each of which looks through `text`.
    fn plan(rules: usize) -> Arc<Plan> {
        let rule = json!({"type": "rule", "field": "event.text", "operator": "contains", "value": "b"});
        let steps = json!([
            {"key": "start", "type": "trigger", "config": {"event_name": "e"}},
            {"key": "asked", "type": "condition", "config": {"type": "or", "rules": vec![rule; rules]}},
        ]);
        let graph = Graph::parse(&steps, &json!([{"from": "start", "to": "asked"}])).expect("a graph");
        Arc::new(Plan { graph, signing_secret: None, length: 0 })
    }

    fn view(bytes: usize) -> View {
        View {
            sight: Sight { payload: json!({"text": "a".repeat(bytes)}), automation_stands: true, ..Sight::NOTHING },
            heard: Vec::new(),
            history: HistoryPart::WHOLE,
            is_ended: false,
            segments: HashSet::new(),
            refused_mail: HashMap::new(),
            declared: Vec::new(),
            now: 0,
            steady: 0,
            budget: Budget::light(),
        }
    }

    /// What a turn comes to whose rules look through so many bytes each; `None` where it is not light.
    async fn taken(heavy: Option<&Background>, rules: usize, bytes: usize) -> Option<Position> {
        let (plan, id) = (plan(rules), Uuid::from_u128(1));
        let before = Run::start(id.into(), &plan.graph);
        let claimed = Claimed {
            automation_id: id.into(),
            id: id.into(),
            workspace_id: id.into(),
            version: 1,
            contact_id: id.into(),
            occurrence_id: id.into(),
            since: 0,
            exit_on: None,
            state: String::new(),
            attempt: 1,
            settled: 0,
            created_at: 0,
            destination: None,
        };
        let turn = match heavy {
            Some(heavy) => take(heavy, &claimed, &plan, view(bytes), (&before, None)).await.expect("a thread").1,
            None => take_light(&claimed, &plan, &view(bytes), (&before, None))?,
        };
        Some(turn.expect("a turn").0.position)
    }

    const DONE: Position = Position::Ended { how: Ending::Completed };
    const FAILED: Position = Position::Ended { how: Ending::Failed };

    #[tokio::test]
    async fn a_light_turn_is_taken_at_once_and_a_heavy_one_by_a_thread_that_gives_way() {
        assert_eq!(taken(None, 10, Budget::LIGHT / 20).await, Some(DONE));
        assert_eq!(taken(None, 10, Budget::LIGHT / 5).await, None);
        let heavy = Background::start("test", 1);
        assert_eq!(taken(Some(&heavy), 10, Budget::LIGHT / 5).await, Some(DONE), "with a whole budget");
    }

    #[tokio::test]
    async fn one_that_costs_too_much_fails_there_as_anywhere() {
        let heavy = Background::start("test", 1);
        assert_eq!(taken(Some(&heavy), 99, 200 << 10).await, Some(FAILED));
    }
}
