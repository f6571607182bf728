//! Forms of pages, filled in and sent as a browser does it.

use crate::asking::encoded;
use crate::harness::{Answer, TestApp};

/// A form of a page: where it goes, and what stands in it.
#[derive(Clone)]
pub struct Filled {
    action: String,
    fields: Vec<(String, String)>,
    /// What a form with files is sent with; of a field for files, none is chosen at first.
    files: Option<Vec<File>>,
}

#[derive(Clone, Default)]
struct File {
    field: String,
    name: String,
    kind: String,
    content: Vec<u8>,
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let start = tag.find(&format!(" {name}=\""))? + name.len() + 3;
    tag[start..].split('"').next().map(plain)
}

/// A text of a page as it is read.
pub fn plain(escaped: &str) -> String {
    let mut text = escaped.to_owned();
    for (entity, char) in [("&#60;", "<"), ("&#62;", ">"), ("&#34;", "\""), ("&#39;", "'"), ("&#38;", "&")] {
        text = text.replace(entity, char);
    }
    text
}

impl Filled {
    /// The form that is sent to an address which ends so; one that searches goes there, too, and is none of these.
    pub fn of(page: &str, action: &str) -> Filled {
        let forms = page.split("<form ").skip(1).map(|form| form.split("</form>").next().expect("a form"));
        let is_wanted = |tag: &str| tag.contains(&format!("{action}\"")) && tag.contains("method=\"post\"");
        let mut wanted = forms.filter(|form| form.split('>').next().is_some_and(is_wanted));
        let form = wanted.next().unwrap_or_else(|| panic!("no form for {action}: {page}"));
        let action = attribute(&format!(" {form}"), "action").expect("an action");
        let has_files = form.split('>').next().is_some_and(|tag| tag.contains(" enctype=\"multipart/form-data\""));
        let (mut fields, mut files) = (Vec::new(), has_files.then(Vec::new));
        for piece in form.split('<').skip(1) {
            let (tag, rest) = piece.split_once('>').unwrap_or((piece, ""));
            let name = attribute(tag, "name");
            match tag.split([' ', '\n']).next() {
                Some("input") if tag.contains(" type=\"file\"") => {
                    let files = files.as_mut().expect("a form that can hold files");
                    files.push(File { field: name.expect("a name"), ..File::default() });
                }
                Some("input") => {
                    let is_box = ["checkbox", "radio"].iter().any(|kind| tag.contains(&format!("type=\"{kind}\"")));
                    if let Some(name) = name.filter(|_| !is_box || tag.contains(" checked")) {
                        let empty = if is_box { "on" } else { "" };
                        fields.push((name, attribute(tag, "value").unwrap_or_else(|| empty.to_owned())));
                    }
                }
                // The first line break is the page's own.
                Some("textarea") => {
                    let text = plain(rest.strip_prefix('\n').unwrap_or(rest));
                    fields.push((name.expect("a name"), text));
                }
                Some("select") => fields.push((name.expect("a name"), String::new())),
                Some("option") if tag.contains(" selected") => {
                    let value = attribute(tag, "value").unwrap_or_else(|| plain(rest));
                    fields.last_mut().expect("a select").1 = value;
                }
                Some("option") => {
                    let (_, chosen) = fields.last_mut().expect("a select");
                    if chosen.is_empty() && attribute(tag, "value").is_none() {
                        *chosen = plain(rest);
                    }
                }
                _ => {}
            }
        }
        Filled { action, fields, files }
    }

    pub fn value(&self, name: &str) -> &str {
        self.fields.iter().find(|(one, _)| one == name).map(|(_, value)| value.as_str()).expect("a field")
    }

    /// With something else in a field.
    pub fn with(mut self, name: &str, value: &str) -> Filled {
        match self.fields.iter_mut().find(|(one, _)| one == name) {
            Some(field) => field.1 = value.to_owned(),
            None => self.fields.push((name.to_owned(), value.to_owned())),
        }
        self
    }

    /// With one more of a field that there may be several of.
    pub fn and(mut self, name: &str, value: &str) -> Filled {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With one more file, of a kind that the browser knows or takes to be nothing in particular.
    pub fn file(mut self, field: &str, name: &str, kind: &str, content: impl Into<Vec<u8>>) -> Filled {
        let files = self.files.as_mut().expect("a form that can hold files");
        files.retain(|file| file.field != field || !file.name.is_empty());
        files.push(File { field: field.into(), name: name.into(), kind: kind.into(), content: content.into() });
        self
    }

    pub async fn send(&self, app: &TestApp, cookie: &str) -> Answer {
        let typed = |value: &str| value.replace("\r\n", "\n").replace('\n', "\r\n");
        if let Some(files) = &self.files {
            let mut body = Vec::new();
            for (name, value) in &self.fields {
                let value = typed(value);
                let part = format!("--edge\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
                body.extend(part.into_bytes());
            }
            for File { field, name, kind, content } in files {
                let kind = if kind.is_empty() { "application/octet-stream" } else { kind };
                let head = format!("form-data; name=\"{field}\"; filename=\"{name}\"\r\nContent-Type: {kind}");
                body.extend(format!("--edge\r\nContent-Disposition: {head}\r\n\r\n").into_bytes());
                body.extend([content.as_slice(), b"\r\n"].concat());
            }
            body.extend(b"--edge--\r\n");
            let request = app.post(&self.action).header("cookie", cookie);
            return request.body("multipart/form-data; boundary=edge", body).send().await;
        }
        let pair = |(name, value): &(String, String)| format!("{}={}", encoded(name), encoded(&typed(value)));
        let body = self.fields.iter().map(pair).collect::<Vec<_>>().join("&");
        let request = app.post(&self.action).header("cookie", cookie);
        request.body("application/x-www-form-urlencoded", body).send().await
    }
}

/// Where an answer leads, within the dashboard.
pub fn leads_to(answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{}", answer.text());
    answer.location().strip_prefix("/dashboard").expect("a page of the dashboard").to_owned()
}
