//! Any bytes as the body of `POST /events`: never a panic, never an event that
//! breaks a rule.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    posthorn::events::event_body(data);
});
