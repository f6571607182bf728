//! Spans of time: quarter-hours, by which is counted, and those that answers show. Clocks of all
//! zones differ by quarter-hours, so every hour, day, week and month of a zone is made of whole ones.

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use serde::Serialize;
use utoipa::ToSchema;

use crate::clock::{HOUR, MINUTE};
use crate::text::words;

const QUARTER: i64 = 15 * MINUTE;

/// When the quarter-hour of a moment begins.
pub fn quarter_of(moment: i64) -> i64 {
    moment - moment.rem_euclid(QUARTER)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = EmailMetricsGranularity)]
pub enum Granularity {
    Hourly,
    Daily,
    Weekly,
    Monthly,
}

words!(Granularity: ALL, parse { Hourly = "hourly", Daily = "daily", Weekly = "weekly", Monthly = "monthly" });

impl Granularity {
    /// When the hour, the day, the week from Monday on or the month begins that a moment is in.
    pub fn start_of(self, moment: i64, zone: &TimeZone) -> i64 {
        let Ok(at) = Timestamp::from_microsecond(moment) else { return moment };
        let at = at.to_zoned(zone.clone());
        self.start(&at).map_or(moment, |start| start.timestamp().as_microsecond())
    }

    /// When the one behind that begins which begins at a moment.
    pub fn next(self, start: i64, zone: &TimeZone) -> Option<i64> {
        let date = Timestamp::from_microsecond(start).ok()?.to_zoned(zone.clone()).date();
        let next = match self {
            Granularity::Hourly => return start.checked_add(HOUR),
            Granularity::Daily => date.tomorrow(),
            Granularity::Weekly => date.checked_add(7.days()),
            Granularity::Monthly => date.first_of_month().checked_add(1.month()),
        };
        Some(next.ok()?.to_zoned(zone.clone()).ok()?.timestamp().as_microsecond())
    }

    fn start(self, at: &Zoned) -> Option<Zoned> {
        let start_of = |date: Date| date.to_zoned(at.time_zone().clone()).ok();
        match self {
            // By what elapses: an hour that clocks show twice is two.
            Granularity::Hourly => {
                let within = i64::from(at.minute()) * 60 + i64::from(at.second());
                let whole = at.timestamp().as_second() - within;
                Some(Timestamp::from_second(whole).ok()?.to_zoned(at.time_zone().clone()))
            }
            Granularity::Daily => start_of(at.date()),
            Granularity::Weekly => {
                start_of(at.date().checked_sub(i64::from(at.weekday().to_monday_zero_offset()).days()).ok()?)
            }
            Granularity::Monthly => start_of(at.date().first_of_month()),
        }
    }
}

/// When the first of so many days of a zone begins, the last of which is under way.
pub fn first_of_days(days: i64, now: i64, zone: &TimeZone) -> i64 {
    let first = || {
        let today = Timestamp::from_microsecond(now).ok()?.to_zoned(zone.clone()).date();
        let first = today.checked_sub((days - 1).days()).ok()?;
        Some(first.to_zoned(zone.clone()).ok()?.timestamp().as_microsecond())
    };
    first().unwrap_or(now)
}

/// A moment as it is written: a date, a date and a time, or that with its offset. A date is the
/// beginning of its day in the zone, or its end.
pub fn read_moment(text: &str, zone: &TimeZone, is_end: bool) -> Option<i64> {
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Some(moment.as_microsecond());
    }
    let is_date = !text.contains(['T', 't', ' ']);
    let time = match is_date {
        true => {
            let date = text.parse::<Date>().ok()?;
            if is_end { date.tomorrow().ok()? } else { date }.to_datetime(jiff::civil::Time::midnight())
        }
        false => text.parse::<DateTime>().ok()?,
    };
    Some(time.to_zoned(zone.clone()).ok()?.timestamp().as_microsecond())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::rfc3339;

    fn zone(name: &str) -> TimeZone {
        TimeZone::get(name).expect("a zone")
    }

    fn start(granularity: Granularity, moment: &str, name: &str) -> String {
        let moment = moment.parse::<Timestamp>().expect("a moment").as_microsecond();
        rfc3339(granularity.start_of(moment, &zone(name)))
    }

    #[test]
    fn periods_begin_where_clocks_of_the_zone_say() {
        use Granularity::{Daily, Hourly, Monthly, Weekly};
        for (granularity, moment, name, expected) in [
            (Hourly, "2026-03-29T00:59:00Z", "Asia/Kathmandu", "2026-03-29T00:15:00.000000Z"),
            (Daily, "2026-03-29T22:30:00Z", "Europe/Berlin", "2026-03-29T22:00:00.000000Z"),
            (Daily, "2026-03-29T10:00:00Z", "Europe/Berlin", "2026-03-28T23:00:00.000000Z"),
            (Weekly, "2026-11-16T00:00:00Z", "UTC", "2026-11-16T00:00:00.000000Z"),
            (Weekly, "2026-11-15T23:59:59Z", "UTC", "2026-11-09T00:00:00.000000Z"),
            (Monthly, "2026-03-31T23:00:00Z", "Europe/Berlin", "2026-03-31T22:00:00.000000Z"),
        ] {
            assert_eq!(start(granularity, moment, name), expected, "{granularity} of {moment} in {name}");
        }
    }

    #[test]
    fn each_period_is_followed_by_the_next_also_where_clocks_are_set() {
        use Granularity::{Daily, Hourly, Monthly, Weekly};
        for (granularity, start, expected) in [
            (Hourly, "2026-10-25T00:00:00Z", "2026-10-25T01:00:00.000000Z"),
            (Daily, "2026-03-28T23:00:00Z", "2026-03-29T22:00:00.000000Z"),
            (Weekly, "2026-03-22T23:00:00Z", "2026-03-29T22:00:00.000000Z"),
            (Monthly, "2026-02-28T23:00:00Z", "2026-03-31T22:00:00.000000Z"),
        ] {
            let start = start.parse::<Timestamp>().expect("a moment").as_microsecond();
            let next = granularity.next(start, &zone("Europe/Berlin")).map(rfc3339);
            assert_eq!(next.as_deref(), Some(expected), "{granularity}");
        }
        let now = "2026-03-30T22:30:00Z".parse::<Timestamp>().expect("a moment").as_microsecond();
        assert_eq!(rfc3339(first_of_days(3, now, &zone("Europe/Berlin"))), "2026-03-28T23:00:00.000000Z");
    }

    #[test]
    fn an_hour_that_clocks_show_twice_is_two() {
        let [first, second] = ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]
            .map(|moment| start(Granularity::Hourly, moment, "Europe/Berlin"));
        assert_ne!(first, second);
    }

    #[test]
    fn a_date_is_a_whole_day_of_the_zone() {
        let read = |text: &str, is_end| read_moment(text, &zone("Europe/Berlin"), is_end).map(rfc3339);
        assert_eq!(read("2026-07-01", false).as_deref(), Some("2026-06-30T22:00:00.000000Z"));
        assert_eq!(read("2026-07-01", true).as_deref(), Some("2026-07-01T22:00:00.000000Z"));
        assert_eq!(read("2026-07-01T12:00:00Z", true).as_deref(), Some("2026-07-01T12:00:00.000000Z"));
        assert_eq!(read("2026-07-01T12:00:00", false).as_deref(), Some("2026-07-01T10:00:00.000000Z"));
        assert!(["", "yesterday", "2026-13-01", "2026-07-01T25:00:00Z"].iter().all(|text| read(text, false).is_none()));
    }
}
