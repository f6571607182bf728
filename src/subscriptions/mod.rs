//! How people end and choose what they get: links that need no log-in, what mail programs do with
//! one click, and the page on which a person chooses.

mod links;

pub use links::{Links, Subscriber};

/// The keys under which templates name the link with which their recipient unsubscribes.
pub const URL_KEYS: [&str; 2] = ["UNSUBSCRIBE_URL", "RESEND_UNSUBSCRIBE_URL"];
