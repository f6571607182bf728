//! What a topic is, and what a contact can choose of it. Valid by construction.

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder};

use crate::id::TopicId;
use crate::text::{checked_text, is_longer, one_line, words};
use crate::web::{Change, schema};

/// How many topics one request may name.
const MOST_NAMED: usize = 100;

one_line!(
    /// One line, and not only spaces.
    TopicName of 50, such as "Product news"
);

/// What a topic is about, in a few words; they may have several lines.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(
    as = TopicDescription,
    max_length = 200,
    pattern = "^[^\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f]*$",
    example = "What is new, about once a month."
)]
pub struct Description(String);

checked_text!(
    Description(words) if !is_longer(words, 200) && !words.chars().any(is_unseen),
    else "must be text of at most 200 characters, without control characters"
);

fn is_unseen(char: char) -> bool {
    char.is_control() && !matches!(char, '\t' | '\n' | '\r')
}

words! {
    /// Whether somebody wants mail about a topic.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Subscription: ALL, parse {
        OptIn = "opt_in",
        OptOut = "opt_out",
    }
}

words! {
    /// Who sees that there is such a topic: everybody, or those who have chosen it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Visibility: ALL, parse {
        Public = "public",
        Private = "private",
    }
}

/// What to make.
#[derive(Debug, Deserialize, ToSchema)]
pub struct NewTopic {
    pub name: TopicName,
    pub description: Option<Description>,
    /// What holds for a contact that never chose. It cannot be changed later.
    pub default_subscription: Subscription,
    /// Whether every contact may see that there is this topic, or only those who have opted in.
    #[schema(default = "private")]
    pub visibility: Option<Visibility>,
}

/// What to change. What is left out stays as it is.
#[derive(Debug, PartialEq, Eq, Deserialize, ToSchema)]
pub struct TopicChange {
    pub name: Option<TopicName>,
    /// Null empties it.
    #[schema(value_type = Option<Description>)]
    pub description: Change<Description>,
    pub visibility: Option<Visibility>,
    /// As the caller believes it to be: it cannot be changed.
    #[schema(ignore)]
    pub default_subscription: Option<Subscription>,
}

/// What a contact chose of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    pub topic_id: TopicId,
    pub subscription: Subscription,
}

/// Whether a contact wants mail about a topic.
#[derive(Deserialize, ToSchema)]
pub struct TopicChoice {
    /// The id of the topic.
    #[schema(value_type = Uuid)]
    id: TopicId,
    subscription: Subscription,
}

/// What a request chooses of topics, of each once.
#[derive(Debug, Default, PartialEq)]
pub struct ChoiceList(pub Vec<Choice>);

impl<'de> Deserialize<'de> for ChoiceList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ChoiceList, D::Error> {
        let given = Vec::<TopicChoice>::deserialize(deserializer)?;
        if given.len() > MOST_NAMED {
            return Err(D::Error::custom(format!("must name at most {MOST_NAMED} topics")));
        }
        let mut choices: Vec<Choice> = Vec::new();
        for TopicChoice { id: topic_id, subscription } in given {
            match choices.iter().find(|known| known.topic_id == topic_id) {
                None => choices.push(Choice { topic_id, subscription }),
                Some(known) if known.subscription == subscription => {}
                Some(_) => {
                    return Err(D::Error::custom(format!("names the topic `{topic_id}` twice and wants it both ways")));
                }
            }
        }
        Ok(ChoiceList(choices))
    }
}

schema!(
    ChoiceList as "TopicChoiceList" = ArrayBuilder::new().items(TopicChoice::schema()).max_items(Some(MOST_NAMED))
);

/// Choices, alone or in an object.
#[derive(Deserialize)]
pub struct TopicChoices {
    pub topics: ChoiceList,
}

schema!(TopicChoices as "TopicChoices" = {
    let named = ObjectBuilder::new().property("topics", ChoiceList::schema()).required("topics");
    let either = OneOfBuilder::new().description(Some("Choices, alone or in an object."));
    either.item(named).item(ChoiceList::schema())
});

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::error::Error;
    use crate::web;

    const ONE: &str = "01890000-0000-7000-8000-000000000001";
    const TWO: &str = "01890000-0000-7000-8000-000000000002";

    fn read<T: serde::de::DeserializeOwned>(json: Value) -> Result<T, Error> {
        web::read_fields(json.as_object().expect("an object").clone())
    }

    fn choices(topics: &Value) -> Result<Vec<Choice>, Error> {
        let fields = Map::from_iter([("topics".to_owned(), topics.clone())]);
        web::read_fields(fields).map(|choices: TopicChoices| choices.topics.0)
    }

    #[test]
    fn a_topic_needs_a_name_and_a_default_and_is_private_unless_told() {
        let new: NewTopic = read(json!({"name": "News", "default_subscription": "opt_in"})).expect("valid");
        assert_eq!((new.name.as_str(), new.default_subscription), ("News", Subscription::OptIn));
        assert_eq!((new.description, new.visibility), (None, None));
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
            assert!(read::<NewTopic>(body.clone()).is_ok());
            body[field] = value;
            let message = read::<NewTopic>(body).expect_err("refused").message().into_owned();
            assert!(message.contains(&format!("`{field}`")), "{message}");
        }
    }

    #[test]
    fn null_empties_a_description_and_is_else_absence() {
        let absent = json!({"id": ONE, "name": null, "visibility": null, "default_subscription": null});
        let nothing: TopicChange = read(absent).expect("valid");
        let description = Change(None);
        assert_eq!(nothing, TopicChange { name: None, description, visibility: None, default_subscription: None });
        let emptied: TopicChange = read(json!({"description": null})).expect("valid");
        assert_eq!(emptied.description, Change(Some(None)));
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
            (json!([ONE]), "`topics[0]`"),
            (json!([null]), "`topics[0]`"),
            (json!([{"subscription": "opt_in"}]), "`topics[0].id`"),
            (json!([{"id": "x", "subscription": "opt_in"}]), "`topics[0].id`"),
            (json!([{"id": ONE}]), "`topics[0].subscription`"),
            (json!([{"id": ONE, "subscription": "in"}]), "`topics[0].subscription`"),
        ] {
            let message = choices(&wrong).expect_err("refused").message().into_owned();
            assert!(message.contains(word), "{wrong}: {message}");
        }
    }

    proptest! {
        #[test]
        fn a_name_never_holds_a_control_or_more_than_its_length(name in any::<String>()) {
            if let Ok(name) = TopicName::try_from(name) {
                prop_assert!(!name.as_str().chars().any(char::is_control));
                prop_assert!((1..=50).contains(&name.as_str().chars().count()));
            }
        }
    }
}
