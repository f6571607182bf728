//! What can be made of a value. Each filter pays for what it builds.

use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, State, Value, tests};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::print::{not_text, plain};

/// How many bytes of text, or entries of lists, all filters of one rendering may go through.
const BUDGET: usize = 8 << 20;

pub const NAMES: &[&str] = &[
    "capitalize",
    "decimals",
    "default",
    "first",
    "join",
    "last",
    "length",
    "lower",
    "plus",
    "replace",
    "reverse",
    "round",
    "safe",
    "times",
    "trim",
    "truncate",
    "upper",
    "urlencode",
];
pub const TESTS: &[&str] = &["defined", "none", "undefined"];

pub fn add(environment: &mut Environment<'_>) {
    environment.add_filter("capitalize", capitalize);
    environment.add_filter("decimals", decimals);
    environment.add_filter("default", default);
    environment.add_filter("first", |state: &mut State<'_, '_>, list: &Value| at_end(state, list, false));
    environment.add_filter("join", join);
    environment.add_filter("last", |state: &mut State<'_, '_>, list: &Value| at_end(state, list, true));
    environment.add_filter("length", length);
    environment.add_filter("lower", |state: &mut State<'_, '_>, value: &Value| {
        Ok::<_, Error>(text(state, value)?.to_lowercase())
    });
    environment.add_filter("plus", |one: &Value, other: &Value| reckoned(one, other, i64::checked_add, |a, b| a + b));
    environment.add_filter("replace", replace);
    environment.add_filter("reverse", |state: &mut State<'_, '_>, list: &Value| {
        entries(state, list).map(|entries| Value::from_iter(entries.into_iter().rev()))
    });
    environment.add_filter("round", round);
    environment
        .add_filter("safe", |state: &mut State<'_, '_>, value: &Value| text(state, value).map(Value::from_safe_string));
    environment.add_filter("times", |one: &Value, other: &Value| reckoned(one, other, i64::checked_mul, |a, b| a * b));
    environment.add_filter("trim", |state: &mut State<'_, '_>, value: &Value| {
        Ok::<_, Error>(text(state, value)?.trim().to_owned())
    });
    environment.add_filter("truncate", truncate);
    environment.add_filter("upper", |state: &mut State<'_, '_>, value: &Value| {
        Ok::<_, Error>(text(state, value)?.to_uppercase())
    });
    environment.add_filter("urlencode", |state: &mut State<'_, '_>, value: &Value| {
        Ok::<_, Error>(utf8_percent_encode(&text(state, value)?, NON_ALPHANUMERIC).to_string())
    });
    environment.add_test("defined", tests::is_defined);
    environment.add_test("none", tests::is_none);
    environment.add_test("undefined", tests::is_undefined);
}

struct Budget(usize);

/// Pays for what is about to be done.
fn spend(state: &mut State<'_, '_>, amount: usize) -> Result<(), Error> {
    let budget = state.get_or_insert_extension(Budget(BUDGET));
    let left =
        budget.0.checked_sub(amount).ok_or_else(|| invalid("filters are given more than 8 MiB to go through"))?;
    budget.0 = left;
    Ok(())
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// A value as the text that would be written for it.
fn text(state: &mut State<'_, '_>, value: &Value) -> Result<String, Error> {
    match value.kind() {
        ValueKind::Undefined => Err(ErrorKind::UndefinedError.into()),
        ValueKind::None => Ok(String::new()),
        ValueKind::Bool | ValueKind::Number => Ok(plain(value)),
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            // Upper case and percent signs take at most three times the room.
            spend(state, 3 * text.len())?;
            Ok(text.to_owned())
        }
        other => Err(not_text(other)),
    }
}

fn entries(state: &mut State<'_, '_>, list: &Value) -> Result<Vec<Value>, Error> {
    match list.kind() {
        ValueKind::Undefined => Err(ErrorKind::UndefinedError.into()),
        ValueKind::Seq | ValueKind::Iterable => {
            spend(state, list.len().unwrap_or(BUDGET))?;
            Ok(list.try_iter()?.collect())
        }
        other => Err(invalid(format!("a {other} is no list"))),
    }
}

/// What is missing, null or empty is replaced.
fn default(value: &Value, other: &Value) -> Value {
    let is_absent = value.is_undefined() || value.is_none() || value.as_str().is_some_and(str::is_empty);
    if is_absent { other.clone() } else { value.clone() }
}

fn capitalize(state: &mut State<'_, '_>, value: &Value) -> Result<String, Error> {
    let text = text(state, value)?;
    let mut chars = text.chars();
    Ok(chars.next().map(|first| first.to_uppercase().collect::<String>() + chars.as_str()).unwrap_or_default())
}

fn truncate(state: &mut State<'_, '_>, value: &Value, most: usize) -> Result<String, Error> {
    let mut text = text(state, value)?;
    if let Some((at, _)) = text.char_indices().nth(most) {
        text.truncate(at);
        text.push('…');
    }
    Ok(text)
}

fn replace(state: &mut State<'_, '_>, value: &Value, from: &str, to: &str) -> Result<String, Error> {
    let text = text(state, value)?;
    if from.is_empty() {
        return Err(invalid("`replace` needs something to look for"));
    }
    spend(state, text.matches(from).count() * to.len())?;
    Ok(text.replace(from, to))
}

fn join(state: &mut State<'_, '_>, list: &Value, between: Option<String>) -> Result<String, Error> {
    let between = between.unwrap_or_default();
    let mut joined = String::new();
    for (at, entry) in entries(state, list)?.iter().enumerate() {
        spend(state, between.len())?;
        joined.push_str(if at > 0 { &between } else { "" });
        joined.push_str(&text(state, entry)?);
    }
    Ok(joined)
}

fn at_end(state: &mut State<'_, '_>, list: &Value, is_last: bool) -> Result<Value, Error> {
    let entries = entries(state, list)?;
    let entry = if is_last { entries.last() } else { entries.first() };
    Ok(entry.cloned().unwrap_or_default())
}

fn length(state: &mut State<'_, '_>, value: &Value) -> Result<usize, Error> {
    match value.as_str() {
        Some(text) => {
            spend(state, text.len())?;
            Ok(text.chars().count())
        }
        None if value.is_undefined() => Err(ErrorKind::UndefinedError.into()),
        None => value.len().ok_or_else(|| invalid(format!("a {} has no length", value.kind()))),
    }
}

/// Whole numbers stay whole as long as they fit.
fn reckoned(
    one: &Value,
    other: &Value,
    whole: fn(i64, i64) -> Option<i64>,
    any: fn(f64, f64) -> f64,
) -> Result<Value, Error> {
    let both_whole = one.as_i64().zip(other.as_i64()).filter(|_| one.is_integer() && other.is_integer());
    if let Some(result) = both_whole.and_then(|(one, other)| whole(one, other)) {
        return Ok(result.into());
    }
    Ok(any(number(one)?, number(other)?).into())
}

fn number(value: &Value) -> Result<f64, Error> {
    match value.kind() {
        ValueKind::Undefined => Err(ErrorKind::UndefinedError.into()),
        ValueKind::Number => f64::try_from(value.clone()),
        other => Err(invalid(format!("a {other} is no number"))),
    }
}

fn round(value: &Value, digits: Option<u32>) -> Result<f64, Error> {
    let scale = 10f64.powi(digits.unwrap_or(0).min(10) as i32);
    Ok((number(value)? * scale).round() / scale)
}

/// With so many digits behind the point, also if they are zeros.
fn decimals(value: &Value, digits: usize) -> Result<String, Error> {
    Ok(format!("{:.*}", digits.min(10), number(value)?))
}
