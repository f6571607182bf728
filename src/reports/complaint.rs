//! What a reader thinks of a mail, told by who keeps the mailbox (ARF, RFC 5965).

use super::fields::Group;

/// Kinds by which somebody complains, or wants no more. The others are about signatures, or say
/// that a filter was wrong.
const COMPLAINTS: [&str; 5] = ["abuse", "fraud", "virus", "opt-out", "opt-out-list"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// In lower case.
    pub feedback_type: String,
    /// Who complains, where that is told.
    pub recipient: Option<String>,
    /// What made the report.
    pub user_agent: Option<String>,
    /// Where bounces of the mail would have gone, where that is told.
    pub return_path: Option<String>,
}

impl Complaint {
    /// Reads the machine's part of a report.
    pub fn read(text: &str) -> Option<Complaint> {
        let groups = Group::read_all(text);
        let group = groups.first()?;
        Some(Complaint {
            feedback_type: group.get("feedback-type")?.to_ascii_lowercase(),
            recipient: group.address("original-rcpt-to"),
            user_agent: group.get("user-agent").map(str::to_owned),
            return_path: group.address("original-mail-from"),
        })
    }

    /// The same, with what the head of the mail says that it is about.
    pub fn with_mail(self, head: &str) -> Complaint {
        let written = || Group::read_all(head).first().and_then(|group| group.address("return-path"));
        Complaint { return_path: self.return_path.clone().or_else(written), ..self }
    }

    pub fn is_complaint(&self) -> bool {
        COMPLAINTS.contains(&self.feedback_type.as_str())
    }
}
