//! Several lists of what happened, each in an order of its own, walked as one from the newest on. Whoever goes on says
//! of each list behind what: so nothing is shown twice and nothing is left out, whatever clocks showed meanwhile.

use std::collections::VecDeque;

use uuid::Uuid;

/// When something happened, in wall time, and its id. Where a list is in the order of the ids, only these count.
pub type Place = (i64, Uuid);

/// Before the newest.
pub const START: Place = (i64::MAX, Uuid::max());

/// What was found of one list.
pub struct Source<T> {
    /// What addresses call it.
    pub word: &'static str,
    /// Behind what it goes on.
    pub place: Place,
    /// The newest first.
    pub found: VecDeque<(Place, T)>,
    /// The first that was not looked at, where the look ended before the list did.
    pub edge: Option<Place>,
}

/// What a look at all lists came to.
pub struct Walked<T> {
    pub items: Vec<(Place, T)>,
    /// The list that ended the look, because nobody knows yet what it has further back; and when that is.
    pub stopped: Option<(&'static str, i64)>,
    /// Whether there is, or may be, anything behind.
    pub is_more: bool,
}

impl<T> Source<T> {
    fn head(&self) -> Option<Place> {
        self.found.front().map(|(place, _)| *place).or(self.edge)
    }
}

/// Takes so many of the newest, and notes in each list how far that was.
pub fn walk<T>(sources: &mut [Source<T>], most: usize) -> Walked<T> {
    let mut walked = Walked { items: Vec::new(), stopped: None, is_more: false };
    while walked.items.len() < most && walked.stopped.is_none() {
        let newest = sources.iter_mut().filter(|source| source.head().is_some()).max_by_key(|source| source.head());
        let Some(source) = newest else { break };
        match source.found.pop_front() {
            Some((place, item)) => {
                source.place = place;
                walked.items.push((place, item));
            }
            None => {
                let Some((at, id)) = source.edge.take() else { break };
                // The next look begins with it.
                source.place = (at, Uuid::from_u128(id.as_u128().saturating_add(1)));
                walked.stopped = Some((source.word, at));
            }
        }
    }
    // What is in the order of ids may have been shown at any time.
    walked.items.sort_by_key(|(place, _)| std::cmp::Reverse(*place));
    walked.is_more = walked.stopped.is_some() || sources.iter().any(|source| source.head().is_some());
    walked
}

/// A place as addresses have it.
pub fn written((at, id): Place) -> String {
    format!("{at}.{id}")
}

pub fn read(text: &str) -> Option<Place> {
    let (at, id) = text.split_once('.')?;
    Some((at.parse().ok()?, Uuid::try_parse(id).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(word: &'static str, times: &[i64], edge: Option<i64>) -> Source<i64> {
        let place = |at: i64| (at, Uuid::from_u128(at as u128));
        let found = times.iter().map(|at| (place(*at), *at)).collect();
        Source { word, place: START, found, edge: edge.map(place) }
    }

    fn times(walked: &Walked<i64>) -> Vec<i64> {
        walked.items.iter().map(|(_, at)| *at).collect()
    }

    #[test]
    fn the_newest_of_all_come_first_and_each_list_knows_how_far_it_is() {
        let mut sources = [source("a", &[9, 5, 1], None), source("b", &[8, 7], None), source("c", &[], None)];
        let walked = walk(&mut sources, 4);
        assert_eq!((times(&walked), walked.is_more, walked.stopped), (vec![9, 8, 7, 5], true, None));
        assert_eq!([sources[0].place.0, sources[1].place.0, sources[2].place.0], [5, 7, START.0]);
        let rest = walk(&mut sources, 4);
        assert_eq!((times(&rest), rest.is_more), (vec![1], false));
    }

    #[test]
    fn nothing_is_shown_that_is_older_than_what_was_not_looked_at() {
        let mut sources = [source("a", &[9], Some(6)), source("b", &[8, 5], None)];
        let walked = walk(&mut sources, 10);
        assert_eq!((times(&walked), walked.is_more, walked.stopped), (vec![9, 8], true, Some(("a", 6))));
        assert_eq!(sources[0].place, (6, Uuid::from_u128(7)), "the next look begins with the first that was not seen");
        assert_eq!(sources[1].place.0, 8);
    }

    #[test]
    fn a_place_is_read_as_it_was_written() {
        assert_eq!(read(&written((-5, Uuid::from_u128(7)))), Some((-5, Uuid::from_u128(7))));
        assert_eq!([read(""), read("5"), read("x.y"), read("5.y")], [None; 4]);
    }
}
