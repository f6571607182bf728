//! HTTP as the doctor speaks it: requests by address, cookies kept, nothing
//! followed.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, COOKIE, LOCATION, SET_COOKIE, USER_AGENT};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::Full;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::page::Page;
use crate::http_client::{Answer, Bounds, HttpClient, Reach};

const BOUNDS: Bounds = Bounds { time: Duration::from_secs(15), bytes: 1 << 20 };

pub struct Browser {
    client: HttpClient,
    /// By host and port, then by name.
    cookies: Mutex<HashMap<(String, String), String>>,
}

/// A request, as far as it differs from a plain GET.
#[derive(Default)]
pub struct Sent<'a> {
    pub form: Option<&'a [(String, String)]>,
    pub json: Option<&'a Value>,
    pub bearer: Option<&'a str>,
}

impl Browser {
    pub fn new() -> Browser {
        Browser { client: HttpClient::new(Reach::Anywhere), cookies: Mutex::default() }
    }

    pub async fn get(&self, url: &str) -> Result<Answer, String> {
        self.send(url, Sent::default()).await
    }

    pub async fn post(&self, url: &str, form: &[(String, String)]) -> Result<Answer, String> {
        self.send(url, Sent { form: Some(form), ..Sent::default() }).await
    }

    /// Sends a request. `Err` says why there is no answer at all.
    pub async fn send(&self, url: &str, sent: Sent<'_>) -> Result<Answer, String> {
        self.exchange(url, &sent).await.map_err(|why| format!("{url}: {why}"))
    }

    async fn exchange(&self, url: &str, sent: &Sent<'_>) -> Result<Answer, String> {
        let target: Uri = url.parse().map_err(|_| "not an address")?;
        let request = self.request(&target, sent)?;
        let answer = self.client.send(request, BOUNDS).await.map_err(|error| error.to_string())?;
        self.keep_cookies(&target, &answer);
        Ok(answer)
    }

    fn request(&self, target: &Uri, sent: &Sent<'_>) -> Result<Request<Full<Bytes>>, String> {
        let authority = authority(target);
        let (method, label, body) = match (sent.form, sent.json) {
            (Some(form), _) => (Method::POST, Some("application/x-www-form-urlencoded"), encoded(form)),
            (_, Some(json)) => (Method::POST, Some("application/json"), json.to_string()),
            _ => (Method::GET, None, String::new()),
        };
        let mut request = Request::builder()
            .method(method)
            .uri(target)
            .header(USER_AGENT, concat!("posthorn-doctor/", env!("CARGO_PKG_VERSION")));
        if let Some(label) = label {
            request = request.header(CONTENT_TYPE, label);
        }
        if let Some(bearer) = sent.bearer {
            request = request.header(http::header::AUTHORIZATION, format!("Bearer {bearer}"));
        }
        let cookies = self.cookies_for(&authority);
        if !cookies.is_empty() {
            request = request.header(COOKIE, cookies);
        }
        request.body(Full::from(body)).map_err(|error| error.to_string())
    }

    fn cookies_for(&self, authority: &str) -> String {
        let Ok(cookies) = self.cookies.lock() else { return String::new() };
        let ours = cookies.iter().filter(|((host, _), _)| host == authority);
        ours.map(|((_, name), value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ")
    }

    fn keep_cookies(&self, target: &Uri, answer: &Answer) {
        let Ok(mut cookies) = self.cookies.lock() else { return };
        for line in answer.headers.get_all(SET_COOKIE).iter().filter_map(|line| line.to_str().ok()) {
            let pair = line.split(';').next().unwrap_or_default();
            let Some((name, value)) = pair.split_once('=') else { continue };
            let key = (authority(target), name.trim().to_owned());
            match value.trim() {
                "" => drop(cookies.remove(&key)),
                value => drop(cookies.insert(key, value.to_owned())),
            }
        }
    }
}

fn authority(target: &Uri) -> String {
    target.authority().map_or(String::new(), |authority| authority.as_str().to_owned())
}

/// Pairs as a form body or a query.
pub fn encoded(pairs: &[(String, String)]) -> String {
    let escape = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value))).collect();
    pairs.join("&")
}

/// Pairs to be [`encoded`].
pub fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// Where a link on the page at `base` leads.
pub fn resolve(base: &str, href: &str) -> String {
    if href.contains("://") {
        return href.to_owned();
    }
    let behind = base.find("://").map_or(0, |at| at + 3);
    let origin = base[behind..].find('/').map_or(base, |at| &base[..behind + at]);
    format!("{origin}{href}")
}

/// What the doctor reads in an answer.
pub trait Reading {
    fn json(&self) -> Result<Value, String>;
    fn page(&self) -> Page;
    fn redirect(&self) -> Option<String>;
    /// The answer in a few words, for a line of the report.
    fn in_short(&self) -> String;
}

impl Reading for Answer {
    fn json(&self) -> Result<Value, String> {
        serde_json::from_slice(&self.body).map_err(|_| format!("{}, which is not JSON", self.in_short()))
    }

    fn page(&self) -> Page {
        Page::read(&String::from_utf8_lossy(&self.body))
    }

    fn redirect(&self) -> Option<String> {
        let is_redirect = [StatusCode::FOUND, StatusCode::SEE_OTHER].contains(&self.status);
        is_redirect.then(|| self.header(LOCATION)).flatten().map(str::to_owned)
    }

    fn in_short(&self) -> String {
        let body: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let said = ["error", "name"].iter().find_map(|name| body[*name].as_str());
        let why = ["error_description", "message"].iter().find_map(|name| body[*name].as_str());
        let words: Vec<&str> = said.into_iter().chain(why).collect();
        let words = words.join(": ");
        if words.is_empty() { self.status.to_string() } else { format!("{} {words}", self.status.as_u16()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_resolved_against_its_page() {
        assert_eq!(resolve("http://a:1/x/y?z", "/login"), "http://a:1/login");
        assert_eq!(resolve("http://a:1", "/login"), "http://a:1/login");
        assert_eq!(resolve("http://a/x", "https://b/y"), "https://b/y");
    }

    #[test]
    fn pairs_are_encoded_whatever_they_hold() {
        assert_eq!(encoded(&pairs(&[("a b", "c&d=\u{e9}"), ("e", "")])), "a%20b=c%26d%3D%C3%A9&e=");
    }
}
