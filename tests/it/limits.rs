//! Rate limits: issue 2, item 6.

use serde_json::json;

use crate::asking::{CALLBACK, query};
use crate::harness::{Answer, TestApp, on_both};
use crate::store::Store;

fn limited(answer: &Answer, longest: u64) {
    answer.oauth_refused(429, "too_many_requests");
    let wait: u64 = answer.header("retry-after").and_then(|wait| wait.parse().ok()).expect("Retry-After in seconds");
    assert!((1..=longest).contains(&wait), "{wait}");
}

fn metadata(name: &str) -> serde_json::Value {
    json!({"client_name": name, "redirect_uris": [CALLBACK]})
}

on_both! {
    async fn issue_2_over_the_rate_authorize_is_429_before_anything_is_read_or_stored(store: Store) {
        let app = TestApp::open(&store, &["--limit-loopback", "--authorize-rate=3"]).await;
        let client = app.client_for(CALLBACK).await;
        let target = format!("/oauth/authorize?{}", query(&client, &[]));
        for _ in 0..3 {
            app.get(&target).send().await.consent();
        }
        limited(&app.get(&target).send().await, 20);
        app.store.run("ALTER TABLE oauth_clients RENAME TO elsewhere").await;
        limited(&app.get("/oauth/authorize?client_id=never-seen").send().await, 20);
        limited(&app.get("/oauth/authorize").send().await, 20);
        assert_eq!(app.count("authorization_requests").await, 3);
        app.store.run("ALTER TABLE elsewhere RENAME TO oauth_clients").await;
        app.get(&target).from("192.0.2.7").send().await.consent();
    }

    async fn issue_2_refused_requests_count_against_the_rate_too(store: Store) {
        let app = TestApp::open(&store, &["--authorize-rate=2"]).await;
        for _ in 0..2 {
            assert_eq!(app.get("/oauth/authorize").from("192.0.2.1").send().await.status, 400);
        }
        limited(&app.get("/oauth/authorize").from("192.0.2.1").send().await, 30);
    }

    async fn issue_2_loopback_is_exempt_unless_a_setting_says_otherwise(store: Store) {
        let app = TestApp::open(&store, &["--authorize-rate=1", "--register-rate=1"]).await;
        for address in ["127.0.0.1", "::1", "127.8.8.8"] {
            for _ in 0..3 {
                assert_eq!(app.get("/oauth/authorize").from(address).send().await.status, 400);
                assert_eq!(app.post("/oauth/register").from(address).json(metadata("A")).send().await.status, 201);
            }
        }
    }

    async fn issue_2_forwarded_addresses_count_only_from_configured_proxies(store: Store) {
        let app = TestApp::open(&store, &["--authorize-rate=1", "--trusted-proxies=10.0.0.0/8,fd00::/8"]).await;
        let knock = async |peer: &str, forwarded: &str| {
            app.get("/oauth/authorize").from(peer).header("x-forwarded-for", forwarded).send().await.status
        };
        // A stranger cannot buy himself more by inventing addresses.
        assert_eq!(knock("192.0.2.1", "198.51.100.1").await, 400);
        assert_eq!(knock("192.0.2.1", "198.51.100.2").await, 429);
        assert_eq!(knock("192.0.2.1", "127.0.0.1").await, 429);
        // Behind a proxy each visitor has a rate of his own.
        assert_eq!(knock("10.0.0.1", "198.51.100.1").await, 400);
        assert_eq!(knock("10.0.0.1", "198.51.100.2").await, 400);
        assert_eq!(knock("fd00::1", "198.51.100.1").await, 429);
        // The address that the proxy saw counts, not what stands before it.
        assert_eq!(knock("10.0.0.1", "203.0.113.9, 198.51.100.1").await, 429);
        assert_eq!(knock("10.0.0.1", "127.0.0.1, 198.51.100.1").await, 429);
        assert_eq!(knock("10.0.0.1", "198.51.100.1, 10.0.0.2").await, 429);
        assert_eq!(knock("10.0.0.1", "nonsense").await, 400, "then it is the proxy's own");
        assert_eq!(knock("10.0.0.1", "nonsense").await, 429);
        assert_eq!(app.get("/oauth/authorize").from("10.0.0.9").send().await.status, 400);
    }

    async fn issue_10_a_forwarded_address_may_have_a_port(store: Store) {
        let app = TestApp::open(&store, &["--authorize-rate=1", "--trusted-proxies=10.0.0.0/8"]).await;
        let knock = async |forwarded: &str| {
            app.get("/oauth/authorize").from("10.0.0.1").header("x-forwarded-for", forwarded).send().await.status
        };
        assert_eq!(knock("198.51.100.1").await, 400);
        assert_eq!(knock("198.51.100.1:50412").await, 429);
        assert_eq!(knock("2001:db8::1").await, 400);
        for same in ["[2001:db8::1]:443", "[2001:db8::1]", "[2001:db8::2]:1"] {
            assert_eq!(knock(same).await, 429, "{same}");
        }
    }

    async fn what_a_visitor_writes_before_his_address_does_not_hide_it(store: Store) {
        let app = TestApp::open(&store, &["--authorize-rate=1", "--trusted-proxies=10.0.0.0/8"]).await;
        let knock = async |forwarded: &[u8]| {
            app.get("/oauth/authorize").from("10.0.0.1").header("x-forwarded-for", forwarded).send().await.status
        };
        assert_eq!(knock(b"198.51.100.1").await, 400);
        assert_eq!(knock(b"\xff, 198.51.100.1").await, 429);
        assert_eq!(knock(b"\xc3\xa9, 203.0.113.1, 198.51.100.1").await, 429);
    }

    async fn case_375_the_21st_registration_in_an_hour_from_one_address_is_429(app: TestApp) {
        let before = app.count("oauth_clients").await;
        for n in 0..20 {
            let answer = app.post("/oauth/register").from("192.0.2.1").json(metadata(&format!("A{n}"))).send().await;
            assert_eq!(answer.status, 201, "{}", answer.text());
        }
        let answer = app.post("/oauth/register").from("192.0.2.1").json(metadata("over")).send().await;
        limited(&answer, 180);
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
        assert_eq!(app.count("oauth_clients").await, before + 20);
        assert_eq!(app.post("/oauth/register").from("192.0.2.2").json(metadata("B")).send().await.status, 201);
    }
}
