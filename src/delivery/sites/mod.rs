//! How much mail goes to whom at this moment. A site is a relay or a set of MX hosts, whatever
//! domains it serves. How many dialogues it is given follows from how it took the last ones; what
//! one site keeps waiting must not keep the others: sites that do not answer share at most half
//! of the room, and the other half is for those that do and those that were never tried.

mod pace;
mod site;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

pub use pace::{Pace, Pause};
use site::{Site, Standing};

use crate::clock::SECOND;

/// How many recipients a process has in hand at once, beside those whom sites keep waiting.
const MOST: usize = 256;

/// How many of them are for sites that do not answer.
const MOST_DOUBTFUL: usize = MOST / 2;

/// From so many recipients on that sites keep waiting, no site is tried that never was.
const MOST_HELD_UP: usize = 2 * MOST;

/// How many sites are remembered that nothing goes to at this moment.
const MOST_REMEMBERED: usize = 10_000;

/// How often all sites are looked at.
const SWEPT_EVERY: i64 = SECOND;

/// What this process knows of sites. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Sites(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    table: Mutex<Table>,
    /// There is room again where there was none.
    room: Notify,
}

#[derive(Debug, Default)]
struct Table {
    sites: HashMap<String, Site>,
    in_hand: InHand,
    swept_at: i64,
    /// There was more to claim than there was room for in all.
    is_wanted: bool,
}

/// How many recipients are in hand.
#[derive(Debug, Default)]
struct InHand {
    going: usize,
    /// With sites that do not answer, or did not the last time.
    held_up: usize,
}

impl InHand {
    fn of(&mut self, site: &Site) -> &mut usize {
        let is_held_up = site.is_stalling || site.standing == Standing::Doubtful;
        if is_held_up { &mut self.held_up } else { &mut self.going }
    }

    fn add(&mut self, site: &Site) {
        *self.of(site) += site.in_hand();
    }

    fn remove(&mut self, site: &Site) {
        let count = self.of(site);
        *count = count.saturating_sub(site.in_hand());
    }

    /// For how many more there is room at all sites of this standing.
    fn left(&self, standing: Standing, is_bulk: bool) -> usize {
        let share = |room: usize| if is_bulk { room * 3 / 4 } else { room };
        let left = share(MOST - self.held_up.min(MOST_DOUBTFUL)).saturating_sub(self.going);
        match standing {
            Standing::Good => left,
            Standing::Untried if self.held_up < MOST_HELD_UP => left,
            Standing::Untried => 0,
            Standing::Doubtful => left.min(share(MOST_DOUBTFUL).saturating_sub(self.held_up)),
        }
    }
}

impl Table {
    /// Changes a site, and what is counted of it.
    fn change<R>(&mut self, name: &str, change: impl FnOnce(&mut Site) -> R) -> Option<R> {
        let site = self.sites.get_mut(name)?;
        self.in_hand.remove(site);
        let result = change(site);
        self.in_hand.add(site);
        Some(result)
    }

    /// Sees what time has changed, and forgets those with whom nothing goes on.
    fn sweep(&mut self, now: i64) {
        if now - self.swept_at < SWEPT_EVERY {
            return;
        }
        self.swept_at = now;
        let is_crowded = self.sites.len() > MOST_REMEMBERED;
        let mut in_hand = InHand::default();
        self.sites.retain(|_, site| {
            site.look_at(now);
            in_hand.add(site);
            !site.is_forgettable(is_crowded, now)
        });
        self.in_hand = in_hand;
    }
}

impl Sites {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes room for recipients of a site, as many as may be claimed now, and tells how many
    /// that are. Bulk mail leaves the last quarter to the other.
    pub fn reserve(&self, name: &str, pace: Pace, is_bulk: bool, now: i64) -> Result<usize, Pause> {
        let mut table = self.table();
        table.sweep(now);
        let Table { sites, in_hand, is_wanted, .. } = &mut *table;
        let site = sites.entry(name.to_owned()).or_insert_with(|| Site::new(pace, now));
        if let Some(pause) = site.pause(now) {
            return Err(pause);
        }
        let (here, left) = (site.room(is_bulk, now), in_hand.left(site.standing, is_bulk));
        let room = here.min(left);
        site.claimed[usize::from(is_bulk)] += room;
        *in_hand.of(site) += room;
        site.is_wanted |= room == 0;
        *is_wanted |= left == 0;
        Ok(room)
    }

    /// Gives back room that was not needed. Where all of it was, there may be more to claim.
    pub fn keep(&self, name: &str, is_bulk: bool, reserved: usize, claimed: usize) -> Vec<Slot> {
        self.table().change(name, |site| {
            let own = &mut site.claimed[usize::from(is_bulk)];
            *own = own.saturating_sub(reserved - claimed);
            site.is_wanted |= claimed == reserved;
        });
        (0..claimed).map(|_| Slot { sites: self.clone(), name: name.to_owned(), is_bulk }).collect()
    }

    fn release(&self, name: &str, is_bulk: bool) {
        let mut table = self.table();
        let has_room = table.change(name, |site| {
            let own = &mut site.claimed[usize::from(is_bulk)];
            *own = own.saturating_sub(1);
            let has_room = site.is_wanted && [false, true].iter().any(|&is_bulk| site.room(is_bulk, 0) > 0);
            site.is_wanted &= !has_room;
            has_room
        });
        let has_more = table.is_wanted && table.in_hand.left(Standing::Untried, is_bulk) > MOST / 8;
        table.is_wanted &= !has_more;
        if has_room == Some(true) || has_more {
            self.0.room.notify_one();
        }
    }

    /// Resolves when there is room again where there was none.
    pub async fn have_room(&self) {
        self.0.room.notified().await;
    }

    /// A dialogue came about: the site may have a little more.
    pub fn answered(&self, name: &str, now: i64) {
        self.table().change(name, |site| site.answered(now));
    }

    /// No dialogue came about: the site gets a little less, and nothing for a while where none of
    /// a whole round came about.
    pub fn failed(&self, name: &str, now: i64, reason: &str) {
        self.table().change(name, |site| site.failed(now, reason));
    }

    /// A dialogue was begun and came to nothing.
    pub fn doubt(&self, name: &str) {
        self.table().change(name, |site| site.standing = Standing::Doubtful);
    }

    /// What a site says may be about our pace.
    pub fn heard(&self, name: &str, reply: (u16, &str), now: i64) {
        self.table().change(name, |site| site.heard(reply, now));
    }
}

/// Room for one recipient, given back however its delivery ends.
#[derive(Debug)]
pub struct Slot {
    sites: Sites,
    name: String,
    is_bulk: bool,
}

impl Slot {
    /// Resolves when there may be one dialogue more, transactional mail first; or when nothing
    /// goes to the site for a while.
    pub async fn turn(&self, now: impl Fn() -> i64) -> Result<Turn<'_>, Pause> {
        let lane = usize::from(self.is_bulk);
        let turns = self.sites.table().sites.get(&self.name).map(|site| site.turns[lane].clone());
        let Some(turns) = turns else { return Ok(Turn(self)) };
        let mut waiting = None;
        loop {
            let freed = turns.notified();
            tokio::pin!(freed);
            {
                let mut table = self.sites.table();
                let Some(site) = table.sites.get_mut(&self.name) else { return Ok(Turn(self)) };
                if let Some(pause) = site.pause(now()) {
                    return Err(pause);
                }
                if site.may_talk(self.is_bulk, now()) {
                    site.begin(now());
                    return Ok(Turn(self));
                }
                freed.as_mut().enable();
                waiting.get_or_insert_with(|| {
                    site.waiting[lane] += 1;
                    Waiting(self)
                });
            }
            freed.await;
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.sites.release(&self.name, self.is_bulk);
    }
}

/// One who waits for a dialogue.
struct Waiting<'a>(&'a Slot);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Slot { sites, name, is_bulk } = self.0;
        if let Some(site) = sites.table().sites.get_mut(name) {
            let own = &mut site.waiting[usize::from(*is_bulk)];
            *own = own.saturating_sub(1);
            // It may have been woken, and given up.
            site.wake();
        }
    }
}

/// One dialogue with a site.
pub struct Turn<'a>(&'a Slot);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if let Some(site) = self.0.sites.table().sites.get_mut(&self.0.name) {
            site.talking = site.talking.saturating_sub(1);
            site.wake();
        }
    }
}
