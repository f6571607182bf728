//! Any bytes as a message that came in: what is read of it is bounded, and alike however it is cut.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    posthorn::mime::received_message(data);
});
