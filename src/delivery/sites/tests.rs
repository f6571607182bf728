use super::site::AHEAD;
use super::*;
use crate::clock::{HOUR, MINUTE};

const FIVE: usize = 5 * AHEAD;

/// Takes all the room that a lane has at a site.
fn take(sites: &Sites, name: &str, is_bulk: bool, now: i64) -> Vec<Slot> {
    let room = sites.reserve(name, Pace::MX, is_bulk, now).expect("no pause");
    sites.keep(name, is_bulk, room, room)
}

/// A site that has taken something, and how many dialogues it may have.
fn good(name: &str) -> Sites {
    let sites = Sites::default();
    drop(take(&sites, name, false, 0));
    // More than five, and less than six.
    sites.answered(name, 0);
    sites
}

#[test]
fn a_site_that_was_never_tried_is_given_no_more_than_its_dialogues() {
    let sites = Sites::default();
    assert_eq!(sites.reserve("a", Pace::MX, false, 0), Ok(5));
    drop(sites.keep("a", false, 5, 5));
    sites.answered("a", 0);
    assert_eq!(sites.reserve("a", Pace::MX, false, 0), Ok(FIVE), "it took something");
}

#[test]
fn one_site_does_not_take_the_room_of_another_and_bulk_leaves_a_quarter() {
    let sites = good("a");
    assert_eq!(sites.reserve("a", Pace::MX, true, 0), Ok(FIVE * 3 / 4));
    assert_eq!(sites.reserve("a", Pace::MX, true, 0), Ok(0), "bulk has what it may have");
    let held = sites.keep("a", true, FIVE * 3 / 4, FIVE / 2);
    assert_eq!(sites.reserve("a", Pace::MX, false, 0), Ok(FIVE / 2), "the rest is for the other lane");
    assert_eq!(sites.reserve("b", Pace::MX, false, 0), Ok(5));
    drop(held);
    for number in 0..100 {
        let _ = sites.reserve(&format!("bulk {number}"), Pace::MX, true, 0);
    }
    assert_eq!(sites.reserve("c", Pace::MX, true, 0), Ok(0));
    assert_eq!(sites.reserve("c", Pace::MX, false, 0), Ok(5), "the last quarter");
}

#[test]
fn bulk_never_uses_up_the_room_of_transactional_mail() {
    let sites = good("a");
    let bulk = take(&sites, "a", true, 0);
    assert_eq!(bulk.len(), FIVE * 3 / 4);
    let transactional = take(&sites, "a", false, 0);
    assert_eq!(transactional.len(), FIVE / 4, "bulk is three quarters, and that is no reason");
    drop(transactional);
    drop(bulk);
    // One dialogue, and bulk has it.
    sites.heard("a", (451, "temporarily deferred"), 0);
    let _bulk = take(&sites, "a", true, 0);
    assert_eq!(take(&sites, "a", false, 0).len(), 1);
}

#[test]
fn a_site_is_given_more_by_and_by_and_nothing_while_it_does_not_answer() {
    let sites = good("a");
    (0..200).for_each(|_| sites.answered("a", 0));
    assert_eq!(take(&sites, "a", false, 0).len(), 20 * AHEAD);
    (0..19).for_each(|_| sites.failed("a", 0, "no answer"));
    assert!(take(&sites, "a", false, 0).len() < 20);
    (0..19).for_each(|_| sites.failed("a", 0, "no answer"));
    let pause = sites.reserve("a", Pace::MX, false, SECOND).expect_err("a pause");
    assert_eq!(pause.reason, "no answer");
    assert_eq!(sites.reserve("a", Pace::MX, false, pause.until), Ok(1), "one dialogue decides");
}

#[test]
fn what_a_site_says_of_our_pace_is_heeded_for_a_while() {
    for (reply, room) in [
        ((250, "ok, temporarily deferred never"), FIVE),
        ((421, "later"), AHEAD),
        ((451, "4.7.0 Temporarily deferred due to user complaints"), AHEAD),
    ] {
        let sites = good("a");
        sites.heard("a", reply, 0);
        assert_eq!(take(&sites, "a", false, 0).len(), room, "{reply:?}");
        sites.answered("a", 3 * HOUR);
        assert_eq!(take(&sites, "a", false, 3 * HOUR).len(), FIVE, "{reply:?}");
    }
    let sites = good("yahoo");
    sites.heard("yahoo", (421, "4.7.0 [TSS04] Messages temporarily deferred"), 0);
    assert_eq!(sites.reserve("yahoo", Pace::MX, false, 0).map_err(|pause| pause.until), Err(2 * HOUR));
}

#[tokio::test]
async fn no_more_dialogues_are_held_than_a_site_is_given() {
    let sites = Sites::default();
    let pace = Pace { first: 1, most: 1 };
    let _ = sites.reserve("a", pace, false, 0).expect("room");
    sites.answered("a", 0);
    let slots = sites.keep("a", false, 2, 2);
    let first = slots[0].turn(|| 0).await;
    let second = slots[1].turn(|| 0);
    tokio::pin!(second);
    assert!(futures_util::poll!(&mut second).is_pending());
    drop(first);
    assert!(second.await.is_ok());
}

#[tokio::test]
async fn transactional_mail_is_next_however_long_bulk_has_waited() {
    let sites = Sites::default();
    let pace = Pace { first: 1, most: 1 };
    let _ = sites.reserve("a", pace, true, 0);
    let (bulk, one) = (sites.keep("a", true, 3, 3), sites.keep("a", false, 2, 2));
    let talking = bulk[0].turn(|| 0).await;
    let (early, late) = (bulk[1].turn(|| 0), one[0].turn(|| 0));
    let gone = Box::pin(one[1].turn(|| 0));
    tokio::pin!(early, late);
    let mut gone = gone;
    for waiting in [futures_util::poll!(&mut early), futures_util::poll!(&mut gone), futures_util::poll!(&mut late)] {
        assert!(waiting.is_pending());
    }
    drop(talking);
    // Whose turn it was goes away.
    drop(gone);
    assert!(futures_util::poll!(&mut early).is_pending(), "bulk stood before it");
    let turn = late.await.expect("a turn");
    assert!(futures_util::poll!(&mut early).is_pending());
    drop(turn);
    assert!(early.await.is_ok());
}

#[test]
fn sites_that_do_not_answer_leave_half_of_the_room_to_the_others() {
    let sites = good("good");
    let (mut held, mut tarpits) = (Vec::new(), 0);
    loop {
        let taken = take(&sites, &format!("tarpit {tarpits}"), false, 0);
        if taken.is_empty() {
            break;
        }
        assert!(taken.len() <= 5, "one that stalls has a few");
        (tarpits, held) = (tarpits + 1, [held, taken].into_iter().flatten().collect());
    }
    assert!(take(&sites, "good", false, 0).is_empty(), "they have taken all while nobody knew them");
    for number in 0..tarpits {
        sites.table().change(&format!("tarpit {number}"), |site| site.begin(0));
    }
    let later = MINUTE;
    sites.answered("good", later);
    let mut others = 0;
    for name in (0..100).map(|number| format!("site {number}")) {
        let room = sites.reserve(&name, Pace::MX, false, later).expect("no pause");
        others += room;
        sites.keep(&name, false, room, room).into_iter().for_each(std::mem::forget);
    }
    assert_eq!(others, MOST / 2, "half is for those who answer, and for those who were never tried");
    let pause = sites.reserve("tarpit 0", Pace::MX, false, later).expect_err("it stalls");
    assert!(pause.reason.contains("60 seconds") && pause.until > later, "{pause:?}");
    drop(held);
}

#[tokio::test]
async fn what_waits_behind_a_dialogue_that_stalls_or_a_site_that_pauses_goes_back() {
    for is_stalling in [true, false] {
        let sites = Sites::default();
        let _ = sites.reserve("a", Pace { first: 1, most: 1 }, false, 0);
        let slots = sites.keep("a", false, 2, 2);
        let _talking = slots[0].turn(|| 0).await;
        let waiting = slots[1].turn(|| MINUTE);
        tokio::pin!(waiting);
        assert!(futures_util::poll!(&mut waiting).is_pending());
        match is_stalling {
            true => drop(sites.reserve("b", Pace::MX, false, MINUTE)),
            false => sites.failed("a", MINUTE, "nobody is there"),
        }
        let pause = waiting.await.err().expect("a pause");
        assert!(pause.until > MINUTE, "{pause:?}");
    }
}

#[test]
fn sites_with_whom_nothing_goes_on_are_forgotten_and_others_are_not() {
    let sites = Sites::default();
    let _busy = take(&sites, "busy", false, 0);
    drop(take(&sites, "idle", false, 0));
    drop(take(&sites, "paused", false, 0));
    sites.heard("paused", (421, "[TSS04]"), 0);
    let known = |now| {
        let _ = sites.reserve("another", Pace::MX, false, now);
        let mut known: Vec<String> = sites.table().sites.keys().cloned().collect();
        known.sort();
        known
    };
    assert_eq!(known(MINUTE), ["another", "busy", "idle", "paused"]);
    assert_eq!(known(HOUR + MINUTE), ["another", "busy", "paused"]);
    assert_eq!(known(3 * HOUR), ["another", "busy"]);
}
