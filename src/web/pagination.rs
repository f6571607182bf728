//! Lists in pages: `limit`, and `after` or `before` an id, newest first.

use std::fmt::Display;

use axum::Json;
use axum::extract::FromRequestParts;
use http::request::Parts;
use serde::Serialize;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::changed::JsonResult;
use super::parameter;
use super::query::{Flaw, Params, Sent};
use crate::db::{ReadLimit, Row, Sql, Stmt, Value};
use crate::error::Error;
use crate::id::Id;

/// How many items a list returns where no `limit` is given, of what people make:
/// clients promise their users all of it.
pub const ALL: usize = 1000;

/// The same, of what happened, and of a list that a page shows.
pub const RECENT: usize = 20;

/// The highest `limit`.
const MOST: usize = 100;

/// A page ends early behind so many bytes of rows: a hundred items may be large ones.
const LARGEST: usize = 1 << 20;

/// Greater than every id.
const END: Uuid = Uuid::max();

/// What a caller wants to see of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    limit: usize,
    cursor: Cursor,
    /// How large it may become, whatever the number of its items.
    size: ReadLimit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cursor {
    Start,
    After(Uuid),
    Before(Uuid),
}

/// What a list can be asked for; `default` items come without a `limit`.
fn params(description: &str, default: Option<usize>) -> Vec<Parameter> {
    let limit = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).maximum(Some(MOST));
    let limit = limit.default(default.map(Into::into));
    let after = "The id after which to continue, towards older items. Not together with `before`.";
    let before = "The id before which to continue, towards newer items. Not together with `after`.";
    let one = |name, description, schema| parameter::optional(ParameterIn::Query, name, description, schema);
    vec![one("limit", description, limit), one("after", after, parameter::id()), one("before", before, parameter::id())]
}

impl IntoParams for Page {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        params("How many items to return. Without it all are returned, up to 1,000.", None)
    }
}

impl<const COUNT: usize> IntoParams for Newest<COUNT> {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        params("How many items to return.", Some(COUNT))
    }
}

/// One page of a list, newest first.
#[derive(Serialize, ToSchema)]
pub struct List<T> {
    #[schema(pattern = "^list$")]
    object: &'static str,
    /// Whether there are more items in the direction asked for.
    has_more: bool,
    data: Vec<T>,
}

/// One page of a list for people, with the way to its neighbours.
pub struct Leaf<T> {
    pub items: Vec<T>,
    pub newer: Option<String>,
    pub older: Option<String>,
}

/// A page of what happened, or of whatever else is looked at by the newest: so
/// many items where no `limit` is given.
pub struct Newest<const COUNT: usize = RECENT>(pub Page);

impl<S: Sync> FromRequestParts<S> for Page {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Page, Error> {
        Page::parse(parts.uri.query().unwrap_or_default(), ALL)
    }
}

impl<S: Sync, const COUNT: usize> FromRequestParts<S> for Newest<COUNT> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Newest<COUNT>, Error> {
        Page::parse(parts.uri.query().unwrap_or_default(), COUNT).map(Newest)
    }
}

impl Page {
    /// What a query asks for; `unlimited` items where it has no `limit`.
    pub fn parse(query: &str, unlimited: usize) -> Result<Page, Error> {
        let params = Params::parse(query);
        let limit =
            match text(&params, "limit")? {
                None => unlimited,
                Some(given) => given.parse().ok().filter(|limit| (1..=MOST).contains(limit)).ok_or_else(|| {
                    invalid(format!("The `limit` parameter must be a whole number from 1 to {MOST}."))
                })?,
            };
        let cursor = match (id(&params, "after")?, id(&params, "before")?) {
            (None, None) => Cursor::Start,
            (Some(id), None) => Cursor::After(id),
            (None, Some(id)) => Cursor::Before(id),
            (Some(_), Some(_)) => {
                return Err(invalid(
                    "The parameters `after` and `before` exclude each other. Send one of them.".into(),
                ));
            }
        };
        Ok(Page { limit, cursor, size: ReadLimit::new(LARGEST) })
    }

    /// The statement that reads the page, of one that reads towards older items
    /// and one towards newer ones. Their parameters are whose list it is, where to
    /// read from, how many rows, and then `more`.
    pub fn statement<const N: usize>(&self, older: Sql, newer: Sql, whose: impl Id, more: [Value; N]) -> Stmt {
        let (upwards, from, rows) = self.bounds();
        let sql = if upwards { newer } else { older };
        self.within(sql.with_all([whose.into(), from.into(), rows.into()].into_iter().chain(more).collect()))
    }

    /// A statement of somebody else's making, which reads no more than a page may hold.
    pub fn within(&self, stmt: Stmt) -> Stmt {
        stmt.within(&self.size)
    }

    /// Whether to read towards newer items; where from; and how many rows: one
    /// more than asked for, to know whether there are more.
    pub fn bounds(&self) -> (bool, Uuid, i64) {
        let rows = self.limit as i64 + 1;
        match self.cursor {
            Cursor::Start => (false, END, rows),
            Cursor::After(id) => (false, id, rows),
            Cursor::Before(id) => (true, id, rows),
        }
    }

    /// What [`Page::statement`] would find, of items that are at hand, newest first.
    pub fn slice<T, I: Id>(&self, items: Vec<T>, id: impl Fn(&T) -> I) -> Vec<T> {
        let (upwards, from, rows) = self.bounds();
        let rows = usize::try_from(rows).unwrap_or_default();
        match upwards {
            true => items.into_iter().rev().filter(|item| id(item).uuid() > from).take(rows).collect(),
            false => items.into_iter().filter(|item| id(item).uuid() < from).take(rows).collect(),
        }
    }

    /// Makes the page of the rows that [`Page::statement`] asked for.
    pub fn list<T>(&self, mut data: Vec<T>) -> List<T> {
        let has_more = data.len() > self.limit || self.size.is_cut();
        data.truncate(self.limit);
        if matches!(self.cursor, Cursor::Before(_)) {
            // Read from the cursor upwards; shown from the newest down.
            data.reverse();
        }
        List { object: "list", has_more, data }
    }

    /// As [`Page::list`], as the answer to a request: `read` makes an item of each row.
    pub fn answer<T>(&self, rows: &[Row], read: impl Fn(&Row) -> Result<T, Error>) -> JsonResult<List<T>> {
        let items: Result<Vec<T>, Error> = rows.iter().map(read).collect();
        Ok(Json(self.list(items?)))
    }

    /// As [`Page::list`], with links to the pages around it at `address`, which
    /// shows [`RECENT`] items unless asked otherwise.
    pub fn leaf<T, I: Display>(&self, rows: Vec<T>, address: &str, id: impl Fn(&T) -> I) -> Leaf<T> {
        let List { has_more, data: items, .. } = self.list(rows);
        let limit = if self.limit == RECENT { String::new() } else { format!("&limit={}", self.limit) };
        let joint = if address.contains('?') { '&' } else { '?' };
        let link = |way: &str, item: Option<&T>| match item {
            Some(item) => format!("{address}{joint}{way}={}{limit}", id(item)),
            // Nothing here any more: back to where the list begins.
            None => address.to_owned(),
        };
        let (newer, older) = match self.cursor {
            Cursor::Start => (false, has_more),
            Cursor::After(_) => (true, has_more),
            Cursor::Before(_) => (has_more, true),
        };
        let newer = newer.then(|| link("before", items.first()));
        let older = older.then(|| link("after", items.last()));
        Leaf { items, newer, older }
    }
}

/// A parameter that is there, even if it is empty: `limit=` is a mistake, not a
/// wish for the default.
fn text(params: &Params<'_>, name: &'static str) -> Result<Option<String>, Error> {
    let text = match params.sent(name) {
        Sent::Absent => return Ok(None),
        Sent::Once(value) => value.text(),
        Sent::Repeated(_) => Err(Flaw::Repeated),
    };
    text.map(|text| Some(text.into_owned())).map_err(|flaw| invalid(format!("The `{name}` parameter {flaw}.")))
}

fn id(params: &Params<'_>, name: &'static str) -> Result<Option<Uuid>, Error> {
    let given = text(params, name)?;
    let parsed = given.map(|given| Uuid::try_parse(&given)).transpose();
    parsed.map_err(|_| invalid(format!("The `{name}` parameter must be an id from this list, a UUID.")))
}

fn invalid(message: String) -> Error {
    Error::InvalidParameter { message }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: Uuid = Uuid::from_u128(0x01890000_0000_7000_8000_000000000000);

    #[test]
    fn a_page_starts_with_the_newest_unless_asked_otherwise() {
        let bounds = |query: &str| {
            let page = Page::parse(query, RECENT).expect("valid");
            page.bounds()
        };
        assert_eq!(bounds(""), (false, END, 21));
        assert_eq!(bounds("limit=5"), (false, END, 6));
        assert_eq!(bounds(&format!("after={ID}")), (false, ID, 21));
        assert_eq!(bounds(&format!("limit=100&before={ID}")), (true, ID, 101));
    }

    #[test]
    fn what_cannot_be_a_page_is_refused_with_the_parameters_name() {
        for (query, name) in [
            ("limit=0", "limit"),
            ("limit=101", "limit"),
            ("limit=x", "limit"),
            ("limit=", "limit"),
            ("limit=1&limit=2", "limit"),
            ("after=x", "after"),
            ("before=", "before"),
            ("after=%ff", "after"),
        ] {
            let error = Page::parse(query, ALL).expect_err(query);
            assert!(error.message().contains(&format!("`{name}`")), "{query}: {}", error.message());
        }
        assert!(Page::parse(&format!("after={ID}&before={ID}"), ALL).is_err());
    }

    #[test]
    fn a_page_before_a_cursor_is_shown_newest_first_too() {
        let page = Page::parse(&format!("limit=2&before={ID}"), ALL).expect("valid");
        let list = page.list(vec![1, 2, 3]);
        assert_eq!((list.data, list.has_more), (vec![2, 1], true));
    }

    #[test]
    fn a_leaf_links_to_its_neighbours_only_where_there_are_some() {
        let leaf = |query: &str, rows: &[&'static str]| {
            let leaf = Page::parse(query, RECENT).expect("valid").leaf(rows.to_vec(), "/x", |id| *id);
            (leaf.items, leaf.newer, leaf.older)
        };
        let at = |link: &str| Some(link.to_owned());
        let (after, before) = (format!("after={ID}&limit=2"), format!("before={ID}&limit=2"));
        assert_eq!(leaf("", &["b", "a"]), (vec!["b", "a"], None, None));
        assert_eq!(leaf("limit=2", &["c", "b", "a"]), (vec!["c", "b"], None, at("/x?after=b&limit=2")));
        assert_eq!(leaf(&after, &["b"]), (vec!["b"], at("/x?before=b&limit=2"), None));
        assert_eq!(leaf(&before, &["c", "d"]), (vec!["d", "c"], None, at("/x?after=c&limit=2")));
        let both = (vec!["d", "c"], at("/x?before=d&limit=2"), at("/x?after=c&limit=2"));
        assert_eq!(leaf(&before, &["c", "d", "e"]), both);
        assert_eq!(leaf(&after, &[]), (vec![], at("/x"), None));
    }
}
