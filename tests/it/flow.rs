//! What a person and an app do together: log in, consent, tokens.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use posthorn::accounts::{self, Role, Workspace};
use posthorn::auth;
use posthorn::id::UserId;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::harness::{Answer, TestApp};

pub const REDIRECT: &str = "https://app.example/callback";
pub const VERIFIER: &str = "a-verifier-of-more-than-forty-three-characters-1234";

/// Somebody with an account, in a browser of his own.
pub struct Person {
    pub id: UserId,
    pub email: String,
    pub cookie: String,
}

impl TestApp {
    pub async fn person(&self, email: &str, role: Role) -> Person {
        let workspace = Workspace { id: self.workspace().await, name: "Default".into() };
        let address = email.parse().expect("an address");
        let (user, batch) = accounts::new_user(&self.clock, &address, "no password", &workspace, role);
        accounts::create_user(&self.app.db, batch).await.expect("a user");
        self.browser(user.id, email).await
    }

    pub async fn owner(&self) -> Person {
        self.person("owner@example.com", Role::Owner).await
    }

    /// A new session of a user.
    pub async fn browser(&self, id: UserId, email: &str) -> Person {
        let (stmt, cookie) = auth::start_session(&self.app, id);
        self.app.db.commit(stmt).await.expect("a session");
        let cookie = cookie.to_str().expect("ascii").split(';').next().expect("a pair").to_owned();
        Person { id, email: email.into(), cookie }
    }

    /// Starts a request for `client`, and tells the path of its consent page.
    pub async fn ask(&self, client: &str, more: &str) -> String {
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER));
        let redirect = REDIRECT.replace(':', "%3A").replace('/', "%2F");
        let answer = self
            .get(format!(
                "/oauth/authorize?client_id={client}&redirect_uri={redirect}&response_type=code\
                 &code_challenge={challenge}&code_challenge_method=S256{more}"
            ))
            .send()
            .await;
        assert_eq!(answer.status, 302, "{}", answer.text());
        answer.location().strip_prefix("https://mail.example").expect("the dashboard").to_owned()
    }

    pub async fn see(&self, page: &str, person: &Person) -> Answer {
        self.get(page).header("cookie", &person.cookie).send().await
    }

    /// Sends the consent form as it stands on the page.
    pub async fn decide(&self, page: &str, person: &Person, fields: &str) -> Answer {
        let shown = self.see(page, person).await;
        let token = form_token(&shown.text(), page).unwrap_or_default();
        self.send_form(page, person, &format!("{fields}&token={token}")).await
    }

    pub async fn send_form(&self, page: &str, person: &Person, form: &str) -> Answer {
        self.post(page)
            .header("cookie", &person.cookie)
            .body("application/x-www-form-urlencoded", form.to_owned())
            .send()
            .await
    }

    pub async fn token(&self, form: &str) -> Answer {
        self.post("/oauth/token").body("application/x-www-form-urlencoded", form.to_owned()).send().await
    }

    /// An approved code for a client that has [`REDIRECT`].
    pub async fn code(&self, client: &str, person: &Person) -> String {
        let page = self.ask(client, "").await;
        let answer = self.decide(&page, person, "decision=approve&scope=full_access&scope=emails%3Asend").await;
        assert_eq!(answer.status, 303, "{}", answer.text());
        answer.location().strip_prefix(&format!("{REDIRECT}?code=")).expect("a code").to_owned()
    }

    pub fn exchange(client: &str, code: &str) -> String {
        format!(
            "grant_type=authorization_code&client_id={client}&code={code}&redirect_uri={REDIRECT}&code_verifier={VERIFIER}"
        )
    }

    /// A grant with its tokens.
    pub async fn tokens(&self, client: &str, person: &Person) -> Value {
        let code = self.code(client, person).await;
        let answer = self.token(&TestApp::exchange(client, &code)).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    pub async fn refresh(&self, client: &str, token: &str) -> Answer {
        self.token(&format!("grant_type=refresh_token&client_id={client}&refresh_token={token}")).await
    }

    pub async fn works(&self, tokens: &Value) -> u16 {
        self.get("/events").key(text(tokens, "access_token")).send().await.status
    }
}

pub fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}"))
}

/// The hidden token of the form that posts to `action`.
pub fn form_token(page: &str, action: &str) -> Option<String> {
    let form = &page[page.find(&format!("action=\"{action}\""))?..];
    let value = form.split("name=\"token\" value=\"").nth(1)?;
    value.split('"').next().map(str::to_owned)
}

/// A client with one redirect.
pub fn app_named(name: &str) -> Value {
    json!({"client_name": name, "redirect_uris": [REDIRECT]})
}
