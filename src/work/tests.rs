use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::{LONGEST_BACK_OFF, Next, POLL, SHORTEST_WAIT, Tasks, Worker, back_off, run, until};
use crate::clock::{Clock, SECOND};
use crate::db::DbError;

/// Says what the test wants it to say, and counts.
struct Scripted<R> {
    round: R,
    wake: Arc<Notify>,
    rounds: Arc<AtomicUsize>,
}

impl<R: FnMut(usize, &mut Tasks) -> Result<Next, DbError> + Send + Sync> Worker for Scripted<R> {
    const NAME: &'static str = "scripted";

    async fn round(&mut self, tasks: &mut Tasks) -> Result<Next, DbError> {
        (self.round)(self.rounds.fetch_add(1, Ordering::SeqCst), tasks)
    }

    async fn woken(&self) {
        self.wake.notified().await;
    }
}

fn scripted<R>(round: R) -> Scripted<R> {
    Scripted { round, wake: Arc::default(), rounds: Arc::default() }
}

#[tokio::test]
async fn what_a_worker_has_begun_is_finished_before_it_stops() {
    let (stop, stopping) = watch::channel(false);
    let (go_on, ended) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
    let (wait, count) = (go_on.clone(), ended.clone());
    let worker = scripted(move |_, tasks: &mut Tasks| {
        let (wait, count) = (wait.clone(), count.clone());
        tasks.spawn(async move {
            wait.notified().await;
            count.fetch_add(1, Ordering::SeqCst);
        });
        stop.send_replace(true);
        Ok(Next::AtOnce)
    });
    let running = tokio::spawn(run(worker, Clock::fixed(0), stopping));
    tokio::task::yield_now().await;
    assert!(!running.is_finished() && ended.load(Ordering::SeqCst) == 0);
    go_on.notify_one();
    running.await.expect("no panic");
    assert_eq!(ended.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_task_that_panics_is_no_more_than_a_reason_for_another_round() {
    let (stop, stopping) = watch::channel(false);
    let worker = scripted(move |round, tasks: &mut Tasks| {
        match round {
            0 => tasks.spawn(async { panic!("the first") }),
            _ => drop(stop.send_replace(true)),
        }
        Ok(Next::Due(None))
    });
    let rounds = worker.rounds.clone();
    run(worker, Clock::fixed(0), stopping).await;
    assert_eq!(rounds.load(Ordering::SeqCst), 2);
}

/// Whoever is on hold, or finds the store out, does not turn in circles because others say that there is work.
#[tokio::test]
async fn who_cannot_work_does_not_hear_that_there_is_work() {
    for refused in [DbError::Stale, DbError::Busy] {
        let (stop, stopping) = watch::channel(false);
        let worker = scripted(move |_, _: &mut Tasks| Err(refused.clone()));
        let (rounds, wake) = (worker.rounds.clone(), worker.wake.clone());
        let running = tokio::spawn(run(worker, Clock::fixed(0), stopping));
        for _ in 0..100 {
            wake.notify_one();
            tokio::task::yield_now().await;
        }
        stop.send_replace(true);
        running.await.expect("no panic");
        assert_eq!(rounds.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn who_can_work_hears_that_there_is_work() {
    let (stop, stopping) = watch::channel(false);
    let worker = scripted(move |round, _: &mut Tasks| {
        if round == 20 {
            stop.send_replace(true);
        }
        Ok(Next::Due(None))
    });
    let (rounds, wake) = (worker.rounds.clone(), worker.wake.clone());
    let running = tokio::spawn(run(worker, Clock::fixed(0), stopping));
    while rounds.load(Ordering::SeqCst) < 21 {
        wake.notify_one();
        tokio::task::yield_now().await;
    }
    running.await.expect("no panic");
}

#[test]
fn waits_are_bounded_and_grow_with_failures() {
    assert_eq!((until(0, 5), until(SECOND / 10, 0)), (SHORTEST_WAIT, Duration::from_millis(100)));
    assert_eq!((until(i64::MAX, 0), until(i64::MIN / 2, 0)), (POLL, SHORTEST_WAIT));
    assert!((1..5).all(|failures| back_off(failures) * 2 == back_off(failures + 1)));
    assert_eq!((back_off(5), back_off(u32::MAX)), (LONGEST_BACK_OFF, LONGEST_BACK_OFF));
}
