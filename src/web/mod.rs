//! What all features share on the way in and out: the gate before every
//! request, bodies, queries, pages of lists, rate limits, assets and docs.

pub mod address;
pub mod admission;
pub mod assets;
pub mod attempts;
pub mod body;
pub mod connections;
pub mod docs;
pub mod fetch;
pub mod form;
pub mod fuzzing;
pub mod gate;
pub mod idempotency;
pub mod input;
pub mod layout;
pub mod limit;
pub mod listener;
mod many;
pub mod multipart;
pub mod pagination;
pub mod parameter;
pub mod query;
pub mod reader;
pub mod reference;
pub mod refusals;
pub mod shape;
pub mod shell;
pub mod spool;
mod stream;
pub mod system;
