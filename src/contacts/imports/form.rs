//! The form that an import comes in. What is JSON in it is sent as text.

use std::ops::Range;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::plan::CellKind;
use crate::segments::SegmentList;
use crate::topics::ChoiceList;
use crate::web::{self, Shape};

/// A form with a file. What is JSON here is sent as text.
#[derive(Deserialize, ToSchema)]
#[schema(as = NewContactImport)]
pub struct NewImport {
    /// A CSV file of at most 50 MB, in UTF-8. Its first row names the columns.
    #[schema(value_type = String, format = Binary, example = "email,first_name\nada@example.com,Ada\n")]
    pub file: Range<usize>,
    /// JSON: which column holds what, as `{"email": "E-Mail", "first_name": "Name", "properties": {"plan": {"column":
    /// "Plan", "type": "string"}}}`. Without it columns are known by their names: `email`, `first_name`, `last_name`,
    /// `unsubscribed`, and the keys of declared properties.
    #[schema(value_type = Option<String>, example = r#"{"email": "email"}"#)]
    pub column_map: Option<JsonText<ColumnMap>>,
    /// JSON: the segments that the contacts are put into, as `[{"id": "…"}]`.
    #[schema(value_type = Option<String>, example = "[]")]
    pub segments: Option<JsonText<SegmentList>>,
    /// JSON: what the contacts choose of topics, as `[{"id": "…", "subscription": "opt_in"}]`.
    #[schema(value_type = Option<String>, example = "[]")]
    pub topics: Option<JsonText<ChoiceList>>,
    /// What becomes of contacts that are there already: they are skipped, or take over what the file says.
    #[schema(value_type = Option<OnConflict>, default = "skip")]
    pub on_conflict: Option<OnConflict>,
}

/// What an import does with contacts that are there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnConflict {
    Upsert,
    Skip,
}

/// Which column holds what.
#[derive(Default, Deserialize)]
pub struct ColumnMap {
    pub email: Option<String>,
    /// Each a column's name, or a [`ColumnProperty`].
    pub properties: Option<Map<String, Value>>,
    pub first_name: Option<String>,
    pub last_name: Option<String>,
    pub unsubscribed: Option<String>,
}

/// A column by its name, with the type of its cells.
#[derive(Deserialize)]
pub struct ColumnProperty {
    pub column: String,
    #[serde(rename = "type")]
    pub kind: Option<CellKind>,
}

/// A field of a form whose text is JSON; null is none.
pub struct JsonText<T>(pub Option<T>);

impl<'de, T: DeserializeOwned> Deserialize<'de> for JsonText<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<JsonText<T>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let too_much = |error: crate::error::Error| D::Error::custom(format!("is too large. {}", error.message()));
        Shape::of(text.as_bytes()).check().map_err(too_much)?;
        let value = serde_json::from_str(&text);
        let value = value.map_err(|error| D::Error::custom(format!("is not valid JSON: {error}")))?;
        web::read_value(value).map(JsonText).map_err(D::Error::custom)
    }
}
