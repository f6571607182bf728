//! What a form is. Valid by construction.

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::schema::ArrayBuilder;
use utoipa::openapi::{RefOr, Schema};

use crate::app::App;
use crate::clock::Time;
use crate::db::{DbError, Row};
use crate::id::{FormId, SegmentId, TopicId};
use crate::mime::Mailbox;
use crate::text::{checked_text, is_longer, is_one_line};
use crate::web::{Change, id_schema, schema};

/// How many topics a form may opt in to.
const MOST_TOPICS: usize = 20;

/// One line, and not only spaces.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(
    as = FormLine,
    min_length = 1,
    max_length = 100,
    pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f][^\\x00-\\x1f\\x7f-\\x9f]*$",
    example = "Hear from us"
)]
pub struct Line(String);

checked_text!(
    Line(line) if is_one_line(line, 100),
    else "must be one line of 1 to 100 characters, not all of them spaces"
);

/// What stands below the heading.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(
    as = FormText,
    max_length = 1000,
    pattern = "^[^\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f]*$",
    example = "News of our engines, about once a month."
)]
pub struct Words(String);

checked_text!(
    Words(words) if !is_longer(words, 1000) && !words.chars().any(|c| c.is_control() && !"\t\n\r".contains(c)),
    else "must be text of at most 1000 characters, without control characters"
);

/// Whom a mail is from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(as = FormSender, max_length = 600, example = "Ada's Engines <hello@example.com>")]
pub struct FormSender(String);

checked_text!(
    FormSender(text) if text.parse::<Mailbox>().is_ok() && text.len() <= 600,
    else "must be one address such as `hello@example.com`, or `Name <hello@example.com>`"
);

/// Where people are led; encrypted, and nobody's password in it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(as = FormRedirect, max_length = 2000, pattern = "^https://", example = "https://example.com/welcome")]
pub struct Redirect(String);

checked_text!(
    Redirect(text) if is_redirect(text),
    else "must be an address that begins with `https://`, of at most 2000 characters, without a user name"
);

fn is_redirect(text: &str) -> bool {
    let is_plain = text.len() <= 2000 && text.bytes().all(|byte| byte.is_ascii_graphic());
    let uri = text.parse::<http::Uri>().ok().filter(|_| is_plain && text.starts_with("https://"));
    uri.and_then(|uri| uri.authority().cloned()).is_some_and(|host| !host.as_str().contains('@'))
}

/// The topics that a form opts in to, each once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct TopicIds(pub Vec<TopicId>);

schema!(TopicIds as "FormTopics" = ArrayBuilder::new().items(RefOr::<Schema>::from(id_schema())).max_items(Some(MOST_TOPICS)));

impl<'de> Deserialize<'de> for TopicIds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TopicIds, D::Error> {
        let mut ids = Vec::new();
        for id in Vec::<TopicId>::deserialize(deserializer)? {
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        match ids.len() <= MOST_TOPICS {
            true => Ok(TopicIds(ids)),
            false => Err(D::Error::custom(format!("must name at most {MOST_TOPICS} topics"))),
        }
    }
}

/// What to make.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"name": "Footer", "from": "Ada's Engines <hello@example.com>", "enabled": true}))]
pub struct NewForm {
    /// For yourself: strangers do not see it.
    pub name: Line,
    /// Whom the mail is from that asks whether the address is the stranger's.
    pub from: FormSender,
    pub heading: Option<Line>,
    pub text: Option<Words>,
    /// Where whoever has confirmed is led; without it, to a page of ours.
    pub redirect_url: Option<Redirect>,
    /// The segment that whoever has confirmed is added to.
    #[schema(value_type = Option<Uuid>)]
    pub segment_id: Option<SegmentId>,
    /// The topics that whoever has confirmed is opted in to.
    pub topics: Option<TopicIds>,
    /// Whether strangers can use it.
    #[schema(default = false)]
    pub enabled: Option<bool>,
}

/// What to change. What is left out stays as it is.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(example = json!({"enabled": true}))]
pub struct FormChange {
    pub name: Option<Line>,
    pub from: Option<FormSender>,
    /// Null empties it.
    #[schema(value_type = Option<Line>)]
    pub heading: Change<Line>,
    /// Null empties it.
    #[schema(value_type = Option<Words>)]
    pub text: Change<Words>,
    /// Null empties it.
    #[schema(value_type = Option<Redirect>)]
    pub redirect_url: Change<Redirect>,
    /// Null: no segment.
    #[schema(value_type = Option<Uuid>)]
    pub segment_id: Change<SegmentId>,
    pub topics: Option<TopicIds>,
    pub enabled: Option<bool>,
}

/// A form as the store has it.
#[derive(Debug, Clone)]
pub struct Form {
    pub id: FormId,
    pub name: String,
    pub from: String,
    pub heading: Option<String>,
    pub text: Option<String>,
    pub redirect_url: Option<String>,
    pub segment_id: Option<SegmentId>,
    pub topics: TopicIds,
    pub enabled: bool,
    pub created_at: i64,
}

impl Form {
    pub fn new(id: FormId, new: NewForm, now: i64) -> Form {
        Form {
            id,
            name: new.name.as_str().to_owned(),
            from: new.from.as_str().to_owned(),
            heading: new.heading.map(|line| line.as_str().to_owned()),
            text: new.text.map(|words| words.as_str().to_owned()),
            redirect_url: new.redirect_url.map(|url| url.as_str().to_owned()),
            segment_id: new.segment_id,
            topics: new.topics.unwrap_or_default(),
            enabled: new.enabled.unwrap_or(false),
            created_at: now,
        }
    }

    pub fn changed(self, changes: FormChange) -> Form {
        Form {
            name: changes.name.map_or(self.name, |line| line.0),
            from: changes.from.map_or(self.from, |from| from.0),
            heading: changes.heading.0.map_or(self.heading, |line| line.map(|line| line.0)),
            text: changes.text.0.map_or(self.text, |words| words.map(|words| words.0)),
            redirect_url: changes.redirect_url.0.map_or(self.redirect_url, |url| url.map(|url| url.0)),
            segment_id: changes.segment_id.0.unwrap_or(self.segment_id),
            topics: changes.topics.unwrap_or(self.topics),
            enabled: changes.enabled.unwrap_or(self.enabled),
            ..self
        }
    }

    pub fn read(row: &Row) -> Result<Form, DbError> {
        let topics = row.text(7)?;
        let topics = serde_json::from_str(&topics).map_err(|error| DbError::Broken(format!("topics: {error}")))?;
        Ok(Form {
            id: row.id(0)?,
            name: row.text(1)?,
            from: row.text(2)?,
            heading: row.maybe(3, Row::text)?,
            text: row.maybe(4, Row::text)?,
            redirect_url: row.maybe(5, Row::text)?,
            segment_id: row.maybe(6, Row::id)?,
            topics,
            enabled: row.bool(8)?,
            created_at: row.int(9)?,
        })
    }

    /// Where it is shown, and where others send it.
    pub fn url(&self, app: &App) -> String {
        format!("{}/subscribe/{}", app.addresses.base.as_str(), self.id)
    }
}

/// A form with which strangers subscribe.
#[derive(Serialize, ToSchema)]
#[schema(as = Form)]
pub struct Item {
    #[schema(pattern = "^form$")]
    object: &'static str,
    #[schema(value_type = Uuid)]
    id: FormId,
    #[schema(value_type = Line)]
    name: String,
    #[schema(value_type = FormSender)]
    from: String,
    #[schema(value_type = Option<Line>)]
    heading: Option<String>,
    #[schema(value_type = Option<Words>)]
    text: Option<String>,
    #[schema(value_type = Option<Redirect>)]
    redirect_url: Option<String>,
    #[schema(value_type = Option<Uuid>)]
    segment_id: Option<SegmentId>,
    topics: TopicIds,
    enabled: bool,
    /// The page that shows it.
    url: String,
    /// The form for a page of your own.
    html: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
}

impl Item {
    pub fn of(form: Form, app: &App) -> Item {
        let url = form.url(app);
        Item {
            object: "form",
            html: embedded(&url),
            url,
            id: form.id,
            name: form.name,
            from: form.from,
            heading: form.heading,
            text: form.text,
            redirect_url: form.redirect_url,
            segment_id: form.segment_id,
            topics: form.topics,
            enabled: form.enabled,
            created_at: Time(form.created_at),
        }
    }
}

/// The field that people do not see, and programs fill in.
pub const TRAP: &str = "website";

/// The HTML of a form for somebody's own page. Its address holds nothing that would have to be escaped.
pub fn embedded(url: &str) -> String {
    format!(
        "<form method=\"post\" action=\"{url}\">\n  <label>E-mail <input type=\"email\" name=\"email\" required \
         autocomplete=\"email\"></label>\n  <input name=\"{TRAP}\" tabindex=\"-1\" autocomplete=\"off\" \
         aria-hidden=\"true\" style=\"position:absolute;left:-9999px\">\n  <button>Subscribe</button>\n</form>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_are_led_to_encrypted_addresses_alone() {
        for good in ["https://example.com", "https://example.com/a?b=c#d", "https://xn--bcher-kva.example/"] {
            assert!(Redirect::try_from(good.to_owned()).is_ok(), "{good}");
        }
        let long = format!("https://example.com/{}", "a".repeat(2000));
        for bad in ["", "http://a", "https://", "https:a", "//a", "javascript:x", "https://u:p@a", "https://a b", &long]
        {
            assert!(Redirect::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
