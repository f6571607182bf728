//! Rows of a CSV file (RFC 4180), found in a window on it. Quotes may hold
//! commas, quotes and line breaks; lines end as on any system.

/// A row of the file.
#[derive(Debug, PartialEq, Eq)]
pub struct Record {
    /// What the row holds, or what is wrong with it. A blank line holds nothing.
    pub fields: Result<Vec<String>, &'static str>,
    /// How many bytes it takes, its end of line included.
    pub bytes: usize,
    /// How many lines it takes.
    pub lines: i64,
}

/// What stands at the start of a window.
#[derive(Debug, PartialEq, Eq)]
pub enum Scan {
    Record(Record),
    /// The row may go on behind the window.
    More,
    /// Nothing any more.
    End,
}

/// What files begin with that were saved by some programs.
pub const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// How many columns a file may have.
pub const MOST_COLUMNS: usize = 1000;

const TOO_MANY_COLUMNS: &str = "The row has more than 1000 columns.";
const UNCLOSED: &str = "A quote in this row is never closed. Nothing behind it was read.";
const BEHIND_QUOTE: &str = "There is text behind a closing quote. Double a quote that belongs to the text.";
const NOT_UTF8: &str = "The row is not UTF-8 text.";

#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    FieldStart,
    Plain,
    Quoted,
    /// Behind the quote that ends a field.
    Closed,
}

/// Reads the row at the start of `window`; `is_last` says that the file ends
/// where the window does.
pub fn scan(window: &[u8], is_last: bool) -> Scan {
    if window.is_empty() {
        return if is_last { Scan::End } else { Scan::More };
    }
    let mut row = Row { at: At::FieldStart, fields: Vec::new(), field: Vec::new(), was_quoted: false, flaw: None };
    let (mut index, mut lines) = (0, 0);
    while let Some(&byte) = window.get(index) {
        let next = window.get(index + 1).copied();
        if next.is_none() && !is_last {
            // What this byte means may depend on the one behind it.
            return Scan::More;
        }
        match (row.at, byte) {
            (At::Quoted, b'"') if next == Some(b'"') => {
                row.field.push(b'"');
                index += 1;
            }
            (At::Quoted, b'"') => row.at = At::Closed,
            (At::Quoted, _) => {
                lines += i64::from(byte == b'\n' || (byte == b'\r' && next != Some(b'\n')));
                row.field.push(byte);
            }
            (_, b'\n' | b'\r') => {
                let end = index + if byte == b'\r' && next == Some(b'\n') { 2 } else { 1 };
                return Scan::Record(Record { fields: row.finish(), bytes: end, lines: lines + 1 });
            }
            (at, byte) => row.take(at, byte),
        }
        index += 1;
    }
    if !is_last {
        return Scan::More;
    }
    if row.at == At::Quoted {
        row.flaw = Some(UNCLOSED);
    }
    Scan::Record(Record { fields: row.finish(), bytes: window.len(), lines: lines + 1 })
}

/// Writes a row, with every field in quotes.
pub fn write<'a>(fields: impl IntoIterator<Item = &'a str>, out: &mut String) {
    for (at, field) in fields.into_iter().enumerate() {
        out.push_str(if at > 0 { ",\"" } else { "\"" });
        out.push_str(&field.replace('"', "\"\""));
        out.push('"');
    }
    out.push_str("\r\n");
}

/// A row in the making.
struct Row {
    at: At,
    fields: Vec<Vec<u8>>,
    field: Vec<u8>,
    was_quoted: bool,
    flaw: Option<&'static str>,
}

impl Row {
    /// A byte that stands neither in quotes nor at the end of a line.
    fn take(&mut self, at: At, byte: u8) {
        match (at, byte) {
            (_, b',') => {
                if self.fields.len() + 1 < MOST_COLUMNS {
                    self.fields.push(std::mem::take(&mut self.field));
                } else {
                    self.flaw = Some(TOO_MANY_COLUMNS);
                    self.field.clear();
                }
                self.at = At::FieldStart;
            }
            (At::FieldStart, b'"') => {
                self.was_quoted = true;
                self.at = At::Quoted;
            }
            _ => {
                if at == At::Closed {
                    self.flaw = Some(BEHIND_QUOTE);
                }
                self.field.push(byte);
                self.at = At::Plain;
            }
        }
    }

    fn finish(mut self) -> Result<Vec<String>, &'static str> {
        if let Some(flaw) = self.flaw {
            return Err(flaw);
        }
        if self.fields.is_empty() && self.field.is_empty() && !self.was_quoted {
            return Ok(Vec::new());
        }
        self.fields.push(self.field);
        self.fields.into_iter().map(|field| String::from_utf8(field).map_err(|_| NOT_UTF8)).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Fields = Result<Vec<String>, &'static str>;

    /// Every row of a file with the line that it begins in.
    fn read(file: &[u8]) -> Vec<(i64, Fields)> {
        let (mut rows, mut at, mut line) = (Vec::new(), 0, 1);
        while let Scan::Record(record) = scan(&file[at..], true) {
            assert!(record.bytes > 0 && record.lines > 0, "a row takes something");
            at += record.bytes;
            rows.push((line, record.fields));
            line += record.lines;
        }
        assert_eq!(at, file.len(), "all of the file is read");
        rows
    }

    fn row(fields: &[&str]) -> Fields {
        Ok(fields.iter().map(|field| (*field).to_owned()).collect())
    }

    #[test]
    fn rows_end_as_on_any_system_and_quotes_hold_anything() {
        let rows = read(b"a,b\r\n\"x, \"\"y\"\"\",\"1\n2\r\n3\"\n\n,\rlast,\"\"");
        let quoted = row(&["x, \"y\"", "1\n2\r\n3"]);
        assert_eq!(
            rows,
            [(1, row(&["a", "b"])), (2, quoted), (5, row(&[])), (6, row(&["", ""])), (7, row(&["last", ""]))]
        );
        assert_eq!(read(b""), []);
        assert_eq!(read(b"a\n"), [(1, row(&["a"]))]);
        assert_eq!(read(b"\"\"\n"), [(1, row(&[""]))], "a quoted nothing is a field");
        assert_eq!(read(b"5\" wide,x"), [(1, row(&["5\" wide", "x"]))], "a quote within text is text");
    }

    #[test]
    fn a_doubled_quote_at_the_edge_of_a_window_ends_no_row() {
        assert_eq!(scan(b"\"\"\"", false), Scan::More);
        assert_eq!(scan(b"a\r", false), Scan::More);
        assert_eq!(scan(b"a\n", false), Scan::More);
    }

    #[test]
    fn a_bad_row_does_not_spoil_its_neighbours() {
        let rows = read(b"a\n\"b\"c,d\n\xff,x\ne\n\"never\nclosed");
        let flaws = [Err(BEHIND_QUOTE), Err(NOT_UTF8)];
        assert_eq!(rows[1..3].iter().map(|(_, fields)| fields.clone()).collect::<Vec<_>>(), flaws);
        assert_eq!(rows[3..], [(4, row(&["e"])), (5, Err(UNCLOSED))]);
    }

    #[test]
    fn columns_are_counted_before_they_are_kept() {
        assert_eq!(read(",".repeat(MOST_COLUMNS - 1).as_bytes())[0].1.as_ref().map(Vec::len), Ok(MOST_COLUMNS));
        let rows = read(format!("{}\na\n", ",".repeat(MOST_COLUMNS)).as_bytes());
        assert_eq!(rows, [(1, Err(TOO_MANY_COLUMNS)), (2, row(&["a"]))]);
    }

    fn written(rows: &[Vec<String>], end: &str) -> String {
        let line = |row: &Vec<String>| {
            let mut line = String::new();
            write(row.iter().map(String::as_str), &mut line);
            line.strip_suffix("\r\n").expect("an end").to_owned() + end
        };
        rows.iter().map(line).collect()
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            rows in prop::collection::vec(prop::collection::vec(any::<String>(), 1..5), 0..6),
            end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
        ) {
            let found: Vec<Fields> = read(written(&rows, end).as_bytes()).into_iter().map(|(_, fields)| fields).collect();
            prop_assert_eq!(found, rows.into_iter().map(Ok).collect::<Vec<Fields>>());
        }

        /// Whatever the file is, reading it ends, and takes every byte once.
        #[test]
        fn nothing_makes_it_panic_or_stand_still(file in prop::collection::vec(any::<u8>(), 0..200)) {
            read(&file);
        }

        #[test]
        fn nothing_of_what_matters_to_it_does(file in "[a,\"\r\n]{0,40}") {
            read(file.as_bytes());
        }

        /// Where the window ends makes no difference to what is found in it.
        #[test]
        fn a_smaller_window_shows_the_same_row_or_asks_for_more(file in "[aü,\"\r\n]{1,30}", cut in 0..30usize) {
            let file = file.as_bytes();
            let cut = cut.min(file.len());
            let small = scan(&file[..cut], false);
            prop_assert!(small == Scan::More || small == scan(file, true));
        }
    }
}
