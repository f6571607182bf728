//! What a person can do on a page: follow links, and send forms with what is
//! filled in.

use crate::mime::tags;

/// The links and forms of an HTML page of ours.
#[derive(Debug, Default)]
pub struct Page {
    pub links: Vec<String>,
    pub forms: Vec<Form>,
}

#[derive(Debug, Default)]
pub struct Form {
    pub action: String,
    /// What is sent unless somebody changes it.
    pub filled: Vec<(String, String)>,
    /// Fields that wait to be filled in.
    pub open: Vec<String>,
    pub buttons: Vec<(String, String)>,
}

impl Page {
    pub fn read(html: &str) -> Page {
        let mut page = Page::default();
        for tag in tags(html).filter(|tag| !tag.closes) {
            let text = |name: &str| tag.attribute(name).unwrap_or_default();
            match (tag.name.as_str(), page.forms.last_mut()) {
                ("a", _) => page.links.extend(tag.attribute("href").filter(|href| !href.is_empty())),
                ("form", _) => page.forms.push(Form { action: text("action"), ..Form::default() }),
                ("button", Some(form)) => form.buttons.push((text("name"), text("value"))),
                ("input", Some(form)) => match text("type").as_str() {
                    "checkbox" | "radio" if tag.attribute("checked").is_none() => {}
                    "checkbox" | "radio" | "hidden" => form.filled.push((text("name"), text("value"))),
                    _ => form.open.push(text("name")),
                },
                _ => {}
            }
        }
        page
    }

    /// The form in which a field waits to be filled in.
    pub fn form_asking(&self, field: &str) -> Option<&Form> {
        self.forms.iter().find(|form| form.open.iter().any(|open| open == field))
    }

    /// The form with a button.
    pub fn form_with(&self, name: &str, value: &str) -> Option<&Form> {
        self.forms.iter().find(|form| form.buttons.iter().any(|button| button.0 == name && button.1 == value))
    }
}

impl Form {
    /// The form as it is sent, with these fields too.
    pub fn with(&self, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let more = more.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        self.filled.iter().cloned().chain(more).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_as_a_browser_reads_it() {
        let page = Page::read(
            r##"<p>1 < 2 <a class="x" href="/a?b=1&amp;c=2">go</a>
            <form method="post" action="/login"><input type="hidden" name="token" value="&#34;t&#x27;&lt;">
            <input id="e" name="email" type="email" required value="x"><input name="password" type="password" required>
            <button class="b">Log in</button></form>
            <form action="/decide"><input type="checkbox" name="scope" value="a" checked><input type="checkbox" name="scope" value="b">
            <input type="radio" name="w" value="1" required checked><button name="decision" value="approve">"##,
        );
        assert_eq!(page.links, ["/a?b=1&c=2"]);
        let login = page.form_asking("password").expect("a form");
        assert_eq!((login.action.as_str(), &login.filled), ("/login", &vec![("token".into(), "\"t'<".into())]));
        let decide = page.form_with("decision", "approve").expect("a form");
        assert_eq!(decide.with(&[("decision", "approve")]).len(), 3);
        assert!(decide.filled.contains(&("scope".into(), "a".into())) && page.form_with("decision", "x").is_none());
    }

    #[test]
    fn gibberish_is_an_empty_page() {
        for text in ["", "<", "<<<", "<a", "<a =", "<a href=\"", "<form/>", "&", "<input &#xffffffff;>", "<a \"\"\">"] {
            let page = Page::read(text);
            assert!(page.links.is_empty(), "{text}");
        }
    }
}
