//! How fast mail goes to a site, and what the site says of it.

use crate::clock::{HOUR, MINUTE};

/// With how many dialogues a site begins, and how many it may come to.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    pub first: u8,
    pub most: u8,
}

impl Pace {
    pub const MX: Pace = Pace { first: 5, most: 20 };
    /// Whoever runs it has told us to use it.
    pub const RELAY: Pace = Pace { first: 16, most: 16 };
    /// Somebody of a workspace has named it.
    pub const FOREIGN_RELAY: Pace = Pace { first: 5, most: 16 };
}

/// Why nothing goes to a site for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    pub until: i64,
    pub reason: String,
}

/// What a reply says about our pace, whatever else it says.
pub enum Measure {
    /// One dialogue less than there are, for this long.
    Fewer(i64),
    One(i64),
    None(i64),
}

/// Words in a reply, in lower case, and what they lead to.
const MEASURES: &[(&str, Measure)] = &[
    ("[tss04]", Measure::None(2 * HOUR)),
    ("temporarily deferred", Measure::One(90 * MINUTE)),
    ("too many connections", Measure::Fewer(10 * MINUTE)),
    ("too many concurrent", Measure::Fewer(10 * MINUTE)),
];

/// What a reply, in lower case, leads to.
pub fn measure(code: u16, text: &str) -> Option<&'static Measure> {
    if !(400..500).contains(&code) {
        return None;
    }
    let named = MEASURES.iter().find(|(words, _)| text.contains(words)).map(|(_, measure)| measure);
    named.or((code == 421).then_some(&Measure::Fewer(5 * MINUTE)))
}
