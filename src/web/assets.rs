//! Styles, script and icon: compiled in, named by their content, kept for ever
//! by browsers.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap};
use sha2::{Digest, Sha256};

use super::compression::StaticContent;
use crate::error::Error;

struct Asset {
    /// Name, hash and ending, such as `app.1a2b3c4d.css`.
    name: String,
    kind: &'static str,
    content: StaticContent,
}

static CSS: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("app", "css", "text/css; charset=utf-8", include_str!("../../assets/app.css")));
static SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("app", "js", "text/javascript; charset=utf-8", include_str!("../../assets/app.js")));
static DOCS_SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("docs", "js", "text/javascript; charset=utf-8", include_str!("../../assets/docs.js")));
static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("icon", "svg", "image/svg+xml", include_str!("../../assets/icon.svg")));

impl Asset {
    fn new(stem: &str, ending: &str, kind: &'static str, content: &'static str) -> Asset {
        let digest = Sha256::digest(content.as_bytes());
        let hash: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
        Asset { name: format!("{stem}.{hash}.{ending}"), kind, content: StaticContent::new(content) }
    }
}

/// The addresses of the assets below a path.
pub struct Addresses {
    pub css: String,
    pub script: String,
    pub icon: String,
}

pub fn below(path: &str) -> Addresses {
    let address = |asset: &Asset| format!("{path}/assets/{}", asset.name);
    Addresses { css: address(&CSS), script: address(&SCRIPT), icon: address(&ICON) }
}

/// The address of what the pages of the documentation have beside.
pub fn docs_script(path: &str) -> String {
    format!("{path}/assets/{}", DOCS_SCRIPT.name)
}

pub fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route("/assets/{name}", get(serve))
}

async fn serve(Path(name): Path<String>, asked: HeaderMap) -> Response {
    let asset = [&*CSS, &*SCRIPT, &*DOCS_SCRIPT, &*ICON].into_iter().find(|asset| asset.name == name);
    let Some(asset) = asset else {
        return Error::not_found("There is no such asset.").into_response();
    };
    let headers = [(CONTENT_TYPE, asset.kind), (CACHE_CONTROL, "public, max-age=31536000, immutable")];
    asset.content.answer(&asked, |content| (headers, content).into_response())
}
