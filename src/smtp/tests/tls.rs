//! Encryption and log-in.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;

use super::*;

const OFFERED: &str = "250-mx.test\r\n250 STARTTLS";

/// What encrypts for a server of this name, and whom to believe for that.
pub(super) fn certificate(host: &str) -> (TlsAcceptor, RootCertStore) {
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

fn offering(acts: Vec<Act>) -> Vec<Act> {
    let mut script = vec![say("220 mx.test"), Act::Expect("EHLO"), say(OFFERED), Act::Expect("STARTTLS")];
    script.extend(acts);
    script
}

fn encrypting(acceptor: &TlsAcceptor, offers: &str, acts: Vec<Act>) -> Vec<Act> {
    let mut script =
        offering(vec![say("220 go"), Act::Encrypt(acceptor.clone()), Act::Expect("EHLO us.test"), say(offers)]);
    script.extend(acts);
    script.push(Act::Wait(Duration::from_secs(60)));
    script
}

struct Tried {
    connected: Result<Connection, Failure>,
    said: Vec<String>,
}

async fn try_relay(script: Vec<Act>, relay: &str, roots: &RootCertStore) -> Tried {
    let (address, log) = server(script).await;
    let relay: Relay = relay.replace("PORT", &address.port().to_string()).parse().expect(relay);
    let client = client(Settings { roots: roots.clone(), ..settings() });
    let connected = client.connect(&Hop::Relay(&relay)).await;
    Tried { connected, said: said(&log) }
}

const REQUIRED: &str = "smtp://localhost:PORT?tls=required";
const OPPORTUNISTIC: &str = "smtp://localhost:PORT?tls=opportunistic";

#[tokio::test]
async fn a_certificate_has_to_be_valid_where_encryption_is_required() {
    let (acceptor, roots) = certificate("localhost");
    let script = encrypting(&acceptor, "250 mx.test", vec![]);
    let nobody = RootCertStore::empty();
    for (relay, roots, is_secured) in [
        (REQUIRED, &roots, true),
        (REQUIRED, &nobody, false),
        // Another name than the certificate's.
        ("smtp://127.0.0.1:PORT?tls=required", &roots, false),
        (OPPORTUNISTIC, &nobody, true),
        ("smtp://127.0.0.1:PORT?tls=opportunistic", &nobody, true),
    ] {
        let tried = try_relay(script.clone(), relay, roots).await;
        match tried.connected {
            Ok(connection) => assert!(is_secured && connection.is_secured(), "{relay}"),
            Err(failure) => {
                assert!(!is_secured && !failure.tls_failed && failure.at == Phase::StartTls, "{relay}: {failure:?}");
                assert_eq!(tried.said, ["EHLO us.test", "STARTTLS"], "nothing else was said");
            }
        }
    }
    let mut wrapped = vec![Act::Encrypt(acceptor.clone()), say("220 mx.test"), Act::Expect("EHLO"), say("250 mx.test")];
    wrapped.push(Act::Wait(Duration::from_secs(60)));
    assert!(try_relay(wrapped.clone(), "smtps://localhost:PORT", &roots).await.connected.is_ok_and(|c| c.is_secured()));
    assert!(try_relay(wrapped, "smtps://localhost:PORT", &nobody).await.connected.is_err_and(|f| !f.tls_failed));
}

#[tokio::test]
async fn encryption_that_is_offered_and_broken_is_told_as_such() {
    let roots = RootCertStore::empty();
    let broken =
        [vec![say("220 go")], vec![say("220 go"), Act::Expect(""), Act::Raw(b"HTTP/1.1 400 Bad Request\r\n".into())]];
    for acts in broken {
        let failure = try_relay(offering(acts), OPPORTUNISTIC, &roots).await.connected.err().expect("no handshake");
        assert!(failure.tls_failed && failure.at == Phase::StartTls, "{failure:?}");
    }
    // Who gets a password has to prove who he is: there is no going on in clear.
    let acts = vec![say("220 go"), Act::Raw(b"nonsense".into())];
    let tried = try_relay(offering(acts), "smtp://u:p@0.0.0.0:PORT?tls=opportunistic", &roots).await;
    assert!(tried.connected.is_err_and(|failure| !failure.tls_failed));
    // The link is lost before anybody tried.
    let failure = try_relay(offering(vec![]), OPPORTUNISTIC, &roots).await.connected.err().expect("no answer");
    assert!(!failure.tls_failed && failure.at == Phase::StartTls, "{failure:?}");
}

#[tokio::test]
async fn what_is_injected_behind_starttls_ends_the_dialogue() {
    let (acceptor, roots) = certificate("localhost");
    for injected in ["220 go\r\n250 mx.test\r\n", "220 go\r\n2", "220-go\r\n220 go\r\n\r\n"] {
        let acts =
            vec![Act::Raw(injected.into()), Act::Encrypt(acceptor.clone()), Act::Expect("EHLO"), say("250 mx.test")];
        for relay in [REQUIRED, OPPORTUNISTIC] {
            let failure = try_relay(offering(acts.clone()), relay, &roots).await.connected.err().expect("refused");
            assert!(!failure.tls_failed && failure.reason.contains("attacker"), "{injected:?}: {failure:?}");
        }
    }
}

#[tokio::test]
async fn without_an_offer_only_those_who_must_not_go_on_stop() {
    let roots = RootCertStore::empty();
    let silent = vec![say("220 mx.test"), Act::Expect("EHLO"), say("250 mx.test"), Act::Wait(Duration::from_secs(60))];
    let unable = offering(vec![say("454 4.7.0 no TLS today"), Act::Wait(Duration::from_secs(60))]);
    for script in [silent, unable] {
        let clear = try_relay(script.clone(), OPPORTUNISTIC, &roots).await.connected;
        assert!(clear.is_ok_and(|connection| !connection.is_secured()));
        let failure = try_relay(script, REQUIRED, &roots).await.connected.err().expect("required");
        assert!(!failure.tls_failed && failure.at == Phase::StartTls, "{failure:?}");
    }
}

#[tokio::test]
async fn a_log_in_is_made_as_the_relay_offers_it() {
    let (acceptor, roots) = certificate("localhost");
    let relay = "smtp://us%40er:p%C3%A4ss@localhost:PORT?tls=required";
    let plain = vec![Act::Expect("AUTH PLAIN AHVzQGVyAHDDpHNz"), say("235 2.7.0 welcome")];
    let login = vec![
        Act::Expect("AUTH LOGIN"),
        say("334 VXNlcm5hbWU6"),
        Act::Expect("dXNAZXI="),
        say("334 UGFzc3dvcmQ6"),
        Act::Expect("cMOkc3M="),
        say("235 welcome"),
    ];
    for (offers, acts) in [("250 AUTH LOGIN PLAIN", plain), ("250 AUTH LOGIN", login)] {
        let script = encrypting(&acceptor, &format!("250-mx.test\r\n{offers}"), acts);
        let tried = try_relay(script, relay, &roots).await;
        assert!(tried.connected.is_ok(), "{offers}: {:?} {:?}", tried.connected.err(), tried.said);
    }
    for (offers, acts, code) in [
        ("250 AUTH PLAIN", vec![Act::Expect("AUTH"), say("535 5.7.8 wrong")], Some(535)),
        ("250 AUTH LOGIN", vec![Act::Expect("AUTH"), say("454 4.7.0 later")], Some(454)),
        ("250 AUTH CRAM-MD5", vec![], None),
        // What was offered in clear does not count.
        ("250 HELP", vec![], None),
    ] {
        let script = encrypting(&acceptor, &format!("250-mx.test\r\n{offers}"), acts);
        let failure = try_relay(script, relay, &roots).await.connected.err().expect("no log-in");
        assert_eq!((failure.at, failure.reply.map(|reply| reply.code)), (Phase::Auth, code), "{offers}");
    }
}

#[tokio::test]
async fn a_password_is_said_in_clear_only_where_that_was_asked_for() {
    let roots = RootCertStore::empty();
    let mut script = vec![say("220 mx.test"), Act::Expect("EHLO"), say("250-mx.test\r\n250 AUTH PLAIN")];
    script.extend([Act::Expect("AUTH"), say("235 ok"), Act::Wait(Duration::from_secs(60))]);
    // 0.0.0.0 leads here, and does not look like it.
    for (relay, is_said) in [
        ("smtp://u:p@127.0.0.1:PORT", true),
        ("smtp://u:p@0.0.0.0:PORT?tls=none", true),
        ("smtp://u:p@0.0.0.0:PORT?tls=opportunistic", false),
        ("smtp://u:p@0.0.0.0:PORT", false),
    ] {
        let tried = try_relay(script.clone(), relay, &roots).await;
        assert_eq!(tried.connected.is_ok(), is_said, "{relay}");
        assert_eq!(tried.said.iter().any(|line| line.starts_with("AUTH")), is_said, "{relay}");
    }
}
