//! Any bytes as what a message is made of: clean lines, and no field that nobody
//! asked for.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    posthorn::mime::composed_message(data);
});
