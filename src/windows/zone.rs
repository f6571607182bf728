//! Zones of time by the names of the IANA database.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::text::quoted;

/// Where clocks show the same time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String", into = "String")]
#[schema(as = TimeZone, value_type = String, example = "Europe/Berlin")]
pub struct Zone(pub(super) TimeZone);

impl Zone {
    pub const UTC: Zone = Zone(TimeZone::UTC);

    /// The property of a contact that names its zone.
    pub const PROPERTY: &str = "timezone";

    pub fn named(name: &str) -> Option<Zone> {
        let zone = TimeZone::get(name.trim()).ok()?;
        // Not every zone that can be had has a name to be found again by.
        (zone.iana_name().is_some() && !zone.is_unknown()).then_some(Zone(zone))
    }

    /// The zone that a contact names, or else this one.
    pub fn or_named(&self, name: Option<&str>) -> Zone {
        name.and_then(Zone::named).unwrap_or_else(|| self.clone())
    }

    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// What clocks here show at a moment of wall time, and where that is.
    pub fn shown(&self, at: i64) -> String {
        let shown = Timestamp::from_microsecond(at).map(|at| at.to_zoned(self.0.clone()));
        shown.map_or_else(|_| at.to_string(), |at| format!("{} in {}", at.strftime("%Y-%m-%d %H:%M"), self.name()))
    }

    pub(super) fn date_at(&self, moment: Timestamp) -> Date {
        self.0.to_datetime(moment).date()
    }

    /// The first moment at which clocks show this time, or a later one.
    pub(super) fn first_reaching(&self, time: DateTime) -> Option<Timestamp> {
        match self.0.to_ambiguous_timestamp(time).offset() {
            AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
                offset.to_timestamp(time).ok()
            }
            // By the clock that is set forward, the time lies before the moment at which that is done.
            AmbiguousOffset::Gap { after, .. } => {
                let before = after.to_timestamp(time).ok()?;
                let mut moments = self.0.following(before).map(|transition| transition.timestamp());
                moments.find(|moment| self.0.to_datetime(*moment) >= time)
            }
        }
    }
}

impl TryFrom<String> for Zone {
    type Error = String;

    fn try_from(given: String) -> Result<Zone, String> {
        let wrong =
            || format!("must be the name of a time zone such as `Europe/Berlin` or `UTC`, but is {}", quoted(&given));
        Zone::named(&given).ok_or_else(wrong)
    }
}

impl From<Zone> for String {
    fn from(zone: Zone) -> String {
        zone.name().to_owned()
    }
}
