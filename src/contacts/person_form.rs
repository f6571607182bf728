//! The form in which a person is added or changed: what was typed, what the API would have been sent, and where an
//! answer belongs.

use serde_json::{Map, Value};

use super::contact::Contact;
use super::properties::{Declared, Kind};
use crate::error::Error;
use crate::id::Id;
use crate::web::{self, Field, Form};

/// As a page shows it.
#[derive(Default)]
pub struct PersonForm {
    pub email: Field,
    pub first_name: Field,
    pub last_name: Field,
    pub unsubscribed: bool,
    pub properties: Vec<PropertyField>,
    pub new_key: String,
    pub new_value: String,
    /// What is wrong with the segments that were chosen.
    pub segments_error: Option<String>,
    /// What is wrong that belongs to no field.
    pub problem: Option<String>,
}

pub struct PropertyField {
    pub key: String,
    pub kind: &'static str,
    pub field: Field,
}

fn kind_of(key: &str, value: Option<&Value>, declared: &[Declared]) -> &'static str {
    match (declared.iter().find(|property| property.key == key), value) {
        (Some(property), _) => property.kind.as_str(),
        (None, Some(Value::Number(_))) => "number, not declared",
        (None, Some(Value::Bool(_))) => "boolean, not declared",
        (None, _) => "not declared",
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A form for nobody yet: the declared properties can be given.
pub fn blank(declared: &[Declared]) -> PersonForm {
    let property = |property: &Declared| PropertyField {
        key: property.key.clone(),
        kind: property.kind.as_str(),
        field: Field::default(),
    };
    PersonForm { properties: declared.iter().map(property).collect(), ..PersonForm::default() }
}

/// A form with what is known of a contact.
pub fn filled(contact: &Contact, declared: &[Declared]) -> PersonForm {
    let mut form = blank(declared);
    form.email.value.clone_from(&contact.email);
    form.first_name.value = contact.first_name.clone().unwrap_or_default();
    form.last_name.value = contact.last_name.clone().unwrap_or_default();
    form.unsubscribed = contact.unsubscribed;
    for (key, value) in &contact.properties {
        match form.properties.iter_mut().find(|property| property.key == *key) {
            Some(property) => property.field.value = text_of(value),
            None => form.properties.push(PropertyField {
                key: key.clone(),
                kind: kind_of(key, Some(value), declared),
                field: Field::of(text_of(value)),
            }),
        }
    }
    form
}

/// What was typed.
pub struct Typed {
    email: String,
    first_name: String,
    last_name: String,
    unsubscribed: bool,
    /// Keys with their values; the last one is new.
    properties: Vec<(String, String)>,
}

impl Typed {
    pub fn of(form: &Form) -> Typed {
        Typed {
            email: form.text("email").trim().to_owned(),
            first_name: form.text("first_name"),
            last_name: form.text("last_name"),
            unsubscribed: form.text("mail") == "unsubscribed",
            properties: form.all("key").into_iter().zip(form.all("value")).collect(),
        }
    }

    /// What a request with the same wish would say. `known` is the contact as it is.
    pub fn fields(&self, known: Option<&Contact>, declared: &[Declared]) -> Map<String, Value> {
        let mut fields = Map::new();
        if known.is_none_or(|contact| contact.email != self.email) {
            fields.insert("email".into(), self.email.as_str().into());
        }
        let names = [
            ("first_name", &self.first_name, known.and_then(|contact| contact.first_name.as_deref())),
            ("last_name", &self.last_name, known.and_then(|contact| contact.last_name.as_deref())),
        ];
        for (field, typed, name) in names {
            if typed.as_str() != name.unwrap_or_default() {
                let value = if typed.is_empty() { Value::Null } else { typed.as_str().into() };
                fields.insert(field.into(), value);
            }
        }
        if known.is_none_or(|contact| contact.unsubscribed != self.unsubscribed) {
            fields.insert("unsubscribed".into(), self.unsubscribed.into());
        }
        let properties = self.changed_properties(known.map(|contact| &contact.properties), declared);
        if !properties.is_empty() {
            fields.insert("properties".into(), properties.into());
        }
        fields
    }

    fn changed_properties(&self, known: Option<&Map<String, Value>>, declared: &[Declared]) -> Map<String, Value> {
        let mut changed = Map::new();
        for (key, text) in &self.properties {
            let before = known.and_then(|known| known.get(key));
            if before.map_or(String::new(), text_of) == *text {
                continue;
            }
            let value = if text.is_empty() { Value::Null } else { typed_value(key, text, before, declared) };
            changed.insert(key.trim().to_owned(), value);
        }
        changed
    }

    /// The form as it was sent, with what is wrong beside its field. What is nobody's fault is an error still.
    pub fn refused(self, error: Error, known: Option<&Contact>, declared: &[Declared]) -> Result<PersonForm, Error> {
        let segments_error = web::missing_choice(&error).map(|(_, sentence)| sentence);
        if !matches!(error, Error::Invalid { .. } | Error::Missing { .. } | Error::Conflict { .. })
            && segments_error.is_none()
        {
            return Err(error);
        }
        let message = error.message().into_owned();
        let names = |field: &str| message.contains(&format!("`{field}`"));
        let is_taken = matches!(error, Error::Conflict { .. });
        let mut is_placed = false;
        let mut place = |value: String, is_meant: bool| {
            let is_here = is_meant && !is_placed;
            is_placed |= is_here;
            Field { value, error: is_here.then(|| message.clone()) }
        };
        let email = place(self.email, names("email") || is_taken);
        let first_name = place(self.first_name, names("first_name"));
        let last_name = place(self.last_name, names("last_name"));
        let mut properties = self.properties;
        let (new_key, new_value) = properties.pop().unwrap_or_default();
        let property = |(key, value): (String, String)| PropertyField {
            kind: kind_of(&key, known.and_then(|contact| contact.properties.get(&key)), declared),
            field: place(value, names(&key)),
            key,
        };
        let properties = properties.into_iter().map(property).collect();
        let problem = (!is_placed && segments_error.is_none()).then_some(message);
        let unsubscribed = self.unsubscribed;
        Ok(PersonForm {
            email,
            first_name,
            last_name,
            unsubscribed,
            properties,
            new_key,
            new_value,
            segments_error,
            problem,
        })
    }
}

/// A value of the type that was declared, or that it had. What does not fit stays text, and is refused as such.
fn typed_value(key: &str, text: &str, before: Option<&Value>, declared: &[Declared]) -> Value {
    let number = || serde_json::from_str::<serde_json::Number>(text.trim()).map(Value::Number).ok();
    let flag = || text.trim().parse().map(Value::Bool).ok();
    let typed = match (declared.iter().find(|property| property.key == key.trim()), before) {
        (Some(Declared { kind: Kind::Number, .. }), _) | (None, Some(Value::Number(_))) => number(),
        (None, Some(Value::Bool(_))) => flag(),
        _ => None,
    };
    typed.unwrap_or_else(|| text.into())
}

/// Something that a form lets choose.
pub struct Choice<I> {
    pub id: I,
    pub name: String,
    pub is_chosen: bool,
}

pub fn choices<I: Id + PartialEq>(all: impl IntoIterator<Item = (I, String)>, chosen: &[I]) -> Vec<Choice<I>> {
    all.into_iter().map(|(id, name)| Choice { is_chosen: chosen.contains(&id), id, name }).collect()
}
