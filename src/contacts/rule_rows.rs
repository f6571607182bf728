//! The rules of a segment as a page shows them: rows, with what can be chosen in each and what is wrong with it.

use serde_json::Value;

use super::properties::Declared;
use super::rule_editor::{Group, MOST_GROUPS, OPERATORS, Refused, Row, Rules};
use crate::accounts::{Duty, Member};
use crate::error::Error;
use crate::id::TopicId;
use crate::topics;
use crate::web::Field;

/// The rules as a page shows them.
pub struct Editor {
    pub is_json: bool,
    pub json: Field,
    pub problem: Option<String>,
    pub is_any: bool,
    pub groups: Vec<ShownGroup>,
}

pub struct ShownGroup {
    pub number: usize,
    pub is_any: bool,
    pub rows: Vec<ShownRow>,
}

pub struct ShownRow {
    pub id: String,
    /// The row in words, for those who only look.
    pub sentence: String,
    pub fields: Vec<(String, String, bool)>,
    pub operators: Vec<(&'static str, &'static str, bool)>,
    pub name: String,
    pub value: String,
    pub within: String,
    /// Why the rule cannot be used.
    pub error: Option<String>,
}

/// What can be asked for, each with its label.
async fn askable<D: Duty>(member: &Member<D>, declared: &[Declared]) -> Result<Vec<(String, String)>, Error> {
    let own = [
        ("contact.email", "Address"),
        ("contact.first_name", "First name"),
        ("contact.last_name", "Last name"),
        ("contact.unsubscribed", "Unsubscribed (true or false)"),
        ("contact.created_at", "Added at"),
        ("emails.opened", "Mails opened (how many)"),
        ("emails.clicked", "Mails clicked in (how many)"),
        ("events.", "Event, named beside (how often)"),
        ("broadcasts.", "Broadcast, its id beside (“sent”)"),
    ];
    let mut all: Vec<(String, String)> = own.iter().map(|(field, label)| ((*field).into(), (*label).into())).collect();
    let property =
        |property: &Declared| (format!("contact.properties.{}", property.key), format!("Property {}", property.key));
    all.extend(declared.iter().map(property));
    let topics: Vec<(TopicId, String)> = member.query(topics::choices(member.workspace_id())).await?;
    all.extend(
        topics.into_iter().map(|(id, name)| (format!("topics.{id}"), format!("Topic {name} (opt_in or opt_out)"))),
    );
    Ok(all)
}

impl Editor {
    /// What a filter says, without anything to fill in.
    pub async fn of<D: Duty>(member: &Member<D>, filter: &Value, declared: &[Declared]) -> Result<Editor, Error> {
        let rules = Rules::of(filter);
        let json = serde_json::to_string_pretty(filter).unwrap_or_default();
        let mut editor = Editor::shown(member, rules.clone().unwrap_or_default(), declared, 0).await?;
        (editor.is_json, editor.json.value) = (rules.is_none(), json);
        Ok(editor)
    }

    /// Says what is wrong: beside the rows that it is about, and in general.
    pub fn mark(&mut self, refused: Refused) {
        for ((group, row), why) in refused.rows {
            if let Some(row) = self.groups.get_mut(group).and_then(|group| group.rows.get_mut(row)) {
                row.error = Some(why);
            }
        }
        match self.is_json {
            true => self.json.error = Some(refused.problem),
            false => self.problem = Some(refused.problem),
        }
    }

    /// Rows to fill in, and so many blank ones behind those of each group.
    pub async fn shown<D: Duty>(
        member: &Member<D>,
        mut rules: Rules,
        declared: &[Declared],
        blank: usize,
    ) -> Result<Editor, Error> {
        let askable = askable(member, declared).await?;
        if blank > 0 && rules.groups.len() < MOST_GROUPS {
            rules.groups.push(Group { is_any: !rules.groups.is_empty(), rows: Vec::new() });
        }
        let row = |group: usize, (at, row): (usize, Row)| shown_row(&askable, format!("{group}-{at}"), row);
        let group = |(number, group): (usize, Group)| ShownGroup {
            number,
            is_any: group.is_any,
            rows: group
                .rows
                .into_iter()
                .chain(std::iter::repeat_n(Row::default(), blank))
                .enumerate()
                .map(|each| row(number, each))
                .collect(),
        };
        Ok(Editor {
            is_json: false,
            json: Field::default(),
            problem: None,
            is_any: rules.is_any,
            groups: rules.groups.into_iter().enumerate().map(group).collect(),
        })
    }
}

fn shown_row(askable: &[(String, String)], id: String, row: Row) -> ShownRow {
    let is_known = askable.iter().any(|(field, _)| *field == row.field);
    let mut fields: Vec<(String, String, bool)> =
        askable.iter().map(|(field, label)| (field.clone(), label.clone(), *field == row.field)).collect();
    if !is_known && !row.field.is_empty() {
        fields.push((row.field.clone(), row.field.clone(), true));
    }
    let operators = OPERATORS.map(|(word, label)| (word, label, word == row.operator));
    let label = askable.iter().find(|(field, _)| *field == row.field).map_or(row.field.as_str(), |(_, label)| label);
    let operator = OPERATORS.iter().find(|(word, _)| *word == row.operator).map_or("", |(_, label)| label);
    let label = label
        .split(" (")
        .next()
        .unwrap_or(label)
        .trim_end_matches(", named beside")
        .trim_end_matches(", its id beside");
    let mut sentence = format!("{label} {} {operator} {}", row.name, row.value).replace("  ", " ");
    if !row.within.is_empty() {
        sentence += &format!(" within {}", row.within);
    }
    ShownRow {
        id,
        sentence,
        fields,
        operators: operators.to_vec(),
        name: row.name,
        value: row.value,
        within: row.within,
        error: None,
    }
}
