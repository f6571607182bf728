//! An entry point for fuzzers: it takes any bytes and panics when a promise is
//! broken.

use crate::csv::{MOST_COLUMNS, Scan, scan};

/// Any bytes as a CSV file: reading it ends, takes every byte once, and no row
/// has more columns than a row may. Tells how many rows there are.
pub fn csv_file(data: &[u8]) -> usize {
    let (mut at, mut rows) = (0, 0);
    while let Scan::Record(record) = scan(&data[at..], true) {
        assert!(record.bytes > 0 && record.lines > 0, "a row takes something");
        assert!(record.fields.map_or(0, |fields| fields.len()) <= MOST_COLUMNS);
        at += record.bytes;
        rows += 1;
    }
    assert_eq!(at, data.len(), "all of the file is read");
    rows
}
