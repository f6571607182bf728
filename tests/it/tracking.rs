//! Tracked mail: links that lead where their author wrote, and what becomes of opens and clicks.

use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::join_all;
use posthorn::clock::{DAY, MINUTE, SECOND};
use posthorn::delivery::Feedback;
use posthorn::id::EmailId;
use posthorn::{contacts, reports, tracking};
use serde_json::{Value, json};

use crate::broadcasts;
use crate::delivery::Post;
use crate::harness::{Answer, BASE, TestApp, on_both};
use crate::sending::{self, statuses};
use crate::sink::{Does, Sink, Taken};
use crate::store::Store;

pub const READER: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0";
pub const SCANNER: &str = "python-requests/2.31";

/// A process whose domain tracks opens and clicks.
struct Scene {
    post: Post,
    sink: Sink,
    key: String,
}

impl Scene {
    async fn open(store: &Store) -> Scene {
        Scene::with(store, Sink::open().await, json!({"open_tracking": true, "click_tracking": true})).await
    }

    async fn with(store: &Store, sink: Sink, tracked: Value) -> Scene {
        let post = Post::relaying(store, &sink).await;
        let key = post.app.full_key().await;
        let mut domain = json!({"name": "sender.example"});
        domain.as_object_mut().expect("an object").extend(tracked.as_object().expect("fields").clone());
        let made = post.app.post("/domains").key(&key).json(domain).send().await;
        assert_eq!(made.status, 201, "{}", made.text());
        // As if its records had been seen.
        store.run("UPDATE dkim_keys SET seen_at = 0").await;
        Scene { post, sink, key }
    }

    fn app(&self) -> &TestApp {
        &self.post.app
    }

    async fn hand_in(&self, to: &[&str], html: &str) -> EmailId {
        let mail = json!({"from": "Ann <ann@sender.example>", "to": to, "subject": "Hello", "html": html});
        let made = self.app().post("/emails").key(&self.key).json(mail).send().await;
        assert_eq!(made.status, 200, "{}", made.text());
        made.json()["id"].as_str().expect("an id").parse().expect("an id")
    }

    /// Sends a mail to one person, who may read it by now; tells its HTML as it arrived.
    async fn send(&self, to: &str, html: &str) -> (EmailId, String) {
        let id = self.hand_in(&[to], html).await;
        while self.post.round().await > 0 {}
        self.app().clock.advance(MINUTE);
        (id, html_of(self.sink.kept().last().expect("it left")))
    }

    async fn visit(&self, url: &str, user_agent: &str) -> Answer {
        let path = url.strip_prefix(BASE).unwrap_or_else(|| panic!("{url} is not ours"));
        self.app().get(path).header("user-agent", user_agent).from("192.0.2.7").send().await
    }

    /// Writes down what has come in.
    async fn fold(&self) {
        self.app().clock.advance(3 * SECOND);
        while tracking::round(self.app().app.occurrences()).await.expect("a round") > 0 {}
    }

    async fn last_event(&self, id: EmailId) -> String {
        let answer = self.app().get(format!("/emails/{id}")).key(&self.key).send().await.json();
        answer["last_event"].as_str().expect("a word").to_owned()
    }

    /// All hits and those of machines, of opens and then of links, as they are counted.
    async fn counts(&self) -> Vec<(i64, i64)> {
        let sql = "SELECT hits, machine_hits FROM tracking_links ORDER BY CASE WHEN url = '' THEN 0 ELSE 1 END, url";
        let number = |text: &Option<String>| text.as_ref().and_then(|text| text.parse().ok()).expect("a number");
        self.app().store.rows(sql).await.iter().map(|row| (number(&row[0]), number(&row[1]))).collect()
    }
}

/// The HTML of a message.
pub fn html_of(taken: &Taken) -> String {
    let (_, part) = taken.text.split_once("Content-Type: text/html").expect("HTML");
    let (head, body) = part.split_once("\r\n\r\n").expect("a body");
    let body = body.split("\r\n--").next().expect("an end");
    let bytes = if head.contains("base64") {
        STANDARD.decode(body.replace("\r\n", "")).expect("base64")
    } else if head.contains("quoted-printable") {
        unquoted(&body.replace("=\r\n", ""))
    } else {
        body.as_bytes().to_vec()
    };
    String::from_utf8(bytes).expect("text")
}

fn unquoted(text: &str) -> Vec<u8> {
    let mut parts = text.split('=');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).expect("two digits"));
        bytes.extend(part[2..].bytes());
    }
    bytes
}

fn values(html: &str, attribute: &str) -> Vec<String> {
    let quoted = html.split(attribute).skip(1).filter_map(|rest| rest.split('"').nth(1));
    quoted.map(str::to_owned).collect()
}

pub fn links(html: &str) -> Vec<String> {
    values(html, "href=")
}

pub fn image(html: &str) -> String {
    values(html, "src=").into_iter().find(|url| url.contains("/t/image/")).expect("a picture")
}

const TWO: &str =
    "<body><a href=\"https://a.example/?x=1&amp;y=2\">one</a> <a href=\"https://b.example/\">two</a></body>";

on_both! {
    async fn a_link_leads_exactly_where_its_author_wrote(store: Store) {
        let scene = Scene::open(&store).await;
        let html = "<html><body title='&amp;'><a href=\"https://a.example/?x=1&amp;y=2#f\">a</a>\
            <a class=x href='https://ä.example/ü b?q=%20&amp;quot;'>b</a> <a href=\"mailto:a@b.example\">c</a>\
            <!-- <a href=\"https://no.example\"> --><style>a[href=\"https://no.example\"]{}</style></body></html>";
        let (_, sent) = scene.send("bob@example.com", html).await;
        let found: Vec<String> = sent.split("href=").skip(1).filter_map(|rest| rest.split(['"', '\'']).nth(1)).map(str::to_owned).collect();
        for (url, target) in found.iter().zip(["https://a.example/?x=1&y=2#f", "https://%C3%A4.example/%C3%BC%20b?q=%20&quot;"]) {
            let answer = scene.visit(url, READER).await;
            assert_eq!((answer.status, answer.location()), (302, target));
            assert_eq!((answer.header("cache-control"), answer.header("set-cookie")), (Some("no-store"), None));
            assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        }
        assert_eq!(found[2..], ["mailto:a@b.example", "https://no.example", "https://no.example"]);
        let back = sent.replace(&found[0], "https://a.example/?x=1&amp;y=2#f").replace(&found[1], "https://ä.example/ü b?q=%20&amp;quot;");
        let picture = format!("<img src=\"{}\" width=\"1\" height=\"1\" alt=\"\" style=\"border:0\">", image(&sent));
        assert_eq!(back.replace(&picture, ""), html);
        let text = scene.sink.kept().last().expect("a mail").text.clone();
        assert!(!text.split("Content-Type: text/html").next().expect("the text").contains("/t/link/"), "{text}");
    }

    async fn a_forged_or_altered_link_leads_nowhere(store: Store) {
        let scene = Scene::open(&store).await;
        let (_, sent) = scene.send("bob@example.com", TWO).await;
        let (link, image) = (links(&sent)[0].clone(), image(&sent));
        let token = link.rsplit('/').next().expect("a token");
        let mut altered = link.clone();
        altered.replace_range(altered.len() - 30..altered.len() - 29, if altered.as_bytes()[altered.len() - 30] == b'A' { "B" } else { "A" });
        for url in [
            altered,
            format!("{BASE}/t/image/{token}"),
            image.replace("/t/image/", "/t/link/"),
            format!("{BASE}/t/link/aHR0cHM6Ly9ldmlsLmV4YW1wbGUv"),
            format!("{BASE}/t/link/https:%2F%2Fevil.example"),
            format!("{link}A"),
        ] {
            let answer = scene.visit(&url, READER).await;
            assert_eq!((answer.status, answer.header("location")), (404, None), "{url}");
            assert!(answer.text().contains("This link does not work"));
        }
        assert_eq!(scene.app().count("tracking_hits").await, 0);
    }

    async fn what_is_not_asked_for_is_not_tracked(store: Store) {
        let scene = Scene::with(&store, Sink::open().await, json!({})).await;
        assert_eq!(scene.send("bob@example.com", TWO).await.1, TWO);
        let id = scene.app().get("/domains").key(&scene.key).send().await.json()["data"][0]["id"].as_str().expect("an id").to_owned();
        for (change, link, picture) in [(json!({"open_tracking": true}), 0, 1), (json!({"open_tracking": false, "click_tracking": true}), 2, 0)] {
            let changed = scene.app().patch(format!("/domains/{id}")).key(&scene.key).json(change).send().await;
            assert_eq!(changed.status, 200, "{}", changed.text());
            let (_, sent) = scene.send("bob@example.com", TWO).await;
            assert_eq!((sent.matches("/t/link/").count(), sent.matches("/t/image/").count()), (link, picture));
        }
    }

    async fn links_lead_to_the_domains_own_host_once_its_record_was_seen(store: Store) {
        let tracked = json!({"click_tracking": true, "tracking_subdomain": "links"});
        let scene = Scene::with(&store, Sink::open().await, tracked).await;
        assert!(links(&scene.send("a@example.com", TWO).await.1)[0].starts_with(BASE));
        let seen = json!({"tracking links": {"status": "verified", "found": null, "advice": null, "missed": null}});
        store.run(&format!("UPDATE domains SET findings = '{seen}', revision = revision + 1")).await;
        store.run("UPDATE revisions SET number = number + 1 WHERE topic = 'domains'").await;
        let link = links(&scene.send("b@example.com", TWO).await.1)[0].clone();
        let host = BASE.split("://").nth(1).expect("a host").split([':', '/']).next().expect("a host");
        assert!(link.contains("://links.sender.example"), "{link}");
        assert_eq!(scene.visit(&link.replace("links.sender.example", host), READER).await.status, 302);
    }

    async fn a_mail_is_the_same_on_every_attempt_and_each_recipient_has_its_own_links(store: Store) {
        let ends = AtomicUsize::new(0);
        let sink = Sink::scripted(move |command| match command {
            "." if ends.fetch_add(1, Ordering::SeqCst) < 2 => Does::HangsUp,
            _ => Does::Usual,
        }).await;
        let scene = Scene::with(&store, sink, json!({"open_tracking": true, "click_tracking": true})).await;
        let id = scene.hand_in(&["a@example.com", "b@example.com"], TWO).await;
        // What holds for the domain later does not change a mail that was accepted.
        store.run("UPDATE domains SET open_tracking = FALSE, revision = revision + 1").await;
        store.run("UPDATE revisions SET number = number + 1 WHERE topic = 'domains'").await;
        for _ in 0..20 {
            while scene.post.round().await > 0 {}
            scene.app().clock.advance(10 * MINUTE);
        }
        let to = |address: &str| scene.sink.kept().into_iter().filter(|taken| taken.to == address).map(|taken| taken.text).collect::<Vec<_>>();
        let (a, b) = (to("a@example.com"), to("b@example.com"));
        assert_eq!((a.len(), b.len()), (2, 2), "{:?}", scene.post.recipients(id).await);
        assert!(a[0] == a[1] && b[0] == b[1] && a[0] != b[0]);
    }

    async fn a_long_body_is_rewritten_as_it_is_read(store: Store) {
        let scene = Scene::open(&store).await;
        let filler = "<p>ä lot of text</p>".repeat(20_000);
        let html = format!("<body><a href=\"https://a.example/\">a</a>{filler}<a href=\"https://b.example/\">b</a></body>");
        let (_, sent) = scene.send("bob@example.com", &html).await;
        let links = links(&sent);
        for (url, target) in links.iter().zip(["https://a.example/", "https://b.example/"]) {
            assert_eq!(scene.visit(url, READER).await.location(), target);
        }
        let plain = sent.replace(&links[0], "https://a.example/").replace(&links[1], "https://b.example/");
        let picture = format!("<img src=\"{}\" width=\"1\" height=\"1\" alt=\"\" style=\"border:0\">", image(&sent));
        let plain = plain.replace(&picture, "");
        // Behind it stands the dot that ends the message.
        let rest = plain.strip_prefix(html.as_str()).expect("what was written");
        assert!(rest.trim_matches(['\r', '\n', '.']).is_empty(), "{rest}");
    }

    async fn an_open_and_a_click_are_told_counted_and_kept(store: Store) {
        let scene = Scene::open(&store).await;
        let (id, sent) = scene.send("bob@example.com", TWO).await;
        let answer = scene.visit(&image(&sent), READER).await;
        assert_eq!((answer.status, answer.header("content-type"), answer.header("cache-control")), (200, Some("image/gif"), Some("no-store")));
        assert_eq!((answer.header("set-cookie"), &answer.text().as_bytes()[..6]), (None, &b"GIF89a"[..]));
        scene.fold().await;
        assert_eq!((scene.last_event(id).await, scene.post.recipients(id).await[0].0), ("opened".to_owned(), 50));
        scene.visit(&links(&sent)[0], READER).await;
        scene.fold().await;
        assert_eq!((scene.last_event(id).await, scene.post.recipients(id).await[0].0), ("clicked".to_owned(), 60));
        scene.visit(&image(&sent), READER).await;
        scene.fold().await;
        assert_eq!(scene.last_event(id).await, "clicked");
        let told = scene.post.told(id).await;
        let told: Vec<(&str, &Value)> = told.iter().map(|(kind, detail)| (kind.as_str(), detail)).skip(2).collect();
        let opened = json!({"to": "bob@example.com", "machine": false});
        let clicked = json!({"to": "bob@example.com", "machine": false, "link": "https://a.example/?x=1&y=2"});
        assert_eq!(told, [("opened", &opened), ("clicked", &clicked), ("opened", &opened)]);
        assert_eq!(scene.counts().await, [(2, 0), (1, 0)]);
        assert_eq!(scene.app().count("tracking_hits").await, 0);
    }

    async fn machines_are_counted_apart_and_nothing_follows_from_them(store: Store) {
        let scene = Scene::open(&store).await;
        let stage = sending::Stage::new(TestApp::open(&store, &[]).await).await;
        stage.automation(&[("trigger", json!({"event_name": "svc:email.clicked"})), ("contact_update", json!({"first_name": "x"}))]).await;
        crate::contacts::add(&stage.app, &stage.key, json!({"email": "bob@example.com"})).await;
        let three = format!("{TWO}<a href=\"https://c.example/\">three</a>");
        let (id, sent) = scene.send("bob@example.com", &three).await;
        let (image, links) = (image(&sent), links(&sent));
        // By what it says, by how it asks, by what it says of its purpose.
        scene.visit(&links[0], SCANNER).await;
        scene.visit(&image, "Mozilla/5.0").await;
        let head = scene.app().request("HEAD", links[0].strip_prefix(BASE).expect("ours")).header("user-agent", READER).send().await;
        assert_eq!((head.status, head.location()), (302, "https://a.example/?x=1&y=2"));
        let early = scene.app().get(image.strip_prefix(BASE).expect("ours")).header("user-agent", READER);
        assert_eq!(early.header("sec-purpose", "prefetch").send().await.status, 200);
        scene.fold().await;
        assert_eq!(scene.counts().await, [(2, 2), (2, 2)]);
        // By what it does: all links at once.
        scene.app().clock.advance(MINUTE);
        for link in &links {
            scene.visit(link, READER).await;
        }
        scene.fold().await;
        assert_eq!(scene.counts().await, [(2, 2), (3, 3), (1, 1), (1, 1)]);
        assert_eq!((scene.last_event(id).await, scene.app().count("runs").await), ("delivered".to_owned(), 0));
        // And by when it comes: as soon as the mail was taken.
        let id = scene.hand_in(&["bob@example.com"], TWO).await;
        while scene.post.round().await > 0 {}
        let sent = html_of(scene.sink.kept().last().expect("it left"));
        scene.app().clock.advance(SECOND);
        scene.visit(&links_of(&sent, 0), READER).await;
        scene.fold().await;
        assert_eq!(scene.last_event(id).await, "delivered");
        scene.app().clock.advance(MINUTE);
        scene.visit(&links_of(&sent, 0), READER).await;
        scene.fold().await;
        assert_eq!((scene.last_event(id).await, scene.app().count("runs").await), ("clicked".to_owned(), 1));
    }

    async fn opens_and_clicks_start_automations_and_end_waits(store: Store) {
        let scene = Scene::open(&store).await;
        let stage = sending::Stage::new(TestApp::open(&store, &[]).await).await;
        let waiting = stage.automation(&[
            sending::Stage::trigger(),
            ("wait_for_event", json!({"event_name": "svc:email.clicked", "timeout": "7 days"})),
            ("contact_update", json!({"first_name": "Clicked"})),
        ]).await;
        let opened = stage.automation(&[("trigger", json!({"event_name": "svc:email.opened"})), ("contact_update", json!({"last_name": "Opened"}))]).await;
        crate::contacts::add(&stage.app, &stage.key, json!({"email": "bob@example.com"})).await;
        stage.send("user.created", "bob@example.com", json!({"plan": "pro", "seats": 1})).await;
        stage.work().await;
        let (id, sent) = scene.send("bob@example.com", TWO).await;
        scene.visit(&image(&sent), READER).await;
        scene.fold().await;
        // Clocks of processes are alike; those of tests are set.
        stage.app.clock.advance(10 * MINUTE);
        stage.work().await;
        assert_eq!(stage.run(&opened).await["status"], "completed");
        scene.visit(&links(&sent)[1], READER).await;
        scene.fold().await;
        stage.app.clock.advance(10 * MINUTE);
        stage.work().await;
        let run = stage.run(&waiting).await;
        assert_eq!(run["status"], "completed", "{:?}", statuses(&run));
        let bob = crate::contacts::read(&stage.app, &stage.key, "bob@example.com").await;
        assert_eq!((&bob["first_name"], &bob["last_name"]), (&json!("Clicked"), &json!("Opened")));
        let payload = store.value("SELECT payload FROM occurrences WHERE name = 'svc:email.clicked'").await.expect("it happened");
        let payload: Value = serde_json::from_str(&payload).expect("JSON");
        assert_eq!((&payload["email_id"], &payload["link"], &payload["machine"]), (&json!(id), &json!("https://b.example/"), &json!(false)));
        assert!(!payload.to_string().contains("192.0.2.7"), "{payload}");
    }

    async fn a_flood_of_hits_leaves_little_in_the_store(store: Store) {
        let scene = Scene::open(&store).await;
        let (id, sent) = scene.send("bob@example.com", TWO).await;
        let image = image(&sent);
        for _ in 0..300 {
            assert_eq!(scene.visit(&image, READER).await.status, 200);
        }
        let waiting = scene.app().count("tracking_hits").await;
        assert!((60..300).contains(&waiting), "{waiting}");
        scene.fold().await;
        assert_eq!(scene.counts().await, [(waiting, 0)]);
        let kinds = scene.post.types(id).await;
        assert_eq!(kinds.iter().filter(|kind| *kind == "opened").count(), 10);
        assert_eq!(scene.app().count("tracking_recipients").await, 1);
    }

    async fn who_opened_is_forgotten_after_a_while(store: Store) {
        let scene = Scene::open(&store).await;
        let (id, sent) = scene.send("bob@example.com", TWO).await;
        scene.visit(&image(&sent), READER).await;
        scene.fold().await;
        let kept = "SELECT COUNT(*) FROM email_events WHERE visitor LIKE '%192.0.2.7%' AND visitor LIKE '%Firefox%'";
        tracking::sweep(&scene.app().app).await.expect("a sweep");
        assert_eq!(store.value(kept).await.as_deref(), Some("1"));
        scene.app().clock.advance(31 * DAY);
        tracking::sweep(&scene.app().app).await.expect("a sweep");
        assert_eq!(store.value("SELECT COUNT(*) FROM email_events WHERE visitor IS NOT NULL").await.as_deref(), Some("0"));
        assert_eq!(scene.last_event(id).await, "opened");
    }

    async fn who_reads_a_mail_of_which_nobody_knew_has_got_it(store: Store) {
        let sink = Sink::scripted(|command| if command == "." { Does::HangsUp } else { Does::Usual }).await;
        let scene = Scene::with(&store, sink, json!({"open_tracking": true})).await;
        let (id, sent) = scene.send("bob@example.com", TWO).await;
        let [(28, 1, Some(_), _)] = &scene.post.recipients(id).await[..] else { panic!("it is uncertain") };
        scene.visit(&image(&sent), READER).await;
        scene.fold().await;
        let [(50, 1, None, _)] = &scene.post.recipients(id).await[..] else { panic!("it has arrived") };
        scene.app().clock.advance(DAY);
        let before = scene.sink.kept().len();
        while scene.post.round().await > 0 {}
        assert_eq!(scene.sink.kept().len(), before);
    }

    async fn issue_14_of_what_happens_at_the_same_moment_the_highest_stays(store: Store) {
        let scene = Scene::open(&store).await;
        let feedback = Feedback::new(scene.app().app.occurrences().clone());
        let (mut mails, mut images) = (Vec::new(), Vec::new());
        for number in 0..100 {
            let (id, sent) = scene.send(&format!("{number}@example.com"), TWO).await;
            let from = scene.sink.kept().last().expect("it left").from.clone();
            let token = feedback.open(from.split('@').next().expect("a token")).await.expect("a store").expect("ours");
            mails.push((id, token));
            images.push(image(&sent));
        }
        // As if a relay had taken them and said no more.
        for table in ["emails", "email_recipients"] {
            store.run(&format!("UPDATE {table} SET state = 20")).await;
        }
        for image in &images {
            assert_eq!(scene.visit(image, READER).await.status, 200);
        }
        scene.app().clock.advance(3 * SECOND);
        let (delivered, complained) = (read(DELIVERED), read(COMPLAINT));
        let reported = mails.iter().enumerate().map(|(at, (_, token))| {
            feedback.take(*token, if at % 2 == 0 { &delivered } else { &complained })
        });
        let (reported, folded) = tokio::join!(join_all(reported), tracking::round(scene.app().app.occurrences()));
        assert!(reported.iter().all(Result::is_ok), "{reported:?}");
        assert_eq!(folded.expect("a round"), 100);
        for (at, (id, _)) in mails.iter().enumerate() {
            let highest = if at % 2 == 0 { 50 } else { 80 };
            assert_eq!((scene.post.state(*id).await, scene.post.recipients(*id).await[0].0), (highest, highest), "{at}");
        }
    }

    async fn a_broadcast_shows_what_was_opened_and_clicked_and_segments_ask_for_it(store: Store) {
        let sink = Sink::open().await;
        let stage = broadcasts::Stage::open(&store, &sink, 3).await;
        let domain = json!({"name": "sender.example", "open_tracking": true, "click_tracking": true});
        stage.call("POST", "/domains", domain).await;
        let html = format!("{TWO}<a href=\"{{{{{{UNSUBSCRIBE_URL}}}}}}\">no more</a>");
        let id = stage.send(json!({"html": html})).await;
        stage.run().await;
        let scene = Scene { post: Post { app: TestApp::open(&store, &[]).await, engine: stage.post.engine.clone() }, sink, key: stage.key.clone() };
        let clock = &stage.post.app.clock;
        clock.advance(MINUTE);
        scene.app().clock.advance(10 * MINUTE);
        let sent: Vec<(String, String)> = scene.sink.kept().iter().map(|taken| (taken.to.clone(), html_of(taken))).collect();
        let of = |who: &str| sent.iter().find(|(to, _)| to == who).expect("a mail").1.clone();
        assert!(links(&of("p0@example.com"))[2].contains("/unsubscribe/"));
        scene.visit(&image(&of("p0@example.com")), READER).await;
        scene.visit(&links(&of("p1@example.com"))[0], READER).await;
        scene.visit(&links(&of("p1@example.com"))[0], SCANNER).await;
        scene.fold().await;
        clock.advance(10 * MINUTE);
        let shown = stage.read(&id).await;
        let link = json!({"url": "https://a.example/?x=1&y=2", "clicks": 2, "machine_clicks": 1});
        let without_id = |link: &Value| json!({"url": link["url"], "clicks": link["clicks"], "machine_clicks": link["machine_clicks"]});
        let done = &shown["progress"]["engagement"];
        assert_eq!((&done["opens"], &done["clicks"], &done["machine_clicks"]), (&json!(1), &json!(2), &json!(1)));
        assert_eq!(without_id(&done["links"][0]), link);
        assert_eq!((&shown["progress"]["counts"]["opened"], &shown["progress"]["counts"]["clicked"]), (&json!(1), &json!(1)));
        let listed = stage.call("GET", &format!("/broadcasts/{id}/clicked-links"), json!({})).await;
        assert_eq!((listed["data"].as_array().map(Vec::len), without_id(&listed["data"][0])), (Some(1), link.clone()));
        let after = listed["data"][0]["id"].as_str().expect("an id");
        let rest = stage.call("GET", &format!("/broadcasts/{id}/clicked-links?after={after}"), json!({})).await;
        assert_eq!(rest["data"], json!([]));
        let clicked = stage.call("GET", &format!("/broadcasts/{id}/recipients?type=clicked"), json!({})).await;
        assert_eq!((&clicked["data"][0]["email"], &clicked["data"][0]["count"]), (&json!("p1@example.com"), &json!(1)));
        assert_eq!(without_id(&clicked["data"][0]["clicked_links"][0]), link);

        // Who is in a segment by what it did before there was one.
        let rule = |field: &str, value: i64| json!({"type": "rule", "field": field, "operator": "eq", "value": value, "within": "30 days"});
        for (field, value, who) in [
            ("emails.opened".to_owned(), 1, &["p0@example.com", "p1@example.com"][..]),
            ("emails.clicked".to_owned(), 1, &["p1@example.com"][..]),
            (format!("broadcasts.{id}.opened"), 0, &["p2@example.com"][..]),
            (format!("broadcasts.{id}.clicked"), 1, &["p1@example.com"][..]),
        ] {
            let preview = stage.call("POST", "/segments/preview", json!({"filter": rule(&field, value)})).await;
            let mut found: Vec<&str> = preview["contacts"].as_array().expect("contacts").iter().filter_map(|one| one["email"].as_str()).collect();
            found.sort_unstable();
            assert_eq!((found, &preview["exact"]), (who.to_vec(), &json!(true)), "{field}");
        }
        let made = stage.call("POST", "/segments", json!({"name": "Clicked", "filter": rule(&format!("broadcasts.{id}.clicked"), 1)})).await;
        let members = format!("/segments/{}/contacts", made["id"].as_str().expect("an id"));
        let settle = async || while contacts::judging_round(stage.post.app.app.occurrences()).await.expect("a round") {};
        settle().await;
        let names = async || {
            let list = stage.call("GET", &members, json!({})).await;
            let mut names: Vec<String> = list["data"].as_array().expect("a list").iter().filter_map(|one| one["email"].as_str().map(str::to_owned)).collect();
            names.sort();
            names
        };
        assert_eq!(names().await, ["p1@example.com"]);
        // And by what it does from now on, until that is too long ago.
        scene.visit(&links(&of("p2@example.com"))[1], READER).await;
        scene.fold().await;
        clock.advance(MINUTE);
        settle().await;
        assert_eq!(names().await, ["p1@example.com", "p2@example.com"]);
        clock.advance(31 * DAY);
        settle().await;
        assert_eq!(names().await, Vec::<String>::new());
        for (field, words) in [("emails.read", "emails.opened"), ("broadcasts.x.opened", "a UUID"), ("broadcasts.0198c5a0-0000-7000-8000-000000000001.opened", "not there")] {
            let (status, refused) = stage.try_call("POST", "/segments", json!({"name": "No", "filter": rule(field, 1)})).await;
            assert_eq!(status, 422, "{refused}");
            assert!(refused["message"].as_str().is_some_and(|message| message.contains(words)), "{refused}");
        }
    }
}

fn links_of(html: &str, at: usize) -> String {
    links(html)[at].clone()
}

fn read(text: &str) -> reports::Report {
    reports::read(text.as_bytes(), true).expect("a report")
}

const DELIVERED: &str = "From: MAILER-DAEMON@mx.example.com\r\nMIME-Version: 1.0\r\n\
    Content-Type: multipart/report; report-type=delivery-status; boundary=\"b\"\r\n\r\n\
    --b\r\nContent-Type: text/plain\r\n\r\nDone.\r\n\r\n--b\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.example.com\r\n\r\n\
    Final-Recipient: rfc822; bob@example.com\r\nAction: delivered\r\nStatus: 2.0.0\r\n\r\n--b--\r\n";

const COMPLAINT: &str = "From: <loop@isp.example>\r\nMIME-Version: 1.0\r\n\
    Content-Type: multipart/report; report-type=feedback-report; boundary=\"b\"\r\n\r\n\
    --b\r\nContent-Type: text/plain\r\n\r\nSorry.\r\n\r\n--b\r\nContent-Type: message/feedback-report\r\n\r\nFeedback-Type: abuse\r\nUser-Agent: Loop/1\r\nVersion: 1\r\n\r\n--b--\r\n";
