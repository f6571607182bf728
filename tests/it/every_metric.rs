//! Every metric of `GET /emails/metrics` happens, to a single mail and to a broadcast, and is right by every dimension
//! and under every filter.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use posthorn::clock::{HOUR, MINUTE, SECOND};
use posthorn::subscriptions::{Links, Subscriber};
use posthorn::{tracking, upkeep};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::broadcasts::{self, field};
use crate::delivery::Post;
use crate::harness::{BASE, on_both};
use crate::inbound::{bring, complaint, listen, report};
use crate::sink::{Does, Sink, Taken};
use crate::store::Store;
use crate::tracking::{READER, SCANNER, html_of, image, links};

const FORM: &str = "application/x-www-form-urlencoded";

const LINKS: &str = "<body><a href=\"https://a.example/\">one</a> <a href=\"https://b.example/\">two</a></body>";

/// What becomes of a mail to each of them, and the counts of its own.
const PEOPLE: [(&str, &[(&str, i64)]); 9] = [
    (
        "reads",
        &[("sent", 1), ("delivered", 1), ("opened", 13), ("unique_opened", 1), ("clicked", 14), ("unique_clicked", 1)],
    ),
    ("quiet", &[("sent", 1), ("delivered", 1)]),
    ("leaves", &[("sent", 1), ("delivered", 1), ("unsubscribed", 1)]),
    ("complains", &[("sent", 1), ("delivered", 1), ("complained", 1)]),
    ("unknown", &[("sent", 1), ("bounced", 1), ("bounced_permanent", 1)]),
    ("full", &[("sent", 1), ("delivered", 1), ("bounced", 1), ("bounced_transient", 1)]),
    ("odd", &[("sent", 1), ("delivered", 1), ("bounced", 1), ("bounced_undetermined", 1)]),
    ("late", &[("delivery_delayed", 1), ("failed", 1)]),
    ("listed", &[("suppressed", 1)]),
];

const COUNTS: [&str; 16] = [
    "received",
    "delivered",
    "complained",
    "suppressed",
    "bounced",
    "bounced_transient",
    "bounced_permanent",
    "bounced_undetermined",
    "opened",
    "clicked",
    "unsubscribed",
    "delivery_delayed",
    "failed",
    "sent",
    "unique_opened",
    "unique_clicked",
];

/// Rates, and what they are of.
const RATES: [(&str, &str, &str); 6] = [
    ("delivery_rate", "delivered", "sent"),
    ("bounce_rate", "bounced", "sent"),
    ("open_rate", "unique_opened", "delivered"),
    ("click_rate", "unique_clicked", "delivered"),
    ("complaint_rate", "complained", "delivered"),
    ("unsubscribe_rate", "unsubscribed", "delivered"),
];

type Counts = BTreeMap<&'static str, i64>;

fn sum<'a>(of: impl IntoIterator<Item = &'a Counts>) -> Counts {
    let mut sum = counts(&[]);
    of.into_iter().flatten().for_each(|(name, count)| *sum.get_mut(name).expect(name) += count);
    sum
}

fn counts(some: &[(&'static str, i64)]) -> Counts {
    let mut counts: Counts = COUNTS.into_iter().map(|name| (name, 0)).collect();
    counts.extend(some.iter().copied());
    counts
}

/// The counts of an answer's totals or row, whose rates must be those of its counts.
fn told(values: &Value) -> Counts {
    let read = |name: &str| values[name].as_i64().unwrap_or_else(|| panic!("{name} in {values}"));
    let counts: Counts = COUNTS.into_iter().map(|name| (name, read(name))).collect();
    for (rate, part, whole) in RATES {
        let expected = if counts[whole] == 0 { 0.0 } else { counts[part] as f64 / counts[whole] as f64 };
        let found = values[rate].as_f64().unwrap_or_else(|| panic!("{rate} in {values}"));
        assert!((found - expected).abs() <= 0.000_05, "{rate} in {values}");
    }
    counts
}

/// What became of the mail to everybody.
fn everybody() -> Counts {
    sum(&PEOPLE.map(|(_, own)| counts(own)))
}

struct Scene {
    stage: broadcasts::Stage,
    sink: Sink,
    address: SocketAddr,
    _stop: watch::Sender<bool>,
    domain: String,
    topic: String,
}

impl Scene {
    async fn open(store: &Store) -> Scene {
        let sink = Sink::scripted(|command| match command {
            command if command.starts_with("RCPT") && command.contains("unknown") => Does::Says("550 5.1.1 nobody"),
            command if command.starts_with("RCPT") && command.contains("late") => Does::Says("451 4.3.0 later"),
            _ => Does::Usual,
        })
        .await;
        let stage = broadcasts::Stage::of(Post::relaying(store, &sink).await, 0).await;
        let domain = json!({"name": "sender.example", "open_tracking": true, "click_tracking": true});
        let domain = stage.call("POST", "/domains", domain).await["id"].as_str().expect("an id").to_owned();
        // As if its records had been seen, and it received.
        store.run("UPDATE dkim_keys SET seen_at = 0").await;
        store.run("UPDATE domains SET is_owned = TRUE, receiving = TRUE").await;
        let topic = json!({"name": "News", "default_subscription": "opt_in"});
        let topic = stage.call("POST", "/topics", topic).await["id"].as_str().expect("an id").to_owned();
        let (address, stop) = listen(store, &stage.post.app);
        Scene { stage, sink, address, _stop: stop, domain, topic }
    }

    /// Delivers what is due, for as long as it takes until a delay is told.
    async fn deliver(&self) {
        for _ in 0..6 {
            while self.stage.post.round().await > 0 {}
            self.stage.post.app.clock.advance(HOUR);
        }
        while self.stage.post.round().await > 0 {}
    }

    async fn suppress(&self, email: &str) {
        self.stage.call("POST", "/suppressions", json!({"email": email})).await;
    }

    fn mail_to(&self, whose: &str, who: &str) -> Taken {
        let to = format!("{who}@{whose}.example");
        self.sink.kept().into_iter().find(|taken| taken.to == to).unwrap_or_else(|| panic!("no mail to {to}"))
    }

    /// What people, machines and servers do with the mails that have arrived.
    async fn react(&self, whose: &str) {
        let app = &self.stage.post.app;
        app.clock.advance(MINUTE);
        let html = html_of(&self.mail_to(whose, "reads"));
        let visit = async |url: &str, user_agent: &str| {
            let path = url.strip_prefix(BASE).unwrap_or_else(|| panic!("{url} is not ours"));
            assert!(app.get(path).header("user-agent", user_agent).from("192.0.2.7").send().await.status < 400);
            app.clock.advance(MINUTE);
            while tracking::round(app.app.occurrences()).await.expect("a round") > 0 {}
        };
        // More often than histories keep.
        for _ in 0..13 {
            visit(&image(&html), READER).await;
            visit(&links(&html)[0], READER).await;
        }
        visit(&links(&html)[1], READER).await;
        visit(&image(&html), SCANNER).await;
        visit(&links(&html)[0], SCANNER).await;
        for (who, status) in [("full", "4.2.2"), ("odd", "2.0.0")] {
            let path = self.mail_to(whose, who).from;
            let reply = bring(self.address, "", &path, &report("failed", status, "no")).await;
            assert!(reply.starts_with("250 "), "{reply}");
        }
        let path = self.mail_to(whose, "complains").from;
        assert!(bring(self.address, "loop@isp.example", &path, &complaint()).await.starts_with("250 "));
        let link = field(&self.mail_to(whose, "leaves").text, "List-Unsubscribe").expect("a link");
        let path = link.trim_matches(['<', '>']).strip_prefix(BASE).expect("ours").to_owned();
        // It counts once, however often somebody changes their mind.
        for body in ["List-Unsubscribe=One-Click", "action=subscribe", "action=unsubscribe_all", "action=unsubscribe"] {
            assert_eq!(app.post(&path).body(FORM, body).send().await.status, 200, "{body}");
        }
        app.clock.advance(MINUTE);
    }

    /// One mail to all of them.
    async fn single(&self) -> String {
        let to: Vec<String> = PEOPLE.iter().map(|(who, _)| format!("{who}@single.example")).collect();
        self.stage.call("POST", "/contacts", json!({"email": "leaves@single.example"})).await;
        self.suppress("listed@single.example").await;
        let mail =
            json!({"from": "a@sender.example", "to": to, "subject": "Hi", "html": LINKS, "topic_id": self.topic});
        let id = self.stage.call("POST", "/emails", mail).await["id"].as_str().expect("an id").to_owned();
        self.deliver().await;
        let late = json!({"to": "late@single.example"});
        self.stage.call("POST", &format!("/emails/{id}/drop"), late).await;
        self.react("single").await;
        id
    }

    /// A mail to each of them; the broadcast, and who has which.
    async fn broadcast(&self) -> (String, BTreeMap<String, String>) {
        for (who, _) in PEOPLE {
            self.stage.add(&format!("{who}@many.example"), json!({})).await;
        }
        // It was a draft for longer than the days that are asked for.
        let draft = self.stage.fields(json!({"name": "News", "html": LINKS, "topic_id": self.topic}));
        let id = self.stage.call("POST", "/broadcasts", draft).await["id"].as_str().expect("an id").to_owned();
        self.stage.post.app.clock.advance(10 * 24 * HOUR);
        self.stage.call("POST", &format!("/broadcasts/{id}/send"), json!({})).await;
        self.stage.take().await;
        self.suppress("listed@many.example").await;
        self.deliver().await;
        let listed = self.stage.call("GET", &format!("/broadcasts/{id}/recipients?limit=100"), json!({})).await;
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let listed = listed["data"].as_array().expect("a list").iter();
        let own: BTreeMap<String, String> = listed.map(|one| (text(&one["email"]), text(&one["id"]))).collect();
        self.stage.call("POST", &format!("/emails/{}/drop", own["late@many.example"]), json!({})).await;
        self.react("many").await;
        (id, own)
    }

    async fn metrics(&self, query: &str) -> Value {
        self.stage.call("GET", &format!("/emails/metrics?start_date=2026-01-01{query}"), json!({})).await
    }

    async fn totals(&self, query: &str) -> Counts {
        told(&self.metrics(query).await["totals"])
    }

    /// The rows of an answer by a field of theirs, which must come to its totals.
    async fn rows(&self, query: &str, by: &str) -> BTreeMap<String, Counts> {
        let answer = self.metrics(query).await;
        let rows = answer["data"].as_array().unwrap_or_else(|| panic!("rows in {answer}"));
        let read = |row: &Value| (row[by].as_str().unwrap_or_default().to_owned(), told(row));
        let all: Vec<(String, Counts)> = rows.iter().map(read).collect();
        assert_eq!(sum(all.iter().map(|(_, counts)| counts)), told(&answer["totals"]), "{query}");
        let mut found: BTreeMap<String, Counts> = BTreeMap::new();
        for (name, counts) in all {
            let known = found.entry(name).or_default();
            *known = sum([&*known, &counts]);
        }
        found
    }
}

on_both! {
    async fn issue_14_every_metric_is_right_by_every_dimension_and_under_every_filter(store: Store) {
        let scene = Scene::open(&store).await;
        let single = scene.single().await;
        let (broadcast, own) = scene.broadcast().await;
        let plain = json!({"from": "a@else.example", "to": "x@example.com", "subject": "Hi", "text": "Hello"});
        let plain = scene.stage.call("POST", "/emails", plain).await["id"].as_str().expect("an id").to_owned();
        scene.deliver().await;
        let message = "From: Ada <ada@else.example>\r\nTo: box@sender.example\r\nSubject: Hello\r\n\r\nHi\r\n";
        let reply = bring(scene.address, "ada@else.example", "box@sender.example", message).await;
        let received = reply.strip_prefix("250 2.0.0 Taken as ").unwrap_or_else(|| panic!("{reply}")).trim_end();
        scene.stage.post.app.clock.advance(SECOND);

        let (of_single, of_broadcast) = (everybody(), everybody());
        let of_plain = counts(&[("sent", 1), ("delivered", 1)]);
        let of_received = counts(&[("received", 1)]);
        let all = sum([&of_single, &of_broadcast, &of_plain, &of_received]);
        let ours = sum([&of_single, &of_broadcast, &of_received]);
        let apart = sum([&of_single, &of_plain, &of_received]);
        let everything = |name: &str| assert!(all[name] > 0, "{name} did not happen");
        COUNTS.into_iter().for_each(everything);
        let named = |pairs: &[(&str, &Counts)]| -> BTreeMap<String, Counts> {
            pairs.iter().map(|(name, counts)| ((*name).to_owned(), (*counts).clone())).collect()
        };
        let own_counts: Vec<(&str, Counts)> =
            PEOPLE.iter().map(|(who, of)| (own[&format!("{who}@many.example")].as_str(), counts(of))).collect();
        let mut mails = named(&own_counts.iter().map(|(id, counts)| (*id, counts)).collect::<Vec<_>>());
        mails.extend(named(&[(&single, &of_single), (received, &of_received)]));
        let mails_of_ours = mails.clone();
        mails.extend(named(&[(&plain, &of_plain)]));
        let (domain, reads) = (&scene.domain, &own["reads@many.example"]);
        let of_reads = counts(PEOPLE[0].1);

        for is_added_up in [false, true] {
            assert_eq!(scene.totals("").await, all, "added up: {is_added_up}");
            let domains = named(&[("sender.example", &ours), ("else.example", &of_plain)]);
            assert_eq!(scene.rows("&dimensions=domain", "domain_name").await, domains);
            let broadcasts = named(&[("", &apart), (&broadcast, &of_broadcast)]);
            assert_eq!(scene.rows("&dimensions=broadcast", "broadcast_id").await, broadcasts);
            assert_eq!(scene.rows("&dimensions=domain,broadcast", "broadcast_id").await, broadcasts);
            assert_eq!(scene.rows("&dimensions=email", "email_id").await, mails);
            assert_eq!(scene.rows("&dimensions=email,domain", "domain_name").await, domains);
            for more in ["", "&granularity=hourly", "&granularity=weekly", "&granularity=monthly", "&timezone=Asia/Kathmandu"] {
                let by = |dimensions: &str| format!("&dimensions={dimensions}{more}");
                assert_eq!(sum(scene.rows(&by("period"), "period").await.values()), all, "{more}");
                assert_eq!(scene.rows(&by("period,domain"), "domain_name").await, domains, "{more}");
                assert_eq!(scene.rows(&by("period,broadcast"), "broadcast_id").await, broadcasts, "{more}");
                assert_eq!(scene.rows(&by("period,email"), "email_id").await, mails, "{more}");
            }
            // By the day, histories and counters say the same.
            let days = scene.rows("&dimensions=period", "period").await;
            assert!(days.len() > 1, "{days:?}");
            assert_eq!(scene.rows("&dimensions=period,email", "period").await, days);

            let filtered = format!("&domain_id={domain}");
            assert_eq!(scene.totals(&filtered).await, ours);
            assert_eq!(scene.rows(&format!("{filtered}&dimensions=email"), "email_id").await, mails_of_ours);
            let filtered_by_broadcast = scene.rows(&format!("{filtered}&dimensions=broadcast"), "broadcast_id").await;
            let outside = sum([&of_single, &of_received]);
            assert_eq!(filtered_by_broadcast, named(&[("", &outside), (&broadcast, &of_broadcast)]));
            let filtered = format!("&broadcast_id={broadcast}");
            assert_eq!(scene.totals(&filtered).await, of_broadcast);
            let filtered_by_domain = scene.rows(&format!("{filtered}&dimensions=domain"), "domain_name").await;
            assert_eq!(filtered_by_domain, named(&[("sender.example", &of_broadcast)]));
            for (id, counts) in &mails {
                assert_eq!(&scene.totals(&format!("&email_id={id}")).await, counts);
            }
            let some = format!("&email_id={single},{reads},{received}");
            let of_some = named(&[(&single, &of_single), (reads, &of_reads), (received, &of_received)]);
            assert_eq!(scene.rows(&format!("{some}&dimensions=email"), "email_id").await, of_some);
            let sum_of_some = named(&[("sender.example", &sum(of_some.values()))]);
            assert_eq!(scene.rows(&format!("{some}&dimensions=domain"), "domain_name").await, sum_of_some);
            assert_eq!(sum(scene.rows(&format!("{some}&dimensions=period"), "period").await.values()), sum(of_some.values()));
            assert_eq!(scene.totals(&format!("{some}&domain_id={domain}")).await, sum(of_some.values()));
            // What the mails of a broadcast share is no mail.
            assert_eq!(scene.totals(&format!("&email_id={broadcast}")).await, counts(&[]));
            let theirs = scene.stage.post.app.second_workspace_key().await;
            let ask = scene.stage.post.app.get(format!("/emails/metrics?start_date=2026-01-01{some}&dimensions=email"));
            assert_eq!(told(&ask.key(&theirs).send().await.json()["totals"]), counts(&[]));
            upkeep::round(&scene.stage.post.app.app).await.expect("upkeep");
            assert_eq!(store.count("email_count_deltas").await, 0);
        }
    }

    async fn issue_14_a_link_of_older_mail_counts_for_no_mail_and_a_forged_one_for_nobody(store: Store) {
        let scene = Scene::open(&store).await;
        let app = &scene.stage.post.app;
        let contact = scene.stage.add("ada@example.com", json!({})).await;
        let (links, workspace_id) = (Links::of(&app.app).await.expect("links"), app.workspace().await);
        let contact_id = contact.parse().expect("an id");
        let url = links.unsubscribe_url(&Subscriber { workspace_id, contact_id, topic_id: None, mail: None });
        let path = url.strip_prefix(BASE).expect("ours");
        assert_eq!(app.post(&path[..path.len() - 1]).body(FORM, "List-Unsubscribe=One-Click").send().await.status, 404);
        assert_eq!(scene.totals("").await, counts(&[]));
        assert_eq!(app.post(path).body(FORM, "List-Unsubscribe=One-Click").send().await.status, 200);
        app.clock.advance(SECOND);
        let once = counts(&[("unsubscribed", 1)]);
        assert_eq!(scene.metrics("").await["totals"]["unsubscribed"], 1);
        let by_domain = scene.metrics("&dimensions=domain&metrics=unsubscribed").await;
        assert_eq!(by_domain["data"], json!([{"unsubscribed": once["unsubscribed"]}]), "of no domain");
        assert_eq!(scene.totals("&dimensions=email").await, counts(&[]));
    }
}
