//! Tests of the project itself: of its text, not of what it does.
//!
//! Only the standard library is used, so this can be compiled without the rest:
//! `rustc --test --edition 2024 tests/project/main.rs -o /tmp/project && /tmp/project`.

mod imports;
mod rules;
mod walls;

use std::env;
use std::path::PathBuf;

/// Where the project is.
fn root() -> PathBuf {
    env::var("CARGO_MANIFEST_DIR").map_or_else(|_| ".".into(), |tests| PathBuf::from(tests).join(".."))
}
