//! Any bytes as a message that somebody else has written: what is read out of it is
//! bounded, and its head loses nothing.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    posthorn::mime::written_message(data);
});
