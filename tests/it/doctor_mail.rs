//! What `posthorn doctor` says of mail, through the real binary: the relay, port 25, this server's
//! name, and the DNS records of domains.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, KeyPair};
use serde_json::Value;
use tempfile::TempDir;

use crate::dns::Dns;
use crate::doctor::{assert_finding, examine};
use crate::domains::{add, open, publish, verify};
use crate::harness::{BASE, on_both};
use crate::sink::{Does, Sink};
use crate::store::Store;

const HERE: [u8; 4] = [127, 0, 0, 1];
/// Of which the answer of a resolver is not known beforehand, as it is of loopback addresses.
const ABROAD: [u8; 4] = [198, 51, 100, 25];
/// Nobody listens there.
const ELSEWHERE: [u8; 4] = [127, 0, 0, 77];

/// The doctor's findings, while this test's own servers answer.
async fn found(settings: &[&str]) -> Value {
    let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
    let examined = tokio::task::spawn_blocking(move || {
        let folder = TempDir::new().expect("a folder");
        let data = format!("--data-dir={}", folder.path().display());
        let settings: Vec<&str> = [data.as_str()].into_iter().chain(settings.iter().map(String::as_str)).collect();
        examine(&settings).0
    });
    examined.await.expect("findings")
}

/// A relay that knows one password.
async fn relay() -> Sink {
    Sink::scripted(|command| match command {
        "EHLO localhost" => Does::Says("250-sink\r\n250 AUTH PLAIN"),
        // `user` and `right`.
        "AUTH PLAIN AHVzZXIAcmlnaHQ=" => Does::Says("235 2.7.0 welcome"),
        _ if command.starts_with("AUTH") => Does::Says("535 5.7.8 who are you"),
        _ => Does::Usual,
    })
    .await
}

#[tokio::test]
async fn issue_12_the_doctor_logs_in_to_the_relay_and_names_what_fails() {
    let sink = relay().await;
    let with = |password: &str| format!("--smtp-url=smtp://user:{password}@127.0.0.1:{}", sink.port);
    let findings = found(&[&with("right")]).await;
    assert_finding(&findings, "relay 127.0.0.1", "ok", "");
    assert!(findings["relay 127.0.0.1"]["expected"].as_str().is_some_and(|told| told.contains("log-in works")));
    assert_eq!(findings["mail"]["status"], "ok");
    let findings = found(&[&with("wrong")]).await;
    assert_finding(&findings, "relay 127.0.0.1", "failed", "535 5.7.8 who are you");
    assert_finding(&findings, "relay 127.0.0.1", "failed", "password");
    let findings = found(&["--smtp-url=smtp://127.0.0.77:9"]).await;
    assert_finding(&findings, "relay 127.0.0.77", "failed", "firewall");
    let strict = format!("--smtp-url=smtp://127.0.0.1:{}?tls=required", sink.port);
    assert_finding(&found(&[&strict]).await, "relay 127.0.0.1", "failed", "offers no encryption");
    assert!(sink.kept().is_empty(), "a doctor sends nothing");
}

/// The settings of a certificate for this name, valid between these days of 1970 and later.
fn certificate(folder: &TempDir, name: &str, from: i64, until: i64) -> [String; 2] {
    let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    let day = |day: i64| {
        let date = jiff::Timestamp::from_second(86_400 * day).expect("a day").to_zoned(jiff::tz::TimeZone::UTC).date();
        rcgen::date_time_ymd(date.year().into(), date.month() as u8, date.day() as u8)
    };
    (params.not_before, params.not_after) = (day(from), day(until));
    let key = KeyPair::generate().expect("a key");
    let made = params.self_signed(&key).expect("a certificate");
    let pem =
        |kind: &str, der: &[u8]| format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", STANDARD.encode(der));
    let (certificate, private) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificate, pem("CERTIFICATE", made.der())).expect("written");
    std::fs::write(&private, pem("PRIVATE KEY", &key.serialize_der())).expect("written");
    [format!("--submission-cert={}", certificate.display()), format!("--submission-key={}", private.display())]
}

#[tokio::test]
async fn issue_12_the_doctor_reads_the_certificate_that_clients_are_shown() {
    let folder = TempDir::new().expect("a folder");
    let today = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs() as i64 / 86_400;
    for (name, from, until, listens, status, words) in [
        ("mail.sender.example", today - 1, today + 60, "--submission-listen=127.0.0.1:0", "ok", ""),
        ("mail.sender.example", today - 1, today + 60, "--inbound-listen=127.0.0.1:0", "ok", ""),
        ("*.sender.example", today - 1, today + 60, "--submission-listen=127.0.0.1:0", "ok", ""),
        ("mail.sender.example", today - 90, today + 5, "--submission-listen=127.0.0.1:0", "warning", "expires on 20"),
        ("mail.sender.example", today - 90, today - 1, "--submission-listen=127.0.0.1:0", "failed", "expired on 20"),
        ("old.example", today - 90, today - 1, "--inbound-listen=127.0.0.1:0", "failed", "expired on 20"),
        ("mail.sender.example", today + 2, today + 60, "--submission-listen=127.0.0.1:0", "failed", "clock"),
        ("old.example", today - 1, today + 60, "--submission-listen=127.0.0.1:0", "warning", "is for old.example"),
        ("old.example", today - 1, today + 5, "--submission-listen=127.0.0.1:0", "warning", "--helo"),
    ] {
        let [certificate, key] = certificate(&folder, name, from, until);
        let findings = found(&[&certificate, &key, "--helo=mail.sender.example", listens]).await;
        assert_finding(&findings, "certificate", status, words);
        let unused = found(&[&certificate, &key, "--helo=mail.sender.example"]).await;
        assert!(unused.get("certificate").is_none(), "nobody is shown it");
    }
}

#[tokio::test]
async fn issue_12_the_doctor_says_nothing_of_relays_and_ports_where_mail_is_captured() {
    let findings = found(&[]).await;
    assert!(findings["mail"]["expected"].as_str().is_some_and(|told| told.contains("captured")), "{findings:#}");
    assert!(
        findings
            .as_object()
            .is_some_and(|all| ["port 25", "server name", "links"].iter().all(|name| !all.contains_key(*name)))
    );
}

#[tokio::test]
async fn issue_12_the_doctor_knows_whether_mail_servers_can_be_reached() {
    let (dns, sink) = (Dns::start().await, Sink::open().await);
    dns.mx("open.example", 10, "mx.open.example");
    dns.a("mx.open.example", HERE);
    dns.mx("closed.example", 10, "mx.closed.example");
    dns.a("mx.closed.example", ELSEWHERE);
    let (port, server) = (format!("--mx-port={}", sink.port), dns.setting());
    let reach =
        async |domain: &str| found(&["--transport=direct", "--private-mx", &port, &server, "--reach", domain]).await;
    assert_finding(&reach("open.example").await, "port 25", "ok", "");
    let closed = reach("closed.example").await;
    assert_finding(&closed, "port 25", "failed", "mx.closed.example");
    assert_finding(&closed, "port 25", "failed", "--smtp-url");
    assert_finding(&reach("absent.example").await, "port 25", "warning", "--reach");
    dns.fail(true);
    assert_finding(&reach("open.example").await, "port 25", "warning", "--dns-server");
    assert!(sink.kept().is_empty(), "a doctor sends nothing");
}

#[tokio::test]
async fn issue_12_the_doctor_wants_the_servers_name_to_lead_to_its_address_and_back() {
    let dns = Dns::start().await;
    let server = dns.setting();
    let named = async |helo: &str| found(&["--transport=direct", "--private-mx", "--helo", helo, &server]).await;
    assert_finding(&named("localhost").await, "server name", "failed", "--helo");
    let name = "mail.sender.example";
    assert_finding(&named(name).await, "server name", "failed", "add an A record for mail.sender.example");
    dns.a(name, ABROAD);
    assert_finding(&named(name).await, "server name", "failed", "leads back to no name (PTR)");
    dns.ptr(ABROAD, "another.example");
    assert_finding(&named(name).await, "server name", "failed", "another.example");
    dns.forget("25.100.51.198.in-addr.arpa");
    dns.ptr(ABROAD, name);
    assert_finding(&named(name).await, "server name", "ok", "");
}

#[tokio::test]
async fn issue_12_the_doctor_knows_whether_the_servers_of_dane_look_at_signatures() {
    let dns = Dns::start().await;
    let dane = format!("--dane={}", dns.address);
    let settings = ["--transport=direct", "--private-mx", "--helo=mail.sender.example", &dane];
    dns.txt("", "a root without keys");
    assert_finding(&found(&settings).await, "dane", "failed", "cannot be asked");
    dns.sign("sender.example");
    assert_finding(&found(&settings).await, "dane", "ok", "");
    assert!(found(&settings[..3]).await.get("dane").is_none(), "it is off");
}

#[tokio::test]
async fn issue_12_the_doctor_tells_of_links_that_are_not_encrypted() {
    let sink = Sink::open().await;
    let relay = format!("--smtp-url={}", sink.url());
    let at = async |base: &str| found(&[&relay, "--base-url", base]).await;
    assert_finding(&at("http://mail.example.com").await, "links", "warning", "https://");
    assert_finding(&at("https://mail.example.com").await, "links", "ok", "");
}

on_both! {
    async fn issue_12_the_doctor_looks_for_the_records_of_every_domain(store: Store) {
        let dns = Dns::start().await;
        let app = open(&store, &dns, &["--transport=direct"]).await;
        let key = app.full_key().await;
        let domain = add(&app, &key, "example.com").await;
        publish(&dns, &domain);
        assert_eq!(verify(&app, &key, &domain).await["status"], "verified");
        add(&app, &key, "new.example").await;
        let (url, server) = (store.url(), dns.setting());
        let settings = ["--database-url", &url, &server, "--base-url", BASE, "--transport=direct"];
        let findings = found(&settings).await;
        assert_finding(&findings, "domain example.com", "ok", "");
        // One that never was verified may still be set up.
        assert_finding(&findings, "domain new.example", "warning", "send.new.example");

        // Without this one mail can be sent all the same.
        dns.forget("posthorn-ed._domainkey.example.com");
        assert_finding(&found(&settings).await, "domain example.com", "warning", "posthorn-ed._domainkey.example.com");
        dns.forget("posthorn._domainkey.example.com");
        let findings = found(&settings).await;
        assert_finding(&findings, "domain example.com", "failed", "posthorn._domainkey.example.com is not there");
        let id = domain["id"].as_str().expect("an id");
        assert_finding(&findings, "domain example.com", "failed", &format!("GET /domains/{id}"));
        dns.txt("posthorn._domainkey.example.com", "v=DKIM1; k=rsa; p=abc");
        assert_finding(&found(&settings).await, "domain example.com", "failed", "Another key");
        dns.fail(true);
        assert_finding(&found(&settings).await, "domain example.com", "warning", "--dns-server");
        let stored = app.get(format!("/domains/{id}")).key(&key).send().await.json();
        assert_eq!(stored["status"], "verified", "a doctor writes nothing down");
    }

    async fn issue_12_the_doctor_logs_in_to_the_relays_of_domains(store: Store) {
        let (dns, sink) = (Dns::start().await, relay().await);
        let app = open(&store, &dns, &["--private-mx"]).await;
        let key = app.full_key().await;
        let transport = format!("smtp://user:wrong@127.0.0.1:{}", sink.port);
        let body = serde_json::json!({"name": "example.com", "transport": transport});
        assert_eq!(app.post("/domains").key(&key).json(body).send().await.status, 201);
        let (url, server) = (store.url(), dns.setting());
        let findings = found(&["--database-url", &url, &server, "--private-mx"]).await;
        assert_finding(&findings, "relay 127.0.0.1 of example.com", "failed", "535");
    }
}
