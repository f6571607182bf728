//! Every example in Rust of the documentation and of the dashboard, one after the other. `../programs.py` writes them
//! into the file that EXAMPLES names, each as a function, and reads what is printed here.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs};

type Outcome = Result<(), Box<dyn std::error::Error>>;

include!(env!("EXAMPLES"));

/// For each example, what stands for what in it.
static GIVEN: OnceLock<Vec<Vec<(String, String)>>> = OnceLock::new();
static AT: AtomicUsize = AtomicUsize::new(0);

/// A text of the example that runs, with the address and the ids of the store that it runs on.
fn given(text: &str) -> String {
    let pairs = GIVEN.get().and_then(|all| all.get(AT.load(Ordering::Relaxed))).expect("what is given");
    pairs.iter().fold(text.to_owned(), |text, (old, new)| text.replace(old, new))
}

fn main() {
    let set = |name: &str| env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let [secret, id, time, signature, body] = ["SECRET", "ID", "TIMESTAMP", "SIGNATURE", "BODY"].map(set);
    let now = time.parse::<i64>().expect("a time");
    let verified = |body: &str, now| guide::verified(&secret, &id, &time, &signature, body.as_bytes(), now);
    assert!(verified(&body, now) && !verified("other", now) && !verified(&body, now + 301), "the guide's function");
    let headers = [("webhook-id", &id), ("webhook-timestamp", &time), ("webhook-signature", &signature)];
    let headers = headers.into_iter().map(|(name, value)| {
        (http::HeaderName::from_static(name), http::HeaderValue::from_str(value).expect("a value"))
    });
    let headers: http::HeaderMap = headers.collect();
    library(&secret, body.as_bytes(), headers.clone()).expect("a good signature");
    assert!(library(&secret, b"other", headers).is_err(), "another body is taken");

    let given = fs::read_to_string(set("GIVEN")).expect("a file");
    GIVEN.set(serde_json::from_str(&given).expect("pairs of texts")).expect("nobody has set it");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        for at in 0..COUNT {
            println!("\n@@{at}@@");
            AT.store(at, Ordering::Relaxed);
            if let Err(problem) = example(at).await {
                println!("{problem:?}");
            }
        }
    });
}
