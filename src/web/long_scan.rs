//! Looks through JSON for long values without reading it: where they lie, and the text in which a
//! reference stands for each of them.

use std::ops::Range;

use sha2::{Digest, Sha256};

use super::input::{LIMIT, flaw};
use super::long_strings::not_bytes;
use crate::error::Error;

/// Looks through JSON, block by block, for long values.
pub struct Scan<'a> {
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
    pub fn new(names: &'a [&'a str], long: usize) -> Scan<'a> {
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

    pub fn look(&mut self, block: &[u8]) -> Result<(), Error> {
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
            // Between two words a space is kept, or they would become one.
            b' ' | b'\t' | b'\n' | b'\r' => {
                if self.short.last().is_some_and(|last| !b"{}[]:,\" ".contains(last)) {
                    self.write(b" ")?;
                }
                return Ok(at + 1);
            }
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

    pub fn finish(self) -> Result<(Vec<u8>, Vec<Range<usize>>), Error> {
        match self.state {
            State::Outside => Ok((self.short, self.places)),
            _ => Err(flaw("it ends within a value")),
        }
    }
}

fn too_much() -> Error {
    Error::invalid(format!("The body holds too much beside its long fields: at most {LIMIT} bytes."))
}
