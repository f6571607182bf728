//! The part of Markdown that the guides are written in, as HTML: headings, paragraphs, lists, tables, quotes and code.
//! Everything is escaped: what is written is what is shown.

/// A guide as HTML, with its headings.
pub struct Rendered {
    pub html: String,
    pub title: String,
    pub sections: Vec<Section>,
}

/// What stands between two headings; the first one stands below the title.
#[derive(Default)]
pub struct Section {
    /// The anchor; empty for what stands below the title.
    pub id: String,
    pub title: String,
    pub level: usize,
    /// What it says, without marks, and without code.
    pub text: String,
    /// All of it, in the words by which it is found.
    pub words: String,
}

/// `link` makes an address of what a link names.
pub fn render(source: &str, link: &dyn Fn(&str) -> String) -> Rendered {
    let mut out = Writer { html: String::new(), title: String::new(), sections: vec![Section::default()], link };
    let lines: Vec<&str> = source.lines().collect();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        at += out.block(line, &lines[at..]);
    }
    Rendered { html: out.html, title: out.title, sections: out.sections }
}

struct Writer<'a> {
    html: String,
    title: String,
    sections: Vec<Section>,
    link: &'a dyn Fn(&str) -> String,
}

impl Writer<'_> {
    /// Writes the block that begins here; returns how many lines it has.
    fn block(&mut self, line: &str, rest: &[&str]) -> usize {
        let while_ = |is_part: &dyn Fn(&str) -> bool| rest.iter().take_while(|line| is_part(line)).count();
        if line.trim().is_empty() {
            return 1;
        }
        if let Some(language) = line.strip_prefix("```") {
            let code: Vec<&str> = rest[1..].iter().take_while(|line| !line.starts_with("```")).copied().collect();
            self.code(language.trim(), &code.join("\n"));
            return code.len() + 2;
        }
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        if level > 0 && line[level..].starts_with(' ') {
            self.heading(level, line[level..].trim());
            return 1;
        }
        if line.starts_with('|') {
            let count = while_(&|line| line.starts_with('|'));
            self.table(&rest[..count]);
            return count;
        }
        if line.starts_with("> ") {
            let count = while_(&|line| line.starts_with("> "));
            let text: Vec<&str> = rest[..count].iter().map(|line| &line[2..]).collect();
            self.text("<blockquote><p>", &text.join(" "), "</p></blockquote>\n");
            return count;
        }
        for (is_item, open, close) in
            [(is_bullet as fn(&str) -> bool, "<ul>\n", "</ul>\n"), (is_number, "<ol>\n", "</ol>\n")]
        {
            if is_item(line) {
                let count = while_(&|line| is_item(line) || line.starts_with("  "));
                self.html.push_str(open);
                let mut items: Vec<String> = Vec::new();
                for line in &rest[..count] {
                    match items.last_mut() {
                        Some(item) if !is_item(line) => *item = format!("{item} {}", line.trim()),
                        _ => items.push(line.split_once(' ').map_or("", |(_, text)| text).trim().to_owned()),
                    }
                }
                items.iter().for_each(|item| self.text("<li>", item, "</li>\n"));
                self.html.push_str(close);
                return count;
            }
        }
        let is_plain =
            |line: &str| !line.trim().is_empty() && !["```", "|", "#", "> "].iter().any(|mark| line.starts_with(mark));
        let count = while_(&|line| is_plain(line) && !is_bullet(line)).max(1);
        self.text("<p>", &rest[..count].join(" "), "</p>\n");
        count
    }

    fn heading(&mut self, level: usize, text: &str) {
        if level == 1 {
            // The page shows it itself.
            text.clone_into(&mut self.title);
            return;
        }
        let plain = plain(text);
        let id = anchor(&plain);
        let shown = inline(text, self.link);
        self.html.push_str(&format!(
            "<h{level} id=\"{id}\">{shown} <a class=\"anchor\" href=\"#{id}\" aria-label=\"Link to {}\">#</a></h{level}>\n",
            escaped(&plain)
        ));
        self.sections.push(Section { id, title: plain, level, ..Section::default() });
    }

    fn code(&mut self, language: &str, code: &str) {
        self.note(code);
        self.html.push_str(&snippet(language, code));
    }

    fn text(&mut self, open: &str, text: &str, close: &str) {
        self.tell(text);
        let inner = inline(text, self.link);
        self.html.push_str(&format!("{open}{inner}{close}"));
    }

    fn table(&mut self, lines: &[&str]) {
        let cells = |line: &&str| -> Vec<String> {
            let hidden = line.trim().trim_matches('|').replace("\\|", "\u{1}");
            hidden.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect()
        };
        let rows: Vec<Vec<String>> = lines.iter().map(cells).collect();
        let [head, _, body @ ..] = rows.as_slice() else { return };
        self.html.push_str("<table class=\"stack fields\" role=\"table\">\n<thead role=\"rowgroup\"><tr role=\"row\">");
        for cell in head {
            self.text("<th role=\"columnheader\">", cell, "</th>");
        }
        self.html.push_str("</tr></thead>\n<tbody role=\"rowgroup\">\n");
        for row in body {
            self.html.push_str("<tr role=\"row\">");
            for (label, cell) in head.iter().zip(row) {
                let open = format!("<td role=\"cell\" data-label=\"{}\"><div>", escaped(&plain(label)));
                self.text(&open, cell, "</div></td>");
            }
            self.html.push_str("</tr>\n");
        }
        self.html.push_str("</tbody>\n</table>\n");
    }

    fn tell(&mut self, text: &str) {
        let plain = plain(text);
        self.note(&plain);
        if let Some(section) = self.sections.last_mut() {
            section.text.push_str(&plain);
            section.text.push(' ');
        }
    }

    fn note(&mut self, text: &str) {
        if let Some(section) = self.sections.last_mut() {
            section.words.push_str(text);
            section.words.push(' ');
        }
    }
}

fn is_bullet(line: &str) -> bool {
    line.starts_with("- ")
}

fn is_number(line: &str) -> bool {
    line.split_once(". ").is_some_and(|(number, _)| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// Code with a button that copies it, as `parts/ui.html` has it.
pub fn snippet(language: &str, code: &str) -> String {
    let language = language.split(' ').next().unwrap_or_default();
    let class = if language.is_empty() { String::new() } else { format!(" class=\"language-{}\"", escaped(language)) };
    format!(
        "<div class=\"snippet\"><pre><code{class}>{}</code></pre>\
         <button type=\"button\" class=\"copy\" data-copy hidden>Copy</button></div>\n",
        // Between tags quotes are what they are, and code has many.
        escaped(code).replace("&quot;", "\"")
    )
}

/// Marks within a line: code, bold, links.
fn inline(text: &str, link: &dyn Fn(&str) -> String) -> String {
    let mut out = String::new();
    for (at, part) in text.split('`').enumerate() {
        if at % 2 == 1 {
            out.push_str(&format!("<code>{}</code>", escaped(part)));
            continue;
        }
        for (at, part) in part.split("**").enumerate() {
            let (open, close) = if at % 2 == 1 { ("<strong>", "</strong>") } else { ("", "") };
            out.push_str(open);
            out.push_str(&linked(part, link));
            out.push_str(close);
        }
    }
    out
}

/// `[words](address)`; the words of a link hold no code.
fn linked(text: &str, link: &dyn Fn(&str) -> String) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, words, address, after)) = next_link(rest) {
        out.push_str(&escaped(before));
        out.push_str(&format!("<a href=\"{}\">{}</a>", escaped(&link(address)), escaped(words)));
        rest = after;
    }
    out.push_str(&escaped(rest));
    out
}

fn next_link(text: &str) -> Option<(&str, &str, &str, &str)> {
    let (upto, behind) = text.split_once("](")?;
    let (before, words) = upto.rsplit_once('[')?;
    let (address, after) = behind.split_once(')')?;
    Some((before, words, address, after))
}

/// Text without its marks.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, words, _, after)) = next_link(rest) {
        out.push_str(before);
        out.push_str(words);
        rest = after;
    }
    out.push_str(rest);
    out.replace("**", "").replace('`', "")
}

pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}

/// Small letters and dashes: what needs no quoting anywhere.
pub fn anchor(text: &str) -> String {
    let dashed: String = text.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '-' }).collect();
    let parts: Vec<&str> = dashed.split('-').filter(|part| !part.is_empty()).collect();
    parts.join("-").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(source: &str) -> String {
        render(source, &|address| format!("/docs/{address}")).html
    }

    #[test]
    fn every_kind_of_block_becomes_html() {
        for (source, wanted) in [
            (
                "One\ntwo `a<b>` **bold** [w](x#y).",
                "<p>One two <code>a&lt;b&gt;</code> <strong>bold</strong> <a href=\"/docs/x#y\">w</a>.</p>\n",
            ),
            ("- a\n  more\n- b", "<ul>\n<li>a more</li>\n<li>b</li>\n</ul>\n"),
            ("1. a\n2. b", "<ol>\n<li>a</li>\n<li>b</li>\n</ol>\n"),
            ("> so\n> it is", "<blockquote><p>so it is</p></blockquote>\n"),
            ("Before:\n- a", "<p>Before:</p>\n<ul>\n<li>a</li>\n</ul>\n"),
            (
                "## The `x` way",
                "<h2 id=\"the-x-way\">The <code>x</code> way <a class=\"anchor\" href=\"#the-x-way\" aria-label=\"Link to The x way\">#</a></h2>\n",
            ),
        ] {
            assert_eq!(html(source), wanted);
        }
        let table = html("| A | B |\n|---|---|\n| `x\\|y` | z |");
        assert!(table.contains("<th role=\"columnheader\">A</th>"), "{table}");
        assert!(table.contains("<td role=\"cell\" data-label=\"A\"><div><code>x|y</code></div></td>"), "{table}");
        assert!(
            html("```sh\ncurl '<x>'\n\nls\n```").contains("<code class=\"language-sh\">curl '&lt;x&gt;'\n\nls</code>")
        );
    }

    #[test]
    fn what_is_written_is_escaped_wherever_it_stands() {
        let bad = "<script>\"&";
        for source in [
            bad.to_owned(),
            format!("## {bad}"),
            format!("- {bad}"),
            format!("| {bad} | b |\n|---|---|\n| {bad} | {bad} |"),
            format!("> {bad}"),
            format!("[{bad}]({bad})"),
            format!("```{bad}\n{bad}\n```"),
        ] {
            let html = html(&source);
            assert!(!html.contains("<script") && html.contains("&lt;script&gt;"), "{html}");
        }
    }

    #[test]
    fn sections_know_what_they_say() {
        let made = render("# T\n\nFirst [x](y).\n\n## Two\n\nMore `code`.\n\n```sh\ncurl\n```\n", &str::to_owned);
        assert_eq!(made.title, "T");
        let told: Vec<_> = made.sections.iter().map(|one| (one.id.as_str(), one.text.as_str())).collect();
        assert_eq!(told, [("", "First x. "), ("two", "More code. ")]);
        assert!(made.sections[1].words.contains("curl"));
    }
}
