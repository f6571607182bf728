//! Which operations of the API assistants are given, and what each of them risks.
//! What gives access (keys, grants, domains) is left to people.

use Risk::{Adds, Changes, Reads, Sends};

/// What a call can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Risk {
    /// Changes nothing.
    Reads,
    /// Makes something that does nothing by itself.
    Adds,
    /// Overwrites, ends or deletes what was there.
    Changes,
    /// Lets something out that nobody can take back: mail, or what mails start.
    Sends,
}

/// An operation that assistants are given.
pub struct Entry {
    pub operation: &'static str,
    pub risk: Risk,
    /// What an assistant should know beyond the API's own description.
    pub advice: &'static str,
    /// Fields that are kept from it, because there is a tool of its own for what they do.
    pub without: &'static [&'static str],
}

const fn entry(operation: &'static str, risk: Risk) -> Entry {
    Entry { operation, risk, advice: "", without: &[] }
}

const fn advised(operation: &'static str, risk: Risk, advice: &'static str) -> Entry {
    Entry { operation, risk, advice, without: &[] }
}

pub const TOOLS: &[Entry] = &[
    entry("list_events", Reads),
    entry("read_event", Reads),
    entry("create_event", Adds),
    entry("update_event", Changes),
    entry("delete_event", Changes),
    advised("send_event", Sends, "Every enabled automation with this trigger starts a run, which may send mail."),
    entry("list_occurrences", Reads),
    entry("read_occurrence", Reads),
    entry("list_automations", Reads),
    entry("read_automation", Reads),
    advised("validate_automation", Reads, "A dry run: call it before `create_automation` and `update_automation`."),
    Entry {
        operation: "create_automation",
        risk: Adds,
        advice: "It is made disabled; `update_automation` enables it when somebody has looked at it.",
        without: &["status"],
    },
    advised("update_automation", Sends, "With `status` `enabled` it starts runs from then on, which may send mail."),
    entry("duplicate_automation", Adds),
    entry("stop_automation", Changes),
    entry("delete_automation", Changes),
    entry("list_automation_runs", Reads),
    entry("read_automation_run", Reads),
    entry("cancel_automation_run", Changes),
    advised("retry_automation_run", Sends, "The run goes on from the step that failed, which may send mail."),
    entry("list_contacts", Reads),
    entry("read_contact", Reads),
    entry("create_contact", Adds),
    entry("update_contact", Changes),
    entry("delete_contact", Changes),
    entry("list_contact_segments", Reads),
    entry("add_contact_segment", Adds),
    entry("remove_contact_segment", Changes),
    entry("list_contact_topics", Reads),
    entry("list_contact_properties", Reads),
    entry("list_segments", Reads),
    advised("read_segment", Reads, "Its `contacts_count` says how many a broadcast to it could reach."),
    advised("preview_segment", Reads, "A dry run: how many contacts a filter finds."),
    entry("list_topics", Reads),
    entry("list_domains", Reads),
    entry("list_emails", Reads),
    entry("read_email", Reads),
    advised(
        "send_email",
        Sends,
        "Ask before sending to people. Pass `idempotency_key`, so that a repeated call sends once.",
    ),
    entry("reschedule_email", Changes),
    entry("cancel_email", Changes),
    entry("list_templates", Reads),
    entry("read_template", Reads),
    advised("preview_template", Reads, "A dry run: what a recipient would see, and which variables are missing."),
    entry("create_template", Adds),
    entry("update_template", Changes),
    advised("publish_template", Changes, "Preview it before: what is published is what is sent from then on."),
    entry("duplicate_template", Adds),
    entry("delete_template", Changes),
    entry("list_broadcasts", Reads),
    entry("read_broadcast", Reads),
    Entry {
        operation: "create_broadcast",
        risk: Adds,
        advice: "It is made as a draft; `send_broadcast` sends it.",
        without: &["send", "scheduled_at"],
    },
    entry("update_broadcast", Changes),
    advised(
        "send_broadcast",
        Sends,
        "Look before: `read_broadcast` shows what is said, `read_segment` how many it goes to. Ask a person first.",
    ),
    entry("pause_broadcast", Changes),
    advised("resume_broadcast", Sends, "Mail leaves again at once."),
    entry("cancel_broadcast", Changes),
    entry("duplicate_broadcast", Adds),
    entry("delete_broadcast", Changes),
    entry("list_broadcast_recipients", Reads),
    entry("list_suppressions", Reads),
];
