//! Templates as text: what is written in double or triple braces becomes what it stands for.
//! Pure: no store, no network, no clock.
//!
//! A template comes from people who may send mail, and its values from anybody. So the language
//! is a list of what is allowed (`syntax`), and nothing in it can build a large value; time is
//! bounded by fuel, what filters do by a budget, and the output by a sink that is full.

mod error;
mod filters;
mod fuzzing;
mod print;
mod syntax;
#[cfg(test)]
mod tests;
mod triple;
mod values;

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use serde_json::{Map, Value};

use print::Sink;
use syntax::Path;

pub use error::Error;
pub use fuzzing::template_text;
pub use syntax::is_name;

/// How long the source of a template may be, in bytes. Mail programs cut off what is longer
/// than a fifth of it.
pub const MOST_SOURCE: usize = 512 << 10;
/// How many bytes may come of it.
pub const MOST_OUTPUT: usize = 2 << 20;
/// How many bytes may come of a line.
const MOST_LINE: usize = 16 << 10;
/// How many steps may be taken. A table of 1,000 rows and 8 columns takes 40,000.
const FUEL: u64 = 100_000;

/// What a template is for, which says what is done with a value that is put into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Values are escaped, unless they are marked by `| safe`.
    Html,
    Text,
    /// As text, but without line ends: a subject.
    Line,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Html => "html",
            Kind::Text => "text",
            Kind::Line => "line",
        }
    }
}

/// A template that was read once and is rendered often. Cheap to clone.
#[derive(Clone)]
pub struct Template(Arc<Parsed>);

struct Parsed {
    environment: Environment<'static>,
    kind: Kind,
    /// Every variable that is looked at, for messages.
    paths: Vec<Path>,
    keys: BTreeSet<String>,
}

impl Template {
    pub fn parse(source: &str, kind: Kind) -> Result<Template, Error> {
        if source.len() > MOST_SOURCE {
            return Err(Error::at(None, format!("is longer than {} KiB", MOST_SOURCE >> 10)));
        }
        let source = triple::rewritten(source)?;
        let paths = syntax::check(&source, &SYNTAX)?;
        let mut environment = ENVIRONMENT.clone();
        environment.add_template_owned(kind.name(), source.into_owned()).map_err(|error| Error::syntax(&error))?;
        let keys = paths.iter().filter(|path| !path.is_local).map(|path| path.root().to_owned()).collect();
        Ok(Template(Arc::new(Parsed { environment, kind, paths, keys })))
    }

    /// The names that it takes from what it is given, in order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys.iter().map(String::as_str)
    }

    pub fn render(&self, values: &Map<String, Value>) -> Result<String, Error> {
        let parsed = &*self.0;
        let used = || values.iter().filter(|(key, _)| parsed.keys.contains(*key));
        values::check(used())?;
        let context = minijinja::Value::from_pairs(used().map(|(key, value)| (key.as_str(), Serde(value))));
        let mut sink = Sink::new(if parsed.kind == Kind::Line { MOST_LINE } else { MOST_OUTPUT });
        let template = parsed.environment.get_template(parsed.kind.name()).map_err(|error| Error::syntax(&error))?;
        if let Err(error) = template.render_captured_to(context, &mut sink) {
            return Err(if sink.is_full() { sink.refusal() } else { Error::failed(&error, &parsed.paths, values) });
        }
        let text = sink.finish();
        Ok(if parsed.kind == Kind::Line { one_line(&text) } else { text })
    }
}

/// Without line ends, and nothing else that a header could not hold.
fn one_line(text: &str) -> String {
    text.trim().replace("\r\n", " ").replace(|char: char| char.is_control(), " ")
}

/// `{#` begins rules in minified style sheets, so comments have a sign of their own.
static SYNTAX: LazyLock<SyntaxConfig> = LazyLock::new(|| {
    let mut syntax = SyntaxConfig::builder();
    syntax.comment_delimiters("{##", "##}").keep_trailing_newline(true);
    syntax.build().expect("delimiters that differ")
});

/// What all templates share: nothing but what is named here.
static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::empty();
    environment.set_syntax(SYNTAX.clone());
    environment.set_fuel(Some(FUEL));
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    let is_html = |name: &str| if name == Kind::Html.name() { AutoEscape::Html } else { AutoEscape::None };
    environment.set_auto_escape_callback(is_html);
    environment.set_formatter(print::print);
    filters::add(&mut environment);
    environment
});
