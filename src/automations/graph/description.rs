//! How the API's description tells of steps: a schema for each type, told apart by `type`.

use std::borrow::Cow;

use serde_json::{Value, json};
use utoipa::openapi::schema::{
    AdditionalProperties, AnyOfBuilder, Discriminator, Object, ObjectBuilder, OneOfBuilder, SchemaType, Type,
};
use utoipa::openapi::{KnownFormat, Ref, RefOr, Schema, SchemaFormat};
use utoipa::{PartialSchema, ToSchema};

use super::step::{LONGEST_EVENT_NAME, Step};
use super::{LONGEST_KEY, Variable};
use crate::rules::{NamedSchema, Rule, word_schema};
use crate::windows::Window;

/// A type of step: its word, what its schema is called, what it does, and what its `config` holds.
struct Kind {
    word: &'static str,
    name: &'static str,
    does: &'static str,
    config: Option<RefOr<Schema>>,
}

fn kinds() -> [Kind; 10] {
    let kind = |word, name, does, config: RefOr<Schema>| Kind { word, name, does, config: Some(config) };
    let bare = |word, name, does| Kind { word, name, does, config: None };
    let delay = object(json!({"duration": "3 days"})).property("duration", duration(false)).required("duration");
    let wait = object(json!({"event_name": "order.paid", "timeout": "3 days"}))
        .property("event_name", event_name())
        .property("timeout", duration(true))
        .property("filter_rule", or_null(Rule::name(), "A condition on the event's payload: `event.…`."))
        .required("event_name");
    let segment = text().format(Some(SchemaFormat::KnownFormat(KnownFormat::Uuid)));
    let webhook = object(json!({"url": "https://app.example/hook", "body": {"email": {"var": "contact.email"}}}))
        .property("url", text().max_length(Some(2048)).description(Some("The address to post to.")))
        .property("body", anything("Any JSON; variables in it are replaced."))
        .required("url");
    [
        kind("trigger", "TriggerStep", "Starts a run when an event occurs. Every automation has one.", {
            let config = object(json!({"event_name": "user.created"}));
            config.property("event_name", event_name()).required("event_name").into()
        }),
        kind("delay", "DelayStep", "Waits.", delay.into()),
        kind("condition", "ConditionStep", "Goes on by `condition_met` or `condition_not_met`.", named(Rule::name())),
        kind("wait_for_event", "WaitForEventStep", "Goes on by `event_received` or `timeout`.", wait.into()),
        kind("send_email", "SendEmailStep", "Sends a mail to the contact.", send_email().into()),
        kind("contact_update", "ContactUpdateStep", "Changes the contact.", contact_update().into()),
        bare("contact_delete", "ContactDeleteStep", "Deletes the contact and ends the run."),
        kind("add_to_segment", "AddToSegmentStep", "Puts the contact into a segment.", {
            object(json!({"segment_id": "0199c5d2-7e3a-7c41-9d52-3f6f1c0b8a71"}))
                .property("segment_id", segment)
                .required("segment_id")
                .into()
        }),
        kind("webhook", "WebhookStep", "Posts JSON to an address.", webhook.into()),
        bare("exit", "ExitStep", "Ends the run."),
    ]
}

fn object(example: Value) -> ObjectBuilder {
    ObjectBuilder::new().examples([example])
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn anything(description: &str) -> Object {
    ObjectBuilder::new().schema_type(SchemaType::AnyValue).description(Some(description)).build()
}

fn named(name: Cow<'_, str>) -> RefOr<Schema> {
    Ref::from_schema_name(name).into()
}

fn or_null(name: Cow<'_, str>, description: &str) -> OneOfBuilder {
    let null = ObjectBuilder::new().schema_type(Type::Null);
    OneOfBuilder::new().item(Ref::from_schema_name(name)).item(null).description(Some(description))
}

fn event_name() -> ObjectBuilder {
    text()
        .description(Some("The name of an event."))
        .min_length(Some(1))
        .max_length(Some(LONGEST_EVENT_NAME))
        .pattern(Some("^[^\\u0000]+$"))
}

fn duration(may_be_null: bool) -> ObjectBuilder {
    let kinds = [Type::String, Type::Integer].into_iter().chain(may_be_null.then_some(Type::Null));
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter(kinds))
        .description(Some("Words such as `30 minutes`, `1 day 12 hours` or `2h`, or seconds; at most 30 days."))
        .minimum(Some(0))
}

/// Text, or where some is found.
fn text_or_variable(description: &str, may_be_null: bool) -> OneOfBuilder {
    let kind = match may_be_null {
        true => SchemaType::from_iter([Type::String, Type::Null]),
        false => Type::String.into(),
    };
    let literal = ObjectBuilder::new().schema_type(kind);
    OneOfBuilder::new().item(literal).item(named(Variable::name())).description(Some(description))
}

fn send_email() -> AnyOfBuilder {
    let window = || or_null(Window::name(), "When it may be sent, whatever the automation says.");
    let anything = || ObjectBuilder::new().additional_properties(Some(AdditionalProperties::FreeForm(true)));
    let variables = SchemaType::from_iter([Type::Object, Type::Null]);
    let template = ObjectBuilder::new()
        .property("id", text().min_length(Some(1)).description(Some("The id or the alias of a template.")))
        .property("variables", anything().schema_type(variables).description(Some("Values of its variables, by key.")))
        .required("id");
    let of_template =
        object(json!({"template": {"id": "welcome", "variables": {"NAME": {"var": "contact.first_name"}}}}))
            .title(Some("A mail made of a template"))
            .property("template", template)
            .property("from", text_or_variable("Instead of the template's.", true))
            .property("subject", text_or_variable("Instead of the template's.", true))
            .property("reply_to", text_or_variable("Instead of the template's.", true))
            .property("send_window", window())
            .required("template");
    let written = object(json!({"from": "Acme <hello@acme.example>", "subject": "Welcome", "html": "<p>Hello</p>"}))
        .title(Some("A mail that stands in the step"))
        .property("from", text_or_variable("Who sends it.", false))
        .property("subject", text_or_variable("Its subject.", false))
        .property("html", text_or_variable("Its body in HTML; this or `text`, or both.", true))
        .property("text", text_or_variable("Its body as text.", true))
        .property("reply_to", text_or_variable("Where answers go.", true))
        .property("send_window", window())
        .required("from")
        .required("subject");
    AnyOfBuilder::new().item(of_template).item(written)
}

fn contact_update() -> ObjectBuilder {
    let flag = ObjectBuilder::new().schema_type(SchemaType::from_iter([Type::Boolean, Type::Null]));
    let unsubscribed = OneOfBuilder::new().item(flag).item(named(Variable::name()));
    let properties = ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::Object, Type::Null]))
        .description(Some("Properties by key: values, variables, or null to empty one."))
        .additional_properties(Some(AdditionalProperties::FreeForm(true)));
    object(json!({"first_name": {"var": "event.name"}, "properties": {"plan": "pro"}}))
        .description(Some("At least one of these. Null empties a field."))
        .property("first_name", text_or_variable("The first name.", true))
        .property("last_name", text_or_variable("The last name.", true))
        .property("unsubscribed", unsubscribed.description(Some("Whether the contact wants no mail.")))
        .property("properties", properties)
}

impl Kind {
    fn schema(self) -> NamedSchema {
        let key = text()
            .description(Some("What connections and runs call it; no other step has it."))
            .min_length(Some(1))
            .max_length(Some(LONGEST_KEY))
            .pattern(Some("^[^\\u0000]+$"));
        let step = ObjectBuilder::new()
            .description(Some(self.does))
            .property("key", key)
            .property("type", word_schema([self.word]))
            .required("key")
            .required("type");
        let nothing = || {
            let kinds = SchemaType::from_iter([Type::Object, Type::Null]);
            let nothing = ObjectBuilder::new().schema_type(kinds).description(Some("Nothing is needed here."));
            nothing.additional_properties(Some(AdditionalProperties::FreeForm(true)))
        };
        let step = match self.config {
            Some(config) => step.property("config", config).required("config"),
            None => step.property("config", nothing()),
        };
        (self.name.to_owned(), step.into())
    }
}

impl PartialSchema for Step {
    fn schema() -> RefOr<Schema> {
        let kinds = kinds();
        let mapping = kinds.iter().map(|kind| (kind.word, format!("#/components/schemas/{}", kind.name)));
        let choice =
            kinds.iter().fold(OneOfBuilder::new(), |choice, kind| choice.item(Ref::from_schema_name(kind.name)));
        choice
            .description(Some("One step. What its `config` holds depends on its `type`."))
            .discriminator(Some(Discriminator::with_mapping("type", mapping)))
            .into()
    }
}

impl ToSchema for Step {
    fn name() -> Cow<'static, str> {
        "AutomationStep".into()
    }

    fn schemas(all: &mut Vec<NamedSchema>) {
        all.extend(kinds().map(Kind::schema));
        all.push((Rule::name().into(), Rule::schema()));
        all.push((Variable::name().into(), Variable::schema()));
        all.push((Window::name().into(), Window::schema()));
        Rule::schemas(all);
        Window::schemas(all);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::fields_of;
    use super::*;

    #[test]
    fn issue_15_every_type_of_step_has_a_schema_whose_example_is_such_a_step() {
        for kind in kinds() {
            let word = kind.word;
            let schema = serde_json::to_value(kind.schema().1).expect("JSON");
            assert_eq!(schema["properties"]["type"]["enum"], json!([word]));
            let config = &schema["properties"]["config"];
            let choices = config["anyOf"].as_array().cloned().unwrap_or_else(|| vec![config.clone()]);
            for choice in choices {
                let example = match &choice["examples"][0] {
                    Value::Null if word == "condition" => {
                        json!({"type": "rule", "field": "event.a", "operator": "exists"})
                    }
                    Value::Null => json!({}),
                    given => given.clone(),
                };
                let parsed = Step::parse("a", word, example.as_object().expect("an object"));
                assert_eq!(parsed.map(|step| step.action.type_name()), Ok(word), "{example}");
            }
        }
        for kind in kinds() {
            let word = kind.word;
            let schema = serde_json::to_value(kind.schema().1).expect("JSON");
            let config = &schema["properties"]["config"];
            let choices = config["anyOf"].as_array().cloned().unwrap_or_else(|| vec![config.clone()]);
            let fields = |one: &Value| one["properties"].as_object().map(|all| all.keys().cloned().collect::<Vec<_>>());
            let described: BTreeSet<String> = choices.iter().filter_map(fields).flatten().collect();
            let known = fields_of(word).unwrap_or_default().iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(described, known, "what is described of {word} is what is read");
        }
        let unknown = Step::parse("a", "nothing", &serde_json::Map::new()).expect_err("unknown");
        assert!(kinds().iter().all(|kind| unknown.contains(kind.word)), "{unknown}");
    }
}
