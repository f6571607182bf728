//! Counters in the store.

use uuid::Uuid;

use super::counts::Counts;
use crate::clock::DAY;
use crate::db::{DbError, Row, Sql, Stmt, Value, among, elements, from_row, statements};
use crate::id::{BroadcastId, DomainId, Id, WorkspaceId, json_array};

/// The columns of the counters, and the same with something around each.
macro_rules! columns {
    () => {
        "sent, delivered, delivery_delayed, bounced_permanent, bounced_transient, bounced_undetermined, complained,
         suppressed, failed, opened, unique_opened, clicked, unique_clicked, unsubscribed, received"
    };
    (each $before:literal, $after:literal) => {
        columns!(@ $before, $after;
            "sent", "delivered", "delivery_delayed", "bounced_permanent", "bounced_transient", "bounced_undetermined",
            "complained", "suppressed", "failed", "opened", "unique_opened", "clicked", "unique_clicked",
            "unsubscribed"; "received")
    };
    (@ $before:literal, $after:literal; $($column:literal),+; $last:literal) => {
        concat!($($before, $column, $after, ", ",)+ $before, $last, $after)
    };
}

/// Adds to the counters under a key of a table.
macro_rules! add_to {
    ($table:literal) => {
        add_to!(@ $table;
            "sent", "delivered", "delivery_delayed", "bounced_permanent", "bounced_transient", "bounced_undetermined",
            "complained", "suppressed", "failed", "opened", "unique_opened", "clicked", "unique_clicked",
            "unsubscribed"; "received")
    };
    (@ $table:literal; $($column:literal),+; $last:literal) => {
        concat!(
            "INSERT INTO ", $table, " (workspace_id, period, domain, broadcast_id, ", columns!(), ")
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
             ON CONFLICT (workspace_id, period, domain, broadcast_id) DO UPDATE SET ",
            $($column, " = ", $table, ".", $column, " + excluded.", $column, ", ",)+
            $last, " = ", $table, ".", $last, " + excluded.", $last
        )
    };
}

/// What was counted from one moment to another.
macro_rules! counts_of {
    ($table:literal, $from:literal, $until:literal) => {
        concat!(
            "SELECT period, domain, broadcast_id, ",
            columns!(),
            " FROM ",
            $table,
            " WHERE workspace_id = $1 AND period >= ",
            $from,
            " AND period < ",
            $until
        )
    };
}

/// Only these domains and broadcasts (JSON, or NULL for all).
macro_rules! filtered {
    ($engine:ident) => {
        concat!(
            "(CAST($4 AS TEXT) IS NULL OR domain IN ",
            elements!($engine texts "$4"),
            ") AND (CAST($5 AS TEXT) IS NULL OR broadcast_id IN ",
            elements!($engine ids "$5"),
            ")"
        )
    };
}

macro_rules! sums {
    () => {
        columns!(each "CAST(COALESCE(SUM(", "), 0) AS BIGINT)")
    };
}

/// The sums of a span: of the whole days in it, from `$6` to `$7`, of the quarter-hours before and behind
/// them, and of what is not added up yet. One look sees each row in one of these.
macro_rules! by_days {
    ($engine:ident $keys:literal, $rest:literal) => {
        concat!(
            "SELECT ",
            $keys,
            sums!(),
            " FROM (",
            counts_of!("email_counts", "$2", "$6"),
            " UNION ALL ",
            counts_of!("email_counts_by_day", "$6", "$7"),
            " UNION ALL ",
            counts_of!("email_counts", "$7", "$3"),
            " UNION ALL ",
            counts_of!("email_count_deltas", "$2", "$3"),
            ") AS counts WHERE ",
            filtered!($engine),
            $rest
        )
    };
}

/// The sums of each quarter-hour, in the order of the key, so that nothing is sorted. What is added up and what
/// is not yet comes apart.
macro_rules! by_quarters {
    ($engine:ident $keys:literal, $group:literal) => {
        concat!(
            by_quarters!(@ $engine $keys, "email_counts", $group), " UNION ALL ",
            by_quarters!(@ $engine $keys, "email_count_deltas", $group), " LIMIT $6"
        )
    };
    (@ $engine:ident $keys:literal, $table:literal, $group:literal) => {
        concat!(
            "SELECT ", $keys, sums!(), " FROM ", $table, " WHERE workspace_id = $1 AND period >= $2 AND period < $3 AND ",
            filtered!($engine), " GROUP BY ", $group
        )
    };
}

statements! {
    functions {
        /// Some that are to be added up.
        pub(super) fn deltas(most: i64) = Sql::both(concat!(
            "SELECT workspace_id, period, domain, broadcast_id, id, ", columns!(), " FROM email_count_deltas
             ORDER BY workspace_id, id LIMIT $1"));
        /// Names of the domains of a workspace.
        pub(super) fn domains(workspace_id: WorkspaceId) = Sql::both(
            "SELECT id, name FROM domains WHERE workspace_id = $1");
        /// Names of broadcasts, whose ids are JSON.
        pub(super) fn broadcasts(workspace_id: WorkspaceId, ids: String) = among!(
            "SELECT id, name FROM broadcasts WHERE workspace_id = $1 AND id", ids "$2", "");
        /// Those that can be chosen.
        pub(super) fn newest_broadcasts(workspace_id: WorkspaceId) = Sql::both(
            "SELECT id, name FROM broadcasts WHERE workspace_id = $1 ORDER BY id DESC LIMIT 100");
        fn delete_some(workspace_id: WorkspaceId, ids: String) = among!(
            "DELETE FROM email_count_deltas WHERE workspace_id = $1 AND id", ids "$2", "");
    }
    INSERT_DELTA = Sql::both(concat!(
        "INSERT INTO email_count_deltas (workspace_id, period, domain, broadcast_id, id, ", columns!(), ")
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)"));
    ADD = Sql::both(add_to!("email_counts"));
    ADD_TO_DAY = Sql::both(add_to!("email_counts_by_day"));
    TOTALS = Sql::each(by_days!(sqlite "", ""), by_days!(postgres "", ""));
    /// By what `$8`, `$9` and `$10` ask for: the day (or quarter-hour at an end), the domain, the broadcast.
    GROUPED = Sql::each(
        by_days!(sqlite "CASE WHEN CAST($8 AS BOOLEAN) THEN period ELSE 0 END,
                         CASE WHEN CAST($9 AS BOOLEAN) THEN domain ELSE '' END,
                         CASE WHEN CAST($10 AS BOOLEAN) THEN broadcast_id ELSE NULL END, ",
            " GROUP BY 1, 2, 3 ORDER BY 1, 2, 3 LIMIT $11"),
        by_days!(postgres "CASE WHEN CAST($8 AS BOOLEAN) THEN period ELSE 0 END,
                           CASE WHEN CAST($9 AS BOOLEAN) THEN domain ELSE '' END,
                           CASE WHEN CAST($10 AS BOOLEAN) THEN broadcast_id ELSE NULL END, ",
            " GROUP BY 1, 2, 3 ORDER BY 1, 2, 3 LIMIT $11"));
    BY_QUARTER = Sql::each(
        by_quarters!(sqlite "period, '', CAST(NULL AS UUID), ", "period"),
        by_quarters!(postgres "period, '', CAST(NULL AS UUID), ", "period"));
    BY_QUARTER_AND_DOMAIN = Sql::each(
        by_quarters!(sqlite "period, domain, CAST(NULL AS UUID), ", "period, domain"),
        by_quarters!(postgres "period, domain, CAST(NULL AS UUID), ", "period, domain"));
    BY_ALL = Sql::each(
        by_quarters!(sqlite "period, domain, broadcast_id, ", "period, domain, broadcast_id"),
        by_quarters!(postgres "period, domain, broadcast_id, ", "period, domain, broadcast_id"));
}

/// Twice as many as a month has: what is not added up yet comes apart.
const MOST_QUARTERS: i64 = 6_000;

/// What is counted apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub workspace_id: WorkspaceId,
    pub period: i64,
    pub domain: String,
    pub broadcast_id: BroadcastId,
}

impl Key {
    /// The same of the whole day.
    pub fn day(&self) -> Key {
        Key { period: self.period - self.period.rem_euclid(DAY), ..self.clone() }
    }

    fn values(&self) -> impl Iterator<Item = Value> {
        let Key { workspace_id, period, domain, broadcast_id } = self;
        [(*workspace_id).into(), (*period).into(), domain.as_str().into(), (*broadcast_id).into()].into_iter()
    }
}

/// A row that is to be added up.
pub struct Delta {
    pub key: Key,
    pub id: Uuid,
    pub counts: Counts,
}

from_row!(Key { workspace_id, period, domain, broadcast_id });
from_row!(Delta { key, id, counts });

fn values(counts: &Counts) -> impl Iterator<Item = Value> {
    counts.columns().into_iter().map(Value::from)
}

pub fn insert_delta(id: Uuid, key: &Key, counts: &Counts) -> Stmt {
    INSERT_DELTA.with_all(key.values().chain([id.into()]).chain(values(counts)).collect())
}

/// Adds to what stands under a key.
pub fn add(key: &Key, counts: &Counts) -> Stmt {
    ADD.with_all(key.values().chain(values(counts)).collect())
}

/// Adds to what stands under the key of a day.
pub fn add_to_day(day: &Key, counts: &Counts) -> Stmt {
    ADD_TO_DAY.with_all(day.values().chain(values(counts)).collect())
}

/// Deletes exactly these, or nothing is committed: another process may have added them up.
pub fn delete(workspace_id: WorkspaceId, ids: &[Uuid]) -> Stmt {
    delete_some(workspace_id, json_array(ids.iter().copied())).expect(ids.len() as u64)
}

/// Which counters of a workspace: from one moment to another, of these domains and broadcasts, or of all.
pub struct Which<'a> {
    pub workspace_id: WorkspaceId,
    pub span: (i64, i64),
    pub domains: Option<&'a [String]>,
    pub broadcasts: Option<&'a [BroadcastId]>,
}

impl Which<'_> {
    fn values(&self) -> impl Iterator<Item = Value> {
        let domains = self.domains.map(|domains| serde_json::Value::from(domains).to_string());
        let broadcasts = self.broadcasts.map(|ids| json_array(ids.iter().copied()));
        [self.workspace_id.into(), self.span.0.into(), self.span.1.into(), domains.into(), broadcasts.into()]
            .into_iter()
    }

    /// From when to when the whole days in the span are; the same moment twice where there are none.
    fn days(&self) -> [Value; 2] {
        let (start, end) = self.span;
        let (first, last) = (start + (-start).rem_euclid(DAY), end - end.rem_euclid(DAY));
        if first < last { [first.into(), last.into()] } else { [end.into(), end.into()] }
    }
}

/// Everything as one row.
pub fn totals_of(which: &Which<'_>) -> Stmt {
    TOTALS.with_all(which.values().chain(which.days()).collect())
}

/// What counters are told apart by.
pub struct Grouping {
    pub by_period: Option<Period>,
    pub by_domain: bool,
    pub by_broadcast: bool,
}

/// How finely times are told apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Period {
    Quarter,
    /// Whole days of UTC, and the quarter-hours before and behind them.
    Day,
}

/// Apart at least as far as wanted, each as a [`Group`](super::Group).
pub fn grouped(which: &Which<'_>, grouping: &Grouping, most: i64) -> Stmt {
    let Grouping { by_period, by_domain, by_broadcast } = *grouping;
    let by_quarter = match (by_domain, by_broadcast) {
        (_, true) => BY_ALL,
        (true, false) => BY_QUARTER_AND_DOMAIN,
        (false, false) => BY_QUARTER,
    };
    if by_period == Some(Period::Quarter) {
        return by_quarter.with_all(which.values().chain([most.into()]).collect());
    }
    let more = [by_period.is_some().into(), by_domain.into(), by_broadcast.into(), most.into()];
    GROUPED.with_all(which.values().chain(which.days()).chain(more).collect())
}

/// What happened in a workspace from one moment to another; [`Totals`](Counts) of its first row.
pub fn totals(workspace_id: WorkspaceId, span: (i64, i64)) -> Stmt {
    totals_of(&Which { workspace_id, span, domains: None, broadcasts: None })
}

/// The same, apart by quarter-hours.
pub fn by_quarter(workspace_id: WorkspaceId, span: (i64, i64)) -> Stmt {
    let which = Which { workspace_id, span, domains: None, broadcasts: None };
    let grouping = Grouping { by_period: Some(Period::Quarter), by_domain: false, by_broadcast: false };
    grouped(&which, &grouping, MOST_QUARTERS)
}

/// The same, apart by the domains that mail was sent from.
pub fn by_domain(workspace_id: WorkspaceId, span: (i64, i64), most: i64) -> Stmt {
    let which = Which { workspace_id, span, domains: None, broadcasts: None };
    grouped(&which, &Grouping { by_period: None, by_domain: true, by_broadcast: false }, most)
}

/// A domain, or a broadcast, and its name.
pub fn named<I: Id>(rows: &[Row]) -> Result<Vec<(I, String)>, DbError> {
    rows.iter().map(|row| Ok((row.id(0)?, row.text(1)?))).collect()
}

pub type Domains = Vec<(DomainId, String)>;
