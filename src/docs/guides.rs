//! The guides: texts in `docs/guides`, compiled in.

use super::markdown::{self, Rendered};

/// The address that the texts are written with; the server's own takes its place.
const WRITTEN_FOR: &str = "https://posthorn.example";

pub struct Guide {
    pub slug: &'static str,
    source: &'static str,
}

macro_rules! guides {
    ($($slug:literal),* $(,)?) => {
        &[$(Guide { slug: $slug, source: include_str!(concat!("../../docs/guides/", $slug, ".md")) }),*]
    };
}

/// In the order in which they are shown. The first one is part of the first page.
pub const ALL: &[Guide] = guides![
    "quick-start",
    "sending",
    "domains",
    "templates",
    "events",
    "automations",
    "broadcasts",
    "webhooks",
    "oauth",
    "errors",
    "pagination",
    "idempotency",
    "limits",
    "moving",
];

pub fn find(slug: &str) -> Option<&'static Guide> {
    ALL.iter().find(|guide| guide.slug == slug)
}

impl Guide {
    pub fn title(&self) -> &'static str {
        self.source.lines().next().unwrap_or_default().trim_start_matches('#').trim()
    }

    /// The first sentence below the title.
    pub fn summary(&self) -> String {
        let paragraph = self.source.split("\n\n").nth(1).unwrap_or_default();
        let sentence = paragraph.split_inclusive(". ").next().unwrap_or_default();
        sentence.replace('`', "").trim().to_owned()
    }

    /// As Markdown, for the server at `base`.
    pub fn text(&self, base: &str) -> String {
        self.source.replace(WRITTEN_FOR, base)
    }

    /// As HTML, for the server at `base`; `docs` is the path that the pages are below.
    pub fn render(&self, base: &str, docs: &str) -> Rendered {
        markdown::render(&self.text(base), &|address| match address {
            other if other.starts_with("http") || other.starts_with('#') => other.to_owned(),
            inner => format!("{docs}/{}", inner.replacen(".md", "", 1)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_guide_has_a_title_and_says_what_it_is_about() {
        for guide in ALL {
            assert!(!guide.title().is_empty() && guide.source.starts_with("# "), "{}", guide.slug);
            assert!(guide.summary().len() > 20, "{}: {}", guide.slug, guide.summary());
            let made = guide.render("http://h", "/docs");
            assert!(made.sections.len() > 2, "{}", guide.slug);
            assert!(!made.html.contains("]("), "{}: a link that is none", guide.slug);
        }
    }

    #[test]
    fn headings_are_in_order_and_their_anchors_differ() {
        for guide in ALL {
            let (mut level, mut seen) = (1, Vec::new());
            for section in guide.render("http://h", "/docs").sections.iter().skip(1) {
                assert!(section.level <= level + 1, "{}: {}", guide.slug, section.title);
                assert!(!seen.contains(&section.id), "{}: {} twice", guide.slug, section.id);
                level = section.level;
                seen.push(section.id.clone());
            }
        }
    }
}
