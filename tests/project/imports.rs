//! What the files of `src` declare and name, read from their text. Comments,
//! what stands in quotes and whatever is compiled for tests only is left out.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// One way of naming something: in which module, where, and what.
pub struct Reference {
    pub from: Vec<String>,
    pub place: String,
    pub to: Vec<String>,
}

impl Reference {
    pub fn told(&self) -> String {
        format!("{}: crate::{}", self.place, self.to.join("::"))
    }
}

pub fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            rust_files(&entry, files);
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            files.push(entry);
        }
    }
}

/// `src/a/b.rs` and `src/a/b/mod.rs` are both `a::b`.
pub fn module_of(name: &str) -> Vec<String> {
    let path = name.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    path.split('/').map(str::to_owned).collect()
}

/// What one file declares and names.
pub struct Reading<'a> {
    file: &'a str,
    tokens: Vec<Token>,
    /// The module at the token that is being read; grows in `mod name { … }`.
    module: Vec<String>,
    /// What `use` made known in this file, by the name that it got.
    names: BTreeMap<String, Vec<String>>,
    pub modules: Vec<(Vec<String>, bool)>,
    pub test_modules: Vec<Vec<String>>,
    pub references: Vec<Reference>,
}

impl<'a> Reading<'a> {
    pub fn of(module: &[String], file: &'a str, text: &str) -> Reading<'a> {
        let mut reading = Reading {
            file,
            tokens: tokens(text),
            // What the root declares stands directly below it.
            module: if module == ["lib"] { Vec::new() } else { module.to_vec() },
            names: BTreeMap::new(),
            modules: Vec::new(),
            test_modules: Vec::new(),
            references: Vec::new(),
        };
        reading.drop_tests();
        reading.walk(true);
        reading.walk(false);
        reading
    }

    fn word(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| &token.text)
    }

    /// Takes out whatever follows `#[cfg(test)]`.
    fn drop_tests(&mut self) {
        let mark = ["#", "[", "cfg", "(", "test", ")", "]"];
        let mut at = 0;
        while at < self.tokens.len() {
            if !(0..mark.len()).all(|i| self.word(at + i) == mark[i]) {
                at += 1;
                continue;
            }
            let mut start = at + mark.len();
            while self.word(start) == "#" {
                start = self.closing(start + 1) + 1;
            }
            let end = self.end_of_item(start);
            if let Some(i) = (start..end.min(start + 6)).find(|i| self.word(*i) == "mod") {
                self.test_modules.push([&self.module[..], &[self.word(i + 1).to_owned()]].concat());
            }
            self.tokens.drain(at..end);
        }
    }

    /// Where the bracket at `at` is closed.
    fn closing(&self, at: usize) -> usize {
        let mut depth = 0_usize;
        for i in at..self.tokens.len() {
            match self.word(i) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return i;
            }
        }
        self.tokens.len()
    }

    /// Behind the item, the variant or the arm of a match that begins at `start`.
    fn end_of_item(&self, start: usize) -> usize {
        let is_item =
            ["pub", "fn", "impl", "mod", "struct", "enum", "use", "const", "static", "async", "type", "trait"]
                .contains(&self.word(start));
        let mut is_use = false;
        let mut at = start;
        while at < self.tokens.len() {
            match self.word(at) {
                "use" => is_use = true,
                ";" => return at + 1,
                "," if !is_item => return at + 1,
                "}" => return at,
                "{" if !is_use => return self.closing(at) + 1,
                "(" | "[" | "{" => at = self.closing(at),
                _ => {}
            }
            at += 1;
        }
        at
    }

    /// Goes through the file: first for what `use` makes known, then for the rest.
    fn walk(&mut self, first: bool) {
        let mut blocks = Vec::new();
        let mut at = 0;
        while at < self.tokens.len() {
            match (self.word(at), self.word(at + 2)) {
                ("mod", "{") => {
                    self.declare(at, first);
                    self.module.push(self.word(at + 1).to_owned());
                    blocks.push(true);
                    at += 3;
                }
                ("mod", ";") => {
                    self.declare(at, first);
                    at += 3;
                }
                ("{", _) => {
                    blocks.push(false);
                    at += 1;
                }
                ("}", _) => {
                    if blocks.pop() == Some(true) {
                        self.module.pop();
                    }
                    at += 1;
                }
                ("use", _) => at = self.import(at + 1, Vec::new(), first),
                (word, _) if is_word(word) && self.word(at.wrapping_sub(1)) != "." => at = self.path(at, first),
                _ => at += 1,
            }
        }
    }

    fn declare(&mut self, at: usize, first: bool) {
        if first {
            let is_public = at > 0 && matches!(self.word(at - 1), "pub" | ")");
            self.modules.push(([&self.module[..], &[self.word(at + 1).to_owned()]].concat(), is_public));
        }
    }

    /// A tree of imports, behind what was read of it. Says where it ends.
    fn import(&mut self, mut at: usize, mut path: Vec<String>, first: bool) -> usize {
        let line = self.tokens.get(at).map_or(0, |token| token.line);
        loop {
            match self.word(at) {
                "::" => at += 1,
                "{" => {
                    at += 1;
                    while !matches!(self.word(at), "}" | "") {
                        at = self.import(at, path.clone(), first);
                        at += usize::from(self.word(at) == ",");
                    }
                    return at + 1;
                }
                "as" => {
                    let name = self.word(at + 1).to_owned();
                    self.imported(&path, name, line, first);
                    return at + 2;
                }
                word if is_word(word) || word == "*" => {
                    path.push(word.to_owned());
                    at += 1;
                }
                _ => {
                    let name = path.iter().rev().find(|segment| *segment != "self").cloned().unwrap_or_default();
                    self.imported(&path, name, line, first);
                    return at;
                }
            }
        }
    }

    fn imported(&mut self, path: &[String], name: String, line: usize, first: bool) {
        let Some(to) = self.resolve(path) else { return };
        if first {
            self.names.insert(name, to);
        } else {
            self.refer(to, line);
        }
    }

    /// A path in the code. Says where it ends.
    fn path(&mut self, start: usize, first: bool) -> usize {
        let mut path = vec![self.word(start).to_owned()];
        let mut at = start + 1;
        while self.word(at) == "::" && is_word(self.word(at + 1)) {
            path.push(self.word(at + 1).to_owned());
            at += 2;
        }
        if first || path.len() == 1 {
            return at;
        }
        // Of what was imported only modules lead on to more than the import has told.
        let is_module = path[0].starts_with(char::is_lowercase);
        let to = match self.names.get(&path[0]) {
            Some(known) => is_module.then(|| [known, &path[1..]].concat()),
            None => self.resolve(&path),
        };
        if let Some(to) = to {
            self.refer(to, self.tokens[start].line);
        }
        at
    }

    fn refer(&mut self, to: Vec<String>, line: usize) {
        let place = format!("{}:{line}", self.file);
        self.references.push(Reference { from: self.module.clone(), place, to });
    }

    /// From the root of the crate, if the path leads into it.
    fn resolve(&self, path: &[String]) -> Option<Vec<String>> {
        let mut base = self.module.clone();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" => return Some(path[1..].iter().filter(|segment| *segment != "self").cloned().collect()),
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|segment| segment == "super") {
                    base.pop();
                    rest = &rest[1..];
                }
            }
            name if self.modules.iter().any(|(known, _)| known.split_last() == Some((&name.to_owned(), &base[..]))) => {
            }
            _ => return None,
        }
        base.extend(rest.iter().filter(|segment| *segment != "self").cloned());
        Some(base)
    }
}

// ---- tokens ------------------------------------------------------------------

struct Token {
    text: String,
    line: usize,
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Words and signs; comments and what stands in quotes are left out.
fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < chars.len() {
        let rest = &chars[at..];
        let is = |sign: &str| sign.chars().enumerate().all(|(i, c)| rest.get(i) == Some(&c));
        let length = if is("//") {
            rest.iter().position(|c| *c == '\n').unwrap_or(rest.len())
        } else if is("/*") {
            comment(rest)
        } else if let Some(length) = literal(rest) {
            length
        } else if rest[0].is_alphanumeric() || rest[0] == '_' {
            let length = rest.iter().position(|c| !c.is_alphanumeric() && *c != '_').unwrap_or(rest.len());
            tokens.push(Token { text: rest[..length].iter().collect(), line });
            length
        } else {
            let length = if is("::") { 2 } else { 1 };
            if !rest[0].is_whitespace() {
                tokens.push(Token { text: rest[..length].iter().collect(), line });
            }
            length
        };
        line += rest[..length].iter().filter(|c| **c == '\n').count();
        at += length;
    }
    tokens
}

/// The length of a comment that may hold others.
fn comment(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match (rest[at], rest.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// The length of a string, of bytes or of a character, if one begins here.
fn literal(rest: &[char]) -> Option<usize> {
    let prefix = rest.iter().take_while(|c| matches!(c, 'b' | 'c' | 'r')).take(2).count();
    let marks = rest[prefix..].iter().take_while(|c| **c == '#').count();
    let is_raw = rest[..prefix].contains(&'r');
    let open = prefix + marks;
    match rest.get(open)? {
        '"' if is_raw => {
            let ends = |i: usize| rest[i] == '"' && (1..=marks).all(|k| rest.get(i + k) == Some(&'#'));
            (open + 1..rest.len()).find(|i| ends(*i)).map(|i| i + 1 + marks)
        }
        '"' if marks == 0 => quoted(rest, open, '"'),
        // Behind a lifetime there is no second quote.
        '\'' if marks == 0 && (rest.get(open + 1) == Some(&'\\') || rest.get(open + 2) == Some(&'\'')) => {
            quoted(rest, open, '\'')
        }
        _ => None,
    }
}

fn quoted(rest: &[char], open: usize, quote: char) -> Option<usize> {
    let mut at = open + 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    Some(at + 1)
}
