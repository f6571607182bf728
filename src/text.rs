//! Words for messages: what a value is, and what of a text can be shown.

use serde_json::Value;

/// What a JSON value is, in words.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Whether a text has more characters than it may. Most have not even as many
/// bytes, and need not be counted.
pub fn is_longer(text: &str, most: usize) -> bool {
    text.len() > most && text.chars().nth(most).is_some()
}

/// A caller's own word, short enough to be shown in a message.
pub fn shown(text: &str) -> String {
    let mut short: String =
        text.chars().take(60).map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect();
    if is_longer(text, 60) {
        short.push('…');
    }
    short
}

/// The same behind "but is".
pub fn quoted(text: &str) -> String {
    if text.is_empty() { "empty".into() } else { format!("`{}`", shown(text)) }
}

/// A text as a pattern of `LIKE` that fits it alone, where this character is the one to `ESCAPE` by.
pub fn like(text: &str, escape: char) -> String {
    let mut pattern = String::with_capacity(text.len());
    for char in text.chars() {
        if char == escape || matches!(char, '%' | '_') {
            pattern.push(escape);
        }
        pattern.push(char);
    }
    pattern
}

/// A number as people read it.
pub fn grouped(number: i64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) && !shown.ends_with('-') {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// One line of at most so many characters, not all of them spaces.
pub fn is_one_line(text: &str, most: usize) -> bool {
    !is_longer(text, most) && !text.chars().any(char::is_control) && !text.trim().is_empty()
}

/// What people call a thing: one line, and not only spaces; kept as it was given.
macro_rules! one_line {
    ($(#[$doc:meta])* $name:ident of $most:tt, such as $example:tt) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize, utoipa::ToSchema)]
        #[serde(try_from = "String")]
        #[schema(
            min_length = 1,
            max_length = $most,
            pattern = "^[^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f][^\\x00-\\x1f\\x7f-\\x9f]*$",
            example = $example
        )]
        pub struct $name(String);

        $crate::text::checked_text!(
            $name(name) if $crate::text::is_one_line(name, $most),
            else concat!("must be one line of 1 to ", $most, " characters, not all of them spaces")
        );
    };
}
pub(crate) use one_line;

/// A text of its own type, which holds only what fits: `else` says what does.
macro_rules! checked_text {
    ($name:ident($text:ident) if $fits:expr, else $rule:expr) => {
        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(given: String) -> Result<$name, String> {
                let $text = given.as_str();
                if $fits { Ok($name(given)) } else { Err($rule.into()) }
            }
        }

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
    };
}
pub(crate) use checked_text;

/// The word that each variant of an enum is written as, for those who read and
/// write it; `ALL` lists the variants, `parse` finds one by its word. The enum may
/// stand elsewhere, or be declared with its words.
macro_rules! words {
    (
        $(#[$about:meta])* $vis:vis enum $name:ident $(: $($made:ident),+)? {
            $($(#[$doc:meta])* $variant:ident = $word:literal),+ $(,)?
        }
    ) => {
        $(#[$about])*
        $vis enum $name {
            $($(#[$doc])* $variant),+
        }

        $crate::text::words!($name $(: $($made),+)? { $($variant = $word),+ });
    };
    ($name:ident: ALL, parse { $($words:tt)+ }) => {
        $crate::text::words!($name: ALL { $($words)+ });

        impl $name {
            pub fn parse(text: &str) -> Option<$name> {
                $name::ALL.into_iter().find(|one| one.as_str() == text)
            }
        }
    };
    ($name:ident: ALL { $($variant:ident = $word:literal),+ $(,)? }) => {
        $crate::text::words!($name { $($variant = $word),+ });

        impl $name {
            pub const ALL: [$name; [$($word),+].len()] = [$($name::$variant),+];
        }
    };
    ($name:ident { $($variant:ident = $word:literal),+ $(,)? }) => {
        impl $name {
            pub fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use words;

/// A set of the variants of such an enum. It prints as their words in the order of
/// `ALL`, separated by spaces.
macro_rules! word_set {
    ($(#[$doc:meta])* $name:ident of $one:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $name(u8);

        impl $name {
            pub fn all() -> $name {
                $one::ALL.into_iter().collect()
            }

            pub fn contains(self, one: $one) -> bool {
                self.0 & (1 << one as u8) != 0
            }

            pub fn iter(self) -> impl Iterator<Item = $one> {
                $one::ALL.into_iter().filter(move |one| self.contains(*one))
            }
        }

        impl FromIterator<$one> for $name {
            fn from_iter<I: IntoIterator<Item = $one>>(all: I) -> $name {
                $name(all.into_iter().fold(0, |bits, one| bits | (1 << one as u8)))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.iter().enumerate().try_for_each(|(at, one)| {
                    f.write_str(if at > 0 { " " } else { "" })?;
                    f.write_str(one.as_str())
                })
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }
    };
}
pub(crate) use word_set;

#[cfg(test)]
mod tests {
    use super::{grouped, like};

    #[test]
    fn numbers_are_grouped_by_thousands() {
        let all = [0, 7, 999, 1_000, 12_345, 1_234_567, -1_000].map(grouped);
        assert_eq!(all, ["0", "7", "999", "1,000", "12,345", "1,234,567", "-1,000"]);
    }

    #[test]
    fn a_pattern_fits_its_text_alone() {
        assert_eq!(like("5% of a_b! é", '!'), "5!% of a!_b!! é");
        assert_eq!(like(r"a_b\c!", '\\'), r"a\_b\\c!");
        assert_eq!(like("plain", '!'), "plain");
    }
}
