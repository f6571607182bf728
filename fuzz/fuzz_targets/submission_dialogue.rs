//! Any bytes as what a client of SMTP submission says: commands that can be answered, and
//! a message that ends where it ends, however it is cut.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    posthorn::submission::submission_dialogue(data);
});
