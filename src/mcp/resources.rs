//! What assistants can read: the guides, at the addresses at which everybody reads them as Markdown.

use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents};
use serde_json::json;

use crate::docs::{self, Guide};
use crate::text::shown;

const MARKDOWN: &str = "text/markdown";

/// The guides of the server at `base`.
pub fn list(base: &str) -> Vec<Resource> {
    let guide = |guide: &Guide| {
        Resource::new(address(base, guide), guide.slug)
            .with_title(guide.title())
            .with_description(guide.summary())
            .with_mime_type(MARKDOWN)
    };
    docs::guides().iter().map(guide).collect()
}

pub fn read(base: &str, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let Some(guide) = docs::guides().iter().find(|guide| address(base, guide) == uri) else {
        let message = format!("There is no resource `{}`. `resources/list` names those there are.", shown(uri));
        return Err(ErrorData::resource_not_found(message, Some(json!({"uri": uri}))));
    };
    let contents = ResourceContents::text(guide.text(base), uri).with_mime_type(MARKDOWN);
    Ok(ReadResourceResult::new(vec![contents]))
}

fn address(base: &str, guide: &Guide) -> String {
    format!("{base}/docs/{}.md", guide.slug)
}
