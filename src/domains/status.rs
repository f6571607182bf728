//! What becomes of a domain when DNS is looked at. Nothing here knows a store, a
//! clock or a network.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::records::Expected;
use crate::clock::{HOUR, MINUTE};
use crate::text::words;

const DAY: i64 = 24 * HOUR;

/// How long records are awaited before a domain has failed.
const AWAITED_FOR: i64 = 72 * HOUR;

/// A record that was seen is believed to be gone after so many looks in a row that did not
/// find it, over so long a time.
const MISSES: u32 = 3;
const MISSED_FOR: i64 = DAY;

/// How long it is looked for the records of a name that was never verified.
const PATIENCE: i64 = 30 * DAY;

/// What is known of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = DomainRecordStatus)]
pub enum RecordStatus {
    /// It was not looked for yet.
    NotStarted,
    /// It is not there yet, or not as it has to be.
    Pending,
    Verified,
    /// It was not there for three days; or for a day, after it had been.
    Failed,
}

words! {
    /// What is known of a domain.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    #[schema(as = DomainStatus)]
    pub enum Status: ALL, parse {
        NotStarted = "not_started",
        Pending = "pending",
        Verified = "verified",
        Failed = "failed",
        /// Mail can be sent; other records are awaited.
        PartiallyVerified = "partially_verified",
        /// Mail can be sent; other records are not there.
        PartiallyFailed = "partially_failed",
    }
}

impl Status {
    /// Whether the records that sending needs stand.
    pub fn may_send(self) -> bool {
        matches!(self, Status::Verified | Status::PartiallyVerified | Status::PartiallyFailed)
    }
}

/// What DNS said of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    Right {
        found: String,
    },
    Wrong {
        found: String,
        advice: String,
    },
    Missing {
        advice: String,
    },
    /// Nobody knows, for the moment.
    Unanswered {
        reason: String,
    },
}

/// What is kept of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub status: RecordStatus,
    pub found: Option<String>,
    pub advice: Option<String>,
    /// How often in a row a record was not there that had been, and since when in steady time.
    pub missed: Option<(u32, i64)>,
}

/// By the names of [`Expected`].
pub type Findings = BTreeMap<String, Finding>;

/// What is known of a record after a look at a moment, all in steady time.
pub fn after(previous: Option<&Finding>, look: Look, now: i64, awaited_since: i64) -> Finding {
    let before = previous.map_or(RecordStatus::Pending, |previous| previous.status);
    let (found, advice) = match look {
        Look::Right { found } => {
            return Finding { status: RecordStatus::Verified, found: Some(found), advice: None, missed: None };
        }
        // What cannot be asked for a moment changes nothing.
        Look::Unanswered { reason } => {
            let advice = Some(format!("DNS did not answer ({reason}); it is asked again by itself."));
            let (found, missed) = previous.map_or((None, None), |kept| (kept.found.clone(), kept.missed));
            let status = if before == RecordStatus::NotStarted { RecordStatus::Pending } else { before };
            return Finding { status, found, advice, missed };
        }
        Look::Wrong { found, advice } => (Some(found), advice),
        Look::Missing { advice } => (None, advice),
    };
    if before == RecordStatus::Verified {
        let (misses, since) = previous.and_then(|previous| previous.missed).unwrap_or((0, now));
        let misses = misses + 1;
        let is_gone = misses >= MISSES && now - since >= MISSED_FOR;
        let status = if is_gone { RecordStatus::Failed } else { RecordStatus::Verified };
        let missed = (!is_gone).then_some((misses, since));
        return Finding { status, found, advice: Some(advice), missed };
    }
    let is_late = now - awaited_since >= AWAITED_FOR || before == RecordStatus::Failed;
    let status = if is_late { RecordStatus::Failed } else { RecordStatus::Pending };
    Finding { status, found, advice: Some(advice), missed: None }
}

/// What the records make of the domain.
pub fn status(expected: &[Expected], findings: &Findings) -> Status {
    let of = |record: &Expected| findings.get(&record.key).map_or(RecordStatus::Pending, |finding| finding.status);
    let all = |needed: bool| {
        expected.iter().filter(|record| record.is_needed == needed).all(|record| of(record) == RecordStatus::Verified)
    };
    let any_failed =
        |needed: bool| expected.iter().any(|record| record.is_needed == needed && of(record) == RecordStatus::Failed);
    match all(true) {
        true if all(false) => Status::Verified,
        true if any_failed(false) => Status::PartiallyFailed,
        true => Status::PartiallyVerified,
        false if any_failed(true) => Status::Failed,
        false => Status::Pending,
    }
}

/// When to look again, in steady time; never, where it is of no use.
pub fn next_look(status: Status, is_owned: bool, findings: &Findings, now: i64, awaited_since: i64) -> Option<i64> {
    let waited = now - awaited_since;
    let is_missed = findings.values().any(|finding| finding.missed.is_some());
    let pause = match status {
        _ if is_missed => HOUR,
        Status::Pending | Status::PartiallyVerified if waited < AWAITED_FOR => (waited / 4).clamp(MINUTE, HOUR),
        _ if is_owned || waited < PATIENCE => DAY,
        _ => return None,
    };
    Some(now + pause)
}

/// What is awaited anew: a person says that the records are set now.
pub fn awaited_anew(findings: &mut Findings) {
    for finding in findings.values_mut().filter(|finding| finding.status == RecordStatus::Failed) {
        finding.status = RecordStatus::Pending;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domains::records::Purpose;

    fn record(key: &str, is_needed: bool) -> Expected {
        Expected { key: key.into(), purpose: Purpose::Dkim, name: key.into(), value: "v".into(), is_needed }
    }

    fn right() -> Look {
        Look::Right { found: "v".into() }
    }

    fn missing() -> Look {
        Look::Missing { advice: "Add it.".into() }
    }

    fn unanswered() -> Look {
        Look::Unanswered { reason: "timed out".into() }
    }

    #[test]
    fn a_record_that_is_awaited_fails_after_three_days() {
        let at = |now: i64, previous: Option<&Finding>| after(previous, missing(), now, 0);
        let first = at(MINUTE, None);
        assert_eq!((first.status, first.advice.as_deref()), (RecordStatus::Pending, Some("Add it.")));
        assert_eq!(at(AWAITED_FOR - 1, Some(&first)).status, RecordStatus::Pending);
        let failed = at(AWAITED_FOR, Some(&first));
        assert_eq!(failed.status, RecordStatus::Failed);
        assert_eq!(after(Some(&failed), right(), AWAITED_FOR + 1, 0).status, RecordStatus::Verified);
    }

    #[test]
    fn a_record_that_was_seen_fails_only_after_several_misses_over_a_day() {
        let mut finding = after(None, right(), 0, 0);
        for hour in 0..24 {
            finding = after(Some(&finding), missing(), hour * HOUR, 0);
            assert_eq!(finding.status, RecordStatus::Verified, "hour {hour}");
        }
        assert_eq!(after(Some(&finding), missing(), 24 * HOUR, 0).status, RecordStatus::Failed);
        let back = after(Some(&finding), right(), 24 * HOUR, 0);
        assert_eq!(back.missed, None, "one look that finds it begins anew");
        // Two looks a week apart are not enough.
        let one = after(Some(&back), missing(), 30 * HOUR, 0);
        let two = after(Some(&one), missing(), 200 * HOUR, 0);
        assert_eq!((two.status, two.missed), (RecordStatus::Verified, Some((2, 30 * HOUR))));
    }

    #[test]
    fn dns_that_does_not_answer_changes_nothing() {
        for before in [right(), missing()] {
            let kept = after(None, before, 0, 0);
            let still = after(Some(&kept), unanswered(), 100 * DAY, 0);
            assert_eq!((still.status, &still.found, still.missed), (kept.status, &kept.found, kept.missed));
        }
        assert_eq!(after(None, unanswered(), 100 * DAY, 0).status, RecordStatus::Pending);
    }

    #[test]
    fn a_domain_is_as_far_as_its_records() {
        use RecordStatus as R;
        let records = [record("needed", true), record("other", false)];
        let of = |needed: R, other: R| {
            let finding = |status| Finding { status, found: None, advice: None, missed: None };
            let findings = [("needed".to_owned(), finding(needed)), ("other".to_owned(), finding(other))];
            status(&records, &findings.into())
        };
        assert_eq!(of(R::Verified, R::Verified), Status::Verified);
        assert_eq!(of(R::Verified, R::Pending), Status::PartiallyVerified);
        assert_eq!(of(R::Verified, R::Failed), Status::PartiallyFailed);
        assert_eq!(of(R::Pending, R::Verified), Status::Pending);
        assert_eq!(of(R::Failed, R::Verified), Status::Failed);
        for status in Status::ALL {
            assert_eq!(Status::parse(status.as_str()), Some(status));
        }
    }

    #[test]
    fn looks_become_rarer_and_end_where_nobody_sets_the_records() {
        let none = Findings::new();
        let next = |status, is_owned, now| next_look(status, is_owned, &none, now, 0).map(|due| due - now);
        assert_eq!(next(Status::Pending, false, 0), Some(MINUTE));
        assert_eq!(next(Status::Pending, false, 40 * MINUTE), Some(10 * MINUTE));
        assert_eq!(next(Status::Pending, false, 10 * HOUR), Some(HOUR));
        assert_eq!(next(Status::Failed, false, AWAITED_FOR), Some(DAY));
        assert_eq!(next(Status::Failed, false, PATIENCE), None);
        assert_eq!((next(Status::Failed, true, PATIENCE), next(Status::Verified, true, 0)), (Some(DAY), Some(DAY)));
        let missed = Finding { missed: Some((1, 0)), ..after(None, right(), 0, 0) };
        let missed = Findings::from([("x".to_owned(), missed)]);
        assert_eq!(next_look(Status::Verified, true, &missed, 0, 0), Some(HOUR));
    }
}
