//! What the name of a line says.

use crate::id::DomainId;

/// Where recipients wait, as `emails::line` writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// The sender's domain, where it has a transport of its own.
    pub domain_id: Option<DomainId>,
    pub way: Way<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way<'a> {
    Capture,
    Test,
    Relay,
    /// To the servers of this domain.
    Direct(&'a str),
}

impl<'a> Line<'a> {
    pub fn read(line: &'a str) -> Option<Line<'a>> {
        let (domain_id, way) = match line.strip_prefix("domain:") {
            Some(rest) => {
                let (id, way) = rest.split_once(' ')?;
                (Some(id.parse().ok()?), way)
            }
            None => (None, line),
        };
        let way = match way {
            "capture" => Way::Capture,
            "test" => Way::Test,
            "relay" => Way::Relay,
            _ => Way::Direct(way.strip_prefix("direct ")?),
        };
        Some(Line { domain_id, way })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_by_which_way_its_mail_goes() {
        let id: DomainId = uuid::Uuid::nil().into();
        for (text, domain_id, way) in [
            ("capture", None, Way::Capture),
            ("test", None, Way::Test),
            ("relay", None, Way::Relay),
            ("direct example.com", None, Way::Direct("example.com")),
            ("domain:00000000-0000-0000-0000-000000000000 relay", Some(id), Way::Relay),
            ("domain:00000000-0000-0000-0000-000000000000 direct b.example", Some(id), Way::Direct("b.example")),
        ] {
            assert_eq!(Line::read(text), Some(Line { domain_id, way }), "{text}");
        }
        assert!(["", "direct", "domain:x relay", "pigeon"].iter().all(|text| Line::read(text).is_none()));
    }
}
