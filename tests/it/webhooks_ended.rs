//! Whichever way something ends, webhooks are told, once: grants, runs under way, and what people are written to.

use posthorn::accounts::{self, Role};
use posthorn::automations;
use posthorn::clock::{HOUR, MINUTE};
use posthorn::contacts;
use serde_json::{Value, json};

use crate::account_pages::with_password;
use crate::automation_pages::page;
use crate::engine_webhooks::Listener;
use crate::flow::{Person, app_named, text};
use crate::form_filling::{Filled, leads_to};
use crate::harness::{TestApp, on_both};
use crate::inbound::{Hall, complaint, gone};
use crate::sending::Stage;
use crate::store::Store;
use crate::webhooks::Teller;
use crate::webhooks_told::{listen, told};

/// A workspace whose apps come and go, and somebody who listens.
struct Scene {
    teller: Teller,
    listener: Listener,
    client: String,
}

impl Scene {
    async fn open(store: &Store) -> Scene {
        let settings = ["--private-webhooks", "--senders=any", "--refresh-grace=0"];
        let teller = Teller::new(TestApp::open(store, &settings).await).await;
        let listener = listen(&teller).await;
        let client = teller.app.client(app_named("Guest")).await;
        Scene { teller, listener, client }
    }

    fn app(&self) -> &TestApp {
        &self.teller.app
    }

    /// A new grant and its tokens.
    async fn grant(&self, person: &Person) -> (String, Value) {
        let tokens = self.app().tokens(&self.client, person).await;
        let grant = text(&self.teller.get("/oauth/grants").await["data"][0], "id").to_owned();
        (grant, tokens)
    }

    /// The grants of which it was told that they ended, and why.
    async fn ended(&self) -> Vec<(String, String)> {
        let all = told(&self.teller, &self.listener).await;
        let ended = all.iter().filter(|(kind, _)| kind == "oauth.grant.revoked");
        ended.map(|(_, data)| (text(data, "id").to_owned(), text(data, "revoked_reason").to_owned())).collect()
    }

    /// The last of them, and how many there are.
    async fn last_ended(&self) -> (usize, String, String) {
        let mut all = self.ended().await;
        let count = all.len();
        let (id, reason) = all.pop().expect("one ended");
        (count, id, reason)
    }
}

on_both! {
    async fn issue_14_a_grant_that_is_taken_back_or_was_misused_is_told_to_have_ended(store: Store) {
        let scene = Scene::open(&store).await;
        let (app, owner) = (scene.app(), scene.app().owner().await);
        let (first, _) = scene.grant(&owner).await;
        let path = format!("/apps/{first}/revoke");
        assert_eq!(app.fill(&owner, &path, &path, "").await.status, 303);
        app.assert_told(&["app.approved", "grant.revoked"]).await;
        assert_eq!(scene.last_ended().await, (1, first, "revoked_from_dashboard".into()));

        let (second, tokens) = scene.grant(&owner).await;
        let form = format!("client_id={}&token={}", scene.client, text(&tokens, "refresh_token"));
        for _ in 0..2 {
            let given = app.post("/oauth/revoke").body("application/x-www-form-urlencoded", form.clone()).send().await;
            assert_eq!(given.status, 200, "{}", given.text());
        }
        assert_eq!(scene.last_ended().await, (2, second, "revoked_by_client".into()));

        let (third, tokens) = scene.grant(&owner).await;
        let old = text(&tokens, "refresh_token");
        assert_eq!(app.refresh(&scene.client, old).await.status, 200);
        for _ in 0..2 {
            app.refresh(&scene.client, old).await.oauth_refused(400, "invalid_grant");
        }
        assert_eq!(scene.last_ended().await, (3, third, "refresh_token_reuse".into()));

        let form = TestApp::exchange(&scene.client, &app.code(&scene.client, &owner).await);
        assert_eq!(app.token(&form).await.status, 200);
        let fourth = text(&scene.teller.get("/oauth/grants").await["data"][0], "id").to_owned();
        for _ in 0..2 {
            app.token(&form).await.oauth_refused(400, "invalid_grant");
        }
        assert_eq!(scene.last_ended().await, (4, fourth.clone(), "authorization_code_reuse".into()));
        let all = told(&scene.teller, &scene.listener).await;
        let (_, data) = all.iter().rfind(|(kind, _)| kind == "oauth.grant.revoked").expect("it was told");
        let listed = scene.teller.get("/oauth/grants").await["data"][0].clone();
        assert_eq!(listed["id"], json!(fourth));
        assert_eq!(data, &json!({"id": fourth, "revoked_reason": listed["revoked_reason"],
            "revoked_at": "2026-01-02T03:04:05.678901Z"}));
    }

    async fn issue_14_grants_end_with_their_user_and_each_is_told(store: Store) {
        let scene = Scene::open(&store).await;
        let (app, owner) = (scene.app(), scene.app().owner().await);
        let workspace = app.workspace().await;
        let (staying, _) = scene.grant(&owner).await;
        let mut count = 0;
        for (name, way) in ["removed", "disabled", "team", "role", "leaves"].into_iter().enumerate() {
            let person = app.person(&format!("p{name}@example.com"), Role::Admin).await;
            let mut both = vec![scene.grant(&person).await.0, scene.grant(&person).await.0];
            let on_page = |act: &str| format!("/team/{}/{act}", person.id);
            let reason = match way {
                "removed" => {
                    app.app.db.commit(accounts::remove_member(workspace, person.id, &app.clock)).await.expect("removed");
                    "user_removed"
                }
                "disabled" => {
                    for _ in 0..2 {
                        app.app.db.commit(accounts::disable_user(person.id, &app.clock)).await.expect("disabled");
                    }
                    "user_disabled"
                }
                "team" => {
                    assert_eq!(app.fill(&owner, &on_page("remove"), &on_page("remove"), "").await.status, 303);
                    "user_removed"
                }
                "role" => {
                    let changed = app.fill(&owner, "/team", &on_page("role"), "role=member").await;
                    assert_eq!(changed.status, 303, "{}", changed.text());
                    "user_removed"
                }
                _ => {
                    assert_eq!(app.fill(&person, "/team/leave", "/team/leave", "").await.status, 303);
                    "user_removed"
                }
            };
            let ended = scene.ended().await;
            let mut new: Vec<String> = ended[count..].iter().map(|(id, _)| id.clone()).collect();
            assert!(ended[count..].iter().all(|(_, told)| told == reason), "{way}: {ended:?}");
            count = ended.len();
            new.sort_unstable();
            both.sort_unstable();
            assert_eq!(new, both, "{way}");
        }
        assert!(scene.ended().await.iter().all(|(id, _)| *id != staying), "somebody else's stays");
        assert_eq!(app.count("oauth_grants WHERE revoked_at IS NULL").await, 1);
    }

    async fn issue_14_a_new_password_ends_apps_if_its_owner_wants_that_and_it_is_told(store: Store) {
        let scene = Scene::open(&store).await;
        let (app, owner) = (scene.app(), with_password(scene.app()).await);
        let (grant, _) = scene.grant(&owner).await;
        let form = |password: &str| format!("current=correct+horse&password={password}&password_again={password}");
        let changed = app.fill(&owner, "/password", "/password", &format!("{}&revoke_apps=on", form("battery+staple"))).await;
        assert_eq!(changed.status, 303, "{}", changed.text());
        app.assert_told(&["password.changed"]).await;
        assert_eq!(scene.last_ended().await, (1, grant, "revoked_from_dashboard".into()));
    }

    async fn issue_14_grants_end_with_their_client_in_every_workspace_and_the_apps_own_webhook_hears_nothing(store: Store) {
        let scene = Scene::open(&store).await;
        let (app, owner) = (scene.app(), scene.app().owner().await);
        let (first, _) = scene.grant(&owner).await;
        let (second, tokens) = scene.grant(&owner).await;
        let own = Listener::new(&[200]).await;
        let body = json!({"endpoint": own.url, "events": ["oauth.grant.revoked"]});
        assert_eq!(app.post("/webhooks").key(text(&tokens, "access_token")).json(body).send().await.status, 201);
        // Of another app, in the same workspace.
        let other = app.client(app_named("Other")).await;
        app.tokens(&other, &owner).await;
        app.delete_client(&scene.client).await;
        let mut ended = scene.ended().await;
        ended.sort_unstable();
        let mut both = [first, second].map(|id| (id, "client_deleted".to_owned()));
        both.sort_unstable();
        assert_eq!((ended, own.heard().len()), (both.to_vec(), 0));
        let listed = scene.teller.get("/oauth/grants").await["data"].as_array().expect("grants").clone();
        assert_eq!(listed.iter().filter(|grant| grant["revoked_at"].is_null()).count(), 1);
        assert_eq!(app.works(&tokens).await, 401);
        let page = app.see("/dashboard/apps", &owner).await.text();
        assert!(page.contains("the app was deleted"), "{page}");
    }

    async fn issue_14_two_who_end_a_grant_at_the_same_moment_tell_it_once(store: Store) {
        let scene = Scene::open(&store).await;
        let (app, owner) = (scene.app(), scene.app().owner().await);
        let mut grants = Vec::new();
        for _ in 0..8 {
            grants.push(scene.grant(&owner).await.0);
        }
        let by_api = grants.iter().map(|id| app.delete(format!("/oauth/grants/{id}")).key(&scene.teller.key).send());
        let disabled = async { app.app.db.commit(accounts::disable_user(owner.id, &app.clock)).await.expect("disabled") };
        let (answers, _) = tokio::join!(futures_util::future::join_all(by_api), disabled);
        let by_api = answers.iter().filter(|answer| answer.status == 200).count();
        let ended = scene.ended().await;
        assert_eq!(ended.iter().filter(|(_, reason)| reason == "revoked_from_api").count(), by_api);
        let mut ids: Vec<String> = ended.into_iter().map(|(id, _)| id).collect();
        ids.sort_unstable();
        grants.sort_unstable();
        assert_eq!(ids, grants);
    }

    async fn issue_14_runs_that_go_with_their_automation_or_their_contact_are_told_to_be_cancelled(store: Store) {
        let stage = Stage::new(TestApp::open(&store, &["--private-webhooks"]).await).await;
        let teller = Teller::new(TestApp::open(&store, &["--private-webhooks"]).await).await;
        let listener = listen(&teller).await;
        let steps = [Stage::trigger(), ("delay", json!({"duration": "1 day"}))];
        let (deleted, stays) = (stage.automation(&steps).await, stage.automation(&steps).await);
        let done = stage.automation(&[Stage::trigger(), ("contact_update", json!({"first_name": "A"}))]).await;
        for email in ["ada@example.com", "bob@example.com"] {
            stage.send("user.created", email, json!({})).await;
        }
        stage.work().await;
        for gone in [&deleted, &done] {
            assert_eq!(stage.app.delete(format!("/automations/{gone}")).key(&stage.key).send().await.status, 200);
        }
        stage.app.clock.advance(2 * MINUTE);
        automations::sweep_deleted(&stage.app.app).await.expect("a sweep");
        assert_eq!(store.count("runs").await, 2, "what is left of the deleted is gone");
        let erased = stage.post("/contacts/ada@example.com/erase", json!({"suppress": true})).await;
        assert_eq!(erased.status, 202, "{}", erased.text());
        while contacts::erasure_round(stage.app.app.occurrences()).await.expect("a round") {}
        assert_eq!(store.count("runs").await, 1);
        teller.app.clock.advance(HOUR);
        let told = told(&teller, &listener).await;
        let of = |kind: &str| told.iter().filter(|(found, _)| found == kind).map(|(_, data)| data.clone()).collect::<Vec<_>>();
        let cancelled = of("automation.run.cancelled");
        let from = |automation: &str| cancelled.iter().filter(|data| data["automation_id"] == automation).count();
        assert_eq!((from(&deleted), from(&stays), from(&done)), (2, 1, 0), "{cancelled:?}");
        let ada = &of("contact.deleted")[0]["id"];
        let erased = cancelled.iter().find(|data| data["automation_id"] == stays.as_str()).expect("it was told");
        assert_eq!((&erased["contact_id"], &erased["status"]), (ada, &json!("cancelled")));
        // That her address is on the list is told, and the address is not.
        let [added] = &of("suppression.added")[..] else { panic!("it is told once") };
        let entry = teller.get(&format!("/suppressions/{}", text(added, "id"))).await;
        assert_eq!((&entry["email"], &added["origin"]), (&json!("ada@example.com"), &json!("manual")));
        assert_eq!(added["email"], json!(format!("erased-{}@erased.invalid", ada.as_str().expect("an id"))));
    }

    async fn issue_14_the_suppression_list_tells_by_every_way_onto_it_and_off_it(store: Store) {
        let hall = Hall::with(&store, crate::sink::Sink::open().await, &["--private-webhooks"]).await;
        let teller = Teller::new(TestApp::open(&store, &["--private-webhooks", "--senders=any"]).await).await;
        let listener = listen(&teller).await;
        let (app, key) = (&teller.app, &teller.key);
        crate::contacts::add(app, key, json!({"email": "sad@example.com"})).await;
        for name in ["gone", "sad"] {
            let (_, path) = hall.send(&format!("{name}@example.com")).await;
            let report = if name == "gone" { gone() } else { complaint() };
            for _ in 0..2 {
                hall.bring("", &path, &report).await;
            }
        }
        let call = async |path: &str, body: Value| {
            let answer = app.post(path).key(key).json(body).send().await;
            assert!(answer.status < 300, "{path}: {}", answer.text());
        };
        call("/suppressions", json!({"email": "one@example.com"})).await;
        call("/suppressions/batch/add", json!({"emails": ["one@example.com", "two@example.com", "Two@example.com"]})).await;
        let file = "email,origin\nthree@example.com,bounce\ngone@example.com,manual\n";
        let imported = app.post("/suppressions/import").key(key).body("text/csv", file).send().await;
        assert_eq!((imported.status, &imported.json()["added"]), (201, &json!(1)), "{}", imported.text());
        let owner = app.owner().await;
        let form = Filled::of(&page(app, &owner.cookie, "/suppressions").await, "aria-labelledby=\"add");
        let added = form.with("email", "four@example.com").send(app, &owner.cookie).await;
        assert_eq!(leads_to(&added), "/suppressions?added");
        call("/suppressions/batch/remove", json!({"emails": ["two@example.com", "nobody@example.com"]})).await;
        assert_eq!(app.delete("/suppressions/gone@example.com").key(key).send().await.status, 200);
        let told = told(&teller, &listener).await;
        let of = |kind: &str| {
            let mut found: Vec<(String, String)> = told.iter().filter(|(found, _)| found == kind)
                .map(|(_, data)| (text(data, "email").to_owned(), text(data, "origin").to_owned())).collect();
            found.sort_unstable();
            found
        };
        let named = |list: &[(&str, &str)]| -> Vec<(String, String)> {
            list.iter().map(|(name, origin)| (format!("{name}@example.com"), (*origin).to_owned())).collect()
        };
        assert_eq!(of("suppression.added"), named(&[("four", "manual"), ("gone", "bounce"), ("one", "manual"),
            ("sad", "complaint"), ("three", "bounce"), ("two", "manual")]));
        assert_eq!(of("suppression.removed"), named(&[("gone", "bounce"), ("two", "manual")]));
        // Whoever complains is unsubscribed, and that is told with it.
        let updated = told.iter().find(|(kind, _)| kind == "contact.updated").expect("it is told");
        assert_eq!((&updated.1["email"], &updated.1["unsubscribed"]), (&json!("sad@example.com"), &json!(true)));
    }
}
