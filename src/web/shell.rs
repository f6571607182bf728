//! The frame of every signed-in page: navigation, the workspace, the way out;
//! and the page that asks before something final.

use askama::Template;

use super::layout::Layout;
use crate::id::WorkspaceId;

/// The rail beside a signed-in page.
#[derive(Clone)]
pub struct Shell {
    pub workspace: String,
    /// Every workspace of the visitor, if there is a choice.
    pub workspaces: Vec<Choice>,
    pub email: String,
    /// What to say of the hold that is in force, if any.
    pub hold: Option<String>,
    /// Address of the API's reference.
    pub docs: String,
    pub places: Vec<PlaceGroup>,
    /// Hidden fields of the sign-out form.
    pub hidden: Vec<(String, String)>,
    /// Hidden fields of the form that changes the workspace.
    pub switch_hidden: Vec<(String, String)>,
}

#[derive(Clone)]
pub struct Choice {
    pub id: WorkspaceId,
    pub name: String,
    pub current: bool,
}

/// Entries of the navigation that belong together.
#[derive(Clone)]
pub struct PlaceGroup {
    /// Empty where they need none.
    pub label: &'static str,
    pub places: Vec<Place>,
}

/// One entry of the navigation; `path` follows the dashboard's address.
#[derive(Clone)]
pub struct Place {
    pub path: &'static str,
    pub icon: &'static str,
    pub label: &'static str,
    pub current: bool,
}

/// The navigation, seen from the page at `current`, by somebody who manages the workspace or does not.
pub fn places(current: &str, manages: bool) -> Vec<PlaceGroup> {
    let place = |path, icon, label| Place { path, icon, label, current: path == current };
    let group = |label, places| PlaceGroup { label, places };
    let mut groups = vec![
        group("", vec![place("/", "home", "Overview")]),
        group(
            "People",
            vec![
                place("/contacts", "people", "Contacts"),
                place("/segments", "tag", "Segments"),
                place("/topics", "topic", "Topics"),
                place("/properties", "property", "Properties"),
                place("/imports", "import", "Imports"),
                place("/forms", "form", "Forms"),
            ],
        ),
        group(
            "Automate",
            vec![
                place("/automations", "branch", "Automations"),
                place("/runs", "hourglass", "Runs"),
                place("/events", "event", "Events"),
            ],
        ),
        group(
            "Mail",
            vec![
                place("/emails", "mail", "Emails"),
                place("/received", "inbox", "Received"),
                place("/broadcasts", "send", "Broadcasts"),
                place("/templates", "book", "Templates"),
                place("/suppressions", "lock", "Suppressions"),
            ],
        ),
        group(
            "Deliver",
            vec![
                place("/domains", "globe", "Domains"),
                place("/deliverability", "check", "Deliverability"),
                place("/webhooks", "apps", "Webhooks"),
                place("/logs", "computer", "Request log"),
            ],
        ),
        group(
            "Workspace",
            vec![
                place("/team", "person", "Team"),
                place("/keys", "key", "API keys"),
                place("/apps", "apps", "Connected apps"),
                place("/clients", "computer", "OAuth clients"),
                place("/audit", "list", "Audit log"),
                place("/settings", "gear", "Settings"),
                place("/workspaces", "home", "Workspaces"),
            ],
        ),
    ];
    if !manages {
        groups.iter_mut().for_each(|group| group.places.retain(|place| place.path != "/audit"));
    }
    groups
}

/// The question before something that cannot be undone.
#[derive(Template)]
#[template(path = "web/confirm.html")]
pub struct ConfirmPage {
    pub layout: Layout,
    pub shell: Shell,
    pub title: String,
    pub subject: String,
    pub sentence: String,
    pub action: String,
    pub hidden: Vec<(String, String)>,
    pub button: String,
    pub cancel: String,
}
