//! Documents fetched from a server on this machine, and what comes of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::stage::{self, PUBLIC, Script, Stage, answer};
use super::*;
use crate::clock::{HOUR, MINUTE};

const ID: &str = "https://app.example/client.json";

fn app_document() -> Value {
    json!({"client_id": ID, "client_name": "OAuth", "redirect_uris": ["https://app.example/cb", "http://127.0.0.1/cb"]})
}

/// What comes of one fetch from a server that plays this script.
async fn fetched(play: impl Fn() -> Script + Send + Sync + 'static) -> (Result<Registration, Failure>, Stage) {
    let stage = Stage::open(move |_| play()).await;
    let documents = Documents::reaching(stage.client());
    (documents.get(ID, 0).await, stage)
}

fn refusal(result: Result<Registration, Failure>) -> String {
    match result {
        Err(Failure::Refused(refusal)) => {
            assert_eq!(refusal.error(), ErrorCode::InvalidClient);
            refusal.description().to_owned()
        }
        Err(Failure::Failed(error)) => panic!("failed: {error:?}"),
        Ok(_) => panic!("accepted"),
    }
}

#[tokio::test]
async fn case_409_a_document_is_fetched_from_the_checked_address_under_its_host() {
    let (read, stage) = fetched(|| stage::document(app_document().to_string())).await;
    assert_eq!(read.ok().expect("read").name, "OAuth");
    assert_eq!(stage.dialled(), [format!("{PUBLIC}:443").parse().expect("an address")]);
    let asked = stage.asked();
    assert!(asked.len() == 1 && asked[0].starts_with("GET /client.json HTTP/1.1\r\n"), "{asked:?}");
    assert!(asked[0].contains("host: app.example\r\n"), "{asked:?}");
}

#[tokio::test]
async fn case_412_one_address_that_is_not_public_condemns_all_and_nobody_is_dialled() {
    for addresses in [
        &["127.0.0.1"][..],
        &["10.0.0.1"],
        &["169.254.169.254"],
        &["::ffff:192.168.0.1"],
        &["fd00::1"],
        &[PUBLIC, "127.0.0.1"],
        &["127.0.0.1", PUBLIC],
        &[],
    ] {
        let stage = Stage::open(|_| stage::document(app_document().to_string())).await.naming(&[addresses]);
        let documents = Documents::reaching(stage.client());
        assert!(refusal(documents.get(ID, 0).await).contains("could not be fetched"));
        assert!(stage.dialled().is_empty() && stage.asked().is_empty(), "{addresses:?}");
    }
}

#[tokio::test]
async fn case_413_a_name_that_leads_elsewhere_at_the_second_look_is_not_looked_at_twice() {
    let stage = Stage::open(|_| stage::document(app_document().to_string())).await;
    let stage = stage.naming(&[&[PUBLIC], &["127.0.0.1"]]);
    let documents = Documents::reaching(stage.client());
    assert!(documents.get(ID, 0).await.is_ok());
    assert_eq!(stage.dialled(), [format!("{PUBLIC}:443").parse().expect("an address")]);
    // When the document has to be fetched again, the name is looked up again.
    assert!(refusal(documents.get(ID, HOUR).await).contains("could not be fetched"));
    assert_eq!(stage.dialled().len(), 1);
}

#[tokio::test]
async fn cases_413_and_414_any_answer_but_a_small_json_200_is_a_failure() {
    let json = "Content-Type: application/json\r\n";
    let whole = app_document().to_string();
    let padded = |size: usize| format!("{whole}{}", " ".repeat(size - whole.len()));
    let scripts: Vec<(&str, Script)> = vec![
        ("redirect", answer("302 Found", &format!("{json}Location: https://other.example/c\r\n"), &whole)),
        ("moved", answer("301 Moved Permanently", &format!("{json}Location: /client.json\r\n"), "")),
        ("not modified", answer("304 Not Modified", json, "")),
        ("created", answer("201 Created", json, &whole)),
        ("not found", answer("404 Not Found", json, &whole)),
        ("failing", answer("500 Internal Server Error", json, &whole)),
        ("html", answer("200 OK", "Content-Type: text/html\r\n", &whole)),
        ("no type", answer("200 OK", "", &whole)),
        ("too large", answer("200 OK", json, padded(5121))),
        ("endless", {
            let head = format!("HTTP/1.1 200 OK\r\n{json}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
            let chunk = [b"1000\r\n".to_vec(), vec![b' '; 4096], b"\r\n".to_vec()].concat();
            std::iter::once(head).chain(std::iter::repeat_n(chunk, 64)).map(|part| (Duration::ZERO, part)).collect()
        }),
        ("large head", answer("200 OK", &format!("X-A: {}\r\n{json}", "a".repeat(20_000)), &whole)),
        ("cut off", vec![(Duration::ZERO, format!("HTTP/1.1 200 OK\r\n{json}Content-Length: 900\r\n\r\n{{").into())]),
        ("gibberish", vec![(Duration::ZERO, b"hello\r\n\r\n".to_vec())]),
        ("nothing", vec![]),
    ];
    for (name, script) in scripts {
        let text = refusal(fetched(move || script.clone()).await.0);
        assert!(text.contains("could not be fetched"), "{name}: {text}");
    }
    let just_fits = padded(5120);
    assert!(fetched(move || answer("200 OK", json, &just_fits)).await.0.is_ok());
}

#[tokio::test]
async fn case_414_a_slow_server_is_given_five_seconds_in_all() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 4000\r\n\r\n".to_vec();
    let drip = move || {
        let spaces = std::iter::repeat_n((Duration::from_millis(300), b" ".to_vec()), 40);
        std::iter::once((Duration::ZERO, head.clone())).chain(spaces).collect::<Script>()
    };
    let started = Instant::now();
    let text = refusal(fetched(drip).await.0);
    let took = started.elapsed();
    assert!(text.contains("could not be fetched"), "{text}");
    assert!((Duration::from_millis(4900)..Duration::from_secs(7)).contains(&took), "{took:?}");
}

#[tokio::test]
async fn case_414_invalid_utf_8_and_invalid_documents_are_refused_with_the_reason() {
    let text = refusal(fetched(|| stage::document(b"{\"client_name\":\"\xff\"}")).await.0);
    assert!(text.contains("UTF-8"), "{text}");
    let text = refusal(fetched(|| stage::document("{}")).await.0);
    assert!(text.contains("client_id that equals its own address"), "{text}");
}

#[tokio::test]
async fn a_certificate_of_another_host_is_not_believed() {
    let play = |_: &str| stage::document(app_document().to_string());
    let stage = Stage::certified(&["evil.example"], play).await;
    let documents = Documents::reaching(stage.client());
    assert!(refusal(documents.get(ID, 0).await).contains("could not be fetched"));
    assert!(stage.asked().is_empty());
}

#[tokio::test]
async fn a_document_is_remembered_until_it_is_too_old() {
    let stage = Stage::open(|_| stage::document(app_document().to_string())).await;
    let documents = Documents::reaching(stage.client());
    for (now, fetches) in [(0, 1), (MINUTE, 1), (10 * MINUTE - 1, 1), (10 * MINUTE, 2), (19 * MINUTE, 2)] {
        assert!(documents.get(ID, now).await.is_ok());
        assert_eq!(stage.asked().len(), fetches, "at {now}");
    }
}

#[tokio::test]
async fn case_415_a_failure_is_not_remembered() {
    let tries = AtomicUsize::new(0);
    let (first, stage) = {
        let stage = Stage::open(move |_| match tries.fetch_add(1, Ordering::SeqCst) {
            0 => answer("503 Service Unavailable", "", ""),
            _ => stage::document(app_document().to_string()),
        })
        .await;
        let documents = Documents::reaching(stage.client());
        ((documents.get(ID, 0).await, documents.get(ID, 0).await), stage)
    };
    refusal(first.0);
    assert!(first.1.is_ok());
    assert_eq!(stage.asked().len(), 2);
}

#[tokio::test]
async fn case_420_fetches_and_memory_are_bounded_and_one_address_is_fetched_once() {
    let stage = Stage::open(|path| {
        let id = format!("https://app.example{path}");
        let body = json!({"client_id": id, "redirect_uris": ["http://127.0.0.1/cb"]}).to_string();
        vec![(Duration::from_millis(500), stage::document(body).remove(0).1)]
    })
    .await;
    let documents = Arc::new(Documents::reaching(stage.client()));
    let ask = |id: String| {
        let documents = documents.clone();
        tokio::spawn(async move { documents.get(&id, 0).await })
    };
    let same: Vec<_> = (0..20).map(|_| ask("https://app.example/same".into())).collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let others: Vec<_> = (0..20).map(|number| ask(format!("https://app.example/{number}"))).collect();
    let (mut read, mut busy) = (0, 0);
    for asked in others {
        match asked.await.expect("no panic") {
            Ok(_) => read += 1,
            Err(Failure::Failed(Error::Unavailable)) => busy += 1,
            Err(_) => panic!("neither read nor busy"),
        }
    }
    assert_eq!((read, busy), (AT_ONCE - 1, 21 - AT_ONCE));
    for asked in same {
        assert!(asked.await.expect("no panic").is_ok());
    }
    assert_eq!(stage.asked().len(), AT_ONCE);

    let kept = Registration::parse(&app_document(), crate::oauth::Origin::Open).expect("valid");
    for number in 0..5000 {
        let kept = Arc::new(Kept { registration: kept.clone(), good_until: HOUR });
        documents.read.insert(format!("https://app.example/many/{number}"), kept);
    }
    assert!(documents.read.len() <= REMEMBERED + 64, "{}", documents.read.len());
}
