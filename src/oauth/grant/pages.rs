//! The pages of connected apps, as their templates see them.

use askama::Template;

use crate::grants::{AppAutomation, AppWebhook};
use crate::web::{Layout, Shell, Stamp};

#[derive(Template)]
#[template(path = "oauth/apps.html")]
pub struct AppsPage {
    pub layout: Layout,
    pub shell: Shell,
    pub notice: Option<String>,
    pub may_manage: bool,
    pub grants: Vec<GrantRow>,
    pub newer: Option<String>,
    pub older: Option<String>,
}

pub struct GrantRow {
    pub client: String,
    pub verified: bool,
    pub scopes: Vec<&'static str>,
    pub approved_by: String,
    pub approved_at: Stamp,
    pub last_used: Option<Stamp>,
    pub active: bool,
    pub status: &'static str,
    /// Why it was revoked.
    pub reason: Option<&'static str>,
    pub revoke_url: Option<String>,
}

#[derive(Template)]
#[template(path = "oauth/apps_revoke.html")]
pub struct RevokePage {
    pub layout: Layout,
    pub shell: Shell,
    pub client: String,
    pub client_id: String,
    pub scopes: Vec<&'static str>,
    pub approved_by: String,
    /// What stops with the access, unless it is to be kept.
    pub automations: Vec<AppAutomation>,
    pub webhooks: Vec<AppWebhook>,
    pub action: String,
    pub hidden: Vec<(String, String)>,
    pub cancel: String,
}
