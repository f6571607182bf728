//! Any bytes as a message that may report something: what is told of it is bounded and can be shown.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    posthorn::reports::report_message(data);
});
