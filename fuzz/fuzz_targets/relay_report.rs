//! Any bytes as what relays post of mail that they were given: what is told of it is bounded and can be shown.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    posthorn::reports::relay_report(data);
});
