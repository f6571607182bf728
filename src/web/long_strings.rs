//! A large JSON body whose long values stay where they were spooled: what is read into memory is a
//! short text in which a reference stands for each of them.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRef, FromRequest, Request};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::body::Body;
use super::input::{self, LIMIT};
use super::spool::{self, Spool};
use crate::app::App;
use crate::error::Error;
use crate::text::kind;

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
        let Some(body) = input::labelled_json(app, request, T::LIMIT, PATIENCE).await? else {
            return Ok(LongBody { body: Body::new(Map::new()), values: None });
        };
        if let Spool::Memory(text) = &body
            && input::is_light(text)
        {
            return Ok(LongBody { body: object(input::parse(text)?)?, values: None });
        }
        app.admission.admit().await?;
        let read = move || -> Result<_, Error> {
            let (short, values) = LongValues::split(body, T::NAMES)?;
            Ok((object(input::parse(&short.into())?)?, values))
        };
        let (body, values) = app.admission.build(read).await??;
        Ok(LongBody { body, values: Some(Arc::new(values)) })
    }
}

fn object<T>(read: Value) -> Result<Body<T>, Error> {
    match read {
        Value::Object(fields) => Ok(Body::new(fields)),
        other => Err(Error::invalid(format!("The body must be a JSON object, but is {}.", kind(&other)))),
    }
}

fn flaw(what: &str) -> Error {
    Error::NotJson { message: format!("The body is not valid JSON: {what}.") }
}

fn too_much() -> Error {
    Error::invalid(format!("The body holds too much beside its long fields: at most {LIMIT} bytes."))
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
            let block = body.read(start..body.len().min(start + BLOCK)).map_err(|error| spool::unusable(&error))?;
            scan.look(&block)?;
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
    pub fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        if self.place.is_empty() {
            return Ok(None);
        }
        let part = self.place.start..self.place.end.min(self.place.start + BLOCK);
        self.place.start = part.end;
        let block = self.values.body.read(part).map_err(|error| spool::unusable(&error))?;
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

fn not_bytes() -> Error {
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

/// Looks through JSON, block by block, for long values.
struct Scan<'a> {
    names: &'a [&'a str],
    long: usize,
    short: Vec<u8>,
    places: Vec<Range<usize>>,
    /// How much was looked through before this block.
    before: usize,
    state: State,
    /// The string that ended last, if it is short: perhaps the name of what comes.
    last: Vec<u8>,
    /// Whether a colon behind one of the names was the last that was seen.
    is_awaited: bool,
    /// What the value that is looked through holds so far, as long as it is short.
    held: Vec<u8>,
    digest: Sha256,
    start: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Outside,
    String {
        is_escaped: bool,
        is_awaited: bool,
    },
    /// An array of numbers behind one of the names.
    Numbers,
}

impl<'a> Scan<'a> {
    fn new(names: &'a [&'a str], long: usize) -> Scan<'a> {
        Scan {
            names,
            long,
            short: Vec::new(),
            places: Vec::new(),
            before: 0,
            state: State::Outside,
            last: Vec::new(),
            is_awaited: false,
            held: Vec::new(),
            digest: Sha256::new(),
            start: 0,
        }
    }

    fn look(&mut self, block: &[u8]) -> Result<(), Error> {
        let mut at = 0;
        while at < block.len() {
            at = match self.state {
                State::Outside => self.outside(block, at)?,
                State::String { is_escaped, is_awaited } => self.string(block, at, (is_escaped, is_awaited))?,
                State::Numbers => self.numbers(block, at)?,
            };
        }
        self.before += block.len();
        Ok(())
    }

    fn outside(&mut self, block: &[u8], at: usize) -> Result<usize, Error> {
        let byte = block[at];
        match byte {
            b'"' | b'[' if byte == b'"' || self.is_awaited => {
                self.state = match byte {
                    b'"' => State::String { is_escaped: false, is_awaited: self.is_awaited },
                    _ => State::Numbers,
                };
                self.start = self.before + at;
                self.digest = Sha256::new();
                self.held.clear();
                self.held.push(byte);
            }
            b' ' | b'\t' | b'\n' | b'\r' => return Ok(at + 1),
            _ => self.write(&[byte])?,
        }
        self.is_awaited = byte == b':' && self.names.iter().any(|name| name.as_bytes() == self.last);
        Ok(at + 1)
    }

    fn string(&mut self, block: &[u8], mut at: usize, (is_escaped, is_awaited): (bool, bool)) -> Result<usize, Error> {
        let from = at;
        if is_escaped {
            at += 1;
        }
        let (end, state) = match memchr::memchr2(b'"', b'\\', block.get(at..).unwrap_or_default()) {
            None => (block.len(), State::String { is_escaped: false, is_awaited }),
            Some(found) if block[at + found] == b'\\' => {
                (at + found + 1, State::String { is_escaped: true, is_awaited })
            }
            Some(found) => (at + found + 1, State::Outside),
        };
        self.hold(&block[from..end], is_awaited)?;
        self.state = state;
        if state == State::Outside {
            self.end(end, is_awaited)?;
        }
        Ok(end)
    }

    fn numbers(&mut self, block: &[u8], at: usize) -> Result<usize, Error> {
        let is_within = |byte: &u8| matches!(byte, b'0'..=b'9' | b',' | b' ' | b'\t' | b'\n' | b'\r');
        let count = block[at..].iter().take_while(|byte| is_within(byte)).count();
        let end = at + count;
        self.hold(&block[at..end], true)?;
        match block.get(end) {
            None => Ok(end),
            Some(b']') => {
                self.hold(b"]", true)?;
                self.state = State::Outside;
                self.end(end + 1, true)?;
                Ok(end + 1)
            }
            // Something else than numbers: it is read as anything is.
            Some(_) if self.held.len() <= self.long => {
                let held = std::mem::take(&mut self.held);
                self.write(&held)?;
                self.state = State::Outside;
                Ok(end)
            }
            Some(_) => Err(not_bytes()),
        }
    }

    /// Notes some more of a value. Of one that is left where it is only the digest grows.
    fn hold(&mut self, bytes: &[u8], may_be_long: bool) -> Result<(), Error> {
        let was_long = self.held.len() > self.long;
        if !(was_long && may_be_long) {
            self.held.extend_from_slice(bytes);
        }
        match (was_long, self.held.len() > self.long) {
            (true, _) if may_be_long => self.digest.update(bytes),
            (false, true) if may_be_long => self.digest.update(&self.held),
            _ if self.held.len() > LIMIT => return Err(too_much()),
            _ => {}
        }
        Ok(())
    }

    /// A value ends before `end`, which is counted from the beginning of the block.
    fn end(&mut self, end: usize, may_be_long: bool) -> Result<(), Error> {
        let held = std::mem::take(&mut self.held);
        self.last.clear();
        if may_be_long && held.len() > self.long {
            let digest = std::mem::take(&mut self.digest).finalize();
            let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            self.write(format!("[\"\\u0000long\",{},\"{hex}\"]", self.places.len()).as_bytes())?;
            self.places.push(self.start..self.before + end);
            return Ok(());
        }
        // What no caller may write, lest it be taken for a reference.
        if held.starts_with(b"\"\\u0000") {
            return Err(Error::invalid("The body holds a text that begins with U+0000, which mail cannot hold."));
        }
        self.write(&held)?;
        if let [b'"', name @ .., b'"'] = held.as_slice() {
            self.last.extend_from_slice(&name[..name.len().min(64)]);
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.short.extend_from_slice(bytes);
        if self.short.len() > LIMIT { Err(too_much()) } else { Ok(()) }
    }

    fn finish(self) -> Result<(Vec<u8>, Vec<Range<usize>>), Error> {
        match self.state {
            State::Outside => Ok((self.short, self.places)),
            _ => Err(flaw("it ends within a value")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const NAMES: &[&str] = &["html", "content"];

    fn split(text: &str) -> Result<(Value, Arc<LongValues>), Error> {
        let (short, values) = LongValues::split(Spool::Memory(text.to_owned().into()), NAMES)?;
        Ok((serde_json::from_slice(&short).map_err(|error| input::not_json(&error))?, Arc::new(values)))
    }

    fn all(values: &Arc<LongValues>, number: usize) -> Result<Vec<u8>, Error> {
        let mut reader = values.reader(number).expect("a value");
        let mut whole = Vec::new();
        while let Some(bytes) = reader.next()? {
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
