//! What an automation is beside its graph: a name, whether it listens, and how
//! often it lets the same contact in. Valid by construction.

use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::graph::{Finding, Graph, StepTemplate};
use crate::calls;
use crate::db::{Db, DbError};
use crate::error::Error;
use crate::id::WorkspaceId;
use crate::seal::Seal;
use crate::text::{checked_text, is_longer, one_line, words};
use crate::windows::Window;
use crate::{rules, templates};

/// What a copy is called after.
const COPY: &str = " (copy)";

one_line!(
    /// One line, and not only spaces; kept as it was given.
    AutomationName of 200, such as "Welcome"
);

impl AutomationName {
    const LONGEST: usize = 200;

    /// The name of a copy. Where both do not fit, the original's end gives way.
    pub fn of_copy(original: &str) -> AutomationName {
        let room = AutomationName::LONGEST - COPY.chars().count();
        let kept: String = original.chars().take(room).collect();
        AutomationName(format!("{kept}{COPY}"))
    }
}

words! {
    /// Whether events start runs of it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    #[schema(as = AutomationStatus)]
    pub enum Status: ALL {
        Enabled = "enabled",
        Disabled = "disabled",
    }
}

words! {
    /// What happens when the trigger occurs again for a contact.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum ReEntry: ALL, parse {
        /// Every occurrence starts a run.
        Always = "always",
        /// Only a contact that never had a run gets one.
        OncePerContact = "once_per_contact",
        /// Only a contact without a run in flight gets one.
        OneAtATime = "one_at_a_time",
    }
}

/// The name of an event that ends runs wherever they are. Unlike a definition,
/// it may be one of the product's own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(min_length = 1, max_length = 1024, pattern = "^[^\\u0000]+$", example = "subscription.cancelled")]
pub struct ExitEvent(String);

checked_text!(
    ExitEvent(name) if !name.is_empty() && !name.contains('\0') && !is_longer(name, 1024),
    else "must be the name of an event: 1 to 1024 characters, none of them U+0000"
);

/// A new secret for webhook steps to sign with, as the store keeps it.
pub fn new_signing_secret(seal: &Seal) -> String {
    seal.close_text(&calls::new_secret())
}

/// A graph from a request, or the refusal that names what is wrong with it.
pub fn graph(steps: &Value, connections: &Value) -> Result<Graph, Error> {
    Graph::parse(steps, connections).map_err(|findings| Error::invalid(refusal(&findings)))
}

/// Refuses to let an automation listen whose steps name templates that cannot be sent.
pub async fn must_be_sendable(db: &Db, workspace_id: WorkspaceId, graph: Option<&Graph>) -> Result<(), Error> {
    let Some(graph) = graph else { return Ok(()) };
    match unsendable(db, workspace_id, graph).await?.as_slice() {
        [] => Ok(()),
        findings => {
            Err(Error::invalid(format!("{} Put that right before the automation is enabled.", refusal(findings))))
        }
    }
}

/// What keeps steps from sending the templates that they name, with what they give them.
pub async fn unsendable(db: &Db, workspace_id: WorkspaceId, graph: &Graph) -> Result<Vec<Finding>, DbError> {
    let mut findings = Vec::new();
    for StepTemplate { step, named, variables } in graph.templates() {
        let mut given = variables.cloned().unwrap_or_default();
        // The run gives it, as it gives what is reserved.
        given.entry("event").or_insert_with(|| json!({}));
        let flaw = templates::check_use(db, workspace_id, named, &given, rules::is_variable).await?;
        findings.extend(flaw.map(|flaw| Finding::at(step, format!("cannot send: {flaw}"))));
    }
    Ok(findings)
}

/// Everything that is wrong with a graph and with the hours in which its mail may be sent; once the graph itself is
/// right, also which templates its steps cannot send.
pub async fn findings(
    db: &Db,
    workspace_id: WorkspaceId,
    (steps, connections): (&Value, &Value),
    send_window: Option<&Value>,
) -> Result<Vec<Finding>, DbError> {
    let mut findings = match Graph::parse(steps, connections) {
        Ok(graph) => unsendable(db, workspace_id, &graph).await?,
        Err(findings) => findings,
    };
    let window = send_window.and_then(|given| Window::parse(given).err());
    findings.extend(window.map(|flaw| Finding::whole(format!("has a `send_window` that is wrong: {flaw}"))));
    Ok(findings)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_line_and_kept_as_given() {
        let longest = "é".repeat(200);
        for name in ["a", " padded ", "日本", &longest] {
            assert_eq!(AutomationName::try_from(name.to_owned()).expect(name).as_str(), name);
        }
        for bad in ["", "  ", "a\nb", "a\u{0}", &"x".repeat(201)] {
            assert!(AutomationName::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_copy_is_named_after_its_original_and_still_fits() {
        assert_eq!(AutomationName::of_copy("Welcome").as_str(), "Welcome (copy)");
        let copy = AutomationName::of_copy(&"é".repeat(200));
        assert_eq!(copy.as_str().chars().count(), 200);
        assert!(AutomationName::try_from(copy.as_str().to_owned()).is_ok() && copy.as_str().ends_with("é (copy)"));
    }

    #[test]
    fn a_run_may_end_on_an_event_of_the_product() {
        assert!(ExitEvent::try_from("svc:email.bounced".to_owned()).is_ok());
        for bad in ["", "a\u{0}", &"x".repeat(1025)] {
            assert!(ExitEvent::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_refusal_says_how_many_findings_there_are_more() {
        let finding = |step: &str| Finding { step: Some(step.into()), message: "is wrong".into() };
        assert_eq!(refusal(&[finding("a")]), "The step `a` is wrong.");
        assert!(refusal(&[finding("a"), finding("b")]).contains("is 1 more"));
        assert!(refusal(&[finding("a"), finding("b"), finding("c")]).contains("are 2 more"));
    }
}
