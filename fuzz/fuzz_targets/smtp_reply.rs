//! Any bytes as what a mail server says: its answers are bounded and can be shown.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    posthorn::smtp::smtp_reply(data);
});
