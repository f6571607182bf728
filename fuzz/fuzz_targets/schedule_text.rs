//! Any bytes as the time of a mail: one that is understood lies within 30 days.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    posthorn::emails::schedule_text(data);
});
