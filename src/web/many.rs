//! The elements of a JSON array, told apart where its text lies.

use std::ops::Range;

use memchr::memchr2;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;

use super::body::Body;
use super::input::{LIMIT, flaw, kind_of, not_json};
use super::shape::{DEEPEST, Shape, nested_too_deep};
use super::spool::Spool;
use crate::error::Error;

/// How much of a text is looked at at once.
const BLOCK: usize = 64 << 10;

/// How much of what a text begins with is looked at before it is asked whether that is enough.
const FIRST_LOOK: usize = 4 << 10;

/// The elements of a JSON array, which are many things at once: each is read on
/// its own, so that no more than one of them is ever in memory.
pub struct Many {
    body: Spool,
    /// Where up to [`Many::MOST`] of them lie, in their order.
    elements: Vec<Range<usize>>,
    /// How many there are.
    pub count: usize,
    /// Whether they are to be read where it keeps nobody waiting.
    pub is_large: bool,
}

impl Many {
    pub const MOST: usize = 1000;

    pub(super) fn none() -> Many {
        Many { body: Spool::Memory(Default::default()), elements: Vec::new(), count: 0, is_large: false }
    }

    /// Whether what such a text begins with can be the beginning of an array that is accepted.
    pub(super) fn check_beginning(text: &[u8]) -> Result<(), Error> {
        if !matches!(text.trim_ascii_start(), [b'[', ..] | []) {
            return Err(Error::invalid(format!("The body must be a JSON array, but is {}.", kind_of(text))));
        }
        let (mut found, most) = (Elements::default(), Many::MOST);
        // Whoever is answered next waits for this: it ends with what decides.
        for block in text.chunks(FIRST_LOOK) {
            found.look(block)?;
            if found.count > most {
                return Err(Error::invalid(format!("The array is too long: send at most {most} at once.")));
            }
        }
        Ok(())
    }

    /// Splits the text of an array. Elements behind the last that may be there are
    /// only counted; what is in the others is not looked at, beyond that it is JSON.
    pub(super) fn split(body: Spool, is_large: bool) -> Result<Many, Error> {
        let mut found = Elements::default();
        for start in (0..body.len()).step_by(BLOCK) {
            let block = body.part(start..body.len().min(start + BLOCK))?;
            if start == 0 && !matches!(block.trim_ascii_start(), [b'[', ..] | []) {
                return Err(no_array(&body));
            }
            found.look(&block)?;
        }
        let (elements, count) = found.finish()?;
        let many = Many { body, elements, count, is_large };
        many.places().try_for_each(|at| many.check(at))?;
        Ok(many)
    }

    /// How long the text of an element is.
    pub fn size(&self, at: usize) -> usize {
        self.elements.get(at).map_or(0, Range::len)
    }

    /// The places of those that can be read.
    pub fn places(&self) -> Range<usize> {
        0..self.elements.len()
    }

    /// An element, held to what a body of its own is held to.
    pub fn body<T: DeserializeOwned>(&self, at: usize) -> Result<Body<T>, Error> {
        let place = self.elements.get(at).cloned().ok_or(Error::Internal)?;
        if place.len() > LIMIT {
            return Err(Error::TooLarge { limit: LIMIT });
        }
        Body::of_element(&self.body.part(place)?)
    }

    fn check(&self, at: usize) -> Result<(), Error> {
        let place = self.elements.get(at).cloned().unwrap_or_default();
        // One that is too long is refused for that.
        if place.len() > LIMIT {
            return Ok(());
        }
        let text = self.body.part(place)?;
        let is_json: Result<&RawValue, _> = serde_json::from_slice(&text);
        is_json.map(|_| ()).map_err(|error| flaw(&format!("element {at} of the array: {error}")))
    }
}

/// What is wrong with a body that does not begin as an array.
fn no_array(body: &Spool) -> Error {
    let said = || {
        let text = body.part(0..body.len())?;
        Shape::of(&text).check_depth()?;
        let is_json: Result<IgnoredAny, _> = serde_json::from_slice(&text);
        is_json.map_err(|error| not_json(&error))?;
        Ok(format!("The body must be a JSON array, but is {}.", kind_of(&text)))
    };
    said().map_or_else(|error| error, Error::invalid)
}

/// Looks through the text of an array, block by block.
#[derive(Default)]
struct Elements {
    found: Vec<Range<usize>>,
    count: usize,
    /// Where the element that is being looked through began.
    start: usize,
    /// How much was looked through before this block.
    before: usize,
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
    /// Whether anything but spaces was seen in the element.
    is_begun: bool,
    is_over: bool,
}

impl Elements {
    fn look(&mut self, block: &[u8]) -> Result<(), Error> {
        let mut at = 0;
        while let Some(&byte) = block.get(at) {
            if self.is_in_string {
                at = self.pass_string(block, at);
                continue;
            }
            self.step(byte, self.before + at)?;
            at += 1;
        }
        self.before += block.len();
        Ok(())
    }

    /// Where the string ends, or the block.
    fn pass_string(&mut self, block: &[u8], mut at: usize) -> usize {
        if std::mem::take(&mut self.is_escaped) {
            at += 1;
        }
        let Some(found) = block.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) else { return block.len() };
        match block[at + found] {
            b'"' => self.is_in_string = false,
            _ => self.is_escaped = true,
        }
        at + found + 1
    }

    fn step(&mut self, byte: u8, at: usize) -> Result<(), Error> {
        match (byte, self.depth) {
            (b' ' | b'\t' | b'\n' | b'\r', _) => return Ok(()),
            (_, 0) if self.is_over => return Err(flaw("something stands behind the array")),
            (b'[', 0) => {
                self.depth = 1;
                self.start = at + 1;
                return Ok(());
            }
            (_, 0) => return Err(flaw("it does not begin as an array")),
            (b',', 1) => self.end_element(at),
            (b']', 1) => {
                // An array without elements has no comma either.
                if self.is_begun || self.count > 0 {
                    self.end_element(at);
                }
                self.is_over = true;
                self.depth = 0;
                return Ok(());
            }
            (b'}', 1) => return Err(flaw("the array is closed as if it were an object")),
            (b'[' | b'{', _) => self.depth += 1,
            (b']' | b'}', _) => self.depth -= 1,
            (b'"', _) => self.is_in_string = true,
            _ => {}
        }
        // The array around the elements does not count.
        if self.depth > DEEPEST + 1 {
            return Err(nested_too_deep());
        }
        self.is_begun |= byte != b',' || self.depth > 1;
        Ok(())
    }

    fn end_element(&mut self, end: usize) {
        if self.count < Many::MOST {
            self.found.push(self.start..end);
        }
        self.count += 1;
        self.start = end + 1;
        self.is_begun = false;
    }

    fn finish(self) -> Result<(Vec<Range<usize>>, usize), Error> {
        match self.is_over {
            true => Ok((self.found, self.count)),
            false => Err(flaw("it ends before the array does")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::text::kind;

    fn split(text: &str) -> Result<Many, Error> {
        Many::split(Spool::Memory(text.to_owned().into()), false)
    }

    fn values(many: &Many) -> Vec<Value> {
        let text = |place: &Range<usize>| many.body.part(place.clone()).expect("there");
        many.elements.iter().map(|place| serde_json::from_slice(&text(place)).expect("JSON")).collect()
    }

    #[test]
    fn elements_come_in_their_order() {
        let many = split(r#" [ {"a": 1 }, [2] ,"x,]" ] "#).expect("an array");
        assert_eq!(values(&many), [serde_json::json!({"a": 1}), serde_json::json!([2]), "x,]".into()]);
    }

    #[test]
    fn what_is_too_many_is_counted_and_not_kept() {
        let many = split(&format!("[{}0]", "0,".repeat(4999))).expect("an array");
        assert_eq!((many.elements.len(), many.count), (1000, 5000));
    }

    #[test]
    fn what_is_too_deep_is_refused_before_it_is_read_to_its_end() {
        let refused = split(&"[".repeat(DEEPEST + 2)).err().expect("refused");
        assert!(refused.message().contains("127 deep"), "{}", refused.message());
        let deepest = format!("[{}{}]", "[".repeat(DEEPEST), "]".repeat(DEEPEST));
        assert!(split(&deepest).is_ok());
    }

    #[test]
    fn the_beginning_tells_what_is_refused_whatever_follows() {
        let refused = |text: &str| Many::check_beginning(text.as_bytes()).expect_err("refused").message().into_owned();
        assert!(refused(&"[".repeat(DEEPEST + 2)).contains("127 deep"));
        assert!(refused(&format!("[{}", "0,".repeat(1001))).contains("at most 1000"));
        assert!(refused(" {\"a\":").contains("is an object"));
        assert!(refused("[] 0").contains("behind the array"));
        for text in ["", " ", "[", &format!("[{}", "0,".repeat(1000)), "[{\"a"] {
            assert!(Many::check_beginning(text.as_bytes()).is_ok(), "{text}");
        }
    }

    proptest! {
        /// What is accepted begins acceptably, wherever the beginning ends.
        #[test]
        fn no_beginning_of_what_is_accepted_is_refused(
            text in r#" ?\[(0|"a\\"\\\\,\]"|\{"\[":1\}|\[\]|,| ){0,8}\]"#,
            size in 0_usize..40,
        ) {
            if split(&text).is_ok() {
                prop_assert!(Many::check_beginning(&text.as_bytes()[..size.min(text.len())]).is_ok());
            }
        }

        /// It says of every text what reading all of it says.
        #[test]
        fn it_agrees_with_reading_all_of_it(text in "[\\[\\]{}\":,a01 -]{0,12}|\\[(0|\"a\"|\\{\\}|\\[\\]|,){0,6}\\]") {
            match (split(&text), serde_json::from_str::<Value>(&text)) {
                (Ok(many), Ok(Value::Array(items))) => prop_assert_eq!(values(&many), items),
                (Err(Error::Invalid { message }), Ok(other)) => prop_assert!(message.contains(kind(&other))),
                (Err(Error::NotJson { .. }), Err(_)) => {}
                (found, read) => prop_assert!(false, "{:?} {read:?}", found.map(|many| many.count)),
            }
        }

        /// Wherever blocks end, the same is found.
        #[test]
        fn it_does_not_matter_where_blocks_end(
            text in r#"\[(0|"a\\"\\\\,\]"|\{"\[":1\}|\[\]|,| ){0,8}\]?"#,
            size in 1_usize..5,
        ) {
            let (mut whole, mut pieces) = (Elements::default(), Elements::default());
            let one = whole.look(text.as_bytes()).and_then(|()| whole.finish());
            let many = text.as_bytes().chunks(size).try_for_each(|block| pieces.look(block)).and_then(|()| pieces.finish());
            prop_assert_eq!(one.ok(), many.ok());
        }
    }
}
