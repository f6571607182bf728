//! Any bytes as a template: never a panic, never more than its bounds, and what
//! strangers wrote is escaped unless it is asked for raw.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    posthorn::render::template_text(data);
});
