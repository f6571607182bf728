//! The one-time link that creates the owner and the first workspace.

use posthorn::accounts;
use posthorn::auth;

use crate::harness::{Answer, TestApp, on_both};

async fn link(app: &TestApp) -> String {
    let token = accounts::new_setup_link(&app.app.db, &app.clock)
        .await
        .expect("a store that answers")
        .expect("nobody is there yet");
    format!("/dashboard/setup/{token}")
}

/// What the audit log was told, word by word.
async fn told(app: &TestApp) -> Vec<String> {
    let rows = app.store.rows("SELECT action, via, actor, target, address FROM audit_log ORDER BY id").await;
    rows.into_iter().map(|row| row.into_iter().flatten().collect::<Vec<_>>().join(" ")).collect()
}

async fn submit(app: &TestApp, path: &str, form: &str) -> Answer {
    app.post(path).body("application/x-www-form-urlencoded", form.to_owned()).send().await
}

const GOOD: &str =
    "workspace=Acme+%26+Sons&email=Owner%40Example.com&password=correct+horse&password_again=correct+horse";

on_both! {
    async fn issue_2_the_link_shows_a_form_and_creates_owner_and_workspace_once(app: TestApp) {
        let path = link(&app).await;
        let page = app.get(&path).send().await;
        assert_eq!((page.status, page.header("cache-control")), (200, Some("no-store")));
        for field in ["workspace", "email", "password", "password_again"] {
            assert!(page.text().contains(&format!("name=\"{field}\"")), "{field}");
        }
        let done = submit(&app, &path, GOOD).await;
        assert_eq!((done.status, done.header("location")), (303, Some("/dashboard/")), "{}", done.text());
        let found = app
            .store
            .rows(
                "SELECT u.email, m.role, w.name, u.password_hash FROM users u JOIN memberships m ON m.user_id = u.id
             JOIN workspaces w ON w.id = m.workspace_id",
            )
            .await;
        assert_eq!(found.len(), 1);
        let row: Vec<&str> = found[0].iter().map(|column| column.as_deref().expect("not null")).collect();
        assert_eq!(row[..3], ["Owner@Example.com", "owner", "Acme & Sons"]);
        assert!(auth::verify_password("correct horse", row[3]));
        assert_eq!(told(&app).await, ["workspace.created link Owner@Example.com Acme & Sons 127.0.0.1"]);

        assert_eq!(app.get(&path).send().await.status, 404, "it works once");
        assert_eq!(submit(&app, &path, &GOOD.replace("Owner", "Second")).await.status, 404);
        assert_eq!((app.count("users").await, app.count("workspaces").await), (1, 1));
        let again = accounts::new_setup_link(&app.app.db, &app.clock).await.expect("a store that answers");
        assert_eq!(again, None, "nor is there a new link once somebody is there");
    }

    async fn two_submits_at_once_make_one_owner(app: TestApp) {
        let (one, two) = (link(&app).await, link(&app).await);
        let other = TestApp::open(&app.store, &[]).await;
        let second = GOOD.replace("Owner", "Second");
        let answers =
            tokio::join!(submit(&app, &one, GOOD), submit(&other, &one, &second), submit(&other, &two, &second));
        let mut statuses = [answers.0.status, answers.1.status, answers.2.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [303, 404, 404]);
        assert_eq!((app.count("users").await, app.count("workspaces").await), (1, 1));
        assert_eq!((app.count("memberships").await, app.count("audit_log").await), (1, 1));
    }

    async fn what_was_typed_wrong_is_422_and_said_beside_the_field(app: TestApp) {
        let path = link(&app).await;
        for (form, word) in [
            ("", "A workspace needs a name"),
            (&*GOOD.replace("Acme+%26+Sons", "+"), "A workspace needs a name"),
            (&*GOOD.replace("Acme", &"x".repeat(201)), "at most 200"),
            (&*GOOD.replace("Acme", "%00"), "A workspace needs a name"),
            (&*GOOD.replace("%40", ""), "not a whole e-mail address"),
            (&*GOOD.replace("Owner", "a%00b"), "not a whole e-mail address"),
            (&*GOOD.replace("correct+horse", "short"), "8 to 512"),
            (&*GOOD.replace("again=correct", "again=other"), "The two passwords differ"),
            (&*GOOD.replace("email=", "email=%22%3E%3Cscript%3E"), "not a whole e-mail address"),
        ] {
            let page = submit(&app, &path, form).await;
            assert_eq!(page.status, 422, "{form:.60}: {}", page.text());
            assert!(page.text().contains(word), "{form:.60}: no {word}");
            assert!(!page.text().contains("correct horse"), "a password is never shown again");
            assert!(!page.text().contains("<script>"));
        }
        assert_eq!((app.count("users").await, app.count("workspaces").await), (0, 0));
        assert_eq!(submit(&app, &path, GOOD).await.status, 303, "the link still works");
    }

    async fn a_link_that_was_never_given_out_is_a_404_page(app: TestApp) {
        link(&app).await;
        for token in ["x", "%ff", "%00", &"x".repeat(43)] {
            let page = app.get(format!("/dashboard/setup/{token}")).send().await;
            assert_eq!((page.status, page.header("content-type")), (404, Some("text/html; charset=utf-8")), "{token}");
            assert_eq!(submit(&app, &format!("/dashboard/setup/{token}"), GOOD).await.status, 404);
        }
        assert_eq!(app.count("users").await, 0);
    }

    async fn a_workspace_that_a_command_made_is_taken_over(app: TestApp) {
        let path = link(&app).await;
        let key = app.full_key().await;
        assert_eq!(submit(&app, &path, GOOD).await.status, 303);
        assert_eq!(app.store.value("SELECT name FROM workspaces").await.as_deref(), Some("Acme & Sons"));
        assert_eq!(app.get("/events").key(&key).send().await.status, 200);
        let taken_over = "workspace.renamed link Owner@Example.com Default → Acme & Sons 127.0.0.1";
        assert_eq!(told(&app).await, ["workspace.created command  Default", taken_over]);
    }

    /// A command may make the first workspace between the look and the commit.
    async fn a_workspace_that_appears_meanwhile_is_not_mistaken_for_success(app: TestApp) {
        let path = link(&app).await;
        app.store
            .run_either(
                "CREATE TRIGGER skip BEFORE INSERT ON workspaces BEGIN SELECT RAISE(IGNORE); END",
                "CREATE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
             CREATE TRIGGER skip BEFORE INSERT ON workspaces FOR EACH ROW EXECUTE FUNCTION skip()",
            )
            .await;
        let answer = submit(&app, &path, GOOD).await;
        assert!(matches!(answer.status, 404 | 503), "{}", answer.status);
        assert_eq!(app.count("users").await, 0);
        app.store.run_either("DROP TRIGGER skip", "DROP TRIGGER skip ON workspaces").await;
        assert_eq!(submit(&app, &path, GOOD).await.status, 303, "nothing was used up");
    }

    async fn a_body_that_is_too_large_is_413(app: TestApp) {
        let path = link(&app).await;
        assert_eq!(submit(&app, &path, &"x".repeat(100 << 10)).await.status, 413);
    }
}
