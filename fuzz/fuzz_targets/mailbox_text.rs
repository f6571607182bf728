//! Any bytes as an address with or without a name: what is taken can stand in an
//! envelope and in a header field.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    posthorn::mime::mailbox_text(data);
});
