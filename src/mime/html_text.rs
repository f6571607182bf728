//! The text of an HTML body, for readers that show no HTML. One pass over the bytes, without
//! a tree: what is nested deeply costs no more than what is not.

use std::borrow::Cow;

use memchr::memchr;

use super::html_entity::decoded;
use super::html_tag::{Markup, Tag, behind_element};

/// What is behind this is left out, of the HTML and of the text.
pub const LONGEST: usize = 1024 * 1024;

/// How deep lists and quotations are told apart.
const DEEPEST: usize = 8;

/// Elements that begin and end a line, and those with an empty line around them.
const LINES: &[&str] = &[
    "address",
    "article",
    "aside",
    "body",
    "center",
    "dd",
    "details",
    "dialog",
    "div",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "header",
    "html",
    "legend",
    "li",
    "main",
    "nav",
    "option",
    "section",
    "summary",
    "table",
    "tbody",
    "tfoot",
    "thead",
    "tr",
];
const PARAGRAPHS: &[&str] = &["blockquote", "dl", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "p", "pre"];

/// Elements whose content is no text for readers.
const SKIPPED: &[&str] = &["iframe", "noembed", "noframes", "script", "style", "template", "textarea", "title", "xmp"];

pub fn text_of_html(html: &str) -> String {
    let mut rest = &html[..html.floor_char_boundary(LONGEST)];
    let mut text = Text::default();
    while let Some(at) = memchr(b'<', rest.as_bytes()).filter(|_| text.out.len() < LONGEST) {
        let (before, markup) = rest.split_at(at);
        text.say(before);
        rest = match Tag::read(markup) {
            Markup::Tag(tag, behind) => text.tag(&tag, behind),
            Markup::Ignored(behind) => behind,
            Markup::Text => {
                text.say("<");
                &markup[1..]
            }
        };
    }
    text.say(rest);
    text.end()
}

/// Text as it is written.
#[derive(Default)]
struct Text {
    out: String,
    /// How many line breaks come before what is said next, and whether a space does.
    breaks: usize,
    has_space: bool,
    quotes: usize,
    /// The lists we are in: the number of the next item, where items have one.
    lists: Vec<Option<u32>>,
    /// How many lists deeper than told apart.
    deeper: usize,
    /// Where the text of the last item begins.
    item_start: Option<usize>,
    preformatted: usize,
    /// Where a link goes, and where its text began.
    link: Option<(String, usize)>,
}

impl Text {
    fn say(&mut self, raw: &str) {
        let text = decoded(raw);
        if self.preformatted > 0 { self.say_as_it_is(&text) } else { self.say_words(&text) }
    }

    /// Text that was decoded before.
    fn say_words(&mut self, text: &str) {
        for (at, word) in text.split(is_space).enumerate() {
            self.has_space |= at > 0;
            let word = visible(word);
            if !word.is_empty() {
                self.begin_word();
                self.out.push_str(&word);
            }
        }
    }

    fn say_as_it_is(&mut self, text: &str) {
        for (at, line) in text.split('\n').enumerate() {
            if at > 0 {
                self.breaks = (self.breaks + 1).min(2);
            }
            let line = visible(line.trim_end_matches('\r'));
            if line.trim().is_empty() {
                self.has_space |= !line.is_empty();
            } else {
                self.begin_word();
                self.out.push_str(&line);
            }
        }
    }

    /// Line breaks and spaces count as soon as something follows them.
    fn begin_word(&mut self) {
        let is_first = self.out.is_empty();
        let breaks = std::mem::take(&mut self.breaks);
        let has_space = std::mem::take(&mut self.has_space);
        if is_first || breaks > 0 {
            for _ in 0..if is_first { 0 } else { breaks } {
                self.out.truncate(self.out.trim_end_matches(' ').len());
                self.out.push('\n');
            }
            self.out.push_str(&"> ".repeat(self.quotes.min(DEEPEST)));
        } else if has_space && !self.out.ends_with(' ') {
            self.out.push(' ');
        }
    }

    /// At least so many line breaks; none between the mark of an item and what the item says.
    fn break_line(&mut self, breaks: usize) {
        if self.item_start != Some(self.out.len()) {
            self.breaks = self.breaks.max(breaks);
        }
        self.has_space = false;
    }

    /// Around a paragraph. Those within a list stand close together.
    fn break_paragraph(&mut self) {
        self.break_line(if self.lists.is_empty() { 2 } else { 1 });
    }

    /// What a tag does to the text. Gives back where reading goes on.
    fn tag<'a>(&mut self, tag: &Tag<'_>, rest: &'a str) -> &'a str {
        let name = tag.name.as_str();
        if SKIPPED.contains(&name) && !tag.closes {
            return behind_element(rest, name);
        }
        if tag.closes && name == "a" {
            self.end_link();
        }
        let is_item_end = tag.closes && name == "li";
        if LINES.contains(&name) && !is_item_end {
            self.break_line(1);
        } else if PARAGRAPHS.contains(&name) {
            self.break_paragraph();
        }
        match (name, tag.closes) {
            ("br", _) => {
                self.breaks = (self.breaks + 1).min(2);
                self.has_space = false;
            }
            ("td" | "th", _) => self.has_space = true,
            ("a", false) => self.begin_link(tag),
            ("img", _) => self.say_words(&tag.attribute("alt").unwrap_or_default()),
            ("hr", _) => {
                self.say_words("----");
                self.break_paragraph();
            }
            ("li", false) => self.begin_item(),
            ("ul" | "ol", false) => self.begin_list(name == "ol"),
            ("ul" | "ol", true) => self.end_list(),
            ("blockquote", false) => self.quotes += 1,
            ("blockquote", true) => self.quotes = self.quotes.saturating_sub(1),
            ("pre", false) => self.preformatted += 1,
            ("pre", true) => self.preformatted = self.preformatted.saturating_sub(1),
            _ => {}
        }
        rest
    }

    fn begin_list(&mut self, is_numbered: bool) {
        self.break_paragraph();
        if self.lists.len() < DEEPEST {
            self.lists.push(is_numbered.then_some(1));
        } else {
            self.deeper += 1;
        }
    }

    fn end_list(&mut self) {
        if self.deeper > 0 {
            self.deeper -= 1;
        } else {
            self.lists.pop();
        }
        self.break_paragraph();
    }

    fn begin_item(&mut self) {
        let indent = "  ".repeat(self.lists.len().saturating_sub(1));
        let mark: Cow<'_, str> = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number = number.saturating_add(1);
                format!("{}. ", *number - 1).into()
            }
            _ => "- ".into(),
        };
        self.begin_word();
        self.out.push_str(&indent);
        self.out.push_str(&mark);
        self.item_start = Some(self.out.len());
    }

    fn begin_link(&mut self, tag: &Tag<'_>) {
        self.end_link();
        let href = tag.attribute("href").map(|href| href.trim().to_owned());
        let goes_somewhere = |href: &String| {
            let start = href.get(..8.min(href.len())).unwrap_or_default().to_ascii_lowercase();
            ["http://", "https://", "mailto:", "tel:"].iter().any(|scheme| start.starts_with(scheme))
        };
        self.link = href.filter(goes_somewhere).map(|href| (href, self.out.len()));
    }

    /// Says where the link goes, unless its text said it.
    fn end_link(&mut self) {
        let Some((href, start)) = self.link.take() else { return };
        let said = self.out.get(start..).unwrap_or_default().trim();
        let told = href.strip_prefix("mailto:").or_else(|| href.strip_prefix("tel:")).unwrap_or(&href);
        if said.trim_end_matches('/') == told.trim_end_matches('/') {
            return;
        }
        let has_text = !said.is_empty();
        let href: String = href.chars().filter(|c| !c.is_control() && !c.is_whitespace()).collect();
        self.has_space |= has_text;
        self.breaks = if has_text { 0 } else { self.breaks };
        self.begin_word();
        self.out.push_str(&if has_text { format!("({href})") } else { href });
    }

    fn end(mut self) -> String {
        self.end_link();
        self.out.truncate(self.out.floor_char_boundary(LONGEST));
        self.out.truncate(self.out.trim_end().len());
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        self.out
    }
}

fn is_space(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\u{a0}'
}

/// Without what previews are filled with and nobody sees.
fn visible(word: &str) -> Cow<'_, str> {
    let is_filler = |c: char| {
        matches!(c, '\u{ad}' | '\u{34f}' | '\u{200b}' | '\u{2060}' | '\u{feff}') || c.is_control() && c != '\t'
    };
    if word.contains(is_filler) { word.replace(is_filler, "").into() } else { word.into() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(html: &str, text: &str) {
        assert_eq!(text_of_html(html).trim_end(), text, "{html}");
    }

    #[test]
    fn paragraphs_lists_and_links_are_told() {
        check("", "");
        check("<h1>Hello,\n  Ada</h1><p>one<br>two</p><p>three</p>", "Hello, Ada\n\none\ntwo\n\nthree");
        check("<ul><li>a<li>b<ol><li>c</li><li>d</li></ol></li></ul>e", "- a\n- b\n  1. c\n  2. d\n\ne");
        check("<ul><li><p>a</p></li><li><p>b</p></li></ul>", "- a\n- b");
        check(
            "see <a href='https://example.com/?a=1&amp;b=2'>our page</a>.",
            "see our page (https://example.com/?a=1&b=2).",
        );
        check("<a href=https://example.com/>https://example.com</a>", "https://example.com");
        check("<a href='mailto:ada@example.com'>ada@example.com</a>", "ada@example.com");
        check("<a href=\"https://example.com\"><img src=x alt=\"A  > B\"></a>", "A > B (https://example.com)");
        check("<a href='#top'>up</a> <a>none</a> <a href='javascript:x()'>no</a>", "up none no");
        check("<table><tr><td>a</td><td>b</td></tr><tr><td>c</table>d", "a b\nc\nd");
        check("<blockquote>a<blockquote><p>b</p></blockquote></blockquote>c", "> a\n\n> > b\n\nc");
        check("<pre>a\n  b\n\nc</pre>d", "a\n  b\n\nc\n\nd");
        check("a<hr>b", "a\n\n----\n\nb");
    }

    #[test]
    fn what_is_no_text_is_left_out() {
        let head = "<!DOCTYPE html><html><head><title>T</title><style>p > a { color: red }</style></head>";
        check(&format!("{head}<body>a<script>if (a < b) {{ '</p>' }}</SCRIPT >b</body></html>"), "ab");
        check("a<!-- <p>no</p> -->b<!--[if mso]>no<![endif]--><![if !mso]>c<![endif]><?xml?>", "abc");
        check("<div title=\"a > b\" hidden>c</div>", "c");
        check(
            "a &lt;b&gt; &amp;amp; &euro;&#8364;&#x20ac;&#128; &unknown; &; & &#0;",
            "a <b> &amp; €€€€ &unknown; &; & &#0;",
        );
        check("1 < 2 <3 </ > <", "1 < 2 <3 </ > <");
        check("&nbsp;\u{200b}&#847;&shy; a&nbsp;\u{feff}&nbsp;b", "a b");
        check("a<script>never ends", "a");
        check("a<!-- never ends", "a");
        check("a<b class=\"never ends", "a");
    }

    #[test]
    fn deep_and_long_input_costs_no_stack_and_is_cut() {
        for open in ["<div>", "<table><tr><td>", "<blockquote>", "<ul><li>", "<pre>", "<a href=https://x>", "<b><i>"] {
            let text = text_of_html(&format!("{}deep", open.repeat(100_000)));
            assert!(text.len() <= 4 * LONGEST, "{open}: {}", text.len());
        }
        assert!(text_of_html(&format!("{}deep", "<div>".repeat(100_000))).contains("deep"));
        let long = "ä".repeat(LONGEST);
        assert_eq!(text_of_html(&long).trim_end(), &long[..LONGEST]);
        for bad in ["<", "<a ", "<a href=\"", "&", "&#", "</", "<!", "<title></titl", "<p a='", "=\"'>"] {
            text_of_html(&bad.repeat(LONGEST / 8 / bad.len()));
        }
    }

    proptest! {
        #[test]
        fn anything_has_a_text(words in prop::collection::vec(prop::sample::select(vec![
            "<", ">", "</", "<a href=", "<a =x ä='", "</a>", "\"", "'", "<li>", "<ol>", "</ol>", "<p>", "<br/>", "<pre>", "</pre>",
            "<!--", "-->", "<script>", "</script>", "&", "&amp;", "&#x41;", ";", "ä", "📯", " ", "\n", "\0", "<blockquote>", "https://x",
        ]), 0..40)) {
            let text = text_of_html(&words.concat());
            prop_assert!(!text.contains(|c: char| c.is_control() && c != '\n' && c != '\t'), "{:?}", text);
            prop_assert!(!text.contains("\n\n\n"), "{:?}", text);
        }
    }
}
