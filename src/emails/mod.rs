//! Emails: what is handed in to be sent, and what became of it.

mod state;

pub use state::State;
