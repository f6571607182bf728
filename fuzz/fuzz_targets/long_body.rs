//! Any bytes as a JSON body with long values: these are read as they were written.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    posthorn::web::long_body(data);
});
