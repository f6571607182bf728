//! Where an address that was given leaves the registered one that was meant.

use super::without_port;

/// The first place at which two addresses differ.
#[derive(Debug, PartialEq, Eq)]
pub struct Difference<'a> {
    /// The registered one.
    pub nearest: &'a str,
    /// How many characters of the one that was given stand before it.
    pub at: usize,
    /// What stands there; `None` where the address has ended.
    pub expected: Option<char>,
    pub given: Option<char>,
}

impl<'a> Difference<'a> {
    /// From the registered address that has most in common with the given one, at both ends.
    pub fn from_nearest(registered: &'a [String], given: &str) -> Option<Difference<'a>> {
        let near = |one: &&String| std::cmp::Reverse(in_common(one, given));
        registered.iter().min_by_key(near).map(|nearest| Difference::between(nearest, given))
    }

    /// The port of a loopback host counts for nothing.
    fn between(registered: &'a str, given: &str) -> Difference<'a> {
        let (expected, sent) = match (without_port(registered), without_port(given)) {
            (Some((origin, expected)), Some((sent_origin, sent))) if origin == sent_origin => (expected, sent),
            _ => (registered, given),
        };
        let same = same(expected.chars(), sent.chars());
        // What may be left out in front is ASCII.
        let at = given.len() - sent.len() + same;
        Difference { nearest: registered, at, expected: expected.chars().nth(same), given: sent.chars().nth(same) }
    }
}

fn same(one: impl Iterator<Item = char>, other: impl Iterator<Item = char>) -> usize {
    one.zip(other).take_while(|(one, other)| one == other).count()
}

/// How many characters at the beginning and at the end are the same.
fn in_common(registered: &str, given: &str) -> usize {
    same(registered.chars(), given.chars()) + same(registered.chars().rev(), given.chars().rev())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(registered: &[&str], given: &str) -> (String, usize, Option<char>, Option<char>) {
        let registered: Vec<String> = registered.iter().map(|one| (*one).to_owned()).collect();
        let found = Difference::from_nearest(&registered, given).expect("a difference");
        (found.nearest.to_owned(), found.at, found.expected, found.given)
    }

    #[test]
    fn the_first_character_that_differs_is_found() {
        let registered = "https://app.example/callback";
        for (given, at, expected, sent) in [
            ("https://app.example/Callback", 20, Some('c'), Some('C')),
            ("https://app.example/callback/", 28, None, Some('/')),
            ("https://app.example/call", 24, Some('b'), None),
            ("http://app.example/callback", 4, Some('s'), Some(':')),
            ("https://ä.example/callback", 8, Some('a'), Some('ä')),
            ("", 0, Some('h'), None),
        ] {
            assert_eq!(difference(&[registered], given), (registered.into(), at, expected, sent), "{given}");
        }
        assert_eq!(Difference::from_nearest(&[], "https://app.example/"), None);
    }

    #[test]
    fn the_port_of_a_loopback_host_is_no_difference() {
        let (_, at, expected, given) = difference(&["http://127.0.0.1/cb"], "http://127.0.0.1:33418/cx");
        assert_eq!((at, expected, given), ("http://127.0.0.1:33418/c".len(), Some('b'), Some('x')));
        let (_, at, expected, given) = difference(&["http://127.0.0.1:1/cb"], "http://127.0.0.1/cb/");
        assert_eq!((at, expected, given), ("http://127.0.0.1/cb".len(), None, Some('/')));
        let (_, at, ..) = difference(&["http://127.0.0.1/cb"], "http://localhost:1/cb");
        assert_eq!(at, "http://".len());
    }

    #[test]
    fn the_nearest_has_most_in_common_at_both_ends() {
        let registered = ["https://other.example/a", "https://app.example/b", "https://app.example/a"];
        assert_eq!(difference(&registered, "http://app.example/b").0, registered[1]);
        assert_eq!(difference(&registered, "https://app.example/a/").0, registered[2]);
    }
}
