//! Puts other addresses into the links of an HTML body. One pass over its bytes, piece by piece and without a tree;
//! whatever is no address of an `<a href>` is copied as it is.

use std::ops::Range;

use memchr::{memchr, memmem};

use crate::mime;

/// A tag that is longer than this is not waited for: from there on all is copied.
const LONGEST_TAG: usize = 1 << 20;

/// Elements whose content is no markup.
const RAW: &[&str] = &["iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp"];

/// What takes the place of a link's address; `None`: it stays.
type NewAddress = dyn Fn(&str) -> Option<String> + Send + Sync;

pub struct Rewriter {
    new_address: Box<NewAddress>,
    /// Stands at the end of the body.
    closing: String,
    is_closed: bool,
    within: Within,
    /// What cannot be judged before more is there.
    pending: Vec<u8>,
}

/// Where in the text we are.
#[derive(Clone, Copy)]
enum Within {
    Text,
    Comment,
    /// `<!…>` or `<?…>`.
    Declaration,
    /// The content of such an element.
    Raw(&'static str),
    /// What is not looked at any more.
    Rest,
}

/// What a look at the next bytes comes to.
enum Step {
    Took(usize),
    /// More is needed to judge.
    Wait,
}

impl Rewriter {
    pub fn new(new_address: Box<NewAddress>, closing: String) -> Rewriter {
        let is_closed = closing.is_empty();
        Rewriter { new_address, closing, is_closed, within: Within::Text, pending: Vec::new() }
    }

    /// The whole of a body at once.
    pub fn rewrite(mut self, html: &str) -> String {
        let mut out = Vec::with_capacity(html.len() + html.len() / 2);
        self.push(html.as_bytes(), &mut out);
        self.finish(&mut out);
        String::from_utf8(out).unwrap_or_else(|_| html.to_owned())
    }

    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.pending.is_empty() {
            let taken = self.scan(bytes, out, false);
            self.pending.extend_from_slice(&bytes[taken..]);
        } else {
            let mut input = std::mem::take(&mut self.pending);
            input.extend_from_slice(bytes);
            let taken = self.scan(&input, out, false);
            input.drain(..taken);
            self.pending = input;
        }
    }

    pub fn finish(mut self, out: &mut Vec<u8>) {
        let input = std::mem::take(&mut self.pending);
        self.scan(&input, out, true);
        self.close(out);
    }

    fn close(&mut self, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.is_closed, true) {
            out.extend_from_slice(self.closing.as_bytes());
        }
    }

    /// Copies what can be judged, and tells how much that is: at the end, all.
    fn scan(&mut self, input: &[u8], out: &mut Vec<u8>, is_last: bool) -> usize {
        let mut at = 0;
        while at < input.len() {
            let rest = &input[at..];
            let step = match self.within {
                Within::Text if rest[0] == b'<' => self.markup(rest, out, is_last),
                Within::Text => copy(rest, memchr(b'<', rest).unwrap_or(rest.len()), out),
                Within::Comment => self.until(rest, b"-->", out, is_last),
                Within::Declaration => self.until(rest, b">", out, is_last),
                Within::Raw(name) => self.raw(rest, name, out, is_last),
                Within::Rest => copy(rest, rest.len(), out),
            };
            match step {
                Step::Took(taken) => at += taken,
                Step::Wait => break,
            }
        }
        at
    }

    /// What begins with `<`.
    fn markup(&mut self, rest: &[u8], out: &mut Vec<u8>, is_last: bool) -> Step {
        if !is_last && (rest.len() < 3 || rest == b"<!-") {
            return Step::Wait;
        }
        if rest.starts_with(b"<!--") {
            self.within = Within::Comment;
            return copy(rest, 4, out);
        }
        if rest.starts_with(b"<!") || rest.starts_with(b"<?") {
            self.within = Within::Declaration;
            return copy(rest, 2, out);
        }
        let name_at = if rest.starts_with(b"</") { 2 } else { 1 };
        if !rest.get(name_at).is_some_and(u8::is_ascii_alphabetic) {
            return copy(rest, 1, out);
        }
        match Tag::read(rest, name_at) {
            Some(tag) => self.tag(rest, &tag, name_at == 2, out),
            None if is_last => copy(rest, rest.len(), out),
            None if rest.len() > LONGEST_TAG => {
                self.within = Within::Rest;
                copy(rest, rest.len(), out)
            }
            None => Step::Wait,
        }
    }

    fn tag(&mut self, rest: &[u8], tag: &Tag, closes: bool, out: &mut Vec<u8>) -> Step {
        let name = &rest[tag.name.clone()];
        if closes {
            if name.eq_ignore_ascii_case(b"body") {
                self.close(out);
            }
        } else if name.eq_ignore_ascii_case(b"plaintext") {
            self.within = Within::Rest;
        } else if let Some(raw) = RAW.iter().find(|raw| name.eq_ignore_ascii_case(raw.as_bytes())) {
            self.within = Within::Raw(raw);
        } else if name.eq_ignore_ascii_case(b"a")
            && let Some(href) = &tag.href
            && let Some(address) = self.address(&rest[href.clone()])
        {
            out.extend_from_slice(&rest[..href.start]);
            out.extend_from_slice(address.as_bytes());
            out.extend_from_slice(&rest[href.end..tag.end]);
            return Step::Took(tag.end);
        }
        copy(rest, tag.end, out)
    }

    /// What the value of an attribute becomes.
    fn address(&self, value: &[u8]) -> Option<String> {
        (self.new_address)(&mime::decoded_surely(std::str::from_utf8(value).ok()?)?)
    }

    /// Copies what ends with `end`.
    fn until(&mut self, rest: &[u8], end: &[u8], out: &mut Vec<u8>, is_last: bool) -> Step {
        if let Some(at) = memmem::find(rest, end) {
            self.within = Within::Text;
            return copy(rest, at + end.len(), out);
        }
        // The rest of the end may come with the next piece.
        match rest.len() + 1 - end.len().min(rest.len() + 1) {
            _ if is_last => copy(rest, rest.len(), out),
            0 => Step::Wait,
            known => copy(rest, known, out),
        }
    }

    /// Copies the content of an element, up to its end tag.
    fn raw(&mut self, rest: &[u8], name: &str, out: &mut Vec<u8>, is_last: bool) -> Step {
        let mut from = 0;
        while let Some(found) = memchr(b'<', &rest[from..]) {
            let at = from + found;
            let needed = at + 2 + name.len() + 1;
            let Some(end) = rest.get(at..needed) else {
                return match at {
                    _ if is_last => copy(rest, rest.len(), out),
                    0 => Step::Wait,
                    at => copy(rest, at, out),
                };
            };
            let is_its = end.starts_with(b"</") && end[2..2 + name.len()].eq_ignore_ascii_case(name.as_bytes());
            if is_its && (is_space(end[end.len() - 1]) || matches!(end[end.len() - 1], b'/' | b'>')) {
                self.within = Within::Text;
                return copy(rest, at, out);
            }
            from = at + 1;
        }
        copy(rest, rest.len(), out)
    }
}

fn copy(rest: &[u8], length: usize, out: &mut Vec<u8>) -> Step {
    out.extend_from_slice(&rest[..length]);
    Step::Took(length)
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c)
}

/// Where the parts of a tag stand.
struct Tag {
    name: Range<usize>,
    /// The value of its first `href`, without quotes.
    href: Option<Range<usize>>,
    /// Behind its `>`.
    end: usize,
}

impl Tag {
    /// As browsers read it; `None` where it does not end.
    fn read(bytes: &[u8], name_at: usize) -> Option<Tag> {
        let skip = |from: usize, is_skipped: fn(u8) -> bool| {
            bytes[from..].iter().position(|byte| !is_skipped(*byte)).map(|found| from + found)
        };
        let name = name_at..skip(name_at, |byte| !is_space(byte) && !matches!(byte, b'/' | b'>'))?;
        let (mut at, mut href) = (name.end, None);
        loop {
            at = skip(at, |byte| is_space(byte) || byte == b'/')?;
            if bytes[at] == b'>' {
                return Some(Tag { name, href, end: at + 1 });
            }
            // A name has at least one character, whatever that is.
            let end = skip(at + 1, |byte| !is_space(byte) && !matches!(byte, b'/' | b'>' | b'='))?;
            let is_href = bytes[at..end].eq_ignore_ascii_case(b"href");
            at = skip(end, is_space)?;
            if bytes[at] != b'=' {
                continue;
            }
            at = skip(at + 1, is_space)?;
            let value = match bytes[at] {
                quote @ (b'"' | b'\'') => at + 1..at + 1 + memchr(quote, &bytes[at + 1..])?,
                b'>' => at..at,
                _ => at..skip(at, |byte| !is_space(byte) && byte != b'>')?,
            };
            at = value.end + usize::from(matches!(bytes[at], b'"' | b'\''));
            if is_href && href.is_none() {
                href = Some(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every address becomes `https://t/` and what it was, in hexadecimal digits.
    fn marked() -> Rewriter {
        let hex = |target: &str| target.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
        let new = move |target: &str| target.starts_with("http").then(|| format!("https://t/{}", hex(target)));
        Rewriter::new(Box::new(new), "<img>".into())
    }

    fn unmarked() -> Rewriter {
        let byte =
            |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).expect("digits"), 16).expect("a byte");
        let back = move |target: &str| {
            let bytes = target.strip_prefix("https://t/")?.as_bytes().chunks(2).map(byte).collect();
            Some(escaped(&String::from_utf8(bytes).expect("text")))
        };
        Rewriter::new(Box::new(back), String::new())
    }

    fn escaped(text: &str) -> String {
        let one = |c: char| match c {
            '&' => "&amp;".into(),
            '"' => "&quot;".into(),
            '\'' => "&#39;".into(),
            ' ' => "&#32;".into(),
            '>' => "&gt;".into(),
            c => c.to_string(),
        };
        text.chars().map(one).collect()
    }

    /// What the links of a body lead to after they were rewritten.
    fn targets(html: &str) -> Vec<String> {
        let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let kept = seen.clone();
        let note = move |target: &str| {
            kept.lock().expect("alone").push(target.to_owned());
            None
        };
        assert_eq!(Rewriter::new(Box::new(note), String::new()).rewrite(html), html);
        seen.lock().expect("alone").clone()
    }

    #[test]
    fn addresses_are_read_as_browsers_read_them() {
        for (html, target) in [
            ("<a href=\"https://a/?x=1&amp;y=2\">", "https://a/?x=1&y=2"),
            ("<A\n HREF = 'https://a/?x=1&y=2#f' class=x>", "https://a/?x=1&y=2#f"),
            ("<a class=b href=https://a/b/>", "https://a/b/"),
            ("<a title='>' href=\"https://ä.example/€ ü\">", "https://ä.example/€ ü"),
            ("<a href=\"https://a/&#x26;&#38;&euro;&quot;\">", "https://a/&&€\""),
            ("<a data-href='http://no' href=http://a href=http://b>", "http://a"),
            ("<a/href='http://a'>", "http://a"),
            ("<a href=\"http://a/?a=1&copy=2&amp=3\">", "http://a/?a=1&copy=2&amp=3"),
            ("<a href=\"http://a/\n?b\">", "http://a/\n?b"),
        ] {
            assert_eq!(targets(html), [target], "{html}");
        }
    }

    #[test]
    fn what_is_no_link_is_left_alone() {
        for html in [
            "<!-- <a href='http://a'> -->",
            "<!--[if mso]><a href='http://a'><![endif]-->",
            "<script>'<a href=\"http://a\">'</script >",
            "<STYLE><a href='http://a'></style>",
            "<title><a href='http://a'></title>",
            "<abbr href='http://a'>",
            "<link href='http://a'><area href='http://a'><base href='http://a'>",
            "<p title=\"<a href='http://a'>\">",
            "<!doctype html \"<a href='http://a'\">",
            "< a href='http://a'>",
            "</a href='http://a'>",
            "<a href='http://a",
            "<a>",
            "<plaintext><a href='http://a'>",
            // What a browser reads there is not certain.
            "<a href='http://a/?b&notin;c'>",
            "<a href='http://a/?b&copy'>",
            "<a href='http://a/?b&#38c'>",
        ] {
            assert!(targets(html).is_empty(), "{html}");
        }
    }

    #[test]
    fn the_closing_stands_once_before_the_end_of_the_body_or_at_the_end() {
        let closed = |html: &str| Rewriter::new(Box::new(|_: &str| None), "<img>".into()).rewrite(html);
        assert_eq!(closed("<body>a</BODY ></html>"), "<body>a<img></BODY ></html>");
        assert_eq!(closed("a"), "a<img>");
        assert_eq!(closed("<!-- </body> -->a</body></body>"), "<!-- </body> -->a<img></body></body>");
        assert_eq!(closed("a<script>never ends"), "a<script>never ends<img>");
    }

    #[test]
    fn a_tag_that_never_ends_is_not_waited_for() {
        let mut rewriter = marked();
        let (mut out, piece) = (Vec::new(), vec![b'x'; 256 << 10]);
        rewriter.push(b"<a href='http://a'><img src='", &mut out);
        for _ in 0..8 {
            rewriter.push(&piece, &mut out);
            assert!(rewriter.pending.len() <= LONGEST_TAG + piece.len());
        }
        assert!(rewriter.pending.is_empty());
    }

    fn page() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            "[a-z<>&;\"'= /!-]{0,12}",
            "\\PC{0,6}",
            prop::sample::select(vec![
                "<script>",
                "</script>",
                "<!--",
                "-->",
                "</body>",
                "<a ",
                "<p title='",
                "<style>"
            ])
            .prop_map(str::to_owned),
            "https?://[a-z]{1,5}/[a-zä€ ?&=\"'#%;]{0,12}".prop_map(|url| format!("<a href=\"{}\">", escaped(&url))),
        ];
        prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn whatever_is_no_address_is_copied_byte_for_byte(html in page()) {
            targets(&html);
        }

        #[test]
        fn it_does_not_matter_in_which_pieces_a_body_comes(html in page(), size in 1_usize..40) {
            let (mut rewriter, mut out) = (marked(), Vec::new());
            html.as_bytes().chunks(size).for_each(|piece| rewriter.push(piece, &mut out));
            rewriter.finish(&mut out);
            prop_assert_eq!(String::from_utf8(out).expect("text"), marked().rewrite(&html));
        }

        #[test]
        fn taking_the_new_addresses_back_gives_the_body_as_it_was(
            urls in prop::collection::vec("https?://[a-z]{1,5}/[a-zä€ ?&=\"'#%;<>]{0,12}", 0..8), text in "[a-zä &;]{0,9}",
        ) {
            let html: String = urls.iter().map(|url| format!("{text}<a title='x' href=\"{}\">{text}</a>", escaped(url))).collect();
            let html = format!("<body>{html}</body>");
            let back = unmarked().rewrite(&marked().rewrite(&html));
            prop_assert_eq!(back.replace("<img>", ""), html);
        }
    }
}
