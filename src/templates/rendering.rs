//! A version of a template, ready to be rendered.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::store::Version;
use super::template::Contents;
use super::variable::{Misfit, Variables};
use crate::id::{TemplateId, TemplateVersionId};
use crate::memory::{Held, held_when_read};
use crate::render::{self, Kind, Template};

/// What was read of contents once, to be rendered often.
pub struct Rendering {
    pub template_id: TemplateId,
    pub version_id: TemplateVersionId,
    /// As they are written; a mail may say otherwise.
    pub from: Option<String>,
    pub reply_to: Vec<String>,
    subject: Option<Template>,
    html: Template,
    text: Option<Template>,
    variables: Variables,
    /// How long all that is written in it is.
    length: usize,
}

impl Held for Rendering {
    fn held(&self) -> u64 {
        held_when_read(self.length)
    }
}

/// What a mail is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    pub subject: Option<String>,
    pub html: String,
    pub text: Option<String>,
}

impl Rendering {
    /// `Err` says what cannot be read: contents are checked when they are written, so it is a flaw of ours.
    pub fn new(
        template_id: TemplateId,
        version_id: TemplateVersionId,
        contents: Contents,
    ) -> Result<Rendering, String> {
        let parse =
            |name: &str, source: &str, kind| Template::parse(source, kind).map_err(|flaw| format!("`{name}` {flaw}"));
        let length = contents.length();
        Ok(Rendering {
            length,
            template_id,
            version_id,
            subject: contents.subject.map(|source| parse("subject", &source, Kind::Line)).transpose()?,
            html: parse("html", &contents.html, Kind::Html)?,
            text: contents.text.map(|source| parse("text", &source, Kind::Text)).transpose()?,
            from: contents.from,
            reply_to: contents.reply_to,
            variables: contents.variables,
        })
    }

    /// Rendered with what is given, and fallbacks for the rest. `Err` says in a sentence why that cannot be.
    pub fn render(&self, given: &Map<String, Value>) -> Result<Rendered, String> {
        let values = self.variables.values(given).map_err(|misfit| sentence(&misfit))?;
        self.with(&values)
    }

    /// As [`Rendering::render`], with samples for what is missing, and the names of that.
    pub fn preview(&self, given: &Map<String, Value>) -> Result<(Rendered, Vec<String>), String> {
        let (values, missing) =
            self.variables.samples(given, self.keys().into_iter()).map_err(|misfit| sentence(&misfit))?;
        Ok((self.with(&values)?, missing))
    }

    /// All names that it looks at.
    pub fn keys(&self) -> BTreeSet<&str> {
        let optional = self.subject.iter().chain(&self.text);
        self.html.keys().chain(optional.flat_map(Template::keys)).collect()
    }

    /// Whether it looks at one of these names.
    pub fn names_any(&self, names: &[&str]) -> bool {
        self.keys().iter().any(|key| names.contains(key))
    }

    fn with(&self, values: &Map<String, Value>) -> Result<Rendered, String> {
        let render = |name: &str, template: &Template| template.render(values).map_err(|error| failure(name, &error));
        Ok(Rendered {
            subject: self.subject.as_ref().map(|subject| render("subject", subject)).transpose()?,
            html: render("html", &self.html)?,
            text: self.text.as_ref().map(|text| render("text", text)).transpose()?,
        })
    }
}

/// A version as it was written, for mail that is rendered later: for each recipient when it leaves.
pub struct Sources {
    pub template_id: TemplateId,
    pub version_id: TemplateVersionId,
    pub html: String,
    pub text: Option<String>,
    /// What was given, and fallbacks for the rest.
    pub values: Map<String, Value>,
}

impl Sources {
    /// `Err` says in a sentence why it cannot be rendered with what is given.
    pub fn new(template_id: TemplateId, version: Version, given: &Map<String, Value>) -> Result<Sources, String> {
        let Contents { html, text, variables, .. } = version.contents;
        let values = variables.values(given).map_err(|misfit| sentence(&misfit))?;
        Ok(Sources { template_id, version_id: version.id, html, text, values })
    }
}

fn sentence(misfit: &Misfit) -> String {
    match misfit {
        Misfit::Missing(key) => {
            format!("The template needs a value for `{key}`: give one in `variables`, or declare a fallback for it.")
        }
        Misfit::Wrong { key, flaw } => format!("The value of `variables.{key}` {flaw}."),
    }
}

fn failure(name: &str, error: &render::Error) -> String {
    match error.missing() {
        Some(key) => format!(
            "The template needs a value for `{key}`, which its {name} uses: give one in `variables`, or write \
             {{{{{{{key}|fallback}}}}}}."
        ),
        None => format!("The {name} of the template cannot be rendered: {error}."),
    }
}
