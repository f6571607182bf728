//! Finding a page by words: an index that browsers fetch, and the same search here, for those without a script.

use std::collections::BTreeSet;

use serde::Serialize;

use super::Catalogue;
use super::guides;

/// One thing that can be found. Names are short, because browsers fetch all of them.
#[derive(Serialize)]
pub struct Entry {
    /// Where it is, below the path of the documentation.
    #[serde(rename = "u")]
    pub path: String,
    #[serde(rename = "t")]
    pub title: String,
    /// The guide or the resource that it belongs to.
    #[serde(rename = "p")]
    pub place: String,
    #[serde(rename = "x")]
    pub excerpt: String,
    /// Every word of it once, in small letters.
    #[serde(rename = "w")]
    words: String,
}

const EXCERPT: usize = 140;
const MOST_FOUND: usize = 30;

/// Anybody may ask, so no more words than these are looked for.
const MOST_ASKED: usize = 8;

/// What a word of the question is worth where it is found.
const IN_TITLE: u32 = 12;
const IN_PLACE: u32 = 5;
const AT_START: u32 = 2;
const WITHIN: u32 = 1;

pub fn index(catalogue: &Catalogue, base: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    for guide in guides::ALL {
        for section in guide.render(base, "").sections {
            let (path, title) = match section.id.as_str() {
                "" => (format!("/{}", guide.slug), guide.title().to_owned()),
                id => (format!("/{}#{id}", guide.slug), section.title.clone()),
            };
            entries.push(Entry {
                path,
                title,
                place: guide.title().to_owned(),
                excerpt: cut(&section.text),
                words: words(&section.words),
            });
        }
    }
    for resource in &catalogue.resources {
        for operation in &resource.operations {
            entries.push(Entry {
                path: format!("/api/{}#{}", resource.slug, operation.id),
                title: operation.summary.clone(),
                place: resource.name.clone(),
                excerpt: format!("{} {}", operation.method, operation.path),
                words: words(&format!("{} {} {}", operation.id.replace('_', " "), operation.path, operation.about)),
            });
        }
    }
    entries
}

/// The entries that hold every word of a question, the best first.
pub fn find<'a>(entries: &'a [Entry], question: &str) -> Vec<&'a Entry> {
    let asked: Vec<String> = split(question).take(MOST_ASKED).collect();
    if asked.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<(u32, &Entry)> =
        entries.iter().filter_map(|entry| Some((entry.worth(&asked)?, entry))).collect();
    found.sort_by_key(|(worth, _)| std::cmp::Reverse(*worth));
    found.into_iter().take(MOST_FOUND).map(|(_, entry)| entry).collect()
}

impl Entry {
    /// `None` where a word is missing.
    fn worth(&self, asked: &[String]) -> Option<u32> {
        let (title, place) = (self.title.to_lowercase(), self.place.to_lowercase());
        let mut sum = 0;
        for word in asked {
            let starts = |text: &str| split(text).any(|other| other.starts_with(word.as_str()));
            let parts = [
                (starts(&title), IN_TITLE),
                (starts(&place), IN_PLACE),
                (starts(&self.words), AT_START),
                (self.words.contains(word.as_str()) || title.contains(word.as_str()), WITHIN),
            ];
            let worth: u32 = parts.iter().filter(|(is_there, _)| *is_there).map(|(_, worth)| worth).sum();
            sum += Some(worth).filter(|worth| *worth > 0)?;
        }
        Some(sum)
    }
}

fn split(text: &str) -> impl Iterator<Item = String> {
    let parts = text.split(|char: char| !char.is_alphanumeric() && char != '_');
    parts.filter(|part| !part.is_empty()).map(str::to_lowercase)
}

fn words(text: &str) -> String {
    let all: BTreeSet<String> = split(text).filter(|word| word.len() > 2 || word.parse::<u32>().is_ok()).collect();
    all.into_iter().collect::<Vec<_>>().join(" ")
}

fn cut(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{}…", text[..end].rsplit_once(' ').map_or(&text[..end], |(whole, _)| whole)),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(title: &str, text: &str) -> Entry {
        let text = text.to_owned();
        Entry { path: String::new(), title: title.into(), place: "Guide".into(), words: words(&text), excerpt: text }
    }

    #[test]
    fn what_is_asked_for_comes_first_and_every_word_counts() {
        let entries = [entry("Other", "a signature is checked here"), entry("Verifying a signature", "with a key")];
        let titles = |question: &str| find(&entries, question).iter().map(|one| one.title.clone()).collect::<Vec<_>>();
        assert_eq!(titles("Signature"), ["Verifying a signature", "Other"]);
        assert_eq!(titles("signature key"), ["Verifying a signature"]);
        assert_eq!(titles("sign guid"), ["Verifying a signature", "Other"]);
        assert!(titles("").is_empty() && titles("zebra").is_empty() && titles("\"<>").is_empty());
    }
}
