//! What every page needs around its content, and the pages that belong to no
//! feature.

use std::sync::Arc;

use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use bytes::Bytes;
use http::StatusCode;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderValue, REFERRER_POLICY, RETRY_AFTER, X_FRAME_OPTIONS,
};

use super::form::missing_choice;
use super::shell::Shell;
use super::{assets, workspace_path};
use crate::app::App;
use crate::clock::{HOUR, MINUTE};
use crate::error::Error;
use crate::id::WorkspaceId;

/// Nothing but our own, and nobody around us.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// As [`POLICY`], for pages whose form ends at somebody else's address: browsers
/// hold `form-action` against the redirect that follows the form, too.
const POLICY_LEADING_AWAY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; frame-ancestors 'none'";

/// As [`POLICY`], for pages that show another page of ours within them.
const POLICY_FRAMING: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
     connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// As [`POLICY`], for pages whose script fetches what it searches in.
pub const DOCS_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
);

/// Where the frame of a page finds its assets and its way home.
#[derive(Clone)]
pub struct Layout {
    pub css: String,
    pub script: String,
    pub icon: String,
    /// Address of the dashboard, or of a workspace in it, without a slash at its end.
    pub dashboard: String,
    /// Address of what belongs to no workspace, without a slash at its end.
    pub account: String,
    /// Where the word mark leads.
    pub home: String,
}

impl Layout {
    /// For pages of the dashboard.
    pub fn dashboard(app: &App) -> Layout {
        let path = app.addresses.dashboard.path();
        Layout::below(path, path.to_owned(), format!("{path}/"))
    }

    /// For pages of a workspace.
    pub fn workspace(app: &App, id: WorkspaceId) -> Layout {
        let path = app.addresses.dashboard.path();
        let dashboard = workspace_path::below(path, id);
        Layout { home: format!("{dashboard}/"), dashboard, ..Layout::dashboard(app) }
    }

    /// For the few pages beside the API.
    pub fn beside_api(app: &App) -> Layout {
        let path = app.addresses.base.path();
        Layout::below(path, app.addresses.dashboard.as_str().to_owned(), format!("{path}/"))
    }

    fn below(path: &str, dashboard: String, home: String) -> Layout {
        let assets::Addresses { css, script, icon } = assets::below(path);
        Layout { css, script, icon, account: dashboard.clone(), dashboard, home }
    }
}

/// A moment: exact for machines, short for people.
#[derive(Clone)]
pub struct Stamp {
    pub iso: String,
    pub text: String,
}

const DAY: i64 = 24 * HOUR;

impl Stamp {
    pub fn new(micros: i64) -> Stamp {
        let time = jiff::Timestamp::from_microsecond(micros).unwrap_or_default();
        Stamp { iso: crate::clock::rfc3339(micros), text: time.strftime("%-d %B %Y, %H:%M UTC").to_string() }
    }

    /// The moment to the second, for what follows closely on each other.
    pub fn exact(micros: i64) -> Stamp {
        let time = jiff::Timestamp::from_microsecond(micros).unwrap_or_default();
        Stamp { iso: crate::clock::rfc3339(micros), text: time.strftime("%-d %b %Y, %H:%M:%S").to_string() }
    }

    /// The same with its zone, for where nothing else says it.
    pub fn with_zone(self) -> Stamp {
        Stamp { text: format!("{} UTC", self.text), ..self }
    }

    /// The moment, told by how long ago it was.
    pub fn ago(micros: i64, now: i64) -> Stamp {
        let count = |number: i64, unit: &str| match number {
            1 => format!("1 {unit} ago"),
            many => format!("{many} {unit}s ago"),
        };
        let text = match now - micros {
            ..MINUTE => "just now".into(),
            age @ ..HOUR => count(age / MINUTE, "minute"),
            age @ ..DAY => count(age / HOUR, "hour"),
            age if age < 31 * DAY => count(age / DAY, "day"),
            _ => {
                let time = jiff::Timestamp::from_microsecond(micros).unwrap_or_default();
                time.strftime("%-d %B %Y").to_string()
            }
        };
        Stamp { iso: crate::clock::rfc3339(micros), text }
    }
}

/// What was typed into a form field and, if it was refused, why.
#[derive(Clone, Default)]
pub struct Field {
    pub value: String,
    pub error: Option<String>,
}

impl Field {
    /// What holds something that nobody has refused.
    pub fn of(value: impl Into<String>) -> Field {
        Field { value: value.into(), error: None }
    }
}

#[derive(Clone)]
pub struct Link {
    pub href: String,
    pub label: String,
}

/// A page with its headers: never cached, never framed, nothing foreign in it.
pub fn page(status: StatusCode, page: &impl Template) -> Response {
    respond(status, page, POLICY)
}

/// As [`page`], for a page whose form leads to somebody else's address.
pub fn page_leading_away(status: StatusCode, page: &impl Template) -> Response {
    respond(status, page, POLICY_LEADING_AWAY)
}

/// As [`page`], for a page that shows another page of ours within it.
pub fn page_framing(status: StatusCode, page: &impl Template) -> Response {
    respond(status, page, POLICY_FRAMING)
}

/// As [`page`], for one of the documentation, which was rendered before and is the same for everybody: it may be kept,
/// and is asked for anew.
pub fn rendered(html: Bytes) -> Response {
    let mut response = with_headers(StatusCode::OK, html, POLICY);
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, DOCS_POLICY);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn respond(status: StatusCode, page: &impl Template, policy: &'static str) -> Response {
    match page.render() {
        Ok(html) => with_headers(status, html.into(), policy),
        Err(error) => {
            tracing::error!(%error, "a page could not be rendered");
            Error::Internal.into_response()
        }
    }
}

fn with_headers(status: StatusCode, html: Bytes, policy: &'static str) -> Response {
    let mut response = (status, Html(html)).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    response
}

#[derive(Template)]
#[template(path = "web/error.html")]
struct ErrorPage {
    layout: Layout,
    status: String,
    title: &'static str,
    sentence: String,
    retry_after: Option<String>,
    request_id: Option<String>,
}

/// The same, for somebody who is in a workspace and goes on from there.
#[derive(Template)]
#[template(path = "web/error_inside.html")]
struct ErrorInside {
    layout: Layout,
    shell: Shell,
    title: &'static str,
    sentence: String,
    retry_after: Option<String>,
}

/// An error as a page of the dashboard.
pub fn error_page(app: &App, error: &Error) -> Response {
    let (status, retry_after) = (error.status(), retry_after(error));
    let content = ErrorPage {
        layout: Layout::dashboard(app),
        status: status.as_u16().to_string(),
        title: title(status),
        sentence: sentence(error),
        retry_after: retry_after.map(in_seconds),
        request_id: None,
    };
    telling_when(page(status, &content), retry_after)
}

/// An error as a page of a workspace, which keeps its navigation.
pub fn error_page_inside(layout: Layout, shell: Shell, error: &Error) -> Response {
    let (status, retry_after) = (error.status(), retry_after(error));
    let content = ErrorInside {
        layout,
        shell,
        title: title(status),
        sentence: sentence(error),
        retry_after: retry_after.map(in_seconds),
    };
    telling_when(page(status, &content), retry_after)
}

/// What a page says of an error, to somebody who has a browser and no program.
fn sentence(error: &Error) -> String {
    if let Some((_, sentence)) = missing_choice(error) {
        return sentence;
    }
    let Error::TooLarge { limit } = error else { return error.message().into_owned() };
    let most = if *limit < 1 << 20 { format!("{} KiB", limit >> 10) } else { format!("{} MiB", limit >> 20) };
    format!(
        "That is too large: at most {most} are taken here. Go back in your browser, where what you typed still stands, \
         make it shorter or choose smaller files, and send it again."
    )
}

fn retry_after(error: &Error) -> Option<u64> {
    match error {
        Error::RateLimited { retry_after } => Some(*retry_after),
        Error::Unavailable => Some(1),
        _ => None,
    }
}

fn in_seconds(seconds: u64) -> String {
    format!("{seconds} seconds")
}

fn telling_when(mut response: Response, retry_after: Option<u64>) -> Response {
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

fn title(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "Nothing here",
        StatusCode::FORBIDDEN => "Not allowed",
        StatusCode::TOO_MANY_REQUESTS => "Too many tries",
        StatusCode::SERVICE_UNAVAILABLE => "Back in a moment",
        status if status.is_client_error() => "That did not work",
        _ => "Something went wrong",
    }
}

/// What a page answers: itself, or an error that becomes a page on its way out.
pub type PageResult = Result<Response, PageError>;

/// An error where a page was asked for.
pub struct PageError(Error);

impl<E: Into<Error>> From<E> for PageError {
    fn from(error: E) -> PageError {
        PageError(error.into())
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        let mut response = self.0.status().into_response();
        response.extensions_mut().insert(Arc::new(self.0));
        response
    }
}

/// The error that a page ended in.
pub fn error_of(response: &mut Response) -> Option<Arc<Error>> {
    response.extensions_mut().remove()
}

#[cfg(test)]
impl Layout {
    /// For templates that a test renders without a server.
    pub fn sample() -> Layout {
        Layout::below("", "/dashboard".into(), "/".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_told_by_how_long_ago_it_was() {
        let now = 1_767_323_045_000_000;
        for (age, words) in [
            (-HOUR, "just now"),
            (0, "just now"),
            (MINUTE, "1 minute ago"),
            (HOUR - 1, "59 minutes ago"),
            (2 * HOUR, "2 hours ago"),
            (DAY, "1 day ago"),
            (30 * DAY, "30 days ago"),
            (31 * DAY, "2 December 2025"),
        ] {
            assert_eq!(Stamp::ago(now - age, now).text, words);
        }
    }
}
