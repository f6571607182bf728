//! The form in which a template is written: what stands in it, and what it says when it comes back.

use serde_json::{Map, Value};

use super::store::Stored;
use super::template::{Contents, NewTemplate, TemplateChange};
use super::variable::{Variable, VariableType};
use crate::error::Error;
use crate::web::{self, Field, Form};

/// How many rows stand empty behind those that are filled.
const SPARE: usize = 3;

/// How long the sources of a template may be together: as long as the body of a request.
const LARGEST: usize = web::BODY_LIMIT;

/// What is in the form.
#[derive(Default)]
pub struct Typed {
    pub name: Field,
    pub alias: Field,
    pub from: Field,
    pub subject: Field,
    /// One a line.
    pub reply_to: Field,
    pub html: Field,
    pub text: Field,
    pub variables: Vec<VariableRow>,
    pub variables_error: Option<String>,
}

#[derive(Clone, PartialEq, Eq)]
pub struct VariableRow {
    pub key: String,
    pub kind: String,
    /// Text as it is, anything else as JSON.
    pub fallback: String,
}

impl VariableRow {
    fn empty() -> VariableRow {
        VariableRow { key: String::new(), kind: VariableType::String.as_str().into(), fallback: String::new() }
    }

    fn is_empty(&self) -> bool {
        self.key.trim().is_empty() && self.fallback.is_empty()
    }

    pub fn of(variable: &Variable) -> VariableRow {
        let fallback = match &variable.fallback_value {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        VariableRow { key: variable.key.clone(), kind: variable.kind.as_str().into(), fallback }
    }

    /// As a request would say it.
    fn value(&self) -> Result<Value, String> {
        let key = self.key.trim();
        let fallback = match (self.fallback.as_str(), self.kind.as_str()) {
            ("", _) => Value::Null,
            (text, "string") => text.into(),
            (text, kind) => serde_json::from_str(text)
                .map_err(|error| format!("The fallback of `{key}` is a {kind}, which is written as JSON: {error}."))?,
        };
        Ok(serde_json::json!({"key": key, "type": self.kind, "fallback_value": fallback}))
    }
}

impl Typed {
    /// With room for more variables.
    pub fn with_room(mut self) -> Typed {
        self.variables.retain(|row| !row.is_empty());
        self.variables.extend((0..SPARE).map(|_| VariableRow::empty()));
        self
    }

    /// A template as its form shows it.
    pub fn of(template: &Stored) -> Typed {
        let Contents { subject, from, reply_to, html, text, variables } = &template.contents;
        Typed {
            name: Field::of(&template.name),
            alias: Field::of(template.alias.as_deref().unwrap_or_default()),
            from: Field::of(from.as_deref().unwrap_or_default()),
            subject: Field::of(subject.as_deref().unwrap_or_default()),
            reply_to: Field::of(reply_to.join("\n")),
            html: Field::of(web::in_box(html)),
            text: Field::of(web::in_box(text.as_deref().unwrap_or_default())),
            variables: variables.0.iter().map(VariableRow::of).collect(),
            variables_error: None,
        }
    }

    pub fn read(form: &Form) -> Typed {
        let (keys, kinds, fallbacks) = (form.all("key"), form.all("type"), form.all("fallback"));
        let rows = keys.into_iter().zip(kinds).zip(fallbacks);
        let variables = rows.map(|((key, kind), fallback)| VariableRow { key, kind, fallback });
        Typed {
            name: form.field("name"),
            alias: form.field("alias"),
            from: form.field("from"),
            subject: form.field("subject"),
            reply_to: Field::of(form.lines("reply_to")),
            html: Field::of(form.lines("html")),
            text: Field::of(form.lines("text")),
            variables: variables.filter(|row| !row.is_empty()).collect(),
            variables_error: None,
        }
    }

    /// Puts an error beside the field it is about; what is about none comes back.
    pub fn refuse(&mut self, error: &Error) -> Option<String> {
        if matches!(error, Error::Conflict { .. }) {
            self.alias.error = Some(error.message().into_owned());
            return None;
        }
        let fields = [
            ("name", &mut self.name),
            ("alias", &mut self.alias),
            ("from", &mut self.from),
            ("subject", &mut self.subject),
            ("reply_to", &mut self.reply_to),
            ("html", &mut self.html),
            ("text", &mut self.text),
        ];
        let message = web::beside_field(error, fields)?;
        if web::field_of(error).as_deref() != Some("variables") {
            return Some(message);
        }
        self.variables_error = Some(message);
        None
    }

    fn check_size(&self) -> Result<(), Error> {
        match self.html.value.len() + self.text.value.len() > LARGEST {
            true => Err(Error::invalid(format!("The `html` and the text may have {LARGEST} bytes together."))),
            false => Ok(()),
        }
    }

    fn reply_to(&self) -> Value {
        let lines = self.reply_to.value.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.map(Value::from).collect::<Vec<_>>().into()
    }

    fn variables(&self, before: &[Variable]) -> Result<Value, Error> {
        let one = |row: &VariableRow| match before.iter().find(|variable| VariableRow::of(variable) == *row) {
            // What a form cannot tell apart, such as no fallback and an empty one, stays as it is.
            Some(variable) => Ok(serde_json::to_value(variable).unwrap_or_default()),
            None => row.value().map_err(|flaw| Error::invalid(format!("The `variables`: {flaw}"))),
        };
        self.variables.iter().map(one).collect::<Result<Vec<_>, _>>().map(Value::from)
    }

    /// A template to make, as a request would say it.
    pub fn new_template(&self) -> Result<NewTemplate, Error> {
        self.check_size()?;
        let mut fields = Map::new();
        let texts = [
            ("name", &self.name),
            ("alias", &self.alias),
            ("from", &self.from),
            ("subject", &self.subject),
            ("html", &self.html),
            ("text", &self.text),
        ];
        for (name, field) in texts.into_iter().filter(|(_, field)| !field.value.is_empty()) {
            fields.insert(name.into(), field.value.as_str().into());
        }
        fields.insert("reply_to".into(), self.reply_to());
        fields.insert("variables".into(), self.variables(&[])?);
        web::read_fields(fields)
    }

    /// What was changed of a template, as a request would say it: what stands in the form as it was shown is not
    /// touched, whatever a form cannot show of it.
    pub fn change(&self, template: &Stored) -> Result<TemplateChange, Error> {
        self.check_size()?;
        let (before, mut fields) = (Typed::of(template), Map::new());
        let texts = [
            ("alias", &self.alias, &before.alias),
            ("from", &self.from, &before.from),
            ("subject", &self.subject, &before.subject),
        ];
        if self.name.value != before.name.value {
            fields.insert("name".into(), self.name.value.as_str().into());
        }
        for (name, now, _) in texts.into_iter().filter(|(_, now, before)| now.value != before.value) {
            fields.insert(name.into(), Some(now.value.as_str()).filter(|text| !text.is_empty()).into());
        }
        if self.html.value != before.html.value {
            fields.insert("html".into(), web::from_box(&self.html.value, &template.contents.html).into());
        }
        if self.text.value != before.text.value {
            let text = web::from_box(&self.text.value, template.contents.text.as_deref().unwrap_or_default());
            fields.insert("text".into(), Some(text).filter(|text| !text.is_empty()).into());
        }
        if self.reply_to.value != before.reply_to.value {
            fields.insert("reply_to".into(), self.reply_to());
        }
        if self.variables != before.variables {
            fields.insert("variables".into(), self.variables(&template.contents.variables.0)?);
        }
        web::read_fields(fields)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stored(html: &str, text: Option<&str>) -> Stored {
        let variables = json!([{"key": "A", "type": "string", "fallback_value": ""}, {"key": "N", "type": "list", "fallback_value": [1, {"a": "b"}]}]);
        let contents = Contents {
            html: html.into(),
            text: text.map(str::to_owned),
            subject: Some(" spaced ".into()),
            variables: serde_json::from_value(variables).expect("variables"),
            ..Contents::default()
        };
        Stored::sketch("Order", None, contents)
    }

    #[test]
    fn what_is_saved_unchanged_stays_byte_for_byte() {
        for html in ["\n<p>a\r\nb</p>\r", "a\nb", "a\r\nb\r\n", ""] {
            let template = stored(html, Some("x\ry"));
            let change = Typed::of(&template).change(&template).expect("readable");
            assert_eq!(change.apply(template.contents.clone()), template.contents, "{html:?}");
        }
    }

    #[test]
    fn a_change_keeps_line_ends_and_what_a_form_cannot_tell() {
        let template = stored("a\r\nb\r\n", None);
        let mut typed = Typed::of(&template);
        typed.html.value.push_str("c\n");
        typed.variables.remove(1);
        let after = typed.change(&template).expect("readable").apply(template.contents.clone());
        assert_eq!(after.html, "a\r\nb\r\nc\r\n");
        assert_eq!(after.variables.0, template.contents.variables.0[..1]);
    }

    #[test]
    fn a_fallback_that_is_no_json_is_told() {
        let template = stored("a", None);
        let mut typed = Typed::of(&template);
        typed.variables.push(VariableRow { key: "B".into(), kind: "number".into(), fallback: "much".into() });
        let refusal = typed.change(&template).err().expect("refused");
        assert!(typed.refuse(&refusal).is_none() && typed.variables_error.is_some_and(|text| text.contains("`B`")));
    }
}
