//! What relays report by HTTP of mail that they were given to pass on: Amazon SES, Mailgun and
//! Postmark, each in JSON of its own. Only what is read here is built; the rest is passed over.

mod mailgun;
mod postmark;
mod ses;

pub use mailgun::Posted as MailgunPost;
pub use postmark::read as read_postmark;
pub use ses::read as read_ses;

use super::bounce::status_in;
use super::fields::kept;
use super::{Action, Complaint, Delivery, Report};

/// The field of a mail that says which it is, where relays report by HTTP; and what relays call it
/// that hand back only what they were told in fields of their own.
pub const MARK_FIELD: &str = "X-Posthorn-Mail";
pub const MARK_NAME: &str = "posthorn";

/// How many recipients one report may be about.
const MOST: usize = 100;

/// What a relay reports of one recipient.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relayed {
    /// What may say which mail it is about: its return path, or what we wrote into it.
    pub marks: Vec<String>,
    pub recipient: Option<String>,
    pub report: Report,
}

/// What a relay says became of a mail.
struct Fate<'a> {
    action: Action,
    /// The first digit of its status, where the relay says whether there is hope.
    class: Option<u16>,
    /// What follows from the relay's own words, where no status is given.
    assumed: Option<[u16; 2]>,
    status: Option<&'a str>,
    diagnostic: Option<&'a str>,
    host: Option<&'a str>,
}

impl Fate<'_> {
    /// Of what the recipient's server said and what the relay made of it, the latter says whether
    /// there is hope.
    fn report(&self, recipient: Option<&str>) -> Report {
        let told = self.diagnostic.map(kept).filter(|told| !told.is_empty());
        let without_type = |told: String| match told.split_once(';') {
            Some((kind, said)) if kind.trim().eq_ignore_ascii_case("smtp") => said.trim().to_owned(),
            _ => told,
        };
        let diagnostic = told.map(without_type);
        let found = self.status.and_then(status_in).or_else(|| diagnostic.as_deref().and_then(status_in));
        let assumed = self.class.zip(self.assumed).map(|(class, [subject, detail])| [class, subject, detail]);
        let found = found.map(|[class, subject, detail]| [self.class.unwrap_or(class), subject, detail]);
        let vague = self.class.map(|class| [class, 0, 0]);
        Report::Delivery(Delivery {
            action: self.action,
            status: found.or(assumed).or(vague),
            recipient: recipient.map(kept),
            diagnostic,
            reporting_mta: self.host.map(kept).filter(|host| !host.is_empty()),
        })
    }
}

fn complaint(kind: Option<&str>, recipient: Option<&str>, user_agent: Option<&str>) -> Report {
    let kind = kind.map(kept).filter(|kind| !kind.is_empty());
    Report::Complaint(Complaint {
        feedback_type: kind.map_or_else(|| "abuse".to_owned(), |kind| kind.to_ascii_lowercase()),
        recipient: recipient.map(kept),
        user_agent: user_agent.map(kept).filter(|agent| !agent.is_empty()),
        return_path: None,
    })
}

/// The marks that are there, as far as one could be ours.
fn marks<'a>(given: impl IntoIterator<Item = Option<&'a str>>) -> Vec<String> {
    given.into_iter().flatten().map(kept).filter(|mark| !mark.is_empty()).take(MOST).collect()
}

/// A text that says anything.
fn filled(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.trim().is_empty())
}

/// Whether a report says that its recipient is written to no more, for tests.
#[cfg(test)]
fn ends(report: &Report) -> (Action, Option<[u16; 3]>, bool) {
    let Report::Delivery(delivery) = report else { panic!("{report:?}") };
    (delivery.action, delivery.status, delivery.bounce().is_about_recipient)
}
