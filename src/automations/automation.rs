//! What an automation is beside its graph: a name, whether it listens, and how
//! often it lets the same contact in. Valid by construction.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::graph::{Finding, Graph};
use crate::error::Error;
use crate::seal::Seal;
use crate::web::input::{is_longer, kind, shown};

/// What a copy is called after.
const COPY: &str = " (copy)";

const LONGEST_EVENT_NAME: usize = 1024;

/// What people call an automation: one line, kept as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutomationName(String);

impl AutomationName {
    pub const LONGEST: usize = 200;

    pub fn parse(value: &Value) -> Result<AutomationName, Error> {
        let name = text("name", value)?;
        let fits = name.chars().count() <= AutomationName::LONGEST && !name.chars().any(char::is_control);
        if name.trim().is_empty() || !fits {
            let longest = AutomationName::LONGEST;
            return Err(Error::invalid(format!("The `name` field must be one line of 1 to {longest} characters.")));
        }
        Ok(AutomationName(name.to_owned()))
    }

    /// The name of a copy. Where both do not fit, the original's end gives way.
    pub fn of_copy(original: &str) -> AutomationName {
        let room = AutomationName::LONGEST - COPY.chars().count();
        let kept: String = original.chars().take(room).collect();
        AutomationName(format!("{kept}{COPY}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether events start runs of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Enabled,
    Disabled,
}

impl Status {
    pub const ALL: [Status; 2] = [Status::Enabled, Status::Disabled];

    pub fn as_str(self) -> &'static str {
        match self {
            Status::Enabled => "enabled",
            Status::Disabled => "disabled",
        }
    }

    pub fn named(text: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|one| one.as_str() == text)
    }

    pub fn parse(value: &Value) -> Result<Status, Error> {
        one_of("status", value, Status::named, Status::ALL.map(Status::as_str))
    }
}

/// What happens when the trigger occurs again for a contact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReEntry {
    /// Every occurrence starts a run.
    Always,
    /// Only a contact that never had a run gets one.
    OncePerContact,
    /// Only a contact without a run in flight gets one.
    OneAtATime,
}

impl ReEntry {
    pub const ALL: [ReEntry; 3] = [ReEntry::Always, ReEntry::OncePerContact, ReEntry::OneAtATime];

    pub fn as_str(self) -> &'static str {
        match self {
            ReEntry::Always => "always",
            ReEntry::OncePerContact => "once_per_contact",
            ReEntry::OneAtATime => "one_at_a_time",
        }
    }

    pub fn named(text: &str) -> Option<ReEntry> {
        ReEntry::ALL.into_iter().find(|one| one.as_str() == text)
    }

    pub fn parse(value: &Value) -> Result<ReEntry, Error> {
        one_of("re_entry", value, ReEntry::named, ReEntry::ALL.map(ReEntry::as_str))
    }
}

/// The name of an event that ends runs wherever they are. Unlike a definition,
/// it may be one of the product's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExitEvent(String);

impl ExitEvent {
    pub fn parse(value: &Value) -> Result<ExitEvent, Error> {
        let name = text("exit_on", value)?;
        if name.is_empty() || name.contains('\0') || is_longer(name, LONGEST_EVENT_NAME) {
            return Err(Error::invalid(format!(
                "The `exit_on` field must be the name of an event: 1 to {LONGEST_EVENT_NAME} characters, none of them \
                 U+0000."
            )));
        }
        Ok(ExitEvent(name.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A new secret for webhook steps to sign with, as the store keeps it.
pub fn new_signing_secret(seal: &Seal) -> String {
    seal.close_text(&signing_secret())
}

/// In the notation that verifying libraries read.
fn signing_secret() -> String {
    format!("whsec_{}", STANDARD.encode(crate::secret::random::<24>()))
}

/// A graph from a request, or the refusal that names what is wrong with it.
pub fn graph(steps: &Value, connections: &Value) -> Result<Graph, Error> {
    Graph::parse(steps, connections).map_err(|findings| Error::invalid(refusal(&findings)))
}

/// The first finding in full, and where to read the others.
fn refusal(findings: &[Finding]) -> String {
    let first = findings.first().map(Finding::sentence).unwrap_or_default();
    match findings.len() {
        0 | 1 => first,
        2 => format!("{first} There is 1 more finding: `POST /automations/validate` tells all of them."),
        all => format!("{first} There are {} more findings: `POST /automations/validate` tells all of them.", all - 1),
    }
}

fn text<'a>(field: &str, value: &'a Value) -> Result<&'a str, Error> {
    value
        .as_str()
        .ok_or_else(|| Error::invalid(format!("The `{field}` field must be a string, but is {}.", kind(value))))
}

fn one_of<T, const N: usize>(
    field: &str,
    value: &Value,
    named: impl Fn(&str) -> Option<T>,
    allowed: [&str; N],
) -> Result<T, Error> {
    let given = text(field, value)?;
    named(given).ok_or_else(|| {
        let allowed = allowed.map(|one| format!("`{one}`")).join(", ");
        Error::invalid(format!("The `{field}` field has the unknown value `{}`. Allowed are {allowed}.", shown(given)))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_is_one_line_and_kept_as_given() {
        let longest = "é".repeat(200);
        for name in ["a", " padded ", "日本", &longest] {
            assert_eq!(AutomationName::parse(&json!(name)).expect(name).as_str(), name);
        }
        for bad in [json!(""), json!("  "), json!("a\nb"), json!("a\u{0}"), json!("x".repeat(201)), json!(1)] {
            assert!(matches!(AutomationName::parse(&bad), Err(Error::Invalid { .. })), "{bad}");
        }
    }

    #[test]
    fn a_copy_is_named_after_its_original_and_still_fits() {
        assert_eq!(AutomationName::of_copy("Welcome").as_str(), "Welcome (copy)");
        let copy = AutomationName::of_copy(&"é".repeat(200));
        assert_eq!(copy.as_str().chars().count(), 200);
        assert!(AutomationName::parse(&json!(copy.as_str())).is_ok() && copy.as_str().ends_with("é (copy)"));
    }

    #[test]
    fn a_word_that_is_not_known_is_answered_with_those_that_are() {
        assert_eq!(Status::parse(&json!("enabled")).ok(), Some(Status::Enabled));
        assert_eq!(ReEntry::parse(&json!("one_at_a_time")).ok(), Some(ReEntry::OneAtATime));
        let message = |error: Error| error.message().into_owned();
        assert!(message(Status::parse(&json!("on")).expect_err("refused")).contains("`enabled`, `disabled`"));
        assert!(message(ReEntry::parse(&json!("never")).expect_err("refused")).contains("`once_per_contact`"));
        assert!(message(ReEntry::parse(&json!(1)).expect_err("refused")).contains("a number"));
    }

    #[test]
    fn a_run_may_end_on_an_event_of_the_product() {
        assert!(ExitEvent::parse(&json!("svc:email.bounced")).is_ok());
        for bad in [json!(""), json!("a\u{0}"), json!("x".repeat(1025)), json!([])] {
            assert!(ExitEvent::parse(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_refusal_says_how_many_findings_there_are_more() {
        let finding = |step: &str| Finding { step: Some(step.into()), message: "is wrong".into() };
        assert_eq!(refusal(&[finding("a")]), "The step `a` is wrong.");
        assert!(refusal(&[finding("a"), finding("b")]).contains("is 1 more"));
        assert!(refusal(&[finding("a"), finding("b"), finding("c")]).contains("are 2 more"));
    }

    #[test]
    fn a_signing_secret_holds_192_bits_in_the_usual_notation() {
        let secret = signing_secret();
        let bytes = STANDARD.decode(secret.strip_prefix("whsec_").expect("the prefix")).expect("base64");
        assert_eq!(bytes.len(), 24);
        assert_ne!(secret, signing_secret());
    }
}
