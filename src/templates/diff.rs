//! What differs between two texts, line by line.

/// How many lines around a change are shown.
const CONTEXT: usize = 3;

/// Above so many comparisons, what differs is shown as replaced whole.
const MOST_COMPARISONS: usize = 4 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Line<'a> {
    Same(&'a str),
    Removed(&'a str),
    Added(&'a str),
}

/// The lines that differ, each behind `-` or `+`, with those around them behind a space. Between
/// places that lie apart stands `@@`. Empty where nothing differs.
pub fn line_diff(before: &str, after: &str) -> String {
    let lines = compared(&before.lines().collect::<Vec<_>>(), &after.lines().collect::<Vec<_>>());
    let is_change = |line: &Line<'_>| !matches!(line, Line::Same(_));
    let changes: Vec<usize> = (0..lines.len()).filter(|at| is_change(&lines[*at])).collect();
    let is_near = |at: usize| {
        let next = changes.partition_point(|change| *change + CONTEXT < at);
        changes.get(next).is_some_and(|change| *change <= at + CONTEXT)
    };
    let (mut shown, mut was_near) = (String::new(), true);
    for (at, line) in lines.iter().enumerate() {
        if !is_near(at) {
            was_near = false;
            continue;
        }
        if !was_near && !shown.is_empty() {
            shown.push_str("@@\n");
        }
        was_near = true;
        let (sign, text) = match line {
            Line::Same(text) => (' ', text),
            Line::Removed(text) => ('-', text),
            Line::Added(text) => ('+', text),
        };
        shown.push(sign);
        shown.push_str(text);
        shown.push('\n');
    }
    shown
}

fn compared<'a>(before: &[&'a str], after: &[&'a str]) -> Vec<Line<'a>> {
    let head = before.iter().zip(after).take_while(|(one, other)| one == other).count();
    let (old, new) = (&before[head..], &after[head..]);
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(one, other)| one == other).count();
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
    let mut lines: Vec<Line<'_>> = before[..head].iter().map(|line| Line::Same(line)).collect();
    lines.extend(changed(old, new));
    lines.extend(before[before.len() - tail..].iter().map(|line| Line::Same(line)));
    lines
}

/// By the longest common part of both.
fn changed<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let width = new.len() + 1;
    if old.len().saturating_mul(width) > MOST_COMPARISONS {
        let removed = old.iter().map(|line| Line::Removed(line));
        return removed.chain(new.iter().map(|line| Line::Added(line))).collect();
    }
    // How long the common part of what follows both places is.
    let mut common = vec![0u32; (old.len() + 1) * width];
    for one in (0..old.len()).rev() {
        for other in (0..new.len()).rev() {
            common[one * width + other] = match old[one] == new[other] {
                true => common[(one + 1) * width + other + 1] + 1,
                false => common[(one + 1) * width + other].max(common[one * width + other + 1]),
            };
        }
    }
    let (mut one, mut other, mut lines) = (0, 0, Vec::new());
    while one < old.len() || other < new.len() {
        if one < old.len() && other < new.len() && old[one] == new[other] {
            lines.push(Line::Same(old[one]));
            (one, other) = (one + 1, other + 1);
        } else if other == new.len()
            || one < old.len() && common[(one + 1) * width + other] >= common[one * width + other + 1]
        {
            lines.push(Line::Removed(old[one]));
            one += 1;
        } else {
            lines.push(Line::Added(new[other]));
            other += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn lines_that_differ_are_shown_with_those_around_them() {
        assert_eq!(line_diff("a\nb", "a\nb\n"), "");
        assert_eq!(line_diff("a\nb\nc", "a\nx\nc"), " a\n-b\n+x\n c\n");
        let long: Vec<String> = (0..20).map(|number| number.to_string()).collect();
        let mut changed = long.clone();
        changed[1] = "one".into();
        changed[18] = "eighteen".into();
        let expected = " 0\n-1\n+one\n 2\n 3\n 4\n@@\n 15\n 16\n 17\n-18\n+eighteen\n 19\n";
        assert_eq!(line_diff(&long.join("\n"), &changed.join("\n")), expected);
    }

    proptest! {
        #[test]
        fn property_both_texts_can_be_read_out_of_the_lines(old in "[abc\n]{0,40}", new in "[abc\n]{0,40}") {
            let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
            let lines = compared(&old, &new);
            let of = |wanted: fn(&Line<'_>) -> bool| {
                let kept = lines.iter().filter(|line| wanted(line));
                kept.map(|line| match line { Line::Same(text) | Line::Removed(text) | Line::Added(text) => *text }).collect::<Vec<_>>()
            };
            prop_assert_eq!(of(|line| !matches!(line, Line::Added(_))), old);
            prop_assert_eq!(of(|line| !matches!(line, Line::Removed(_))), new);
        }
    }
}
