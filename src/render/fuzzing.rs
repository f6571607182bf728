//! An entry point for fuzzers: it takes any bytes and panics when a promise is broken.

use serde_json::{Map, Value, json};

use super::{Kind, MOST_OUTPUT, MOST_SOURCE, Template};

/// What strangers put into their names, with a mark by which it is found again.
const HOSTILE: &str = "<fuzz>\"'&\r\nx\u{0}";

/// Any bytes as a template of each kind. Tells whether it was rendered.
pub fn template_text(data: &[u8]) -> bool {
    let source = String::from_utf8_lossy(data);
    let values = values();
    let mut is_rendered = false;
    for kind in [Kind::Html, Kind::Text, Kind::Line] {
        let template = match Template::parse(&source, kind) {
            Ok(template) => template,
            Err(error) => {
                is_message(&error.to_string());
                continue;
            }
        };
        assert!(source.len() <= MOST_SOURCE);
        assert!(template.keys().all(|key| !key.is_empty() && source.contains(key)), "it names what is written");
        let rendered = template.render(&values);
        assert_eq!(rendered, template.render(&values), "the same each time");
        match rendered {
            Ok(text) => {
                is_rendered = true;
                is_clean(&text, kind, &source);
            }
            Err(error) => is_message(&error.to_string()),
        }
    }
    is_rendered
}

fn values() -> Map<String, Value> {
    let values = json!({
        "NAME": HOSTILE, "FIRST_NAME": "Ada", "COUNT": 3, "PRICE": 9.95, "YES": true, "NOTHING": null,
        "LIST": [HOSTILE, "b", 1, [2]], "contact": {"first_name": HOSTILE, "properties": {"plan": "pro"}},
    });
    values.as_object().cloned().unwrap_or_default()
}

fn is_message(message: &str) {
    assert!(!message.is_empty() && message.chars().count() <= 300, "{message:?}");
    assert!(!message.contains(char::is_control), "{message:?}");
}

fn is_clean(text: &str, kind: Kind, source: &str) {
    assert!(text.len() <= MOST_OUTPUT && !text.contains('\0'));
    if kind == Kind::Html && !source.contains("safe") && !source.contains('<') {
        assert!(!text.contains("<fuzz>") && !text.contains('<'), "{text:?}");
    }
    assert!(kind != Kind::Line || !text.contains(char::is_control), "{text:?}");
}
