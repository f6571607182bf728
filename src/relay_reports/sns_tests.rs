use std::net::SocketAddr;
use std::sync::Mutex;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::http_client::Staged;
use crate::reports;
use crate::tls;

const HOST: &str = "sns.eu-west-1.amazonaws.com";
const TOPIC: &str = "arn:aws:sns:eu-west-1:123456789012:mail";
const CERTIFICATE: &str = include_str!("samples/certificate.pem");
const FIRST: &str = include_str!("samples/notification-1.json");
const SECOND: &str = include_str!("samples/notification-2.json");
const CONFIRMATION: &str = include_str!("samples/confirmation.json");
const CONFIRMATION_ELSEWHERE: &str = include_str!("samples/confirmation-elsewhere.json");

/// What stands for Amazon, and the first lines of the requests that it got.
struct Stage {
    amazon: Amazon,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Stage {
    /// Every name leads to a server that calls itself Amazon's, and shows the certificate.
    async fn open(status: &'static str) -> Stage {
        let (acceptor, roots) = certified(HOST);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = asked.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let Ok(byte) = stream.read_u8().await else { break };
                    head.push(byte);
                }
                let first = String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned();
                noted.lock().expect("requests").push(first);
                let length = CERTIFICATE.len();
                let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{CERTIFICATE}");
                let _ = stream.write_all(answer.as_bytes()).await;
                let _ = stream.flush().await;
            }
        });
        let somewhere = |_: &str, port| vec![SocketAddr::new([93, 184, 215, 14].into(), port)];
        let staged = Staged { look_up: Box::new(somewhere), connect: Box::new(move |_| address) };
        let http = HttpClient::staged(Reach::Public, tls::client_trusting(roots), staged);
        Stage { amazon: Amazon::reached_by(http, vec![TOPIC.parse().expect("a topic")]), asked }
    }

    async fn take(&self, message: &str) -> Result<Said, Error> {
        self.amazon.open(message.as_bytes(), 0).await
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("requests").clone()
    }
}

fn certified(host: &str) -> (TlsAcceptor, RootCertStore) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().expect("a key")).expect("an authority");
    let key = KeyPair::generate().expect("a key");
    let leaf = CertificateParams::new(vec![host.to_owned()]).expect("a host");
    let leaf = leaf.signed_by(&key, &authority).expect("a certificate");
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone()).expect("a root");
    let server = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .expect("a server");
    (TlsAcceptor::from(Arc::new(server)), roots)
}

#[tokio::test]
async fn what_amazon_signed_is_read_and_its_certificate_fetched_once() {
    let stage = Stage::open("200 OK").await;
    for message in [FIRST, SECOND, SECOND] {
        let Ok(Said::Message(message)) = stage.take(message).await else { panic!("it is Amazon's") };
        let found = reports::read_ses(&message).pop().expect("a report");
        assert_eq!(
            (found.marks.as_slice(), found.recipient.as_deref()),
            (&["token@send.sender.example".to_owned()][..], Some("ada@example.org"))
        );
    }
    let asked = stage.asked();
    assert!(asked.len() == 1 && asked[0].starts_with("GET /SimpleNotificationService-0123456789abcdef"), "{asked:?}");
}

#[tokio::test]
async fn what_was_changed_or_is_of_another_topic_is_refused() {
    let stage = Stage::open("200 OK").await;
    for (from, to) in [
        ("ada@example.org", "bob@example.org"),
        ("\"SignatureVersion\": \"2\"", "\"SignatureVersion\": \"1\""),
        ("\"SignatureVersion\": \"2\"", "\"SignatureVersion\": \"3\""),
        ("Amazon SES", "Somebody"),
        ("03:04:05", "03:04:06"),
        ("\"Notification\"", "\"UnsubscribeConfirmation\""),
        ("\"Notification\"", "\"Other\""),
        (TOPIC, "arn:aws:sns:eu-west-1:666666666666:mail"),
    ] {
        let forged = SECOND.replace(from, to);
        assert_ne!(forged, SECOND, "{from}");
        let refused = stage.take(&forged).await;
        assert!(matches!(refused, Err(Error::Forbidden { .. })), "{to}: {refused:?}");
    }
    assert!(matches!(stage.take("{}").await, Err(Error::BadRequest { .. })));
}

#[tokio::test]
async fn a_certificate_from_elsewhere_is_not_even_looked_at() {
    let stage = Stage::open("200 OK").await;
    for elsewhere in [
        "https://evil.example/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem",
        "http://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem",
        "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem",
        "https://sns.eu-west-1.amazonaws.com.evil.example/SimpleNotificationService-0.pem",
        "https://sns.eu-west-1.amazonaws.com@evil.example/SimpleNotificationService-0.pem",
        "https://sns.eu-west-1.amazonaws.com:444/SimpleNotificationService-0.pem",
        "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0/../../x.pem",
        "https://sns.eu-west-1.amazonaws.com/other.pem",
    ] {
        let url = "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem";
        let refused = stage.take(&SECOND.replace(url, elsewhere)).await;
        assert!(matches!(refused, Err(Error::Forbidden { .. })), "{elsewhere}: {refused:?}");
    }
    assert_eq!(stage.asked(), [""; 0]);
}

#[tokio::test]
async fn a_subscription_is_confirmed_at_the_topics_own_host_alone() {
    let stage = Stage::open("200 OK").await;
    assert_eq!(stage.take(CONFIRMATION).await.ok(), Some(Said::Subscribed));
    let asked = stage.asked();
    assert!(asked.len() == 2 && asked[1].starts_with("GET /?Action=ConfirmSubscription&TopicArn="), "{asked:?}");
    let refused = stage.take(CONFIRMATION_ELSEWHERE).await;
    assert!(matches!(refused, Err(Error::Forbidden { .. })), "{refused:?}");
    assert_eq!(stage.asked().len(), 2, "nobody else was called");
}

#[tokio::test]
async fn while_the_certificate_cannot_be_had_amazon_is_told_to_come_back() {
    let stage = Stage::open("500 Internal Server Error").await;
    assert!(matches!(stage.take(SECOND).await, Err(Error::Unavailable)));
    assert!(matches!(stage.take(SECOND).await, Err(Error::Unavailable)));
    assert_eq!(stage.asked().len(), 2, "what is no certificate is not kept");
}
