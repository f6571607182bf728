//! What a mail server says became of a mail (RFC 3464).

use super::bounce::{Bounce, status_in};
use super::fields::{Group, kept};

/// What the server did, in the order in which it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// It was handed on to somebody who tells no more.
    Relayed,
    Delivered,
    Delayed,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub action: Action,
    pub status: Option<[u16; 3]>,
    /// Who did not get it, or did: perhaps not whom it was sent to, since mail is passed on.
    pub recipient: Option<String>,
    /// What the server said that decided it.
    pub diagnostic: Option<String>,
    pub reporting_mta: Option<String>,
}

impl Delivery {
    /// Reads the machine's part of a report: fields about the mail, and then groups of fields, one
    /// for each recipient. Of several recipients, the one that fared worst.
    pub fn read(text: &str) -> Option<Delivery> {
        let groups = Group::read_all(text);
        let reporting_mta = groups.iter().find_map(|group| group.typed("reporting-mta"));
        let found = groups.iter().filter_map(|group| Delivery::of(group, reporting_mta));
        found.max_by_key(|delivery| delivery.action)
    }

    fn of(group: &Group, reporting_mta: Option<&str>) -> Option<Delivery> {
        let action = group.get("action")?;
        let action = match action.split(|char: char| !char.is_ascii_alphabetic()).next()?.to_ascii_lowercase().as_str()
        {
            "failed" => Action::Failed,
            "delayed" => Action::Delayed,
            // What is expanded was delivered to the address that it was sent to, and from there went to several.
            "delivered" | "expanded" => Action::Delivered,
            "relayed" => Action::Relayed,
            _ => return None,
        };
        let diagnostic = group.typed("diagnostic-code");
        let status = exact(group.get("status").and_then(status_in), diagnostic);
        let address = |name: &str| group.address(name);
        Some(Delivery {
            action,
            status,
            recipient: address("original-recipient").or_else(|| address("final-recipient")),
            diagnostic: diagnostic.map(str::to_owned),
            reporting_mta: reporting_mta.map(str::to_owned),
        })
    }

    /// As it is, or with what the server said by the words that it wrote for people: a line of theirs begins with the
    /// recipient, where nothing else says why.
    pub fn with_notice(mut self, notice: &str) -> Delivery {
        if let (None, Some(recipient)) = (&self.diagnostic, &self.recipient) {
            let said = |line: &str| line.trim().strip_prefix(recipient.as_str())?.strip_prefix(": ").map(kept);
            self.diagnostic = notice.lines().find_map(said);
            self.status = exact(self.status, self.diagnostic.as_deref());
        }
        self
    }

    /// What it means, where it failed. A report of a failure that names no class is about one that
    /// is for good: the server has given up.
    pub fn bounce(&self) -> Bounce {
        Bounce::of(self.status.map_or(5, |status| status[0]), self.status)
    }

    /// As people are shown it.
    pub fn told(&self) -> String {
        let status = self.status.filter(|status| status[0] > 0);
        let status = status.map(|[class, subject, detail]| format!("{class}.{subject}.{detail}"));
        let told = self.diagnostic.clone().or(status);
        told.unwrap_or_else(|| "the server did not say why".into())
    }
}

/// Some servers say no more than the class in the status, and the rest in words.
fn exact(given: Option<[u16; 3]>, diagnostic: Option<&str>) -> Option<[u16; 3]> {
    match given {
        Some([class, 0, 0]) => diagnostic.and_then(status_in).filter(|status| status[0] == class).or(given),
        Some(_) => given,
        None => diagnostic.and_then(status_in),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_recipients_the_one_that_fared_worst_counts() {
        let text = "Reporting-MTA: dns; mx\n\nFinal-Recipient: rfc822; a@b.example\nAction: delivered\nStatus: 2.0.0\n\n\
            Final-Recipient: rfc822; c@d.example\nAction: FAILED (for good)\nStatus: 5.0.0\n\n\
            Final-Recipient: rfc822; e@f.example\nAction: delayed\nStatus: 4.0.0\n";
        let found = Delivery::read(text).expect("a report");
        assert_eq!((found.action, found.recipient.as_deref()), (Action::Failed, Some("c@d.example")));
        assert_eq!((found.status, found.told().as_str()), (Some([5, 0, 0]), "5.0.0"));
    }

    #[test]
    fn what_was_expanded_was_delivered_and_what_was_relayed_may_be() {
        for (word, action) in
            [("expanded", Action::Delivered), ("Delivered", Action::Delivered), ("relayed", Action::Relayed)]
        {
            let found = Delivery::read(&format!("Action: {word}\nStatus: 2.0.0\n")).expect("a report");
            assert_eq!(found.action, action, "{word}");
        }
    }

    #[test]
    fn what_names_no_action_reports_nothing() {
        for text in ["", "Reporting-MTA: dns; mx\n", "Status: 5.1.1\n", "Action: pondered\n"] {
            assert_eq!(Delivery::read(text), None, "{text}");
        }
    }
}
