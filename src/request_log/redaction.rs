//! What of a body the log shows: its shape and what is not secret. Secrets, tokens and passwords are
//! known by the names of their fields and by how ours look; what mails say is left out, too.

use serde_json::{Value, json};

use super::Kept;

const REDACTED: &str = "[redacted]";

/// Parts of names of fields that hold what gives access.
const SECRET: [&str; 10] = [
    "password",
    "passwd",
    "secret",
    "token",
    "authorization",
    "apikey",
    "cookie",
    "credential",
    "signature",
    "privatekey",
];

/// Fields that hold what a mail says, or what it is made of.
const CONTENT: [&str; 9] =
    ["html", "text", "content", "body", "raw", "variables", "payload", "attachments", "codeverifier"];

/// How values begin that give access, whatever their field is called.
const PREFIXES: [&str; 4] = ["re_", "whsec_", "Bearer ", "eyJ"];

/// A body as the log keeps it, as JSON.
pub fn shown(kept: &Kept) -> Option<String> {
    let bytes = match kept {
        Kept::Nothing => return None,
        Kept::TooLong => return Some(json!({"omitted": "The body is too long to be kept."}).to_string()),
        Kept::Complete(bytes) if bytes.is_empty() => return None,
        Kept::Complete(bytes) => bytes,
    };
    let shown = match serde_json::from_slice(bytes) {
        Ok(mut value) => {
            redact(&mut value);
            value
        }
        Err(_) => json!({"omitted": "The body is not JSON."}),
    };
    Some(shown.to_string())
}

fn redact(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                if is_hidden(name) && !value.is_null() && !value.is_boolean() {
                    *value = REDACTED.into();
                } else {
                    redact(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(redact),
        Value::String(text) if PREFIXES.iter().any(|prefix| text.starts_with(prefix)) => *value = REDACTED.into(),
        _ => {}
    }
}

fn is_hidden(name: &str) -> bool {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    CONTENT.contains(&name.as_str()) || SECRET.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(body: &Value) -> Value {
        let shown = shown(&Kept::Complete(body.to_string().into_bytes())).expect("a body");
        serde_json::from_str(&shown).expect("JSON")
    }

    #[test]
    fn secrets_and_what_mails_say_are_left_out_wherever_they_stand() {
        let body = json!({
            "from": "a@example.com", "subject": "Hi", "html": "<p>", "text": null, "tags": [{"name": "a", "value": "b"}],
            "attachments": [{"content": "aGk="}],
            "template": {"id": "welcome", "variables": {"link": "https://x"}},
            "auth": {"apiKey": "k", "client_secret": "s", "Password": 1, "signing_secret": "whsec_x", "named": "re_123"},
            "list": ["Bearer x", "plain"], "click_tracking": true, "has_token": false,
        });
        let expected = json!({
            "from": "a@example.com", "subject": "Hi", "html": REDACTED, "text": null,
            "tags": [{"name": "a", "value": "b"}],
            "attachments": REDACTED,
            "template": {"id": "welcome", "variables": REDACTED},
            "auth": {"apiKey": REDACTED, "client_secret": REDACTED, "Password": REDACTED, "signing_secret": REDACTED,
                "named": REDACTED},
            "list": [REDACTED, "plain"], "click_tracking": true, "has_token": false,
        });
        assert_eq!(redacted(&body), expected);
    }

    #[test]
    fn what_cannot_be_read_is_not_shown() {
        let shown = |kept: Kept| shown(&kept).unwrap_or_default();
        assert!(shown(Kept::Complete(b"re_secret".to_vec())).contains("not JSON"));
        assert!(shown(Kept::TooLong).contains("too long"));
        assert!(shown(Kept::Nothing).is_empty() && shown(Kept::Complete(Vec::new())).is_empty());
    }
}
