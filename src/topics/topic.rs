//! What a topic is, and what a contact can choose of it. Valid by construction.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Error;
use crate::id::TopicId;
use crate::web::input::{Input, is_longer, kind, shown};

/// How many topics one request may name.
pub const MOST_NAMED: usize = 100;

/// What people call a topic: one line, and not only spaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicName(String);

impl TopicName {
    pub const LONGEST: usize = 50;

    pub fn parse(value: &Value) -> Result<TopicName, Error> {
        let name = text("name", value)?;
        let one_line = !is_longer(name, Self::LONGEST) && !name.chars().any(char::is_control);
        if !one_line || name.trim().is_empty() {
            return Err(Error::invalid(format!(
                "The `name` field must be one line of 1 to {} characters, not all of them spaces.",
                Self::LONGEST
            )));
        }
        Ok(TopicName(name.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a topic is about, in a few words; they may have several lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description(String);

impl Description {
    pub const LONGEST: usize = 200;

    pub fn parse(value: &Value) -> Result<Description, Error> {
        let words = text("description", value)?;
        let unseen = |char: char| char.is_control() && !matches!(char, '\t' | '\n' | '\r');
        if is_longer(words, Self::LONGEST) || words.chars().any(unseen) {
            return Err(Error::invalid(format!(
                "The `description` field must be text of at most {} characters, without control characters.",
                Self::LONGEST
            )));
        }
        Ok(Description(words.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether somebody wants mail about a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subscription {
    OptIn,
    OptOut,
}

impl Subscription {
    pub fn parse(field: &str, value: &Value) -> Result<Subscription, Error> {
        one_of(field, value, [("opt_in", Subscription::OptIn), ("opt_out", Subscription::OptOut)])
    }

    pub fn word(self) -> &'static str {
        match self {
            Subscription::OptIn => "opt_in",
            Subscription::OptOut => "opt_out",
        }
    }
}

/// Who sees that there is such a topic: everybody, or those who have chosen it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    Public,
    Private,
}

impl Visibility {
    pub fn parse(value: &Value) -> Result<Visibility, Error> {
        one_of("visibility", value, [("public", Visibility::Public), ("private", Visibility::Private)])
    }

    pub fn word(self) -> &'static str {
        match self {
            Visibility::Public => "public",
            Visibility::Private => "private",
        }
    }
}

/// A topic to be made.
#[derive(Debug, PartialEq, Eq)]
pub struct New {
    pub name: TopicName,
    pub description: Option<Description>,
    /// What holds for a contact that never chose.
    pub default: Subscription,
    pub visibility: Visibility,
}

impl New {
    pub fn parse(input: &Input) -> Result<New, Error> {
        Ok(New {
            name: TopicName::parse(input.required("name")?)?,
            description: input.get("description").map(Description::parse).transpose()?,
            default: Subscription::parse("default_subscription", input.required("default_subscription")?)?,
            visibility: input.get("visibility").map_or(Ok(Visibility::Private), Visibility::parse)?,
        })
    }
}

/// What a request wants to be different about a topic.
#[derive(Debug, PartialEq, Eq)]
pub struct Changes {
    pub name: Option<TopicName>,
    /// `Some(None)` empties it.
    pub description: Option<Option<Description>>,
    pub visibility: Option<Visibility>,
    /// The default as the caller believes it to be: it cannot be changed.
    pub default: Option<Subscription>,
}

impl Changes {
    pub fn parse(input: &Input) -> Result<Changes, Error> {
        let description = match input.0.get("description") {
            None => None,
            Some(Value::Null) => Some(None),
            Some(value) => Some(Some(Description::parse(value)?)),
        };
        let default = |value: &Value| Subscription::parse("default_subscription", value);
        Ok(Changes {
            name: input.get("name").map(TopicName::parse).transpose()?,
            description,
            visibility: input.get("visibility").map(Visibility::parse).transpose()?,
            default: input.get("default_subscription").map(default).transpose()?,
        })
    }
}

/// What a contact chose of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    pub topic_id: TopicId,
    pub subscription: Subscription,
}

/// The choices of a `topics` field: `[{"id": …, "subscription": …}]`.
pub fn choices(value: &Value) -> Result<Vec<Choice>, Error> {
    let Value::Array(items) = value else {
        return Err(Error::invalid(format!("The `topics` field must be an array, but is {}.", kind(value))));
    };
    if items.len() > MOST_NAMED {
        return Err(Error::invalid(format!("The `topics` field must name at most {MOST_NAMED} topics.")));
    }
    let mut choices: Vec<Choice> = Vec::new();
    for item in items {
        let choice = choice(item)?;
        match choices.iter().find(|known| known.topic_id == choice.topic_id) {
            None => choices.push(choice),
            Some(known) if *known == choice => {}
            Some(_) => {
                return Err(Error::invalid(format!(
                    "The `topics` field names the topic `{}` twice and wants it both ways.",
                    choice.topic_id
                )));
            }
        }
    }
    Ok(choices)
}

fn choice(item: &Value) -> Result<Choice, Error> {
    let topic_id = item.get("id").and_then(Value::as_str).and_then(|text| text.parse().ok()).ok_or_else(|| {
        Error::invalid("Every item of the `topics` field must be an object with the `id` of a topic, a UUID.")
    })?;
    let subscription = Subscription::parse("subscription", item.get("subscription").unwrap_or(&Value::Null))?;
    Ok(Choice { topic_id, subscription })
}

fn text<'a>(field: &str, value: &'a Value) -> Result<&'a str, Error> {
    value
        .as_str()
        .ok_or_else(|| Error::invalid(format!("The `{field}` field must be a string, but is {}.", kind(value))))
}

/// What one of two words stands for.
fn one_of<T>(field: &str, value: &Value, [one, other]: [(&str, T); 2]) -> Result<T, Error> {
    let found = match value.as_str() {
        Some(word) if word == one.0 => return Ok(one.1),
        Some(word) if word == other.0 => return Ok(other.1),
        Some(word) => format!("`{}`", shown(word)),
        None => kind(value).into(),
    };
    Err(Error::invalid(format!("The `{field}` field must be `{}` or `{}`, but is {found}.", one.0, other.0)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const ONE: &str = "01890000-0000-7000-8000-000000000001";
    const TWO: &str = "01890000-0000-7000-8000-000000000002";

    fn input(json: Value) -> Input {
        Input(json.as_object().expect("an object").clone())
    }

    #[test]
    fn a_topic_needs_a_name_and_a_default_and_is_private_unless_told() {
        let new = New::parse(&input(json!({"name": "News", "default_subscription": "opt_in"}))).expect("valid");
        assert_eq!((new.name.as_str(), new.default), ("News", Subscription::OptIn));
        assert_eq!((new.description, new.visibility), (None, Visibility::Private));
        for (field, value) in [
            ("name", json!("")),
            ("name", json!(" ")),
            ("name", json!("a\nb")),
            ("name", json!("x".repeat(51))),
            ("name", json!(1)),
            ("description", json!("x".repeat(201))),
            ("description", json!("a\0b")),
            ("description", json!([])),
            ("default_subscription", json!("maybe")),
            ("default_subscription", json!(true)),
            ("visibility", json!("secret")),
        ] {
            let mut body = json!({"name": "é".repeat(50), "default_subscription": "opt_out", "visibility": "public",
                "description": "ü\n".repeat(100)});
            assert!(New::parse(&input(body.clone())).is_ok());
            body[field] = value;
            let message = New::parse(&input(body)).expect_err("refused").message().into_owned();
            assert!(message.contains(&format!("`{field}`")), "{message}");
        }
    }

    #[test]
    fn null_empties_a_description_and_is_else_absence() {
        let absent = json!({"id": ONE, "name": null, "visibility": null, "default_subscription": null});
        let nothing = Changes::parse(&input(absent)).expect("valid");
        assert_eq!(nothing, Changes { name: None, description: None, visibility: None, default: None });
        let emptied = Changes::parse(&input(json!({"description": null}))).expect("valid");
        assert_eq!(emptied.description, Some(None));
    }

    #[test]
    fn each_topic_is_chosen_once() {
        let both = json!([{"id": ONE, "subscription": "opt_in"}, {"id": TWO.to_uppercase(), "subscription": "opt_out"},
            {"id": ONE, "subscription": "opt_in"}]);
        let chosen = choices(&both).expect("valid");
        assert_eq!(chosen.iter().map(|choice| choice.topic_id.to_string()).collect::<Vec<_>>(), [ONE, TWO]);
        let torn = json!([{"id": ONE, "subscription": "opt_in"}, {"id": ONE, "subscription": "opt_out"}]);
        assert!(choices(&torn).expect_err("refused").message().contains("twice"));
        let many = vec![json!({"id": ONE, "subscription": "opt_in"}); 101];
        assert!(choices(&json!(many)).expect_err("refused").message().contains("100"));
    }

    #[test]
    fn what_is_no_choice_is_refused() {
        for (wrong, word) in [
            (json!({}), "`topics`"),
            (json!("x"), "`topics`"),
            (json!([ONE]), "`id`"),
            (json!([null]), "`id`"),
            (json!([{"subscription": "opt_in"}]), "`id`"),
            (json!([{"id": "x", "subscription": "opt_in"}]), "`id`"),
            (json!([{"id": ONE}]), "`subscription`"),
            (json!([{"id": ONE, "subscription": "in"}]), "`subscription`"),
        ] {
            let message = choices(&wrong).expect_err("refused").message().into_owned();
            assert!(message.contains(word), "{wrong}: {message}");
        }
    }

    proptest! {
        #[test]
        fn a_name_never_holds_a_control_or_more_than_its_length(name in any::<String>()) {
            if let Ok(name) = TopicName::parse(&json!(name)) {
                prop_assert!(!name.as_str().chars().any(char::is_control));
                prop_assert!((1..=TopicName::LONGEST).contains(&name.as_str().chars().count()));
            }
        }
    }
}
