//! What a form did, in the words of the log: `key.deleted`.

use uuid::Uuid;

/// What the purpose of a form says, and the page that it was sent to.
#[derive(Debug, PartialEq, Eq)]
pub struct Act {
    pub action: String,
    pub target_id: Option<Uuid>,
}

impl Act {
    /// From a purpose such as `delete key 0189…`, sent to a page such as `/keys/0189…/delete`.
    pub fn of(purpose: &str, path: &str) -> Act {
        let words: Vec<&str> = purpose.split_whitespace().collect();
        let at = words.iter().position(|word| Uuid::try_parse(word).is_ok());
        let target_id = at.and_then(|at| Uuid::try_parse(words[at]).ok());
        let verb = words.first().copied().unwrap_or("change");
        let named = at.filter(|at| *at > 1).map(|at| words[at - 1].to_owned());
        let noun = named.unwrap_or_else(|| singular(path.split(['/', '?']).find(|part| !part.is_empty())));
        Act { action: format!("{noun}.{}", done(verb)), target_id }
    }
}

fn singular(segment: Option<&str>) -> String {
    let word = segment.unwrap_or("workspace");
    match word {
        "settings" => word.to_owned(),
        _ if word.ends_with("ies") => format!("{}y", &word[..word.len() - 3]),
        _ => word.strip_suffix('s').unwrap_or(word).to_owned(),
    }
}

/// What was done by doing it: `deleted` of `delete`.
pub fn done(verb: &str) -> String {
    let verb = verb.to_lowercase().replace('-', "_");
    match verb.as_str() {
        "send" => "sent".into(),
        "undo" => "undone".into(),
        "redo" => "redone".into(),
        "make" => "made".into(),
        "withdraw" => "withdrawn".into(),
        "set" | "put" => verb,
        "stop" | "drop" | "skip" => format!("{verb}{}ed", &verb[verb.len() - 1..]),
        _ if verb.contains('_') => verb,
        _ if verb.ends_with('e') => format!("{verb}d"),
        _ if verb.ends_with('y') && !verb.ends_with("ay") => format!("{}ied", &verb[..verb.len() - 1]),
        _ => format!("{verb}ed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01890000-0000-7000-8000-000000000001";

    #[test]
    fn a_purpose_becomes_an_action() {
        for (purpose, path, action) in [
            (format!("delete key {ID}"), "/keys/x/delete", "key.deleted"),
            (format!("create key {ID}"), "/keys", "key.created"),
            (format!("verify {ID}"), "/domains/x/verify", "domain.verified"),
            (format!("dkim-keys {ID}"), "/domains/x/dkim-keys", "domain.dkim_keys"),
            ("add a domain".to_owned(), "/domains", "domain.added"),
            ("change the settings".to_owned(), "/settings", "settings.changed"),
            (format!("retry recipient 0 of email {ID}"), "/emails/x", "email.retried"),
            (format!("cancel run {ID} of automation {ID}"), "/automations/x/runs/y", "run.canceled"),
            (format!("copy automation {ID} as {ID}"), "/automations/x/duplicate", "automation.copied"),
            ("declare a property".to_owned(), "/properties?x", "property.declared"),
        ] {
            assert_eq!(Act::of(&purpose, path).action, action, "{purpose}");
            assert_eq!(Act::of(&purpose, path).target_id.is_some(), purpose.contains(ID));
        }
    }
}
