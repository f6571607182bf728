//! Any bytes as the query of `GET /oauth/authorize`: never a panic, never a
//! redirect to a place that was not registered.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| posthorn::oauth::raw_query(data));
