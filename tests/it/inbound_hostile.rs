//! Strangers at the listener for what comes back: whatever they say, nothing changes, and others are served.

use std::time::Duration;

use serde_json::json;
use tokio::io::BufReader;
use tokio::net::TcpStream;

use crate::harness::on_both;
use crate::inbound::{Hall, gone};
use crate::sink::Sink;
use crate::store::Store;
use crate::submission::Talk;

on_both! {
    /// What another server might take for the end of a message must not be taken for its middle here, nor the
    /// other way round.
    async fn issue_14_a_message_in_which_another_could_hide_is_refused(store: Store) {
        let hall = Hall::open(&store).await;
        let (id, path) = hall.send("bob@example.com").await;
        let hidden = format!("MAIL FROM:<>\r\nRCPT TO:<{path}>\r\nDATA\r\n{}", gone());
        let told = hall.post.told(id).await;
        for end in ["\n.\n", "\n.\r\n", "\r.\r", "\r.\r\n", "\r\n.\n", "\r\n.\r", "\r\r\n.\r\r\n"] {
            let message = gone().replace("Sorry.\r\n", &format!("Sorry.{end}{hidden}"));
            let mut talk = hall.visit().await;
            talk.expect(&[("MAIL FROM:<>", 250), (&format!("RCPT TO:<{path}>"), 250), ("DATA", 354)]).await;
            talk.write(message + ".\r\n").await;
            let reply = talk.reply().await;
            assert!(reply.starts_with("554 5.6.0 A line"), "{end:?}: {reply}");
            talk.expect(&[("NOOP", 250), ("QUIT", 221)]).await;
        }
        assert_eq!((hall.post.told(id).await, hall.post.state(id).await), (told, 40));
    }

    async fn issue_14_a_report_of_one_workspace_changes_nothing_of_another(store: Store) {
        let hall = Hall::open(&store).await;
        let app = &hall.post.app;
        let theirs = app.second_workspace_key().await;
        crate::contacts::add(app, &theirs, json!({"email": "bob@example.com"})).await;
        let (id, path) = hall.send("bob@example.com").await;
        hall.bring("loop@isp.example", &path, &crate::inbound::complaint()).await;
        assert_eq!(hall.post.state(id).await, 80);
        assert_eq!(crate::contacts::read(app, &theirs, "bob@example.com").await["unsubscribed"], json!(false));
        app.get("/suppressions/bob@example.com").key(&theirs).send().await.refused(404, "not_found");
    }

    async fn issue_14_who_guesses_addresses_is_sent_away_and_others_are_not(store: Store) {
        let hall = Hall::with(&store, Sink::open().await, &["--limit-loopback=true"]).await;
        let (id, path) = hall.send("bob@example.com").await;
        let mut turns = 0;
        let reply = 'guessing: loop {
            let mut talk = hall.visit().await;
            for _ in 0..9 {
                talk.expect(&[("MAIL FROM:<>", 250)]).await;
                let reply = talk.say("RCPT TO:<postmaster@mail.example>").await;
                turns += 1;
                if !reply.starts_with("550 5.7.1 ") {
                    break 'guessing reply;
                }
                talk.expect(&[("RSET", 250)]).await;
            }
            assert!(turns < 500, "nobody is sent away");
        };
        assert!(reply.starts_with("421 4.7.0 "), "{reply}");
        assert!(hall.bring("", &path, &gone()).await.starts_with("250 "), "who knows a return path is welcome");
        assert_eq!(hall.post.state(id).await, 70);
    }

    async fn issue_14_connections_that_say_nothing_give_way_to_those_that_do(store: Store) {
        let hall = Hall::with(&store, Sink::open().await, &["--max-connections=40", "--smtp-timeout-factor=1"]).await;
        let (id, path) = hall.send("bob@example.com").await;
        let mut idle = Vec::new();
        for _ in 0..120 {
            idle.push(TcpStream::connect(hall.address).await.expect("a connection"));
        }
        let mut reply = String::new();
        for _ in 0..50 {
            let mut talk = Talk(BufReader::new(TcpStream::connect(hall.address).await.expect("a connection")));
            if talk.reply().await.starts_with("220 ") {
                reply = hall.bring("", &path, &gone()).await;
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!((reply.as_str(), hall.post.state(id).await), ("250 2.0.0 Read.\r\n", 70));
        drop(idle);
    }
}
