//! Dialogues with clients from elsewhere than this machine.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;

use super::Server;
use super::session::Submitter;
use crate::clock::Clock;
use crate::smtp_server::{self, Dialogue, Stream};
use crate::testing::{NOW, Store};
use crate::web::{Bounds, Connections};

/// What a server says to a client at this address that says this.
async fn said(server: &Arc<Server>, peer: &str, lines: &str) -> String {
    let connections = Connections::new(Bounds::of(&server.emails.config));
    let peer = peer.parse().expect("an address");
    let admitted = connections.admit(peer).expect("a place");
    let (mut ours, theirs) = tokio::io::duplex(64 << 10);
    let (_stop, stopping) = watch::channel(false);
    let dialogue = Dialogue::new(Stream::new(theirs, admitted.0.clone()), stopping);
    let session = tokio::spawn(smtp_server::run(Submitter::new(server.clone(), dialogue, peer), false));
    ours.write_all(lines.as_bytes()).await.expect("written");
    let mut said = String::new();
    ours.read_to_string(&mut said).await.expect("read");
    drop(ours);
    session.await.expect("no panic");
    said
}

#[tokio::test]
async fn issue_12_who_comes_from_elsewhere_encrypts_before_logging_in() {
    for store in Store::each().await {
        let app = store.open(&[], Clock::fixed(NOW)).await;
        let server = Arc::new(Server::new(app.emails().clone()).expect("a server"));
        let lines = "EHLO x\r\nAUTH PLAIN AHJlc2VuZAByZV94\r\nAUTH LOGIN\r\nMAIL FROM:<a@b.example>\r\nQUIT\r\n";
        for (peer, is_here) in
            [("192.0.2.1:9", false), ("[2001:db8::1]:9", false), ("127.0.0.1:9", true), ("[::1]:9", true)]
        {
            let said = said(&server, peer, lines).await;
            assert_eq!(said.contains("250-AUTH PLAIN LOGIN\r\n"), is_here, "{peer}: {said}");
            assert_eq!(
                said.matches("530 5.7.0 Must issue a STARTTLS").count(),
                if is_here { 0 } else { 2 },
                "{peer}: {said}"
            );
            assert_eq!(said.contains("535 5.7.8"), is_here, "{peer}: {said}");
        }
        drop((server, app));
        store.discard().await;
    }
}
