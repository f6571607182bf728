//! What is accepted although it was probably not meant: fields and parameters that nobody reads, and what a feature
//! has to say of a change. It is told in a header beside the answer, whose body stays as it is. A caller who asks for
//! it (`Prefer: handling=strict`, RFC 7240) is refused instead.

use std::cell::RefCell;
use std::collections::HashMap;

use axum::response::Response;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

use super::lookalike::is_like;
use super::query::Params;
use crate::error::Error;
use crate::text::shown;

const WARNINGS: HeaderName = HeaderName::from_static("posthorn-warnings");
const PREFER: HeaderName = HeaderName::from_static("prefer");
const APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// So many are told; nobody reads more.
pub const MOST: usize = 8;

/// How a request is to be treated that was probably not meant as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handling {
    /// Nothing was said of it.
    Usual,
    Lenient,
    Strict,
}

impl Handling {
    pub fn of(headers: &HeaderMap) -> Handling {
        let preferences = headers.get_all(PREFER).iter().filter_map(|line| line.to_str().ok());
        let values = preferences.flat_map(|line| line.split(',')).filter_map(|preference| {
            let (name, value) = preference.split(';').next()?.split_once('=')?;
            name.trim().eq_ignore_ascii_case("handling").then(|| value.trim().trim_matches('"'))
        });
        // The first counts, as with all preferences.
        match values.map(str::to_ascii_lowercase).next().as_deref() {
            Some("strict") => Handling::Strict,
            Some("lenient") => Handling::Lenient,
            _ => Handling::Usual,
        }
    }
}

struct Notes {
    handling: Handling,
    told: Vec<String>,
}

tokio::task_local! {
    static NOTES: RefCell<Notes>;
}

/// Answers a request and adds what there is to say about it; `told` is what is known before.
pub async fn noting<F, E>(handling: Handling, told: Vec<String>, answer: F) -> Result<Response, E>
where
    F: Future<Output = Result<Response, E>>,
{
    let answered = async {
        let mut response = answer.await?;
        NOTES.with(|notes| add_headers(&mut response, &notes.borrow()));
        Ok(response)
    };
    NOTES.scope(RefCell::new(Notes { handling, told }), answered).await
}

fn add_headers(response: &mut Response, notes: &Notes) {
    let printable = |char: char| if char.is_ascii_graphic() || char == ' ' { char } else { '?' };
    for sentence in &notes.told {
        let sentence: String = sentence.chars().map(printable).collect();
        if let Ok(value) = HeaderValue::from_str(&sentence) {
            response.headers_mut().append(WARNINGS, value);
        }
    }
    let applied = match notes.handling {
        Handling::Usual => return,
        Handling::Lenient => "handling=lenient",
        Handling::Strict => "handling=strict",
    };
    response.headers_mut().insert(APPLIED, HeaderValue::from_static(applied));
}

/// Says something about the request of this task; where its caller is strict, that refuses it. What is built
/// elsewhere belongs to no request: there nothing is said.
pub fn warn(sentence: impl FnOnce() -> String) -> Result<(), Error> {
    let said = NOTES.try_with(|notes| {
        let mut notes = notes.borrow_mut();
        if notes.handling == Handling::Strict {
            return Err(Error::invalid(sentence()));
        }
        if notes.told.len() < MOST {
            notes.told.push(sentence());
        }
        Ok(())
    });
    said.unwrap_or(Ok(()))
}

/// What is said of a field that nobody reads; `path` leads to it.
pub(super) fn unknown_field(path: &str, meant: Option<&str>) -> String {
    match meant {
        Some(meant) => format!("The field `{path}` is not known here; did you mean `{meant}`?"),
        None => format!("The field `{path}` is not known here."),
    }
}

/// Warns of the fields of an object that nobody reads; `path` leads to the object. For what is not read into a type,
/// which notes them by itself.
pub fn warn_unread(path: &str, fields: &Map<String, Value>, known: &[&str]) -> Result<(), Error> {
    for sent in fields.keys().filter(|sent| !known.contains(&sent.as_str())) {
        warn(|| {
            let meant = known.iter().find(|known| is_like(sent, known) && !fields.contains_key(**known));
            unknown_field(&format!("{path}.{}", shown(sent)), meant.copied())
        })?;
    }
    Ok(())
}

/// The names of the parameters that the queries of each route may hold, by method and path.
pub struct KnownQueries(HashMap<(http::Method, String), Vec<String>>);

impl KnownQueries {
    /// `document` is the API's description.
    pub fn of(document: &Value) -> KnownQueries {
        let mut known = HashMap::new();
        for (path, item) in document["paths"].as_object().into_iter().flatten() {
            for (method, operation) in item.as_object().into_iter().flatten() {
                let Ok(method) = http::Method::from_bytes(method.to_ascii_uppercase().as_bytes()) else { continue };
                let parameters = operation["parameters"].as_array().into_iter().flatten();
                let of_query = parameters.filter(|parameter| parameter["in"] == "query");
                let names = of_query.filter_map(|parameter| Some(parameter["name"].as_str()?.to_owned()));
                known.insert((method, path.clone()), names.collect());
            }
        }
        KnownQueries(known)
    }

    /// What is to be said of the parameters of a query that the route does not know.
    pub fn unknown(&self, method: &http::Method, route: &str, query: &str) -> Vec<String> {
        let (path, takes_all) = (route.replace("{*", "{"), route.contains("{*"));
        let is_ours = |known: &&(http::Method, String)| {
            // A route that takes whole paths also stands for those that are described below it.
            known.0 == *method && (known.1 == path || takes_all && known.1.starts_with(&path))
        };
        let mut allowed = self.0.keys().filter(is_ours).filter_map(|key| self.0.get(key)).peekable();
        if allowed.peek().is_none() {
            return Vec::new();
        }
        let mut allowed: Vec<&str> = allowed.flatten().map(String::as_str).collect();
        allowed.sort_unstable();
        allowed.dedup();
        let sent = Params::parse(query);
        let names = sent.pairs().filter_map(|(name, _)| name.ok());
        names
            .filter(|name| !allowed.contains(&name.as_str()))
            .take(MOST)
            .map(|name| sentence(&name, &allowed))
            .collect()
    }
}

fn sentence(name: &str, allowed: &[&str]) -> String {
    let unknown = format!("The parameter `{}` is not known here", shown(name));
    if let Some(meant) = allowed.iter().find(|known| is_like(name, known)) {
        return format!("{unknown}; did you mean `{meant}`?");
    }
    let quoted: Vec<String> = allowed.iter().map(|name| format!("`{name}`")).collect();
    match quoted.is_empty() {
        true => format!("{unknown}: this route takes none."),
        false => format!("{unknown}; known are {}.", quoted.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preference_is_read_as_rfc_7240_writes_it() {
        let of = |lines: &[&'static str]| {
            let lines = lines.iter().map(|line| (PREFER, HeaderValue::from_static(line)));
            Handling::of(&lines.collect())
        };
        assert_eq!(of(&[]), Handling::Usual);
        assert_eq!(of(&["handling=strict"]), Handling::Strict);
        assert_eq!(of(&["respond-async, Handling = \"Strict\"; x=1"]), Handling::Strict);
        assert_eq!(of(&["wait=10", "handling=lenient, handling=strict"]), Handling::Lenient);
        assert_eq!(of(&["handling", "strict"]), Handling::Usual);
    }
}
