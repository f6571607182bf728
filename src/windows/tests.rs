use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::clock::{DAY, HOUR, MINUTE};

fn window(given: Value) -> Window {
    Window::parse(&given).expect("a window")
}

fn zone(name: &str) -> Zone {
    Zone::named(name).expect("a zone")
}

fn at(text: &str) -> i64 {
    text.parse::<Timestamp>().expect("a time").as_microsecond()
}

fn opening(window: &Window, now: &str, zone: &Zone) -> String {
    Timestamp::from_microsecond(window.next_opening(at(now), zone)).expect("a time").to_string()
}

#[test]
fn a_window_is_open_on_its_days_between_its_hours() {
    let berlin = zone("Europe/Berlin");
    // 2 January 2026 is a Friday.
    let office = window(json!({"days": ["monday", "friday"], "from": "09:00", "until": "17:30"}));
    for (now, opens) in [
        ("2026-01-02T07:59:59Z", "2026-01-02T08:00:00Z"),
        ("2026-01-02T08:00:00Z", "2026-01-02T08:00:00Z"),
        ("2026-01-02T16:29:59.999999Z", "2026-01-02T16:29:59.999999Z"),
        ("2026-01-02T16:30:00Z", "2026-01-05T08:00:00Z"),
        ("2026-01-05T20:00:00Z", "2026-01-09T08:00:00Z"),
    ] {
        assert_eq!(opening(&office, now, &berlin), opens, "{now}");
    }
}

#[test]
fn a_window_may_cross_midnight_and_belongs_to_the_day_on_which_it_opens() {
    let night = window(json!({"days": ["friday"], "from": "22:00", "until": "06:00"}));
    for (now, opens) in [
        ("2026-01-02T05:00:00Z", "2026-01-02T22:00:00Z"),
        ("2026-01-03T05:59:59Z", "2026-01-03T05:59:59Z"),
        ("2026-01-03T06:00:00Z", "2026-01-09T22:00:00Z"),
    ] {
        assert_eq!(opening(&night, now, &Zone::UTC), opens, "{now}");
    }
}

#[test]
fn hours_that_are_skipped_open_right_behind_them_and_those_that_come_twice_open_once() {
    let berlin = zone("Europe/Berlin");
    let early = window(json!({"from": "02:30", "until": "04:00"}));
    // On 29 March 2026, 02:00 is followed by 03:00, at 01:00 UTC.
    assert_eq!(opening(&early, "2026-03-29T00:30:00Z", &berlin), "2026-03-29T01:00:00Z");
    assert_eq!(opening(&early, "2026-03-29T02:00:00Z", &berlin), "2026-03-30T00:30:00Z", "04:00 is its end");
    // All of it is skipped.
    let gone = window(json!({"from": "02:15", "until": "02:45"}));
    assert_eq!(opening(&gone, "2026-03-29T00:30:00Z", &berlin), "2026-03-30T00:15:00Z");
    let only = window(json!({"days": ["sunday"], "from": "02:15", "until": "02:45"}));
    assert_eq!(opening(&only, "2026-03-29T00:30:00Z", &berlin), "2026-04-05T00:15:00Z");
    // On 25 October 2026, 03:00 is followed by 02:00, at 01:00 UTC.
    let twice = window(json!({"from": "01:30", "until": "02:30"}));
    assert_eq!(opening(&twice, "2026-10-25T00:29:00Z", &berlin), "2026-10-25T00:29:00Z");
    assert_eq!(opening(&twice, "2026-10-25T01:00:00Z", &berlin), "2026-10-26T00:30:00Z", "02:00 again");
}

#[test]
fn what_is_no_window_is_refused_in_words() {
    for (given, words) in [
        (json!({"from": "09:00", "until": "09:00"}), "different times"),
        (json!({"from": "24:00", "until": "09:00"}), "different times"),
        (json!({"days": [], "from": "09:00", "until": "17:00"}), "at least one day"),
        (json!({"days": ["funday"], "from": "09:00", "until": "17:00"}), "`monday`"),
        (json!({"from": "9:00", "until": "17:00"}), "but is `9:00`"),
        (json!({"from": "09:60", "until": "17:00"}), "but is `09:60`"),
        (json!({"from": "09:00", "until": "24:01"}), "but is `24:01`"),
        (json!({"from": "+9:00", "until": "17:00"}), "but is `+9:00`"),
        (json!({"until": "17:00"}), "`from`"),
        (json!({"from": 9, "until": "17:00"}), "a string"),
        (json!("always"), "struct"),
    ] {
        let refused = Window::parse(&given).expect_err("refused");
        assert!(refused.contains(words), "{given}: {refused}");
    }
}

#[test]
fn a_window_is_shown_as_it_is_kept() {
    let given = window(json!({"days": ["sunday", "monday", "sunday"], "from": "22:00", "until": "24:00"}));
    assert_eq!(json!(given), json!({"days": ["monday", "sunday"], "from": "22:00", "until": "24:00"}));
    assert_eq!(Window::stored(&given.to_json()), Some(given.clone()));
    assert_eq!(given.to_string(), "from 22:00 until 24:00 on monday, sunday");
    let whole = window(json!({"from": "00:00", "until": "24:00"}));
    assert_eq!(opening(&whole, "2026-01-02T03:04:05Z", &Zone::UTC), "2026-01-02T03:04:05Z");
}

#[test]
fn a_zone_is_known_by_its_name_and_an_unknown_one_falls_back() {
    let berlin = zone("europe/berlin");
    assert_eq!(berlin.name(), "Europe/Berlin");
    assert_eq!(berlin.shown(at("2026-07-01T06:00:00Z")), "2026-07-01 08:00 in Europe/Berlin");
    assert_eq!(berlin.or_named(Some("Asia/Tokyo")).name(), "Asia/Tokyo");
    for unknown in [None, Some("Mars/Olympus"), Some(""), Some("CEST-2"), Some("Etc/Unknown"), Some("../etc/passwd")] {
        assert_eq!(berlin.or_named(unknown), berlin, "{unknown:?}");
    }
    assert!(Zone::try_from("Mars/Olympus".to_owned()).expect_err("refused").contains("`Mars/Olympus`"));
}

/// Whether a window is open at a time that a clock shows.
fn shows(window: &Window, time: DateTime) -> bool {
    let minutes = i16::from(time.hour()) * 60 + i16::from(time.minute());
    let is_on = |day: Date| window.days.iter().any(|known| known.weekday() == day.weekday());
    let (today, yesterday) = (is_on(time.date()), is_on(time.date().yesterday().expect("a day")));
    match window.from < window.until {
        true => today && (window.from.0..window.until.0).contains(&minutes),
        false => (today && minutes >= window.from.0) || (yesterday && minutes < window.until.0),
    }
}

/// Looks at a clock minute by minute. One that is set back does not count until it shows again what it
/// has shown.
fn openings(window: &Window, zone: &Zone, (start, end): (i64, i64)) -> Vec<(i64, bool)> {
    let mut latest = DateTime::MIN;
    let mut minutes = Vec::new();
    let mut now = start - 2 * DAY;
    while now < end {
        latest = latest.max(zone.clock_at(now));
        minutes.push((now, shows(window, latest)));
        now += MINUTE;
    }
    minutes
}

impl Zone {
    fn clock_at(&self, at: i64) -> DateTime {
        let moment = Timestamp::from_microsecond(at).expect("a time");
        self.0.to_datetime(moment)
    }
}

/// Zones with and without daylight time, with shifts of half an hour, over midnight, in Ramadan, and
/// one that left out a day.
const ZONES: &[&str] = &[
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Santiago",
    "America/St_Johns",
    "Australia/Lord_Howe",
    "Asia/Beirut",
    "Asia/Kathmandu",
    "Africa/Casablanca",
    "Africa/Cairo",
    "Pacific/Apia",
    "Pacific/Chatham",
    "America/Asuncion",
    "Asia/Tehran",
];

/// Every change of clocks of a zone between two years.
fn changes(zone: &Zone, years: std::ops::Range<i16>) -> Vec<i64> {
    let start = Date::new(years.start, 1, 1).expect("a day").to_datetime(Time::midnight());
    let start = jiff::tz::Offset::UTC.to_timestamp(start).expect("a time");
    let is_within = |moment: &Timestamp| zone.date_at(*moment).year() < years.end;
    let moments = zone.0.following(start).map(|transition| transition.timestamp());
    moments.take_while(is_within).map(Timestamp::as_microsecond).collect()
}

fn check(window: &Window, zone: &Zone, span: (i64, i64)) -> Result<(), TestCaseError> {
    let minutes = openings(window, zone, span);
    let mut next = None;
    for (now, is_open) in minutes.into_iter().rev() {
        if is_open {
            next = Some(now);
        }
        // What opens behind the end was not looked at, and the clock before the start not long enough.
        if let (Some(next), true) = (next, now >= span.0) {
            prop_assert_eq!(window.next_opening(now, zone), next, "{} in {}, at {}", window, zone.name(), now);
        }
    }
    Ok(())
}

fn any_window() -> impl Strategy<Value = Window> {
    // Clocks are changed at night, so many hours begin and end there.
    let minute = || prop_oneof![0..5 * 60_i16, 0..24 * 60_i16, Just(0), Just(23 * 60), Just(24 * 60)];
    let sound = |(days, from, until): (Vec<Day>, i16, i16)| {
        let given = Given { days: (!days.is_empty()).then_some(days), from: TimeOfDay(from), until: TimeOfDay(until) };
        Window::try_from(given).ok()
    };
    (prop::collection::vec(prop::sample::select(Day::ALL.to_vec()), 0..4), minute(), minute())
        .prop_filter_map("a window", sound)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_window_opens_when_a_clock_that_is_watched_says_so(
        window in any_window(),
        name in prop::sample::select(ZONES),
        chance in any::<prop::sample::Index>(),
    ) {
        let zone = zone(name);
        let changes = changes(&zone, 1990..2045);
        let around = match changes.is_empty() {
            true => at("2026-01-01T00:00:00Z"),
            false => *chance.get(&changes),
        };
        check(&window, &zone, (around - DAY - HOUR, around + 8 * DAY))?;
    }
}
