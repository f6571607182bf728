//! Tests of the project itself: of its text, not of what it does.
//!
//! Only the standard library is used, so this can be compiled without the rest:
//! `rustc --test --edition 2024 tests/project/main.rs -o /tmp/project && /tmp/project`.

mod imports;
mod rules;
mod walls;
