//! The people of a workspace, their sessions, and who did what.

use posthorn::accounts::Role;
use posthorn::auth;

use crate::asking::encoded;
use crate::delivery::Post;
use crate::flow::Person;
use crate::harness::{Answer, TestApp, on_both};
use crate::sink::Sink;
use crate::store::Store;

/// The hidden fields of the form whose action ends so.
fn hidden_fields(page: &str, action: &str) -> String {
    let form = page
        .split("<form ")
        .find(|form| form.split('>').next().is_some_and(|head| head.contains(&format!("{action}\""))));
    let form = form.unwrap_or_else(|| panic!("no form for {action}: {page}"));
    let form = form.split("</form>").next().expect("a form");
    let quoted =
        |text: &str, before: &str| text.split(before).nth(1).and_then(|rest| rest.split('"').next()).map(str::to_owned);
    let hidden = form.split("<input ").filter(|input| input.starts_with("type=\"hidden\""));
    let pairs = hidden
        .filter_map(|input| Some(format!("{}={}", quoted(input, "name=\"")?, encoded(&quoted(input, "value=\"")?))));
    pairs.collect::<Vec<_>>().join("&")
}

impl TestApp {
    /// Opens a page and sends the form on it whose action ends so, with these fields.
    pub async fn fill(&self, person: &Person, page: &str, action: &str, fields: &str) -> Answer {
        let shown = self.see(&format!("/dashboard{page}"), person).await;
        assert_eq!(shown.status, 200, "{page}: {}", shown.text());
        let hidden = hidden_fields(&shown.text(), action);
        self.send_form(&format!("/dashboard{action}"), person, &format!("{hidden}&{fields}")).await
    }

    async fn role_of(&self, email: &str) -> Option<String> {
        let sql =
            format!("SELECT m.role FROM memberships m JOIN users u ON u.id = m.user_id WHERE u.email = '{email}'");
        self.store.rows(&sql).await.first().and_then(|row| row[0].clone())
    }
}

fn link(page: &str) -> String {
    let link =
        page.split("https://mail.example/dashboard/invitation/").nth(1).unwrap_or_else(|| panic!("no link: {page}"));
    let token: String = link.chars().take_while(|char| char.is_ascii_alphanumeric() || "-_".contains(*char)).collect();
    format!("/dashboard/invitation/{token}")
}

fn cookie(answer: &Answer) -> String {
    answer.header("set-cookie").and_then(|cookie| cookie.split(';').next()).expect("a cookie").to_owned()
}

on_both! {
    async fn an_invitation_makes_an_account_once(app: TestApp) {
        let owner = app.owner().await;
        let invited = app.fill(&owner, "/team", "/team", "email=new%40example.com&role=admin").await;
        assert_eq!(invited.status, 200, "{}", invited.text());
        assert!(invited.text().contains("Pass on the link yourself"), "nobody gets mail that is captured");
        let link = link(&invited.text());
        let page = app.get(&link).send().await;
        assert!(page.text().contains("new@example.com") && page.text().contains("Create account and join"), "{}", page.text());
        let short = app.post(&link).body("application/x-www-form-urlencoded", "password=short&password_again=short").send().await;
        assert_eq!(short.status, 422, "{}", short.text());
        let form = "password=correct+horse&password_again=correct+horse";
        let joined = app.post(&link).body("application/x-www-form-urlencoded", form).send().await;
        assert_eq!(joined.status, 303, "{}", joined.text());
        assert!(joined.location().ends_with("/team?joined"), "{}", joined.location());
        assert_eq!(app.role_of("new@example.com").await.as_deref(), Some("admin"));
        let seen = app.get("/dashboard/team").header("cookie", cookie(&joined)).send().await;
        assert!(seen.text().contains("Members") && seen.text().contains("new@example.com"));
        let again = app.post(&link).body("application/x-www-form-urlencoded", form).send().await;
        assert_eq!(again.status, 404, "{}", again.text());
        assert_eq!(app.told().await, ["member.invited", "member.joined"]);
    }

    async fn an_invitation_takes_an_account_that_there_is_into_the_workspace(app: TestApp) {
        let owner = app.owner().await;
        let guest = app.person("guest@example.com", Role::Member).await;
        // Into a second workspace, which the owner makes.
        let made = app.fill(&owner, "/workspaces", "/workspaces", "name=Second").await;
        assert_eq!(made.status, 303, "{}", made.text());
        let place = made.location().trim_end_matches('/').to_owned();
        let team = app.see(&format!("{place}/team"), &owner).await.text();
        let hidden = hidden_fields(&team, "/team");
        let invited = app.send_form(&format!("{place}/team"), &owner, &format!("{hidden}&email=Guest%40example.com&role=member")).await;
        let link = link(&invited.text());
        assert!(app.get(&link).send().await.text().contains("Log in with it to join"));
        let other = app.person("other@example.com", Role::Member).await;
        assert!(app.see(&link, &other).await.text().contains("You are signed in as other@example.com"));
        let page = app.see(&link, &guest).await.text();
        let joined = app.send_form(&link, &guest, &hidden_fields(&page, &link)).await;
        assert_eq!((joined.status, joined.location()), (303, format!("{place}/team?joined").as_str()));
        assert_eq!(app.see(&format!("{place}/"), &guest).await.status, 200);
        assert_eq!(app.see(&format!("{place}/"), &other).await.status, 404);
        app.assert_told(&["workspace.created", "member.invited", "member.joined"]).await;
    }

    async fn an_invitation_ends_when_it_is_withdrawn_renewed_or_old(app: TestApp) {
        let owner = app.owner().await;
        let first = link(&app.fill(&owner, "/team", "/team", "email=new%40example.com&role=member").await.text());
        let id = app.store.rows("SELECT id FROM invitations").await[0][0].clone().expect("an id");
        let renewed = app.fill(&owner, "/team", &format!("/team/invitations/{id}/renew"), "").await;
        let second = link(&renewed.text());
        assert_eq!((app.get(&first).send().await.status, app.get(&second).send().await.status), (404, 200));
        app.clock.advance(7 * 24 * 3_600_000_000 + 1);
        assert_eq!(app.get(&second).send().await.status, 404);
        let owner = app.browser(owner.id, &owner.email).await;
        let path = format!("/team/invitations/{id}/withdraw");
        assert!(app.see("/dashboard/team", &owner).await.text().contains(&format!("href=\"/dashboard{path}\"")));
        let question = app.see(&format!("/dashboard{path}"), &owner).await.text();
        assert!(question.contains("Withdraw this invitation?") && question.contains("new@example.com"), "{question}");
        assert_eq!(app.count("invitations").await, 1, "asking withdraws nothing");
        let withdrawn = app.fill(&owner, &path, &path, "").await;
        assert_eq!(withdrawn.status, 303, "{}", withdrawn.text());
        assert_eq!(app.count("invitations").await, 0);
        assert_eq!(app.see(&format!("/dashboard{path}"), &owner).await.status, 404);
        assert_eq!(app.told().await, ["member.invited", "invitation.renewed", "invitation.withdrawn"]);
    }

    async fn refused_invitations_keep_what_was_typed(app: TestApp) {
        let owner = app.owner().await;
        let wrong = app.fill(&owner, "/team", "/team", "email=nobody&role=admin").await;
        assert_eq!(wrong.status, 422);
        assert!(wrong.text().contains("value=\"nobody\"") && wrong.text().contains("not a whole e-mail address"));
        let there = app.fill(&owner, "/team", "/team", "email=Owner%40example.com&role=admin").await;
        assert!(there.status == 422 && there.text().contains("a member already"), "{}", there.text());
        let admin = app.person("admin@example.com", Role::Admin).await;
        let high = app.fill(&admin, "/team", "/team", "email=new%40example.com&role=owner").await;
        assert_eq!(high.status, 403, "nobody gives more than they have");
        let member = app.person("member@example.com", Role::Member).await;
        let page = app.see("/dashboard/team", &member).await.text();
        assert!(!page.contains("Invite somebody") && page.contains("admin@example.com"));
        assert_eq!(app.send_form("/dashboard/team", &member, "email=new%40example.com&role=member").await.status, 403);
        assert_eq!(app.count("invitations").await, 0);
    }

    async fn roles_are_changed_by_those_who_may(app: TestApp) {
        let owner = app.owner().await;
        let admin = app.person("admin@example.com", Role::Admin).await;
        let member = app.person("member@example.com", Role::Member).await;
        let path = |person: &Person, act: &str| format!("/team/{}/{act}", person.id);
        let changed = app.fill(&admin, "/team", &path(&member, "role"), "role=admin").await;
        assert_eq!(changed.status, 303, "{}", changed.text());
        assert_eq!(app.role_of("member@example.com").await.as_deref(), Some("admin"));
        assert_eq!(app.fill(&admin, "/team", &path(&member, "role"), "role=owner").await.status, 403);
        assert_eq!(app.see(&format!("/dashboard{}", path(&owner, "remove")), &admin).await.status, 200);
        let removed = app.fill(&admin, &path(&owner, "remove"), &path(&owner, "remove"), "").await;
        assert_eq!(removed.status, 403, "an admin decides nothing about owners: {}", removed.text());
        let own = app.fill(&owner, &path(&owner, "remove"), &path(&owner, "remove"), "").await;
        assert_eq!(own.status, 409, "nobody removes himself by that way: {}", own.text());
        let removed = app.fill(&owner, &path(&member, "remove"), &path(&member, "remove"), "").await;
        assert_eq!(removed.status, 303, "{}", removed.text());
        assert_eq!(app.role_of("member@example.com").await, None);
        let stranger = "/team/01890000-0000-7000-8000-000000000000/remove";
        assert_eq!(app.see(&format!("/dashboard{stranger}"), &owner).await.status, 404);
        assert_eq!(app.told().await, ["member.role_changed", "member.removed"]);
    }

    async fn the_last_owner_stays_until_another_is_made(app: TestApp) {
        let owner = app.owner().await;
        let admin = app.person("admin@example.com", Role::Admin).await;
        let refused = app.fill(&owner, "/team/leave", "/team/leave", "").await;
        assert!(refused.status == 409 && refused.text().contains("needs an owner"), "{}", refused.text());
        let path = format!("/team/{}/transfer", admin.id);
        assert_eq!(app.see(&format!("/dashboard/team/{}/transfer", owner.id), &admin).await.status, 403);
        // An admin who has seen a form of an owner has one of nobody's.
        let seen = hidden_fields(&app.see(&format!("/dashboard{path}"), &owner).await.text(), &path);
        let taken = app.send_form(&format!("/dashboard{path}"), &admin, &seen).await;
        assert!(taken.status == 403 && taken.text().contains("Only an owner of this workspace"), "{}", taken.text());
        assert_eq!(app.role_of("admin@example.com").await.as_deref(), Some("admin"));
        let transferred = app.fill(&owner, &path, &path, "").await;
        assert_eq!(transferred.status, 303, "{}", transferred.text());
        assert_eq!(app.role_of("owner@example.com").await.as_deref(), Some("admin"));
        assert_eq!(app.role_of("admin@example.com").await.as_deref(), Some("owner"));
        let left = app.fill(&owner, "/team/leave", "/team/leave", "").await;
        assert_eq!(left.status, 303, "{}", left.text());
        assert_eq!(app.role_of("owner@example.com").await, None);
        assert_eq!(app.told().await, ["workspace.transferred", "member.left"]);
    }

    async fn of_two_owners_who_leave_at_once_one_stays(app: TestApp) {
        let owner = app.owner().await;
        let second = app.person("second@example.com", Role::Owner).await;
        let forms = [&owner, &second].map(async |person| {
            let page = app.see("/dashboard/team/leave", person).await.text();
            let hidden = hidden_fields(&page, "/team/leave");
            app.send_form("/dashboard/team/leave", person, &hidden).await.status
        });
        let [first, other] = forms;
        let (first, other) = tokio::join!(first, other);
        let mut statuses = [first, other];
        statuses.sort_unstable();
        assert_eq!(statuses, [303, 409]);
    }

    async fn workspaces_are_made_and_renamed(app: TestApp) {
        let owner = app.owner().await;
        let empty = app.fill(&owner, "/workspaces", "/workspaces", "name=+").await;
        assert!(empty.status == 422 && empty.text().contains("A workspace needs a name"), "{}", empty.text());
        let member = app.person("member@example.com", Role::Member).await;
        let made = app.fill(&owner, "/workspaces", "/workspaces", "name=Second+one").await;
        assert_eq!(made.status, 303);
        assert!(app.see(made.location(), &owner).await.text().contains("Second one"));
        let log = app.see(&format!("{}audit", made.location()), &owner).await.text();
        assert!(log.contains("workspace.created") && log.contains("owner@example.com"), "its own log tells who made it: {log}");
        let renamed = app.fill(&owner, "/workspaces", "/workspaces/rename", "new_name=First").await;
        assert_eq!(renamed.status, 303, "{}", renamed.text());
        let page = app.see("/dashboard/workspaces", &owner).await.text();
        assert!(page.contains("First") && page.contains("Second one"), "{page}");
        assert!(!app.see("/dashboard/workspaces", &member).await.text().contains("New workspace"));
        assert_eq!(app.send_form("/dashboard/workspaces/rename", &member, "new_name=x").await.status, 403);
        assert_eq!(app.told().await, ["workspace.created", "workspace.created", "workspace.renamed"]);
    }

    async fn a_person_goes_to_another_workspace_and_is_led_there_next_time(app: TestApp) {
        let owner = app.owner().await;
        let first = app.workspace().await.to_string();
        let made = app.fill(&owner, "/workspaces", "/workspaces", "name=Second").await;
        let place = made.location().trim_end_matches('/').to_owned();
        let second = place.rsplit('/').next().expect("an id").to_owned();
        for (from, to) in [(&first, &second), (&second, &first)] {
            let switched = app.fill(&owner, &format!("/w/{from}/keys"), "/workspace", &format!("workspace={to}")).await;
            assert_eq!((switched.status, switched.location()), (303, format!("/dashboard/w/{to}/").as_str()));
            assert_eq!(app.see(switched.location(), &owner).await.status, 200);
            let kept = cookie(&switched);
            assert!(kept.ends_with(&format!("posthorn-workspace={to}")), "{kept}");
            let both = format!("{}; {kept}", owner.cookie);
            let next = app.get("/dashboard/keys").header("cookie", both).send_once().await;
            assert_eq!((next.status, next.location()), (307, format!("/dashboard/w/{to}/keys").as_str()));
        }
        let member = app.person("member@example.com", Role::Member).await;
        let foreign = app.fill(&owner, "/keys", "/workspace", &format!("workspace={}", owner.id)).await;
        assert_eq!((foreign.status, foreign.header("set-cookie")), (404, None), "{}", foreign.text());
        let shown = app.see("/dashboard/keys", &owner).await.text();
        let hidden = hidden_fields(&shown, "/workspace");
        let theirs = app.send_form("/dashboard/workspace", &member, &format!("{hidden}&workspace={first}")).await;
        assert_eq!((theirs.status, theirs.header("set-cookie")), (403, None), "a form is of one session");
    }

    async fn sessions_are_listed_and_ended(app: TestApp) {
        let owner = app.owner().await;
        let (other, third) = (app.browser(owner.id, &owner.email).await, app.browser(owner.id, &owner.email).await);
        let page = app.see("/dashboard/account", &owner).await.text();
        assert_eq!(page.matches("/account/sessions/end\"").count(), 2, "{page}");
        assert!(page.contains("this one"));
        let ended = app.fill(&owner, "/account", "/account/sessions/end", "").await;
        assert_eq!(ended.status, 303, "{}", ended.text());
        let alive = async |person: &Person| app.see("/dashboard/account", person).await.status == 200;
        assert_eq!([alive(&owner).await, alive(&other).await ^ alive(&third).await], [true, true]);
        let fourth = app.browser(owner.id, &owner.email).await;
        let path = "/account/sessions/end-others";
        assert!(app.see("/dashboard/account", &owner).await.text().contains(&format!("href=\"/dashboard{path}\"")));
        assert!(app.see(&format!("/dashboard{path}"), &owner).await.text().contains("Sign out everywhere else?"));
        assert!(alive(&fourth).await, "asking signs nobody out");
        assert_eq!(app.fill(&owner, path, path, "").await.status, 303);
        assert_eq!([alive(&owner).await, alive(&other).await, alive(&third).await, alive(&fourth).await], [true, false, false, false]);
        assert_eq!(app.told().await, ["session.ended", "session.others_ended"]);
        let stranger = app.person("other@example.com", Role::Member).await;
        let page = app.see("/dashboard/account", &stranger).await.text();
        assert!(!page.contains("owner@example.com"), "{page}");
    }

    async fn what_pages_and_keys_change_is_in_the_log(app: TestApp) {
        let owner = app.owner().await;
        let key = app.full_key().await;
        let made = app.fill(&owner, "/keys", "/keys", "name=web+shop&permission=full_access").await;
        assert_eq!(made.status, 200, "{}", made.text());
        let listed = app.get("/api-keys").key(&key).send().await.json();
        let id = listed["data"][0]["id"].as_str().expect("an id").to_owned();
        let path = format!("/keys/{id}/delete");
        assert_eq!(app.fill(&owner, &path, &path, "").await.status, 303);
        let made = app.post("/api-keys").key(&key).json(serde_json::json!({"name": "second"})).send().await.json();
        let id = made["id"].as_str().expect("an id").to_owned();
        assert_eq!(app.delete(format!("/api-keys/{id}")).key(&key).send().await.status, 200);
        assert_eq!(app.told().await, ["key.created", "key.deleted", "key.created", "key.deleted"]);
        let page = app.see("/dashboard/audit", &owner).await.text();
        for word in ["key.deleted", "web shop", "second", "owner@example.com", "a key", "with an API key", "127.0.0.1", &id] {
            assert!(page.contains(word), "{word}: {page}");
        }
        let member = app.person("member@example.com", Role::Member).await;
        assert_eq!(app.see("/dashboard/audit", &member).await.status, 403);
        assert!(!app.see("/dashboard/team", &member).await.text().contains("/audit\""));
        let refused = app.fill(&owner, "/keys", "/keys", "name=&permission=full_access").await;
        assert_eq!((refused.status, app.told().await.len()), (422, 4), "what did not happen is not told");
        app.clock.advance(366 * 24 * 3_600_000_000);
        posthorn::upkeep::round(&app.app).await.expect("chores");
        assert_eq!(app.count("audit_log").await, 0);
    }

    async fn a_forgotten_password_is_set_by_a_link_that_nobody_else_reads(app: TestApp) {
        let owner = app.owner().await;
        let asked = app.post("/dashboard/forgot").body("application/x-www-form-urlencoded", "email=Owner%40example.com").send().await;
        let nobody = app.post("/dashboard/forgot").body("application/x-www-form-urlencoded", "email=nobody%40example.com").send().await;
        assert_eq!((asked.status, asked.location()), (nobody.status, nobody.location()));
        let mut text = None;
        for _ in 0..200 {
            let rows = app.store.rows("SELECT text FROM emails").await;
            text = rows.first().and_then(|row| row[0].clone());
            if text.is_some() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        let text = text.expect("a letter");
        assert_eq!(app.count("emails").await, 1);
        let token = text.split("/reset/").nth(1).and_then(|rest| rest.split_whitespace().next()).expect("a link");
        let list = app.see("/dashboard/emails", &owner).await.text();
        assert!(!list.contains("new password"), "no list of a workspace shows it: {list}");
        let key = app.full_key().await;
        let listed = app.get("/emails").key(&key).send().await.json();
        assert_eq!(listed["data"].as_array().expect("a list").len(), 0);
        let path = format!("/dashboard/reset/{token}");
        let differ = app.post(&path).body("application/x-www-form-urlencoded", "password=correct+horse&password_again=x").send().await;
        assert!(differ.status == 422 && differ.text().contains("differ"));
        let form = "password=correct+horse&password_again=correct+horse";
        let set = app.post(&path).body("application/x-www-form-urlencoded", form).send().await;
        assert_eq!(set.status, 303, "{}", set.text());
        assert_eq!(app.see("/dashboard/account", &owner).await.status, 303, "every session ended");
        let hash = app.store.rows("SELECT password_hash FROM users").await[0][0].clone().expect("a hash");
        assert!(auth::verify_password("correct horse", &hash));
        assert_eq!(app.post(&path).body("application/x-www-form-urlencoded", form).send().await.status, 404);
        assert_eq!(app.told().await, ["password.reset"]);
    }

    async fn a_link_to_a_new_password_ends_after_half_an_hour(app: TestApp) {
        app.owner().await;
        app.post("/dashboard/forgot").body("application/x-www-form-urlencoded", "email=owner%40example.com").send().await;
        for _ in 0..200 {
            if app.count("reset_links").await > 0 {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        let text = app.store.rows("SELECT text FROM emails").await[0][0].clone().expect("a letter");
        let token = text.split("/reset/").nth(1).and_then(|rest| rest.split_whitespace().next()).expect("a link");
        let path = format!("/dashboard/reset/{token}");
        assert_eq!(app.get(&path).send().await.status, 200);
        app.clock.advance(30 * 60_000_000);
        assert_eq!(app.get(&path).send().await.status, 404);
    }

    async fn an_invitation_arrives_by_mail_and_stands_in_nobodys_list(store: Store) {
        let sink = Sink::open().await;
        let post = Post::relaying(&store, &sink).await;
        let owner = post.app.owner().await;
        let invited = post.app.fill(&owner, "/team", "/team", "email=new%40example.com&role=member").await;
        let page = invited.text();
        assert!(page.contains("An invitation for <bdi class=\"clip\">new@example.com</bdi>") && page.contains("on its way by mail"), "{page}");
        assert!(!page.contains("/dashboard/invitation/"), "only who is invited has the link: {page}");
        assert_eq!(post.round().await, 1);
        let [letter] = &sink.kept()[..] else { panic!("{:?}", sink.kept()) };
        assert_eq!(letter.to, "new@example.com");
        let state = store.rows("SELECT state, due_at FROM email_recipients").await;
        assert_eq!(state[0][1], None, "it is settled: {state:?}");
        let list = post.app.see("/dashboard/emails", &owner).await.text();
        assert!(!list.contains("new@example.com"), "{list}");
        let first = link(store.rows("SELECT text FROM emails").await[0][0].as_deref().expect("a letter"));
        assert_eq!(post.app.get(&first).send().await.status, 200);
        let id = store.rows("SELECT id FROM invitations").await[0][0].clone().expect("an id");
        let renewed = post.app.fill(&owner, "/team", &format!("/team/invitations/{id}/renew"), "").await.text();
        assert!(renewed.contains("on its way by mail") && !renewed.contains("/dashboard/invitation/"), "{renewed}");
        assert_eq!((post.app.get(&first).send().await.status, post.app.count("emails").await), (404, 2));
    }
}
