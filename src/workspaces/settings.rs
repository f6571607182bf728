//! The settings of a workspace. Valid by construction.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::store;
use crate::clock::HOUR;
use crate::db::{Db, DbError, Row};
use crate::id::WorkspaceId;
use crate::web::Change;
use crate::windows::Zone;

const MOST_MAILS: i64 = 1_000;

/// Thirty days.
const MOST_HOURS: i64 = 30 * 24;

/// How many bulk mails one contact gets at most within so many hours. Transactional mail is not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "Given")]
#[schema(example = json!({"mails": 3, "hours": 168}))]
pub struct BulkCap {
    #[schema(minimum = 1, maximum = 1000)]
    pub mails: i64,
    #[schema(minimum = 1, maximum = 720)]
    pub hours: i64,
}

/// As it is sent.
#[derive(Deserialize)]
struct Given {
    mails: Value,
    hours: Value,
}

impl TryFrom<Given> for BulkCap {
    type Error = String;

    fn try_from(Given { mails, hours }: Given) -> Result<BulkCap, String> {
        BulkCap::new(mails.as_i64().unwrap_or_default(), hours.as_i64().unwrap_or_default())
    }
}

impl BulkCap {
    pub fn new(mails: i64, hours: i64) -> Result<BulkCap, String> {
        if !(1..=MOST_MAILS).contains(&mails) {
            return Err(format!("must allow 1 to {MOST_MAILS} `mails`, a whole number, or be null for any number"));
        }
        if !(1..=MOST_HOURS).contains(&hours) {
            return Err(format!("must count within 1 to {MOST_HOURS} `hours`, a whole number"));
        }
        Ok(BulkCap { mails, hours })
    }

    /// For how long a mail counts, in microseconds.
    pub fn period(self) -> i64 {
        self.hours * HOUR
    }
}

impl std::fmt::Display for BulkCap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (mails, hours) =
            (if self.mails == 1 { "mail" } else { "mails" }, if self.hours == 1 { "hour" } else { "hours" });
        write!(f, "{} bulk {mails} in {} {hours}", self.mails, self.hours)
    }
}

/// A workspace and what it has settled.
#[derive(Serialize, ToSchema)]
pub struct Workspace {
    #[schema(pattern = "^workspace$")]
    object: &'static str,
    #[schema(value_type = Uuid)]
    id: WorkspaceId,
    #[schema(example = "Acme")]
    name: String,
    /// Where contacts are whose property `timezone` names no zone.
    pub timezone: Zone,
    /// Null: a contact gets as many bulk mails as there are.
    #[schema(required = true)]
    pub bulk_cap: Option<BulkCap>,
}

impl Workspace {
    pub async fn find(db: &Db, id: WorkspaceId) -> Result<Option<Workspace>, DbError> {
        db.read(store::by_id(id)).await?.first().map(Workspace::read).transpose()
    }

    pub fn read(row: &Row) -> Result<Workspace, DbError> {
        let cap = row.maybe(3, Row::int)?.zip(row.maybe(4, Row::int)?);
        Ok(Workspace {
            object: "workspace",
            id: row.id(0)?,
            name: row.text(1)?,
            timezone: Zone::named(&row.text(2)?).unwrap_or(Zone::UTC),
            bulk_cap: cap.and_then(|(mails, hours)| BulkCap::new(mails, hours).ok()),
        })
    }
}

/// What to change. What is left out stays as it is.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = WorkspaceChange)]
pub struct WorkspaceChange {
    /// By its name in the IANA database.
    pub timezone: Option<Zone>,
    /// Null takes it away.
    #[schema(value_type = Option<BulkCap>)]
    pub bulk_cap: Change<BulkCap>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cap_is_told_in_words_and_bounded() {
        assert_eq!(BulkCap::new(1, 24).expect("a cap").to_string(), "1 bulk mail in 24 hours");
        assert_eq!(BulkCap::new(1000, 720).expect("a cap").period(), 720 * HOUR);
        for (mails, hours, words) in [(0, 24, "`mails`"), (1001, 24, "`mails`"), (1, 0, "`hours`"), (1, 721, "`hours`")]
        {
            assert!(BulkCap::new(mails, hours).expect_err("refused").contains(words), "{mails} in {hours}");
        }
    }
}
