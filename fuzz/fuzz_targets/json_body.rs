//! Any bytes as a JSON body: its values are never counted short, and an array is
//! split into what it holds.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    posthorn::web::json_body(data);
});
