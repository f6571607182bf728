//! How much a site gets: what it says of our pace is heeded for as long as the table has it, what it says of one mail is
//! not held against the others, and connections are used again by time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use posthorn::clock::{HOUR, MINUTE, SECOND};
use tokio::sync::watch;

use crate::delivery::Post;
use crate::delivery_direct::{direct, rounds};
use crate::dns::Dns;
use crate::harness::on_both;
use crate::sink::{Does, Sink};
use crate::store::Store;

const HERE: [u8; 4] = [127, 0, 0, 1];
const FAST: &str = "--smtp-timeout-factor=0.01";

/// How many dialogues a site begins with.
const FIRST: usize = 5;

/// Longer than a connection waits for its next mail.
const TOO_LONG: Duration = Duration::from_millis(2_100);

const SOON: Duration = Duration::from_secs(20);

/// Long enough for as many dialogues to be held as there may be.
const A_WHILE: Duration = Duration::from_millis(30);

/// What the replies of the table lead to, and for how long.
const TABLE: &[(&str, Limit, i64)] = &[
    ("421 4.7.0 [TSS04] Messages temporarily deferred due to user complaints", Limit::Dialogues(0), 2 * HOUR),
    ("451 4.7.1 Messages temporarily deferred", Limit::Dialogues(1), 90 * MINUTE),
    ("421 4.7.0 Too many connections from you", Limit::Dialogues(FIRST - 1), 10 * MINUTE),
    ("452 4.3.2 too many concurrent sessions", Limit::Dialogues(FIRST - 1), 10 * MINUTE),
    ("421 4.3.2 closing", Limit::Dialogues(FIRST - 1), 5 * MINUTE),
    ("451 4.7.1 greylisted", Limit::None, 5 * MINUTE),
    ("550 5.7.1 temporarily deferred, for good", Limit::None, 5 * MINUTE),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    None,
    Dialogues(usize),
}

/// A server that answers one of the first dialogues so, while the others are held, and then counts dialogues.
struct Scene {
    post: Post,
    sink: Sink,
    allow: watch::Sender<bool>,
    /// How many dialogues are held now, and how many were at most.
    held: Arc<Mutex<(usize, usize)>>,
    _dns: Dns,
}

impl Scene {
    async fn open(store: &Store, reply: &'static str) -> Scene {
        let (allow, allowed) = watch::channel(false);
        let held: Arc<Mutex<(usize, usize)>> = Arc::default();
        let (count, asked) = (held.clone(), AtomicUsize::new(0));
        let sink = Sink::scripted(move |command| {
            let mut held = count.lock().expect("a lock");
            match command.get(..4) {
                Some("MAIL") => *held = (held.0 + 1, held.1.max(held.0 + 1)),
                Some("RCPT") => {
                    return match asked.fetch_add(1, Ordering::SeqCst) + 1 {
                        ..FIRST => Does::UsualWhen(allowed.clone()),
                        FIRST => {
                            held.0 -= 1;
                            Does::Says(reply)
                        }
                        _ => Does::UsualAfter(A_WHILE),
                    };
                }
                _ if command == "." => held.0 -= 1,
                _ => {}
            }
            Does::Usual
        })
        .await;
        let dns = Dns::start().await;
        dns.mx("example.com", 10, "mx.example.com");
        dns.a("mx.example.com", HERE);
        Scene { post: direct(store, &dns, &sink, &[]).await, sink, allow, held, _dns: dns }
    }

    async fn queue(&self, name: &str, count: usize) {
        for number in 0..count {
            self.post.send(&format!("{name}{number}@example.com")).await;
        }
    }

    /// Of how many recipients this is true.
    async fn count(&self, condition: &str) -> i64 {
        self.post.app.count(&format!("email_recipients WHERE {condition}")).await
    }

    /// As many mails at once as there may be, one of which gets the reply while the others are held.
    async fn begin(&self) {
        self.queue("first", FIRST).await;
        let engine = self.post.engine.clone();
        let working = tokio::spawn(async move {
            let mut done = 0;
            while done < FIRST {
                done += engine.round().await.expect("a round");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        let heard = async {
            while self.count("reason <> ''").await == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(SOON, heard).await.expect("somebody gets the reply");
        self.allow.send_replace(true);
        working.await.expect("no panic");
        assert_eq!((self.sink.kept().len(), self.held.lock().expect("a lock").1), (FIRST - 1, FIRST));
    }

    /// Delivers mails, and tells how many dialogues there were at most.
    async fn most(&self, name: &str) -> usize {
        self.queue(name, 4 * FIRST).await;
        *self.held.lock().expect("a lock") = (0, 0);
        let arrived = async {
            while self.count(&format!("due_at IS NOT NULL AND address LIKE '{name}%'")).await > 0 {
                self.post.round().await;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(SOON, arrived).await.expect("they arrive");
        self.held.lock().expect("a lock").1
    }
}

on_both! {
    async fn issue_12_what_a_site_says_of_our_pace_bounds_its_dialogues_for_as_long_as_the_table_says(store: Store) {
        for &(reply, limit, time) in TABLE {
            let scene = Scene::open(&store, reply).await;
            let clock = &scene.post.app.clock;
            scene.begin().await;
            clock.advance(time - SECOND);
            match limit {
                Limit::None => assert!(scene.most("now").await >= FIRST, "{reply}"),
                Limit::Dialogues(0) => {
                    let id = scene.post.send("bob@example.com").await;
                    rounds(&scene.post, 1).await;
                    let [(10, 0, Some(due), reason)] = &scene.post.recipients(id).await[..] else { panic!("{reply}") };
                    assert_eq!(*due, clock.steady() + SECOND, "{reply}");
                    assert!(reason.contains("gets no mail for a while") && reason.contains("[tss04]"), "{reason}");
                    assert_eq!(scene.sink.kept().len(), FIRST - 1, "{reply}");
                }
                Limit::Dialogues(most) => assert_eq!(scene.most("now").await, most, "{reply}"),
            }
            clock.advance(SECOND);
            assert!(scene.most("later").await >= FIRST, "{reply}");
            store.run("DELETE FROM email_recipients").await;
        }
    }

    async fn issue_12_replies_that_put_off_a_mail_leave_its_site_to_the_others(store: Store) {
        for phase in ["MAIL", "RCPT", "DATA", "."] {
            let puts_off = Arc::new(AtomicBool::new(true));
            let is_so = puts_off.clone();
            let sink = Sink::scripted(move |command| match command.starts_with(phase) && is_so.load(Ordering::SeqCst) {
                true => Does::Says("451 4.7.1 come back later"),
                false => Does::Usual,
            })
            .await;
            let dns = Dns::start().await;
            dns.mx("example.com", 10, "mx.example.com");
            dns.a("mx.example.com", HERE);
            let post = direct(&store, &dns, &sink, &[FAST]).await;
            let mut ids = Vec::new();
            // More than enough to pause a site, if they were failures of the site.
            for number in 0..6 * FIRST {
                ids.push(post.send(&format!("grey{number}@example.com")).await);
            }
            rounds(&post, ids.len()).await;
            for id in ids {
                let [(10, 1, Some(_), reason)] = &post.recipients(id).await[..] else { panic!("{phase}: it waits") };
                assert!(reason.contains("451 4.7.1 come back later"), "{phase}: {reason}");
            }
            puts_off.store(false, Ordering::SeqCst);
            let id = post.send("bob@example.com").await;
            assert_eq!((post.round().await, post.state(id).await), (1, 40), "{phase}");
            store.run("DELETE FROM email_recipients").await;
        }
    }

    async fn issue_12_a_connection_is_used_again_unless_it_has_waited_for_too_long(store: Store) {
        let sink = Sink::open().await;
        let post = Post::relaying(&store, &sink).await;
        for number in 0..20 {
            post.send(&format!("bob{number}@example.com")).await;
            assert_eq!(post.round().await, 1);
        }
        assert_eq!((sink.heard("EHLO"), sink.heard("MAIL")), (1, 20));
        tokio::time::sleep(TOO_LONG).await;
        post.send("eve@example.com").await;
        assert_eq!((post.round().await, sink.heard("EHLO"), sink.kept().len()), (1, 2, 21));
    }
}
