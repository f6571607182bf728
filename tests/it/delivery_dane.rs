//! Mail to servers whose certificates DNSSEC names (DANE, RFC 7672).

use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair, PublicKeyData};
use ring::digest::{SHA256, digest};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

use crate::delivery::Post;
use crate::delivery_direct::{direct, rounds};
use crate::dns::Dns;
use crate::harness::on_both;
use crate::sink::Sink;
use crate::store::Store;

const HERE: [u8; 4] = [127, 0, 0, 1];
const FAST: &str = "--smtp-timeout-factor=0.01";

/// What encrypts with a certificate that nobody vouches for, and the hash of its key.
fn certificate() -> (TlsAcceptor, Vec<u8>) {
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(vec!["nobody.example".to_owned()]).expect("a name");
    let certificate = params.self_signed(&key).expect("a certificate").der().clone();
    let hash = digest(&SHA256, &key.subject_public_key_info()).as_ref().to_vec();
    let server = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
        .expect("a server");
    (TlsAcceptor::from(Arc::new(server)), hash)
}

/// Domains whose certificates are named rightly, wrongly, by records that cannot be used, and by
/// nobody; and one whose records anybody may have written.
fn publish(dns: &Dns, sink: &Sink, hash: &[u8]) {
    dns.sign("signed.example");
    for (domain, usage, hash) in [
        ("right.signed.example", Some(3), hash),
        ("wrong.signed.example", Some(3), &[0; 32]),
        ("unusable.signed.example", Some(1), hash),
        ("without.signed.example", None, hash),
        ("plain.example", Some(3), &[0; 32]),
    ] {
        dns.mx(domain, 10, &format!("mx.{domain}"));
        dns.a(&format!("mx.{domain}"), HERE);
        if let Some(usage) = usage {
            dns.tlsa(&format!("_{}._tcp.mx.{domain}", sink.port), [usage, 1, 1], hash);
        }
    }
}

/// What became of a mail to a domain: by what the connection was kept from others, or why it waits.
async fn fate(post: &Post, domain: &str) -> Result<String, String> {
    let id = post.send(&format!("bob@{domain}")).await;
    rounds(post, 1).await;
    match (post.state(id).await, &post.recipients(id).await[..]) {
        (40, _) => Ok(post.told(id).await[0].1["tls"].as_str().expect("a level").to_owned()),
        (10, [(_, _, Some(_), reason)]) => Err(reason.clone()),
        other => panic!("{domain}: {other:?}"),
    }
}

on_both! {
    async fn what_dnssec_says_of_a_certificate_is_held_to(store: Store) {
        let (tls, hash) = certificate();
        let (dns, sink) = (Dns::start().await, Sink::encrypting(tls).await);
        publish(&dns, &sink, &hash);
        let dane = format!("--dane={}", dns.address);
        let post = direct(&store, &dns, &sink, &[FAST, &dane]).await;
        for (domain, expected) in [
            ("right.signed.example", Ok("dane")),
            ("wrong.signed.example", Err("certificate")),
            ("unusable.signed.example", Ok("encrypted")),
            ("without.signed.example", Ok("encrypted")),
            ("plain.example", Ok("encrypted")),
        ] {
            let before = sink.kept().len();
            match (fate(&post, domain).await, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{domain}"),
                (Err(reason), Err(expected)) => {
                    assert!(reason.contains(expected), "{domain}: {reason}");
                    assert_eq!(sink.kept().len(), before, "{domain}");
                }
                (found, expected) => panic!("{domain}: {found:?}, not {expected:?}"),
            }
        }
        // Who has switched it off sends as if there were no records.
        let post = direct(&store, &dns, &sink, &[FAST]).await;
        assert_eq!(fate(&post, "wrong.signed.example").await, Ok("encrypted".into()));
    }

    async fn who_has_records_and_offers_no_encryption_gets_nothing(store: Store) {
        let (dns, sink) = (Dns::start().await, Sink::open().await);
        publish(&dns, &sink, &[1; 32]);
        let dane = format!("--dane={}", dns.address);
        let post = direct(&store, &dns, &sink, &[FAST, &dane]).await;
        for domain in ["right.signed.example", "unusable.signed.example"] {
            let reason = fate(&post, domain).await.expect_err(domain);
            assert!(reason.contains("offers no encryption"), "{domain}: {reason}");
        }
        assert_eq!(fate(&post, "without.signed.example").await, Ok("none".into()));
        assert_eq!(sink.kept().len(), 1);
    }

    async fn a_server_of_which_nobody_knows_what_dnssec_says_is_not_used(store: Store) {
        let (dns, sink) = (Dns::start().await, Sink::open().await);
        dns.sign("signed.example");
        for (domain, hosts) in [("one.signed.example", &["mx1"][..]), ("two.signed.example", &["mx1", "mx2"])] {
            for (at, host) in hosts.iter().enumerate() {
                dns.mx(domain, at as u16, &format!("{host}.{domain}"));
                dns.a(&format!("{host}.{domain}"), HERE);
            }
            dns.spoil(&format!("_{}._tcp.mx1.{domain}", sink.port));
        }
        let dane = format!("--dane={}", dns.address);
        let post = direct(&store, &dns, &sink, &[FAST, &dane]).await;
        let reason = fate(&post, "one.signed.example").await.expect_err("its only server");
        assert!(reason.contains("mx1.one.signed.example (TLSA) cannot be looked up"), "{reason}");
        assert!(sink.kept().is_empty());
        let id = post.send("bob@two.signed.example").await;
        rounds(&post, 1).await;
        assert_eq!(post.told(id).await[0].1["host"], "mx2.two.signed.example");
    }
}
