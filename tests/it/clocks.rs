//! Clocks that are set: what counts elapsed time goes on as if they had not
//! been, and processes on one store agree on it.

use posthorn::automations::Engine;
use posthorn::clock::{Clock, HOUR, MINUTE, SECOND, time_of};
use posthorn::db::{self, Db, Reading};
use serde_json::json;
use uuid::Uuid;

use crate::broadcasts;
use crate::emails::{mail_with, sent};
use crate::flow::app_named;
use crate::harness::{TestApp, on_both};
use crate::sending::{Stage, statuses};
use crate::sink::Sink;
use crate::store::Store;

const DAY: i64 = 24 * HOUR;

async fn open(store: &Store) -> Db {
    Db::open(&store.options()).await.expect("a store that opens")
}

/// How far one clock is ahead of another, in whole seconds.
fn ahead(one: &Clock, other: &Clock) -> i64 {
    (one.steady() - other.steady() + SECOND / 2).div_euclid(SECOND)
}

on_both! {
    async fn f11_a_clock_that_is_set_neither_fires_a_timer_nor_keeps_it_from_firing(app: TestApp) {
        for by in [HOUR, -HOUR, 30 * DAY, -30 * DAY] {
            let other = TestApp::open(&app.store, &[]).await;
            let stage = Stage::new(other).await;
            let automation = stage.automation(&[Stage::trigger(), ("delay", json!({"duration": "10 minutes"})),
                ("wait_for_event", json!({"event_name": "paid", "timeout": "10 minutes"})), ("exit", json!({}))]).await;
            stage.send("user.created", "a@example.com", json!({})).await;
            stage.app.clock.set_wall(by);
            stage.app.clock.advance(10 * MINUTE - 1);
            stage.work().await;
            assert_eq!(statuses(&stage.run(&automation).await)[1], "waiting", "{by}: not a moment early");
            stage.app.clock.advance(1);
            stage.work().await;
            assert_eq!(statuses(&stage.run(&automation).await)[1], "completed", "{by}: and no later");
            stage.app.clock.set_wall(-by);
            stage.app.clock.advance(10 * MINUTE - 1);
            stage.send("paid", "a@example.com", json!({})).await;
            stage.app.clock.set_wall(by);
            stage.app.clock.advance(HOUR);
            stage.work().await;
            let run = stage.run(&automation).await;
            assert!(run["steps"][2]["output"]["occurrence_id"].is_string(), "{by}: it came in time, {run}");
            stage.app.delete(format!("/automations/{automation}")).key(&stage.key).send().await;
        }
    }

    async fn f11_what_a_killed_process_had_claimed_goes_on_after_the_lease_though_the_clock_went_back(app: TestApp) {
        let other = TestApp::open(&app.store, &[]).await;
        let stage = Stage::new(app).await;
        let automation = stage.automation(&[Stage::trigger(), ("exit", json!({}))]).await;
        stage.send("user.created", "a@example.com", json!({})).await;
        assert_eq!(stage.engine.claim().await.expect("a claim").len(), 1);
        other.clock.set_wall(-HOUR);
        other.clock.advance(posthorn::automations::LEASE);
        let engine = Engine::new(other.app.occurrences().clone(), other.app.domains().clone(), other.app.templates().clone());
        assert_eq!(engine.round().await.expect("a round"), 1);
        let run = stage.run(&automation).await;
        assert_eq!(run["status"], "completed");
        assert!(run["completed_at"].as_str() < run["created_at"].as_str(), "what is shown is what the clock showed");
    }

    async fn scheduled_mail_does_not_leave_before_a_clock_that_was_set_shows_its_time(store: Store) {
        let sink = Sink::open().await;
        let stage = broadcasts::Stage::open(&store, &sink, 1).await;
        let (app, clock) = (&stage.post.app, &stage.post.app.clock);
        let left = async || {
            stage.take().await;
            while stage.post.round().await > 0 {}
            sink.kept().len()
        };
        for by in [-HOUR, HOUR] {
            let before = sink.kept().len();
            let later = json!({"scheduled_at": "in 2 hours"});
            sent(app, &stage.key, mail_with(later.clone())).await;
            let unwanted = sent(app, &stage.key, mail_with(later.clone())).await;
            stage.send(later).await;
            clock.set_wall(by);
            clock.advance(2 * HOUR - 1);
            assert_eq!(left().await, before, "{by}: not a moment early");
            clock.advance(1);
            if by < 0 {
                assert_eq!(left().await, before, "the clock shows an hour less");
                clock.advance(HOUR - 1);
                assert_eq!(left().await, before, "nor a moment early now");
                clock.advance(1);
            }
            let canceled = app.post(format!("/emails/{unwanted}/cancel")).key(&stage.key).send().await;
            assert_eq!(canceled.status, 200, "nobody has taken it up: {}", canceled.text());
            assert_eq!(left().await, before + 2, "{by}: and no later than it can be known");
        }
    }

    async fn what_has_expired_is_not_revived_by_a_clock_that_is_set_back(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        let code = app.code(&client, &owner).await;
        app.clock.set_wall(-HOUR);
        assert_eq!(app.token(&TestApp::exchange(&client, &code)).await.status, 200, "and what has not is good");
        let (code, page) = (app.code(&client, &owner).await, app.ask(&client, "").await);
        app.clock.advance(10 * MINUTE);
        app.clock.set_wall(-HOUR);
        app.token(&TestApp::exchange(&client, &code)).await.oauth_refused(400, "invalid_grant");
        assert_eq!(app.see(&page, &owner).await.status, 410);
        app.clock.set_wall(2 * HOUR);
        let page = app.ask(&client, "").await;
        posthorn::oauth::sweep(&app.app.db, &app.clock).await.expect("a sweep");
        assert_eq!(app.see(&page, &owner).await.status, 200, "nor does one that is set forward end it");
    }

    async fn a_key_of_idempotency_is_kept_for_a_day_whatever_a_clock_shows(app: TestApp) {
        let stage = Stage::new(app).await;
        let send = async || {
            let body = json!({"event": "user.created", "email": "a@example.com"});
            let request = stage.app.post("/events/send").key(&stage.key).header("idempotency-key", "k").json(body);
            request.send().await.header("idempotent-replayed").is_some()
        };
        assert!(!send().await);
        stage.app.clock.set_wall(30 * DAY);
        stage.app.app.db.commit(posthorn::web::sweep_idempotency_keys(stage.app.clock.steady())).await.expect("a sweep");
        assert!(send().await, "a clock that went forward forgets nothing");
        stage.app.clock.set_wall(-60 * DAY);
        assert!(send().await);
        stage.app.clock.advance(DAY);
        assert!(!send().await, "and one that went back keeps nothing for longer");
    }

    async fn a_start_goes_on_from_a_clock_that_is_ahead_and_not_from_one_that_went_back(store: Store) {
        let db = open(&store).await;
        let (first, mut keeper) = db::open_clock(&db).await.expect("a clock");
        keeper.look().await.expect("a look");
        let last: Uuid = first.ordered_id();
        assert!((first.steady() - first.now()).abs() < MINUTE, "a new store begins with the time of day");

        // Time had come an hour further than the clock shows.
        store.run(&format!("UPDATE clock SET seen = {}", first.steady() + HOUR)).await;
        let (second, mut keeper) = db::open_clock(&db).await.expect("a clock");
        assert!((0..5).contains(&(ahead(&second, &first) - 3600)), "{}", ahead(&second, &first));
        keeper.look().await.expect("a look");
        let seen = store.value("SELECT seen FROM clock").await.and_then(|text| text.parse().ok()).expect("a time");
        let id: Uuid = second.ordered_id();
        assert!(id > last && time_of(id) > seen, "ids ascend, also over those of which nothing was noted");
        let told = Reading::take(&db, &second).await.expect("a reading");
        assert_eq!((told.shift + SECOND / 2).div_euclid(HOUR), 1, "{told:?}");
        assert_eq!(told.stepped.map(|(_, by)| (by - SECOND / 2).div_euclid(HOUR)), Some(-2), "{told:?}");

        // A third joins the second; and once the clock has caught up, nothing is left of it.
        let (third, _) = db::open_clock(&db).await.expect("a clock");
        assert_eq!(ahead(&third, &second).abs(), 0);
        store.run(&format!("UPDATE clock SET seen = {}", first.steady() - HOUR)).await;
        let (fourth, _) = db::open_clock(&db).await.expect("a clock");
        assert_eq!(ahead(&fourth, &first), 0, "of two ways to read a clock the one that fires fewer timers");
    }
}

/// Processes on an SQLite file share a machine, and with it what it counts.
#[tokio::test]
async fn of_processes_on_postgresql_that_disagree_the_one_that_would_fire_early_gives_in() {
    let store = Store::postgres().await;
    let db = open(&store).await;
    let (one, mut keeps_one) = db::open_clock(&db).await.expect("a clock");
    let (two, mut keeps_two) = db::open_clock(&db).await.expect("a clock");
    keeps_one.look().await.expect("a look");
    keeps_two.look().await.expect("a look");
    // The third starts an hour ahead, before anybody has noticed that the store's clock was set.
    let so_far = one.steady() + MINUTE;
    store.run(&format!("UPDATE clock SET shift = shift + {HOUR}, seen = {so_far}")).await;
    let (three, mut keeps_three) = db::open_clock(&db).await.expect("a clock");
    assert_eq!(ahead(&three, &one), 3600);
    for _ in 0..2 {
        keeps_one.look().await.expect("a look");
        keeps_two.look().await.expect("a look");
        keeps_three.look().await.expect("a look");
    }
    assert_eq!((ahead(&one, &two), ahead(&three, &one)), (0, 0));
    assert!((one.steady() - one.now()).abs() < MINUTE);
    drop((db, keeps_one, keeps_two, keeps_three));
    store.discard().await;
}
