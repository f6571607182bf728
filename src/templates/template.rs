//! What a template is: a name, and contents that can be rendered. Valid by construction.

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, OneOfBuilder, Type};
use uuid::Uuid;

use super::variable::Variables;
use crate::mime::Mailbox;
use crate::render::{self, Kind};
use crate::text::{checked_text, is_longer, is_one_line};
use crate::web::{Change, schema};

const LONGEST_NAME: usize = 200;
const LONGEST_SUBJECT: usize = 2000;
const MOST_ADDRESSES: usize = 50;

/// What a copy is called after.
const COPY: &str = " (copy)";

/// One line, and not only spaces.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(
    min_length = 1,
    max_length = 200,
    pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f][^\\x00-\\x1f\\x7f-\\x9f]*$",
    example = "Order confirmation"
)]
pub struct TemplateName(String);

checked_text!(
    TemplateName(name) if is_one_line(name, LONGEST_NAME),
    else format!("must be one line of 1 to {LONGEST_NAME} characters, not all of them spaces")
);

impl TemplateName {
    /// The name of a copy. Where both do not fit, the original's end gives way.
    pub fn of_copy(original: &str) -> TemplateName {
        let kept: String = original.chars().take(LONGEST_NAME - COPY.chars().count()).collect();
        TemplateName(format!("{kept}{COPY}"))
    }
}

/// What a template can be called by instead of its id.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(
    as = TemplateAlias,
    min_length = 1,
    max_length = 100,
    pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$",
    example = "order-confirmation"
)]
pub struct Alias(String);

checked_text!(
    Alias(alias) if is_alias(alias),
    else "must be 1 to 100 letters, digits, `-`, `_` and `.`, begin with a letter or a digit, and not look like an id"
);

fn is_alias(alias: &str) -> bool {
    alias.len() <= 100
        && alias.starts_with(|char: char| char.is_ascii_alphanumeric())
        && alias.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        && Uuid::try_parse(alias).is_err()
}

/// A body or a subject that can be rendered.
macro_rules! sources {
    ($($(#[$doc:meta])* $name:ident as $shown:literal = $kind:expr;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(pub String);

        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(source: String) -> Result<$name, String> {
                check_source(&source, $kind).map(|()| $name(source))
            }
        }

        schema!($name as $shown = ObjectBuilder::new().schema_type(Type::String));
    )+};
}

sources! {
    HtmlSource as "TemplateHtml" = Kind::Html;
    TextSource as "TemplateText" = Kind::Text;
    SubjectSource as "TemplateSubject" = Kind::Line;
}

fn check_source(source: &str, kind: Kind) -> Result<(), String> {
    // PostgreSQL cannot keep it.
    if source.contains('\0') {
        return Err("must not hold the character U+0000".into());
    }
    if kind == Kind::Line && (is_longer(source, LONGEST_SUBJECT) || source.contains(char::is_control)) {
        return Err(format!("must be one line of at most {LONGEST_SUBJECT} characters"));
    }
    render::Template::parse(source, kind).map(drop).map_err(|flaw| format!("is no template: {flaw}"))
}

/// An address, perhaps with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OneAddress(pub Mailbox);

impl<'de> Deserialize<'de> for OneAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OneAddress, D::Error> {
        String::deserialize(deserializer)?.parse().map(OneAddress).map_err(D::Error::custom)
    }
}

schema!(OneAddress as "TemplateAddress" = ObjectBuilder::new().schema_type(Type::String));

/// An address or an array of addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Addresses(pub Vec<Mailbox>);

impl<'de> Deserialize<'de> for Addresses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Addresses, D::Error> {
        let given = match Value::deserialize(deserializer)? {
            Value::Array(items) => items,
            one => vec![one],
        };
        if given.len() > MOST_ADDRESSES {
            return Err(D::Error::custom(format!("must name at most {MOST_ADDRESSES} addresses")));
        }
        let wrong = || D::Error::custom("must be an address or an array of addresses");
        let read = |item: &Value| item.as_str().ok_or_else(wrong)?.parse().map_err(D::Error::custom);
        given.iter().map(read).collect::<Result<_, _>>().map(Addresses)
    }
}

schema!(Addresses as "TemplateAddresses" = {
    let one = || ObjectBuilder::new().schema_type(Type::String).examples(["Acme <help@acme.example>"]);
    OneOfBuilder::new().item(one()).item(ArrayBuilder::new().items(one()).max_items(Some(MOST_ADDRESSES)))
});

/// What to make.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({
    "name": "Order confirmation", "alias": "order-confirmation", "from": "Acme <shop@acme.example>",
    "subject": "Your order {{{ORDER_ID}}}", "html": "<p>Thank you, {{{NAME|friend}}}.</p>",
    "variables": [{"key": "ORDER_ID", "type": "string"}, {"key": "NAME", "type": "string", "fallback_value": "friend"}],
}))]
pub struct NewTemplate {
    pub name: TemplateName,
    /// By which it can be called instead of its id.
    pub alias: Option<Alias>,
    /// Whom its mail comes from, unless a mail says otherwise.
    pub from: Option<OneAddress>,
    /// The subject, unless a mail says otherwise.
    pub subject: Option<SubjectSource>,
    /// Where answers go, unless a mail says otherwise.
    pub reply_to: Option<Addresses>,
    /// The body as HTML, with variables in braces.
    pub html: HtmlSource,
    /// The body as text. Without it, one is made of the HTML.
    pub text: Option<TextSource>,
    /// What it takes, up to 50.
    pub variables: Option<Variables>,
}

/// What to change. What is left out stays as it is, null empties it.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"subject": "Your order {{{ORDER_ID}}} is on its way"}))]
pub struct TemplateChange {
    pub name: Option<TemplateName>,
    #[schema(value_type = Option<Alias>)]
    pub alias: Change<Alias>,
    #[schema(value_type = Option<OneAddress>)]
    pub from: Change<OneAddress>,
    #[schema(value_type = Option<SubjectSource>)]
    pub subject: Change<SubjectSource>,
    #[schema(value_type = Option<Addresses>)]
    pub reply_to: Change<Addresses>,
    pub html: Option<HtmlSource>,
    #[schema(value_type = Option<TextSource>)]
    pub text: Change<TextSource>,
    #[schema(value_type = Option<Variables>)]
    pub variables: Change<Variables>,
}

/// What a version of a template holds, as text.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Contents {
    pub subject: Option<String>,
    pub from: Option<String>,
    pub reply_to: Vec<String>,
    pub html: String,
    pub text: Option<String>,
    pub variables: Variables,
}

impl Contents {
    /// About how many bytes they are.
    pub fn length(&self) -> usize {
        let some = [&self.subject, &self.from, &self.text].into_iter().flatten();
        let texts = some.chain([&self.html]).chain(&self.reply_to).map(String::len);
        texts.sum::<usize>() + self.variables.length()
    }
}

impl NewTemplate {
    pub fn contents(self) -> (TemplateName, Option<Alias>, Contents) {
        let contents = Contents {
            subject: self.subject.map(|subject| subject.0),
            from: self.from.map(|from| from.0.to_string()),
            reply_to: shown(self.reply_to.unwrap_or_default()),
            html: self.html.0,
            text: self.text.map(|text| text.0),
            variables: self.variables.unwrap_or_default(),
        };
        (self.name, self.alias, contents)
    }
}

impl TemplateChange {
    /// What comes of contents that are changed so.
    pub fn apply(&self, mut contents: Contents) -> Contents {
        let set = |field: &mut Option<String>, change: Option<Option<String>>| {
            if let Some(value) = change {
                *field = value;
            }
        };
        let text = |change: &Change<TextSource>| change.0.clone().map(|text| text.map(|text| text.0));
        set(&mut contents.subject, self.subject.0.clone().map(|subject| subject.map(|subject| subject.0)));
        set(&mut contents.from, self.from.0.clone().map(|from| from.map(|from| from.0.to_string())));
        set(&mut contents.text, text(&self.text));
        if let Some(addresses) = &self.reply_to.0 {
            contents.reply_to = shown(addresses.clone().unwrap_or_default());
        }
        if let Some(html) = &self.html {
            contents.html.clone_from(&html.0);
        }
        if let Some(variables) = &self.variables.0 {
            contents.variables = variables.clone().unwrap_or_default();
        }
        contents
    }
}

fn shown(addresses: Addresses) -> Vec<String> {
    addresses.0.iter().map(Mailbox::to_string).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::web;

    fn refusal(field: &str, value: Value) -> String {
        let mut body = json!({"name": "Welcome", "html": "<p>Hi</p>"});
        body[field] = value;
        let read = web::read_fields::<NewTemplate>(body.as_object().expect("an object").clone());
        read.err().unwrap_or_else(|| panic!("{field}")).message().into_owned()
    }

    #[test]
    fn what_breaks_a_rule_is_told_with_the_field() {
        for (field, value, word) in [
            ("name", json!(""), "one line"),
            ("alias", json!("a b"), "letters"),
            ("alias", json!("01890000-0000-7000-8000-000000000001"), "not look like an id"),
            ("from", json!("nobody"), "must"),
            ("reply_to", json!(["a@b.example", 5]), "address"),
            ("reply_to", json!(vec!["a@b.example"; 51]), "at most 50"),
            ("subject", json!("a\nb"), "one line"),
            ("subject", json!("{{ x"), "is no template: line 1"),
            ("html", json!("<p>\n{% if x %}</p>"), "is no template: line 2"),
            ("html", json!("a\0"), "U+0000"),
            ("text", json!("{{{}}}"), "is no template"),
            ("variables", json!([{"key": "EMAIL", "type": "string"}]), "reserved"),
            ("variables", json!([{"key": "A", "type": "string", "fallback_value": 5}]), "`A`"),
        ] {
            let message = refusal(field, value.clone());
            assert!(message.contains(&format!("`{field}")) && message.contains(word), "{field} {value}: {message}");
        }
    }

    #[test]
    fn a_change_leaves_the_rest_and_null_empties() {
        let before =
            Contents { subject: Some("S".into()), html: "H".into(), text: Some("T".into()), ..Contents::default() };
        let change = json!({"subject": null, "html": "N", "variables": [{"key": "A", "type": "number"}]});
        let change: TemplateChange = web::read_fields(change.as_object().expect("an object").clone()).expect("valid");
        let after = change.apply(before);
        assert_eq!((after.subject, after.html.as_str(), after.text.as_deref()), (None, "N", Some("T")));
        assert_eq!(after.variables.0.len(), 1);
    }

    #[test]
    fn a_copy_is_named_after_its_original_and_still_fits() {
        assert_eq!(TemplateName::of_copy("Welcome").as_str(), "Welcome (copy)");
        assert_eq!(TemplateName::of_copy(&"é".repeat(200)).as_str().chars().count(), 200);
    }
}
