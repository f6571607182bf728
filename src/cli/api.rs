//! `posthorn api`: one call of the API, as a program would make it.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use bytes::Bytes;
use clap::Args;
use http::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION};
use http::{HeaderValue, Method, Request, Uri};
use http_body_util::Full;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::doctor::Reading;
use super::print_json;
use crate::config::{Config, PublicUrl};
use crate::http_client::{Answer, Bounds, HttpClient, HttpError, Incomplete, Reach};
use crate::{secret, serve};

const METHODS: [Method; 5] = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];

/// An answer may be of any size: it is printed as it comes.
const BOUNDS: Bounds = Bounds { time: Duration::from_secs(600), bytes: usize::MAX };

/// How much is sent; the API takes less.
const LARGEST_BODY: u64 = 64 << 20;

/// How much of an answer is looked at as a whole.
const LOOKED_AT: usize = 1 << 20;

#[derive(Args, Debug)]
pub struct Api {
    /// GET, POST, PUT, PATCH or DELETE
    method: String,
    /// What is called, with its query: "/emails?limit=1"
    path: String,
    /// What is sent: text, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", conflicts_with = "form")]
    body: Option<String>,
    /// What the body is
    #[arg(long = "type", value_name = "TYPE", default_value = "application/json", requires = "body")]
    kind: String,
    /// A field of a form, NAME=TEXT or NAME=@FILE; can be repeated
    #[arg(long, value_name = "FIELD")]
    form: Vec<String>,
    /// Address of the instance [default: --base-url, or http://<listen>]
    #[arg(long, value_name = "URL")]
    url: Option<PublicUrl>,
    /// The API key, or an access token
    #[arg(long, env = "POSTHORN_KEY", hide_env_values = true)]
    key: Option<String>,
    /// Send no key, where none is needed
    #[arg(long)]
    no_key: bool,
}

impl Api {
    /// `Err` where it is refused, so that the exit code says so.
    pub async fn run(self, config: &Config) -> anyhow::Result<()> {
        let base = match &self.url {
            Some(url) => url.clone(),
            None => serve::addresses(config, config.listen)?.base,
        };
        let request = self.request(&base)?;
        let told = |error: HttpError| anyhow!("{}: {error}", base.as_str());
        let answer = HttpClient::new(Reach::Anywhere).open(request, BOUNDS).await.map_err(told)?;
        show(answer, told).await
    }

    fn request(&self, base: &PublicUrl) -> anyhow::Result<Request<Full<Bytes>>> {
        let mut request = Request::builder().method(method(&self.method)?).uri(address(base, &self.path)?);
        if let Some(credential) = self.credential()? {
            request = request.header(AUTHORIZATION, credential);
        }
        let body = match self.content()? {
            Some((kind, body)) => {
                request = request.header(CONTENT_TYPE, kind);
                body
            }
            None => Vec::new(),
        };
        request.body(Full::from(body)).with_context(|| format!("--type {}: not a type", self.kind))
    }

    fn credential(&self) -> anyhow::Result<Option<HeaderValue>> {
        if self.no_key {
            return Ok(None);
        }
        let Some(key) = self.key.as_deref().filter(|key| !key.is_empty()) else {
            bail!(
                "there is no API key: put one into POSTHORN_KEY or give --key (`posthorn keys create` makes one); \
                 --no-key calls without"
            );
        };
        // What is wrong with it is not shown: it is a secret.
        let credential = HeaderValue::from_str(&format!("Bearer {key}"));
        let mut credential = credential.map_err(|_| anyhow!("the API key holds characters that no key has"))?;
        credential.set_sensitive(true);
        Ok(Some(credential))
    }

    /// What is sent and what it is, if anything is.
    fn content(&self) -> anyhow::Result<Option<(String, Vec<u8>)>> {
        if !self.form.is_empty() {
            return form(&self.form).map(Some);
        }
        let Some(given) = &self.body else { return Ok(None) };
        let mut body = Vec::new();
        match given.strip_prefix('@') {
            Some(file) => append_file(&mut body, file)?,
            None if given == "-" => append(&mut body, io::stdin().lock(), "standard input")?,
            None => body.extend_from_slice(given.as_bytes()),
        }
        if is_json(&self.kind) {
            let read = serde_json::from_slice::<IgnoredAny>(&body);
            read.map_err(|error| anyhow!("--body: not JSON: {error}; what else it is, --type says"))?;
        }
        Ok(Some((self.kind.clone(), body)))
    }
}

fn method(given: &str) -> anyhow::Result<Method> {
    let found = METHODS.into_iter().find(|method| given.eq_ignore_ascii_case(method.as_str()));
    found.with_context(|| format!("METHOD {given}: allowed are GET, POST, PUT, PATCH and DELETE"))
}

fn address(base: &PublicUrl, path: &str) -> anyhow::Result<Uri> {
    ensure!(path.starts_with('/'), "PATH {path}: it begins with a slash, as /emails does");
    let address = format!("{}{path}", base.as_str());
    address.parse().map_err(|_| anyhow!("PATH {path}: not a path; a space in it is written as %20"))
}

fn is_json(kind: &str) -> bool {
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Fields as `multipart/form-data`.
fn form(fields: &[String]) -> anyhow::Result<(String, Vec<u8>)> {
    let boundary = secret::letters(40);
    let mut body = Vec::new();
    for field in fields {
        let (name, value) =
            field.split_once('=').with_context(|| format!("--form {field}: allowed is NAME=TEXT or NAME=@FILE"))?;
        write!(body, "--{boundary}\r\nContent-Disposition: form-data; name=\"{}\"", in_head(name))?;
        match value.strip_prefix('@') {
            Some(file) => {
                let name = Path::new(file).file_name().unwrap_or_default().to_string_lossy();
                write!(body, "; filename=\"{}\"\r\nContent-Type: application/octet-stream\r\n\r\n", in_head(&name))?;
                append_file(&mut body, file)?;
            }
            None => write!(body, "\r\n\r\n{value}")?,
        }
        body.extend_from_slice(b"\r\n");
    }
    write!(body, "--{boundary}--\r\n")?;
    Ok((format!("multipart/form-data; boundary={boundary}"), body))
}

/// A name as browsers write it in the head of a field.
fn in_head(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

fn append_file(body: &mut Vec<u8>, path: &str) -> anyhow::Result<()> {
    let file = File::open(path).with_context(|| format!("{path} cannot be read"))?;
    append(body, file, path)
}

fn append(body: &mut Vec<u8>, source: impl Read, name: &str) -> anyhow::Result<()> {
    let room = LARGEST_BODY.saturating_sub(body.len() as u64);
    source.take(room + 1).read_to_end(body).with_context(|| format!("{name} cannot be read"))?;
    ensure!(body.len() as u64 <= LARGEST_BODY, "{name}: allowed are {} MiB at most", LARGEST_BODY >> 20);
    Ok(())
}

/// Prints an answer: as it came, for people in lines; of a redirect where it leads.
async fn show(mut answer: Incomplete, told: impl Fn(HttpError) -> anyhow::Error) -> anyhow::Result<()> {
    let (mut start, mut is_whole) = (Vec::new(), false);
    while !is_whole && start.len() < LOOKED_AT {
        match answer.next().await.map_err(&told)? {
            Some(piece) => start.extend_from_slice(&piece),
            None => is_whole = true,
        }
    }
    let (status, mut out) = (answer.status, io::stdout());
    if let Some(place) = answer.headers.get(LOCATION).filter(|_| status.is_redirection()) {
        eprintln!("{status}");
        out.write_all(place.as_bytes())?;
        return Ok(writeln!(out)?);
    }
    match serde_json::from_slice::<Value>(&start) {
        Ok(value) if is_whole && out.is_terminal() => print_json(&value),
        _ => out.write_all(&start)?,
    }
    while let Some(piece) = answer.next().await.map_err(&told)? {
        out.write_all(&piece)?;
    }
    out.flush()?;
    match status.is_success() || status.is_redirection() {
        true => Ok(()),
        false => bail!("{}", Answer { status, headers: answer.headers, body: start.into() }.in_short()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        api: Api,
    }

    fn api(words: &[&str]) -> Api {
        Line::parse_from(["api"].iter().chain(words)).api
    }

    fn sent(words: &[&str]) -> anyhow::Result<Request<Full<Bytes>>> {
        let base: PublicUrl = "https://mail.example/posthorn".parse().expect("an address");
        api(words).request(&base)
    }

    fn refused(words: &[&str]) -> String {
        sent(words).expect_err("a refusal").to_string()
    }

    #[test]
    fn a_call_goes_behind_the_address_with_the_key() {
        let request = sent(&["patch", "/events/a?b=c", "--key", "re_1", "--body", "{}"]).expect("a request");
        assert_eq!(request.method(), Method::PATCH);
        assert_eq!(request.uri(), "https://mail.example/posthorn/events/a?b=c");
        assert_eq!(request.headers()[CONTENT_TYPE], "application/json");
        let credential = &request.headers()[AUTHORIZATION];
        assert!(credential == "Bearer re_1" && credential.is_sensitive());
        let open = sent(&["GET", "/readyz", "--key", "re_1", "--no-key"]).expect("a request");
        assert!(open.headers().is_empty(), "{:?}", open.headers());
    }

    #[test]
    fn what_cannot_be_called_is_said_in_a_sentence() {
        assert!(refused(&["FETCH", "/emails"]).contains("METHOD FETCH: allowed are GET, POST"));
        assert!(refused(&["GET", "emails"]).contains("PATH emails: it begins with a slash"));
        assert!(refused(&["GET", "/a b"]).contains("%20"));
        assert!(refused(&["GET", "/emails", "--key", ""]).contains("POSTHORN_KEY"));
        let key = refused(&["GET", "/emails", "--key", "re_\n1"]);
        assert!(key.contains("characters") && !key.contains("re_"), "{key}");
        let call = ["POST", "/emails", "--no-key"];
        let with = |more: &[&'static str]| refused(&[&call[..], more].concat());
        assert!(with(&["--body", "{from"]).contains("not JSON"));
        assert!(with(&["--body", "@no-such-file"]).contains("no-such-file cannot be read"));
        assert!(with(&["--body", "a", "--type", "text\n"]).contains("not a type"));
        assert!(with(&["--form", "file"]).contains("NAME=@FILE"));
    }

    #[test]
    fn text_of_another_type_is_sent_as_it_is() {
        let call = api(&["POST", "/suppressions/import", "--body", "email\n", "--type", "text/csv"]);
        assert_eq!(call.content().expect("a body"), Some(("text/csv".into(), b"email\n".to_vec())));
    }

    #[test]
    fn a_form_holds_text_and_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a\"b.csv");
        std::fs::write(&file, "email\n").expect("a file");
        let field = format!("file=@{}", file.display());
        let (kind, body) = form(&["on_conflict=skip".into(), field]).expect("a form");
        let boundary = kind.strip_prefix("multipart/form-data; boundary=").expect("a boundary");
        let wanted = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"on_conflict\"\r\n\r\nskip\r\n\
             --{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a%22b.csv\"\r\n\
             Content-Type: application/octet-stream\r\n\r\nemail\n\r\n--{boundary}--\r\n"
        );
        assert_eq!(String::from_utf8(body).expect("text"), wanted);
    }

    #[test]
    fn what_is_sent_fits_into_memory() {
        let mut body = Vec::new();
        let refused = append(&mut body, io::repeat(b'x'), "standard input").expect_err("a refusal");
        assert_eq!(refused.to_string(), "standard input: allowed are 64 MiB at most");
    }
}
