//! A crowd that logs in, each with a connection of its own.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::store::{EMAIL, PASSWORD};

/// An answer, read to its end.
pub struct Answer {
    pub head: String,
    pub body: String,
}

/// Sends one request on a connection of its own.
fn send(server: SocketAddr, request: &str) -> anyhow::Result<Answer> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("a whole answer")?;
    Ok(Answer { head: head.to_owned(), body: body.to_owned() })
}

/// Asks for something that anybody may see.
fn get(server: SocketAddr, path: &str) -> anyhow::Result<Answer> {
    send(server, &format!("GET {path} HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\n\r\n"))
}

/// The methods that a path is there for: one that it is not there for is refused, and told the others.
pub fn methods(server: SocketAddr, path: &str) -> anyhow::Result<String> {
    let answer = send(
        server,
        &format!("PUT {path} HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"),
    )?;
    let allow = answer.head.lines().find_map(|line| line.strip_prefix("allow: "));
    Ok(allow.with_context(|| format!("PUT {path}: {}", answer.head))?.to_owned())
}

/// Posts a form.
pub fn post(server: SocketAddr, path: &str, cookie: &str, body: &str) -> anyhow::Result<Answer> {
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\ncookie: {cookie}\r\n\
         content-type: application/x-www-form-urlencoded\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    send(server, &request)
}

/// Posts JSON with a key, and reads the JSON of an answer in the 200s.
pub fn post_json(server: SocketAddr, path: &str, key: &str, body: &Value) -> anyhow::Result<Value> {
    send_json(server, ("POST", path), key, body)
}

/// The same by any method.
pub fn send_json(server: SocketAddr, (method, path): (&str, &str), key: &str, body: &Value) -> anyhow::Result<Value> {
    let body = body.to_string();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = send(server, &request)?;
    ensure!(answer.head.starts_with("HTTP/1.1 2"), "{method} {path}: {} {}", answer.head, answer.body);
    Ok(serde_json::from_str(&answer.body)?)
}

/// The form by which the owner logs in, filled in, and the cookie that belongs to it.
fn filled_in(server: SocketAddr) -> anyhow::Result<(String, String)> {
    let page = get(server, "/dashboard/login")?;
    let cookie = between(&page.head, "set-cookie: ", ";").context("a cookie")?.to_owned();
    let token = between(&page.body, "name=\"token\" value=\"", "\"").context("a form's token")?;
    let body = format!("token={token}&email={}&password={}", EMAIL.replace('@', "%40"), PASSWORD.replace(' ', "+"));
    Ok((cookie, body))
}

/// Logs the owner in; tells the cookies that show it.
pub fn session(server: SocketAddr) -> anyhow::Result<String> {
    let (cookie, body) = filled_in(server)?;
    let answer = post(server, "/dashboard/login", &cookie, &body)?;
    ensure!(answer.head.starts_with("HTTP/1.1 303"), "the log-in failed: {}", answer.head);
    let set = answer.head.lines().filter_map(|line| line.strip_prefix("set-cookie: ")?.split(';').next());
    Ok(set.collect::<Vec<_>>().join("; "))
}

/// People who log in again and again until they are stopped.
pub struct Crowd {
    stop: Arc<AtomicBool>,
    logins: Arc<AtomicU64>,
    people: Vec<JoinHandle<anyhow::Result<()>>>,
}

impl Crowd {
    pub fn start(server: SocketAddr, people: usize) -> anyhow::Result<Crowd> {
        let (cookie, body) = filled_in(server)?;
        let (stop, logins) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let person = |_| {
            let (stop, logins, cookie, body) = (stop.clone(), logins.clone(), cookie.clone(), body.clone());
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let answer = post(server, "/dashboard/login", &cookie, &body)?;
                    ensure!(answer.head.starts_with("HTTP/1.1 303"), "a log-in failed: {}", answer.head);
                    logins.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            })
        };
        let people = (0..people).map(person).collect();
        Ok(Crowd { stop, logins, people })
    }

    /// Ends it, and tells how many log-ins there were.
    pub fn stop(self) -> anyhow::Result<u64> {
        self.stop.store(true, Ordering::Relaxed);
        for person in self.people {
            person.join().map_err(|_| anyhow::anyhow!("somebody panicked"))??;
        }
        Ok(self.logins.load(Ordering::Relaxed))
    }
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let start = text.find(before)? + before.len();
    let length = text[start..].find(after)?;
    Some(&text[start..start + length])
}
