//! Templates as files, for people who keep them beside their code: the HTML behind a short head, and
//! the text in a file of its own.

use serde_json::{Map, Value, json};

use super::Templates;
use super::store::{self, Changed, Key, New, Stored};
use super::template::{Alias, Contents, NewTemplate};
use crate::db::DbError;
use crate::error::Error;
use crate::id::{TemplateId, WorkspaceId};
use crate::web;

const FENCE: &str = "---";

/// A template as it stands in files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateFile {
    /// What both files are called, without their endings: the alias, or the id where there is none.
    pub stem: String,
    /// The head and the HTML.
    pub html: String,
    pub text: Option<String>,
}

/// What became of a file that was pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    Created,
    Changed,
    Unchanged,
}

impl TemplateFile {
    fn of(stored: &Stored) -> TemplateFile {
        let contents = &stored.contents;
        let mut head = format!("{FENCE}\nname: {}\n", stored.name);
        let mut line = |name: &str, value: &str| head.push_str(&format!("{name}: {value}\n"));
        let single = [("alias", &stored.alias), ("from", &contents.from), ("subject", &contents.subject)];
        for (name, value) in single {
            value.iter().for_each(|value| line(name, value));
        }
        contents.reply_to.iter().for_each(|address| line("reply_to", address));
        for variable in &contents.variables.0 {
            let fallback = variable.fallback_value.as_ref().map(|value| format!(" = {value}")).unwrap_or_default();
            line("variable", &format!("{} {}{fallback}", variable.key, variable.kind));
        }
        TemplateFile {
            stem: stored.alias.clone().unwrap_or_else(|| stored.id.to_string()),
            html: format!("{head}{FENCE}\n{}", contents.html),
            text: contents.text.clone(),
        }
    }

    /// What the files say. `Err` says what is wrong with them.
    fn read(&self) -> Result<NewTemplate, String> {
        let behind = self.html.strip_prefix(FENCE).and_then(|rest| rest.split_once('\n'));
        let (head, html) = behind
            .filter(|(end, _)| end.trim().is_empty())
            .and_then(|(_, rest)| split_head(rest))
            .ok_or("must begin with a head between two lines `---`")?;
        let mut fields = Map::from_iter([("html".to_owned(), html.into())]);
        let (mut addresses, mut variables) = (Vec::new(), Vec::new());
        for line in head.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (name, value) =
                line.split_once(':').ok_or_else(|| format!("has a head with the line `{line}`, which has no `:`"))?;
            match (name.trim(), value.trim()) {
                (name @ ("name" | "alias" | "from" | "subject"), value) => {
                    fields.insert(name.to_owned(), value.into());
                }
                ("reply_to", value) => addresses.push(Value::from(value)),
                ("variable", value) => variables.push(variable(value)?),
                (other, _) => {
                    let known = "name, alias, from, subject, reply_to and variable";
                    return Err(format!("has a head with `{other}`; there are {known}"));
                }
            }
        }
        fields.insert("reply_to".to_owned(), addresses.into());
        fields.insert("variables".to_owned(), variables.into());
        fields.extend(self.text.clone().map(|text| ("text".to_owned(), text.into())));
        if !fields.contains_key("alias") && self.stem.parse::<TemplateId>().is_err() {
            fields.insert("alias".to_owned(), self.stem.clone().into());
        }
        web::read_fields(fields).map_err(|error| error.message().into_owned())
    }
}

/// The head, and what stands behind the line that ends it.
fn split_head(text: &str) -> Option<(&str, &str)> {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_end() == FENCE {
            return Some((&text[..at], &text[at + line.len()..]));
        }
        at += line.len();
    }
    None
}

/// `KEY type`, and perhaps ` = ` and a fallback in JSON.
fn variable(line: &str) -> Result<Value, String> {
    let (declared, fallback) = line.split_once('=').map_or((line, None), |(one, other)| (one, Some(other)));
    let mut words = declared.split_whitespace();
    let (Some(key), Some(kind), None) = (words.next(), words.next(), words.next()) else {
        return Err(format!("has a head with the variable `{line}`; write it as `KEY type` or `KEY type = fallback`"));
    };
    let fallback = fallback.map(|text| serde_json::from_str::<Value>(text.trim())).transpose();
    let fallback = fallback.map_err(|_| format!("has a fallback of `{key}` that is no JSON; put texts into quotes"))?;
    Ok(json!({"key": key, "type": kind, "fallback_value": fallback}))
}

impl Templates {
    /// All templates of a workspace as files, as they are edited.
    pub async fn files(&self, workspace_id: WorkspaceId) -> Result<Vec<TemplateFile>, DbError> {
        let (mut files, mut after) = (Vec::new(), TemplateId::from(uuid::Uuid::nil()));
        loop {
            let rows = self.db.read(store::all(workspace_id, after)).await?;
            let Some(last) = rows.last() else { return Ok(files) };
            after = last.id(0)?;
            for row in &rows {
                files.push(TemplateFile::of(&Stored::read(row)?));
            }
        }
    }

    /// The template that a file would overwrite, as a file; and the file as it would be written again.
    pub async fn beside(
        &self,
        workspace_id: WorkspaceId,
        file: &TemplateFile,
    ) -> Result<(Option<TemplateFile>, TemplateFile), Error> {
        let wrong = |flaw: String| Error::invalid(format!("`{}.html` {flaw}", file.stem));
        let (name, alias, contents) = file.read().map_err(wrong)?.contents();
        let found = self.stored(workspace_id, &key(file, alias.as_ref())).await?;
        let written = TemplateFile::of(&Stored::sketch(name.as_str(), alias.as_ref().map(Alias::as_str), contents));
        Ok((found.map(|stored| TemplateFile::of(&stored)), TemplateFile { stem: file.stem.clone(), ..written }))
    }

    /// Makes or changes the template of a file, and publishes it if that is wanted.
    pub async fn push(&self, workspace_id: WorkspaceId, file: &TemplateFile, publish: bool) -> Result<Pushed, Error> {
        let wrong = |flaw: String| Error::invalid(format!("`{}.html` {flaw}", file.stem));
        let (name, alias, contents) = file.read().map_err(wrong)?.contents();
        let (key, now) = (key(file, alias.as_ref()), self.clock.now());
        let pushed = match self.stored(workspace_id, &key).await? {
            None => {
                let (id, version_id) = (self.clock.ordered_id(), self.clock.ordered_id());
                let new = New { id, version_id, name: &name, alias: alias.as_ref(), contents: &contents, now };
                self.db.commit(store::insert(workspace_id, &new)).await?;
                Pushed::Created
            }
            Some(seen) if is_same(&seen, name.as_str(), alias.as_ref(), &contents) => Pushed::Unchanged,
            Some(seen) => {
                let changed = Changed {
                    name: name.as_str(),
                    alias: alias.as_ref().map(Alias::as_str),
                    contents: (contents != seen.contents).then_some(&contents),
                    version_id: self.clock.ordered_id(),
                    now,
                };
                self.db.commit(store::change(workspace_id, &seen, &changed)).await?;
                Pushed::Changed
            }
        };
        let seen = self.stored(workspace_id, &key).await?;
        if let Some(seen) = seen.filter(|seen| publish && seen.has_unpublished_versions()) {
            self.db.commit(store::publish(workspace_id, &seen, seen.current_version_id, now)).await?;
        }
        Ok(pushed)
    }

    async fn stored(&self, workspace_id: WorkspaceId, key: &Key) -> Result<Option<Stored>, DbError> {
        self.db.read(store::find(workspace_id, key)).await?.first().map(Stored::read).transpose()
    }
}

fn key(file: &TemplateFile, alias: Option<&Alias>) -> Key {
    Key::from(alias.map_or(file.stem.as_str(), Alias::as_str))
}

fn is_same(seen: &Stored, name: &str, alias: Option<&Alias>, contents: &Contents) -> bool {
    seen.name == name && seen.alias.as_deref() == alias.map(Alias::as_str) && seen.contents == *contents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_it_is_written() {
        let html = "---\nname: Order\nalias: order\nfrom: Shop <shop@acme.example>\nsubject: Order {{{ID}}}: thanks\n\
                    reply_to: a@acme.example\nreply_to: b@acme.example\nvariable: ID string\nvariable: N number = 1\n\
                    variable: T string = \"a = b\"\n---\n\n<p>---\n---\n</p>";
        let file = TemplateFile { stem: "order".into(), html: html.into(), text: Some("T".into()) };
        let (name, alias, contents) = file.read().unwrap_or_else(|flaw| panic!("{flaw}")).contents();
        assert_eq!(contents.html, "\n<p>---\n---\n</p>", "to the byte");
        assert_eq!((contents.reply_to.len(), contents.variables.0.len()), (2, 3));
        let stored = Stored::sketch(name.as_str(), alias.as_ref().map(Alias::as_str), contents);
        assert_eq!(TemplateFile::of(&stored), file);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_told() {
        for (html, word) in [
            ("<p>", "`---`"),
            ("---\nname: x\n<p>", "`---`"),
            ("---\nname x\n---\n", "no `:`"),
            ("---\nnmae: x\n---\n", "`nmae`"),
            ("---\nname: x\nvariable: A\n---\n", "`KEY type`"),
            ("---\nname: x\nvariable: A string = x\n---\n", "no JSON"),
            ("---\nname: x\nvariable: A date\n---\n", "variables"),
            ("---\nsubject: x\n---\n", "`name`"),
            ("---\nname: x\n---\n{{", "line 1"),
        ] {
            let file = TemplateFile { stem: "x".into(), html: html.into(), text: None };
            let flaw = file.read().err().unwrap_or_else(|| panic!("{html}"));
            assert!(flaw.contains(word), "{html}: {flaw}");
        }
    }
}
