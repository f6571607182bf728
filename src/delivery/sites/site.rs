//! One site: how it took the last dialogues, and what it is given for that.

use std::sync::Arc;

use tokio::sync::Notify;

use super::pace::{Measure, Pace, Pause, measure};
use crate::clock::{HOUR, MINUTE, SECOND};

/// How many are claimed for each dialogue: the next ones are at hand when one ends. A site that
/// has not taken anything yet, or not lately, gets no more than it has dialogues.
pub const AHEAD: usize = 4;

/// A site with whom nothing has gone on for so long stalls: what waits behind its dialogues goes
/// back into its line.
const STALLS_AFTER: i64 = 30 * SECOND;

const SHORTEST_PAUSE: i64 = MINUTE;
const LONGEST_PAUSE: i64 = 15 * MINUTE;

/// For how long a site is remembered that nothing goes to.
const REMEMBERED_FOR: i64 = HOUR;

/// How the last dialogue with a site ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Untried,
    Good,
    Doubtful,
}

#[derive(Debug)]
pub struct Site {
    pace: Pace,
    pub standing: Standing,
    /// Recipients in hand, talking or not: transactional ones, and bulk.
    pub claimed: [usize; 2],
    pub talking: usize,
    /// How many dialogues there may be: it grows and shrinks by one for a whole round of them.
    window: f64,
    /// Dialogues in a row that did not come about.
    failures: u32,
    /// A bound until a moment, because the site asked for it.
    bound: Option<(usize, i64)>,
    pause: Option<Pause>,
    /// There was more to claim than there was room for.
    pub is_wanted: bool,
    /// When a dialogue last ended well, or began where there was none.
    moved_at: i64,
    pub is_stalling: bool,
    /// Those who wait for a dialogue, by lane.
    pub waiting: [usize; 2],
    pub turns: [Arc<Notify>; 2],
}

impl Site {
    pub fn new(pace: Pace, now: i64) -> Site {
        Site {
            pace,
            standing: Standing::Untried,
            claimed: [0; 2],
            talking: 0,
            window: f64::from(pace.first),
            failures: 0,
            bound: None,
            pause: None,
            is_wanted: false,
            moved_at: now,
            is_stalling: false,
            waiting: [0; 2],
            turns: Default::default(),
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

    pub fn in_hand(&self) -> usize {
        self.claimed.iter().sum()
    }

    /// How many recipients it may have in hand.
    fn places(&self, now: i64) -> usize {
        match (self.is_stalling, self.standing) {
            (true, _) => 0,
            (false, Standing::Good) => self.dialogues(now) * AHEAD,
            (false, Standing::Untried | Standing::Doubtful) => self.dialogues(now),
        }
    }

    /// For how many more of a lane there is room. A quarter, and one at least, is for transactional
    /// mail alone.
    pub fn room(&self, is_bulk: bool, now: i64) -> usize {
        let places = self.places(now);
        let [transactional, bulk] = self.claimed;
        let (own, share) = match is_bulk {
            true => (bulk, (places * 3 / 4).max(1).min(places.saturating_sub(transactional))),
            false => (transactional, places.saturating_sub(bulk).max(places.div_ceil(4))),
        };
        // A few at a time would cost a commit each.
        if own * 2 > share { 0 } else { share - own }
    }

    /// Why nothing goes there now, if nothing does.
    pub fn pause(&self, now: i64) -> Option<Pause> {
        if let Some(pause) = self.pause.as_ref().filter(|pause| pause.until > now) {
            return Some(pause.clone());
        }
        let reason = || format!("no server has answered for {} seconds", (now - self.moved_at) / SECOND);
        self.is_stalling.then(|| Pause { until: now + STALLS_AFTER, reason: reason() })
    }

    /// Whether one more dialogue may begin: bulk mail lets the other go first.
    pub fn may_talk(&self, is_bulk: bool, now: i64) -> bool {
        self.talking < self.dialogues(now) && !(is_bulk && self.waiting[0] > 0)
    }

    pub fn begin(&mut self, now: i64) {
        if self.talking == 0 {
            self.moved_at = now;
        }
        self.talking += 1;
    }

    /// Lets the next one see whether it may begin.
    pub fn wake(&self) {
        let lane = usize::from(self.waiting[0] == 0);
        self.turns[lane].notify_one();
    }

    fn wake_all(&self) {
        self.turns.iter().for_each(|turns| turns.notify_waiters());
    }

    /// A dialogue came about: the site may have a little more.
    pub fn answered(&mut self, now: i64) {
        (self.standing, self.failures, self.is_stalling, self.moved_at) = (Standing::Good, 0, false, now);
        self.window = (self.window + 1.0 / self.window).min(f64::from(self.pace.most));
        self.wake();
    }

    /// No dialogue came about: the site gets a little less, and nothing for a while where none of
    /// a whole round came about.
    pub fn failed(&mut self, now: i64, reason: &str) {
        self.standing = Standing::Doubtful;
        self.failures += 1;
        let round = self.window;
        self.window = (self.window - 1.0 / self.window).max(1.0);
        if f64::from(self.failures) >= round && self.pause.is_none() {
            let doublings = self.failures.ilog2().min(8);
            let until = now + (SHORTEST_PAUSE << doublings).min(LONGEST_PAUSE);
            self.window = 1.0;
            self.pause = Some(Pause { until, reason: reason.to_owned() });
            self.wake_all();
            metrics::counter!("posthorn_mail_pauses_total").increment(1);
        }
    }

    /// What it says may be about our pace.
    pub fn heard(&mut self, (code, text): (u16, &str), now: i64) {
        let text = text.to_lowercase();
        match measure(code, &text) {
            None => {}
            Some(Measure::Fewer(time)) => {
                let fewer = self.talking.saturating_sub(1).clamp(1, self.dialogues(now));
                self.bound = Some((fewer, now + time));
            }
            Some(Measure::One(time)) => self.bound = Some((1, now + time)),
            Some(Measure::None(time)) => {
                self.pause = Some(Pause { until: now + time, reason: text });
                self.wake_all();
            }
        }
    }

    /// Sees what time has changed.
    pub fn look_at(&mut self, now: i64) {
        self.pause = self.pause.take().filter(|pause| pause.until > now);
        self.bound = self.bound.filter(|(_, until)| *until > now);
        let stalled = std::mem::replace(&mut self.is_stalling, self.talking > 0 && now - self.moved_at > STALLS_AFTER);
        if self.is_stalling && !stalled {
            self.wake_all();
        }
    }

    /// Whether nothing is lost where it is forgotten.
    pub fn is_forgettable(&self, is_crowded: bool, now: i64) -> bool {
        let is_free = self.in_hand() == 0 && self.pause.is_none() && self.bound.is_none();
        is_free && (is_crowded || now - self.moved_at > REMEMBERED_FOR)
    }
}
