//! SMTP submission in hostile hands: what is refused, what has an end, and how it stops.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::harness::{config, on_both};
use crate::store::Store;
use crate::submission::{Door, MESSAGE, Talk, plain, queued};

/// Writes a certificate for `localhost` and its key into a folder, and gives what believes it.
fn certify(folder: &Path) -> (Vec<String>, TlsConnector) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().expect("a key")).expect("an authority");
    let key = KeyPair::generate().expect("a key");
    let leaf = CertificateParams::new(vec!["localhost".to_owned()]).expect("a host");
    let leaf = leaf.signed_by(&key, &authority).expect("a certificate");
    let pem =
        |kind: &str, der: &[u8]| format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", STANDARD.encode(der));
    let (certificate, private) = (folder.join("cert.pem"), folder.join("key.pem"));
    fs::write(&certificate, pem("CERTIFICATE", leaf.der())).expect("written");
    fs::write(&private, pem("PRIVATE KEY", &key.serialize_der())).expect("written");
    let settings =
        vec![format!("--submission-cert={}", certificate.display()), format!("--submission-key={}", private.display())];
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).expect("a root");
    let client = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    (settings, TlsConnector::from(Arc::new(client)))
}

async fn encrypted(connector: &TlsConnector, talk: Talk<TcpStream>) -> std::io::Result<Talk<TlsStream<TcpStream>>> {
    let name = ServerName::try_from("localhost").expect("a name");
    Ok(Talk(BufReader::new(connector.connect(name, talk.0.into_inner()).await?)))
}

on_both! {
    async fn issue_12_a_message_with_bare_line_ends_is_refused_whole(store: Store) {
        let door = Door::open(&store, &[]).await;
        let mut talk = door.log_in(&door.app.full_key().await).await;
        let smuggled = "MAIL FROM:<a@b.example>\r\nRCPT TO:<victim@example.com>\r\nDATA\r\nFrom: a@b.example\r\n\r\nevil\r\n";
        for end in ["\n.\r\n", "\r.\r\n", "\n.\n", "\r\n.\n", "\r\n.\r", "\r.\r", "\n\n.\r\n", "\0\r\n"] {
            let reply = talk.send(&["ada@example.com"], &format!("{MESSAGE}first{end}{smuggled}")).await;
            assert!(reply.starts_with("554 5.6.0 The message must"), "{end:?}: {reply}");
            talk.expect(&[("NOOP", 250)]).await;
        }
        assert_eq!(door.app.count("emails").await, 0);
        // One with nothing but whole line ends around its dots is one message.
        queued(&talk.send(&["ada@example.com"], &format!("{MESSAGE}..\r\n{smuggled}")).await);
        assert_eq!(door.app.count("email_recipients").await, 1);
    }

    async fn issue_12_a_command_with_bare_line_ends_ends_the_dialogue(store: Store) {
        let door = Door::open(&store, &[]).await;
        for line in ["EHLO x\n", "EHLO\rx\r\n", "\n", "x".repeat(13_000).as_str()] {
            let mut talk = door.visit().await;
            talk.write(line).await;
            talk.write("NOOP\r\n").await;
            let said = talk.rest().await;
            assert!(said.starts_with("500 5.5.2") && said.lines().count() == 1, "{line:.20?}: {said}");
        }
    }

    async fn issue_12_commands_out_of_order_and_bad_messages_are_told_what_to_do(store: Store) {
        let door = Door::open(&store, &[]).await;
        let key = door.app.full_key().await;
        let mut talk = door.visit().await;
        let ehlo = talk.say("EHLO x").await;
        for offered in ["SIZE 41943040", "8BITMIME", "SMTPUTF8", "PIPELINING", "CHUNKING", "ENHANCEDSTATUSCODES", "XIDEMPOTENCY", "AUTH PLAIN LOGIN", "HELP"] {
            assert!(ehlo.contains(&format!("{offered}\r\n")), "{offered}: {ehlo}");
        }
        assert!(!ehlo.contains("STARTTLS"), "{ehlo}");
        talk.expect(&[
            ("RCPT TO:<a@b.example>", 530), ("DATA", 530), ("STARTTLS", 503), ("VRFY a", 252), ("HELP", 214),
            ("AUTH CRAM-MD5", 504), ("AUTH PLAIN", 334), ("*", 501), ("RSET", 250),
        ]).await;
        let mut talk = door.log_in(&key).await;
        talk.expect(&[
            ("DATA", 503), ("MAIL FROM:<a@b.example>", 250), ("MAIL FROM:<a@b.example>", 503), ("DATA", 503),
            ("RCPT TO:<nobody>", 553), ("RCPT TO:<\u{fc}@b.example>", 553), ("RSET", 250), ("HELO x", 250),
        ]).await;
        let wide = format!("{MESSAGE}\r\n").replace("Subject: Hello", &format!("X-Long: {}", "x".repeat(1_000)));
        for (message, word) in [
            ("no head at all\r\n", "header fields"),
            ("\r\nHi\r\n", "header"),
            ("To: ada@example.com\r\n\r\nHi\r\n", "`From`"),
            ("From: a@acme.example, b@acme.example\r\n\r\nHi\r\n", "one address"),
            ("From: a@acme.example\r\nFrom: b@acme.example\r\n\r\nHi\r\n", "once"),
            (wide.as_str(), "998 bytes"),
            (format!("Idempotency-Key: {}\r\n{MESSAGE}", "k".repeat(257)).as_str(), "Idempotency-Key"),
        ] {
            let reply = door.log_in(&key).await.send(&["ada@example.com"], message).await;
            assert!(reply.starts_with("554 5.6.0") && reply.contains(word), "{word}: {reply}");
        }
        assert_eq!(door.app.count("emails").await, 0);
    }

    async fn issue_12_recipients_errors_and_commands_have_an_end(store: Store) {
        let door = Door::open(&store, &[]).await;
        let key = door.app.full_key().await;
        let mut talk = door.log_in(&key).await;
        talk.expect(&[("MAIL FROM:<a@b.example>", 250)]).await;
        for number in 0..50 {
            talk.expect(&[(&format!("RCPT TO:<a{number}@example.com>"), 250)]).await;
        }
        talk.expect(&[("RCPT TO:<A7@example.com>", 250), ("RCPT TO:<a51@example.com>", 452), ("DATA", 354)]).await;
        talk.write(format!("{MESSAGE}.\r\n")).await;
        queued(&talk.reply().await);
        assert_eq!(door.app.count("email_recipients").await, 50);

        talk.write("NONSENSE\r\n".repeat(11)).await;
        let said = talk.rest().await;
        assert_eq!((said.matches("500 5.5.1").count(), said.lines().last()), (11, Some("421 4.7.0 Too many errors.")));
        let mut talk = door.visit().await;
        talk.write("NOOP\r\n".repeat(501)).await;
        assert!(talk.rest().await.ends_with("421 4.7.0 Too many commands without a message.\r\n"));
        let mut talk = door.visit().await;
        for _ in 0..3 {
            talk.expect(&[(&format!("AUTH PLAIN {}", plain("resend", "re_wrong")), 535)]).await;
        }
        assert_eq!(talk.rest().await, "421 4.7.0 Too many errors.\r\n");
    }

    async fn issue_12_connections_and_failed_log_ins_of_an_address_have_an_end(store: Store) {
        let door = Door::open(&store, &["--limit-loopback", "--max-connections-per-address=2"]).await;
        let (first, second) = (door.visit().await, door.visit().await);
        let third = Talk(BufReader::new(TcpStream::connect(door.address).await.expect("a connection")));
        assert!(third.rest().await.starts_with("421 4.3.2 Too many connections"));
        drop((first, second));
        let key = door.app.full_key().await;
        let attempt = |key: &str| format!("AUTH PLAIN {}", plain("resend", key));
        let mut codes = Vec::new();
        while codes.len() < 51 {
            let mut talk = Talk(BufReader::new(TcpStream::connect(door.address).await.expect("a connection")));
            // The place of the one before may not be free yet.
            while talk.reply().await.starts_with("220") && codes.len() < 51 {
                for _ in 0..3 {
                    codes.push(talk.say(&attempt("re_wrong")).await[..3].to_owned());
                }
            }
        }
        assert_eq!(codes.iter().filter(|code| *code == "535").count(), 50);
        let mut talk = loop {
            let mut talk = Talk(BufReader::new(TcpStream::connect(door.address).await.expect("a connection")));
            if talk.reply().await.starts_with("220") {
                break talk;
            }
        };
        talk.expect(&[(&attempt(&key), 454)]).await;
    }

    async fn issue_12_who_is_silent_or_slow_is_left(store: Store) {
        let door = Door::open(&store, &["--smtp-timeout-factor=0.05"]).await;
        let key = door.app.full_key().await;
        assert_eq!(door.visit().await.rest().await, "421 4.4.2 You were silent for too long.\r\n");
        let mut slow = door.log_in(&key).await;
        slow.expect(&[("MAIL FROM:<>", 250), ("RCPT TO:<ada@example.com>", 250), ("DATA", 354)]).await;
        slow.write(MESSAGE).await;
        assert!(slow.rest().await.starts_with("421 4.4.2"));
        assert_eq!(door.app.count("emails").await, 0);
    }

    async fn issue_12_encryption_begins_anew_and_drops_what_was_said_in_clear(store: Store) {
        let folder = tempfile::tempdir().expect("a folder");
        let (settings, connector) = certify(folder.path());
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let door = Door::open(&store, &settings).await;
        let key = door.app.full_key().await;
        let mut talk = door.log_in(&key).await;
        talk.write("STARTTLS\r\nMAIL FROM:<attacker@b.example>\r\n").await;
        assert!(talk.reply().await.starts_with("220 2.0.0"));
        let mut talk = encrypted(&connector, talk).await.expect("a handshake");
        talk.expect(&[("MAIL FROM:<a@b.example>", 530), ("EHLO x", 250), ("STARTTLS", 503)]).await;
        talk.expect(&[(&format!("AUTH PLAIN {}", plain("resend", &key)), 235)]).await;
        queued(&talk.send(&["ada@example.com"], MESSAGE).await);

        // A certificate that was renewed is shown from then on; one that is broken changes nothing.
        let other = tempfile::tempdir().expect("a folder");
        let (_, new_connector) = certify(other.path());
        let visit = async |connector: &TlsConnector| {
            let mut talk = door.visit().await;
            talk.expect(&[("EHLO x", 250), ("STARTTLS", 220)]).await;
            encrypted(connector, talk).await.is_ok()
        };
        assert!(!visit(&new_connector).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
        for file in ["key.pem", "cert.pem"] {
            fs::copy(other.path().join(file), folder.path().join(file)).expect("copied");
        }
        assert!(visit(&new_connector).await && !visit(&connector).await);
        fs::write(folder.path().join("cert.pem"), "nonsense").expect("written");
        assert!(visit(&new_connector).await);
    }

    async fn issue_12_a_listener_can_be_encrypted_from_the_first_byte(store: Store) {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut settings, connector) = certify(folder.path());
        settings.push("--submission-tls-listen=127.0.0.1:0".into());
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let door = Door::open(&store, &settings).await;
        let tcp = TcpStream::connect(door.address).await.expect("a connection");
        let mut talk = encrypted(&connector, Talk(BufReader::new(tcp))).await.expect("a handshake");
        assert!(talk.reply().await.starts_with("220 "));
        talk.expect(&[("EHLO x", 250), (&format!("AUTH PLAIN {}", plain("posthorn", &door.app.full_key().await)), 235)]).await;
        let id = queued(&talk.send(&["ada@example.com"], MESSAGE).await);
        assert_eq!(door.app.count("emails").await, 1, "{id}");
        // Who speaks in clear there gets no answer.
        let mut clear = Talk(BufReader::new(TcpStream::connect(door.address).await.expect("a connection")));
        clear.write("EHLO x\r\n").await;
        assert!(!clear.rest().await.contains("250"));
    }

    async fn issue_12_a_stop_lets_messages_that_are_under_way_be_finished(store: Store) {
        let door = Door::open(&store, &[]).await;
        let key = door.app.full_key().await;
        let idle = door.log_in(&key).await;
        let mut busy = door.log_in(&key).await;
        busy.expect(&[("MAIL FROM:<>", 250), ("RCPT TO:<ada@example.com>", 250), ("DATA", 354)]).await;
        door.stop.send_replace(true);
        assert!(idle.rest().await.starts_with("421 4.3.2"));
        busy.write(format!("{MESSAGE}.\r\n")).await;
        queued(&busy.reply().await);
        assert!(busy.rest().await.starts_with("421 4.3.2"));
        door.ended.await.expect("no panic").expect("an end");
        assert!(TcpStream::connect(door.address).await.is_err());
        assert_eq!(door.app.count("emails").await, 1);
    }

    async fn issue_12_keys_are_never_asked_for_in_clear_by_the_settings(store: Store) {
        let folder = tempfile::tempdir().expect("a folder");
        let (files, _) = certify(folder.path());
        let check = |settings: &[&str]| config(&store, settings).check().map_err(|error| format!("{error:#}"));
        let open = "--submission-listen=0.0.0.0:2525";
        for (settings, word) in [
            (vec![open], "in clear"),
            (vec!["--submission-tls-listen=127.0.0.1:2465"], "needs --submission-cert"),
            (vec![open, files[0].as_str()], "belong together"),
            (vec![open, files[0].as_str(), "--submission-key=/nowhere/key.pem"], "/nowhere/key.pem cannot be read"),
            (vec![open, files[0].as_str(), files[0].replace("-cert=", "-key=").as_str()], "private key"),
        ] {
            let refusal = check(&settings).expect_err(word);
            assert!(refusal.contains(word), "{settings:?}: {refusal}");
        }
        check(&[open, &files[0], &files[1]]).expect("a certificate");
        check(&["--submission-listen=[::1]:2525"]).expect("loopback");
    }
}
