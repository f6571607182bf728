//! Logging in while strangers guess: issue 10, A5.

use futures_util::future::join_all;
use posthorn::accounts::{self, Role};
use posthorn::auth;

use crate::harness::{Answer, TestApp, on_both};

const EMAIL: &str = "owner@example.com";
const PASSWORD: &str = "correct horse battery";

async fn owner(app: &TestApp) {
    let workspace =
        accounts::only_workspace(&app.app.db, &app.clock).await.expect("a workspace").expect("the only one");
    let email = EMAIL.parse().expect("an address");
    let hash = auth::hash_password(PASSWORD);
    let (_, batch) = accounts::new_user(&app.clock, &email, &hash, &workspace, Role::Owner);
    accounts::create_user(&app.app.db, batch).await.expect("a user");
}

/// A browser: where it is, and its cookies.
struct Browser {
    address: String,
    cookies: String,
    token: String,
}

impl Browser {
    async fn open(app: &TestApp, address: &str) -> Browser {
        let page = app.get("/dashboard/login").from(address).send().await;
        let text = page.text();
        let token = text.split("name=\"token\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
        Browser { address: address.into(), cookies: cookies(&page), token: token.expect("a form's token").into() }
    }

    async fn log_in(&self, app: &TestApp, password: &str) -> Answer {
        let form = format!("token={}&email={}&password={password}", self.token, EMAIL.replace('@', "%40"));
        let request = app.post("/dashboard/login").from(&self.address).header("cookie", &self.cookies);
        request.body("application/x-www-form-urlencoded", form).send().await
    }

    async fn guess(&self, app: &TestApp) -> u16 {
        self.log_in(app, "wrong").await.status
    }

    async fn succeed(&mut self, app: &TestApp) {
        let answer = self.log_in(app, &PASSWORD.replace(' ', "+")).await;
        assert_eq!(answer.status, 303, "{}", answer.text());
        self.cookies = format!("{}; {}", self.cookies, cookies(&answer));
    }
}

fn cookies(answer: &Answer) -> String {
    let all = answer.headers.get_all("set-cookie").iter().filter_map(|cookie| cookie.to_str().ok());
    all.filter_map(|cookie| cookie.split(';').next()).collect::<Vec<_>>().join("; ")
}

on_both! {
    async fn issue_10_of_120_guesses_at_once_ten_are_judged(app: TestApp) {
        owner(&app).await;
        let browser = Browser::open(&app, "192.0.2.1").await;
        let answers = join_all((0..120).map(|_| browser.guess(&app))).await;
        assert_eq!(answers.iter().filter(|status| **status == 422).count(), 10, "{answers:?}");
        assert_eq!(answers.iter().filter(|status| **status == 429).count(), 110, "{answers:?}");
        let answer = browser.log_in(&app, &PASSWORD.replace(' ', "+")).await;
        assert_eq!(answer.status, 429, "who guessed too often is not told that he is right");
    }

    async fn issue_10_many_right_log_ins_at_once_are_all_let_in(app: TestApp) {
        owner(&app).await;
        let browser = Browser::open(&app, "127.0.0.1").await;
        let answers = join_all((0..15).map(|_| browser.log_in(&app, "correct+horse+battery"))).await;
        assert!(answers.iter().all(|answer| answer.status == 303));
    }

    async fn issue_10_strangers_who_guess_do_not_lock_out_a_browser_that_is_known(app: TestApp) {
        owner(&app).await;
        let mut home = Browser::open(&app, "198.51.100.1").await;
        home.succeed(&app).await;
        let device = home.cookies.split("; ").find(|cookie| cookie.starts_with("__Host-posthorn-device=")).expect("a cookie");
        home.cookies = format!("{}; {device}", home.cookies.split("; ").next().expect("the visit's cookie"));
        let stranger = Browser::open(&app, "192.0.2.1").await;
        for _ in 0..10 {
            assert_eq!(stranger.guess(&app).await, 422);
        }
        assert_eq!(stranger.guess(&app).await, 429);
        assert_eq!(Browser::open(&app, "198.51.100.1").await.guess(&app).await, 429, "for every stranger");
        home.succeed(&app).await;
        for _ in 0..10 {
            assert_eq!(home.guess(&app).await, 422);
        }
        assert_eq!(home.guess(&app).await, 429, "its own attempts have an end, too");
        let mut forged = Browser::open(&app, "192.0.2.9").await;
        forged.cookies += "; __Host-posthorn-device=invented";
        assert_eq!(forged.guess(&app).await, 429, "nobody invents a browser that is known");
        assert_eq!(app.told().await, ["session.started"; 2], "who was let in, and none of the guesses");
    }

    async fn issue_10_failures_of_one_ipv6_household_count_together(app: TestApp) {
        owner(&app).await;
        let names = (0..51).map(|n| format!("nobody{n}@example.com"));
        let mut statuses = Vec::new();
        for (n, name) in names.enumerate() {
            let browser = Browser::open(&app, &format!("2001:db8:0:1::{n:x}")).await;
            let form = format!("token={}&email={name}&password=wrong", browser.token);
            let request = app.post("/dashboard/login").from(&browser.address).header("cookie", &browser.cookies);
            statuses.push(request.body("application/x-www-form-urlencoded", form).send().await.status);
        }
        assert_eq!((statuses[49], statuses[50]), (422, 429), "{statuses:?}");
    }

    async fn issue_10_a_users_known_browsers_have_an_end(app: TestApp) {
        owner(&app).await;
        for _ in 0..60 {
            app.clock.advance(1_000_000);
            let id = app.store.rows("SELECT id FROM users").await[0][0].clone().expect("an id");
            let (batch, _) = accounts::Device::default().remember(&app.app, id.parse().expect("an id"));
            app.app.db.commit(batch).await.expect("stored");
        }
        assert_eq!(app.count("known_devices").await, 50);
        app.clock.advance(400 * 24 * 3_600_000_000);
        accounts::sweep_devices(&app.app.db, app.clock.now()).await.expect("swept");
        assert_eq!(app.count("known_devices").await, 0);
    }
}
