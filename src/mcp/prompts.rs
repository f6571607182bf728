//! What people can ask for with a word: prompts that lead an assistant through the tools with care.

use rmcp::ErrorData;
use rmcp::model::{GetPromptResult, JsonObject, Prompt, PromptArgument, PromptMessage, Role};
use serde_json::Value;

use crate::text::shown;

struct Entry {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    /// Their names, and what each is. All of them are needed.
    arguments: &'static [(&'static str, &'static str)],
    text: &'static str,
}

const PROMPTS: &[Entry] = &[
    Entry {
        name: "draft_broadcast",
        title: "Draft a broadcast",
        description: "Writes a mail to a segment as a draft, and sends nothing.",
        arguments: &[
            ("about", "What the mail is about."),
            ("audience", "Whom it is for: a segment, or a description."),
        ],
        text: "Draft a broadcast. Find the segment with `list_segments` and say with `read_segment` how many contacts it \
            reaches. Look at the last ones (`list_broadcasts`, `read_broadcast`) for sender and tone. Write subject, HTML \
            and text, make the draft with `create_broadcast`, and show me what it says and whom it goes to. Do not \
            call `send_broadcast` before I say so.",
    },
    Entry {
        name: "plan_automation",
        title: "Plan an automation",
        description: "Builds an automation that is disabled, and explains it.",
        arguments: &[("goal", "What shall happen, to whom, and when.")],
        text: "Plan an automation. See which events there are (`list_events`) and what is there already \
            (`list_automations`, `list_templates`). Build the steps and try them with `validate_automation` until \
            nothing is wrong. Then make it with `create_automation`, which leaves it disabled, and tell me step by step \
            what happens to a contact. Do not enable it before I say so.",
    },
    Entry {
        name: "explain_delivery",
        title: "Explain what became of mail",
        description: "Looks for mail to somebody, and says in plain words what became of it.",
        arguments: &[("recipient", "An address, or the id of an email.")],
        text: "Find out what became of mail to somebody. Look for it with `list_emails` and `read_email`, see with \
            `list_suppressions` whether the address gets no mail any more, with `read_contact` what the contact \
            wants, and with `list_domains` whether the sender's domain is verified. Tell me in plain words what \
            happened and why, and what I can do. Change nothing and send nothing.",
    },
];

pub fn list() -> Vec<Prompt> {
    let argument =
        |&(name, about): &(&str, &str)| PromptArgument::new(name).with_description(about).with_required(true);
    let prompt = |entry: &Entry| {
        let arguments = entry.arguments.iter().map(argument).collect();
        Prompt::new(entry.name, Some(entry.description), Some(arguments)).with_title(entry.title)
    };
    PROMPTS.iter().map(prompt).collect()
}

pub fn get(name: &str, arguments: &JsonObject) -> Result<GetPromptResult, ErrorData> {
    let Some(entry) = PROMPTS.iter().find(|entry| entry.name == name) else {
        let message = format!("There is no prompt `{}`. `prompts/list` names those there are.", shown(name));
        return Err(ErrorData::invalid_params(message, None));
    };
    let mut text = entry.text.to_owned();
    for (name, about) in entry.arguments {
        let Some(value) = arguments.get(*name).and_then(Value::as_str) else {
            return Err(ErrorData::invalid_params(format!("`{name}` is missing, a string: {about}"), None));
        };
        text.push_str(&format!("\n\n{name}: {value}"));
    }
    let asked = PromptMessage::new_text(Role::User, text);
    Ok(GetPromptResult::new(vec![asked]).with_description(entry.description))
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::TOOLS;
    use super::*;

    #[test]
    fn prompts_name_tools_that_there_are() {
        for entry in PROMPTS {
            let named: Vec<&str> = entry.text.split('`').skip(1).step_by(2).collect();
            assert!(named.len() > 2, "{}", entry.name);
            for tool in named {
                assert!(TOOLS.iter().any(|entry| entry.operation == tool), "{}: {tool}", entry.name);
            }
        }
    }
}
