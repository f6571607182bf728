//! What a form or a call did, in the words of the log: `key.deleted`.

use uuid::Uuid;

/// What the purpose of a form says, and the page that it was sent to; or what the route of a call says.
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

    /// From a call of the API, by its method, the pattern of its route and its path: `None` where it changes data, and
    /// not how the workspace is set up.
    pub fn of_call(method: &str, route: &str, path: &str) -> Option<Act> {
        if is_read(method) || is_data(method, route) {
            return None;
        }
        // Names that events have may be words of other routes.
        let route = if route.starts_with("/events/") { "/events/{id}" } else { route };
        let parts: Vec<&str> = route.split('/').skip(1).collect();
        let key = parts.iter().rposition(|part| part.starts_with('{'));
        let given = key.and_then(|key| path.split('/').nth(key + 1));
        let (noun, rest) = match key {
            Some(key) => (parts.get(key.saturating_sub(1)), parts.get(key + 1..)),
            None => (parts.last(), None),
        };
        let verb = match (rest.and_then(<[&str]>::last), method) {
            (Some(word), _) => *word,
            (None, "POST") => "create",
            (None, "DELETE") => "delete",
            (None, _) => "change",
        };
        let action = match (method, route) {
            ("PATCH", "/workspace") => "settings.changed".to_owned(),
            ("PATCH", "/api-keys/{id}") => "key.renamed".to_owned(),
            (_, "/oauth/grants/{id}") => "grant.revoked".to_owned(),
            (_, "/suppressions/batch/add") => "suppression.created".to_owned(),
            (_, "/suppressions/batch/remove") => "suppression.deleted".to_owned(),
            (_, "/suppressions/import") => "suppression.imported".to_owned(),
            _ => format!("{}.{}", singular(noun.copied()), done(verb)),
        };
        Some(Act { action, target_id: given.and_then(|given| Uuid::try_parse(given).ok()) })
    }
}

fn is_read(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS")
}

/// What is done all day: mail and events that are sent, and contacts one by one. A line for each would bury the others,
/// and cost as much as what it tells of; so would one for each definition of an event.
fn is_data(method: &str, route: &str) -> bool {
    match route.split('/').nth(1).unwrap_or_default() {
        "emails" | "occurrences" | "mcp" => true,
        "events" => method == "POST",
        "contacts" => !matches!(route, "/contacts/imports" | "/contacts/{contact}/erase"),
        "audiences" => route.contains("/contacts"),
        // Looks at DNS, sends somebody a mail, and tells an endpoint once more.
        _ => {
            matches!(route, "/domains/{id}/verify" | "/templates/{id}/test" | "/webhooks/{id}/events/{event_id}/replay")
        }
    }
}

fn singular(segment: Option<&str>) -> String {
    let word = match segment.unwrap_or("workspace") {
        "api-keys" => "keys",
        "audiences" => "segments",
        "contact-properties" => "properties",
        word => word,
    };
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
        // What of a thing was changed.
        "settings" | "rules" | "fallback" | "topics" | "segments" => "changed".into(),
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
            ("create a domain".to_owned(), "/domains", "domain.created"),
            (format!("settings of domain {ID}"), "/domains/x/settings", "domain.changed"),
            ("change the settings".to_owned(), "/settings", "settings.changed"),
            (format!("retry recipient 0 of email {ID}"), "/emails/x", "email.retried"),
            (format!("cancel run {ID} of automation {ID}"), "/automations/x/runs/y", "run.canceled"),
            (format!("duplicate automation {ID} as {ID}"), "/automations/x/duplicate", "automation.duplicated"),
            ("create a property".to_owned(), "/properties?x", "property.created"),
        ] {
            assert_eq!(Act::of(&purpose, path).action, action, "{purpose}");
            assert_eq!(Act::of(&purpose, path).target_id.is_some(), purpose.contains(ID));
        }
    }

    #[test]
    fn a_call_becomes_the_same_action_as_a_form() {
        for (call, path, action, is_named) in [
            ("POST /domains", "/domains", "domain.created", false),
            ("PATCH /domains/{id}", "/domains/ID", "domain.changed", true),
            ("POST /domains/{id}/dkim-keys", "/domains/ID/dkim-keys", "domain.dkim_keys", true),
            ("DELETE /api-keys/{id}", "/api-keys/ID", "key.deleted", true),
            ("PATCH /api-keys/{id}", "/api-keys/ID", "key.renamed", true),
            ("POST /automations/{id}/stop", "/automations/ID/stop", "automation.stopped", true),
            ("POST /automations/{id}/runs/{run_id}/cancel", "/automations/x/runs/ID/cancel", "run.canceled", true),
            (
                "POST /webhooks/{id}/signing-secret/rotate",
                "/webhooks/ID/signing-secret/rotate",
                "webhook.rotated",
                true,
            ),
            ("POST /templates/{id}/publish", "/templates/welcome/publish", "template.published", false),
            ("DELETE /events/{*identifier}", "/events/order/paid", "event.deleted", false),
            ("PATCH /events/send/batch", "/events/send/batch", "event.changed", false),
            ("DELETE /audiences/{id}", "/audiences/ID", "segment.deleted", true),
            ("POST /contact-properties", "/contact-properties", "property.created", false),
            ("POST /contacts/imports", "/contacts/imports", "import.created", false),
            ("PATCH /workspace/branding", "/workspace/branding", "branding.changed", false),
            ("DELETE /oauth/grants/{id}", "/oauth/grants/ID", "grant.revoked", true),
        ] {
            let (method, route) = call.split_once(' ').expect("a method and a route");
            let act = Act::of_call(method, route, &path.replace("ID", ID)).expect("a change");
            assert_eq!((act.action.as_str(), act.target_id.is_some()), (action, is_named), "{call}");
        }
        for call in
            ["GET /domains", "POST /emails/batch", "POST /events/send", "PATCH /contacts/{contact}", "POST /mcp"]
        {
            let (method, route) = call.split_once(' ').expect("a method and a route");
            assert_eq!(Act::of_call(method, route, route), None, "{call}");
        }
    }
}
