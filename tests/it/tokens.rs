//! Codes, access tokens and refresh families.

use posthorn::accounts;
use posthorn::clock::{HOUR, MINUTE, SECOND};
use posthorn::credentials::{self, Claims, Permission, SigningKey};
use posthorn::oauth::Token;
use posthorn::secret;
use serde_json::{Value, json};

use crate::flow::{REDIRECT, VERIFIER, app_named, text};
use crate::harness::{BASE, NOW, TestApp, on_both};
use crate::store::Store;

/// Several requests at once, their statuses sorted.
async fn at_once(app: &TestApp, form: &str, count: usize) -> Vec<crate::harness::Answer> {
    futures_util::future::join_all((0..count).map(|_| app.token(form))).await
}

async fn live_tokens(app: &TestApp) -> i64 {
    let rows = app
        .store
        .rows("SELECT CAST(COUNT(*) AS TEXT) FROM oauth_grants WHERE refresh_hash IS NOT NULL AND revoked_at IS NULL")
        .await;
    rows[0][0].as_deref().expect("a count").parse().expect("a number")
}

on_both! {
    async fn decisions_4_a_code_becomes_tokens_that_the_api_honours(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        let code = app.code(&client, &owner).await;
        let answer = app.token(&TestApp::exchange(&client, &code)).await;
        assert_eq!((answer.status, answer.header("cache-control")), (200, Some("no-store")));
        let tokens = answer.json();
        assert_eq!((&tokens["token_type"], &tokens["expires_in"]), (&json!("Bearer"), &json!(900)));
        assert_eq!(tokens["scope"], "full_access emails:send");
        assert_eq!(app.works(&tokens).await, 200);
        let grants = app.get("/oauth/grants").key(text(&tokens, "access_token")).send().await.json();
        assert_eq!(grants["data"][0]["client"]["name"], "App");
        let told = app.store.rows("SELECT address, line FROM email_recipients").await;
        assert_eq!(told, [[Some("owner@example.com".to_owned()), Some("capture".to_owned())]]);
        app.clock.advance(900 * SECOND);
        app.get("/events").key(text(&tokens, "access_token")).send().await.refused(401, "invalid_token");
    }

    async fn decisions_4_a_code_is_bound_and_used_once(app: TestApp) {
        let (client, other) = (app.client(app_named("App")).await, app.client(app_named("Other")).await);
        let owner = app.owner().await;
        let code = app.code(&client, &owner).await;
        let good = TestApp::exchange(&client, &code);
        // Not his, or not here: the code stays good.
        app.token(&TestApp::exchange(&other, &code)).await.oauth_refused(400, "invalid_grant");
        app.token(&good.replace("callback", "other")).await.oauth_refused(400, "invalid_grant");
        app.token(&good.replace(VERIFIER, "short")).await.oauth_refused(400, "invalid_request");
        let tokens = app.token(&good).await.json();
        assert_eq!(app.works(&tokens).await, 200);
        // Once more: everything that came of it ends.
        app.token(&good).await.oauth_refused(400, "invalid_grant");
        assert_eq!(app.works(&tokens).await, 401);
        app.refresh(&client, text(&tokens, "refresh_token")).await.oauth_refused(400, "invalid_grant");
        assert_eq!(live_tokens(&app).await, 0);

        let burnt = app.code(&client, &owner).await;
        let good = TestApp::exchange(&client, &burnt);
        app.token(&good.replace(VERIFIER, &VERIFIER.replace('a', "b"))).await.oauth_refused(400, "invalid_grant");
        app.token(&good).await.oauth_refused(400, "invalid_grant");
        let late = app.code(&client, &owner).await;
        app.clock.advance(120 * SECOND);
        app.token(&TestApp::exchange(&client, &late)).await.oauth_refused(400, "invalid_grant");
    }

    async fn case_407_of_20_redemptions_at_once_one_succeeds(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        let code = app.code(&client, &owner).await;
        let answers = at_once(&app, &TestApp::exchange(&client, &code), 20).await;
        let granted = answers.iter().filter(|answer| answer.status == 200).count();
        assert!(granted <= 1, "{granted} succeeded");
        assert!(live_tokens(&app).await <= 1);
    }

    async fn decisions_4_a_refresh_repeats_its_successor_for_a_minute(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        let first = app.tokens(&client, &owner).await;
        let old = text(&first, "refresh_token").to_owned();
        let form = format!("grant_type=refresh_token&client_id={client}&refresh_token={old}");
        let answers = at_once(&app, &form, 20).await;
        assert!(answers.iter().all(|answer| answer.status == 200), "all 20 are answered");
        let next: std::collections::HashSet<String> =
            answers.iter().map(|answer| text(&answer.json(), "refresh_token").to_owned()).collect();
        assert_eq!((next.len(), live_tokens(&app).await), (1, 1), "one successor");
        app.clock.set_wall(-5 * MINUTE);
        assert_eq!(app.refresh(&client, &old).await.status, 200, "a clock that was set back changes nothing");
        app.clock.advance(5 * MINUTE + 60 * SECOND);
        assert_eq!(app.refresh(&client, &old).await.status, 200);
        app.clock.advance(SECOND);
        app.refresh(&client, &old).await.oauth_refused(400, "invalid_grant");
        let newest = next.into_iter().next().expect("a successor");
        app.refresh(&client, &newest).await.oauth_refused(400, "invalid_grant");
        assert_eq!((app.works(&first).await, live_tokens(&app).await), (401, 0), "two holders: the grant has ended");
        assert_eq!(app.count("emails").await, 2, "the owner is told of the grant and of its end");
    }

    async fn decisions_4_an_old_token_after_its_successor_was_used_ends_the_grant(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        let first = app.tokens(&client, &owner).await;
        let second = app.refresh(&client, text(&first, "refresh_token")).await.json();
        assert_eq!(app.refresh(&client, text(&second, "refresh_token")).await.status, 200);
        app.refresh(&client, text(&first, "refresh_token")).await.oauth_refused(400, "invalid_grant");
        assert_eq!((app.works(&second).await, live_tokens(&app).await), (401, 0));
    }

    async fn a_grants_id_alone_does_not_make_an_old_token(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        let tokens = app.tokens(&client, &owner).await;
        let grants = app.get("/oauth/grants").key(text(&tokens, "access_token")).send().await.json();
        let forged = Token::first(text(&grants["data"][0], "id").parse().expect("an id")).text();
        app.refresh(&client, &forged).await.oauth_refused(400, "invalid_grant");
        assert_eq!((app.works(&tokens).await, live_tokens(&app).await), (200, 1), "nobody proved to hold two");
        assert_eq!(app.refresh(&client, text(&tokens, "refresh_token")).await.status, 200);
    }

    /// Before tokens named their grant they were 256 bits and no more.
    async fn tokens_from_before_families_were_rows_go_on(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        app.tokens(&client, &owner).await;
        let (older, old) = (secret::token(), secret::token());
        let hex = |token: &str| secret::hash(token).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        for token in [&older, &old] {
            app.store.run(&format!(
                "INSERT INTO refresh_tokens (hash, grant_id, expires_at) SELECT {}, id, {} FROM oauth_grants",
                app.store.bytes(&hex(token)), NOW + 24 * HOUR)).await;
        }
        let set = format!("UPDATE oauth_grants SET family_hash = NULL, refresh_hash = {}", app.store.bytes(&hex(&old)));
        app.store.run(&set).await;
        let first = app.refresh(&client, &old).await.json();
        let again = app.refresh(&client, &old).await.json();
        assert_eq!(text(&first, "refresh_token"), text(&again, "refresh_token"), "the same successor");
        assert_eq!(app.refresh(&client, text(&first, "refresh_token")).await.status, 200);
        app.refresh(&client, &older).await.oauth_refused(400, "invalid_grant");
        assert_eq!((app.works(&first).await, live_tokens(&app).await), (401, 0), "an old one still ends the grant");
    }

    async fn rfc_6749_6_scopes_can_be_narrowed_and_not_widened(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        let first = app.tokens(&client, &owner).await;
        let form = |token: &str, scope: &str| {
            format!("grant_type=refresh_token&client_id={client}&refresh_token={token}&scope={scope}")
        };
        let narrow = app.token(&form(text(&first, "refresh_token"), "emails:send")).await.json();
        assert_eq!(narrow["scope"], "emails:send");
        app.get("/events").key(text(&narrow, "access_token")).send().await.refused(403, "invalid_permission");
        app.token(&form(text(&narrow, "refresh_token"), "openid")).await.oauth_refused(400, "invalid_scope");
        let whole = app.refresh(&client, text(&narrow, "refresh_token")).await.json();
        assert_eq!(whole["scope"], "full_access emails:send", "the refresh token keeps the whole set");
    }

    async fn a_token_of_another_client_is_left_alone(app: TestApp) {
        let (client, other) = (app.client(app_named("App")).await, app.client(app_named("Other")).await);
        let owner = app.owner().await;
        let tokens = app.tokens(&client, &owner).await;
        app.refresh(&other, text(&tokens, "refresh_token")).await.oauth_refused(400, "invalid_grant");
        let form = format!("client_id={other}&token={}", text(&tokens, "refresh_token"));
        let revoked = app.post("/oauth/revoke").body("application/x-www-form-urlencoded", form).send().await;
        assert_eq!((revoked.status, revoked.text().as_str()), (200, ""));
        assert_eq!((app.works(&tokens).await, live_tokens(&app).await), (200, 1));
        app.refresh(&client, text(&tokens, "access_token")).await.oauth_refused(400, "invalid_grant");
        app.clock.advance(60 * 24 * HOUR);
        app.refresh(&client, text(&tokens, "refresh_token")).await.oauth_refused(400, "invalid_grant");
    }

    async fn rfc_7009_what_is_given_back_is_dead_at_once_in_every_process(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        let other = TestApp::open(&app.store, &[]).await;
        let tokens = app.tokens(&client, &owner).await;
        assert_eq!(other.works(&tokens).await, 200);
        let give = async |token: &str| {
            let form = format!("client_id={client}&token={token}&token_type_hint=nonsense");
            app.post("/oauth/revoke").body("application/x-www-form-urlencoded", form).send().await.status
        };
        assert_eq!(give(text(&tokens, "access_token")).await, 200);
        assert_eq!((app.works(&tokens).await, other.works(&tokens).await), (401, 401), "that token");
        let next = app.refresh(&client, text(&tokens, "refresh_token")).await.json();
        assert_eq!(other.works(&next).await, 200, "the grant lives");
        assert_eq!((give(text(&tokens, "refresh_token")).await, give("unknown").await), (200, 200));
        assert_eq!((app.works(&next).await, other.works(&next).await), (401, 401));
        app.refresh(&client, text(&next, "refresh_token")).await.oauth_refused(400, "invalid_grant");
        app.post("/oauth/revoke").body("application/x-www-form-urlencoded", "client_id=x&token=y").send().await
            .oauth_refused(401, "invalid_client");
    }

    async fn case_325_revocation_wins_over_a_refresh_at_the_same_moment(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        for _ in 0..6 {
            let tokens = app.tokens(&client, &owner).await;
            let token = text(&tokens, "refresh_token");
            let form = format!("client_id={client}&token={token}");
            let revoke = app.post("/oauth/revoke").body("application/x-www-form-urlencoded", form).send();
            let (revoked, _) = tokio::join!(revoke, app.refresh(&client, token));
            assert_eq!(revoked.status, 200);
            assert_eq!((live_tokens(&app).await, app.works(&tokens).await), (0, 401));
        }
    }

    async fn who_is_shut_out_takes_his_tokens_along(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        let workspace = app.workspace().await;
        let tokens = app.tokens(&client, &owner).await;
        app.app.db.commit(posthorn::oauth::disable_client(&client, Some(1))).await.expect("shut out");
        assert_eq!(app.works(&tokens).await, 401);
        assert!(app.refresh(&client, text(&tokens, "refresh_token")).await.status >= 400);
        app.app.db.commit(posthorn::oauth::disable_client(&client, None)).await.expect("let in");
        let tokens = app.tokens(&client, &owner).await;
        let code = app.code(&client, &owner).await;
        app.app.db.commit(accounts::remove_member(workspace, owner.id, &app.clock)).await.expect("removed");
        assert_eq!(app.works(&tokens).await, 401);
        app.refresh(&client, text(&tokens, "refresh_token")).await.oauth_refused(400, "invalid_grant");
        app.token(&TestApp::exchange(&client, &code)).await.oauth_refused(400, "invalid_grant");
    }

    async fn issue_10_what_disabling_a_user_ended_enabling_does_not_revive(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        let tokens = app.tokens(&client, &owner).await;
        let code = app.code(&client, &owner).await;
        let made = app.post("/api-keys").key(text(&tokens, "access_token")).json(json!({"name": "through"})).send().await;
        let through = made.json();
        assert_eq!(app.get("/events").key(text(&through, "token")).send().await.status, 200);
        assert_eq!(app.get("/dashboard/").header("cookie", &owner.cookie).send().await.status, 200);

        app.app.db.commit(accounts::disable_user(owner.id, &app.clock)).await.expect("disabled");
        app.app.db.commit(accounts::enable_user(owner.id)).await.expect("enabled");
        assert_eq!(app.works(&tokens).await, 401);
        app.refresh(&client, text(&tokens, "refresh_token")).await.oauth_refused(400, "invalid_grant");
        app.token(&TestApp::exchange(&client, &code)).await.oauth_refused(400, "invalid_grant");
        app.get("/events").key(text(&through, "token")).send().await.refused(403, "invalid_api_key");
        assert_eq!(app.get("/dashboard/").header("cookie", &owner.cookie).send().await.status, 303, "to the log-in");
        let reason = app.store.value("SELECT revoked_reason FROM oauth_grants").await;
        assert_eq!(reason.as_deref(), Some("user_disabled"));
        // Who logs in again may let the app in again.
        let again = app.browser(owner.id, &owner.email).await;
        assert_eq!(app.works(&app.tokens(&client, &again).await).await, 200);
    }

    async fn issue_10_a_used_code_without_its_verifier_ends_nothing(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        let code = app.code(&client, &owner).await;
        let good = TestApp::exchange(&client, &code);
        let tokens = app.token(&good).await.json();
        app.token(&good.replace(VERIFIER, &VERIFIER.replace('a', "b"))).await.oauth_refused(400, "invalid_grant");
        app.token(&good.replace("callback", "other")).await.oauth_refused(400, "invalid_grant");
        assert_eq!((app.works(&tokens).await, live_tokens(&app).await), (200, 1), "seen is not held");
        app.token(&good).await.oauth_refused(400, "invalid_grant");
        assert_eq!((app.works(&tokens).await, live_tokens(&app).await), (401, 0), "used twice by who holds it");
    }

    async fn issue_10_without_grace_a_refresh_token_works_once(store: Store) {
        let app = TestApp::open(&store, &["--refresh-grace=0"]).await;
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        let first = app.tokens(&client, &owner).await;
        assert_eq!(app.refresh(&client, text(&first, "refresh_token")).await.status, 200);
        app.refresh(&client, text(&first, "refresh_token")).await.oauth_refused(400, "invalid_grant");
        assert_eq!((app.works(&first).await, live_tokens(&app).await), (401, 0), "two holders: the grant has ended");
    }

    async fn a_credential_can_end_itself(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        let tokens = app.tokens(&client, &owner).await;
        let token = text(&tokens, "access_token");
        let made = app.post("/api-keys").key(token).json(json!({"name": "its own"})).send().await.json();
        let key = text(&made, "token");
        let grants = app.get("/oauth/grants").key(token).send().await.json();
        let grant = grants["data"][0]["id"].as_str().expect("an id").to_owned();
        let (alone, other) = (app.key(Permission::FullAccess).await, app.full_key().await);
        let ended = app.delete(format!("/api-keys/{}", alone.id)).key(&alone.secret).send().await;
        assert_eq!(ended.status, 200, "{}", ended.text());
        app.get("/events").key(&alone.secret).send().await.refused(403, "invalid_api_key");
        let ended = app.delete(format!("/oauth/grants/{grant}")).key(token).send().await;
        assert_eq!(ended.status, 200, "{}", ended.text());
        app.get("/events").key(token).send().await.refused(401, "invalid_token");
        app.get("/events").key(key).send().await.refused(403, "invalid_api_key");
        assert_eq!(app.get("/events").key(&other).send().await.status, 200);
    }

    async fn issue_10_a_repeated_revocation_changes_nothing(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        let tokens = app.tokens(&client, &owner).await;
        let late = app.tokens(&client, &owner).await;
        let number = async || app.store.value("SELECT number FROM revisions WHERE topic = 'access'").await;
        let revoke = async |token: &str| {
            let form = format!("client_id={client}&token={token}");
            let answer = app.post("/oauth/revoke").body("application/x-www-form-urlencoded", form).send().await;
            assert_eq!(answer.status, 200, "{}", answer.text());
        };
        for token in [text(&tokens, "access_token"), text(&tokens, "refresh_token")] {
            let before = number().await;
            revoke(token).await;
            let once = number().await;
            assert_ne!(once, before);
            for _ in 0..3 {
                revoke(token).await;
            }
            assert_eq!(number().await, once, "a repeat");
        }
        app.clock.advance(900 * SECOND);
        let before = number().await;
        revoke(text(&late, "access_token")).await;
        assert_eq!(number().await, before, "one that has expired");
        assert_eq!(app.count("revoked_tokens").await, 1);
    }

    async fn case_328_a_key_made_through_a_grant_dies_with_it(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        let tokens = app.tokens(&client, &owner).await;
        let made = app.post("/api-keys").key(text(&tokens, "access_token")).json(json!({"name": "k"})).send().await.json();
        assert_eq!(app.get("/events").key(text(&made, "token")).send().await.status, 200);
        let grants = app.get("/oauth/grants").key(text(&made, "token")).send().await.json();
        let path = format!("/oauth/grants/{}", text(&grants["data"][0], "id"));
        let own = app.full_key().await;
        let ended = app.delete(&path).key(&own).send().await.json();
        assert_eq!((&ended["object"], &ended["revoked_reason"]), (&json!("oauth_grant"), &json!("revoked_from_api")));
        app.get("/events").key(text(&made, "token")).send().await.refused(403, "invalid_api_key");
        app.delete(&path).key(&own).send().await.refused(404, "not_found");
    }

    async fn rfc_9068_forged_tokens_are_refused(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        let tokens = app.tokens(&client, &owner).await;
        let pkcs8 = SigningKey::generate();
        let kept = [&[0], &pkcs8[..]].concat();
        app.app.db.commit(credentials::new_signing_key("known", &kept, app.clock.now())).await.expect("a key");
        app.clock.advance(2 * SECOND);
        let key = SigningKey::load("known".into(), &pkcs8).expect("a key");
        let stranger = SigningKey::load("known".into(), &SigningKey::generate()).expect("a key");
        let unknown = SigningKey::load("unknown".into(), &pkcs8).expect("a key");
        let grants = app.get("/oauth/grants").key(&app.full_key().await).send().await.json();
        let now = app.clock.now() / SECOND;
        let claims = Claims {
            iss: BASE.into(),
            aud: BASE.into(),
            sub: owner.id,
            client_id: client.clone(),
            scope: "full_access".into(),
            jti: uuid::Uuid::nil().into(),
            iat: now,
            exp: now + 900,
            grant: text(&grants["data"][0], "id").parse().expect("an id"),
        };
        let accepted = async |token: String| app.get("/events").key(&token).send().await.status;
        let sign = |key: &SigningKey, claims: &Claims| key.sign(claims).expect("signed");
        assert_eq!(accepted(sign(&key, &claims)).await, 200, "a token that is right in all");
        for (what, token) in [
            ("another key", sign(&stranger, &claims)),
            ("an unknown key", sign(&unknown, &claims)),
            ("iss", sign(&key, &Claims { iss: "https://other.example".into(), ..claims.clone() })),
            ("aud", sign(&key, &Claims { aud: "https://other.example".into(), ..claims.clone() })),
            ("expired by a second", sign(&key, &Claims { exp: now - 1, ..claims.clone() })),
            ("expires now", sign(&key, &Claims { exp: now, ..claims.clone() })),
            ("another client", sign(&key, &Claims { client_id: "x".into(), ..claims.clone() })),
            ("another grant", sign(&key, &Claims { grant: uuid::Uuid::nil().into(), ..claims.clone() })),
        ] {
            assert_eq!(accepted(token).await, 401, "{what}");
        }
        use base64::Engine;
        let encode = |text: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text);
        let signed = sign(&key, &claims);
        let rest = signed.split_once('.').expect("parts").1;
        let body = rest.split('.').next().expect("a payload");
        for token in [
            format!("{}.{body}.", encode(r#"{"alg":"none","typ":"at+jwt","kid":"known"}"#)),
            format!("{}.{rest}", encode(r#"{"alg":"HS256","typ":"at+jwt","kid":"known"}"#)),
            format!("{}.{rest}", encode(r#"{"alg":"ES256","typ":"JWT","kid":"known"}"#)),
            format!("{signed}x"),
            "a.b.c".into(),
        ] {
            app.get("/events").key(&token).send().await.refused(401, "invalid_token");
        }
        assert_eq!(app.works(&tokens).await, 200, "the retired key's tokens live on");
    }

    async fn spec_5_every_route_asks_for_the_scope_that_the_table_says(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        let first = app.tokens(&client, &owner).await;
        let form = format!(
            "grant_type=refresh_token&client_id={client}&refresh_token={}&scope=emails:send",
            text(&first, "refresh_token")
        );
        let narrow = app.token(&form).await.json();
        let sending = app.key(credentials::Permission::SendingAccess).await.secret;
        const SEND_ONLY: [&str; 5] =
            ["/emails", "/email", "/emails/sending", "/email/sending", "/broadcasts/{id}/send"];
        let description = app.get("/openapi.json").send().await.json();
        let mut walked = 0;
        for (path, methods) in description["paths"].as_object().expect("paths") {
            for (method, operation) in methods.as_object().expect("methods") {
                let secured = operation["security"].as_array().is_some_and(|all| all.iter().any(|one| one.get("api_key").is_some()));
                if !secured || (method == "post" && SEND_ONLY.contains(&path.as_str())) {
                    continue;
                }
                let target = path.replace(['{', '}'], "");
                let ask = |secret: Option<&str>| {
                    let request = app.request(&method.to_uppercase(), &target);
                    secret.map_or(app.request(&method.to_uppercase(), &target), |secret| request.key(secret)).send()
                };
                ask(None).await.refused(401, "missing_api_key");
                let by_key = ask(Some(&sending)).await;
                // The table is about tokens; a key that may send may send many at once.
                match path.as_str() {
                    "/emails/batch" => assert_eq!(by_key.refused(422, "validation_error"), "Send 1 to 100 emails at once, not 0."),
                    _ => drop(by_key.refused(401, "restricted_api_key")),
                }
                let answer = ask(Some(text(&narrow, "access_token"))).await;
                answer.refused(403, "invalid_permission");
                let challenge = "Bearer error=\"insufficient_scope\", scope=\"full_access\"";
                assert_eq!(answer.header("www-authenticate"), Some(challenge), "{method} {path}");
                assert!(![401, 403].contains(&ask(Some(text(&first, "access_token"))).await.status), "{method} {path}");
                walked += 1;
            }
        }
        assert!(walked >= 10, "only {walked} routes were walked");
    }

    /// Any interleaving of refreshes with any token ever seen, revocations and
    /// the passing of time leaves at most one live token, and revives nothing.
    async fn case_406_whatever_happens_to_a_family_at_most_one_token_lives(app: TestApp) {
        let (client, owner) = (app.client(app_named("App")).await, app.owner().await);
        for seed in 1..=12_u64 {
            let first = app.tokens(&client, &owner).await;
            let mut seen = vec![text(&first, "refresh_token").to_owned()];
            let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut ended = false;
            for step in 0..14 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let pick = &seen[(random >> 33) as usize % seen.len()].clone();
                match (random >> 60) % 8 {
                    0 => app.clock.advance(45 * SECOND),
                    1 => app.clock.set_wall(-10 * SECOND),
                    2 if step > 8 => {
                        let form = format!("client_id={client}&token={pick}");
                        app.post("/oauth/revoke").body("application/x-www-form-urlencoded", form).send().await;
                        ended = true;
                    }
                    _ => {
                        let answer = app.refresh(&client, pick).await;
                        assert!(!(ended && answer.status == 200), "seed {seed}: revived at step {step}");
                        match answer.status {
                            200 => {
                                let next: Value = answer.json();
                                let next = text(&next, "refresh_token").to_owned();
                                if !seen.contains(&next) {
                                    seen.push(next);
                                }
                            }
                            _ => ended = true,
                        }
                    }
                }
                let live = live_tokens(&app).await;
                assert_eq!(live, i64::from(!ended), "seed {seed}, step {step}");
            }
            app.store.run("UPDATE oauth_grants SET revoked_at = 1 WHERE revoked_at IS NULL").await;
        }
    }
}

#[test]
fn the_redirect_of_these_tests_needs_no_encoding_in_a_form() {
    assert!(!REDIRECT.contains(['&', '+', '%']));
}
