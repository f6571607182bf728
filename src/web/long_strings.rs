//! A large JSON body whose long values stay where they were spooled: what is read into memory is a
//! short text in which a reference stands for each of them.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRef, FromRequest, Request};

use super::body::Body;
use super::input;
use super::long_scan::Scan;
use super::object::Object;
use super::spool::Spool;
use crate::app::App;
use crate::error::Error;

/// Values longer than this are left where they are.
const LONG: usize = 4 << 10;

/// How much of a text is looked at at once.
const BLOCK: usize = 64 << 10;

/// How long a large body may take to arrive.
const PATIENCE: Duration = Duration::from_secs(300);

/// How a reference begins: it is an array of this, the number of the value and its digest. No text
/// of a caller that begins so is let through.
pub const MARK: &str = "\0long";

/// A body that may be large, because it has fields with long values.
pub trait LongFields {
    /// What these fields are called, at any depth.
    const NAMES: &'static [&'static str];
    const LIMIT: usize;
}

/// As [`Body`], for a type with long values.
pub struct LongBody<T> {
    pub body: Body<T>,
    /// Where the long values are that it refers to; `None` where it is all there.
    pub values: Option<Arc<LongValues>>,
}

impl<T: LongFields + 'static, S: Send + Sync> FromRequest<S> for LongBody<T>
where
    App: FromRef<S>,
{
    type Rejection = Error;

    async fn from_request(request: Request, state: &S) -> Result<LongBody<T>, Error> {
        let app = &App::from_ref(state);
        let Some(body) = input::labelled_json(app, request, T::LIMIT, PATIENCE, |_| Ok(())).await? else {
            return Ok(LongBody { body: Body::new(Object::default()), values: None });
        };
        if let Spool::Memory(text) = &body
            && input::is_light(text)
        {
            return Ok(LongBody { body: Body::new(input::parse_object(text)?), values: None });
        }
        app.admission.admit().await?;
        let read = move || -> Result<_, Error> {
            let (short, values) = LongValues::split(body, T::NAMES)?;
            Ok((Body::new(input::parse_object(&short.into())?), values))
        };
        let (body, values) = app.admission.build(read).await??;
        Ok(LongBody { body, values: Some(Arc::new(values)) })
    }
}

/// The long values of a body: strings, and arrays of numbers, as they are written there.
pub struct LongValues {
    body: Spool,
    places: Vec<Range<usize>>,
}

impl LongValues {
    /// Looks through a body for long values behind these names, and makes the short text.
    pub fn split(body: Spool, names: &[&str]) -> Result<(Vec<u8>, LongValues), Error> {
        LongValues::split_by(body, names, LONG)
    }

    /// The same, where values are long that are longer than this.
    pub(super) fn split_by(body: Spool, names: &[&str], long: usize) -> Result<(Vec<u8>, LongValues), Error> {
        let mut scan = Scan::new(names, long);
        for start in (0..body.len()).step_by(BLOCK) {
            scan.look(&body.part(start..body.len().min(start + BLOCK))?)?;
        }
        let (short, places) = scan.finish()?;
        Ok((short, LongValues { body, places }))
    }

    /// How many bytes a value takes as it is written, with its quotes or brackets.
    pub fn size(&self, number: usize) -> Option<usize> {
        self.places.get(number).map(Range::len)
    }

    /// Whether a value is an array of numbers, and no string.
    pub fn is_array(&self, number: usize) -> bool {
        let first = self.places.get(number).and_then(|place| self.body.read(place.start..place.start + 1).ok());
        first.is_some_and(|first| first[..] == b"["[..])
    }

    /// Reads a value from its beginning.
    pub fn reader(self: &Arc<LongValues>, number: usize) -> Option<LongReader> {
        let place = self.places.get(number)?.clone();
        Some(LongReader { values: self.clone(), place, held: Vec::new() })
    }
}

/// Reads a long value, some of it at a time.
pub struct LongReader {
    values: Arc<LongValues>,
    /// What has not been read yet.
    place: Range<usize>,
    /// What has been read and means nothing without what follows.
    held: Vec<u8>,
}

impl LongReader {
    /// The next bytes that it stands for; `None` behind the last.
    pub fn read(&mut self) -> Result<Option<Vec<u8>>, Error> {
        if self.place.is_empty() {
            return Ok(None);
        }
        let part = self.place.start..self.place.end.min(self.place.start + BLOCK);
        self.place.start = part.end;
        let block = self.values.body.part(part)?;
        let mut text = std::mem::take(&mut self.held);
        text.extend_from_slice(&block);
        let is_last = self.place.is_empty();
        // Of what was held something is left: how a value begins is seen only once.
        if text.first() == Some(&b'[') {
            let end = if is_last { text.len() } else { memchr::memrchr(b',', &text).map_or(text.len(), |at| at + 1) };
            self.hold(b"[", &text[end..]);
            return numbers(&text[1..end]).map(Some);
        }
        let end = if is_last { text.len() - 1 } else { whole_characters(&text) };
        self.hold(b"\"", &text[end..]);
        text.truncate(end);
        text.push(b'"');
        let read: Result<String, _> = serde_json::from_slice(&text);
        read.map(|text| Some(text.into_bytes())).map_err(|error| input::not_json(&error))
    }

    fn hold(&mut self, beginning: &[u8], rest: &[u8]) {
        self.held.extend_from_slice(beginning);
        self.held.extend_from_slice(rest);
    }
}

/// The bytes that a part of an array of numbers stands for.
fn numbers(text: &[u8]) -> Result<Vec<u8>, Error> {
    let text = text.strip_suffix(b"]").unwrap_or(text);
    let one = |number: &[u8]| std::str::from_utf8(number.trim_ascii()).ok()?.parse::<u8>().ok();
    let parts = text.split(|byte| *byte == b',').filter(|part| !part.trim_ascii().is_empty());
    let bytes: Option<Vec<u8>> = parts.map(one).collect();
    bytes.ok_or_else(not_bytes)
}

pub(super) fn not_bytes() -> Error {
    Error::invalid("An array of bytes must hold whole numbers from 0 to 255.")
}

/// Where the inside of a string can be cut without cutting a character or an escape.
fn whole_characters(text: &[u8]) -> usize {
    let mut end = text.len();
    // The longest escape is a pair of two times six characters.
    let tail = end.saturating_sub(12);
    if let Some(at) = memchr::memrchr(b'\\', &text[tail..]).map(|at| tail + at)
        && begins_escape(text, at)
    {
        end = at;
        let is_first_half = |six: &[u8]| {
            six.starts_with(b"\\u") && matches!(six[2..4], [b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B'])
        };
        if at >= 6 && is_first_half(&text[at - 6..at]) && begins_escape(text, at - 6) {
            end = at - 6;
        }
    }
    match std::str::from_utf8(&text[..end]) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => end,
    }
}

/// Whether the backslash there is not itself escaped.
fn begins_escape(text: &[u8], at: usize) -> bool {
    let before = text[..at].iter().rev().take_while(|byte| **byte == b'\\').count();
    before.is_multiple_of(2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    const NAMES: &[&str] = &["html", "content"];

    fn split(text: &str) -> Result<(Value, Arc<LongValues>), Error> {
        let (short, values) = LongValues::split(Spool::Memory(text.to_owned().into()), NAMES)?;
        Ok((serde_json::from_slice(&short).map_err(|error| input::not_json(&error))?, Arc::new(values)))
    }

    fn all(values: &Arc<LongValues>, number: usize) -> Result<Vec<u8>, Error> {
        let mut reader = values.reader(number).expect("a value");
        let mut whole = Vec::new();
        while let Some(bytes) = reader.read()? {
            whole.extend(bytes);
        }
        Ok(whole)
    }

    #[test]
    fn long_values_behind_the_names_are_left_where_they_are() {
        let long = "ü\n\"😀\\".repeat(20_000);
        let body = json!({"a": long[..8000], "html": long, "n": [{"content": "x".repeat(5000), "html": "short"}]});
        for text in [body.to_string(), serde_json::to_string_pretty(&body).expect("text")] {
            let (short, values) = split(&text).expect("JSON");
            assert_eq!((&short["a"], &short["n"][0]["html"]), (&body["a"], &json!("short")));
            assert_eq!((&short["html"][0], &short["html"][1]), (&json!(MARK), &json!(0)));
            assert_eq!(short["n"][0]["content"][1], json!(1));
            assert_eq!(all(&values, 0).expect("text"), long.as_bytes());
            assert_eq!(all(&values, 1).expect("text"), "x".repeat(5000).as_bytes());
        }
    }

    #[test]
    fn arrays_of_numbers_are_bytes() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|n| (n % 256) as u8).collect();
        let (short, values) = split(&json!({"content": bytes, "x": bytes[..9]}).to_string()).expect("JSON");
        assert_eq!((&short["content"][1], &short["x"]), (&json!(0), &json!(bytes[..9])));
        assert_eq!(all(&values, 0).expect("bytes"), bytes);
        let (short, _) = split(r#"{"content": [ ], "html": [{"a": [1]}], "content": [1, 2]}"#).expect("JSON");
        assert_eq!(short, json!({"content": [1, 2], "html": [{"a": [1]}]}));
        let (_, values) = split(&format!("{{\"content\":[{}256]}}", "1,".repeat(3000))).expect("JSON");
        assert!(all(&values, 0).is_err());
    }

    #[test]
    fn what_is_no_json_stays_none() {
        for text in [r#"{"x": 1 2}"#, r#"{"x": tru e}"#, "{\"x\": 1\n\t2}"] {
            assert!(split(text).is_err(), "{text}");
        }
        let (short, _) = split("{ \"x\" : [ 1 , true , null ] , \"y\" : { } }").expect("JSON");
        assert_eq!(short, json!({"x": [1, true, null], "y": {}}));
    }

    #[test]
    fn no_caller_can_write_a_reference() {
        assert!(split(r#"{"html": ["\u0000long", 0, ""]}"#).is_err());
        assert_eq!(MARK, "\u{0}long");
    }

    #[test]
    fn what_is_beside_them_is_bounded() {
        let fields: Vec<String> = (0..300).map(|n| format!("\"f{n}\":\"{}\"", "x".repeat(4000))).collect();
        assert!(split(&format!("{{{}}}", fields.join(","))).is_err());
        assert!(split(&format!("{{\"a\":\"{}\"}}", "x".repeat(2 << 20))).is_err());
    }

    #[test]
    fn a_long_value_that_is_not_json_is_refused_when_it_is_read() {
        for wrong in ["\\x", "\\ud83d", "\u{1}"] {
            let text = format!("{{\"html\":\"{}{wrong}{}\"}}", "x".repeat(70_000), "y".repeat(70_000));
            let (_, values) = split(&text).expect("its end is found");
            assert!(matches!(all(&values, 0), Err(Error::NotJson { .. })), "{wrong:?}");
        }
        assert!(split("{\"html\":\"xxx").is_err());
    }

    proptest! {
        /// Wherever blocks end, the same is read.
        #[test]
        fn long_text_is_read_as_it_is_written(unit in any::<String>(), before in 0_usize..40, escaped in any::<bool>()) {
            let text = "z".repeat(before + BLOCK - 20) + &unit.repeat(10) + &"y".repeat(BLOCK);
            let mut written = json!({"html": text}).to_string();
            if escaped {
                let escape = |char: char| match char {
                    ' '..='~' => char.to_string(),
                    _ => char.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04X}")).collect(),
                };
                written = written.chars().map(escape).collect();
            }
            let (_, values) = split(&written).expect("JSON");
            prop_assert_eq!(all(&values, 0).expect("text"), text.into_bytes());
        }

        /// It says of every short text what reading all of it says.
        #[test]
        fn short_bodies_stay_as_they_are(text in "\\{(\"html\"|\"a\"|:|,|\\[|\\]|1| |\"x\"|null|\\{|\\}){0,8}\\}") {
            let whole: Result<Value, _> = serde_json::from_str(&text);
            match (split(&text), whole) {
                (Ok((short, values)), Ok(whole)) => prop_assert!(short == whole && values.places.is_empty()),
                (Err(_), Err(_)) => {}
                (found, whole) => prop_assert!(false, "{:?} {whole:?}", found.map(|(short, _)| short)),
            }
        }
    }
}
