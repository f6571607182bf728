//! How many runs go on with the version that they began with.

use super::store;
use crate::accounts::{Duty, Member};
use crate::error::Error;
use crate::id::AutomationId;
use crate::text::grouped;

/// Among how many of the newest runs those in flight are counted: no index knows them.
const MOST_COUNTED: i64 = 2000;

/// Of the newest runs of an automation: version, how many of them go by it, and how many of these are in flight.
pub struct InFlight(Vec<(i64, i64, i64)>);

impl InFlight {
    pub async fn count<D: Duty>(member: &Member<D>, id: AutomationId) -> Result<InFlight, Error> {
        Ok(InFlight(member.query(store::in_flight(id, MOST_COUNTED)).await?))
    }

    /// Whether there may be older runs, which were not counted.
    fn is_cut(&self) -> bool {
        self.0.iter().map(|(_, runs, _)| runs).sum::<i64>() >= MOST_COUNTED
    }

    /// What becomes of them where another version is published.
    pub fn sentence(&self) -> String {
        let all: i64 = self.0.iter().map(|(_, _, in_flight)| in_flight).sum();
        if self.is_cut() {
            let counted = match all {
                0 => "none is".to_owned(),
                1 => "1 is".to_owned(),
                many => format!("{} are", grouped(many)),
            };
            return format!(
                "Of the newest {} runs, {counted} in flight; older ones were not counted. Those in flight keep the \
                 version that they started with; new runs take the new one.",
                grouped(MOST_COUNTED)
            );
        }
        match all {
            0 => "No run is in flight.".to_owned(),
            1 => "1 run is in flight. It keeps the version that it started with; new runs take the new one.".to_owned(),
            many => format!(
                "{} runs are in flight. They keep the version that they started with; new runs take the new one.",
                grouped(many)
            ),
        }
    }

    /// How many go by a version, if any is known to.
    pub fn by(&self, version: i64) -> Option<String> {
        let (_, _, in_flight) = self.0.iter().find(|(one, _, in_flight)| *one == version && *in_flight > 0)?;
        let words = match in_flight {
            1 => "1 run goes by it".to_owned(),
            many => format!("{} runs go by it", grouped(*many)),
        };
        Some(if self.is_cut() { format!("at least {words}") } else { words })
    }

    /// What is not known of any version.
    pub fn caveat(&self) -> Option<String> {
        let caveat = || {
            let counted = grouped(MOST_COUNTED);
            format!("Only the newest {counted} runs were counted: older ones may go by any of these versions.")
        };
        self.is_cut().then(caveat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_counted_is_not_denied() {
        let whole = InFlight(vec![(1, 1998, 0), (2, 1, 1)]);
        assert_eq!((whole.by(1), whole.by(2), whole.caveat()), (None, Some("1 run goes by it".into()), None));
        assert!(whole.sentence().starts_with("1 run is in flight. "));
        let cut = |in_flight| InFlight(vec![(1, 1999, in_flight), (2, 1, 0)]);
        for (in_flight, words) in [(0, "none is"), (1, "1 is"), (1999, "1,999 are")] {
            let said = cut(in_flight).sentence();
            let begin = format!("Of the newest 2,000 runs, {words} in flight; older ones were not counted. ");
            assert!(said.starts_with(&begin), "{said}");
        }
        assert_eq!((cut(2).by(1), cut(2).by(2)), (Some("at least 2 runs go by it".into()), None));
        assert!(cut(0).caveat().is_some_and(|caveat| caveat.contains("newest 2,000 runs")));
    }
}
