//! Who is let in where: a walk over every page and form that the router of the dashboard knows.

use axum::body::Body;
use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;

use super::Product;
use crate::accounts::{self, Role, Workspace};
use crate::auth;
use crate::clock::Clock;
use crate::db::Sql;
use crate::id::WorkspaceId;
use crate::testing::Store;
use crate::web::Gate;

/// Something that is not there.
const ID: &str = "01890000-0000-7000-8000-000000000000";
const REFUSAL: &str = "Only owners and admins of this workspace may do this.";

/// For owners alone, and what everybody else is told there, by every method.
const OWNERS: &[(&str, &str)] = &[
    ("/clients/{id}/verify", "Only whoever runs this server vouches for clients"),
    ("/team/{id}/transfer", "Only an owner of this workspace decides who owns it."),
];

const ADD_WORKSPACE: Sql = Sql(&Sql::both("INSERT INTO workspaces (id, name, created_at) VALUES ($1, $2, 0)"));
const COUNT_CHANGES: Sql = Sql(&Sql::both("SELECT COUNT(*) FROM audit_log WHERE via <> 'command'"));

/// For anybody, without a log-in.
const PUBLIC: &[&str] = &[
    "/assets/{name}",
    "/forgot",
    "/invitation/{token}",
    "/login",
    "/login/code",
    "/oauth/authorize/{id}",
    "/reset/{token}",
    "/setup/{token}",
];

/// For whoever is logged in: about himself, whatever his role.
const OWN: &[&str] = &[
    "/account",
    "/account/second-factor",
    "/account/second-factor/begin",
    "/account/second-factor/passkeys",
    "/account/second-factor/passkeys/remove",
    "/account/second-factor/remove",
    "/account/sessions/end",
    "/account/sessions/end-others",
    "/logout",
    "/password",
    "/team/leave",
    "/workspace",
];

/// What every member may see. Whatever is not in these lists is for owners and admins.
const LOOK: &[&str] = &[
    "/",
    "/apps",
    "/automations",
    "/automations/{id}",
    "/automations/{id}/runs/{run_id}",
    "/automations/{id}/versions/{version}",
    "/branding",
    "/broadcasts",
    "/broadcasts/{id}",
    "/broadcasts/{id}/html",
    "/broadcasts/{id}/recipients",
    "/clients",
    "/clients/{id}",
    "/contacts",
    "/contacts/{contact}",
    "/deliverability",
    "/domains",
    "/domains/{id}",
    "/emails",
    "/emails/{id}",
    "/emails/{id}/attachments/{attachment}",
    "/emails/{id}/html",
    "/emails/{id}/source",
    "/emails/{id}/text",
    "/erasures/{id}",
    "/events",
    "/events/{id}",
    "/forms",
    "/forms/{id}",
    "/imports",
    "/imports/{id}",
    "/keys",
    "/logs",
    "/logs/{id}",
    "/messages",
    "/occurrences/{id}",
    "/properties",
    "/received",
    "/received/{id}",
    "/received/{id}/attachments/{attachment}",
    "/received/{id}/html",
    "/received/{id}/source",
    "/runs",
    "/segments",
    "/segments/{id}",
    "/settings",
    "/suppressions",
    "/suppressions/export",
    "/team",
    "/templates",
    "/templates/{id}",
    "/templates/{id}/html",
    "/topics",
    "/topics/{id}",
    "/usage",
    "/webhooks",
    "/webhooks/{id}",
    "/webhooks/{id}/events/{event_id}",
    "/workspaces",
];

struct Walker {
    gate: Gate,
    workspace: WorkspaceId,
}

struct Seen {
    status: u16,
    allow: String,
    location: String,
    text: String,
}

impl Seen {
    /// Whether it is a refusal for the sake of the role.
    fn is_refusal(&self) -> bool {
        let mut told = OWNERS.iter().map(|(_, refusal)| *refusal).chain([REFUSAL]);
        self.status == 403 && told.any(|refusal| self.text.contains(refusal))
    }

    fn is_log_in(&self) -> bool {
        self.status == 303 && self.location.contains("/login")
    }
}

impl Walker {
    /// Asks for a page of the workspace, or sends an empty form to it.
    async fn ask(&self, method: &str, path: &str, cookie: &str) -> Seen {
        let parts: Vec<&str> = path.split('/').map(|part| if part.starts_with('{') { ID } else { part }).collect();
        let target = format!("/dashboard/w/{}{}", self.workspace, parts.join("/"));
        let request = Request::builder().method(method).uri(target).header("cookie", cookie);
        let request = request.header("content-type", "application/x-www-form-urlencoded");
        let response = self.gate.handle(request.body(Body::empty()).expect("a request"), [127, 0, 0, 1].into()).await;
        let (parts, body) = response.into_parts();
        let body: Bytes = body.collect().await.expect("a body").to_bytes();
        let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        Seen {
            status: parts.status.as_u16(),
            allow: header("allow").to_owned(),
            location: header("location").to_owned(),
            text: String::from_utf8_lossy(&body).into_owned(),
        }
    }
}

async fn session(product: &Product, workspace: &Workspace, email: &str, role: Role) -> String {
    let address = email.parse().expect("an address");
    let (user, batch) = accounts::new_user(&product.clock, &address, "no password", workspace, role);
    accounts::create_user(&product.db, batch).await.expect("a user");
    let (stmt, cookie) = auth::start_session(product, user.id);
    product.db.commit(stmt).await.expect("a session");
    cookie.to_str().expect("text").split(';').next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn t34_each_role_is_refused_on_every_page_and_form_that_it_may_not_use() {
    for store in Store::each().await {
        let product = store.open(&[], Clock::system()).await;
        let workspace = accounts::only_workspace(&product.db, &product.clock).await.expect("read").expect("one");
        let second = Workspace { id: product.clock.ordered_id(), name: "Second".into() };
        let elsewhere = ADD_WORKSPACE.with([second.id.into(), second.name.as_str().into()]);
        product.db.commit(elsewhere).await.expect("a second workspace");
        let walker = Walker { gate: product.gate(), workspace: workspace.id };
        let owner = session(&product, &workspace, "owner@example.com", Role::Owner).await;
        let admin = session(&product, &workspace, "admin@example.com", Role::Admin).await;
        let member = session(&product, &workspace, "member@example.com", Role::Member).await;
        let outsider = session(&product, &second, "outsider@example.com", Role::Owner).await;
        let paths = product.page_paths();
        let owners: Vec<&str> = OWNERS.iter().map(|(path, _)| *path).collect();
        for listed in [PUBLIC, OWN, LOOK, owners.as_slice()].into_iter().flatten() {
            assert!(paths.iter().any(|path| path == listed), "there is no page at {listed} any more");
        }
        let mut forms = 0;
        for path in paths.iter().map(String::as_str).filter(|path| !PUBLIC.contains(path)) {
            let known = walker.ask("PUT", path, "").await;
            assert_eq!(known.status, 405, "{path}");
            for method in known.allow.split(',').map(str::trim).filter(|method| *method != "HEAD") {
                let stranger = walker.ask(method, path, "").await;
                assert!(stranger.is_log_in(), "a stranger: {method} {path} is {}", stranger.status);
                let seen = walker.ask(method, path, &member).await;
                let may = OWN.contains(&path) || method == "GET" && LOOK.contains(&path);
                assert_eq!(seen.is_refusal(), !may, "a member: {method} {path} is {}", seen.status);
                let told = OWNERS.iter().find(|(for_owners, _)| *for_owners == path).map(|(_, refusal)| *refusal);
                for (who, cookie, refusal) in [("the owner", &owner, None), ("an admin", &admin, told)] {
                    let seen = walker.ask(method, path, cookie).await;
                    assert_eq!(seen.is_refusal(), refusal.is_some(), "{who}: {method} {path} is {}", seen.status);
                    assert!(refusal.is_none_or(|refusal| seen.text.contains(refusal)), "{who}: {}", seen.text);
                    assert!(seen.status < 500, "{who}: {method} {path} is {}", seen.status);
                }
                if !["/logout", "/workspace"].contains(&path) {
                    let seen = walker.ask(method, path, &outsider).await;
                    assert_eq!(seen.status, 404, "somebody of another workspace: {method} {path}");
                }
                forms += usize::from(method == "POST");
            }
        }
        assert!(forms > 100, "{forms} forms were tried");
        let written: Option<i64> = product.db.query(COUNT_CHANGES.with([])).await.expect("read");
        assert_eq!(written, Some(0), "a form without its token changes nothing");
        store.discard().await;
    }
}
