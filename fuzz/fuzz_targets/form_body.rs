//! Any bytes as a form with a file: its fields are few and lie within it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    posthorn::web::form_body(data);
});
