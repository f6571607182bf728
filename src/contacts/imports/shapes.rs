//! What imports look like in requests and answers, for the API's description and
//! for those who read it.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::apply::{Counts, Problem};
use crate::clock::Time;
use crate::id::ImportId;
use crate::text::words;
use crate::web;

pub type Reference = web::Reference<ImportId>;

/// A file of contacts, and how far it is.
#[derive(Serialize, ToSchema)]
#[schema(as = ContactImport)]
pub struct Item {
    #[schema(pattern = "^contact_import$")]
    pub(super) object: &'static str,
    #[schema(value_type = Uuid)]
    pub(super) id: ImportId,
    #[schema(value_type = ImportStatus, example = "completed")]
    pub(super) status: String,
    #[schema(value_type = String, format = DateTime)]
    pub(super) created_at: Time,
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    pub(super) completed_at: Option<Time>,
    pub(super) counts: Counts,
}

/// An import with the rows that failed.
#[derive(Serialize, ToSchema)]
#[schema(as = ContactImportDetail)]
pub struct ImportDetail {
    #[serde(flatten)]
    pub(super) item: Item,
    /// The first 100 rows that came to nothing, each with the reason.
    pub(super) errors: Vec<Problem>,
}

/// Which imports.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Filter {
    /// Keeps to imports of one status.
    #[param(inline)]
    pub status: Option<ImportStatus>,
}

/// How far an import is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImportStatus {
    Queued,
    InProgress,
    Completed,
    Failed,
}

words!(ImportStatus: ALL, parse { Queued = "queued", InProgress = "in_progress", Completed = "completed", Failed = "failed" });
