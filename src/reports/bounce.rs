//! What a refusal means, be it said in a dialogue or in a report. One place decides who is written
//! to again.

use crate::text::words;

/// Whether there is hope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BounceKind {
    Permanent,
    Transient,
    Undetermined,
}

words!(BounceKind { Permanent = "Permanent", Transient = "Transient", Undetermined = "Undetermined" });

/// A refusal in the words that clients know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounce {
    pub kind: BounceKind,
    pub sub_type: &'static str,
    /// There is no such mailbox: nobody writes to it again.
    pub is_about_recipient: bool,
}

impl Bounce {
    /// What a class (the first digit of a reply) and a status (RFC 3463) mean. What policies and
    /// filters say (5.7.x) is about a mail or its sender, and so are 5.1.7 and 5.1.8.
    pub fn of(class: u16, status: Option<[u16; 3]>) -> Bounce {
        let kind = match class {
            5 => BounceKind::Permanent,
            4 => BounceKind::Transient,
            _ => BounceKind::Undetermined,
        };
        let sub_type = match status {
            Some([_, 2, 2]) => "MailboxFull",
            Some([_, 2, 3] | [_, 3, 4]) => "MessageTooLarge",
            Some([_, 6 | 7, _]) => "ContentRejected",
            _ => "General",
        };
        let is_about_recipient = match status {
            Some([5, 1, detail]) => !matches!(detail, 7 | 8),
            Some([5, 2, 1]) => true,
            _ => false,
        };
        Bounce { kind, sub_type, is_about_recipient }
    }
}

/// The first status in a text: three numbers with dots between them, of which the first is 2, 4 or 5.
pub fn status_in(text: &str) -> Option<[u16; 3]> {
    let is_part = |char: char| char.is_ascii_digit() || char == '.';
    text.split(|char| !is_part(char)).find_map(|word| {
        let numbers: Vec<u16> = word.split('.').map(number).collect::<Option<_>>()?;
        let status: [u16; 3] = numbers.try_into().ok()?;
        matches!(status[0], 2 | 4 | 5).then_some(status)
    })
}

fn number(part: &str) -> Option<u16> {
    (1..=3).contains(&part.len()).then(|| part.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_mailbox_that_is_not_there_is_never_written_to_again() {
        for (class, status, kind, sub_type, is_about_recipient) in [
            (5, Some([5, 1, 1]), BounceKind::Permanent, "General", true),
            (5, Some([5, 1, 10]), BounceKind::Permanent, "General", true),
            (5, Some([5, 2, 1]), BounceKind::Permanent, "General", true),
            (5, Some([5, 1, 8]), BounceKind::Permanent, "General", false),
            (5, Some([5, 7, 1]), BounceKind::Permanent, "ContentRejected", false),
            (5, Some([5, 2, 2]), BounceKind::Permanent, "MailboxFull", false),
            (5, Some([5, 3, 4]), BounceKind::Permanent, "MessageTooLarge", false),
            (5, None, BounceKind::Permanent, "General", false),
            (4, Some([4, 1, 1]), BounceKind::Transient, "General", false),
            (2, Some([2, 0, 0]), BounceKind::Undetermined, "General", false),
        ] {
            assert_eq!(Bounce::of(class, status), Bounce { kind, sub_type, is_about_recipient }, "{status:?}");
        }
    }

    #[test]
    fn a_status_is_found_in_what_servers_say() {
        for (text, status) in [
            ("550 5.1.1 no", Some([5, 1, 1])),
            ("550-5.1.1 no", Some([5, 1, 1])),
            ("550 #5.1.0 Address rejected (192.0.2.1)", Some([5, 1, 0])),
            ("at 192.0.2.1: 5.4.316; later", Some([5, 4, 316])),
            ("550 no such user", None),
            ("1.2.3 and 5.1 and 5.1.1.1 and 5.1.1000", None),
        ] {
            assert_eq!(status_in(text), status, "{text}");
        }
    }
}
