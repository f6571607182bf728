//! The doctor at instances on this machine: one that is well, and some that are
//! not.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::checks::{self, Patient};
use crate::cli::doctor::report::Report;
use crate::clock::Clock;
use crate::product::Product;
use crate::testing::{EMAIL, PASSWORD, Store, owner};
use crate::web::{self, Bounds};

/// An instance that listens, with these settings and its owner.
async fn instance(store: &Store, path: &str, settings: &[&str]) -> (Product, Patient) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let issuer = format!("http://{}{path}", listener.local_addr().expect("an address"));
    let base = format!("--base-url={issuer}");
    let app = store.open(&[&[base.as_str()], settings].concat(), Clock::system()).await;
    owner(&app).await;
    let gate = Arc::new(app.gate());
    let bounds = Bounds::of(&app.config);
    tokio::spawn(web::answer_connections(listener, gate, bounds, std::future::pending(), Duration::ZERO));
    (app, patient(issuer))
}

fn patient(issuer: String) -> Patient {
    Patient { issuer, email: EMAIL.into(), password: PASSWORD.into(), registration_token: None }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn issue_3_a_healthy_instance_passes_every_check_and_keeps_no_grant() {
    for store in Store::each().await {
        let (app, patient) = instance(&store, "", &[]).await;
        let mut report = Report::new(true);
        let client = checks::examine(&patient, &mut report).await;
        assert_eq!((report.failures(), report.count()), (vec![], 15));
        assert!(client.is_some());
        const LEFT: crate::db::Sql = crate::db::Sql(&crate::db::Sql::both(
            "SELECT (SELECT COUNT(*) FROM oauth_grants), (SELECT COUNT(*) FROM oauth_grants WHERE revoked_at IS NULL),
                    (SELECT COUNT(*) FROM sessions)",
        ));
        let rows = app.db.read(LEFT.with([])).await.expect("counts");
        let counts: Vec<i64> = (0..3).map(|column| rows[0].int(column).expect("a count")).collect();
        // One session is the owner's own.
        assert_eq!(counts, [3, 0, 1]);
        drop(app);
        store.discard().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_below_a_path_that_registers_nobody_is_examined_too() {
    let store = Store::each().await.remove(0);
    let (_, patient) = instance(&store, "/mail", &["--registration=off", "--oauth-iss"]).await;
    let mut report = Report::new(true);
    assert_eq!(checks::examine(&patient, &mut report).await, None);
    assert_eq!((report.failures(), report.count()), (vec![], 15));
}

#[tokio::test]
async fn a_gated_registration_is_passed_with_the_token_only() {
    let store = Store::each().await.remove(0);
    let settings = ["--registration=token", "--registration-token=0123456789abcdef"];
    let (_, mut patient) = instance(&store, "", &settings).await;
    let mut report = Report::new(true);
    checks::examine(&patient, &mut report).await;
    assert_eq!(report.failures().len(), 1);
    assert!(report.failures()[0].starts_with("FAILED  registration: "), "{:?}", report.failures());
    patient.registration_token = Some("0123456789abcdef".into());
    let mut report = Report::new(true);
    checks::examine(&patient, &mut report).await;
    assert_eq!(report.failures(), Vec::<String>::new());
}

#[tokio::test]
async fn a_wrong_password_and_a_wrong_address_are_named_with_what_to_do() {
    let store = Store::each().await.remove(0);
    let (_, mut patient) = instance(&store, "", &[]).await;
    patient.password = "another password".into();
    let mut report = Report::new(true);
    checks::examine(&patient, &mut report).await;
    let failures = report.failures();
    assert!(failures.len() == 1 && failures[0].contains("log-in") && failures[0].contains("Next: check --email"));

    patient.issuer = patient.issuer.replace("127.0.0.1", "localhost");
    let mut report = Report::new(true);
    checks::examine(&patient, &mut report).await;
    let failures = report.failures();
    assert!(failures.len() == 1 && failures[0].contains("discovery: expected: "), "{failures:?}");
    assert!(failures[0].contains("--base-url"), "{failures:?}");
    let json = report.to_json();
    assert_eq!((&json["ok"], &json["checks"][0]["ok"]), (&false.into(), &false.into()));
}

/// Answers every request the same, whatever it is.
async fn stub(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    format!("http://{address}")
}

#[tokio::test]
async fn what_is_no_posthorn_at_all_is_a_failed_check_and_no_panic() {
    let mut addresses = vec!["http://127.0.0.1:1".to_owned(), "https://127.0.0.1:1".to_owned()];
    for answer in [
        "",
        "hello\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnull",
        "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n[]",
    ] {
        addresses.push(stub(answer).await);
    }
    for address in addresses {
        let mut report = Report::new(true);
        checks::examine(&patient(address.clone()), &mut report).await;
        assert_eq!((report.count(), report.failed()), (1, 1), "{address}");
    }
}
