//! What imports look like in requests and answers, for the API's description and
//! for those who read it.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::apply::{Counts, Problem};
use super::store::Stored;
use crate::clock::rfc3339;
use crate::id::ImportId;
use crate::text::words;

/// The answer to a file: which import it has become.
#[derive(Serialize, ToSchema)]
#[schema(as = ContactImportReference)]
pub struct Reference {
    #[schema(pattern = "^contact_import$")]
    object: &'static str,
    #[schema(value_type = Uuid)]
    id: ImportId,
}

impl Reference {
    pub fn to(id: ImportId) -> Reference {
        Reference { object: "contact_import", id }
    }
}

/// A file of contacts, and how far it is.
#[derive(Serialize, ToSchema)]
#[schema(as = ContactImport)]
pub struct Item {
    #[schema(pattern = "^contact_import$")]
    object: &'static str,
    #[schema(value_type = Uuid)]
    id: ImportId,
    #[schema(value_type = ImportStatus, example = "completed")]
    status: String,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime, required = true)]
    completed_at: Option<String>,
    counts: Counts,
}

impl Item {
    pub fn new(import: &Stored) -> Item {
        Item {
            object: "contact_import",
            id: import.id,
            status: import.status.clone(),
            created_at: rfc3339(import.created_at),
            completed_at: import.completed_at.map(rfc3339),
            counts: import.counts.clone(),
        }
    }
}

/// An import with the rows that failed.
#[derive(Serialize, ToSchema)]
#[schema(as = WholeContactImport)]
pub struct ImportDetail {
    #[serde(flatten)]
    item: Item,
    /// The first 100 rows that came to nothing, each with the reason.
    errors: Vec<Problem>,
}

impl From<Stored> for ImportDetail {
    fn from(import: Stored) -> ImportDetail {
        ImportDetail { item: Item::new(&import), errors: import.problems }
    }
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

words!(ImportStatus { Queued = "queued", InProgress = "in_progress", Completed = "completed", Failed = "failed" });
