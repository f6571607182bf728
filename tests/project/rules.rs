//! Whatever rule a test or a comment cites stands in `docs/rules.md`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// How the names of tests begin that cite a rule, before its number.
const SOURCES: &[&str] = &["spec", "decisions", "architecture", "reliability", "issue"];

#[test]
fn every_rule_that_is_cited_is_written_down() {
    let root = crate::root();
    let known = written_down(&fs::read_to_string(root.join("docs/rules.md")).expect("the index of rules"));
    let mut unknown = Vec::new();
    let mut count = 0;
    for folder in ["src", "tests", "bench", "fuzz/fuzz_targets"] {
        for file in files(&root.join(folder)) {
            let text = fs::read_to_string(&file).expect("a readable file");
            for (line, rule) in
                text.lines().enumerate().flat_map(|(i, line)| cited(line).map(move |rule| (i + 1, rule)))
            {
                count += 1;
                if !known.contains(&rule) {
                    unknown.push(format!("{}:{line}: {rule}", file.strip_prefix(&root).expect("below").display()));
                }
            }
        }
    }
    assert!(unknown.is_empty(), "not in docs/rules.md:\n{}", unknown.join("\n"));
    assert!(count > 200, "only {count} citations were recognised");
}

#[test]
fn the_index_is_read() {
    let index = "| Rule | What |\n|---|---|\n| `spec_8` | `state` |\n| `case_9` to `case_11` | more |\n\nNot `spec_1`.";
    assert_eq!(Vec::from_iter(written_down(index)), ["case_10", "case_11", "case_9", "spec_8"]);
}

#[test]
fn a_citation_is_recognised() {
    let found = |line: &str| cited(line).collect::<Vec<_>>();
    assert_eq!(found("    async fn spec_7_1_unknown_client_is_400_json(app: TestApp) {"), ["spec_7_1"]);
    assert_eq!(found("fn f27_a_storm() {"), ["f27"]);
    assert_eq!(found("fn decisions_99_nothing() {"), ["decisions_99"]);
    assert_eq!(found("fn reliability_1_and_3_hold() {"), ["reliability_1"]);
    assert_eq!(
        found("//! `POST /events`: spec 2.1, issue 10 B5; decisions §2."),
        ["spec_2_1", "issue_10", "decisions_2"]
    );
    assert!(found("fn fair(spec: &Spec) { inspect 4 }").is_empty());
    assert_eq!(found("fn cases_242_and_243_the_user_may_narrow() {"), ["case_242", "case_243"]);
    assert!(found("fn rfc_9068_forged_tokens_are_refused() {").is_empty());
    assert!(found("let spec_5 = 3; // the spec says so").is_empty());
}

/// The rules of the index: what stands in backquotes in the first cell of a
/// row, one rule or `first` to `last`.
fn written_down(index: &str) -> BTreeSet<String> {
    let mut rules = BTreeSet::new();
    for cell in index.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |")).map(|(cell, _)| cell) {
        match cell.split_once("` to `") {
            None => drop(rules.insert(cell.to_owned())),
            Some((first, last)) => {
                let (source, from) = first.rsplit_once('_').expect("a rule has a number");
                let to =
                    last.strip_prefix(source).and_then(|number| number.strip_prefix('_')).expect("the same source");
                let number = |text: &str| text.parse::<u16>().expect("a number");
                rules.extend((number(from)..=number(to)).map(|n| format!("{source}_{n}")));
            }
        }
    }
    rules
}

/// The rules that a line cites: in the name of a function, or in prose.
fn cited(line: &str) -> impl Iterator<Item = String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let mut rules = Vec::new();
    for pair in words.windows(2) {
        let source = pair[0].trim_start_matches(['(', '`']).to_lowercase();
        if pair[0] == "fn" {
            rules.extend(rules_of_name(pair[1]));
        } else if SOURCES.contains(&source.as_str()) {
            let number = pair[1].trim_start_matches('§');
            let end = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
            let number = number[..end].trim_end_matches('.');
            if !number.is_empty() {
                rules.push(format!("{source}_{}", number.replace('.', "_")));
            }
        }
    }
    rules.into_iter()
}

/// `spec_7_1_unknown_client` cites `spec_7_1`, `f27_a_storm` cites `f27`, and
/// `cases_242_and_243_the_user` cites two.
fn rules_of_name(name: &str) -> Vec<String> {
    let mut parts = name.split('_');
    let source = parts.next().unwrap_or_default();
    if source.strip_prefix('f').is_some_and(is_number) {
        return vec![source.to_owned()];
    }
    if source == "case" || source == "cases" {
        let numbers = parts.take_while(|part| is_number(part) || matches!(*part, "to" | "and"));
        return numbers.filter(|part| is_number(part)).map(|number| format!("case_{number}")).collect();
    }
    let numbers: Vec<&str> = parts.take_while(|part| is_number(part)).collect();
    if !SOURCES.contains(&source) || numbers.is_empty() {
        return Vec::new();
    }
    vec![format!("{source}_{}", numbers.join("_"))]
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The Rust and Python below a folder, in no order; other people's packages are left out.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            if !path.ends_with("node_modules") && !path.ends_with("tests/project") {
                found.extend(files(&path));
            }
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "py") {
            found.push(path);
        }
    }
    found
}
