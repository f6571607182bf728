//! When a mail is to be sent: a moment in ISO 8601, or words such as "in 1 hour" and "Friday at
//! 3pm ET".

use jiff::civil::{Date, Time, Weekday};
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, ToSpan, Zoned};

use crate::clock::{DAY, unit_of_time};

/// How far ahead a mail may be scheduled.
const FURTHEST: i64 = 30 * DAY;

/// Nobody needs more words.
const LONGEST: usize = 100;

const ALLOWED: &str = "must be a time in ISO 8601 with its zone, such as `2026-01-31T09:00:00Z`, or words such as \
                       `in 1 hour`, `tomorrow at 9am` or `Friday at 3pm ET`";

/// The moment that a text names, in microseconds of wall time.
pub fn parse(text: &str, now: i64) -> Result<i64, String> {
    let at = match text.trim().parse::<Timestamp>() {
        Ok(at) => at.as_microsecond(),
        Err(_) => in_words(text, now).ok_or(ALLOWED)??,
    };
    match at - now {
        ..=0 => Err("must be in the future".into()),
        1..=FURTHEST => Ok(at),
        _ => Err("must be within 30 days from now".into()),
    }
}

/// How long a text says, such as `10m`, `2 hours` or `1h 30m`, in microseconds.
pub fn parse_span(text: &str) -> Option<i64> {
    let text = text.to_ascii_lowercase();
    let words: Vec<&str> = text.split_whitespace().collect();
    span_of(&words).filter(|_| text.len() <= LONGEST)
}

fn in_words(text: &str, now: i64) -> Option<Result<i64, String>> {
    if text.len() > LONGEST || !text.is_ascii() {
        return None;
    }
    let text = text.trim().to_ascii_lowercase().replace(',', " ");
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.split_first()? {
        (&"in", span) => now.checked_add(span_of(span)?).map(Ok),
        _ => on_calendar(&words, now),
    }
}

/// Such as `1 hour and 30 minutes`, behind "in".
fn span_of(words: &[&str]) -> Option<i64> {
    let spaced = spaced(words);
    let mut words = spaced.iter().map(String::as_str).filter(|word| *word != "and").peekable();
    let mut span = 0_i64;
    words.peek()?;
    while let Some(count) = words.next() {
        let count: i64 = match count {
            "a" | "an" | "one" => 1,
            number => number.parse().ok().filter(|count| (0..=1_000_000_000).contains(count))?,
        };
        let unit = unit_of_time(words.next()?)?;
        span = span.checked_add(count.checked_mul(unit)?)?;
    }
    Some(span)
}

/// A number that a word follows without a space becomes a word of its own: `5min`.
fn spaced(words: &[&str]) -> Vec<String> {
    let parts = |word: &&str| {
        let digits = word.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = word.split_at(digits);
        [number.to_owned(), unit.to_owned()]
    };
    words.iter().flat_map(parts).filter(|part| !part.is_empty()).collect()
}

/// Which day is meant.
enum Day {
    /// The next one on which the time is still to come.
    Any,
    InDays(i64),
    Weekday {
        day: Weekday,
        is_next: bool,
    },
}

/// Such as `tomorrow at 9am`, `friday at 3pm et`, `at noon`: a day, a time or both, and perhaps a zone.
/// Of a time that clocks show twice on that day, the first is meant; one that they skip is refused.
fn on_calendar(words: &[&str], now: i64) -> Option<Result<i64, String>> {
    let (zone, words) = match words.split_last()? {
        (last, rest) if !rest.is_empty() => zone(last).map_or((TimeZone::UTC, words), |zone| (zone, rest)),
        _ => (TimeZone::UTC, words),
    };
    let now = Timestamp::from_microsecond(now).ok()?.to_zoned(zone);
    let (day, words) = day(words)?;
    let time = match words {
        [] if !matches!(day, Day::Any) => now.time(),
        ["at", time @ ..] | time => time_of(time)?,
    };
    let at = |date: Date| date.to_datetime(time).to_zoned(now.time_zone().clone()).ok();
    let today = at(now.date())?;
    let later = |days: i64| at(now.date().checked_add(days.days()).ok()?);
    let found: Zoned = match day {
        Day::Any if today > now => today,
        Day::Any => later(1)?,
        Day::InDays(days) => later(days)?,
        Day::Weekday { day, is_next } => match i64::from(now.weekday().until(day)) {
            0 if today > now && !is_next => today,
            0 => later(7)?,
            days => later(days)?,
        },
    };
    if found.time() != time {
        let (date, zone) = (found.date(), found.time_zone().iana_name().unwrap_or("its zone"));
        let time = time.strftime("%H:%M");
        return Some(Err(format!("names {time} on {date}, which clocks in {zone} skip: choose another time")));
    }
    Some(Ok(found.timestamp().as_microsecond()))
}

fn day<'a, 'b>(words: &'a [&'b str]) -> Option<(Day, &'a [&'b str])> {
    let is_next = words.first() == Some(&"next");
    let words = match words {
        ["on" | "this" | "next", rest @ ..] => rest,
        all => all,
    };
    let (first, rest) = words.split_first()?;
    let weekday = |day| Some((Day::Weekday { day, is_next }, rest));
    match *first {
        "today" => Some((Day::InDays(0), rest)),
        "tomorrow" => Some((Day::InDays(1), rest)),
        "monday" | "mon" => weekday(Weekday::Monday),
        "tuesday" | "tue" => weekday(Weekday::Tuesday),
        "wednesday" | "wed" => weekday(Weekday::Wednesday),
        "thursday" | "thu" => weekday(Weekday::Thursday),
        "friday" | "fri" => weekday(Weekday::Friday),
        "saturday" | "sat" => weekday(Weekday::Saturday),
        "sunday" | "sun" => weekday(Weekday::Sunday),
        _ => Some((Day::Any, words)),
    }
}

/// Such as `9am`, `9:30 pm`, `15:00`, `noon`.
fn time_of(words: &[&str]) -> Option<Time> {
    let word = words.concat();
    match word.as_str() {
        "noon" => return Time::new(12, 0, 0, 0).ok(),
        "midnight" => return Time::new(0, 0, 0, 0).ok(),
        _ => {}
    }
    let (clock, half) = match word.strip_suffix("am").map(|rest| (rest, 0)) {
        Some(morning) => (morning.0, Some(morning.1)),
        None => word.strip_suffix("pm").map_or((word.as_str(), None), |rest| (rest, Some(12))),
    };
    let (hour, minute) = match clock.split_once(':') {
        Some((hour, minute)) if minute.len() == 2 => (number(hour)?, number(minute)?),
        Some(_) => return None,
        // A number alone might be anything.
        None => (number(clock).filter(|_| half.is_some())?, 0),
    };
    let hour = match half {
        Some(half) if (1..=12).contains(&hour) => hour % 12 + half,
        Some(_) => return None,
        None => hour,
    };
    Time::new(hour, minute, 0, 0).ok()
}

fn number(text: &str) -> Option<i8> {
    let is_plain = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

/// A zone by the letters that people write, or by its name in the database of zones. Letters that
/// name a region follow its daylight time; those that name a time are that time all the year.
fn zone(word: &str) -> Option<TimeZone> {
    let minutes = match word {
        "utc" | "gmt" | "z" | "wet" => 0,
        "et" => return TimeZone::get("America/New_York").ok(),
        "ct" => return TimeZone::get("America/Chicago").ok(),
        "mt" => return TimeZone::get("America/Denver").ok(),
        "pt" => return TimeZone::get("America/Los_Angeles").ok(),
        "edt" => -4 * 60,
        "est" | "cdt" => -5 * 60,
        "cst" | "mdt" => -6 * 60,
        "mst" | "pdt" => -7 * 60,
        "pst" => -8 * 60,
        "bst" | "west" | "cet" => 60,
        "cest" | "eet" => 2 * 60,
        "eest" => 3 * 60,
        "ist" => 5 * 60 + 30,
        "jst" => 9 * 60,
        "aest" => 10 * 60,
        "aedt" => 11 * 60,
        region if region.contains('/') => return TimeZone::get(region).ok(),
        _ => return None,
    };
    Offset::from_seconds(minutes * 60).ok().map(TimeZone::fixed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Friday, 2 January 2026, 15:30 UTC.
    const NOW: &str = "2026-01-02T15:30:00Z";

    fn now() -> i64 {
        NOW.parse::<Timestamp>().expect("a time").as_microsecond()
    }

    fn at(text: &str) -> Result<String, String> {
        let micros = parse(text, now())?;
        Ok(Timestamp::from_microsecond(micros).expect("a time").to_string())
    }

    #[test]
    fn a_moment_is_named_in_iso_8601_or_in_words() {
        for (text, moment) in [
            ("2026-01-02T15:30:01Z", "2026-01-02T15:30:01Z"),
            ("2026-01-03T01:00:00+02:00", "2026-01-02T23:00:00Z"),
            ("2026-01-03 01:00:00.000000+00", "2026-01-03T01:00:00Z"),
            ("in 1 min", "2026-01-02T15:31:00Z"),
            ("In an hour", "2026-01-02T16:30:00Z"),
            ("in 2 hours and 30 minutes", "2026-01-02T18:00:00Z"),
            ("in 90m", "2026-01-02T17:00:00Z"),
            ("in 30 days", "2026-02-01T15:30:00Z"),
            ("in 1 week", "2026-01-09T15:30:00Z"),
            ("today at 4pm", "2026-01-02T16:00:00Z"),
            ("tomorrow", "2026-01-03T15:30:00Z"),
            ("tomorrow at 9am", "2026-01-03T09:00:00Z"),
            ("Tomorrow 9:15 PM UTC", "2026-01-03T21:15:00Z"),
            ("tomorrow, 12am", "2026-01-03T00:00:00Z"),
            ("Friday at 3pm ET", "2026-01-02T20:00:00Z"),
            ("Friday at 3pm", "2026-01-09T15:00:00Z"),
            ("next Friday at noon", "2026-01-09T12:00:00Z"),
            ("Friday at 4pm", "2026-01-02T16:00:00Z"),
            ("next Friday at 4pm", "2026-01-09T16:00:00Z"),
            ("next monday at 4pm", "2026-01-05T16:00:00Z"),
            ("on monday at 08:05 Europe/Berlin", "2026-01-05T07:05:00Z"),
            ("sun at midnight pst", "2026-01-04T08:00:00Z"),
            ("at 9am", "2026-01-03T09:00:00Z"),
            ("17:00", "2026-01-02T17:00:00Z"),
        ] {
            assert_eq!(at(text).as_deref(), Ok(moment), "{text}");
        }
    }

    #[test]
    fn letters_of_a_time_are_that_time_all_the_year_and_those_of_a_region_follow_it() {
        let in_july = "2026-07-01T00:00:00Z".parse::<Timestamp>().expect("a time").as_microsecond();
        for (zone, utc) in [
            ("ET", "16:00"),
            ("EST", "17:00"),
            ("EDT", "16:00"),
            ("CT", "17:00"),
            ("CST", "18:00"),
            ("MT", "18:00"),
            ("MST", "19:00"),
            ("MDT", "18:00"),
            ("PT", "19:00"),
            ("PST", "20:00"),
            ("PDT", "19:00"),
            ("GMT", "12:00"),
            ("BST", "11:00"),
            ("CET", "11:00"),
            ("CEST", "10:00"),
            ("IST", "06:30"),
            ("JST", "03:00"),
            ("AEST", "02:00"),
            ("AEDT", "01:00"),
            ("America/Phoenix", "19:00"),
        ] {
            let at = parse(&format!("tomorrow at noon {zone}"), in_july).expect(zone);
            let at = Timestamp::from_microsecond(at).expect("a time").to_string();
            assert!(at.contains(&format!("T{utc}:00Z")), "{zone}: {at}");
        }
        assert_eq!(at("monday at noon BST").as_deref(), Ok("2026-01-05T11:00:00Z"), "in January as well");
        assert_eq!(at("monday at noon AEST").as_deref(), Ok("2026-01-05T02:00:00Z"));
        assert_eq!(at("monday at noon ET").as_deref(), Ok("2026-01-05T17:00:00Z"));
    }

    #[test]
    fn what_lies_behind_too_far_ahead_or_beyond_words_is_refused() {
        for (text, word) in [
            ("2026-01-02T15:30:00Z", "future"),
            ("2025-01-01T00:00:00Z", "future"),
            ("in 0 minutes", "future"),
            ("today at 9am", "future"),
            ("in 31 days", "30 days"),
            ("2026-02-01T15:30:01Z", "30 days"),
            ("2026-01-03T09:00:00", "ISO 8601"),
            ("2026-01-03", "ISO 8601"),
            ("", "ISO 8601"),
            ("soon", "ISO 8601"),
            ("in", "ISO 8601"),
            ("in 5", "ISO 8601"),
            ("in -5 minutes", "ISO 8601"),
            ("in five fortnights", "ISO 8601"),
            ("in 99999999999999999999 days", "ISO 8601"),
            ("tomorrow at 9", "ISO 8601"),
            ("tomorrow at 13pm", "ISO 8601"),
            ("tomorrow at 25:00", "ISO 8601"),
            ("tomorrow at 9am Mars/Olympus", "ISO 8601"),
            ("friday friday", "ISO 8601"),
            ("ét", "ISO 8601"),
        ] {
            let refused = at(text).expect_err(text);
            assert!(refused.contains(word), "{text}: {refused}");
        }
    }

    #[test]
    fn a_time_that_clocks_skip_is_refused_and_of_one_that_comes_twice_the_first_is_meant() {
        let before = |text: &str| text.parse::<Timestamp>().expect("a time").as_microsecond();
        let spring = before("2026-03-28T12:00:00Z");
        let refused = parse("tomorrow at 2:30am Europe/Berlin", spring).expect_err("skipped");
        assert_eq!(refused, "names 02:30 on 2026-03-29, which clocks in Europe/Berlin skip: choose another time");
        assert!(parse("tomorrow at 3am Europe/Berlin", spring).is_ok());
        let autumn = parse("tomorrow at 2:30am Europe/Berlin", before("2026-10-24T12:00:00Z"));
        assert_eq!(autumn, Ok(before("2026-10-25T00:30:00Z")));
    }

    proptest! {
        #[test]
        fn whatever_is_read_lies_within_30_days(text in "(in |tomorrow |fri |at |[0-9]{1,3}|am|pm|:| |et|min|z|-){0,9}") {
            if let Ok(at) = parse(&text, now()) {
                prop_assert!(at > now() && at <= now() + FURTHEST);
            }
        }
    }
}
