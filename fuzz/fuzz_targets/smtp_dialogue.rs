//! Any bytes as what a client of SMTP says: commands that can be answered, and
//! a message that ends where it ends, however it is cut.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    posthorn::smtp_server::smtp_dialogue(data);
});
