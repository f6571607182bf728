//! Policies that are read from a server of their own.

use super::tls::certificate;
use super::*;
use crate::http_client::{HttpClient, Reach, Staged};
use crate::smtp::{StsMode, mta_sts};

const POLICY: &str = "version: STSv1\nmode: enforce\nmx: mx2.a.example\nmax_age: 86400\n";

/// A client for which every name leads to a web server that gives one answer.
pub(crate) async fn web_server(status: &str, kind: &str, body: &str) -> (HttpClient, Arc<Mutex<Vec<String>>>) {
    let (acceptor, roots) = certificate("mta-sts.a.example");
    let length = body.len();
    let answer = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}");
    let mut script = vec![Act::Encrypt(acceptor), Act::Expect("GET /.well-known/mta-sts.txt ")];
    script.extend(vec![Act::Expect(""); 3]);
    script.extend([Act::Raw(answer.into()), Act::Wait(Duration::from_secs(60))]);
    let (address, log) = server(script).await;
    let somewhere = |_: &str, port| vec![SocketAddr::new([93, 184, 215, 14].into(), port)];
    let staged = Staged { look_up: Box::new(somewhere), connect: Box::new(move |_| address) };
    (HttpClient::staged(Reach::Public, crate::tls::client_trusting(roots), staged), log)
}

#[tokio::test]
async fn a_policy_is_read_once_and_again_when_its_id_has_changed() {
    let resolver = crate::dns::tests::resolver().await;
    let (http, log) = web_server("200 OK", "text/plain; charset=utf-8", POLICY).await;
    let policy = mta_sts(&resolver, &http, "a.example", None).await.expect("read").expect("a policy");
    assert_eq!((policy.id.as_str(), policy.mode), ("7", StsMode::Enforce));
    assert!(policy.allows("mx2.a.example") && !policy.allows("mx1.a.example"));
    assert!(said(&log).contains(&"host: mta-sts.a.example".to_owned()), "{:?}", said(&log));

    let before = said(&log).len();
    assert_eq!(mta_sts(&resolver, &http, "a.example", Some(&policy)).await, Ok(Some(policy.clone())));
    assert_eq!(said(&log).len(), before, "nobody was asked");
    let mut older = policy.clone();
    older.id = "6".into();
    assert_eq!(mta_sts(&resolver, &http, "a.example", Some(&older)).await, Ok(Some(policy)));
    assert!(said(&log).len() > before);

    for domain in ["alone.example", "absent.example"] {
        assert_eq!(mta_sts(&resolver, &http, domain, None).await, Ok(None), "{domain}");
    }
    assert!(mta_sts(&resolver, &http, "silent.example", None).await.is_err());
}

#[tokio::test]
async fn a_policy_that_cannot_be_read_is_told_with_its_address() {
    let resolver = crate::dns::tests::resolver().await;
    for (status, kind, body, why) in [
        ("404 Not Found", "text/plain", "", "404"),
        ("301 Moved Permanently", "text/plain", POLICY, "301"),
        ("200 OK", "text/html", POLICY, "text/plain"),
        ("200 OK", "text/plain", "version: STSv1\n", "mode"),
    ] {
        let (http, _) = web_server(status, kind, body).await;
        let reason = mta_sts(&resolver, &http, "a.example", None).await.expect_err(why);
        let is_told = reason.contains("https://mta-sts.a.example/.well-known/mta-sts.txt") && reason.contains(why);
        assert!(is_told, "{reason}");
    }
    // A certificate of somebody else.
    let (http, _) = web_server("200 OK", "text/plain", POLICY).await;
    assert!(mta_sts(&resolver, &http, "b.example", None).await.is_err());
}
