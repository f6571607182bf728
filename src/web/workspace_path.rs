//! The workspace in the address of a page: `/w/{workspace}/contacts` is the page at
//! `/contacts`, seen in that workspace. One list of routes serves them all.

use axum::body::Body;
use axum::extract::OriginalUri;
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{Request, Uri};

use crate::id::WorkspaceId;

/// The workspace that the address of a page names.
#[derive(Clone, Copy)]
pub struct NamedWorkspace(pub WorkspaceId);

/// Where the pages of a workspace are, of a dashboard at `dashboard`.
pub fn below(dashboard: &str, workspace_id: WorkspaceId) -> String {
    format!("{dashboard}/w/{workspace_id}")
}

/// Takes the workspace out of a page's address, and keeps it beside.
pub(super) fn take(request: &mut Request<Body>, dashboard: &str) {
    let Some(inside) = request.uri().path().strip_prefix(dashboard).and_then(|path| path.strip_prefix("/w/")) else {
        return;
    };
    let (id, rest) = inside.find('/').map_or((inside, ""), |end| inside.split_at(end));
    let Ok(workspace_id) = id.parse() else { return };
    let path = match format!("{dashboard}{rest}") {
        root if root.is_empty() => "/".to_owned(),
        path => path,
    };
    let whole = request.uri().query().map_or(path.clone(), |query| format!("{path}?{query}"));
    if let Ok(whole) = whole.parse::<PathAndQuery>() {
        *request.uri_mut() = Uri::from(whole);
        request.extensions_mut().insert(NamedWorkspace(workspace_id));
    }
}

/// What follows the workspace in the address that was asked for.
pub fn rest(parts: &Parts, dashboard: &str) -> String {
    let uri = parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |OriginalUri(uri)| uri);
    let whole = uri.path_and_query().map_or("/", PathAndQuery::as_str);
    let rest = whole.strip_prefix(dashboard).unwrap_or(whole);
    if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") }
}

/// The address that was asked for, with its workspace.
pub fn asked(parts: &Parts, dashboard: &str) -> String {
    let place = match parts.extensions.get::<NamedWorkspace>() {
        Some(NamedWorkspace(id)) => below(dashboard, *id),
        None => dashboard.to_owned(),
    };
    format!("{place}{}", rest(parts, dashboard))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01890000-0000-7000-8000-000000000001";

    fn taken(target: &str, dashboard: &str) -> (String, bool, String) {
        let mut request = Request::builder().uri(target).body(Body::empty()).expect("a request");
        take(&mut request, dashboard);
        let named = request.extensions().get::<NamedWorkspace>().is_some();
        let (parts, _) = request.into_parts();
        (parts.uri.to_string(), named, asked(&parts, dashboard))
    }

    #[test]
    fn the_workspace_is_taken_out_of_the_address_and_nothing_else_is() {
        for (target, dashboard, inside) in [
            (format!("/dashboard/w/{ID}/contacts?limit=2&x=/w/"), "/dashboard", "/dashboard/contacts?limit=2&x=/w/"),
            (format!("/dashboard/w/{ID}"), "/dashboard", "/dashboard"),
            (format!("/w/{ID}/keys/1/delete"), "", "/keys/1/delete"),
            (format!("/w/{ID}"), "", "/"),
        ] {
            let (path, named, _) = taken(&target, dashboard);
            assert_eq!((path.as_str(), named), (inside, true), "{target}");
        }
        for target in ["/dashboard/w/no-id/contacts", "/dashboard/w/", "/dashboard/contacts", &format!("/w/{ID}/x")] {
            assert_eq!(
                taken(target, "/dashboard"),
                (target.into(), false, format!("/dashboard{}", target.strip_prefix("/dashboard").unwrap_or(target)))
            );
        }
    }

    #[test]
    fn what_was_asked_for_can_be_told_again() {
        let target = format!("/dashboard/w/{ID}/contacts?limit=2");
        assert_eq!(taken(&target, "/dashboard").2, target);
    }
}
