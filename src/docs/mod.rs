//! The documentation that the server shows of itself: guides, the API reference, a page for each resource, and a
//! search over both. A page is made when somebody first asks for it, and is the same for everybody from then on.

mod guides;
mod markdown;
mod reference;
mod search;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use askama::Template;
use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap};
use http::{StatusCode, header};

use crate::app::App;
use crate::error::Error;
use crate::memory::{Lazily, made_apart};
use crate::web::{self, Layout, Link, Params, ShownDescription, StaticContent};
pub use guides::Guide;
use markdown::Section;
pub use reference::Call;
use reference::Resource;

const MARKDOWN: &str = "text/markdown; charset=utf-8";
const JSON: &str = "application/json";
const PLAIN: &str = "text/plain; charset=utf-8";

/// The pages that were asked for so far. Clones share them.
#[derive(Clone)]
pub struct Docs(Arc<DocsState>);

struct DocsState {
    app: App,
    described: Lazily<ShownDescription>,
    catalogue: OnceLock<Catalogue>,
    /// What can be found.
    index: OnceLock<Vec<search::Entry>>,
    pages: Mutex<HashMap<String, Arc<StaticContent>>>,
}

/// What there is in the reference, without its details.
struct Catalogue {
    resources: Vec<Heading>,
}

/// A resource, as lists show it.
struct Heading {
    name: String,
    slug: String,
    operations: Vec<Entry>,
}

/// An operation, as lists show it.
struct Entry {
    id: String,
    method: String,
    verb_class: &'static str,
    path: String,
    summary: String,
    about: String,
}

pub fn routes(app: App, described: Lazily<ShownDescription>) -> Router {
    let state =
        DocsState { app, described, catalogue: OnceLock::new(), index: OnceLock::new(), pages: Mutex::default() };
    Router::new()
        .route("/docs", get(home))
        .route("/docs/search", get(find))
        .route("/docs/search.json", get(index))
        .route("/docs/{page}", get(guide))
        .route("/docs/api/{resource}", get(resource))
        .route("/llms.txt", get(llms))
        .with_state(Docs(Arc::new(state)))
}

/// In the order in which they are shown.
pub fn guides() -> &'static [Guide] {
    guides::ALL
}

async fn home(State(docs): State<Docs>, asked: HeaderMap) -> Response {
    docs.page("", &asked, || {
        let start = &guides::ALL[0];
        let others = guides::ALL[1..].iter().map(|guide| Topic {
            href: docs.link(guide.slug),
            title: guide.title(),
            summary: guide.summary(),
        });
        let page = HomePage {
            layout: docs.layout(),
            frame: docs.frame(""),
            start: start.render(docs.base(), &docs.path()).html,
            guides: others.collect(),
            resources: &docs.catalogue().resources,
        };
        page.render()
    })
}

async fn guide(State(docs): State<Docs>, Path(page): Path<String>, asked: HeaderMap) -> Response {
    if page == "api" {
        return Redirect::permanent(&format!("{}#reference", docs.path())).into_response();
    }
    if let Some(guide) = page.strip_suffix(".md").and_then(guides::find) {
        return docs.text(&page, &asked, MARKDOWN, || guide.text(docs.base()));
    }
    let Some(guide) = guides::find(&page) else { return docs.nowhere(&page) };
    docs.page(&page, &asked, || {
        let made = guide.render(docs.base(), &docs.path());
        let page = GuidePage {
            layout: docs.layout(),
            frame: docs.frame(guide.slug),
            title: made.title,
            html: made.html,
            sections: made.sections.into_iter().filter(|section| section.level == 2).collect(),
            twin: docs.link(&format!("{}.md", guide.slug)),
        };
        page.render()
    })
}

async fn resource(State(docs): State<Docs>, Path(slug): Path<String>, asked: HeaderMap) -> Response {
    let Some(heading) = docs.catalogue().resources.iter().find(|resource| resource.slug == slug) else {
        return docs.nowhere(&slug);
    };
    let key = format!("api/{slug}");
    docs.page(&key, &asked, || {
        let document = docs.0.described.get().document();
        let page = ResourcePage {
            layout: docs.layout(),
            frame: docs.frame(&key),
            errors: docs.link("errors"),
            resource: Resource::new(&document, &heading.name),
        };
        page.render()
    })
}

async fn index(State(docs): State<Docs>, asked: HeaderMap) -> Response {
    docs.text("search.json", &asked, JSON, || serde_json::to_string(docs.index()).unwrap_or_default())
}

/// For those without a script.
async fn find(State(docs): State<Docs>, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    let question = Params::parse(&query).text("q").unwrap_or_default();
    docs.results(StatusCode::OK, &question)
}

/// What assistants are told of the documentation, as <https://llmstxt.org> proposes.
async fn llms(State(docs): State<Docs>, asked: HeaderMap) -> Response {
    docs.text("llms.txt", &asked, PLAIN, || {
        let base = docs.base();
        let mut text = format!(
            "# Posthorn\n\n> An e-mail platform that people run themselves. Its API is at {base}; \
             authenticate with `Authorization: Bearer <API key>`.\n\n## Guides\n\n"
        );
        for guide in guides::ALL {
            text.push_str(&format!("- [{}]({base}/docs/{}.md): {}\n", guide.title(), guide.slug, guide.summary()));
        }
        text.push_str(&format!("\n## Reference\n\n- [OpenAPI description]({base}/openapi.json): the whole API\n"));
        for resource in &docs.catalogue().resources {
            let count = resource.operations.len();
            text.push_str(&format!("- [{}]({base}/docs/api/{}): {count} operations\n", resource.name, resource.slug));
        }
        text
    })
}

impl Docs {
    fn base(&self) -> &str {
        self.0.app.addresses.base.as_str()
    }

    /// The path that all pages are below.
    fn path(&self) -> String {
        format!("{}/docs", self.0.app.addresses.base.path())
    }

    fn link(&self, page: &str) -> String {
        format!("{}/{page}", self.path())
    }

    fn layout(&self) -> Layout {
        Layout::beside_api(&self.0.app)
    }

    fn catalogue(&self) -> &Catalogue {
        self.0.catalogue.get_or_init(|| made_apart(|| reference::catalogue(&self.0.described.get().document())))
    }

    fn index(&self) -> &[search::Entry] {
        self.0.index.get_or_init(|| search::index(self.catalogue(), self.base()))
    }

    fn frame(&self, current: &str) -> Frame {
        let place = |page: String, label: &str| Place {
            is_current: page == current,
            link: Link { href: self.link(&page), label: label.to_owned() },
        };
        let guides = guides::ALL.iter().map(|guide| place(guide.slug.into(), guide.title()));
        let resources = self.catalogue().resources.iter();
        Frame {
            docs: self.path(),
            script: web::docs_script(self.0.app.addresses.base.path()),
            question: String::new(),
            guides: guides.collect(),
            resources: resources.map(|one| place(format!("api/{}", one.slug), &one.name)).collect(),
        }
    }

    fn page(&self, key: &str, asked: &HeaderMap, make: impl FnOnce() -> askama::Result<String> + Send) -> Response {
        let made = self.kept(key, || {
            let html = make();
            if let Err(error) = &html {
                tracing::error!(%error, "a page of the documentation could not be rendered");
            }
            html.ok()
        });
        made.map_or_else(|| Error::Internal.into_response(), |page| page.answer(asked, web::rendered))
    }

    fn text(&self, key: &str, asked: &HeaderMap, kind: &'static str, make: impl FnOnce() -> String + Send) -> Response {
        let headers = [(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-cache")];
        match self.kept(key, || Some(make())) {
            Some(text) => text.answer(asked, |text| (headers, text).into_response()),
            None => Error::Internal.into_response(),
        }
    }

    /// What was made under this key, or is made now. Two who ask first may both make it.
    fn kept(&self, key: &str, make: impl FnOnce() -> Option<String> + Send) -> Option<Arc<StaticContent>> {
        let pages = || self.0.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(page) = pages().get(key) {
            return Some(page.clone());
        }
        let made = Arc::new(StaticContent::new(made_apart(make)?));
        pages().insert(key.to_owned(), made.clone());
        Some(made)
    }

    fn nowhere(&self, page: &str) -> Response {
        self.results(StatusCode::NOT_FOUND, &page.replace(['-', '_'], " "))
    }

    fn results(&self, status: StatusCode, question: &str) -> Response {
        let page = SearchPage {
            layout: self.layout(),
            frame: Frame { question: question.to_owned(), ..self.frame("search") },
            is_missing: status == StatusCode::NOT_FOUND,
            found: search::find(self.index(), question),
        };
        let mut response = web::page(status, &page);
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, web::DOCS_POLICY);
        response
    }
}

/// What stands around every page: the search, and the way to all others.
struct Frame {
    docs: String,
    script: String,
    question: String,
    guides: Vec<Place>,
    resources: Vec<Place>,
}

struct Place {
    link: Link,
    is_current: bool,
}

struct Topic {
    href: String,
    title: &'static str,
    summary: String,
}

#[derive(Template)]
#[template(path = "docs/home.html")]
struct HomePage<'a> {
    layout: Layout,
    frame: Frame,
    /// The quick start.
    start: String,
    guides: Vec<Topic>,
    resources: &'a [Heading],
}

#[derive(Template)]
#[template(path = "docs/guide.html")]
struct GuidePage {
    layout: Layout,
    frame: Frame,
    title: String,
    html: String,
    sections: Vec<Section>,
    twin: String,
}

#[derive(Template)]
#[template(path = "docs/resource.html")]
struct ResourcePage {
    layout: Layout,
    frame: Frame,
    resource: Resource,
    errors: String,
}

#[derive(Template)]
#[template(path = "docs/search.html")]
struct SearchPage<'a> {
    layout: Layout,
    frame: Frame,
    is_missing: bool,
    found: Vec<&'a search::Entry>,
}
