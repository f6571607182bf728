//! The mail of a step that carries one itself, instead of naming a template.

use serde_json::{Value, json};

use crate::emails;
use crate::id::TemplateId;
use crate::mime::Mailbox;
use crate::rules;
use crate::text::kind;

/// What such a step may say of its mail. Each is text, or a variable that leads to some.
const FIELDS: [&str; 5] = ["from", "subject", "reply_to", "html", "text"];

/// A mail to one contact, its variables resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Mail {
    pub from: Mailbox,
    pub to: Mailbox,
    pub reply_to: Vec<Mailbox>,
    pub subject: String,
    pub html: Option<String>,
    pub text: Option<String>,
    /// The template that it was made of.
    pub template_id: Option<TemplateId>,
}

/// What a step's configuration says of its mail; `given` finds its fields. `Err` says what is wrong.
pub fn config<'a>(given: impl Fn(&str) -> Option<&'a Value>) -> Result<Value, String> {
    if given("from").is_none() {
        return Err("needs `from`, the address that the mail comes from".into());
    }
    if given("subject").is_none() {
        return Err("needs `subject`, the subject of the mail".into());
    }
    // Existing clients cannot read a step without a template.
    let mut kept = json!({ "template": { "id": "" } });
    for (name, value) in FIELDS.into_iter().filter_map(|name| Some((name, given(name)?))) {
        match value {
            Value::String(text) => check(name, text)?,
            Value::Object(fields) if fields.len() == 1 && fields.contains_key("var") => rules::check(value)?,
            other => return Err(format!("`{name}` must be text or a variable, but is {}", kind(other))),
        }
        kept[name] = value.clone();
    }
    Ok(kept)
}

/// What holds for a field.
fn check(name: &str, text: &str) -> Result<(), String> {
    let flaw = match name {
        "from" | "reply_to" => text.parse::<Mailbox>().map(drop),
        "subject" => emails::check_subject(text),
        // PostgreSQL cannot keep it.
        _ if text.contains('\0') => Err("must not hold the character U+0000".into()),
        _ => Ok(()),
    };
    flaw.map_err(|flaw| format!("`{name}` {flaw}"))
}

impl Mail {
    /// Of a configuration whose variables are resolved, to whoever has this address. `Err` says why
    /// there is no such mail.
    pub fn read(config: &Value, to: &str) -> Result<Mail, String> {
        let field = |name: &str| match config.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => check(name, text).map(|()| Some(text.clone())),
            Some(other) => Err(format!("`{name}` must be text, but is {}", kind(other))),
        };
        let needed = |name: &str| field(name)?.ok_or_else(|| format!("the variable of `{name}` leads to nothing"));
        let mailbox = |text: String| text.parse::<Mailbox>();
        let mail = Mail {
            from: needed("from").and_then(mailbox)?,
            to: to.parse().map_err(|flaw| format!("the contact's address {flaw}"))?,
            reply_to: field("reply_to")?.map(mailbox).transpose()?.into_iter().collect(),
            subject: needed("subject")?,
            html: field("html")?,
            text: field("text")?,
            template_id: None,
        };
        match mail.html.is_none() && mail.text.is_none() {
            true => Err("the variables of `html` and `text` lead to nothing".into()),
            false => Ok(mail),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(config: Value) -> Result<Mail, String> {
        Mail::read(&config, "ada@example.com")
    }

    #[test]
    fn a_mail_is_what_its_variables_lead_to() {
        let given = json!({"template": {"id": ""}, "from": "Us <us@example.com>", "subject": "Hi", "reply_to": null,
            "html": "<p>", "text": null});
        let mail = read(given).expect("a mail");
        assert_eq!(
            (mail.from.to_string(), mail.to.to_string()),
            ("Us <us@example.com>".into(), "ada@example.com".into())
        );
        assert_eq!((mail.reply_to, mail.html.as_deref(), mail.text), (Vec::new(), Some("<p>"), None));
    }

    #[test]
    fn variables_that_lead_to_no_mail_are_told() {
        let whole = json!({"from": "us@example.com", "subject": "Hi", "text": "x"});
        for (name, value, words) in [
            ("from", Value::Null, "`from` leads to nothing"),
            ("from", json!("nobody"), "`from` must"),
            ("subject", json!(5), "`subject` must be text, but is a number"),
            ("subject", json!("a\r\nBcc: x@example.com"), "`subject` must be one line"),
            ("reply_to", json!("x@y\r\nBcc: z"), "`reply_to` must"),
            ("text", json!("\0"), "U+0000"),
            ("text", Value::Null, "`html` and `text`"),
        ] {
            let mut given = whole.clone();
            given[name] = value;
            let refused = read(given.clone()).expect_err("refused");
            assert!(refused.contains(words), "{given}: {refused}");
        }
        assert!(Mail::read(&whole, "nobody").expect_err("refused").contains("the contact's address"));
    }
}
