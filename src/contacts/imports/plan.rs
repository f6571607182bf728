//! How a file is read: which column is what, and what its contacts are tied to.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value, json};

use super::form::{ColumnMap, ColumnProperty, JsonText, NewImport, OnConflict};
use crate::contacts::{change::Ties, contact::Changes, contact::Email, properties::Declared, properties::Kind};
use crate::csv::{self, BYTE_ORDER_MARK, Record, Scan};
use crate::error::Error;
use crate::id::SegmentId;
use crate::segments::SegmentList;
use crate::text::shown;
use crate::topics::{Choice, ChoiceList};
use crate::web::{self, MultipartForm as Form};

/// How long the header may be, with blank lines before it.
const LONGEST_HEADER: usize = 64 << 10;

/// What is to be done with a file. It is kept beside the file.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// How many columns there are.
    width: usize,
    email: usize,
    first_name: Option<usize>,
    last_name: Option<usize>,
    unsubscribed: Option<usize>,
    properties: Vec<PropertyColumn>,
    /// Whether contacts that are there already are changed, or skipped.
    pub overwrites: bool,
    pub segment_ids: Vec<SegmentId>,
    pub choices: Vec<Choice>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct PropertyColumn {
    key: String,
    column: usize,
    /// None: as the property is declared, or else text.
    kind: Option<CellKind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CellKind {
    String,
    Number,
    Boolean,
}

/// A file that can be imported.
#[derive(Debug)]
pub struct Upload {
    /// Where it lies in its form.
    pub file: Range<usize>,
    pub plan: Plan,
    /// Where the first row behind the header begins.
    pub position: usize,
    pub line: i64,
}

/// What a row says of a contact.
#[derive(Debug)]
pub struct Person {
    pub email: Email,
    pub changes: Changes,
}

impl Upload {
    pub fn parse(form: &Form, declared: &[Declared]) -> Result<Upload, Error> {
        let missing = || Error::Missing { message: "Missing `file` field: a CSV file that is not empty.".into() };
        let file = form.get("file").ok_or_else(missing)?;
        let start = form.read(file.start..file.end.min(file.start + LONGEST_HEADER))?;
        let (header, position, line) = header(&start, start.len() == file.len())?;
        let mut fields = Map::from_iter([("file".to_owned(), json!({"start": file.start, "end": file.end}))]);
        for name in ["column_map", "segments", "topics", "on_conflict"] {
            fields.extend(form.text(name)?.map(|text| (name.to_owned(), text.into())));
        }
        let new: NewImport = web::read_fields(fields)?;
        let SegmentList(segment_ids) = new.segments.and_then(|JsonText(list)| list).unwrap_or_default();
        let ChoiceList(choices) = new.topics.and_then(|JsonText(list)| list).unwrap_or_default();
        let map = new.column_map.and_then(|JsonText(map)| map);
        let plan = Plan {
            overwrites: new.on_conflict == Some(OnConflict::Upsert),
            segment_ids,
            choices,
            ..columns(&header, map, declared)?
        };
        Ok(Upload { file: new.file, plan, position, line })
    }
}

/// The first rows of a file, to be seen by who says what its columns are.
pub struct Sample {
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
    position: usize,
    line: i64,
}

impl Sample {
    /// What a file begins with; `is_whole` says that this is all of it.
    pub fn of(start: &[u8], is_whole: bool, most: usize) -> Result<Sample, Error> {
        let (header, position, line) = header(start, is_whole)?;
        let (mut at, mut rows) = (position, Vec::new());
        while rows.len() < most
            && let Scan::Record(record) = csv::scan(start.get(at..).unwrap_or_default(), is_whole)
        {
            at += record.bytes;
            rows.extend(record.fields.ok().filter(|fields| !fields.is_empty()));
        }
        Ok(Sample { header, rows, position, line })
    }

    /// What a column seems to hold, by its name.
    pub fn guess(&self, column: usize, declared: &[Declared]) -> String {
        let is_here = |field: &str| guess(&self.header, field) == Some(column);
        if let Some(field) = ["email", "first_name", "last_name", "unsubscribed"].into_iter().find(|one| is_here(one)) {
            return field.into();
        }
        let name = self.header.get(column).map_or("", String::as_str);
        let property = declared.iter().find(|property| property.key == name);
        property.map_or(String::new(), |property| format!("property:{}", property.key))
    }

    /// What is to be done with a file of this size. `meanings` says of each column what it holds: nothing, a field of
    /// contacts, `property:` with a key, or `own`, a property that is called as the column is.
    pub fn upload(&self, size: usize, meanings: &[String], overwrites: bool, ties: Ties) -> Result<Upload, Error> {
        let mut columns: Map<String, Value> = Map::new();
        let mut properties = Vec::new();
        for (column, meaning) in meanings.iter().enumerate().take(self.header.len()) {
            let own = || self.header.get(column).cloned().unwrap_or_default();
            match meaning.strip_prefix("property:") {
                Some(key) => properties.push(PropertyColumn { key: key.to_owned(), column, kind: None }),
                None if meaning == "own" => properties.push(PropertyColumn { key: own(), column, kind: None }),
                None if meaning.is_empty() => {}
                None if columns.contains_key(meaning) => {
                    return Err(Error::invalid(format!("Two columns are said to be `{}`.", shown(meaning))));
                }
                None => drop(columns.insert(meaning.clone(), column.into())),
            }
        }
        let column = |field: &str| columns.get(field).and_then(Value::as_u64).map(|column| column as usize);
        let missing = || Error::invalid("No column is said to hold the addresses. Choose `Address` for one of them.");
        let plan = Plan {
            width: self.header.len(),
            email: column("email").ok_or_else(missing)?,
            first_name: column("first_name"),
            last_name: column("last_name"),
            unsubscribed: column("unsubscribed"),
            properties,
            overwrites,
            segment_ids: ties.segment_ids,
            choices: ties.choices,
        };
        Ok(Upload { file: 0..size, plan, position: self.position, line: self.line })
    }
}

/// The header, and where what follows it begins. `is_whole` says that the file
/// ends where its start does.
fn header(start: &[u8], is_whole: bool) -> Result<(Vec<String>, usize, i64), Error> {
    let mut at = if start.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    let mut line = 1;
    loop {
        match csv::scan(start.get(at..).unwrap_or_default(), is_whole) {
            Scan::Record(Record { fields, bytes, lines }) => {
                (at, line) = (at + bytes, line + lines);
                let fields = fields.map_err(|flaw| Error::invalid(format!("The header of the `file`: {flaw}")))?;
                if !fields.is_empty() {
                    return Ok((fields.iter().map(|name| name.trim().to_owned()).collect(), at, line));
                }
            }
            Scan::More => {
                let most = LONGEST_HEADER;
                return Err(Error::invalid(format!(
                    "The header of the `file` must end within its first {most} bytes."
                )));
            }
            Scan::End => {
                return Err(Error::invalid("The `file` is empty. Its first row must name the columns."));
            }
        }
    }
}

/// Which column is what. Without a map, columns are known by their names.
fn columns(header: &[String], map: Option<ColumnMap>, declared: &[Declared]) -> Result<Plan, Error> {
    let is_mapped = map.is_some();
    let map = map.unwrap_or_default();
    let column = |field: &str, name: Option<String>| match is_mapped {
        true => name.map(|name| find(header, &name)).transpose(),
        false => Ok(guess(header, field)),
    };
    let email = column("email", map.email)?.or_else(|| guess(header, "email"));
    let properties = match map.properties {
        Some(properties) => mapped(header, properties)?,
        None if is_mapped => Vec::new(),
        None => declared.iter().filter_map(|property| as_declared(header, property)).collect(),
    };
    Ok(Plan {
        width: header.len(),
        email: email.ok_or_else(|| {
            Error::invalid("The `file` has no column `email`. Say in `column_map` which column holds the addresses.")
        })?,
        first_name: column("first_name", map.first_name)?,
        last_name: column("last_name", map.last_name)?,
        unsubscribed: column("unsubscribed", map.unsubscribed)?,
        properties,
        overwrites: false,
        segment_ids: Vec::new(),
        choices: Vec::new(),
    })
}

/// A column that is called like a field, be it `first_name` or `First Name`.
fn guess(header: &[String], field: &str) -> Option<usize> {
    let plain = |text: &str| text.to_lowercase().replace(['_', '-', ' '], "");
    header.iter().position(|name| plain(name) == plain(field))
}

/// The column that a map names.
fn find(header: &[String], name: &str) -> Result<usize, Error> {
    header
        .iter()
        .position(|known| known == name.trim())
        .ok_or_else(|| Error::invalid(format!("The `file` has no column `{}`, which `column_map` names.", shown(name))))
}

fn as_declared(header: &[String], property: &Declared) -> Option<PropertyColumn> {
    let column = header.iter().position(|name| *name == property.key)?;
    Some(PropertyColumn { key: property.key.clone(), column, kind: None })
}

/// The properties of a map: `{key: {"column": …, "type": …}}`.
fn mapped(header: &[String], properties: Map<String, Value>) -> Result<Vec<PropertyColumn>, Error> {
    if properties.len() > csv::MOST_COLUMNS {
        let most = csv::MOST_COLUMNS;
        return Err(Error::invalid(format!("The `column_map` field must not name more than {most} properties.")));
    }
    let one = |(key, mapping): (String, Value)| {
        // The column's name alone is as good as an object with it.
        let mapping = if mapping.is_string() { json!({ "column": mapping }) } else { mapping };
        let ColumnProperty { column, kind } = web::read_value(mapping).map_err(|fault| {
            Error::invalid(format!("The `column_map` field has at `{}` no column, which {fault}.", shown(&key)))
        })?;
        Ok(PropertyColumn { column: find(header, &column)?, key, kind })
    };
    properties.into_iter().map(one).collect()
}

impl Plan {
    /// How many rows go into a commit: fewer, where each comes with many ties or properties.
    pub fn rows_at_once(&self) -> usize {
        (4_000 / (4 + self.segment_ids.len() + self.choices.len() + self.properties.len() / 4)).clamp(1, 500)
    }

    /// What a row says.
    pub fn person(&self, row: &[String], declared: &[Declared]) -> Result<Person, Error> {
        if row.len() != self.width {
            return Err(Error::invalid(format!(
                "The row has {} fields, but the header has {}.",
                row.len(),
                self.width
            )));
        }
        let cell = |column: usize| row.get(column).map_or("", |cell| cell.trim());
        let email = Email::try_from(cell(self.email).to_owned());
        let email = email.map_err(|wrong| Error::invalid(format!("The `email` field {wrong}.")))?;
        let mut fields = Map::new();
        for (field, column) in [("first_name", self.first_name), ("last_name", self.last_name)] {
            if let Some(text) = column.map(cell).filter(|text| !text.is_empty()) {
                fields.insert(field.into(), text.into());
            }
        }
        if let Some(text) = self.unsubscribed.map(cell).filter(|text| !text.is_empty()) {
            fields.insert("unsubscribed".into(), flag("field `unsubscribed`", text)?);
        }
        let mut properties = Map::new();
        for property in &self.properties {
            let text = cell(property.column);
            if !text.is_empty() {
                properties.insert(property.key.clone(), property.value(text, declared)?);
            }
        }
        fields.insert("properties".into(), Value::Object(properties));
        let changes: Changes = web::read_fields(fields)?;
        changes.check_types(declared)?;
        Ok(Person { email, changes })
    }
}

impl PropertyColumn {
    fn value(&self, text: &str, declared: &[Declared]) -> Result<Value, Error> {
        let by_declaration = || match declared.iter().find(|property| property.key == self.key)?.kind {
            Kind::String => Some(CellKind::String),
            Kind::Number => Some(CellKind::Number),
        };
        match self.kind.or_else(by_declaration).unwrap_or(CellKind::String) {
            CellKind::String => Ok(text.into()),
            CellKind::Number => number(&self.key, text),
            CellKind::Boolean => flag(&format!("property `{}`", shown(&self.key)), text),
        }
    }
}

fn number(key: &str, text: &str) -> Result<Value, Error> {
    let whole = text.parse::<i64>().ok().map(Value::from);
    let real = || text.parse().ok().and_then(Number::from_f64).map(Value::Number);
    whole.or_else(real).ok_or_else(|| {
        Error::invalid(format!("The property `{}` must be a number, but is `{}`.", shown(key), shown(text)))
    })
}

fn flag(what: &str, text: &str) -> Result<Value, Error> {
    match text.to_lowercase().as_str() {
        "true" | "yes" | "1" => Ok(Value::Bool(true)),
        "false" | "no" | "0" => Ok(Value::Bool(false)),
        _ => Err(Error::invalid(format!("The {what} must be `true` or `false`, but is `{}`.", shown(text)))),
    }
}
