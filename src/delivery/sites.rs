//! How much mail goes to whom at this moment. A site is a relay or a set of MX hosts, whatever
//! domains it serves. How many dialogues it is given follows from how it took the last ones; what
//! one site keeps waiting must not keep the others.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::clock::{HOUR, MINUTE};

/// How many recipients a process has in hand at once.
const MOST: usize = 256;

/// How many are claimed for each dialogue: the next ones are at hand when one ends.
const AHEAD: usize = 4;

const SHORTEST_PAUSE: i64 = MINUTE;
const LONGEST_PAUSE: i64 = 15 * MINUTE;

/// How many sites are remembered that nothing goes to at this moment.
const MOST_REMEMBERED: usize = 10_000;

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
}

/// What a reply says about our pace, whatever else it says.
enum Measure {
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

/// Why nothing goes to a site for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    pub until: i64,
    pub reason: String,
}

#[derive(Debug)]
struct Site {
    pace: Pace,
    /// Recipients in hand, talking or not.
    claimed: usize,
    talking: usize,
    /// How many dialogues there may be: it grows and shrinks by one for a whole round of them.
    window: f64,
    /// Dialogues in a row that did not come about.
    failures: u32,
    /// A bound until a moment, because the site asked for it.
    bound: Option<(usize, i64)>,
    pause: Option<Pause>,
    /// There was more to claim than there was room for.
    is_wanted: bool,
    turn: Arc<Notify>,
}

impl Site {
    fn new(pace: Pace) -> Site {
        Site {
            pace,
            claimed: 0,
            talking: 0,
            window: f64::from(pace.first),
            failures: 0,
            bound: None,
            pause: None,
            is_wanted: false,
            turn: Arc::default(),
        }
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it lies between 1 and 255")]
    fn dialogues(&self, now: i64) -> usize {
        let own = self.window as usize;
        match self.bound {
            Some((bound, until)) if until > now => own.min(bound),
            _ => own,
        }
    }

    fn is_forgettable(&self) -> bool {
        self.claimed == 0 && self.failures == 0 && self.bound.is_none() && self.pause.is_none()
    }
}

/// What this process knows of sites. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Sites(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    sites: Mutex<HashMap<String, Site>>,
    /// There is room again where there was none.
    room: Notify,
}

impl Sites {
    fn sites(&self) -> MutexGuard<'_, HashMap<String, Site>> {
        self.0.sites.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes room for recipients of a site, as many as may be claimed now, and tells how many
    /// that are. Bulk mail leaves the last quarter to the other.
    pub fn reserve(&self, name: &str, pace: Pace, is_bulk: bool, now: i64) -> Result<usize, Pause> {
        let mut sites = self.sites();
        let all: usize = sites.values().map(|site| site.claimed).sum();
        let site = sites.entry(name.to_owned()).or_insert_with(|| Site::new(pace));
        site.pause = site.pause.take().filter(|pause| pause.until > now);
        if let Some(pause) = &site.pause {
            return Err(pause.clone());
        }
        let share = |room: usize| if is_bulk { (room * 3 / 4).max(1) } else { room };
        let here = share(site.dialogues(now) * AHEAD);
        let left = share(MOST).saturating_sub(all);
        // A few at a time would cost a commit each.
        let room = if site.claimed * 2 > here { 0 } else { (here - site.claimed).min(left) };
        site.claimed += room;
        site.is_wanted |= room == 0;
        Ok(room)
    }

    /// Gives back room that was not needed. Where all of it was, there may be more to claim.
    pub fn keep(&self, name: &str, reserved: usize, claimed: usize) -> Vec<Slot> {
        let mut sites = self.sites();
        if let Some(site) = sites.get_mut(name) {
            site.claimed = site.claimed.saturating_sub(reserved - claimed);
            site.is_wanted |= claimed == reserved;
        }
        (0..claimed).map(|_| Slot { sites: self.clone(), name: name.to_owned() }).collect()
    }

    fn release(&self, name: &str) {
        let mut sites = self.sites();
        let is_crowded = sites.len() > MOST_REMEMBERED;
        let Some(site) = sites.get_mut(name) else { return };
        site.claimed = site.claimed.saturating_sub(1);
        if site.is_wanted && site.claimed * 2 <= site.dialogues(0).max(1) * AHEAD {
            site.is_wanted = false;
            self.0.room.notify_one();
        }
        if is_crowded && site.is_forgettable() {
            sites.remove(name);
        }
    }

    /// Resolves when there is room again where there was none.
    pub async fn have_room(&self) {
        self.0.room.notified().await;
    }

    /// A dialogue came about: the site may have a little more.
    pub fn answered(&self, name: &str) {
        if let Some(site) = self.sites().get_mut(name) {
            site.failures = 0;
            site.window = (site.window + 1.0 / site.window).min(f64::from(site.pace.most));
            site.turn.notify_one();
        }
    }

    /// No dialogue came about: the site gets a little less, and nothing for a while where none of
    /// a whole round came about.
    pub fn failed(&self, name: &str, now: i64, reason: &str) {
        let mut sites = self.sites();
        let Some(site) = sites.get_mut(name) else { return };
        site.failures += 1;
        let round = site.window;
        site.window = (site.window - 1.0 / site.window).max(1.0);
        if f64::from(site.failures) >= round && site.pause.is_none() {
            let doublings = site.failures.ilog2().min(8);
            let until = now + (SHORTEST_PAUSE << doublings).min(LONGEST_PAUSE);
            site.window = 1.0;
            site.pause = Some(Pause { until, reason: reason.to_owned() });
            metrics::counter!("posthorn_mail_pauses_total").increment(1);
        }
    }

    /// What a site says may be about our pace.
    pub fn heard(&self, name: &str, (code, text): (u16, &str), now: i64) {
        if !(400..500).contains(&code) {
            return;
        }
        let text = text.to_lowercase();
        let named = MEASURES.iter().find(|(words, _)| text.contains(words)).map(|(_, measure)| measure);
        let unnamed = (code == 421).then_some(&Measure::Fewer(5 * MINUTE));
        let (Some(measure), mut sites) = (named.or(unnamed), self.sites()) else { return };
        let Some(site) = sites.get_mut(name) else { return };
        match *measure {
            Measure::Fewer(time) => {
                site.bound = Some((site.talking.saturating_sub(1).clamp(1, site.dialogues(now)), now + time));
            }
            Measure::One(time) => site.bound = Some((1, now + time)),
            Measure::None(time) => site.pause = Some(Pause { until: now + time, reason: text }),
        }
    }
}

/// Room for one recipient, given back however its delivery ends.
#[derive(Debug)]
pub struct Slot {
    sites: Sites,
    name: String,
}

impl Slot {
    /// Resolves when there may be one dialogue more.
    pub async fn turn(&self, now: impl Fn() -> i64) -> Turn<'_> {
        loop {
            let turn = {
                let mut sites = self.sites.sites();
                match sites.get_mut(&self.name) {
                    Some(site) if site.talking >= site.dialogues(now()) => site.turn.clone(),
                    Some(site) => {
                        site.talking += 1;
                        return Turn(self);
                    }
                    None => return Turn(self),
                }
            };
            turn.notified().await;
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.sites.release(&self.name);
    }
}

/// One dialogue with a site.
pub struct Turn<'a>(&'a Slot);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(site) = self.0.sites.sites().get_mut(&self.0.name) {
            site.talking = site.talking.saturating_sub(1);
            site.turn.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SECOND;

    const FIVE: usize = 5 * AHEAD;

    #[test]
    fn one_site_does_not_take_the_room_of_another_and_bulk_leaves_a_quarter() {
        let sites = Sites::default();
        assert_eq!(sites.reserve("a", Pace::MX, true, 0), Ok(FIVE * 3 / 4));
        assert_eq!(sites.reserve("a", Pace::MX, true, 0), Ok(0), "bulk has what it may have");
        let held = sites.keep("a", FIVE * 3 / 4, FIVE / 2);
        assert_eq!(sites.reserve("a", Pace::MX, false, 0), Ok(FIVE / 2), "the rest is for the other lane");
        assert_eq!(sites.reserve("b", Pace::MX, false, 0), Ok(FIVE));
        drop(held);
        for number in 0..100 {
            let _ = sites.reserve(&format!("bulk {number}"), Pace::MX, true, 0);
        }
        assert_eq!(sites.reserve("c", Pace::MX, true, 0), Ok(0));
        assert_eq!(sites.reserve("c", Pace::MX, false, 0), Ok(FIVE), "the last quarter");
    }

    #[test]
    fn a_site_is_given_more_by_and_by_and_nothing_while_it_does_not_answer() {
        let sites = Sites::default();
        assert_eq!(sites.reserve("a", Pace::MX, false, 0), Ok(FIVE));
        drop(sites.keep("a", FIVE, FIVE));
        for _ in 0..200 {
            sites.answered("a");
        }
        assert_eq!(sites.reserve("a", Pace::MX, false, 0), Ok(20 * AHEAD));
        drop(sites.keep("a", 20 * AHEAD, 20 * AHEAD));
        (0..19).for_each(|_| sites.failed("a", 0, "no answer"));
        assert!(sites.reserve("a", Pace::MX, false, 0).is_ok_and(|room| room < 20 * AHEAD));
        (0..19).for_each(|_| sites.failed("a", 0, "no answer"));
        let pause = sites.reserve("a", Pace::MX, false, SECOND).expect_err("a pause");
        assert_eq!(pause.reason, "no answer");
        drop(sites.keep("a", 20 * AHEAD, 20 * AHEAD));
        assert_eq!(sites.reserve("a", Pace::MX, false, pause.until), Ok(AHEAD), "one dialogue decides");
    }

    #[test]
    fn what_a_site_says_of_our_pace_is_heeded_for_a_while() {
        let sites = Sites::default();
        for (reply, room, after) in [
            ((250, "ok, temporarily deferred never"), FIVE, FIVE),
            ((421, "later"), AHEAD, FIVE),
            ((451, "4.7.0 Temporarily deferred due to user complaints"), AHEAD, FIVE),
        ] {
            let name = reply.1;
            let _ = sites.reserve(name, Pace::MX, false, 0);
            drop(sites.keep(name, FIVE, FIVE));
            sites.heard(name, reply, 0);
            assert_eq!(sites.reserve(name, Pace::MX, false, 0), Ok(room), "{name}");
            drop(sites.keep(name, room, room));
            assert_eq!(sites.reserve(name, Pace::MX, false, 3 * HOUR), Ok(after), "{name}");
        }
        let _ = sites.reserve("yahoo", Pace::MX, false, 0);
        sites.heard("yahoo", (421, "4.7.0 [TSS04] Messages temporarily deferred"), 0);
        assert_eq!(sites.reserve("yahoo", Pace::MX, false, 0).map_err(|pause| pause.until), Err(2 * HOUR));
    }

    #[tokio::test]
    async fn no_more_dialogues_are_held_than_a_site_is_given() {
        let sites = Sites::default();
        let pace = Pace { first: 1, most: 1 };
        let room = sites.reserve("a", pace, false, 0).expect("room");
        let slots = sites.keep("a", room, room);
        let first = slots[0].turn(|| 0).await;
        let second = slots[1].turn(|| 0);
        tokio::pin!(second);
        assert!(futures_util::poll!(&mut second).is_pending());
        drop(first);
        second.await;
    }
}
