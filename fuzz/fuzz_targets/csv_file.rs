//! Any bytes as a CSV file: every byte is read once, and columns are bounded.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    posthorn::contacts::csv_file(data);
});
