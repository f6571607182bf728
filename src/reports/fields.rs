//! The fields of a report: groups of them, with empty lines between.

/// How many groups of a report are read, and how many fields of a group.
const MOST_GROUPS: usize = 100;
const MOST_FIELDS: usize = 100;

/// In characters, of what is kept of a value.
const LONGEST_VALUE: usize = 1000;

/// A group of fields, by their names in lower case.
#[derive(Debug, Default)]
pub struct Group(Vec<(String, String)>);

impl Group {
    /// The groups of a text that hold anything.
    pub fn read_all(text: &str) -> Vec<Group> {
        let (mut groups, mut group) = (Vec::new(), Group::default());
        for line in text.lines() {
            if line.trim().is_empty() {
                if !group.0.is_empty() {
                    groups.push(std::mem::take(&mut group));
                }
                if groups.len() == MOST_GROUPS {
                    break;
                }
                continue;
            }
            group.add(line);
        }
        groups.extend((!group.0.is_empty()).then_some(group));
        groups
    }

    fn add(&mut self, line: &str) {
        if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = self.0.last_mut() {
                push(value, line);
            }
            return;
        }
        if let Some((name, value)) = line.split_once(':')
            && self.0.len() < MOST_FIELDS
        {
            self.0.push((name.trim().to_ascii_lowercase(), kept(value)));
        }
    }

    /// The value of the first field of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(own, _)| own == name);
        found.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }

    /// The same, of one whose value has its type before it: `rfc822; ada@example.com`.
    pub fn typed(&self, name: &str) -> Option<&str> {
        let value = self.get(name)?;
        let value = value.split_once(';').map_or(value, |(_, value)| value).trim();
        Some(value).filter(|value| !value.is_empty())
    }

    /// The same, of an address, which may stand in angle brackets.
    pub fn address(&self, name: &str) -> Option<String> {
        let value = self.typed(name)?;
        let value = value.strip_prefix('<').and_then(|value| value.strip_suffix('>')).unwrap_or(value);
        Some(value.trim().to_owned()).filter(|value| value.contains('@'))
    }
}

/// What is kept of a value from elsewhere.
pub fn kept(text: &str) -> String {
    let mut value = String::new();
    push(&mut value, text);
    value
}

/// Adds what can be shown of a line, behind a space, as long as there is room.
fn push(value: &mut String, line: &str) {
    let room = LONGEST_VALUE.saturating_sub(value.chars().count());
    let line = line.trim().chars().map(|char| if char.is_control() { ' ' } else { char });
    let space = (!value.is_empty()).then_some(' ');
    value.extend(space.into_iter().chain(line).take(room));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_across_lines_and_groups() {
        let groups = Group::read_all(
            "A: x;\r\n y\r\n\tz\r\nnone\r\n\r\n\r\n b\r\n\r\nto: rfc822; <a@b>\r\nA: second\r\na: third\r\n",
        );
        assert_eq!(groups.len(), 2);
        assert_eq!((groups[0].get("a"), groups[0].typed("a")), (Some("x; y z"), Some("y z")));
        assert_eq!((groups[1].address("to").as_deref(), groups[1].get("a")), (Some("a@b"), Some("second")));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let long = format!("a: {}\n", "x".repeat(9000)) + &" y\n".repeat(9000) + &"b: c\n".repeat(9000);
        let groups = Group::read_all(&(long + &"\na: b\n".repeat(9000)));
        assert_eq!(groups.len(), MOST_GROUPS);
        assert!(groups[0].0.len() == MOST_FIELDS && groups[0].0[0].1.chars().count() <= LONGEST_VALUE);
    }
}
