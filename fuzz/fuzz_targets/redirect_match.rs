//! Two texts as a registered and a requested redirect URI: accepted means equal,
//! or equal once one loopback port is deleted.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| posthorn::oauth::redirect_match(data));
