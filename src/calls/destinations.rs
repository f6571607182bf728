//! How many calls go to whom at this moment, and who has not answered lately.
//! What one destination keeps waiting must not keep the others.

use std::collections::HashMap;
use std::time::Duration;

use http::Uri;

use crate::clock::{MINUTE, SECOND};
use crate::http_client::port;
use crate::id::WorkspaceId;

/// How many calls a process makes at once.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// In all, by one workspace, and to one destination.
    pub all: usize,
    pub of_workspace: usize,
    pub to_one: usize,
    /// To one that has not answered lately, and to all of these, of which a workspace may have half: each may keep
    /// its calls for as long as a call may take.
    pub to_unproven: usize,
    pub unproven: usize,
}

/// After so many calls in a row without an answer a destination is paused.
const TOLERATED: i64 = 5;

const SHORTEST_PAUSE: i64 = 5 * SECOND;
const LONGEST_PAUSE: i64 = 10 * MINUTE;

/// How many rows are claimed for each call to a destination of which no more is known than that it answers.
const FIRST_AHEAD: usize = 8;

/// When all rows that were claimed together have had their calls before this time, twice as many are claimed the next
/// time; when it took longer than that time, half as many.
const QUICK: Duration = Duration::from_secs(1);
const SLOW: Duration = Duration::from_secs(5);

/// From so many rows a call on, those who have them take half of the calls: the others are claimed meanwhile.
const IN_TWO_FROM: usize = 32;

/// How many destinations that failed once or twice, or that answer, are remembered.
const MOST_REMEMBERED: usize = 10_000;

/// A workspace and a host with its port: neither another workspace's calls to the
/// same host nor its other hosts have to wait for it.
pub fn destination(workspace_id: WorkspaceId, url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    Some(format!("{workspace_id} {}:{}", uri.host()?.to_ascii_lowercase(), port(&uri)))
}

/// The host of a destination, as people read it.
pub fn host(destination: &str) -> &str {
    destination.split_once(' ').map_or(destination, |(_, host)| host)
}

fn workspace(destination: &str) -> &str {
    destination.split_once(' ').map_or("", |(workspace, _)| workspace)
}

/// A pause as the store keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    pub failures: i64,
    pub until: i64,
}

/// What has to be written down after a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Change {
    Nothing,
    Pause(Pause),
    /// It answers again.
    End,
}

#[derive(Debug, Default)]
struct Line {
    calls: usize,
    failures: i64,
    /// The end of the pause that the store knows of.
    paused_until: Option<i64>,
}

#[derive(Debug)]
pub struct Destinations {
    room: Room,
    lines: HashMap<String, Line>,
    /// Those whose last call was answered, and how many rows are claimed for each of their calls.
    proven: HashMap<String, usize>,
}

impl Destinations {
    pub fn new(room: Room) -> Destinations {
        Destinations { room, lines: HashMap::new(), proven: HashMap::new() }
    }

    /// How many calls may begin now. After a pause it is one: whether it is
    /// answered decides over the others.
    fn room(&self, destination: &str, pause: Option<Pause>, now: i64) -> usize {
        let all = self.lines.values().map(|line| line.calls).sum::<usize>();
        let neighbours = self.lines.iter().filter(|(other, _)| workspace(other) == workspace(destination));
        let of_workspace = neighbours.map(|(_, line)| line.calls).sum::<usize>();
        let here = self.lines.get(destination).map_or(0, |line| line.calls);
        let ahead = self.proven.get(destination);
        let most = match pause {
            Some(pause) if pause.until > now => 0,
            Some(_) => 1,
            None if ahead.is_some() => self.room.to_one,
            None => self.room.to_unproven,
        };
        let left = most.saturating_sub(here).min(self.room.of_workspace.saturating_sub(of_workspace));
        let left = left.min(self.room.all.saturating_sub(all));
        if let Some(ahead) = ahead {
            return if *ahead < IN_TWO_FROM { left } else { left.min(self.room.to_one.div_ceil(2)) };
        }
        let (all, of_workspace) = self.unproven(workspace(destination));
        let left_of_half = self.room.unproven.div_ceil(2).saturating_sub(of_workspace);
        left.min(left_of_half).min(self.room.unproven.saturating_sub(all))
    }

    /// How many calls go to destinations that have not answered lately, and how many of these are a workspace's.
    fn unproven(&self, of: &str) -> (usize, usize) {
        let lines = self.lines.iter().filter(|(destination, _)| !self.proven.contains_key(*destination));
        lines.fold((0, 0), |(all, its), (destination, line)| {
            (all + line.calls, its + if workspace(destination) == of { line.calls } else { 0 })
        })
    }

    /// Takes all the room there is, and tells how much that was.
    pub fn reserve(&mut self, destination: &str, pause: Option<Pause>, now: i64) -> usize {
        let room = self.room(destination, pause, now);
        if room > 0 {
            let line = self.lines.entry(destination.to_owned()).or_default();
            line.calls += room;
            if let Some(pause) = pause {
                (line.failures, line.paused_until) = (pause.failures, Some(pause.until));
            }
        }
        room
    }

    /// Gives room back: calls that have ended, or were not needed.
    pub fn release(&mut self, destination: &str, calls: usize) {
        let is_crowded = self.lines.len() > MOST_REMEMBERED;
        let Some(line) = self.lines.get_mut(destination) else { return };
        line.calls = line.calls.saturating_sub(calls);
        // A pause is remembered by the store, for everybody.
        if line.calls == 0 && (line.failures == 0 || line.paused_until.is_some() || is_crowded) {
            self.lines.remove(destination);
        }
    }

    /// How many rows to claim for so many calls, and at most so many for each of them.
    pub fn rows(&self, destination: &str, calls: usize, most: usize) -> usize {
        // Whoever has one call has to show that it is answered.
        let ahead = self.proven.get(destination).filter(|_| calls > 1);
        calls * ahead.map_or(1, |ahead| most.min(*ahead))
    }

    /// All of so many rows that were claimed together have had their calls after so long.
    pub fn paced(&mut self, destination: &str, (rows, took): (usize, Duration), most: usize) {
        if let Some(ahead) = self.proven.get_mut(destination) {
            match took {
                // Few say nothing about many.
                took if took < QUICK && rows >= *ahead => *ahead = most.min(*ahead * 2),
                took if took > SLOW => *ahead = 1.max(*ahead / 2),
                _ => {}
            }
        }
    }

    /// A call was answered, well or badly.
    pub fn answered(&mut self, destination: &str) -> Change {
        let Some(line) = self.lines.get_mut(destination) else { return Change::Nothing };
        if !self.proven.contains_key(destination) {
            if self.proven.len() >= MOST_REMEMBERED {
                self.proven.clear();
            }
            self.proven.insert(destination.to_owned(), FIRST_AHEAD);
        }
        line.failures = 0;
        line.paused_until.take().map_or(Change::Nothing, |_| Change::End)
    }

    /// A call was not answered.
    pub fn failed(&mut self, destination: &str, now: i64) -> Change {
        self.proven.remove(destination);
        let Some(line) = self.lines.get_mut(destination) else { return Change::Nothing };
        // Those that began before the pause say nothing new.
        if line.paused_until.is_some_and(|until| until > now) {
            return Change::Nothing;
        }
        line.failures += 1;
        if line.failures < TOLERATED {
            return Change::Nothing;
        }
        let doublings = u32::try_from(line.failures - TOLERATED).unwrap_or(0).min(16);
        let until = now + (SHORTEST_PAUSE << doublings).min(LONGEST_PAUSE);
        line.paused_until = Some(until);
        Change::Pause(Pause { failures: line.failures, until })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST_TO_ONE: usize = 16;
    const ROOM: Room = Room { all: 128, of_workspace: 64, to_one: MOST_TO_ONE, to_unproven: MOST_TO_ONE, unproven: 64 };

    /// All of these answered the last time.
    fn proven(hosts: &[&str]) -> Destinations {
        let mut all = Destinations::new(ROOM);
        all.proven.extend(hosts.iter().map(|&host| (host.to_owned(), FIRST_AHEAD)));
        all
    }

    #[test]
    fn a_destination_is_a_workspace_and_a_host_with_its_port() {
        let w = uuid::Uuid::nil().into();
        assert_eq!(destination(w, "https://Hooks.Example/a?b"), Some(format!("{w} hooks.example:443")));
        assert_eq!(destination(w, "http://[::1]:8080/"), Some(format!("{w} [::1]:8080")));
        assert_eq!(host("w hooks.example:443"), "hooks.example:443");
        assert_eq!(destination(w, "/no/host"), None);
    }

    #[test]
    fn neither_a_host_nor_a_workspace_takes_all_the_room() {
        let mut all = proven(&["w a", "w b", "w c", "w d", "w e", "v e"]);
        for host in ["w a", "w b", "w c", "w d"] {
            assert_eq!((all.reserve(host, None, 0), all.reserve(host, None, 0)), (MOST_TO_ONE, 0));
        }
        assert_eq!((all.reserve("w e", None, 0), all.reserve("v e", None, 0)), (0, MOST_TO_ONE));
        all.release("w a", 2);
        assert_eq!((all.reserve("w a", None, 0), all.reserve("w e", None, 0)), (2, 0));
    }

    #[test]
    fn a_destination_that_does_not_answer_is_paused_for_longer_and_longer() {
        let mut all = Destinations::new(ROOM);
        assert_eq!(all.reserve("w a", None, 0), MOST_TO_ONE);
        assert!((1..TOLERATED).all(|_| all.failed("w a", 100) == Change::Nothing));
        let pause = Pause { failures: TOLERATED, until: 100 + SHORTEST_PAUSE };
        assert_eq!(all.failed("w a", 100), Change::Pause(pause));
        assert_eq!(all.failed("w a", 101), Change::Nothing, "it began before the pause");
        all.release("w a", MOST_TO_ONE);
        assert!(all.lines.is_empty(), "the store remembers");
        assert_eq!((all.reserve("w a", Some(pause), 101), all.reserve("w a", Some(pause), pause.until)), (0, 1));
        assert_eq!(all.reserve("w a", Some(pause), pause.until), 0, "one call decides");
        let longer = Pause { failures: TOLERATED + 1, until: pause.until + 2 * SHORTEST_PAUSE };
        assert_eq!(all.failed("w a", pause.until), Change::Pause(longer));
        all.release("w a", 1);
        assert_eq!(all.reserve("w a", Some(Pause { failures: 60, until: 0 }), 0), 1);
        assert_eq!(all.failed("w a", 1), Change::Pause(Pause { failures: 61, until: 1 + LONGEST_PAUSE }));
    }

    #[test]
    fn an_answer_ends_the_pause_and_is_forgotten() {
        let mut all = Destinations::new(ROOM);
        all.reserve("w a", None, 0);
        assert_eq!((all.failed("w a", 0), all.answered("w a")), (Change::Nothing, Change::Nothing));
        all.release("w a", MOST_TO_ONE);
        assert!(all.lines.is_empty());
        all.reserve("w a", Some(Pause { failures: 7, until: 0 }), 0);
        assert_eq!((all.answered("w a"), all.answered("w a")), (Change::End, Change::Nothing));
        assert_eq!(all.reserve("w a", None, 0), MOST_TO_ONE - 1, "all may call again");
    }

    #[test]
    fn as_many_rows_are_claimed_as_can_be_told_in_a_moment() {
        let mut all = Destinations::new(ROOM);
        all.reserve("w a", None, 0);
        assert_eq!(all.rows("w a", MOST_TO_ONE, 32), MOST_TO_ONE, "nothing is known of it");
        all.answered("w a");
        assert_eq!((all.rows("w a", 1, 32), all.rows("w a", 2, 32)), (1, 2 * FIRST_AHEAD));
        all.paced("w a", (FIRST_AHEAD - 1, QUICK / 2), 32);
        assert_eq!(all.rows("w a", 2, 32), 2 * FIRST_AHEAD, "few say nothing about many");
        (0..9).for_each(|_| all.paced("w a", (32, QUICK / 2), 32));
        assert_eq!((all.rows("w a", 2, 32), all.rows("w a", 2, 1)), (64, 2));
        all.release("w a", MOST_TO_ONE);
        let halves = [(); 3].map(|()| all.reserve("w a", None, 0));
        assert_eq!(halves, [MOST_TO_ONE / 2, MOST_TO_ONE / 2, 0], "some are claimed while others are told");
        all.paced("w a", (32, QUICK * 2), 32);
        assert_eq!(all.rows("w a", 2, 32), 64);
        (0..9).for_each(|_| all.paced("w a", (32, SLOW * 2), 32));
        assert_eq!(all.rows("w a", 2, 32), 2);
    }

    #[test]
    fn those_that_do_not_answer_leave_room_for_the_others() {
        let mut all = Destinations::new(Room { to_unproven: 1, unproven: 3, ..ROOM });
        assert_eq!((all.reserve("w a", None, 0), all.reserve("w a", None, 0)), (1, 0), "it has to answer first");
        all.answered("w a");
        assert_eq!(all.reserve("w a", None, 0), MOST_TO_ONE - 1);
        let silent = ["w b", "w c", "w d", "v b", "v c"].map(|host| all.reserve(host, None, 0));
        assert_eq!(silent, [1, 1, 0, 1, 0], "there is no more room for those of which nothing is known");
        all.release("w a", MOST_TO_ONE);
        assert_eq!(all.reserve("w a", None, 0), MOST_TO_ONE, "that it answers is remembered");
        all.failed("w a", 0);
        all.release("w a", MOST_TO_ONE);
        assert_eq!(all.reserve("w a", None, 0), 0, "it is one of the silent now");
    }

    #[test]
    fn silent_hosts_of_several_workspaces_leave_room_for_those_that_answer() {
        let mut all = proven(&["u a"]);
        for workspace in ["v", "w"] {
            let silent = ["a", "b", "c"].map(|host| all.reserve(&format!("{workspace} {host}"), None, 0));
            assert_eq!(silent, [MOST_TO_ONE, MOST_TO_ONE, 0], "a workspace has half of what is for these");
        }
        assert_eq!((all.reserve("u b", None, 0), all.reserve("u a", None, 0)), (0, MOST_TO_ONE));
    }
}
