//! One client and its user at an instance: the steps that checks are made of.
//! Each says in its `Err` what came instead.

use std::sync::Mutex;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::cli::doctor::browser::{Browser, Reading, Sent, encoded, pairs, resolve};
use crate::http_client::Answer;
use crate::secret;
use crate::web::Params;

/// Where the instance says its endpoints are.
pub struct Endpoints {
    pub authorization: String,
    pub token: String,
    pub revocation: String,
    pub jwks: String,
    pub registration: Option<String>,
}

pub struct Visit {
    pub browser: Browser,
    pub endpoints: Endpoints,
    api: String,
    client_id: String,
    redirect_uri: String,
    /// Every refresh token that came, to be given back in the end.
    received: Mutex<Vec<String>>,
    /// The form that ends the session.
    sign_out: Mutex<Option<SignOut>>,
}

struct SignOut {
    url: String,
    form: Vec<(String, String)>,
}

/// A consent page, and what was sent with the request that led to it.
pub struct Pending {
    pub url: String,
    state: String,
    verifier: String,
}

pub struct Code {
    code: String,
    verifier: String,
}

pub struct Tokens {
    pub access: String,
    pub refresh: String,
    pub scope: String,
}

impl Visit {
    pub fn new(browser: Browser, endpoints: Endpoints, issuer: &str, client: (String, String)) -> Visit {
        Visit {
            browser,
            endpoints,
            api: format!("{issuer}/events"),
            client_id: client.0,
            redirect_uri: client.1,
            received: Mutex::default(),
            sign_out: Mutex::default(),
        }
    }

    /// Starts a request.
    pub async fn authorize(&self) -> Result<Pending, String> {
        let (state, verifier) = (secret::token(), secret::token());
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
        let query = encoded(&pairs(&[
            ("response_type", "code"),
            ("client_id", &self.client_id),
            ("redirect_uri", &self.redirect_uri),
            ("state", &state),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ]));
        let answer = self.browser.get(&format!("{}?{query}", self.endpoints.authorization)).await?;
        match answer.redirect() {
            Some(back) if back.starts_with(&self.redirect_uri) => Err(format!("the error redirect {back}")),
            Some(url) => Ok(Pending { url, state, verifier }),
            None => Err(answer.in_short()),
        }
    }

    /// Goes to a page that wants somebody logged in, by way of the log-in.
    pub async fn log_in(&self, url: &str, email: &str, password: &str) -> Result<(), String> {
        let mut url = url.to_owned();
        let mut answer = self.browser.get(&url).await?;
        for _ in 0..4 {
            let page = answer.page();
            if let Some(form) = page.form_asking("password") {
                let filled = form.with(&[("email", email), ("password", password)]);
                let sent = self.browser.post(&resolve(&url, &form.action), &filled).await?;
                return match sent.redirect() {
                    Some(_) => Ok(()),
                    None => Err(format!("{}: e-mail or password was not accepted", sent.in_short())),
                };
            }
            let to_login = page.links.into_iter().find(|link| link.contains("/login"));
            let Some(next) = answer.redirect().or(to_login) else { break };
            url = resolve(&url, &next);
            answer = self.browser.get(&url).await?;
        }
        Err(format!("{} without a way to a log-in form", answer.in_short()))
    }

    /// Approves a request, and reads the code in the address it leads to, which
    /// is not opened.
    pub async fn approve(&self, pending: &Pending) -> Result<Code, String> {
        let answer = self.browser.get(&pending.url).await?;
        let page = answer.page();
        if let Some(form) = page.forms.iter().find(|form| form.action.ends_with("/logout"))
            && let Ok(mut sign_out) = self.sign_out.lock()
        {
            *sign_out = Some(SignOut { url: resolve(&pending.url, &form.action), form: form.filled.clone() });
        }
        let form = page.form_with("decision", "approve");
        let form = form.ok_or_else(|| format!("{} without the button Approve", answer.in_short()))?;
        let decided = form.with(&[("decision", "approve")]);
        let answer = self.browser.post(&resolve(&pending.url, &form.action), &decided).await?;
        let shown = answer.page().links.into_iter().find(|link| link.starts_with(&self.redirect_uri));
        let back = answer.redirect().or(shown).ok_or_else(|| answer.in_short())?;
        let query = back.strip_prefix(&self.redirect_uri).and_then(|rest| rest.strip_prefix('?'));
        let query = query.ok_or_else(|| "a redirect to another address than the client's".to_owned())?;
        let params = Params::parse(query);
        if params.text("state").ok().as_deref() != Some(&pending.state) {
            return Err("another state than was sent".into());
        }
        match params.text("code") {
            Ok(code) => Ok(Code { code: code.into_owned(), verifier: pending.verifier.clone() }),
            Err(_) => Err(format!("the error {}", params.text("error").unwrap_or_default())),
        }
    }

    pub async fn redeem(&self, code: &Code) -> Result<Tokens, String> {
        let form = pairs(&[
            ("grant_type", "authorization_code"),
            ("client_id", &self.client_id),
            ("redirect_uri", &self.redirect_uri),
            ("code", &code.code),
            ("code_verifier", &code.verifier),
        ]);
        self.read_tokens(&self.browser.post(&self.endpoints.token, &form).await?)
    }

    /// A whole flow, by somebody who is logged in.
    pub async fn connect(&self) -> Result<Tokens, String> {
        let pending = self.authorize().await?;
        self.redeem(&self.approve(&pending).await?).await
    }

    pub async fn refresh(&self, token: &str, scope: Option<&str>) -> Result<Answer, String> {
        let mut form =
            pairs(&[("grant_type", "refresh_token"), ("client_id", &self.client_id), ("refresh_token", token)]);
        form.extend(scope.map(|scope| ("scope".to_owned(), scope.to_owned())));
        self.browser.post(&self.endpoints.token, &form).await
    }

    pub fn read_tokens(&self, answer: &Answer) -> Result<Tokens, String> {
        if answer.status != 200 {
            return Err(answer.in_short());
        }
        let body = answer.json()?;
        let text = |name: &str| body[name].as_str().map(str::to_owned).ok_or_else(|| format!("200 without {name}"));
        if body["token_type"] != "Bearer" || body["expires_in"].as_i64().is_none_or(|seconds| seconds <= 0) {
            return Err("200 without token_type Bearer and a number as expires_in".into());
        }
        let tokens = Tokens { access: text("access_token")?, refresh: text("refresh_token")?, scope: text("scope")? };
        if let Ok(mut received) = self.received.lock() {
            received.push(tokens.refresh.clone());
        }
        Ok(tokens)
    }

    pub async fn revoke(&self, token: &str) -> Result<(), String> {
        let form = pairs(&[("client_id", &self.client_id), ("token", token)]);
        let answer = self.browser.post(&self.endpoints.revocation, &form).await?;
        if answer.status == 200 { Ok(()) } else { Err(format!("{} from the revocation endpoint", answer.in_short())) }
    }

    /// Calls the API and expects this status.
    pub async fn expect_call(&self, access: &str, status: u16) -> Result<(), String> {
        let answer = self.browser.send(&self.api, Sent { bearer: Some(access), ..Sent::default() }).await?;
        if answer.status == status { Ok(()) } else { Err(format!("{} from GET /events", answer.in_short())) }
    }

    /// Expects that a refresh token is worth nothing.
    pub async fn expect_refused(&self, refresh: &str) -> Result<(), String> {
        let answer = self.refresh(refresh, None).await?;
        match answer.json()?["error"].as_str() {
            Some("invalid_grant") if answer.status == 400 => Ok(()),
            _ => Err(format!("{} from the token endpoint", answer.in_short())),
        }
    }

    /// Gives everything back and signs out.
    pub async fn clean_up(&self) -> Result<(), String> {
        let received = self.received.lock().map(|mut received| std::mem::take(&mut *received)).unwrap_or_default();
        for token in received {
            self.revoke(&token).await?;
        }
        let sign_out = self.sign_out.lock().ok().and_then(|mut form| form.take());
        if let Some(SignOut { url, form }) = sign_out {
            let answer = self.browser.post(&url, &form).await?;
            answer.redirect().ok_or_else(|| format!("{} from signing out", answer.in_short()))?;
        }
        Ok(())
    }
}
