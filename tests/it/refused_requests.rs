//! Authorization requests that were refused, on the page of their client.

use posthorn::accounts::Role;
use posthorn::oauth;
use tokio::sync::watch;

use crate::asking::{CALLBACK, ask, encoded, query};
use crate::flow::Person;
use crate::harness::{TestApp, on_both};
use crate::store::Store;

const BACK: &str = "https://shop.example/back";

/// Registers a client on the page of the workspace, and tells its id.
async fn registered(app: &TestApp, owner: &Person) -> String {
    let fields = format!("name=Shop&redirect_uris={}&scope=all", encoded(BACK));
    let made = app.fill(owner, "/clients", "/clients", &fields).await;
    assert_eq!(made.status, 200, "{}", made.text());
    let own = "SELECT id FROM oauth_clients WHERE workspace_id IS NOT NULL";
    app.store.value(own).await.expect("an id")
}

/// Asks with an address that is not the client's.
async fn refused(app: &TestApp, client: &str, redirect_uri: &str) {
    let given = encoded(redirect_uri);
    let answer = ask(app, query(client, &[("redirect_uri", Some(&given))])).await;
    let description = answer.oauth_refused(400, "invalid_request");
    assert_eq!(
        description,
        "redirect_uri is not registered for this client; it must match a registered one exactly, only the port of a \
         loopback host may differ"
    );
}

async fn look(app: &TestApp, client: &str, person: &Person) -> String {
    let answer = app.see(&format!("/dashboard/clients/{client}"), person).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.text()
}

on_both! {
    async fn a_refused_request_stands_on_its_clients_page_in_every_process(store: Store) {
        let (app, other) = (TestApp::open(&store, &[]).await, TestApp::open(&store, &[]).await);
        let owner = app.owner().await;
        let client = registered(&app, &owner).await;
        let list = app.see("/dashboard/clients", &owner).await.text();
        assert!(list.contains(&format!("/clients/{client}\"")), "{list}");
        let back = encoded(BACK);
        ask(&app, query(&client, &[("redirect_uri", Some(&back))])).await.consent();
        let page = look(&app, &client, &owner).await;
        assert!(page.contains("None.") && page.contains(BACK), "what is accepted is not told of: {page}");
        refused(&app, &client, "https://shop.example/Back").await;
        let odd = ask(&app, query(&client, &[("redirect_uri", Some(&back)), ("scope", Some("everything"))])).await;
        odd.returned("https://shop.example/back?", "invalid_scope", "");
        for process in [&app, &other] {
            let page = look(process, &client, &owner).await;
            assert!(page.contains("https://shop.example/<mark>B</mark>ack"), "{page}");
            assert!(page.contains("Differs at character 22: `b` was expected, `B` was given."), "{page}");
            assert!(page.contains("<code>invalid_request</code>"), "{page}");
            assert!(page.contains("<code>invalid_scope</code>") && page.contains("This address is registered."), "{page}");
        }
    }

    async fn a_flood_of_refusals_is_gathered_and_the_last_are_kept(app: TestApp) {
        let owner = app.owner().await;
        let client = registered(&app, &owner).await;
        for number in 0..60 {
            refused(&app, &client, &format!("https://shop.example/{number}")).await;
            app.clock.advance(1000);
        }
        for _ in 0..30 {
            refused(&app, &client, "https://shop.example/again").await;
        }
        assert_eq!(app.count("refused_authorizations").await, 0, "no request brings about a commit");
        let page = look(&app, &client, &owner).await;
        assert_eq!(app.count("refused_authorizations").await, 20);
        assert!(page.contains("30 times") && page.contains("https://shop.example/<mark>a</mark>gain"), "{page}");
        assert!(page.contains("/<mark>5</mark>9<") && page.contains("/<mark>4</mark>1<"), "{page}");
        assert!(!page.contains("/<mark>4</mark>0<"), "{page}");
        app.clock.advance(1000);
        for number in 70..73 {
            refused(&app, &client, &format!("https://shop.example/{number}")).await;
        }
        refused(&app, &client, "https://shop.example/again").await;
        let page = look(&app, &client, &owner).await;
        assert_eq!(app.count("refused_authorizations").await, 20);
        assert!(page.contains("31 times") && page.contains("/<mark>7</mark>2<") && !page.contains("/<mark>4</mark>1<"), "{page}");
    }

    async fn whatever_was_given_can_be_kept_and_shown(app: TestApp) {
        let owner = app.owner().await;
        let client = registered(&app, &owner).await;
        ask(&app, query(&client, &[("redirect_uri", None)])).await.oauth_refused(400, "invalid_request");
        refused(&app, &client, "https://shop.example/\0<b>").await;
        refused(&app, &client, "https://shop.example/ba").await;
        refused(&app, &client, "https://shop.example/back/").await;
        refused(&app, &client, &format!("https://shop.example/{}", "\u{1f389}".repeat(2000))).await;
        let page = look(&app, &client, &owner).await;
        for sentence in [
            "No redirect address was given, or several.",
            "<mark>\u{fffd}</mark>&#60;b&#62;",
            "Differs at character 22: `b` was expected, U+FFFD was given.",
            "https://shop.example/ba<mark></mark>",
            "Differs at character 24: `c` was expected, the end was given.",
            "Differs at character 26: the end was expected, `/` was given.",
            "Differs at character 22: `b` was expected, U+1F389 was given.",
        ] {
            assert!(page.contains(sentence), "{sentence}: {page}");
        }
        let longest = app.store.value("SELECT MAX(LENGTH(redirect_uri)) FROM refused_authorizations").await;
        assert_eq!(longest.as_deref(), Some("500"));
    }

    async fn refusals_are_kept_for_those_on_whose_page_the_client_stands(app: TestApp) {
        let owner = app.owner().await;
        let client = registered(&app, &owner).await;
        let strangers = app.client_for(CALLBACK).await;
        refused(&app, &strangers, BACK).await;
        look(&app, &client, &owner).await;
        assert_eq!(app.count("refused_authorizations").await, 0, "nobody would see those of a stranger's client");
        assert_eq!(app.see(&format!("/dashboard/clients/{strangers}"), &owner).await.status, 404);
        let second = app.fill(&owner, "/workspaces", "/workspaces", "name=Second").await;
        let second = second.location().trim_end_matches('/').to_owned();
        assert_eq!(app.see(&format!("{second}/clients/{client}"), &owner).await.status, 404);
        let member = app.person("member@example.com", Role::Member).await;
        refused(&app, &client, CALLBACK).await;
        let page = look(&app, &client, &member).await;
        assert!(page.contains("Differs at character 9") && !page.contains("/delete\""), "{page}");
        assert_eq!(app.count("refused_authorizations").await, 1);
        // One is not written yet when the client is deleted.
        refused(&app, &client, "https://shop.example/later").await;
        let path = format!("/clients/{client}/delete");
        assert_eq!(app.fill(&owner, &path, &path, "").await.status, 303);
        assert_eq!(app.count("refused_authorizations").await, 0);
        let next = registered(&app, &owner).await;
        look(&app, &next, &owner).await;
        assert_eq!(app.count("refused_authorizations").await, 0, "nothing is left of a client that is gone");
    }

    async fn what_was_refused_is_written_before_a_process_ends(app: TestApp) {
        let owner = app.owner().await;
        let client = registered(&app, &owner).await;
        let (stop, stopping) = watch::channel(false);
        let noting = tokio::spawn(oauth::note_refusals(app.app.oauth().clone(), stopping));
        refused(&app, &client, CALLBACK).await;
        stop.send_replace(true);
        noting.await.expect("no panic");
        assert_eq!(app.count("refused_authorizations").await, 1);
    }
}
