//! What all features share on the way in and out: the gate before every
//! request, bodies, queries, pages of lists, assets and the reference.

pub mod assets;
pub mod body;
pub mod connections;
pub mod form;
pub mod fuzzing;
pub mod gate;
pub mod idempotency;
pub mod input;
pub mod layout;
pub mod listener;
pub mod many;
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
mod visitor;

pub use system::System;

use crate::db::Sql;

pub const STATEMENTS: &[&[Sql]] = &[idempotency::ALL, system::ALL];
