//! What a person types of a mail: the fields that each form has that sends one.

use serde_json::{Map, Value};

use crate::error::Error;
use crate::text::shown;
use crate::web::{self, Field, Form};

/// The fields, each with what was typed there.
#[derive(Default)]
pub struct TypedMail {
    pub from: Field,
    pub to: Field,
    pub cc: Field,
    pub bcc: Field,
    pub reply_to: Field,
    pub subject: Field,
    pub html: Field,
    pub text: Field,
    pub scheduled_at: Field,
    pub headers: Field,
}

impl TypedMail {
    pub fn of(form: &Form) -> TypedMail {
        TypedMail {
            from: form.field("from"),
            to: Field::of(form.lines("to")),
            cc: Field::of(form.lines("cc")),
            bcc: Field::of(form.lines("bcc")),
            reply_to: Field::of(form.lines("reply_to")),
            subject: form.field("subject"),
            html: Field::of(form.lines("html")),
            text: Field::of(form.lines("text")),
            scheduled_at: form.field("scheduled_at"),
            headers: Field::of(form.lines("headers")),
        }
    }

    /// As a request would say it.
    pub fn fields(&self) -> Result<Map<String, Value>, Error> {
        let mut fields = Map::new();
        for (name, list) in [("to", &self.to), ("cc", &self.cc), ("bcc", &self.bcc), ("reply_to", &self.reply_to)] {
            fields.extend(addresses(list).map(|list| (name.to_owned(), list)));
        }
        let texts = [
            ("from", self.from.value.trim()),
            ("subject", &self.subject.value),
            ("html", &self.html.value),
            ("text", &self.text.value),
            ("scheduled_at", self.scheduled_at.value.trim()),
        ];
        let texts = texts.into_iter().filter(|(_, value)| !value.is_empty());
        fields.extend(texts.map(|(name, value)| (name.to_owned(), value.into())));
        fields.extend(self.own_headers()?.map(|headers| ("headers".to_owned(), headers)));
        Ok(fields)
    }

    fn own_headers(&self) -> Result<Option<Value>, Error> {
        let mut headers = Map::new();
        for (name, value) in pairs(("headers", &self.headers), ':', "Name: value")? {
            if headers.insert(name.to_owned(), value.into()).is_some() {
                return Err(Error::invalid(format!("The `headers` field names `{}` twice.", shown(name))));
            }
        }
        Ok((!headers.is_empty()).then(|| headers.into()))
    }

    /// By their names, as refusals have them.
    pub fn by_name(&mut self) -> [(&'static str, &mut Field); 10] {
        [
            ("from", &mut self.from),
            ("to", &mut self.to),
            ("cc", &mut self.cc),
            ("bcc", &mut self.bcc),
            ("reply_to", &mut self.reply_to),
            ("subject", &mut self.subject),
            ("html", &mut self.html),
            ("text", &mut self.text),
            ("scheduled_at", &mut self.scheduled_at),
            ("headers", &mut self.headers),
        ]
    }

    /// Puts a refusal beside its field, where the form shows the text and folds what is rarer; what is about none of
    /// the fields comes back.
    pub fn refused(&mut self, refusal: &Error) -> Option<String> {
        if let Error::Missing { message } = refusal
            && message.contains("`text`")
        {
            self.text.error = Some(message.clone());
            return None;
        }
        web::beside_field(refusal, self.by_name())
    }

    /// Whether one of the rarer fields has something to show.
    pub fn is_detailed(&self) -> bool {
        let rarer = [&self.html, &self.cc, &self.bcc, &self.reply_to, &self.subject, &self.scheduled_at, &self.headers];
        rarer.into_iter().any(|field| !field.value.is_empty() || field.error.is_some())
    }
}

/// One address a line.
pub fn addresses(list: &Field) -> Option<Value> {
    some(lines(list).map(Value::from))
}

pub fn some(all: impl Iterator<Item = Value>) -> Option<Value> {
    let all: Vec<Value> = all.collect();
    (!all.is_empty()).then(|| all.into())
}

pub fn lines(field: &Field) -> impl Iterator<Item = &str> {
    field.value.lines().map(str::trim).filter(|line| !line.is_empty())
}

/// A name and a value in each line.
pub fn pairs<'a>(
    (name, field): (&str, &'a Field),
    between: char,
    such_as: &str,
) -> Result<Vec<(&'a str, &'a str)>, Error> {
    let wrong = |line: &str| {
        Error::invalid(format!("The `{name}` field must have one `{such_as}` a line, but has `{}`.", shown(line)))
    };
    let pair = |line: &'a str| line.split_once(between).ok_or_else(|| wrong(line));
    lines(field).map(|line| pair(line).map(|(name, value)| (name.trim(), value.trim()))).collect()
}
