//! A queue in which nobody gets ahead by asking often: those who wait take turns
//! by who they are, and those who are known go first.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// On whose behalf something waits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Asker {
    /// A user who is logged in, or a browser in which one was before.
    Known(String),
    /// Anybody else, by what [counts as one caller](crate::limits::neighbourhood).
    Stranger(IpAddr),
}

/// Every so many turns are a stranger's, however many are waiting who are known.
const STRANGERS_TURN: u8 = 4;

pub struct FairQueue<T> {
    known: Lane<T>,
    strangers: Lane<T>,
    /// How many may wait in each lane.
    most: usize,
    turn: u8,
}

struct Lane<T> {
    waiting: HashMap<Asker, VecDeque<T>>,
    /// Those who have something waiting, in the order of their turns.
    turns: VecDeque<Asker>,
    length: usize,
}

impl<T> FairQueue<T> {
    pub fn new(most: usize) -> FairQueue<T> {
        FairQueue { known: Lane::new(), strangers: Lane::new(), most, turn: 0 }
    }

    /// Lets something wait. Where all places are taken, the latest of whoever has
    /// the most waiting gives way; it is returned, and may be the new one itself.
    pub fn push(&mut self, asker: Asker, item: T) -> Option<T> {
        let lane = if matches!(asker, Asker::Known(_)) { &mut self.known } else { &mut self.strangers };
        lane.push(asker, item);
        (lane.length > self.most).then(|| lane.pop_from_greediest()).flatten()
    }

    pub fn is_empty(&self) -> bool {
        self.known.length + self.strangers.length == 0
    }

    pub fn pop(&mut self) -> Option<T> {
        self.turn = (self.turn + 1) % STRANGERS_TURN;
        match self.turn {
            0 => self.strangers.pop().or_else(|| self.known.pop()),
            _ => self.known.pop().or_else(|| self.strangers.pop()),
        }
    }
}

impl<T> Lane<T> {
    fn new() -> Lane<T> {
        Lane { waiting: HashMap::new(), turns: VecDeque::new(), length: 0 }
    }

    fn push(&mut self, asker: Asker, item: T) {
        let own = self.waiting.entry(asker.clone()).or_default();
        if own.is_empty() {
            self.turns.push_back(asker);
        }
        own.push_back(item);
        self.length += 1;
    }

    fn pop(&mut self) -> Option<T> {
        let asker = self.turns.pop_front()?;
        let own = self.waiting.get_mut(&asker)?;
        let item = own.pop_front();
        self.length -= usize::from(item.is_some());
        match own.is_empty() {
            true => drop(self.waiting.remove(&asker)),
            false => self.turns.push_back(asker),
        }
        item
    }

    /// Of several who have as many waiting, the last to come gives way.
    fn pop_from_greediest(&mut self) -> Option<T> {
        let greediest = self.turns.iter().max_by_key(|asker| self.waiting[*asker].len())?.clone();
        let own = self.waiting.get_mut(&greediest)?;
        let item = own.pop_back();
        self.length -= usize::from(item.is_some());
        if own.is_empty() {
            self.waiting.remove(&greediest);
            self.turns.retain(|asker| *asker != greediest);
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stranger(last: u8) -> Asker {
        Asker::Stranger([192, 0, 2, last].into())
    }

    fn drain<T>(queue: &mut FairQueue<T>) -> Vec<T> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn addresses_take_turns_however_much_one_of_them_asks() {
        let mut queue = FairQueue::new(10);
        for n in 0..5 {
            assert_eq!(queue.push(stranger(1), n), None);
        }
        assert_eq!(queue.push(stranger(2), 100), None);
        assert_eq!(drain(&mut queue), [0, 100, 1, 2, 3, 4]);
    }

    #[test]
    fn in_a_full_queue_the_greediest_gives_way() {
        let mut queue = FairQueue::new(3);
        for n in 0..3 {
            assert_eq!(queue.push(stranger(1), n), None);
        }
        assert_eq!(queue.push(stranger(1), 3), Some(3), "his own next is the one too many");
        assert_eq!(queue.push(stranger(2), 100), Some(2));
        assert_eq!(queue.push(stranger(3), 200), Some(1));
        assert_eq!(queue.push(stranger(4), 300), Some(300), "all have one");
        assert_eq!(drain(&mut queue), [0, 100, 200]);
    }

    #[test]
    fn who_is_known_goes_first_but_strangers_are_not_forgotten() {
        let mut queue = FairQueue::new(10);
        for n in 0..3 {
            queue.push(stranger(n), u32::from(n) + 100);
        }
        for n in 0..6 {
            assert_eq!(queue.push(Asker::Known(n.to_string()), n), None);
        }
        assert_eq!(drain(&mut queue), [0, 1, 2, 100, 3, 4, 5, 101, 102]);
    }
}
