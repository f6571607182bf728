//! The pages of consent, as their templates see them.

use askama::Template;

use crate::credentials::Scope;
use crate::id::WorkspaceId;
use crate::oauth::redirect_uri::DestinationKind;
use crate::web::{Layout, Link, Stamp};

#[derive(Template)]
#[template(path = "oauth/consent.html")]
pub struct ConsentPage {
    pub layout: Layout,
    pub client: ClientFacts,
    pub redirect: RedirectFacts,
    pub scopes: Vec<ScopeWords>,
    pub visitor: Visitor,
    pub expires: Stamp,
    /// For the count-down, which must not trust the visitor's clock.
    pub seconds_left: u64,
}

pub struct ClientFacts {
    pub name: String,
    /// Where the client describes itself, which is who it is, whatever it calls itself.
    pub host: Option<String>,
    pub id: String,
    /// For the redirect in use, not for the client as a whole.
    pub verified: bool,
    /// `None` for a client that comes with the product.
    pub registered: Option<Stamp>,
}

pub struct RedirectFacts {
    pub host: String,
    pub kind: DestinationKind,
}

/// A scope in words that need no manual.
pub struct ScopeWords {
    pub value: &'static str,
    pub title: &'static str,
    pub can: &'static [&'static str],
    /// Each reads on after "Cannot".
    pub cannot: &'static [&'static str],
}

impl From<Scope> for ScopeWords {
    fn from(scope: Scope) -> ScopeWords {
        let value = scope.as_str();
        match scope {
            Scope::FullAccess => ScopeWords {
                value,
                title: "Everything in the workspace",
                can: &[
                    "Read and change contacts, events, automations, domains and API keys",
                    "Read mail that was sent, and send mail",
                ],
                cannot: &["see your password or act in other workspaces"],
            },
            Scope::EmailsSend => ScopeWords {
                value,
                title: "Send mail",
                can: &["Send messages and start prepared broadcasts in your name"],
                cannot: &["read sent mail, contacts or anything else"],
            },
        }
    }
}

pub enum Visitor {
    SignedOut {
        /// Where to log in.
        login_url: Option<String>,
    },
    SignedIn {
        email: String,
        sign_out_url: String,
        sign_out_hidden: Vec<(String, String)>,
        /// Those where the user may grant; one is shown as text, none leaves only Deny.
        workspaces: Vec<WorkspaceChoice>,
        /// Receives `decision` = `approve` or `deny`, `scope` (repeated), `workspace`.
        decision_url: String,
        hidden: Vec<(String, String)>,
    },
}

pub struct WorkspaceChoice {
    pub id: WorkspaceId,
    pub name: String,
    pub role: String,
    pub selected: bool,
}

#[derive(Template)]
#[template(path = "oauth/problem.html")]
pub struct ProblemPage {
    pub layout: Layout,
    /// One short word for the postmark.
    pub postmark: String,
    pub title: String,
    pub sentence: String,
    pub next: String,
    pub link: Option<Link>,
}

/// The way back to an app whose address a browser cannot show.
#[derive(Template)]
#[template(path = "oauth/return.html")]
pub struct ReturnPage {
    pub layout: Layout,
    /// One short word for the postmark.
    pub postmark: &'static str,
    pub approved: bool,
    pub client_name: String,
    pub host: String,
    /// The whole callback.
    pub href: String,
    pub code: Option<String>,
    /// Follow `href` without a click.
    pub automatic: bool,
}
