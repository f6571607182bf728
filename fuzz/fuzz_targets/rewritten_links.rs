//! Any bytes as an HTML body in pieces: whatever is no address of a link is copied, and the
//! pieces do not matter.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    posthorn::tracking::rewritten_links(data);
});
