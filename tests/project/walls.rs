//! The walls of the house, read from the imports: which folder of `src` leads to
//! which, and within one which of its rooms, by `use` and by paths in the code.
//! Tests are free to look anywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::{env, fs};

use crate::imports::{Reading, Reference, module_of, rust_files};

/// From the ground up. An arrow points down or stays on its floor.
const FLOORS: &[&[&str]] = &[
    &["clock", "csv", "id", "memory", "mime", "render", "reports", "rules", "secret", "text", "tls", "windows"],
    &["db"],
    &["calls", "config", "dns", "error", "hold", "http_client", "log", "seal", "smtp", "work"],
    &["audit", "credentials", "grants", "limits"],
    &["app"],
    &["auth", "smtp_server", "web"],
    &[
        "accounts",
        "api_keys",
        "automations",
        "broadcasts",
        "contacts",
        "delivery",
        "docs",
        "domains",
        "email_metrics",
        "emails",
        "events",
        "forms",
        "home",
        "inbound",
        "mcp",
        "oauth",
        "occurrences",
        "receiving",
        "relay_reports",
        "request_log",
        "segments",
        "submission",
        "subscriptions",
        "suppressions",
        "templates",
        "topics",
        "tracking",
        "upkeep",
        "usage",
        "webhooks",
        "workspaces",
    ],
    &["product"],
    &["serve"],
    &["cli"],
];

/// What only declares (`lib`), only starts (`main`) or only serves tests.
const OUTSIDE: &[&str] = &["lib", "main", "testing"];

#[test]
fn no_folder_leads_back_to_itself() {
    fail_with(&cycles(&House::read().arrows()));
}

#[test]
fn no_room_leads_back_to_itself() {
    fail_with(&cycles(&House::read().arrows_between_rooms()));
}

#[test]
fn others_come_in_by_the_front_door() {
    fail_with(&House::read().deep_imports());
}

/// What the run machine is made of; it knows neither HTTP nor SQL.
const RUN_MACHINE: &[&str] = &["graph", "picture", "run"];

#[test]
fn the_run_machine_knows_neither_web_nor_db() {
    let house = House::read();
    let is_of_it = |from: &[String]| {
        from[0] == "automations" && from.get(1).is_some_and(|room| RUN_MACHINE.contains(&room.as_str()))
    };
    let leaving = house.references.iter().filter(|reference| is_of_it(&reference.from));
    let (mut count, mut wrong) = (0, Vec::new());
    for reference in leaving {
        count += 1;
        wrong.extend(["auth", "db", "web"].contains(&reference.to[0].as_str()).then(|| reference.told()));
    }
    assert!(count > 20, "only {count} references of the run machine were found");
    fail_with(&wrong);
}

#[test]
fn arrows_point_down() {
    fail_with(&upward(&House::read()));
}

fn fail_with(violations: &[String]) {
    assert!(violations.is_empty(), "{} violations:\n{}", violations.len(), violations.join("\n"));
}

#[test]
fn a_wall_that_is_broken_is_found() {
    let house = House::of(&[
        file("src/lib.rs", "pub mod a; mod b; mod c; #[cfg(test)] mod testing;"),
        file("src/a/mod.rs", "pub mod inner; mod shut; use crate::{b, c::C as D}; fn f() { b::deep::g(); D::new() }"),
        file("src/a/inner.rs", "use super::super::c::{self, E}; /* crate::no */ const S: &str = r#\"crate::no\"#;"),
        file(
            "src/b/mod.rs",
            "pub(crate) mod deep; // crate::a\n fn f(c: char) -> bool { c == '\"' } use crate::a::shut;",
        ),
        file("src/b/deep.rs", "#[cfg(test)] mod tests { use crate::c::C; } fn f() -> crate::a::inner::T {}"),
        file("src/c.rs", "#[cfg(test)] #[path = \"c_tests.rs\"] mod c_tests; fn f<'a>(x: &'a str) { self::g() }"),
        file("src/c_tests.rs", "use crate::a;"),
    ]);
    let arrows: Vec<_> = house.arrows().into_keys().map(|(from, to)| format!("{from}{to}")).collect();
    assert_eq!(arrows, ["ab", "ac", "ba"]);
    let deep = house.deep_imports();
    assert_eq!(
        deep,
        [
            "crate::a::inner (1 times: T)  src/b/deep.rs:1: crate::a::inner::T",
            "crate::b::deep (1 times: g)  src/a/mod.rs:1: crate::b::deep::g",
        ]
    );
    let circle = cycles(&house.arrows());
    assert_eq!(circle.len(), 2, "{circle:?}");
    assert!(circle[1].starts_with("b -> a (2 times)  src/b/mod.rs:2"), "{circle:?}");
}

#[test]
fn a_wall_between_rooms_that_is_broken_is_found() {
    let house = House::of(&[
        file("src/lib.rs", "mod a;"),
        file("src/a/mod.rs", "mod flat; mod one; mod two; use one::deep::D;"),
        file("src/a/flat.rs", "use super::one::One; use crate::a::two::Two;"),
        file("src/a/one/mod.rs", "pub mod deep; use crate::a::two::Two; use crate::a::flat;"),
        file("src/a/one/deep.rs", "use super::One;"),
        file("src/a/two/mod.rs", "mod shut; pub use shut::Two;"),
        file("src/a/two/shut.rs", "fn f() { crate::a::one::g() }"),
    ]);
    assert!(house.arrows().is_empty());
    let arrows: Vec<_> = house.arrows_between_rooms().into_keys().map(|(from, to)| format!("{from} {to}")).collect();
    assert_eq!(arrows, ["a::one a::two", "a::two a::one"]);
    assert_eq!(cycles(&house.arrows_between_rooms()).len(), 2);
    assert_eq!(house.deep_imports(), ["crate::a::one::deep (1 times: D)  src/a/mod.rs:1: crate::a::one::deep::D"]);
}

fn file(name: &str, text: &str) -> (Vec<String>, String, String) {
    (module_of(name), name.to_owned(), text.to_owned())
}

// ---- what is wrong with a house ---------------------------------------------

struct House {
    /// Every module that is not a test's, and whether others can see it.
    modules: BTreeMap<Vec<String>, bool>,
    references: Vec<Reference>,
}

type Arrows = BTreeMap<(String, String), Vec<String>>;

impl House {
    fn read() -> House {
        let root = crate::root();
        let mut files = Vec::new();
        rust_files(&root.join("src"), &mut files);
        let texts: Vec<_> = files
            .iter()
            .map(|file| {
                let name = file.strip_prefix(&root).expect("below the root").display().to_string();
                (module_of(&name), name, fs::read_to_string(file).expect("a readable file"))
            })
            .collect();
        House::of(&texts)
    }

    /// From modules with the name and the text of their files.
    fn of(files: &[(Vec<String>, String, String)]) -> House {
        let mut readings = Vec::new();
        let mut hidden = Vec::new();
        let mut modules = BTreeMap::new();
        for (module, name, text) in files {
            let reading = Reading::of(module, name, text);
            hidden.extend(reading.test_modules.iter().cloned());
            modules.extend(reading.modules.iter().cloned());
            readings.push((module, reading));
        }
        let is_hidden = |module: &[String]| {
            hidden.iter().any(|test| module.starts_with(test))
                || module.first().is_none_or(|top| OUTSIDE.contains(&top.as_str()))
                || module.last().is_some_and(|name| name.ends_with("_tests"))
        };
        modules.retain(|module, _| !is_hidden(module));
        let references = readings
            .into_iter()
            .filter(|(module, _)| !is_hidden(module))
            .flat_map(|(_, reading)| reading.references)
            .filter(|reference| reference.to.first().is_some_and(|top| modules.contains_key(std::slice::from_ref(top))))
            .collect();
        House { modules, references }
    }

    /// What stands directly below `src`.
    fn tops(&self) -> impl Iterator<Item = &str> {
        self.modules.keys().filter(|module| module.len() == 1).map(|module| module[0].as_str())
    }

    fn arrows(&self) -> Arrows {
        let mut arrows = Arrows::new();
        for reference in &self.references {
            let (from, to) = (&reference.from[0], &reference.to[0]);
            if from != to {
                arrows.entry((from.clone(), to.clone())).or_default().push(reference.told());
            }
        }
        arrows
    }

    /// As `arrows`, between the folders within a folder. Files beside them are part of the whole.
    fn arrows_between_rooms(&self) -> Arrows {
        let is_room = |room: &[String]| self.modules.keys().any(|module| module.len() > 2 && module.starts_with(room));
        let mut arrows = Arrows::new();
        for reference in self.references.iter().filter(|reference| reference.from[0] == reference.to[0]) {
            let (Some(from), Some(to)) = (reference.from.get(..2), reference.to.get(..2)) else { continue };
            if from != to && is_room(from) && is_room(to) {
                arrows.entry((from.join("::"), to.join("::"))).or_default().push(reference.told());
            }
        }
        arrows
    }

    /// What is named from outside of the folder that it stands in, past that folder's
    /// front door, with what is wanted there.
    fn deep_imports(&self) -> Vec<String> {
        let mut rooms: BTreeMap<&[String], (BTreeSet<String>, Vec<String>)> = BTreeMap::new();
        for reference in &self.references {
            let is_past_a_door = |depth: &usize| {
                let (folder, module) = (&reference.to[..depth - 1], &reference.to[..*depth]);
                !reference.from.starts_with(folder) && self.modules.get(module) == Some(&true)
            };
            if let Some(depth) = (2..=reference.to.len()).find(is_past_a_door) {
                let (wanted, places) = rooms.entry(&reference.to[..depth]).or_default();
                wanted.extend((reference.to.len() > depth).then(|| reference.to[depth..].join("::")));
                places.push(reference.told());
            }
        }
        let told = rooms.into_iter().map(|(room, (wanted, places))| {
            let wanted = wanted.into_iter().collect::<Vec<_>>().join(", ");
            format!("crate::{} ({} times: {wanted})  {}", room.join("::"), places.len(), examples(&places))
        });
        told.collect()
    }
}

/// The first, or with `WALLS_ALL` in the environment every one.
fn examples(places: &[String]) -> String {
    if env::var_os("WALLS_ALL").is_none() { places[0].clone() } else { format!("\n    {}", places.join("\n    ")) }
}

/// The folders that can be reached from themselves, with the arrows among them.
fn cycles(arrows: &Arrows) -> Vec<String> {
    let reach = |start: &str| {
        let mut seen = BTreeSet::new();
        let mut open = vec![start.to_owned()];
        while let Some(here) = open.pop() {
            for (_, to) in arrows.keys().filter(|(from, _)| *from == here) {
                if seen.insert(to.clone()) {
                    open.push(to.clone());
                }
            }
        }
        seen
    };
    let reachable: BTreeMap<&String, BTreeSet<String>> = arrows.keys().map(|(from, _)| (from, reach(from))).collect();
    let leads = |from: &String, to: &String| reachable.get(from).is_some_and(|seen| seen.contains(to));
    let within = arrows.iter().filter(|((from, to), _)| leads(to, from));
    within.map(|((from, to), references)| told_arrow(from, to, references)).collect()
}

fn upward(house: &House) -> Vec<String> {
    let floor = |name: &str| FLOORS.iter().position(|floor| floor.contains(&name));
    let mut violations = Vec::new();
    for top in house.tops().filter(|top| floor(top).is_none()) {
        violations.push(format!("`{top}` stands on no floor: give it one in FLOORS"));
    }
    for name in FLOORS.iter().copied().flatten().filter(|name| !house.tops().any(|top| top == **name)) {
        violations.push(format!("`{name}` has a floor and is not there"));
    }
    for ((from, to), references) in house.arrows() {
        if floor(&from) < floor(&to) && floor(&from).is_some() {
            violations.push(told_arrow(&from, &to, &references));
        }
    }
    violations
}

fn told_arrow(from: &str, to: &str, references: &[String]) -> String {
    format!("{from} -> {to} ({} times)  {}", references.len(), examples(references))
}
