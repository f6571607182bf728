//! Windows of time: hours of certain days of the week, as clocks show them where somebody is. Pure:
//! given a moment and a zone, a window says when it is open next.
//!
//! Where clocks are set, an hour begins when a clock first shows it or a later time. So what begins
//! in hours that are skipped begins right behind them, and hours that come twice count once.

mod zone;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time, Weekday};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::text::{quoted, words};

pub use zone::Zone;

/// For how many days behind a moment and ahead of it is looked for hours that are not over: a clock
/// may have been set back, and the hours of one week may fall into those that are skipped.
const DAYS_BEHIND: i64 = 2;
const DAYS_AHEAD: i64 = 15;

/// When mail may be sent, as clocks show it where its recipient is. What lies outside are quiet hours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "Given")]
#[schema(as = SendWindow, example = json!({"days": ["monday", "tuesday"], "from": "09:00", "until": "17:30"}))]
pub struct Window {
    /// The days on which it opens; every day where none are named.
    #[schema(required = false, min_items = 1, max_items = 7)]
    days: Vec<Day>,
    /// When it opens.
    from: TimeOfDay,
    /// When it closes: on the next day, where that is not after `from`.
    until: TimeOfDay,
}

/// As it is sent.
#[derive(Deserialize)]
struct Given {
    days: Option<Vec<Day>>,
    from: TimeOfDay,
    until: TimeOfDay,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Weekday)]
pub enum Day {
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

words!(Day: ALL {
    Monday = "monday",
    Tuesday = "tuesday",
    Wednesday = "wednesday",
    Thursday = "thursday",
    Friday = "friday",
    Saturday = "saturday",
    Sunday = "sunday",
});

/// Minutes since a day began; 24:00 is its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(value_type = String, pattern = "^([01][0-9]|2[0-3]):[0-5][0-9]$|^24:00$", example = "09:00")]
struct TimeOfDay(i16);

impl TimeOfDay {
    const END: TimeOfDay = TimeOfDay(24 * 60);

    /// The moment on a day of the calendar.
    fn on(self, day: Date) -> Option<DateTime> {
        let (hour, minute) = (i8::try_from(self.0 / 60).ok()?, i8::try_from(self.0 % 60).ok()?);
        match self {
            TimeOfDay::END => Some(day.tomorrow().ok()?.to_datetime(Time::midnight())),
            _ => Some(day.to_datetime(Time::new(hour, minute, 0, 0).ok()?)),
        }
    }
}

impl TryFrom<String> for TimeOfDay {
    type Error = String;

    fn try_from(given: String) -> Result<TimeOfDay, String> {
        let number = |text: &str| {
            let is_plain = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<i16>().ok().filter(|_| is_plain)
        };
        let parts = given.split_once(':').and_then(|(hour, minute)| number(hour).zip(number(minute)));
        match parts {
            Some((hour @ 0..24, minute @ 0..60)) => Ok(TimeOfDay(hour * 60 + minute)),
            Some((24, 0)) => Ok(TimeOfDay::END),
            _ => Err(format!("must be a time of day from `00:00` to `24:00`, but is {}", quoted(&given))),
        }
    }
}

impl From<TimeOfDay> for String {
    fn from(time: TimeOfDay) -> String {
        format!("{:02}:{:02}", time.0 / 60, time.0 % 60)
    }
}

impl TryFrom<Given> for Window {
    type Error = String;

    fn try_from(Given { days, from, until }: Given) -> Result<Window, String> {
        let days = days.unwrap_or_else(|| Day::ALL.to_vec());
        if days.is_empty() {
            return Err("must name at least one day in `days`, or leave it out for every day".into());
        }
        if from == until || from == TimeOfDay::END {
            return Err(
                "must begin and end at different times: for whole days, `from` is `00:00` and `until` is `24:00`"
                    .into(),
            );
        }
        // In the order of the week, each once.
        Ok(Window { days: Day::ALL.into_iter().filter(|day| days.contains(day)).collect(), from, until })
    }
}

impl std::fmt::Display for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "from {} until {}", String::from(self.from), String::from(self.until))?;
        match self.days.len() {
            7 => Ok(()),
            _ => write!(f, " on {}", self.days.iter().map(|day| day.as_str()).collect::<Vec<_>>().join(", ")),
        }
    }
}

impl Window {
    /// What it is given as.
    pub const FIELDS: [&str; 3] = ["days", "from", "until"];

    /// Reads what stands within something else. `Err` says what is wrong with it.
    pub fn parse(given: &Value) -> Result<Window, String> {
        Window::deserialize(given).map_err(|error| error.to_string())
    }

    /// One that the store keeps.
    pub fn stored(text: &str) -> Option<Window> {
        serde_json::from_str(text).ok()
    }

    /// As the store keeps it.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// When it is open next, in microseconds of wall time: `now` itself while it is.
    pub fn next_opening(&self, now: i64, zone: &Zone) -> i64 {
        self.find_opening(now, zone).map_or(now, Timestamp::as_microsecond)
    }

    fn find_opening(&self, now: i64, zone: &Zone) -> Option<Timestamp> {
        let now = Timestamp::from_microsecond(now).ok()?;
        let mut day = zone.date_at(now);
        for _ in 0..DAYS_BEHIND {
            day = day.yesterday().ok()?;
        }
        for _ in -DAYS_BEHIND..=DAYS_AHEAD {
            if let Some((start, end)) = self.hours_of(day, zone)
                && start < end
                && now < end
            {
                return Some(start.max(now));
            }
            day = day.tomorrow().ok()?;
        }
        None
    }

    /// When it opens and closes, if it opens on this day. Both are the same where those hours are skipped.
    fn hours_of(&self, day: Date, zone: &Zone) -> Option<(Timestamp, Timestamp)> {
        self.days.iter().find(|known| known.weekday() == day.weekday())?;
        let last = if self.until > self.from { day } else { day.tomorrow().ok()? };
        Some((zone.first_reaching(self.from.on(day)?)?, zone.first_reaching(self.until.on(last)?)?))
    }
}

impl Day {
    fn weekday(self) -> Weekday {
        match self {
            Day::Monday => Weekday::Monday,
            Day::Tuesday => Weekday::Tuesday,
            Day::Wednesday => Weekday::Wednesday,
            Day::Thursday => Weekday::Thursday,
            Day::Friday => Weekday::Friday,
            Day::Saturday => Weekday::Saturday,
            Day::Sunday => Weekday::Sunday,
        }
    }
}

#[cfg(test)]
mod tests;
