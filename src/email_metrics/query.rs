//! What can be asked of the numbers.

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::metric::Metric;
use super::period::{self, Granularity};
use super::store::Period;
use crate::clock::DAY;
use crate::error::Error;
use crate::id::{BroadcastId, DomainId, EmailId, Id};
use crate::text::{shown, words};
use crate::windows::Zone;

/// How many days one question may span, and how many by hours.
const MOST_DAYS: i64 = 366;
const MOST_DAYS_BY_HOUR: i64 = 31;

/// The days that are shown where nothing is said.
const USUAL_DAYS: i64 = 6;

/// How many ids one parameter may name.
const MOST_IDS: usize = 100;

/// What the two lists of words must hold.
const METRICS: &str = "must hold names of metrics separated by commas, such as `sent,delivered,delivery_rate`";
const DIMENSIONS: &str = "must hold `period`, `domain`, `email` or `broadcast`, separated by commas";

/// What the numbers are about.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Params {
    /// From when on, as a date or a time in ISO 8601; counted is by quarter-hours. By default 6 days before `end_date`.
    #[param(value_type = Option<String>, example = "2026-10-01")]
    start_date: Option<String>,
    /// Until when: a time, or a date, which is then the last day. By default now.
    #[param(value_type = Option<String>, example = "2026-10-07T12:00:00Z")]
    end_date: Option<String>,
    /// The zone by whose clocks hours, days, weeks and months begin, such as `Europe/Berlin`. By default UTC.
    #[param(value_type = Option<String>, example = "Europe/Berlin")]
    timezone: Option<String>,
    /// How long a period is, where `period` is among the dimensions: `hourly`, `daily`, `weekly` or `monthly`.
    #[param(value_type = Option<Granularity>)]
    granularity: Option<String>,
    /// Which metrics, separated by commas. By default all.
    #[param(value_type = Option<String>, example = "sent,delivered,delivery_rate")]
    metrics: Option<String>,
    /// What to tell them apart by, separated by commas: `period`, `domain`, and `email` or `broadcast`.
    #[param(value_type = Option<String>, example = "period,domain")]
    dimensions: Option<String>,
    /// Only mail from these domains: their ids, separated by commas.
    #[param(value_type = Option<String>)]
    domain_id: Option<String>,
    /// Only these mails, separated by commas. Not together with broadcasts.
    #[param(value_type = Option<String>)]
    email_id: Option<String>,
    /// Only these broadcasts, separated by commas. Not together with mails.
    #[param(value_type = Option<String>)]
    broadcast_id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = EmailMetricsDimension)]
pub enum Dimension {
    Period,
    Domain,
    Email,
    Broadcast,
}

words!(Dimension: ALL, parse { Period = "period", Domain = "domain", Email = "email", Broadcast = "broadcast" });

/// The same, checked.
#[derive(Debug, Clone)]
pub struct Question {
    pub start: i64,
    pub end: i64,
    pub zone: TimeZone,
    pub granularity: Granularity,
    pub metrics: Vec<Metric>,
    pub dimensions: Vec<Dimension>,
    pub domain_ids: Option<Vec<DomainId>>,
    pub email_ids: Option<Vec<EmailId>>,
    pub broadcast_ids: Option<Vec<BroadcastId>>,
}

impl Question {
    pub fn by(&self, dimension: Dimension) -> bool {
        self.dimensions.contains(&dimension)
    }

    /// Whether it is about mails one by one.
    pub fn is_of_mails(&self) -> bool {
        self.by(Dimension::Email) || self.email_ids.is_some()
    }

    /// What the periods that are shown are made of: days of UTC are counted as a whole.
    pub fn period(&self) -> Period {
        let is_by_day = self.granularity != Granularity::Hourly && self.zone == TimeZone::UTC;
        if is_by_day { Period::Day } else { Period::Quarter }
    }

    /// When each of the periods begins that the span touches.
    pub fn periods(&self) -> Vec<i64> {
        let first = self.granularity.start_of(self.start, &self.zone);
        let next = |at: &i64| {
            let next = self.granularity.next(*at, &self.zone)?;
            (next > *at && next < self.end).then_some(next)
        };
        std::iter::successors(Some(first), next).collect()
    }

    /// From the first quarter-hour on, up to the end.
    pub fn span(&self) -> (i64, i64) {
        (period::quarter_of(self.start), self.end)
    }
}

impl Params {
    /// Of a form, in which an empty field says nothing, told apart by these.
    pub fn of_form(typed: impl Fn(&str) -> String, dimensions: String) -> Params {
        let given = |name: &str| Some(typed(name).trim().to_owned()).filter(|text| !text.is_empty());
        Params {
            start_date: given("start_date"),
            end_date: given("end_date"),
            timezone: given("timezone"),
            granularity: given("granularity"),
            metrics: None,
            dimensions: Some(dimensions),
            domain_id: given("domain_id"),
            email_id: given("email_id"),
            broadcast_id: given("broadcast_id"),
        }
    }

    pub fn read(self, now: i64) -> Result<Question, Error> {
        let zone = match &self.timezone {
            None => TimeZone::UTC,
            Some(name) => Zone::named(name)
                .and_then(|zone| TimeZone::get(zone.name()).ok())
                .ok_or_else(|| invalid("timezone", "must be the name of a zone, such as `Europe/Berlin`", name))?,
        };
        let moment = |name: &str, given: &Option<String>, is_end: bool| match given {
            None => Ok(None),
            Some(text) => period::read_moment(text, &zone, is_end).map(Some).ok_or_else(|| {
                invalid(
                    name,
                    "must be a date or a time in ISO 8601, such as `2026-10-01` or `2026-10-01T12:00:00Z`",
                    text,
                )
            }),
        };
        let end = moment("end_date", &self.end_date, true)?.unwrap_or(now);
        let start = moment("start_date", &self.start_date, false)?.unwrap_or(end - USUAL_DAYS * DAY);
        let granularity = match &self.granularity {
            None => Granularity::Daily,
            Some(word) => Granularity::parse(word)
                .ok_or_else(|| invalid("granularity", "must be `hourly`, `daily`, `weekly` or `monthly`", word))?,
        };
        let metrics = listed(("metrics", METRICS), self.metrics.as_deref(), &Metric::ALL, Metric::parse)?;
        let dimensions = listed(("dimensions", DIMENSIONS), self.dimensions.as_deref(), &[], Dimension::parse)?;
        let question = Question {
            start,
            end,
            granularity,
            metrics,
            dimensions,
            domain_ids: ids("domain_id", self.domain_id.as_deref())?,
            email_ids: ids("email_id", self.email_id.as_deref())?,
            broadcast_ids: ids("broadcast_id", self.broadcast_id.as_deref())?,
            zone,
        };
        question.check()?;
        Ok(question)
    }
}

impl Question {
    fn check(&self) -> Result<(), Error> {
        let refused = |message: String| Err(Error::InvalidParameter { message });
        let is_by_hour = self.by(Dimension::Period) && self.granularity == Granularity::Hourly;
        let most = if is_by_hour { MOST_DAYS_BY_HOUR } else { MOST_DAYS };
        if self.start > self.end {
            return refused("The `start_date` parameter must not be after `end_date`.".into());
        }
        if self.end - self.start > (most + 1) * DAY {
            let by_hour = if is_by_hour { " by hours" } else { "" };
            return refused(format!("At most {most} days can be asked for at once{by_hour}. Narrow the dates."));
        }
        if self.is_of_mails() && (self.by(Dimension::Broadcast) || self.broadcast_ids.is_some()) {
            let message = "Mails and broadcasts exclude each other: send `email` or `email_id`, or `broadcast` or \
                           `broadcast_id`.";
            return refused(message.into());
        }
        Ok(())
    }
}

/// Words between commas; `all` where there is no such parameter. Twice the same is once.
fn listed<T: Copy + PartialEq>(
    (name, allowed): (&str, &str),
    given: Option<&str>,
    all: &[T],
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, Error> {
    let Some(given) = given else { return Ok(all.to_vec()) };
    let mut found = Vec::new();
    for word in given.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let one = parse(word).ok_or_else(|| invalid(name, allowed, word))?;
        if !found.contains(&one) {
            found.push(one);
        }
    }
    Ok(if found.is_empty() { all.to_vec() } else { found })
}

/// Ids between commas.
fn ids<I: Id>(name: &str, given: Option<&str>) -> Result<Option<Vec<I>>, Error> {
    let Some(given) = given else { return Ok(None) };
    let mut found = Vec::new();
    for text in given.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        found.push(text.parse::<I>().map_err(|_| invalid(name, "must hold ids, UUIDs, separated by commas", text))?);
    }
    if found.len() > MOST_IDS {
        let message = format!("The `{name}` parameter must hold at most {MOST_IDS} ids.");
        return Err(Error::InvalidParameter { message });
    }
    Ok((!found.is_empty()).then_some(found))
}

fn invalid(name: &str, predicate: &str, given: &str) -> Error {
    let message = format!("The `{name}` parameter {predicate}, but has `{}`.", shown(given));
    Error::InvalidParameter { message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::Query;

    const NOW: i64 = 1_767_323_045_678_901;

    fn asked(query: &str) -> Result<Question, String> {
        let read = Query::<Params>::parse(query).and_then(|Query(params)| params.read(NOW));
        read.map_err(|error| error.message().into_owned())
    }

    #[test]
    fn nothing_asked_is_everything_of_the_last_days() {
        let question = asked("").expect("valid");
        assert_eq!((question.end, question.start), (NOW, NOW - 6 * DAY));
        assert_eq!((question.metrics.len(), question.dimensions.len()), (22, 0));
        assert_eq!(question.granularity, Granularity::Daily);
    }

    #[test]
    fn what_cannot_be_asked_is_refused_with_the_parameters_name() {
        for (query, name) in [
            ("start_date=soon", "start_date"),
            ("start_date=2026-01-02T00:00:00Z&end_date=2026-01-01T00:00:00Z", "start_date"),
            ("start_date=2020-01-01", "days"),
            ("start_date=2025-10-01&granularity=hourly&dimensions=period", "by hours"),
            ("timezone=Nowhere", "timezone"),
            ("granularity=yearly", "granularity"),
            ("metrics=sent,loved", "metrics"),
            ("dimensions=color", "dimensions"),
            ("domain_id=x", "domain_id"),
            ("dimensions=email,broadcast", "exclude"),
            ("metrics=sent&metrics=sent", "metrics"),
        ] {
            let message = asked(query).expect_err(query);
            assert!(message.contains(name), "{query}: {message}");
        }
        let many = vec!["01890000-0000-7000-8000-000000000000"; 101].join(",");
        assert!(asked(&format!("email_id={many}")).is_err());
    }
}
