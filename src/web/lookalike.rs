//! Names that are probably misspellings of others.

/// Names that people bring from elsewhere, and what they are here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("data", "payload"),
    ("body", "html"),
    ("recipient", "to"),
    ("sender", "from"),
    ("page", "after"),
    ("offset", "after"),
    ("cursor", "after"),
    ("per_page", "limit"),
    ("page_size", "limit"),
    ("size", "limit"),
];

/// Whether a name that was sent is probably meant to be the one that is wanted.
pub fn is_like(sent: &str, wanted: &str) -> bool {
    if ELSEWHERE.contains(&(sent, wanted)) {
        return true;
    }
    // Cut off, so that a long name cannot make the comparison slow.
    let plain = |text: &str| text.chars().take(64).collect::<String>().to_lowercase().replace(['_', '-', ' '], "");
    let (sent, wanted) = (plain(sent), plain(wanted));
    let is_part = sent.len() >= 4 && wanted.ends_with(&sent);
    is_part || (sent.len() >= 3 && strsim::osa_distance(&sent, &wanted) <= wanted.len() / 4 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issue_15_misspellings_and_names_from_elsewhere_are_recognised() {
        for (sent, wanted) in
            [("payLoad", "payload"), ("pay_load", "payload"), ("data", "payload"), ("page", "after"), ("naem", "name")]
        {
            assert!(is_like(sent, wanted), "{sent}");
        }
        for (sent, wanted) in [("x", "payload"), ("metadata", "payload"), ("to", "from"), ("data", "name")] {
            assert!(!is_like(sent, wanted), "{sent}");
        }
    }
}
