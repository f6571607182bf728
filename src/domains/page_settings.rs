//! The settings of a domain in the dashboard.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::Domains;
use super::domain::{DomainChange, MOST_ON_FIRST_DAY, TlsPolicy};
use super::pages::find;
use super::routes::change;
use super::store::Stored;
use crate::accounts::{Manage, Member};
use crate::config::TransportKind;
use crate::error::Error;
use crate::id::DomainId;
use crate::web::{self, Field, Form, Layout, PageResult, PathId, Shell};

pub fn router() -> Router<Domains> {
    Router::new().route("/domains/{id}/settings", get(ask).post(save))
}

#[derive(Template)]
#[template(path = "domains/settings.html")]
struct SettingsPage {
    layout: Layout,
    shell: Shell,
    name: String,
    back: String,
    action: String,
    hidden: Vec<(String, String)>,
    problem: Option<String>,
    return_path: String,
    settings: SettingsForm,
}

/// What can be set of a domain, as a form shows it. By default, that of a new one.
pub struct SettingsForm {
    pub open_tracking: bool,
    pub click_tracking: bool,
    pub sending: bool,
    pub receiving: bool,
    pub tls: Field,
    pub tls_options: Vec<(String, String)>,
    pub tracking_subdomain: Field,
    pub transport: Field,
    pub transport_options: Vec<(String, String)>,
    pub relays: Field,
    pub warm_up: Field,
}

impl Default for SettingsForm {
    fn default() -> SettingsForm {
        SettingsForm {
            open_tracking: false,
            click_tracking: false,
            sending: true,
            receiving: false,
            tls: Field::of(TlsPolicy::default().as_str()),
            tls_options: options(&[
                ("opportunistic", "Encrypted where the other server can"),
                ("enforced", "Encrypted with a right certificate, or not sent"),
            ]),
            tracking_subdomain: Field::default(),
            transport: Field::default(),
            transport_options: options(&[
                ("", "As the server sends all mail"),
                ("direct", "Straight to the servers of recipients"),
                ("relay", "Through relays of its own"),
                ("capture", "Not at all: kept here to be looked at"),
            ]),
            relays: Field::default(),
            warm_up: Field::default(),
        }
    }
}

fn options(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(value, word)| ((*value).to_owned(), (*word).to_owned())).collect()
}

pub fn or_null(text: &str) -> Value {
    Some(text.trim()).filter(|text| !text.is_empty()).map_or(Value::Null, Value::from)
}

fn transport_of(domain: &Stored) -> &'static str {
    domain.transport.map(TransportKind::as_str).unwrap_or_default()
}

fn warm_up_of(domain: &Stored) -> String {
    domain.warm_up.map(|mails| mails.to_string()).unwrap_or_default()
}

impl SettingsForm {
    fn of(domain: &Stored) -> SettingsForm {
        SettingsForm {
            open_tracking: domain.open_tracking,
            click_tracking: domain.click_tracking,
            sending: domain.sending,
            receiving: domain.receiving,
            tls: Field::of(&domain.tls),
            tracking_subdomain: Field::of(domain.tracking_subdomain.as_deref().unwrap_or_default()),
            transport: Field::of(transport_of(domain)),
            // What relays are reached with is secret: it can be replaced, and is not shown.
            relays: Field::default(),
            warm_up: Field::of(warm_up_of(domain)),
            ..SettingsForm::default()
        }
    }

    pub fn sent(form: &Form) -> SettingsForm {
        let is_ticked = |name: &str| form.text(name) == "on";
        SettingsForm {
            open_tracking: is_ticked("open_tracking"),
            click_tracking: is_ticked("click_tracking"),
            sending: is_ticked("sending"),
            receiving: is_ticked("receiving"),
            tls: form.field("tls"),
            tracking_subdomain: form.field("tracking_subdomain"),
            transport: form.field("transport"),
            relays: form.field("relays"),
            warm_up: form.field("warm_up"),
            ..SettingsForm::default()
        }
    }

    /// As a request would say it; of a domain that is there, what was changed.
    pub fn fields(&self, domain: Option<&Stored>) -> Map<String, Value> {
        let mut fields = Map::new();
        let capability = |is_enabled| if is_enabled { "enabled" } else { "disabled" };
        fields.insert("open_tracking".into(), self.open_tracking.into());
        fields.insert("click_tracking".into(), self.click_tracking.into());
        fields.insert("tls".into(), self.tls.value.as_str().into());
        let capabilities = json!({"sending": capability(self.sending), "receiving": capability(self.receiving)});
        fields.insert("capabilities".into(), capabilities);
        fields.insert("tracking_subdomain".into(), or_null(&self.tracking_subdomain.value));
        let (before, now) = (domain.map(transport_of).unwrap_or_default(), self.transport.value.as_str());
        let relays = self.relays.value.trim();
        if now == "relay" && (before != "relay" || !relays.is_empty()) {
            fields.insert("transport".into(), relays.into());
        } else if now != before {
            fields.insert("transport".into(), or_null(now));
        }
        let warm_up = self.warm_up.value.trim();
        // The same number again would begin a warm-up anew.
        if warm_up != domain.map(warm_up_of).unwrap_or_default() {
            let number = warm_up.parse::<u32>().map_or_else(|_| or_null(warm_up), Value::from);
            fields.insert("warm_up".into(), number);
        }
        fields
    }

    /// Puts a refusal beside the field that it is about, of these or of others; what is about none comes back.
    pub fn refuse<const N: usize>(
        &mut self,
        refusal: &Error,
        others: [(&'static str, &mut Field); N],
    ) -> Option<String> {
        let own = [
            ("tls", &mut self.tls),
            ("tracking_subdomain", &mut self.tracking_subdomain),
            ("transport", &mut self.relays),
            ("warm_up", &mut self.warm_up),
        ];
        let problem = web::beside_field(refusal, others.into_iter().chain(own));
        // A form has no null.
        if self.warm_up.error.is_some() {
            let sentence = format!("Write how many mails, from 1 to {MOST_ON_FIRST_DAY}, or leave it empty.");
            self.warm_up.error = Some(sentence);
        }
        problem
    }
}

fn purpose(id: DomainId) -> String {
    format!("settings of domain {id}")
}

fn page(member: &Member<Manage>, domain: &Stored, settings: SettingsForm) -> SettingsPage {
    let back = member.address(&format!("/domains/{}", domain.id));
    SettingsPage {
        layout: member.layout(),
        shell: member.shell("/domains"),
        name: domain.name.clone(),
        action: format!("{back}/settings"),
        back,
        hidden: member.hidden(&purpose(domain.id)),
        problem: None,
        return_path: format!("{}.{}", domain.return_path, domain.name),
        settings,
    }
}

async fn ask(member: Member<Manage>, id: Result<PathId<DomainId>, Error>) -> PageResult {
    let domain = find(&member, id).await?;
    Ok(web::page(StatusCode::OK, &page(&member, &domain, SettingsForm::of(&domain))))
}

async fn save(
    State(domains): State<Domains>,
    member: Member<Manage>,
    id: Result<PathId<DomainId>, Error>,
    form: Form,
) -> PageResult {
    let domain = find(&member, id).await?;
    let accepted = member.accept(&purpose(domain.id), &form)?;
    let mut typed = SettingsForm::sent(&form);
    let saving = async {
        let changed: DomainChange = web::read_fields(typed.fields(Some(&domain)))?;
        change(&domains, &accepted, domain.id, &changed).await
    };
    let refusal = match saving.await {
        Ok(()) => return Ok(member.see_other(&format!("/domains/{}?saved", domain.id))),
        Err(refusal) if refusal.status().is_client_error() => refusal,
        Err(error) => return Err(error.into()),
    };
    let problem = typed.refuse(&refusal, []);
    Ok(web::page(refusal.status(), &SettingsPage { problem, ..page(&member, &domain, typed) }))
}
