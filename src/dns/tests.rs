//! Against a name server on loopback that says what the tests want.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hickory_resolver::proto::op::{Message, ResponseCode};
use hickory_resolver::proto::rr::rdata::tlsa::Selector;
use hickory_resolver::proto::rr::rdata::{CNAME, MX, PTR, SOA, TLSA, TXT};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use tokio::net::UdpSocket;

use super::{DnsError, NoSite, Resolver, Site, Tlsa, TlsaRecord};

fn name(text: &str) -> Name {
    Name::from_ascii(text).expect(text)
}

fn mx(preference: u16, host: &str) -> RData {
    RData::MX(MX::new(preference, name(host)))
}

fn a(address: &str) -> RData {
    RData::A(address.parse::<std::net::Ipv4Addr>().expect(address).into())
}

fn aaaa(address: &str) -> RData {
    RData::AAAA(address.parse::<std::net::Ipv6Addr>().expect(address).into())
}

fn tlsa(usage: u8, matching: u8) -> RData {
    RData::TLSA(TLSA::new(usage.into(), Selector::Spki, matching.into(), vec![1; 32]))
}

enum Said {
    Records(Vec<RData>),
    Code(ResponseCode),
    Nothing,
}

fn said(of: &str, kind: RecordType) -> Said {
    let none = Said::Records(Vec::new());
    match (of, kind) {
        ("a.example.", RecordType::MX) => Said::Records(vec![mx(10, "MX1.a.example."), mx(5, "mx2.a.example.")]),
        ("null.example.", RecordType::MX) => Said::Records(vec![mx(0, ".")]),
        ("loop.example.", RecordType::MX) => Said::Records(vec![mx(10, "us.example.")]),
        ("alias.example.", _) => Said::Records(vec![RData::CNAME(CNAME(name("a.example."))), mx(5, "mx2.a.example.")]),
        ("alone.example.", RecordType::A) => Said::Records(vec![a("192.0.2.1")]),
        ("alone.example.", RecordType::AAAA) => Said::Records(vec![aaaa("2001:db8::1")]),
        ("six.example.", RecordType::AAAA) => Said::Records(vec![aaaa("2001:db8::6")]),
        ("private.example.", RecordType::A) => Said::Records(vec![a("127.0.0.1")]),
        ("half.example.", RecordType::A) => Said::Code(ResponseCode::ServFail),
        ("half.example.", RecordType::AAAA) => none,
        ("s1._domainkey.a.example.", RecordType::TXT) => {
            Said::Records(vec![RData::TXT(TXT::new(vec!["v=DKIM1; ".into(), "p=abc".into()]))])
        }
        ("_mta-sts.a.example." | "_mta-sts.b.example.", RecordType::TXT) => {
            Said::Records(vec![RData::TXT(TXT::new(vec!["v=STSv1; id=7;".into()]))])
        }
        ("_mta-sts.absent.example.", _) => Said::Code(ResponseCode::NXDomain),
        ("_mta-sts.silent.example.", _) => Said::Nothing,
        ("1.2.0.192.in-addr.arpa.", RecordType::PTR) => Said::Records(vec![RData::PTR(PTR(name("Mail.a.example.")))]),
        ("signed.example.", RecordType::MX) => Said::Records(vec![mx(10, "mx.signed.example.")]),
        ("mx.signed.example." | "bogus.signed.example.", RecordType::A) => Said::Records(vec![a("192.0.2.1")]),
        ("bare.signed.example.", RecordType::AAAA) => Said::Records(vec![aaaa("2001:db8::1")]),
        ("www.signed.example.", RecordType::A) => {
            Said::Records(vec![RData::CNAME(CNAME(name("mx.signed.example."))), a("192.0.2.1")])
        }
        ("_25._tcp.mx.signed.example.", RecordType::TLSA) => Said::Records(vec![tlsa(3, 1), tlsa(2, 2)]),
        ("_25._tcp.alone.example.", RecordType::TLSA) => Said::Records(vec![tlsa(3, 1)]),
        ("_25._tcp.bogus.signed.example.", _) => Said::Code(ResponseCode::ServFail),
        ("broken.example.", _) => Said::Code(ResponseCode::ServFail),
        ("silent.example.", _) => Said::Nothing,
        ("absent.example.", _) => Said::Code(ResponseCode::NXDomain),
        _ => none,
    }
}

/// Answers questions until the test ends, and counts them.
async fn name_server() -> (SocketAddr, Arc<AtomicUsize>) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    let address = socket.local_addr().expect("an address");
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    tokio::spawn(async move {
        let mut buffer = [0; 2048];
        while let Ok((length, peer)) = socket.recv_from(&mut buffer).await {
            count.fetch_add(1, Ordering::Relaxed);
            let question = Message::from_vec(&buffer[..length]).expect("a question");
            let query = question.queries[0].clone();
            // Whoever does not ask for signatures is told nothing of them.
            let is_asked = question.edns.as_ref().is_some_and(|edns| edns.flags().dnssec_ok);
            let mut answer = question.into_response();
            let of = query.name().to_lowercase();
            answer.metadata.authentic_data = is_asked && of.to_ascii().ends_with("signed.example.");
            match said(&of.to_ascii(), query.query_type()) {
                Said::Nothing => continue,
                Said::Code(code) => answer.metadata.response_code = code,
                Said::Records(records) => {
                    // Behind an alias stands what it leads to.
                    let mut owner = query.name().clone();
                    for data in records {
                        answer.add_answer(Record::from_rdata(owner.clone(), 300, data.clone()));
                        if let RData::CNAME(target) = data {
                            owner = target.0;
                        }
                    }
                }
            }
            let soa = SOA::new(name("ns.example."), name("hostmaster.example."), 1, 1, 1, 1, 300);
            answer.add_authority(Record::from_rdata(name("example."), 300, RData::SOA(soa)));
            socket.send_to(&answer.to_vec().expect("an answer"), peer).await.expect("sent");
        }
    });
    (address, asked)
}

pub(crate) async fn resolver() -> Resolver {
    let (server, _) = name_server().await;
    Resolver::built(&[server], 16, Duration::from_millis(500))
}

#[tokio::test]
async fn a_domain_leads_to_its_servers() {
    let resolver = resolver().await;
    let site = |domain| resolver.site(domain, "us.example");
    let both = Site {
        name: "mx1.a.example+mx2.a.example".into(),
        hosts: vec!["mx2.a.example".into(), "mx1.a.example".into()],
        is_secure: false,
    };
    assert_eq!(site("a.example").await, Ok(both));
    let aliased = Site { is_secure: false, ..Site::of("mx2.a.example") };
    assert_eq!(site("alias.example").await, Ok(aliased));
    assert_eq!(site("alone.example").await, Ok(Site::of("alone.example")));
    assert_eq!(site("six.example").await, Ok(Site::of("six.example")));
}

#[tokio::test]
async fn a_domain_without_servers_is_told_from_one_of_which_nobody_knows() {
    let resolver = resolver().await;
    for (domain, expected) in [
        ("null.example", Some("5.1.10")),
        ("absent.example", Some("5.1.2")),
        ("empty.example", Some("5.1.2")),
        ("loop.example", Some("5.4.6")),
        ("no..name", Some("5.1.2")),
        ("broken.example", None),
        ("silent.example", None),
        ("half.example", None),
    ] {
        let found = match resolver.site(domain, "us.example").await.expect_err(domain) {
            NoSite::Never { code, reason } => Some(code).filter(|_| reason.contains(domain)),
            NoSite::Later(_) => None,
        };
        assert_eq!(found, expected, "{domain}");
    }
}

#[tokio::test]
async fn other_records_are_read_as_they_are() {
    let resolver = resolver().await;
    assert_eq!(resolver.txt("s1._domainkey.a.example").await, Ok(vec!["v=DKIM1; p=abc".into()]));
    assert_eq!(resolver.txt("a.example").await, Err(DnsError::Missing));
    assert_eq!(resolver.txt("absent.example").await, Err(DnsError::NoName));
    assert_eq!(resolver.cname("alias.example").await, Ok(vec!["a.example".into()]));
    assert_eq!(resolver.ptr("192.0.2.1".parse().expect("an address")).await, Ok(vec!["mail.a.example".into()]));
    let addresses = resolver.addresses("alone.example").await.expect("addresses");
    assert_eq!(addresses.iter().map(ToString::to_string).collect::<Vec<_>>(), ["192.0.2.1", "2001:db8::1"]);
}

#[tokio::test]
async fn answers_are_kept_unless_somebody_wants_to_see_what_changed() {
    let (server, asked) = name_server().await;
    for (resolver, questions) in [(Resolver::new(&[server]), 2), (Resolver::uncached(&[server]), 6)] {
        asked.store(0, Ordering::Relaxed);
        for _ in 0..3 {
            assert!(resolver.mx("a.example").await.is_ok());
            assert_eq!(resolver.mx("absent.example").await, Err(DnsError::NoName));
        }
        assert_eq!(asked.load(Ordering::Relaxed), questions);
    }
}

#[tokio::test]
async fn signatures_count_where_somebody_is_believed_to_have_looked_at_them() {
    let (server, _) = name_server().await;
    let believed = Resolver::validating(&[server], 16, Duration::from_millis(500)).expect("a resolver");
    for (resolver, domain, is_secure) in [
        (&believed, "signed.example", true),
        (&believed, "a.example", false),
        (&Resolver::new(&[server]), "signed.example", false),
    ] {
        assert_eq!(resolver.site(domain, "us.example").await.map(|site| site.is_secure), Ok(is_secure), "{domain}");
    }
    let record = |usage, matching| TlsaRecord { usage, selector: 1, matching, data: vec![1; 32] };
    let known = Tlsa { base: "mx.signed.example".into(), records: vec![record(3, 1), record(2, 2)] };
    for (host, expected) in [
        ("mx.signed.example", Ok(Some(known.clone()))),
        // They stand where its name leads to.
        ("www.signed.example", Ok(Some(known))),
        ("bare.signed.example", Ok(None)),
        ("absent.example", Ok(None)),
        // There are some, and anybody may have written them.
        ("alone.example", Ok(None)),
    ] {
        assert_eq!(believed.tlsa(host, 25).await, expected, "{host}");
        assert_eq!(Resolver::new(&[server]).tlsa(host, 25).await, Ok(None), "{host}");
    }
    for unknown in ["bogus.signed.example", "broken.example", "silent.example"] {
        assert!(matches!(believed.tlsa(unknown, 25).await, Err(DnsError::Later(_))), "{unknown}");
    }
}
