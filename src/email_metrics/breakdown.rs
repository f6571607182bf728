//! Counters put together by what they are to be told apart by.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::counts::Counts;
use super::metric::Metric;
use super::query::{Dimension, Question};
use super::store::Domains;
use crate::clock::rfc3339;
use crate::db::from_row;
use crate::error::Error;
use crate::id::{BroadcastId, DomainId, EmailId};

/// How many rows an answer may have.
const MOST_ROWS: usize = 10_000;

/// Counters of one quarter-hour, domain, mail or broadcast, as far as these were asked for.
pub struct Group {
    pub period: i64,
    pub domain: String,
    pub email_id: Option<EmailId>,
    pub broadcast_id: Option<BroadcastId>,
    pub counts: Counts,
}

from_row!(Group { period, domain, email_id = None, broadcast_id, counts });

/// What one row of an answer is about; the earliest comes first.
pub type Place = (Option<i64>, Option<String>, Option<EmailId>, Option<BroadcastId>);

/// The metrics of one period, domain, mail or broadcast.
#[derive(Serialize, ToSchema)]
#[schema(as = EmailMetricsRow)]
pub struct DataRow {
    /// When the period begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period: Option<String>,
    /// Left out where the workspace has no such domain (any more).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = Uuid)]
    pub domain_id: Option<DomainId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = Uuid)]
    pub email_id: Option<EmailId>,
    /// Left out for mail of no broadcast.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = Uuid)]
    pub broadcast_id: Option<BroadcastId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broadcast_name: Option<String>,
    #[serde(flatten)]
    #[schema(value_type = HashMap<String, f64>)]
    pub metrics: Map<String, Value>,
}

/// All together, and apart.
pub struct Breakdown {
    pub totals: Counts,
    rows: BTreeMap<Place, Counts>,
}

impl Breakdown {
    pub fn of(question: &Question, groups: Vec<Group>) -> Result<Breakdown, Error> {
        let mut breakdown = Breakdown { totals: Counts::default(), rows: BTreeMap::new() };
        let mut known: Option<(i64, i64)> = None;
        for group in groups {
            breakdown.totals += group.counts;
            // Many in a row are of the same quarter-hour.
            let period = match known {
                Some((quarter, start)) if quarter == group.period => start,
                _ => question.granularity.start_of(group.period, &question.zone),
            };
            known = Some((group.period, period));
            let place: Place = (
                question.by(Dimension::Period).then_some(period),
                question.by(Dimension::Domain).then_some(group.domain),
                group.email_id.filter(|_| question.by(Dimension::Email)),
                group.broadcast_id.filter(|_| question.by(Dimension::Broadcast)),
            );
            *breakdown.rows.entry(place).or_default() += group.counts;
        }
        if breakdown.rows.len() > MOST_ROWS {
            return Err(too_many());
        }
        Ok(breakdown)
    }

    /// The broadcasts that rows are about.
    pub fn broadcasts(&self) -> Vec<BroadcastId> {
        let mut ids: Vec<BroadcastId> = self.rows.keys().filter_map(|place| place.3).collect();
        ids.sort();
        ids.dedup();
        ids
    }

    /// What was counted, by what it is about.
    pub fn into_counts(self) -> BTreeMap<Place, Counts> {
        self.rows
    }

    pub fn rows(self, metrics: &[Metric], domains: &Domains, broadcasts: &[(BroadcastId, String)]) -> Vec<DataRow> {
        let domains: HashMap<&str, DomainId> = domains.iter().map(|(id, name)| (name.as_str(), *id)).collect();
        let broadcasts: HashMap<BroadcastId, &str> = broadcasts.iter().map(|(id, name)| (*id, name.as_str())).collect();
        let row = |((period, domain, email_id, broadcast_id), counts): (Place, Counts)| DataRow {
            period: period.map(rfc3339),
            domain_id: domain.as_deref().and_then(|name| domains.get(name).copied()),
            domain_name: domain.filter(|name| !name.is_empty()),
            email_id,
            broadcast_id,
            broadcast_name: broadcast_id.and_then(|id| broadcasts.get(&id).map(|name| (*name).to_owned())),
            metrics: Metric::values(metrics, &counts),
        };
        self.rows.into_iter().map(row).collect()
    }
}

/// How many groups are read: more cannot be told.
pub const MOST_GROUPS: i64 = 200_000;

pub fn too_many() -> Error {
    let message =
        format!("The answer would have more than {MOST_ROWS} rows. Narrow the dates or leave out a dimension.");
    Error::InvalidParameter { message }
}
