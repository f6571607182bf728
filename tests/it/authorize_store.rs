//! `GET /oauth/authorize` on a store that fails: it cannot be written, cannot
//! be read, or does not answer (spec 7.1).

use std::time::{Duration, Instant};

use serde_json::json;

use crate::asking::{CALLBACK, ask, query};
use crate::harness::{TestApp, on_both};

const BACK: &str = "https://app.example/cb?";
const WITH_STATE: &[(&str, Option<&str>)] = &[("state", Some("a+b%20c"))];

/// Makes every insert into a table fail, as a full or broken disk would.
async fn refuse_inserts(app: &TestApp, table: &str) {
    let sqlite = format!("CREATE TRIGGER refuse BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'no space'); END");
    let postgres = format!(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = 'disk_full'; END $$;
         CREATE TRIGGER refuse BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION refuse()"
    );
    app.store.run_either(&sqlite, &postgres).await;
}

on_both! {
    async fn spec_7_1_a_request_that_cannot_be_stored_is_a_server_error_redirect(app: TestApp) {
        let client = app.client_for(CALLBACK).await;
        refuse_inserts(&app, "authorization_requests").await;
        // The client is read from the store by the very request that then fails to write.
        let answer = ask(&app, query(&client, WITH_STATE)).await;
        answer.returned(BACK, "server_error", "&state=a+b%20c");
        ask(&app, query(&client, &[])).await.returned(BACK, "server_error", "");
        assert_eq!(app.count("authorization_requests").await, 0);
        app.store.run_either("DROP TRIGGER refuse", "DROP TRIGGER refuse ON authorization_requests").await;
        ask(&app, query(&client, WITH_STATE)).await.consent();
    }

    async fn spec_7_1_a_table_that_is_gone_is_a_server_error_redirect(app: TestApp) {
        let client = app.client_for(CALLBACK).await;
        ask(&app, query(&client, &[])).await.consent();
        app.store.run("ALTER TABLE authorization_requests RENAME TO elsewhere").await;
        ask(&app, query(&client, WITH_STATE)).await.returned(BACK, "server_error", "&state=a+b%20c");
        app.store.run("ALTER TABLE elsewhere RENAME TO authorization_requests").await;
        ask(&app, query(&client, WITH_STATE)).await.consent();
        assert_eq!(app.count("authorization_requests").await, 2);
    }

    async fn issue_2_a_store_that_cannot_be_read_is_503_json_with_retry_after(app: TestApp) {
        let client = app.client_for(CALLBACK).await;
        app.store.run("ALTER TABLE oauth_clients RENAME TO elsewhere").await;
        for changes in [WITH_STATE, &[("scope", Some("x"))]] {
            let answer = ask(&app, query(&client, changes)).await;
            answer.oauth_refused(503, "temporarily_unavailable");
            assert_eq!(answer.header("retry-after"), Some("1"));
        }
        assert_eq!(app.count("authorization_requests").await, 0);
        app.store.run("ALTER TABLE elsewhere RENAME TO oauth_clients").await;
        ask(&app, query(&client, WITH_STATE)).await.consent();
    }

    async fn case_188_a_store_that_does_not_answer_is_a_server_error_in_bounded_time(app: TestApp) {
        let client = app.client_for(CALLBACK).await;
        let lock = app.store.lock("authorization_requests").await;
        let began = Instant::now();
        let answer = ask(&app, query(&client, WITH_STATE)).await;
        answer.returned(BACK, "server_error", "&state=a+b%20c");
        assert!(began.elapsed() < Duration::from_secs(13), "{:?}", began.elapsed());
        lock.release().await;
        ask(&app, query(&client, WITH_STATE)).await.consent();
    }

    async fn decisions_2_a_store_that_fails_is_503_with_retry_after_for_the_api(app: TestApp) {
        let key = app.full_key().await;
        let id = app.event(&key, json!({"name": "a"})).await;
        app.store.run("ALTER TABLE events RENAME TO elsewhere").await;
        for call in [
            app.post("/events").json(json!({"name": "b"})),
            app.get("/events"),
            app.get(format!("/events/{id}")),
            app.patch("/events/a").json(json!({"schema": null})),
            app.delete("/events/a"),
        ] {
            let answer = call.key(&key).send().await;
            answer.refused(503, "service_unavailable");
            assert_eq!(answer.header("retry-after"), Some("1"));
        }
        app.store.run("ALTER TABLE elsewhere RENAME TO events").await;
        app.event(&key, json!({"name": "b"})).await;
        assert_eq!(app.count("events").await, 2);
    }

    async fn decisions_2_a_key_that_cannot_be_looked_up_is_503_and_never_403(app: TestApp) {
        let key = app.full_key().await;
        app.store.run("ALTER TABLE api_keys RENAME TO elsewhere").await;
        app.post("/events").key(&key).json(json!({"name": "a"})).send().await.refused(503, "service_unavailable");
        app.store.run("ALTER TABLE elsewhere RENAME TO api_keys").await;
        app.event(&key, json!({"name": "a"})).await;
    }

    async fn issue_2_readyz_tells_whether_the_store_takes_writes(app: TestApp) {
        assert_eq!(app.get("/readyz").send().await.status, 200);
        app.store.run("ALTER TABLE revisions RENAME TO elsewhere").await;
        app.get("/readyz").send().await.refused(503, "service_unavailable");
        assert_eq!(app.get("/healthz").send().await.status, 200, "the process lives");
    }

    async fn issue_10_a_prefetch_is_503_and_stores_nothing(app: TestApp) {
        let client = app.client_for(CALLBACK).await;
        let target = format!("/oauth/authorize?{}", query(&client, &[]));
        for (name, value) in
            [("sec-purpose", "prefetch"), ("sec-purpose", "prefetch;prerender"), ("purpose", "prefetch")]
        {
            let answer = app.get(&target).header(name, value).send().await;
            answer.oauth_refused(503, "temporarily_unavailable");
        }
        assert_eq!(app.count("authorization_requests").await, 0);
        app.get(&target).header("sec-purpose", "navigate").send().await.consent();
    }
}
