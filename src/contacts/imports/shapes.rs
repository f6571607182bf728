//! What imports look like in requests and answers, for the API's description and
//! for those who read it.

use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use super::apply::{Counts, Problem};
use super::store::Stored;
use crate::clock::rfc3339;
use crate::id::ImportId;

/// A form with a file. What is JSON here is sent as text.
#[derive(ToSchema)]
#[schema(as = NewContactImport)]
#[expect(dead_code, reason = "describes the body to readers of the API's description")]
pub struct NewImport {
    /// A CSV file of at most 50 MB, in UTF-8. Its first row names the columns.
    #[schema(format = Binary, example = "email,first_name\nada@example.com,Ada\n")]
    file: String,
    /// JSON: which column holds what, as `{"email": "E-Mail", "first_name": "Name", "properties": {"plan": {"column":
    /// "Plan", "type": "string"}}}`. Without it columns are known by their names: `email`, `first_name`, `last_name`,
    /// `unsubscribed`, and the keys of declared properties.
    #[schema(example = r#"{"email": "email"}"#)]
    column_map: Option<String>,
    /// What becomes of contacts that are there already: they are skipped, or take over what the file says.
    #[schema(default = "skip", pattern = "^(upsert|skip)?$")]
    on_conflict: Option<String>,
    /// JSON: the segments that the contacts are put into, as `[{"id": "…"}]`.
    #[schema(example = "[]")]
    segments: Option<String>,
    /// JSON: what the contacts choose of topics, as `[{"id": "…", "subscription": "opt_in"}]`.
    #[schema(example = "[]")]
    topics: Option<String>,
}

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
    #[schema(pattern = "^(queued|in_progress|completed|failed)$", example = "completed")]
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
pub struct Whole {
    #[serde(flatten)]
    item: Item,
    /// The first 100 rows that came to nothing, each with the reason.
    errors: Vec<Problem>,
}

impl From<Stored> for Whole {
    fn from(import: Stored) -> Whole {
        Whole { item: Item::new(&import), errors: import.problems }
    }
}

/// Which imports.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes the parameter to readers of the API's description")]
pub struct Filter {
    /// Keeps to imports of one status.
    #[param(pattern = "^(queued|in_progress|completed|failed)$")]
    status: Option<String>,
}
