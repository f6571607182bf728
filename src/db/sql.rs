//! Statements as values: storage functions return them, committers run them.

use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;

use super::{DbError, Guard, Row, Value};

/// The text of a statement. Only [`statements!`](super::statements) makes one,
/// so every text is on a list that a test prepares on both engines. It is known by
/// reference: statements are moved from hand to hand.
#[derive(Clone, Copy)]
pub struct Sql(pub(crate) &'static Text);

/// What there is to know of a text.
pub struct Text {
    pub(super) sqlite: &'static str,
    pub(super) postgres: &'static str,
    pub(super) many: Option<&'static str>,
    pub(super) rows: Option<&'static str>,
    pub(super) raises: bool,
}

/// How many rows SQLite writes by one statement, where it can.
pub(super) const ROWS: usize = 4;

impl Text {
    /// How PostgreSQL does the same for many batches that hold nothing else: with
    /// arrays for parameters, in which each of them has its place. It must change
    /// as many rows as there are batches, and return none; who comes first among
    /// them is left open.
    pub(crate) const fn for_many(self, postgres: &'static str) -> Text {
        Text { many: Some(postgres), ..self }
    }

    /// How SQLite does the same for four that follow each other in a batch, or for
    /// four batches that hold nothing else: with the parameters of one behind those
    /// of the other. It must change a row for each, return none, and be told not to undo itself (`INSERT OR FAIL`), for which
    /// SQLite would keep copies of pages.
    pub(crate) const fn for_rows(self, sqlite: &'static str) -> Text {
        Text { rows: Some(sqlite), ..self }
    }

    /// It takes away what guards look for, so what they said earlier in the group
    /// is asked again.
    pub(crate) const fn raising(self) -> Text {
        Text { raises: true, ..self }
    }
}

impl Sql {
    /// One text for both engines.
    pub(crate) const fn both(text: &'static str) -> Text {
        Sql::each(text, text)
    }

    /// A text for each engine, for the few statements in which they cannot agree.
    pub(crate) const fn each(sqlite: &'static str, postgres: &'static str) -> Text {
        Text { sqlite, postgres, many: None, rows: None, raises: false }
    }

    /// Whether guards are asked again after it.
    pub fn is_raising(&self) -> bool {
        self.0.raises
    }

    /// The text as SQLite reads it, which names the statement in messages.
    pub fn text(&self) -> &'static str {
        self.0.sqlite
    }

    pub fn with<const N: usize>(self, params: [Value; N]) -> Stmt {
        self.with_all(params.into())
    }

    pub fn with_all(self, params: Vec<Value>) -> Stmt {
        Stmt { sql: self, params, expect: None, is_fence: false, limit: None }
    }
}

impl Deref for Sql {
    type Target = Text;

    fn deref(&self) -> &Text {
        self.0
    }
}

impl PartialEq for Sql {
    /// A text is its address: the constants are never built at run time.
    fn eq(&self, other: &Sql) -> bool {
        std::ptr::eq(self.sqlite, other.sqlite)
    }
}

impl Eq for Sql {}

impl Hash for Sql {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.sqlite.as_ptr().hash(state);
    }
}

impl std::fmt::Debug for Sql {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.sqlite)
    }
}

/// A statement with its parameters, and the number of rows it must touch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stmt {
    pub(super) sql: Sql,
    pub(super) params: Vec<Value>,
    pub(super) expect: Option<u64>,
    pub(super) is_fence: bool,
    pub(super) limit: Option<Box<Limit>>,
}

/// How much statements may read. One ends behind the row that reaches the limit,
/// and then tells whether there were more.
#[derive(Debug, Clone)]
pub struct ReadLimit {
    bytes: usize,
    is_cut: Arc<AtomicBool>,
}

impl ReadLimit {
    pub fn new(bytes: usize) -> ReadLimit {
        ReadLimit { bytes, is_cut: Arc::default() }
    }

    /// Whether the last statement ended before its last row.
    pub fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Relaxed)
    }
}

impl PartialEq for ReadLimit {
    fn eq(&self, other: &ReadLimit) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for ReadLimit {}

/// The limit of one statement, and whom to tell that it was reached.
#[derive(Clone)]
pub(super) struct Limit {
    bytes: usize,
    tell: Arc<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.bytes)
    }
}

impl PartialEq for Limit {
    fn eq(&self, other: &Limit) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Limit {}

impl Hash for Limit {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes.hash(state);
    }
}

/// Rows as they are read, up to the limit of their statement.
pub(super) struct Rows<'a> {
    limit: Option<&'a Limit>,
    bytes: usize,
    pub rows: Vec<Row>,
}

impl<'a> Rows<'a> {
    pub fn new(limit: Option<&'a Limit>) -> Rows<'a> {
        Rows { limit, bytes: 0, rows: Vec::new() }
    }

    /// Whether no more is to be read, because there would be one more row.
    pub fn is_full(&self) -> bool {
        let is_full = self.limit.is_some_and(|limit| self.bytes >= limit.bytes);
        if let Some(limit) = self.limit.filter(|_| is_full) {
            (limit.tell)();
        }
        is_full
    }

    pub fn push(&mut self, row: Row) {
        if self.limit.is_some() {
            self.bytes += row.size();
        }
        self.rows.push(row);
    }
}

impl Stmt {
    /// Compare-and-set: the batch is undone unless exactly so many rows change
    /// (or, for a statement that only reads, are found).
    pub fn expect(mut self, rows: u64) -> Stmt {
        self.expect = Some(rows);
        self
    }

    /// About how many bytes its parameters hold.
    pub(super) fn size(&self) -> usize {
        self.params.iter().map(Value::size).sum()
    }

    /// What has happened where it touched another number of rows than it must.
    pub(super) fn missed(&self, statement: usize) -> DbError {
        if self.is_fence { DbError::Stale } else { DbError::Unexpected { statement } }
    }

    /// Reads no more than a limit.
    pub fn within(mut self, limit: &ReadLimit) -> Stmt {
        let is_cut = limit.is_cut.clone();
        is_cut.store(false, Ordering::Relaxed);
        let tell = Arc::new(move || is_cut.store(true, Ordering::Relaxed));
        self.limit = Some(Box::new(Limit { bytes: limit.bytes, tell }));
        self
    }
}

/// Statements that are committed together or not at all.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    pub(super) stmts: SmallVec<[Stmt; 2]>,
    pub(super) guards: SmallVec<[Guard; 1]>,
    /// What it locks first, if others may lock it too.
    pub(super) locks: Option<String>,
}

impl Batch {
    pub fn new() -> Batch {
        Batch::default()
    }

    #[must_use]
    pub fn and(mut self, stmt: Stmt) -> Batch {
        self.stmts.push(stmt);
        self
    }

    pub fn push(&mut self, stmt: Stmt) {
        self.stmts.push(stmt);
    }

    /// Says what the batch locks first, so that batches of one group lock in one
    /// order, whatever order they came in.
    pub fn lock(&mut self, what: impl ToString) {
        self.locks.get_or_insert_with(|| what.to_string());
    }

    /// How many statements it holds so far.
    pub fn len(&self) -> usize {
        self.stmts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.stmts.is_empty()
    }

    /// Takes over all that another batch holds.
    pub fn append(&mut self, other: Batch) {
        self.stmts.extend(other.stmts);
        self.guards.extend(other.guards);
        self.locks = self.locks.take().or(other.locks);
    }

    /// The same statements with different parameters behind each other, in the order
    /// in which each of them came first: SQLite runs those as one where it can.
    #[must_use]
    pub fn alike_together(mut self) -> Batch {
        let mut texts: SmallVec<[Sql; 4]> = SmallVec::new();
        for stmt in &self.stmts {
            if !texts.contains(&stmt.sql) {
                texts.push(stmt.sql);
            }
        }
        self.stmts.sort_by_key(|stmt| texts.iter().position(|text| *text == stmt.sql));
        self
    }

    /// The batch is refused as stale where the guard does not hold.
    #[must_use]
    pub fn when(mut self, guard: impl Into<Guard>) -> Batch {
        self.guard(guard);
        self
    }

    /// As [`Batch::when`].
    pub fn guard(&mut self, guard: impl Into<Guard>) {
        self.guards.push(guard.into());
    }

    /// A guard that excludes: a reading statement that must find its row, asked in
    /// its place among the statements, whatever was asked before. On PostgreSQL
    /// its text locks the row (`FOR SHARE`), so nobody changes it before the
    /// commit; and whoever has changed it is waited for, and seen. It belongs
    /// before the statements that rely on it, and counts as one of them.
    #[must_use]
    pub fn fence(mut self, stmt: Stmt) -> Batch {
        self.stmts.push(Stmt { expect: Some(1), is_fence: true, ..stmt });
        self
    }

    /// Whether it takes away what guards look for.
    pub(super) fn is_raising(&self) -> bool {
        self.stmts.iter().any(|stmt| stmt.sql.raises)
    }
}

impl From<Stmt> for Batch {
    fn from(stmt: Stmt) -> Batch {
        Batch::new().and(stmt)
    }
}

impl FromIterator<Stmt> for Batch {
    fn from_iter<I: IntoIterator<Item = Stmt>>(stmts: I) -> Batch {
        Batch { stmts: stmts.into_iter().collect(), ..Batch::default() }
    }
}
