//! The hash of a body as signatures name it: relaxed (RFC 6376, section 3.4.4), of a body of
//! any length as it passes by.

use ring::digest::{Context, SHA256};

/// Small writes are gathered before they are hashed.
const GATHERED: usize = 4096;

pub struct BodyHash {
    hash: Context,
    gathered: Vec<u8>,
    /// Line breaks that count as soon as something follows them.
    breaks: u64,
    /// White space that counts as one space as soon as something follows it on its line.
    has_space: bool,
    /// A carriage return that may turn out to be half of a line break.
    has_return: bool,
    is_empty: bool,
}

impl Default for BodyHash {
    fn default() -> BodyHash {
        BodyHash::new()
    }
}

impl BodyHash {
    pub fn new() -> BodyHash {
        BodyHash {
            hash: Context::new(&SHA256),
            gathered: Vec::with_capacity(GATHERED + 128),
            breaks: 0,
            has_space: false,
            has_return: false,
            is_empty: true,
        }
    }

    pub fn push(&mut self, mut bytes: &[u8]) {
        while let Some((&byte, rest)) = bytes.split_first() {
            if std::mem::take(&mut self.has_return) {
                if byte == b'\n' {
                    self.breaks += 1;
                    self.has_space = false;
                    bytes = rest;
                    continue;
                }
                self.write(b"\r");
            }
            match byte {
                b'\r' => (self.has_return, bytes) = (true, rest),
                b' ' | b'\t' => (self.has_space, bytes) = (true, rest),
                _ => {
                    let end = bytes.iter().position(|byte| b"\r \t".contains(byte)).unwrap_or(bytes.len());
                    self.write(&bytes[..end]);
                    bytes = &bytes[end..];
                }
            }
        }
    }

    /// What counts for itself, and so does what was waiting for it.
    fn write(&mut self, word: &[u8]) {
        for _ in 0..std::mem::take(&mut self.breaks) {
            self.gather(b"\r\n");
        }
        if std::mem::take(&mut self.has_space) {
            self.gather(b" ");
        }
        self.gather(word);
        self.is_empty = false;
    }

    fn gather(&mut self, bytes: &[u8]) {
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= GATHERED {
            self.hash.update(&self.gathered);
            self.gathered.clear();
        }
    }

    pub fn finish(mut self) -> [u8; 32] {
        if std::mem::take(&mut self.has_return) {
            self.write(b"\r");
        }
        if !self.is_empty {
            self.gather(b"\r\n");
        }
        self.hash.update(&self.gathered);
        let mut hash = [0; 32];
        hash.copy_from_slice(self.hash.finish().as_ref());
        hash
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::secret;

    /// Section 3.4.4, step by step.
    fn relaxed(body: &str) -> Vec<u8> {
        let lines = body.split("\r\n").map(|line| {
            let mut out = String::new();
            for c in line.chars() {
                let c = if c == '\t' { ' ' } else { c };
                if !(c == ' ' && out.ends_with(' ')) {
                    out.push(c);
                }
            }
            out.trim_end_matches(' ').to_owned()
        });
        let mut lines: Vec<String> = lines.collect();
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        lines.iter().map(|line| format!("{line}\r\n")).collect::<String>().into_bytes()
    }

    fn hash(body: &str, cuts: &[usize]) -> [u8; 32] {
        let mut hash = BodyHash::new();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (body.len() + 1)).chain([0, body.len()]).collect();
        cuts.sort_unstable();
        for pair in cuts.windows(2) {
            hash.push(&body.as_bytes()[pair[0]..pair[1]]);
        }
        hash.finish()
    }

    #[test]
    fn bodies_that_tell_the_same_have_one_hash() {
        let of = |body: &str| hash(body, &[]);
        // The hash of nothing, and that of a body which RFC 6376 gives as an example.
        assert_eq!(of(""), secret::hash_bytes(b""));
        assert_eq!(of(" \t\r\n\r\n \r\n"), secret::hash_bytes(b""));
        assert_eq!(of(" C \r\nD \t E\r\n\r\n\r\n"), secret::hash_bytes(b" C\r\nD E\r\n"));
        assert_eq!(of("no end"), of("no end\r\n"));
        assert_eq!(of("a\rb\nc\r"), secret::hash_bytes(b"a\rb\nc\r\r\n"));
    }

    proptest! {
        #[test]
        fn the_hash_is_that_of_the_standard_however_the_body_comes(
            words in prop::collection::vec(prop::sample::select(vec!["a", ".", " ", "\t", "\r\n", "\r", "\n", "x y", "  \r\n"]), 0..40),
            cuts in prop::collection::vec(any::<usize>(), 0..6),
        ) {
            let body = words.concat();
            prop_assert_eq!(hash(&body, &cuts), secret::hash_bytes(&relaxed(&body)), "{:?}", body);
        }
    }
}
